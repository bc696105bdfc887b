"""The kinds of findings: the meaning of each, whether it is a defect, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple


class FindingKind(NamedTuple):
    """One kind; a kind that is not a defect is allowed, or cannot be decided from the remaining
    data."""

    is_defect: bool
    meaning: str
    action: str


class AuditFinding(NamedTuple):
    """A finding at one place; `details` are JSON values. `places` share the finding."""

    kind: str
    topic: str
    partition: int
    offset: int
    producer_id: int = -1
    producer_epoch: int = -1
    details: Mapping[str, Any] = {}
    places: int = 1


FENCE: Final = "Find out which clients share the transactional id, and stop all but one."
COMPARE: Final = "Compare with a replica on another broker (kafka-dump-log.sh on both)."
ABORT: Final = (
    "kafka-transactions.sh --bootstrap-server {servers} abort --topic {topic}"
    " --partition {partition} --start-offset {offset}"
)
SERVERS: Final = "HOST:PORT"
"""The text in an action that stands for unknown brokers."""
NOTHING: Final = "Nothing."

KINDS: Final[Mapping[str, FindingKind]] = {
    "gap": FindingKind(
        True,
        "Sequences are missing before this batch, and no offsets are: the records were never"
        " stored, and later ones of the same producer were.",
        "Find the errors that the producer saw at this time, and send the missing records again.",
    ),
    "duplicate": FindingKind(
        True,
        "The same producer stored these sequences before: its records stand here twice.",
        "Drop the second copy where the topic is read, or write the topic anew.",
    ),
    "order": FindingKind(
        True,
        "The batch comes after batches of higher sequences: the producer's order is lost.",
        "Sort by sequence where the topic is read, or write the topic anew.",
    ),
    "epoch_back": FindingKind(
        True,
        "The batch has an older epoch than the producer's batch before: a zombie wrote it.",
        FENCE,
    ),
    "late": FindingKind(
        True,
        "The record stands behind the marker that ended its transaction: no marker will end it.",
        f"{ABORT}; then send the record again if it is wanted.",
    ),
    "late_marker": FindingKind(
        True,
        "A marker of an older epoch, or of a coordinator that was replaced, stands behind newer"
        " ones: it may have ended a transaction that was not its own.",
        "Compare the transaction that it ended with what its client was answered.",
    ),
    "hanging": FindingKind(
        True,
        "The transaction is open, and no coordinator will end it: readers of committed records"
        " stop at its first offset.",
        ABORT,
    ),
    "torn": FindingKind(
        True,
        "One transaction has different outcomes: readers get its records of some partitions, and"
        " not of others.",
        "Take the coordinator's decision for the transaction's outcome, and mend the other"
        " partitions by hand; upgrade clients and brokers to transaction.version=2.",
    ),
    "crc": FindingKind(
        True, "The checksum of the batch is wrong: its bytes have changed.", COMPARE
    ),
    "damaged": FindingKind(
        True,
        "The segment cannot be read on from here: what follows is no batch.",
        COMPARE,
    ),
    "overlap": FindingKind(True, "An offset is given twice, or offsets go back.", COMPARE),
    "in_progress": FindingKind(
        False,
        "A transaction is open, and its coordinator may still end it.",
        "Nothing now; audit again after transaction.max.timeout.ms.",
    ),
    "unknown_first": FindingKind(
        False,
        "The producer's first batch here does not begin at sequence 0: what came before is deleted,"
        " or never arrived; brokers accept both.",
        "Nothing where records before it are deleted; else look for what was not stored.",
    ),
    "may_be_forgotten": FindingKind(
        False,
        "Sequences are missing after a pause in which brokers forget producers, and accept any"
        " sequence.",
        "Nothing; producer.id.expiration.ms is how long they remember.",
    ),
    "may_be_compacted": FindingKind(
        False,
        "Sequences are missing, and as many offsets: compaction or damage took the batches.",
        NOTHING,
    ),
    "missing_offsets": FindingKind(
        False,
        "Offsets are missing between batches or in them: the topic is compacted, or segments are"
        " not here.",
        "Nothing where cleanup.policy is compact; else bring the missing segments.",
    ),
    "deleted_head": FindingKind(
        False, "The log does not begin at offset 0: its head is deleted by now.", NOTHING
    ),
    "wrap": FindingKind(
        False, "Sequences came to 2147483647 and went on at 0, as they should.", NOTHING
    ),
    "marker_without_data": FindingKind(
        False,
        "A transaction ended here without records: the partition was added and not written to.",
        NOTHING,
    ),
    "shared_epoch": FindingKind(
        False,
        "Transactions of one epoch: a delayed EndTxn of one would have ended the next, and no log"
        " would show it (KAFKA-17754).",
        "Use clients and brokers of Kafka 4.0 or newer, and transaction.version=2.",
    ),
    "truncated_tail": FindingKind(
        False,
        "The last batch is cut by the end of the file: it was being written, or the broker stopped"
        " uncleanly and will truncate it.",
        NOTHING,
    ),
    "older_format": FindingKind(
        False, "Batches of format 0 or 1 have no producers and are not judged.", NOTHING
    ),
}
