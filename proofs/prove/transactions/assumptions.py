"""The assumptions of theorems about transactions."""

from __future__ import annotations

from collections.abc import Mapping

from proofs.prove.engine.assumptions import ProofAssumption

ASSUMPTIONS: Mapping[str, ProofAssumption] = {
    "epochs_rotate": ProofAssumption(
        "where epochs end, whoever ends a transaction takes the next producer id, and it is logged"
        " (4.3, level 2)"
    ),
    "leaders_ask": ProofAssumption(
        "leaders ask the coordinator before the first write of a transaction (3.6, V2)"
    ),
    "markers_are_newer": ProofAssumption(
        "a marker must have a newer epoch than what it closes (KIP-1228, 4.2)"
    ),
    "requests_on_time": ProofAssumption(
        "no EndTxn and no Produce arrives after its sender has begun the next transaction (V1;"
        " KAFKA-17754)"
    ),
    "busy_comes_first": ProofAssumption(
        "where V2 is spoken, a coordinator that is busy says so before it compares producer ids"
        " (KAFKA-18660, 4.0)"
    ),
    "epochs_go_on": ProofAssumption(
        "a client of V1 does not come to the last epoch: there two answers that are lost fence who"
        " asks once more"
    ),
    "retries_are_taken": ProofAssumption(
        "no leader refuses a marker because it has taken the same one before (KAFKA-19999)"
    ),
    "epochs_are_compared": ProofAssumption(
        "where V2 is spoken, a transaction of another epoch is not open for a batch"
        " (KAFKA-18575, 4.0)"
    ),
    "markers_on_time": ProofAssumption(
        "no marker arrives after its coordinator has sent another in its place (V1)"
    ),
    "batches_on_time": ProofAssumption(
        "no Produce arrives after its sender has its answer, or has given it up (V1)"
    ),
    "refusals_are_true": ProofAssumption("no answer refuses a batch that is stored (V1)"),
    "pairs_are_kept": ProofAssumption(
        "nobody uses a producer id and epoch that only somebody else was told"
    ),
    "guards": ProofAssumption("a batch that is verified is appended at once, or verified again"),
    "undisturbed": ProofAssumption(
        "no transaction times out, no coordinator moves or fails to append, and no transactional id"
        " is forgotten (timeouts=0, moves=0, failures=0, forgotten=0)"
    ),
    "leaders_are_there": ProofAssumption(
        "each partition has a leader (4.3 skips a marker if not; KAFKA-20734)", stay=("leaderless",)
    ),
    "moves_are_known": ProofAssumption(
        "a coordinator has loaded its log, and the one before it knows that it is none, before"
        " anybody asks either",
        stay=("placement",),
    ),
    "fence_takes_next_epoch": ProofAssumption(
        "the coordinator's own abort takes the next epoch (KAFKA-6119)"
    ),
    "logs_are_kept": ProofAssumption(
        "no log of transactions loses what it has: none is truncated, and no replica leads that"
        " lacks some of it"
    ),
    "nothing_expires": ProofAssumption(
        "no producer id and no transactional id expires, and no record of a transaction is deleted"
    ),
    "one_conversation": ProofAssumption("all requests of a transactional id are V1, or all are V2"),
    "one_batch_in_flight": ProofAssumption(
        "an instance sends a batch to a partition after it has the answer to the one before, or has"
        " given it up",
        claims=("in_flight", "earlier"),
    ),
}

OF_TRANSACTIONS = ("logs_are_kept", "nothing_expires", "one_conversation", "one_batch_in_flight")
"""The simplifications of the model of transactions: parts that it leaves out, or has only one
of."""

EXCLUDED_STEPS: Mapping[str, frozenset[str]] = {
    "add_partitions": frozenset(),
    "add_offsets": frozenset(),
}
"""The steps that a variant excludes, without an assumption: clients of V2 never ask to add
partitions or offsets."""
