"""What theorems may rest on, in words."""

from __future__ import annotations

from collections.abc import Iterable

ASSUMPTIONS = {
    "no_wrap": "no epoch of a producer has more records than there are sequences",
    "message_lifetime": (
        "a request that arrives is within 2^30 records of the end of the log of its epoch"
    ),
    "batches_are_small": "no batch has more than 2^30 / 5 records",
    "high_watermark_survives": (
        "a new leader has all below the high watermark (acks=all, no unclean election)"
    ),
    "no_more_in_flight_than_remembered": (
        "F <= W: a leader remembers as many batches as may be in flight"
    ),
    "strict_first_sequence": "the first sequence of an epoch must be 0",
    "own_producer_id": "no two producers share a producer id",
    "answers_in_order": (
        "no answer refuses a batch that is stored, so that batches are acknowledged in their order"
        " (refusals=0, late_errors=0)"
    ),
    "nothing_is_rejected": "no batch is refused for good (rejections=0; KAFKA-14034)",
    "connections_keep_order": (
        "a request of a connection that broke overtakes none that was sent before it, and none"
        " outlives its leader: what arrives finds all before it stored"
    ),
    "requests_come_as_sent": (
        "a connection carries requests in the order of their sends, and what is left of one that"
        " broke was sent before"
    ),
    "no_restart": "no broker restarts; it may fail over (restarts=0)",
    "nothing_times_out": "no producer gives up a batch (timeouts=0)",
    "nothing_forgotten": "no leader lets a producer id expire (expiries=0)",
    "nothing_deleted": "no log loses its head (deletions=0)",
    "no_crash": "a broker that stops takes a snapshot at its log's end (crashes=0)",
    "no_splits": "no batch has more records than its leader takes",
    "id_for_life": "a producer keeps its producer id: its epochs do not end",
    "epochs_rotate": (
        "where epochs end, whoever ends a transaction takes the next producer id, and it is logged"
        " (4.3, level 2)"
    ),
    "leaders_ask": "leaders ask the coordinator before the first write of a transaction (3.6, V2)",
    "markers_are_newer": "a marker must have a newer epoch than what it closes (KIP-1228, 4.2)",
    "requests_on_time": (
        "no EndTxn and no Produce arrives after its sender has begun the next transaction (V1;"
        " KAFKA-17754)"
    ),
    "busy_comes_first": (
        "where V2 is spoken, a coordinator that is busy says so before it compares producer ids"
        " (KAFKA-18660, 4.0)"
    ),
    "epochs_go_on": (
        "a client of V1 does not come to the last epoch: there two answers that are lost fence who"
        " asks once more"
    ),
    "retries_are_taken": (
        "no leader refuses a marker because it has taken the same one before (KAFKA-19999)"
    ),
    "epochs_are_compared": (
        "where V2 is spoken, a transaction of another epoch is not open for a batch"
        " (KAFKA-18575, 4.0)"
    ),
    "markers_on_time": "no marker arrives after its coordinator has sent another in its place (V1)",
    "batches_on_time": (
        "no Produce arrives after its sender has its answer, or has given it up (V1)"
    ),
    "refusals_are_true": "no answer refuses a batch that is stored (V1)",
    "pairs_are_kept": "nobody uses a producer id and epoch that only somebody else was told",
    "guards": "a batch that is verified is appended at once, or verified again",
    "undisturbed": (
        "no transaction times out, no coordinator moves or fails to append, and no transactional id"
        " is forgotten (timeouts=0, moves=0, failures=0, forgotten=0)"
    ),
    "leaders_are_there": "each partition has a leader (4.3 skips a marker if not; KAFKA-20734)",
    "moves_are_known": (
        "a coordinator has loaded its log, and the one before it knows that it is none, before"
        " anybody asks either"
    ),
    "fence_takes_next_epoch": "the coordinator's own abort takes the next epoch (KAFKA-6119)",
    "steps_are_the_events": (
        "what the proof's steps assume of requests and answers holds wherever they arrive: compared"
        " with each transition of small scopes; that each event is made of the steps is checked"
    ),
    "two_partitions": "a producer writes to two partitions",
    "five_in_flight": (
        "a producer has at most five batches in flight at a partition, and a leader remembers five"
    ),
    "logs_are_kept": (
        "no log of transactions loses what it has: none is truncated, and no replica leads that"
        " lacks some of it"
    ),
    "nothing_expires": (
        "no producer id and no transactional id expires, and no record of a transaction is deleted"
    ),
    "one_conversation": "all requests of a transactional id are V1, or all are V2",
    "one_batch_in_flight": (
        "an instance sends a batch to a partition after it has the answer to the one before, or has"
        " given it up"
    ),
}

OF_ONE_PRODUCER = ("steps_are_the_events", "two_partitions", "five_in_flight")
"""What the abstraction of one producer at one partition is about."""

OF_STEPS = ("steps_are_the_events",)
"""Assumed of steps that are not the rules of the world as they stand."""

OF_TRANSACTIONS = ("logs_are_kept", "nothing_expires", "one_conversation", "one_batch_in_flight")
"""What the model of transactions leaves out, or has one of."""

EVERYWHERE = ("nothing_forgotten", "nothing_deleted", "no_crash", "no_splits", "id_for_life")
"""What the proofs leave out, each a rule of the world or a part of one."""

OF_CLIENTS = ("no_splits", "id_for_life")
"""What of it matters where no clause speaks of leaders: any error may be heard there, any time."""

LEFT_OUT = {
    "id_for_life": ("client_receives_producer_id",),
    "nothing_forgotten": ("producer_id_expires",),
    "nothing_deleted": ("records_are_deleted",),
    "no_crash": ("leader_crashes",),
    "guards": ("late_batch_is_verified", "verified_batch_arrives"),
    "one_batch_in_flight": (
        "batch_is_produced_again",
        "batch_is_delayed_again",
        "batch_is_rejected_again",
        "batch_is_turned_away",
    ),
    "leaders_are_there": ("leader_leaves", "leader_returns", "marker_is_skipped"),
    "undisturbed": (
        "transaction_times_out",
        "coordinator_moves",
        "coordinator_moves_with_append",
        "transactional_id_is_forgotten",
        "append_is_refused",
    ),
    "moves_are_known": (
        "coordinator_is_replaced",
        "log_is_loaded",
        "former_resigns",
        "former_writes_marker",
        "coordinator_is_found",
        "metadata_arrives",
    ),
}
"""The events of worlds that an assumption leaves out."""

STAY = {"moves_are_known": ("placement",), "leaders_are_there": ("leaderless",)}
"""The parts of worlds that stay, by an assumption, as they were at first."""

CLAIMED = {
    "five_in_flight": ("window",),
    "no_splits": ("splits",),
    "id_for_life": ("epochs_end",),
    "one_batch_in_flight": ("in_flight", "earlier"),
}
"""The sizes that an assumption is about. Of all others a theorem holds whatever they are."""


def claimed_by(assumptions: Iterable[str]) -> frozenset[str]:
    """The sizes that are as assumptions say."""
    return frozenset(size for name in assumptions for size in CLAIMED.get(name, ()))
