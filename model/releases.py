"""The rules of each release of Kafka: one table for all compositions.

A release follows the defaults of its composition's `Variant`, except for the rows of `CHANGES` that
reach it. A release that is added therefore takes its rules from the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

MAX_BATCHES_TO_REMEMBER = 5
"""The number of batches that a leader remembers for each producer id, since 1.0.
ProducerStateEntry."""

SINCE_3_3 = ("4.3.1", "4.2.1", "4.1.2", "4.0.2", "3.9.2", "3.3.2")

NEWEST = SINCE_3_3[0]
"""The release that is meant wherever no release is named. A newer one is added before it."""

RELEASES: Mapping[str, tuple[str, ...]] = {
    "idempotent": (*SINCE_3_3, "2.8.2", "2.4.1", "2.0.0"),
    "transactions": SINCE_3_3,
    "processing": (NEWEST, "2.4.1"),
    "producer_ids": (NEWEST, "4.0.2", "3.9.2", "3.9.2-zookeeper", "2.8.2", "2.4.1", "2.0.0"),
}
"""The releases that each composition models, the newest first. A release that runs both with and
without ZooKeeper has two names."""


class Requests(IntEnum):
    """The requests that a transactional client uses."""

    V1 = 1
    """The client sends AddPartitionsToTxn before the first write, and keeps its epoch. KIP-98."""
    V2 = 2
    """A write adds its partition, and each EndTxn bumps the epoch. KIP-890."""


@dataclass(frozen=True, slots=True)
class RuleChange:
    """Up to and including the release `until`, `rule` had this `value`.

    `reference` is the KIP or JIRA that changed it, or Kafka's class. `observed` names the
    experiment, recording or test on real brokers and clients that shows the old value; it is "" if
    the value was read from Kafka's source. A row with a `mode` is only about releases that run in
    this mode.
    """

    rule: str
    value: str
    until: str
    reference: str
    observed: str = ""
    mode: str = ""

    def reaches(self, release: str) -> bool:
        """Whether the release is not newer than `until`, and runs in the row's mode, if the row has
        one."""
        version, _, mode = release.partition("-")
        last = numbers(self.until)
        return numbers(version)[: len(last)] <= last and self.mode in ("", mode)


LEVELS = (
    RuleChange("level", "0", "3.9", "KIP-890", "end_txn_v1_by_state"),
    RuleChange("requests", "v1", "3.9", "KIP-890", "end_txn_v1_by_state"),
)

CHANGES: Mapping[str, tuple[RuleChange, ...]] = {
    "idempotent": (
        *LEVELS,
        RuleChange("first_sequence", "unknown_producer_id", "2.4", "KAFKA-14359", "kafka-2.4.1"),
        RuleChange("first_sequence", "strict", "0.11", "KIP-98"),
        RuleChange("head_truncation", "evicts", "2.3", "KAFKA-7190"),
        RuleChange("recovery", "reset_2_3", "2.4", "KIP-360", "java-2.4.1-resets"),
        RuleChange("recovery", "reset_2_0", "2.2", "KAFKA-8484", "forgotten_id"),
        RuleChange("expiry", "queued_only", "2.0", "KIP-91", "java-2.0.0-time"),
    ),
    "transactions": (
        *LEVELS,
        RuleChange("rotation", "clients", "4.2", "KAFKA-20090", "exhaustion_goes_on_v2"),
        RuleChange("id_memory", "in_memory", "4.2", "KAFKA-20310", "loading_exhausted_v2"),
        RuleChange("leaderless_marker", "waits", "4.2", "KAFKA-20734", "leaderless"),
        RuleChange("marker_epoch", "not_older", "4.1", "KIP-1228", "marker_at_equal_epoch_v2"),
        RuleChange("first_sequence", "any", "4.0", "KAFKA-18202", "sequences_v2"),
        RuleChange("older_epoch", "asked", "4.0", "KAFKA-19690", "other_epochs_while_open"),
        RuleChange("previous_id", "kept", "4.0", "TransactionMetadata", "exhaustion_returns_v1"),
        RuleChange("pending", "after_producer", "3.9", "KAFKA-18660", "add_partitions_by_identity"),
        RuleChange("ongoing", "of_producer_id", "3.9", "KAFKA-18575", "other_epochs_while_open"),
        RuleChange("verification", "none", "3.5", "KIP-890", "late_produce_unverified_v1"),
        RuleChange("bump", "goes_on", "2.4", "KIP-360"),
        RuleChange("fence", "same_epoch", "0.11.0.1", "KAFKA-6119"),
    ),
    "processing": (
        RuleChange("transactional_ids", "of_partition", "2.4", "KIP-447"),
        RuleChange("generation_check", "absent", "2.4", "KIP-447"),
        RuleChange("offset_reads", "unstable", "2.4", "KIP-447"),
    ),
    "producer_ids": (
        RuleChange("form", "zookeeper", "3.9", "KIP-730", mode="zookeeper"),
        RuleChange("form", "zookeeper_checked", "2.8", "KIP-730"),
        RuleChange("fetching", "when_empty", "2.8", "KIP-730"),
    ),
    "producer_config": (
        RuleChange("era", "v3_0_1", "3.9", "KIP-679", "test_configuration"),
        RuleChange("era", "v1_0", "2.8", "KIP-679"),
        RuleChange("era", "v0_11", "0.11", "KIP-98"),
        RuleChange("authorization", "cluster", "2.7", "KIP-679", "test_authorization"),
    ),
}
"""The rule changes of each composition. If several rows of one rule reach a release, the one with
the earliest `until` decides."""


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version: they compare as versions do."""
    return tuple(map(int, version.split(".")))


def rules_of(composition: str, release: str) -> dict[str, str]:
    """The values of the rules in which a release differs from the newest."""
    reaching = (change for change in CHANGES[composition] if change.reaches(release))
    oldest_last = sorted(reaching, key=lambda change: numbers(change.until), reverse=True)
    return {change.rule: change.value for change in oldest_last}
