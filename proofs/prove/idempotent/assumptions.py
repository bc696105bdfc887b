"""The assumptions of theorems about producers."""

from __future__ import annotations

from collections.abc import Mapping

from proofs.prove.engine.assumptions import OF_STEPS, ProofAssumption

ASSUMPTIONS: Mapping[str, ProofAssumption] = {
    "no_wrap": ProofAssumption("no epoch of a producer has more records than there are sequences"),
    "message_lifetime": ProofAssumption(
        "a request that arrives is within 2^30 records of the end of the log of its epoch"
    ),
    "batches_are_small": ProofAssumption("no batch has more than 2^30 / 5 records"),
    "high_watermark_survives": ProofAssumption(
        "a new leader has all below the high watermark (acks=all, no unclean election)"
    ),
    "no_more_in_flight_than_remembered": ProofAssumption(
        "F <= W: a leader remembers as many batches as may be in flight"
    ),
    "strict_first_sequence": ProofAssumption("the first sequence of an epoch must be 0"),
    "own_producer_id": ProofAssumption("no two producers share a producer id"),
    "answers_in_order": ProofAssumption(
        "no answer refuses a batch that is stored, so that batches are acknowledged in their order"
        " (refusals=0, late_errors=0)"
    ),
    "nothing_is_rejected": ProofAssumption(
        "no batch is refused for good (rejections=0; KAFKA-14034)"
    ),
    "connections_keep_order": ProofAssumption(
        "a request of a connection that broke overtakes none that was sent before it, and none"
        " outlives its leader: what arrives finds all before it stored"
    ),
    "requests_come_as_sent": ProofAssumption(
        "a connection carries requests in the order of their sends, and what is left of one that"
        " broke was sent before"
    ),
    "no_restart": ProofAssumption("no broker restarts; it may fail over (restarts=0)"),
    "nothing_times_out": ProofAssumption("no producer gives up a batch (timeouts=0)"),
    "nothing_forgotten": ProofAssumption("no leader lets a producer id expire (expiries=0)"),
    "nothing_deleted": ProofAssumption("no log loses its head (deletions=0)"),
    "no_crash": ProofAssumption(
        "a broker that stops takes a snapshot at its log's end (crashes=0)"
    ),
    "no_splits": ProofAssumption(
        "no batch has more records than its leader takes", claims=("splits",)
    ),
    "id_for_life": ProofAssumption(
        "a producer keeps its producer id: its epochs do not end", claims=("epochs_end",)
    ),
    "two_partitions": ProofAssumption("a producer writes to two partitions"),
    "five_in_flight": ProofAssumption(
        "a producer has at most five batches in flight at a partition, and a leader remembers five",
        claims=("window",),
    ),
}

OF_ONE_PRODUCER = (*OF_STEPS, "two_partitions", "five_in_flight")
"""The assumptions of the abstraction to one producer at one partition."""

EVERYWHERE = ("nothing_forgotten", "nothing_deleted", "no_crash", "no_splits", "id_for_life")
"""Parts of the world that the proofs leave out: each is a rule, or a part of one."""

OF_CLIENTS = ("no_splits", "id_for_life")
"""The ones that matter if no clause is about leaders: the client may then receive any error at any
time."""

EXCLUDED_STEPS: Mapping[str, frozenset[str]] = {
    "expire_batch": frozenset({"nothing_times_out"}),
    "on_error": frozenset({"answers_in_order"}),
    "bump_epoch": frozenset({"answers_in_order", "nothing_times_out"}),
    "resolve_sequences": frozenset({"answers_in_order", "nothing_times_out"}),
    "restart": frozenset({"no_restart"}),
    "expire_batch_elsewhere": frozenset({"nothing_times_out"}),
    "on_late_disconnect_elsewhere": frozenset({"nothing_times_out"}),
    "on_error_elsewhere": frozenset({"answers_in_order"}),
    "on_produce_without_replicas": frozenset({"answers_in_order"}),
    "on_invalid_produce": frozenset({"nothing_is_rejected"}),
    "on_produce_then_unreplicated": frozenset({"answers_in_order"}),
}
"""The steps that assumptions exclude: a theorem with these assumptions says nothing about the
step."""
