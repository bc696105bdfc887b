"""Reads the observable state of a server, call by call: transactions, logs, producers, group
offsets.

Versions are the oldest that every release in the table serves, as in
`conformance.adapters.brokers.kafka.admin`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from conformance.adapters.brokers.kafka.admin import (
    ActiveProducer,
    TopicPartition,
    producers_in,
    producers_request,
)
from conformance.adapters.brokers.kafka.connection import WireRequest
from conformance.adapters.brokers.wire import WireCall, by_topic, error_of
from impl.protocol.control_records import read_marker
from impl.protocol.errors import ErrorCode
from impl.protocol.message_form import Value
from impl.protocol.record_batch import RecordBatch, decode_whole_batches
from impl.protocol.schemas import ApiKey
from impl.protocol.state_records import decode_record

TRANSACTION_STATE: Final[TopicPartition] = ("__transaction_state", 0)
CONSUMER_OFFSETS: Final[TopicPartition] = ("__consumer_offsets", 0)
"""The recipe gives each of these topics one partition."""

FETCH_BYTES: Final = 1 << 22

_DESCRIBE_TRANSACTIONS_VERSION: Final = 0
_LIST_OFFSETS_VERSION: Final = 2
_FETCH_VERSION: Final = 11
_METADATA_VERSION: Final = 7
_OFFSET_FETCH_VERSION: Final = 7
_LATEST: Final = -1
_OFFSET_KEYS: Final = (0, 1)


class ReadIsolation(IntEnum):
    """The isolation level of a reader. Source: `IsolationLevel`."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class Status(IntEnum):
    """The status byte of a transaction's log record. Source: `TransactionState`."""

    Empty = 0
    Ongoing = 1
    PrepareCommit = 2
    PrepareAbort = 3
    CompleteCommit = 4
    CompleteAbort = 5


@dataclass(frozen=True, slots=True)
class ObservedTransaction:
    """A transactional id, as its coordinator describes it; times in ms, -1 for none."""

    error: ErrorCode
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ObservedBatch:
    """A batch of a log: data with its values, or a marker ("COMMIT" or "ABORT")."""

    base_offset: int
    last_offset: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    marker: str | None
    coordinator_epoch: int
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fetched:
    """The answer of one Fetch of one partition; aborted transactions are (producer id, first
    offset)."""

    error: ErrorCode
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...]
    batches: tuple[RecordBatch, ...]


@dataclass(frozen=True, slots=True)
class ObservedOffset:
    """A group's offset of a partition; the error is UNSTABLE_OFFSET_COMMIT while a transaction is
    open."""

    error: ErrorCode
    committed_offset: int


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """One record of `__transaction_state`; None as status is a tombstone."""

    transactional_id: str
    status: Status | None
    version: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    previous_producer_id: int = -1
    next_producer_id: int = -1
    client_transaction_version: int = 0
    partitions: tuple[TopicPartition, ...] | None = None


@dataclass(frozen=True, slots=True)
class OffsetRecord:
    """One record of `__consumer_offsets`: the offset that a group committed, and its transaction if
    any.

    An offset of None is a tombstone; the producer id is -1 outside of transactions.
    """

    group_id: str
    partition: TopicPartition
    committed_offset: int | None
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Leadership:
    """The leader epoch of a partition (for TRANSACTION_STATE, the coordinator epoch), and its
    in-sync replicas."""

    leader_epoch: int
    in_sync: frozenset[int]


def leadership(partition: TopicPartition) -> WireCall[Leadership]:
    """A broker's knowledge of a partition's leadership."""
    body = {"topics": [{"name": partition[0]}], "allow_auto_topic_creation": False}

    def read(body: Value) -> Leadership:
        [topic] = body["topics"]
        [row] = [row for row in topic["partitions"] if row["partition_index"] == partition[1]]
        return Leadership(row["leader_epoch"], frozenset(row["isr_nodes"]))

    return WireCall(WireRequest(ApiKey.METADATA, _METADATA_VERSION, body), read)


def describe_transactions(ids: Sequence[str]) -> WireCall[dict[str, ObservedTransaction]]:
    """The states of transactional ids, from their coordinator (KIP-664)."""
    body = {"transactional_ids": list(ids)}
    request = WireRequest(ApiKey.DESCRIBE_TRANSACTIONS, _DESCRIBE_TRANSACTIONS_VERSION, body)
    return WireCall(request, _transactions)


def describe_producers(partition: TopicPartition) -> WireCall[Mapping[int, ActiveProducer]]:
    """The producer states of a leader, by producer id (KIP-664)."""
    request = producers_request(by_topic([partition]))
    return WireCall(request, lambda body: producers_in(body)[partition].producers)


def list_latest(partition: TopicPartition, isolation: ReadIsolation) -> WireCall[int]:
    """The end of a log: the high watermark, or the last stable offset for read_committed."""
    name, index = partition
    rows = [{"partition_index": index, "timestamp": _LATEST}]
    body = {
        "replica_id": -1,
        "isolation_level": isolation,
        "topics": [{"name": name, "partitions": rows}],
    }
    return WireCall(WireRequest(ApiKey.LIST_OFFSETS, _LIST_OFFSETS_VERSION, body), _latest)


def fetch(partition: TopicPartition, offset: int, isolation: ReadIsolation) -> WireCall[Fetched]:
    """The content of a log from `offset` on, up to FETCH_BYTES; the answer does not wait for
    more."""
    name, index = partition
    row = {"partition": index, "fetch_offset": offset, "partition_max_bytes": FETCH_BYTES}
    body = {
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": FETCH_BYTES,
        "isolation_level": isolation,
        "topics": [{"topic": name, "partitions": [row]}],
    }
    return WireCall(WireRequest(ApiKey.FETCH, _FETCH_VERSION, body), _fetched)


def fetch_offsets(
    group_id: str, partitions: Iterable[TopicPartition], *, require_stable: bool
) -> WireCall[dict[TopicPartition, ObservedOffset]]:
    """A group's offsets, from its coordinator (KIP-447)."""
    topics = [{"name": n, "partition_indexes": i} for n, i in by_topic(partitions).items()]
    body = {"group_id": group_id, "topics": topics, "require_stable": require_stable}
    return WireCall(WireRequest(ApiKey.OFFSET_FETCH, _OFFSET_FETCH_VERSION, body), _offsets)


def see(batch: RecordBatch) -> ObservedBatch:
    """The observable content of a batch."""
    marker = read_marker(batch.records[0]) if batch.is_control and batch.records else None
    return ObservedBatch(
        batch.base_offset,
        batch.last_offset,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.is_transactional,
        None if marker is None else marker.control_type.name,
        -1 if marker is None else marker.coordinator_epoch,
        () if batch.is_control else tuple((r.value or b"").decode() for r in batch.records),
    )


def committed_values(fetched: Fetched) -> tuple[str, ...]:
    """The values that a read_committed consumer returns. `CompletedFetch.nextFetchedRecord`,
    KIP-98."""
    waiting = sorted(fetched.aborted, key=lambda row: row[1])
    aborting: set[int] = set()
    values: list[str] = []
    for batch in map(see, fetched.batches):
        while waiting and waiting[0][1] <= batch.last_offset:
            aborting.add(waiting.pop(0)[0])
        if batch.marker == "ABORT":
            aborting.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborting):
            values += batch.values
    return tuple(values)


def transaction_records(fetched: Fetched) -> tuple[TransactionRecord, ...]:
    """The records of `__transaction_state`, in order."""
    return tuple(
        _transaction_record(record.key or b"", record.value)
        for batch in fetched.batches
        if not batch.is_control
        for record in batch.records
    )


def _transaction_record(key: bytes, value: bytes | None) -> TransactionRecord:
    _, who = decode_record("TRANSACTION_LOG_KEY", key)
    if value is None:
        return TransactionRecord(who["transactional_id"], None)
    version, body = decode_record("TRANSACTION_LOG_VALUE", value)
    rows = body["transaction_partitions"]
    partitions = None
    if rows is not None:
        partitions = tuple((row["topic"], i) for row in rows for i in row["partition_ids"])
    return TransactionRecord(
        who["transactional_id"],
        Status(body["transaction_status"]),
        version,
        body["producer_id"],
        body["producer_epoch"],
        body["previous_producer_id"],
        body["next_producer_id"],
        body["client_transaction_version"],
        partitions,
    )


def offset_records(fetched: Fetched) -> tuple[OffsetRecord | ObservedBatch, ...]:
    """The committed offsets in `__consumer_offsets`, in order, with the markers between them."""
    found: list[OffsetRecord | ObservedBatch] = []
    for batch in fetched.batches:
        found += [see(batch)] if batch.is_control else _offset_records(batch)
    return tuple(found)


def _offset_records(batch: RecordBatch) -> list[OffsetRecord]:
    """The offsets among a batch's records: a group's metadata has another kind of key."""
    found = []
    for record in batch.records:
        if int.from_bytes((record.key or b"")[:2], "big") not in _OFFSET_KEYS:
            continue
        _, key = decode_record("OFFSET_COMMIT_KEY", record.key or b"")
        value = decode_record("OFFSET_COMMIT_VALUE", record.value)[1] if record.value else None
        found.append(
            OffsetRecord(
                key["group"],
                (key["topic"], key["partition"]),
                None if value is None else value["offset"],
                batch.producer_id,
                batch.producer_epoch,
            )
        )
    return found


def _transactions(body: Value) -> dict[str, ObservedTransaction]:
    return {
        row["transactional_id"]: ObservedTransaction(
            error_of(row["error_code"]),
            row["transaction_state"],
            row["producer_id"],
            row["producer_epoch"],
            row["transaction_timeout_ms"],
            tuple(sorted((t["topic"], i) for t in row["topics"] for i in t["partitions"])),
        )
        for row in body["transaction_states"]
    }


def _latest(body: Value) -> int:
    [topic] = body["topics"]
    [row] = topic["partitions"]
    offset: int = row["offset"]
    return offset


def _fetched(body: Value) -> Fetched:
    [topic] = body["responses"]
    [row] = topic["partitions"]
    return Fetched(
        error_of(row["error_code"]),
        row["high_watermark"],
        row["last_stable_offset"],
        row["log_start_offset"],
        tuple((a["producer_id"], a["first_offset"]) for a in row["aborted_transactions"] or ()),
        tuple(decode_whole_batches(row["records"] or b"")),
    )


def _offsets(body: Value) -> dict[TopicPartition, ObservedOffset]:
    rows: Mapping[TopicPartition, Value] = {
        (topic["name"], row["partition_index"]): row
        for topic in body["topics"]
        for row in topic["partitions"]
    }
    return {
        partition: ObservedOffset(
            error_of(body["error_code"] or row["error_code"]), row["committed_offset"]
        )
        for partition, row in rows.items()
    }
