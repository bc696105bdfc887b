"""The invariant of one producer: the clauses of its modules, in groups that theorems ask for."""

from __future__ import annotations

from proofs.prove.engine.induction import Clause, clause_of, collected
from proofs.prove.idempotent import auxiliary, clauses, fifo, order
from proofs.prove.idempotent.clause_forms import of_replay
from proofs.prove.idempotent.clauses import CLIENT, OFFSETS, SENT

FOUND = collected(clauses)
HELPERS: tuple[Clause, ...] = (
    *(c for c in FOUND if c.subject is not of_replay),
    *(c for c in FOUND if c.subject is of_replay),
)
WHOLE: tuple[Clause, ...] = (clause_of(order.log_is_whole),)
"""True where the first sequence of an epoch must be 0."""
ORDERED = tuple(c for c in collected(order) if c not in WHOLE)
"""What was numbered, over all epochs; none of it is about a leader."""
NEIGHBOURS: tuple[Clause, ...] = (clause_of(auxiliary.neighbours_follow),)
"""What is so of batches in flight with records that follow each other."""
UNFENCED = tuple(c for c in collected(auxiliary) if c not in NEIGHBOURS)
"""True where each connection carries requests in the order of their sends."""

GUARANTEED: dict[str, Clause] = {
    c.name: c
    for module in (clauses, order, fifo, auxiliary)
    for c in collected(module, "guarantees")
}
IN_TURN: tuple[Clause, ...] = (*collected(fifo), GUARANTEED["no_false_error"])
"""True where no answer refuses what is stored, and nothing times out, of one open connection."""


def in_calm(clauses: tuple[Clause, ...]) -> tuple[Clause, ...]:
    """The clauses, resting on what keeps a producer from recovering; sequences tell which batch is
    sent again, and no leader evicts what it has."""
    uses = (*fifo.CALM, *OFFSETS, "in_flight_is_numbered")
    return tuple(c.also(*uses) for c in clauses)


RECOVERABLE = (
    *CLIENT,
    *SENT,
    "in_flight_is_numbered",
    "batches_stay_whole",
    "history_agrees",
    "in_flight_has_its_place",
)
HELPERS_WITH_RESETS = tuple(in_calm((c,))[0] if c.name in RECOVERABLE else c for c in HELPERS)
"""The helpers where a producer would recover by another producer id: nothing makes it take one."""
