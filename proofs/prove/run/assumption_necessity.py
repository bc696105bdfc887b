"""Assumption necessity: for each assumption, a trace that breaks a guarantee without it.

The scopes are as small as the trace allows: few sequences, so that they wrap soon, and a window of
two batches, so that it is soon too small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from model.faults import fit
from model.releases import NEWEST
from proofs.explore.scope import Finding, finding, header_of
from proofs.explore.source import explore_source, instances
from proofs.lift.patch import Patch
from proofs.lift.source import Model, load_model
from proofs.trace.replay import Stepper


@dataclass(frozen=True, slots=True)
class Dropped:
    """Where a run that the assumption excludes breaks a guarantee."""

    property: str
    bounds: Mapping[str, int]
    budgets: Mapping[str, int]
    variant: str = NEWEST
    patches: tuple[Patch, ...] = field(default=())
    home: str = "idempotent"


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
"""A leader that takes whatever is below the next sequence for a duplicate; it knows no offset."""

WRAPPED = Dropped(
    "at_most_once",
    {"records": 6, "in_flight": 2, "window": 2, "log": 6, "max_sequence": 5, "max_epoch": 1},
    {"records": 6, "breaks": 1},
)
"""Six sequences: a request of the first batch arrives when its sequence comes round again."""

LARGE = Dropped(
    "acked_is_stored",
    {"records": 4, "in_flight": 1, "window": 2, "log": 3, "max_sequence": 2},
    {"records": 4, "breaks": 0},
)
"""Three sequences: the third batch has those of the first, which the leader remembers."""

OVERTAKES = (Patch("network.broken", "link.requests[:survivors]", "link.requests[-survivors:]"),)
"""Of a connection that breaks the last requests arrive, not the first."""

HEARS_THE_LATE = (
    Patch(
        "world.late_request_arrives",
        "network.arrived_late(link, connection)",
        "network.arrived_late(replace(link, answers=(*link.answers, *step.sends)), connection)",
    ),
)
"""The open connection answers what a broken one has left, as if it carried old behind new."""

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


V1 = f"{NEWEST}/level=2/requests=v1"
ALONE = {"instances": 1, "partitions": 1, "log": 4, "max_epoch": 3}
"""One instance and one partition: two transactions, of which the first leaves something behind."""


GUESSES = Patch(
    "world.instance_begins",
    "client_rules.init_transactions(k, w.clients[instance])",
    "client_rules.init_transactions(k, w.clients[instance]) if instance == 0 else"
    " replace(w.clients[instance], state=ClientState.READY, producer_id=0, producer_epoch=0)",
)
"""The second instance uses the first one's pair, and asks nobody for its own."""


GIVES_BACK = (
    Patch(
        "sender.give_up",
        "without_first(before, waits)",
        "refused_newest(without_first(before, waits))",
    ),
)
"""A client that gives a batch up, which may still arrive, and its sequence to the next one."""


def of_transactions(
    guarantee: str, variant: str, bounds: Mapping[str, int], *patches: Patch, **budgets: int
) -> Dropped:
    """A run of one instance, in which nothing happens but what is said."""
    nothing = {"begun": 2, "delays": 0, "unheard": 0} | budgets
    return Dropped(
        guarantee, {**ALONE, **bounds}, nothing, variant, patches=patches, home="transactions"
    )


DROPPED |= {
    "requests_on_time": of_transactions("no_aborted_read", "v1", {}, delays=1),
    "leaders_ask": of_transactions(
        "no_write_outside",
        "3.3.2",
        {"transactions": 1},
        begun=1,
        delays=1,
        expirations=1,
    ),
    "markers_are_newer": of_transactions("no_aborted_read", "4.1.2", {}, marker_delays=1),
    "busy_comes_first": of_transactions(
        "no_false_fencing",
        f"{NEWEST}/pending=after_producer",
        {"transactions": 3, "producer_ids": 2, "max_epoch": 2, "epochs_end": True, "begun": 3},
        begun=3,
    ),
    "epochs_go_on": of_transactions(
        "no_false_fencing",
        V1,
        {
            "transactions": 1,
            "producer_ids": 3,
            "max_epoch": 2,
            "epochs_end": True,
        },
        begun=1,
        unheard=4,
        expirations=1,
    ),
    "retries_are_taken": of_transactions(
        "markers_are_taken",
        f"{NEWEST}/marker_epoch=strictly_newer",
        {"transactions": 1},
        begun=1,
        marker_losses=1,
    ),
    "epochs_are_compared": of_transactions("markers_are_taken", "v2/ongoing=of_producer_id", {}),
    "markers_on_time": of_transactions("no_aborted_read", "v1", {}, marker_delays=1),
    "epochs_rotate": of_transactions(
        "last_epoch_is_nobodys",
        "4.1.2",
        {
            "transactions": 3,
            "producer_ids": 3,
            "log": 6,
            "max_epoch": 2,
            "epochs_end": True,
            "begun": 3,
        },
        begun=3,
        timeouts=1,
    ),
    "leaders_are_there": of_transactions("no_lost_write", "v2", {}, leaves=1),
    "moves_are_known": of_transactions(
        "no_write_outside",
        V1,
        {"loads": True},
        delays=1,
        expirations=1,
        moves=1,
    ),
    "refusals_are_true": of_transactions("no_lost_write", V1, {}, unheard=1, rejections=1),
    "batches_on_time": of_transactions(
        "no_lost_write",
        f"{V1}/bump=goes_on",
        {},
        *GIVES_BACK,
        delays=1,
        expirations=1,
    ),
    "pairs_are_kept": of_transactions(
        "no_aborted_read", "v2", {"instances": 2, "transactions": 1}, GUESSES
    ),
    "guards": of_transactions(
        "no_write_outside",
        f"{NEWEST}/fence=same_epoch",
        {"transactions": 1, "guards": True},
        begun=1,
        delays=1,
        timeouts=1,
    ),
    "fence_takes_next_epoch": of_transactions(
        "one_outcome", "4.1.2/fence=same_epoch", {"max_epoch": 4}, timeouts=1
    ),
}


def trace_without(name: str) -> Finding | None:
    """A shortest trace that the assumption excludes; None if none is known."""
    dropped = DROPPED.get(name)
    if dropped is None:
        return None
    home = dropped.home
    model: Model = load_model(home, dropped.patches)
    configuration = model.configuration
    budgets = configuration.Budgets(**dropped.budgets)
    k = configuration.Configuration(
        variant=model.variants.parse(dropped.variant),
        bounds=fit(configuration.Bounds(**dropped.bounds), budgets),
        budgets=budgets,
    )
    found = explore_source(model, k, name, only={dropped.property}, stop=True)
    path = found.violations.get(dropped.property)
    if path is None:
        return None
    stepper, every = Stepper(model, k), instances(model, k)
    header = header_of(stepper, f"without {name}", dropped.patches)
    return finding(stepper, header, dropped.property, [every[i] for i in path])
