"""For each assumption about transactions, a run that it excludes and that breaks a guarantee."""

from __future__ import annotations

from collections.abc import Mapping

from model.releases import NEWEST
from proofs.lift.patch import Patch
from proofs.prove.engine.assumption_necessity import Dropped

V1 = f"{NEWEST}/level=2/requests=v1"
ALONE = {"instances": 1, "partitions": 1, "log": 4, "max_epoch": 3}
"""One instance and one partition, with two transactions: the first leaves something behind."""


GUESSES = Patch(
    "world.instance_begins",
    "client_rules.init_transactions(k, w.clients[instance])",
    "client_rules.init_transactions(k, w.clients[instance]) if instance == 0 else"
    " replace(w.clients[instance], state=ClientState.READY, producer_id=0, producer_epoch=0)",
)
"""The second instance uses the first one's pair, and asks for none of its own."""


GIVES_BACK = (
    Patch(
        "sender.give_up",
        "without_first(before, waits)",
        "refused_newest(without_first(before, waits))",
    ),
)
"""A client that gives up a batch which may still arrive, and reuses its sequence for the next
batch."""


def of_transactions(
    guarantee: str, variant: str, bounds: Mapping[str, int], *patches: Patch, **budgets: int
) -> Dropped:
    """Return a run of one instance, in which no events happen except those that the budgets
    allow."""
    nothing = {"begun": 2, "delays": 0, "unheard": 0} | budgets
    return Dropped(
        guarantee, {**ALONE, **bounds}, nothing, variant, patches=patches, home="transactions"
    )


DROPPED: dict[str, Dropped] = {
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
