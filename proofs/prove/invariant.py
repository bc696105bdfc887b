"""The invariant: the clauses in their order, each with what its induction stands on.

A clause uses others, cuts (lemmas about one step, proved before they are used) and assumptions,
all by name; nothing else is given to the solvers when it is proved.
"""

from __future__ import annotations

from collections.abc import Callable

from proofs.lift.dag import Node
from proofs.prove import auxiliary, fifo, order
from proofs.prove.clauses import (
    MemoryFormula,
    acked_is_replicated,
    acked_is_stored,
    answers_are_true,
    at_most_once,
    batches_stay_whole,
    epochs_rise,
    history_agrees,
    history_is_replay,
    in_flight_has_its_place,
    in_flight_in_order,
    in_flight_is_mine,
    in_flight_is_numbered,
    log_is_numbered,
    log_is_whole,
    log_rises,
    log_was_sent,
    memory_has_last_epoch,
    memory_is_sound,
    newest_is_last,
    no_gap,
    nothing_stored_is_empty,
    of_leader,
    of_replay,
    offsets_rise,
    order_within_epoch,
    remembers_all,
    remembers_five,
    sent_is_numbered,
    sent_once_numbered,
    watermark_within_log,
    window_has_no_gap,
    window_is_log,
    window_is_numbered,
)
from proofs.prove.induction import ARITHMETIC, LENGTH, RULED, Clause, clause, follows
from proofs.prove.smt import Formula
from proofs.prove.state import ProofState


def every_prefix(
    name: str, says: str, of_prefix: Callable[[ProofState, Node], Formula], *uses: str
) -> Clause:
    """A clause about every prefix of the log."""

    def formula(state: ProofState) -> Formula:
        bound, body = of_prefix(state, LENGTH)
        return (LENGTH, *bound), body

    return Clause(name, says, formula, frozenset(uses), of_prefix=of_prefix)


OFFSETS = ("offsets_rise", "nothing_stored_is_empty", "watermark_within_log")
CLIENT = ("epochs_rise", "in_flight_in_order", "in_flight_is_mine")
SENT = ("sent_is_numbered", "sent_once_numbered")
FLYING = (*CLIENT, *SENT, "batches_stay_whole", "in_flight_has_its_place")
MEMORY: dict[MemoryFormula, tuple[str, ...]] = {
    memory_has_last_epoch: (),
    memory_is_sound: (),
    window_is_log: ("memory_is_sound",),
    window_is_numbered: ("memory_is_sound", "window_is_log"),
    window_has_no_gap: ("memory_is_sound", "window_is_log"),
    newest_is_last: ("memory_is_sound", "window_is_log"),
    remembers_all: (
        "memory_is_sound",
        "window_is_log",
        "window_has_no_gap",
        "newest_is_last",
        "memory_has_last_epoch",
    ),
}
"""What is true of a memory, with what else of it the induction stands on."""
HISTORY = tuple(f"history/{function.__name__}" for function in MEMORY)
SURVIVES = "high_watermark_survives"
"""An assumption: a new leader has all below the high watermark."""
IN_ORDER = "answers_in_order"
"""An assumption: only leaders refuse, on an open connection in its order."""
IN_LINE = "connections_keep_order"
"""An assumption: a connection that broke keeps its order, and ends with its leader."""
NO_RESTART = "no_restart"
"""An assumption: brokers fail over, but do not come back with less than they knew."""
IN_TIME = "nothing_times_out"
"""An assumption: no producer gives a batch up."""
AS_SENT = "requests_come_as_sent"
"""An assumption: a connection keeps its order, and what is left of others was sent before."""
HEARD = "errors_were_answered"
"""What a client hears is an error that there is, and that a leader has answered."""
COUNTED = "sequences_suffice"
"""An assumption: what the regime says of how many records there are."""
ACCEPTED = "accepted_follows"
SAME = "sequence_names_records"
ANSWERED = "duplicate_is_the_same"
DERIVED = "first_sequence_is_derived"
NAMED = "sequence_names_batch"
NEAR = "window_is_near"
BELOW = "below_is_stored"
NEWEST = "newest_is_appended"
FOLLOWS = "follows_in_sequence"
"""Cuts: lemmas about a request that arrives, each proved before it is used."""


def clause_of_leader(function: MemoryFormula, *uses: str) -> Clause:
    """What is so of the leader's memory."""
    name = function.__name__
    others = (*uses, *MEMORY.get(function, ()), *OFFSETS, ACCEPTED)
    says = (function.__doc__ or "").strip()
    return Clause(name, says, of_leader(function), frozenset(others))


def clause_of_replay(function: MemoryFormula, *uses: str) -> Clause:
    """What is so of the memory of a leader that replays a prefix of the log."""
    says = f"After any replay: {(function.__doc__ or '').strip()}"
    name = f"history/{function.__name__}"
    others = (*uses, *(f"history/{other}" for other in MEMORY.get(function, ())))
    of_prefix = of_replay(function)
    return every_prefix(name, says, of_prefix, *others, *OFFSETS, ACCEPTED, "history_agrees")


HELPERS: tuple[Clause, ...] = (
    clause(epochs_rise, *CLIENT),
    clause(in_flight_in_order, *CLIENT),
    clause(in_flight_is_numbered, *CLIENT, COUNTED, ARITHMETIC),
    clause(in_flight_is_mine, *CLIENT),
    clause(sent_is_numbered, *CLIENT, "in_flight_is_numbered", COUNTED),
    clause(sent_once_numbered, *FLYING),
    clause(batches_stay_whole, *FLYING),
    clause(in_flight_has_its_place, *FLYING),
    clause(log_was_sent, "sent_is_numbered", *CLIENT, "watermark_within_log"),
    clause(log_is_numbered, "watermark_within_log"),
    clause(
        log_rises,
        "memory_is_sound",
        "memory_has_last_epoch",
        "window_is_log",
        "newest_is_last",
        ACCEPTED,
        *OFFSETS,
    ),
    clause(offsets_rise, *OFFSETS),
    clause(nothing_stored_is_empty, *OFFSETS, "sent_is_numbered"),
    clause(watermark_within_log, *OFFSETS, "sent_is_numbered"),
    clause(answers_are_true, *OFFSETS, ACCEPTED, ANSWERED),
    every_prefix(
        "history_is_replay",
        (history_is_replay.__doc__ or "").strip(),
        history_is_replay,
        "watermark_within_log",
    ),
    clause(history_agrees, "watermark_within_log", "memory_is_sound", "history/memory_is_sound"),
    *(clause_of_leader(function) for function in MEMORY if function is not remembers_all),
    *(clause_of_replay(function) for function in MEMORY),
)

WHOLE: tuple[Clause, ...] = (
    clause(
        log_is_whole,
        "log_rises",
        "memory_is_sound",
        "memory_has_last_epoch",
        "window_is_log",
        "newest_is_last",
        ACCEPTED,
        RULED,
        *OFFSETS,
    ),
)
"""True where the first sequence of an epoch must be 0."""

NUMBERED = ("numbered_is_known", "in_flight_was_numbered", "numbered_stays_whole", *CLIENT)
KEPT = (*NUMBERED, "in_flight_keeps_its_place")
THERE = ("in_flight_was_there_before", "sent_is_numbered", "sent_was_numbered")
ORDERED: tuple[Clause, ...] = (
    clause(order.numbered_is_known, *NUMBERED),
    clause(order.in_flight_was_numbered, *CLIENT),
    clause(order.sent_was_numbered, "in_flight_was_numbered", *CLIENT),
    clause(order.numbered_stays_whole, *NUMBERED),
    clause(order.in_flight_keeps_its_place, *KEPT),
    clause(order.numbered_once, *KEPT),
    clause(order.in_flight_was_there_before, *NUMBERED, *THERE),
    clause(order.sent_was_there_before, *NUMBERED, *THERE),
)
"""What was numbered, over all epochs; none of it is about a leader."""

ACROSS = (
    "log_is_whole",
    "sent_was_numbered",
    "sent_was_there_before",
    "numbered_is_known",
    "numbered_once",
)
CONSEQUENCE = ("log_was_sent", "log_rises", *SENT)

CALM = ("nothing_to_recover", "first_epoch", "no_false_error", IN_ORDER, IN_TIME)
PLACED = ("positions_are_records", "sent_in_first_epoch", *CLIENT, *CALM)
ANSWERED_IN_TURN, STORED_IN_TURN = "is_answered", "is_stored_then"
IN_TURN: tuple[Clause, ...] = (
    clause(fifo.nothing_to_recover, *CALM),
    clause(fifo.first_epoch, *CALM),
    clause(fifo.positions_are_records, *PLACED, "requests_in_order"),
    clause(fifo.sent_in_first_epoch, *PLACED),
    clause(fifo.acknowledged_in_order, *PLACED, "requests_in_order"),
    clause(fifo.requests_in_order, *PLACED),
    clause(
        fifo.handled_is_stored,
        *PLACED,
        "requests_in_order",
        "memory_is_sound",
        "window_is_log",
        *OFFSETS,
        STORED_IN_TURN,
    ),
    clause(fifo.no_false_error, *CALM, ANSWERED_IN_TURN),
)
"""True where no answer refuses what is stored, and nothing times out, of one open connection."""


NEIGHBOURS: tuple[Clause, ...] = (clause(auxiliary.neighbours_follow, *CLIENT),)
"""What is so of batches in flight with records that follow each other."""

UNFENCED: tuple[Clause, ...] = (
    clause(
        auxiliary.epochs_in_turn,
        *CLIENT,
        "sent_is_numbered",
        "memory_is_sound",
        "window_is_log",
        "memory_has_last_epoch",
        AS_SENT,
    ),
    clause(auxiliary.nobody_is_fenced, "epochs_in_turn", AS_SENT),
)
"""True where each connection carries requests in the order of their sends."""


def in_calm(clauses: tuple[Clause, ...]) -> tuple[Clause, ...]:
    """The clauses, resting on what keeps a producer from recovering; sequences tell which batch is
    sent again, and no leader evicts what it has."""
    uses = (*CALM, *OFFSETS, "in_flight_is_numbered")
    return tuple(c.also(*uses) for c in clauses)


RECOVERABLE = (*CLIENT, *SENT, "in_flight_is_numbered", "batches_stay_whole", "history_agrees")
HELPERS_WITH_RESETS = tuple(
    in_calm((c,))[0] if c.name in (*RECOVERABLE, "in_flight_has_its_place") else c for c in HELPERS
)
"""The helpers where a producer would recover by another producer id: nothing makes it take one."""


MEMORY_NOW = ("memory_is_sound", "window_is_log", "log_was_sent", "sent_in_first_epoch", *SENT)
BEGUN = (*CLIENT, "first_epoch", "positions_are_records", IN_ORDER)
TURN: dict[str, tuple[str, ...]] = {
    "head_is_stored": (
        *MEMORY_NOW,
        *OFFSETS,
        "acknowledged_in_order",
        "acked_is_replicated",
        "newest_is_last",
        "memory_has_last_epoch",
        "log_rises",
    ),
    "begins_within": (*MEMORY_NOW, *BEGUN, "head_is_stored", "handled_is_stored"),
    "remembered_is_placed": (*MEMORY_NOW, *CLIENT, "first_epoch", "in_flight_has_its_place"),
    "window_begins_epoch": (*MEMORY_NOW, *OFFSETS, "remembers_five", "log_is_whole"),
    "is_remembered": (
        *BEGUN,
        "memory_is_sound",
        "window_has_no_gap",
        "remembered_is_placed",
        "window_begins_epoch",
        "begins_within",
    ),
    ANSWERED_IN_TURN: (
        *MEMORY_NOW,
        *BEGUN,
        "window_is_numbered",
        "begins_within",
        "is_remembered",
        DERIVED,
        ACCEPTED,
        FOLLOWS,
    ),
    STORED_IN_TURN: (
        *MEMORY_NOW,
        *OFFSETS,
        *BEGUN,
        "newest_is_last",
        "log_rises",
        ANSWERED_IN_TURN,
        ANSWERED,
        ACCEPTED,
        NEWEST,
    ),
}
"""The cuts of a request that is handled in its turn, and what each stands on."""

GUARANTEED: dict[str, Clause] = {
    c.name: c
    for c in (
        follows(at_most_once, *CONSEQUENCE),
        follows(order_within_epoch, *CONSEQUENCE),
        follows(order.order_kept, *CONSEQUENCE, *ACROSS),
        clause(
            acked_is_replicated,
            *OFFSETS,
            ACCEPTED,
            "log_was_sent",
            "answers_are_true",
            "in_flight_in_order",
            "batches_stay_whole",
            SURVIVES,
        ),
        follows(acked_is_stored, "acked_is_replicated", "answers_are_true"),
        clause(
            no_gap,
            *OFFSETS,
            "memory_is_sound",
            "memory_has_last_epoch",
            "window_is_log",
            "newest_is_last",
            ACCEPTED,
            RULED,
        ),
        clause(remembers_five, *OFFSETS, *MEMORY[remembers_all], ACCEPTED, RULED),
        IN_TURN[-1],
        follows(fifo.bumps_have_causes, "first_epoch", "no_false_error"),
        follows(
            fifo.acked_once,
            "acked_is_replicated",
            "at_most_once",
            "log_was_sent",
            "sent_in_first_epoch",
        ),
        follows(
            auxiliary.sequences_follow,
            *CLIENT,
            "neighbours_follow",
            "in_flight_is_numbered",
            ARITHMETIC,
        ),
        follows(
            auxiliary.remembers_the_newest,
            "memory_is_sound",
            "memory_has_last_epoch",
            "window_is_log",
            "newest_is_last",
        ),
        clause(auxiliary.nothing_fails, "nobody_is_fenced", HEARD, IN_TIME),
    )
}
