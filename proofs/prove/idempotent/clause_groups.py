"""The invariant of one producer: the clauses of its modules, in the groups that theorems use."""

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
"""Holds if the first sequence of an epoch must be 0."""
ORDERED = tuple(c for c in collected(order) if c not in WHOLE)
"""Clauses about what was numbered, over all epochs; none is about a leader."""
NEIGHBOURS: tuple[Clause, ...] = (clause_of(auxiliary.neighbours_follow),)
"""Clauses about batches in flight whose records follow each other."""
UNFENCED = tuple(c for c in collected(auxiliary) if c not in NEIGHBOURS)
"""Clauses that hold if each connection carries requests in the order in which they were sent."""

GUARANTEED: dict[str, Clause] = {
    c.name: c
    for module in (clauses, order, fifo, auxiliary)
    for c in collected(module, "guarantees")
}
IN_TURN: tuple[Clause, ...] = (*collected(fifo), GUARANTEED["no_false_error"])
"""Clauses about one open connection, which hold if no answer refuses a stored batch, and nothing
times out."""


def in_calm(clauses: tuple[Clause, ...]) -> tuple[Clause, ...]:
    """Return the clauses with more clauses to use: those that keep a producer from recovering.
    Sequences then identify the batch that is sent again, and no leader evicts what it has."""
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
"""The helper clauses for a producer that would recover by another producer id, if nothing makes it
take one."""
