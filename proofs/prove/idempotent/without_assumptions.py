"""For each assumption about producers, a run that it excludes and that breaks a guarantee.

The scopes are as small as the trace allows: few sequences, so that they wrap soon, and a window of
two batches, so that it is soon too small.
"""

from __future__ import annotations

from proofs.lift.patch import Patch
from proofs.prove.engine.assumption_necessity import Dropped

BELOW_IS_DUPLICATE = (
    Patch(
        "leader.on_produce",
        "refusal(leader, batch, error)",
        "Step(leader, (replace(success(k, leader, batch, 0).sends[0], base_offset=INVALID_OFFSET,"
        " required_offset=log_end_offset(leader.log)),))"
        " if error == Error.OUT_OF_ORDER_SEQUENCE_NUMBER"
        " and batch.producer_epoch == entry.producer_epoch"
        " and batch.base_sequence <= entry.batches[-1].last_sequence"
        " else refusal(leader, batch, error)",
    ),
    Patch(
        "guarantees.is_true",
        "answer.error != Error.NONE",
        "answer.error != Error.NONE or answer.base_offset < 0",
    ),
)
"""A leader that takes any batch below the next sequence for a duplicate, without knowing its
offset."""

WRAPPED = Dropped(
    "at_most_once",
    {"records": 6, "in_flight": 2, "window": 2, "log": 6, "max_sequence": 5, "max_epoch": 1},
    {"records": 6, "breaks": 1},
)
"""Six sequences: a request of the first batch arrives when its sequence is used again."""

LARGE = Dropped(
    "acked_is_stored",
    {"records": 4, "in_flight": 1, "window": 2, "log": 3, "max_sequence": 2},
    {"records": 4, "breaks": 0},
)
"""Three sequences: the third batch has those of the first, which the leader remembers."""

OVERTAKES = (Patch("network.broken", "link.requests[:survivors]", "link.requests[-survivors:]"),)
"""The last requests of a broken connection arrive, instead of the first."""

HEARS_THE_LATE = (
    Patch(
        "world.late_request_arrives",
        "network.arrived_late(link, connection)",
        "network.arrived_late(replace(link, answers=(*link.answers, *step.sends)), connection)",
    ),
)
"""The open connection answers a broken connection's requests, as if it carried old requests after
new ones."""

SMALL = {"records": 3, "in_flight": 2, "log": 5, "max_epoch": 1}

DROPPED: dict[str, Dropped] = {
    "no_wrap": WRAPPED,
    "message_lifetime": WRAPPED,
    "batches_are_small": LARGE,
    "high_watermark_survives": Dropped(
        "acked_is_stored",
        {**SMALL, "replicas": 2},
        {"records": 3, "breaks": 1, "losses": 1},
    ),
    "nothing_forgotten": Dropped("at_most_once", SMALL, {"records": 3, "breaks": 1, "expiries": 1}),
    "nothing_deleted": Dropped(
        "at_most_once",
        SMALL,
        {"records": 3, "breaks": 1, "deletions": 2, "restarts": 1},
    ),
    "no_more_in_flight_than_remembered": Dropped(
        "no_false_error",
        {"records": 4, "in_flight": 3, "window": 2, "log": 4, "max_epoch": 1},
        {"records": 4, "breaks": 1},
        "first_sequence=strict/restart_window=full",
    ),
    "strict_first_sequence": Dropped(
        "acked_is_stored",
        SMALL,
        {"records": 3, "breaks": 1, "refusals": 1},
        patches=BELOW_IS_DUPLICATE,
    ),
    "nothing_times_out": Dropped(
        "acked_once",
        SMALL,
        {"records": 3, "breaks": 1, "timeouts": 1},
        "first_sequence=strict/restart_window=full",
    ),
    "nothing_is_rejected": Dropped(
        "acked_once",
        SMALL,
        {"records": 3, "breaks": 1, "rejections": 1},
        "first_sequence=strict/restart_window=full",
    ),
    "no_restart": Dropped("acked_once", SMALL, {"records": 3, "breaks": 2, "restarts": 1}),
    "connections_keep_order": Dropped(
        "no_false_error", SMALL, {"records": 3, "breaks": 1}, patches=OVERTAKES
    ),
    "requests_come_as_sent": Dropped(
        "nothing_fails",
        SMALL,
        {"records": 3, "breaks": 2, "restarts": 1},
        "first_sequence=strict",
        patches=HEARS_THE_LATE,
    ),
    "own_producer_id": Dropped(
        "acked_is_stored",
        {**SMALL, "in_flight": 1, "producers": 2, "shared_producer_id": True},
        {"records": 2, "breaks": 1},
        "first_sequence=strict",
    ),
    "answers_in_order": Dropped(
        "no_false_error",
        {"records": 4, "in_flight": 2, "window": 2, "log": 4, "max_epoch": 1},
        {"records": 4, "breaks": 2, "refusals": 1},
        "first_sequence=strict/restart_window=full",
    ),
}
