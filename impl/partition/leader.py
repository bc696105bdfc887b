"""The leader of one partition: client batches in, offsets out.

Five rules:

1. `produce` appends a batch or leaves everything as it was; there is no third outcome.
2. The checks come in Kafka's order: shape, acks, batch, duplicate, epoch, transaction, sequence.
3. What is stored is the client's batch with offset and leader epoch stamped on.
4. The high watermark moves only when told, never back, never past the end of the log.
5. A new leader is made by replaying batches unchecked: of a prefix that was replicated (it
   remembers five batches a producer), or from disk behind a snapshot (one, and what follows).

Theory of operation: `produce` returns a `ProduceOutcome`. Its `required_offset` is the high
watermark at which an acks=-1 request may be answered; the caller holds the answer until then.
Producer state is one immutable `ProducerStateEntry` per producer id, replaced on append. Nothing
here reads a clock or a file: times are arguments, logs and snapshots are bytes.
Sources: `ReplicaManager.appendRecords`, `Partition.appendRecordsToLeader`, `UnifiedLog.append`,
`ProducerStateManager`; release 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from impl.log.snapshot import decode_snapshot, encode_snapshot
from impl.partition.producer_state import (
    UNKNOWN_PRODUCER,
    BatchMetadata,
    ProducerStateEntry,
    check_producer_epoch,
    check_sequence,
    find_duplicate,
    from_snapshot,
    is_expired,
    to_snapshot,
    with_batch,
)
from impl.partition.validation import LogConfig, ValidBatch, first_batch, validate_batch
from impl.protocol.errors import CorruptSnapshot, ErrorCode
from impl.protocol.record_batch import (
    CONTROL,
    INVALID_OFFSET,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    check_crc,
    last_sequence,
    place_batch,
    read_headers,
)

ACKS_ALL: Final = -1
VALID_ACKS: Final = frozenset((ACKS_ALL, 0, 1))

DEFAULT_CONFIG: Final = LogConfig()

_WITHOUT_LOG_START: Final = frozenset(
    (
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
)
"""Errors that Kafka answers with log start offset -1. `ReplicaManager.appendRecordsToLeader`."""


class PartitionError(ValueError):
    """A call that a leader refuses; nothing has changed."""


class HighWatermarkOutOfRange(PartitionError):
    """The offset is behind the high watermark or past the end of the log: look who sent it."""


class OffsetsNotContiguous(PartitionError):
    """A batch does not begin where the one before it ended: replay in order, without gaps."""


class TransactionsNotServed(PartitionError):
    """A replayed log has transactions or markers: this leader serves idempotent producers only."""


class ProduceOutcome(NamedTuple):
    """The answer to one batch; offsets and times are -1 where there is none.

    `required_offset` is the high watermark that an acks=-1 answer waits for, -1 for no wait.
    `log_append_time_ms` of a duplicate is the remembered batch's timestamp (Kafka's quirk).
    """

    error: ErrorCode
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    required_offset: int


class StoredBatch(NamedTuple):
    """A batch in the log: its bytes, and what replaying it needs."""

    base_offset: int
    last_offset_delta: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    max_timestamp: int
    attributes: int
    data: bytes


class PartitionLeader:
    """The leader of one partition, of release 4.3.1, for idempotent and plain producers.

    To be read, not written: `log_start_offset`, `log_end_offset`, `high_watermark` (offsets),
    `leader_epoch`, `config`, `producers` (producer id to its entry), `batches` (the log).
    """

    __slots__ = (
        "_log_bytes",
        "batches",
        "config",
        "high_watermark",
        "leader_epoch",
        "log_end_offset",
        "log_start_offset",
        "producers",
    )

    def __init__(
        self,
        *,
        leader_epoch: int = 0,
        log_start_offset: int = 0,
        config: LogConfig = DEFAULT_CONFIG,
    ) -> None:
        self.config = config
        self.leader_epoch = leader_epoch
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_start_offset
        self.high_watermark = log_start_offset
        self.producers: dict[int, ProducerStateEntry] = {}
        self.batches: list[StoredBatch] = []
        self._log_bytes = 0

    @classmethod
    def elected(
        cls,
        replicated: Iterable[StoredBatch],
        *,
        leader_epoch: int,
        high_watermark: int,
        log_start_offset: int = 0,
        config: LogConfig = DEFAULT_CONFIG,
    ) -> PartitionLeader:
        """A follower that becomes leader with the batches it had fetched, in order.

        It applied them with origin REPLICATION, so it remembers up to five batches a producer.
        Raises `PartitionError`.
        """
        leader = cls(leader_epoch=leader_epoch, log_start_offset=log_start_offset, config=config)
        for stored in replicated:
            leader._store(stored)
            leader._remember(stored)
        leader.advance_high_watermark(high_watermark)
        return leader

    @classmethod
    def restarted(
        cls,
        log: bytes,
        snapshots: Mapping[int, bytes],
        *,
        leader_epoch: int,
        high_watermark: int,
        now_ms: int,
        log_start_offset: int = 0,
        config: LogConfig = DEFAULT_CONFIG,
    ) -> PartitionLeader:
        """A leader rebuilt from disk: the log's bytes and `{offset: snapshot bytes}`.

        The newest whole snapshot inside the log is loaded, without producers that have expired at
        `now_ms`; the batches after it are replayed. A corrupt one is passed over; with none left
        the whole log is. Raises `DecodeError`, `PartitionError`.
        `ProducerStateManager.truncateAndReload`, `UnifiedLog.rebuildProducerState`.
        """
        leader = cls(leader_epoch=leader_epoch, log_start_offset=log_start_offset, config=config)
        for offset, header in read_headers(log):
            check_crc(log, header, offset)
            leader._store(_stored(header, log[offset : offset + header.size_bytes]))
        loaded = leader._load_newest(snapshots, now_ms)
        for stored in leader.batches:
            if stored.base_offset >= loaded:
                leader._remember(stored)
        leader.advance_high_watermark(high_watermark)
        return leader

    def produce(
        self, batch_bytes: bytes | None, *, required_acks: int, now_ms: int
    ) -> ProduceOutcome:
        """Append the one batch of a client's Produce request (3 or later), origin CLIENT.

        `required_acks` is -1, 0 or 1, `now_ms` the broker's clock. Every refusal is an outcome;
        nothing is raised. `ReplicaManager.appendRecords`.
        """
        data = first_batch(batch_bytes)
        if isinstance(data, ErrorCode):
            return _refused(data, INVALID_OFFSET)
        if required_acks not in VALID_ACKS:
            return _refused(ErrorCode.INVALID_REQUIRED_ACKS, INVALID_OFFSET)
        batch = validate_batch(data, self.config, now_ms)
        if isinstance(batch, ErrorCode):
            return self._refuse(batch)
        header = batch.header
        if header.producer_id <= NO_PRODUCER_ID:
            return self._append(batch, UNKNOWN_PRODUCER, required_acks, now_ms)
        entry = self.producers.get(header.producer_id, UNKNOWN_PRODUCER)
        last = last_sequence(header.base_sequence, header.last_offset_delta)
        known = find_duplicate(entry, header.producer_epoch, last, header.last_offset_delta)
        if known is not None:
            wait = known.last_offset + 1 if required_acks == ACKS_ALL else INVALID_OFFSET
            return ProduceOutcome(
                ErrorCode.NONE, known.first_offset, known.timestamp, self.log_start_offset, wait
            )
        error = _check_producer(entry, header)
        if error:
            return self._refuse(error)
        return self._append(batch, entry, required_acks, now_ms)

    def advance_high_watermark(self, offset: int) -> None:
        """All replicas have everything below `offset`. Raises `HighWatermarkOutOfRange`."""
        if not self.high_watermark <= offset <= self.log_end_offset:
            raise HighWatermarkOutOfRange(
                f"{offset} is not in {self.high_watermark} ... {self.log_end_offset}"
            )
        self.high_watermark = offset

    def remove_expired_producers(self, now_ms: int) -> None:
        """Forget idle producers. `ProducerStateManager.removeExpiredProducers`."""
        timeout_ms = self.config.producer_id_expiration_ms
        expired = [p for p, e in self.producers.items() if is_expired(e, now_ms, timeout_ms)]
        for producer_id in expired:
            del self.producers[producer_id]

    def snapshot(self) -> bytes:
        """The producer snapshot at `log_end_offset`, as Kafka writes it into a file."""
        return encode_snapshot(to_snapshot(*item) for item in self.producers.items())

    def _refuse(self, error: ErrorCode) -> ProduceOutcome:
        bare = error in _WITHOUT_LOG_START
        return _refused(error, INVALID_OFFSET if bare else self.log_start_offset)

    def _append(
        self, batch: ValidBatch, entry: ProducerStateEntry, required_acks: int, now_ms: int
    ) -> ProduceOutcome:
        """Assign offsets, store, remember. `UnifiedLog.append` from where nothing can fail."""
        header, attributes, max_timestamp, data = batch
        base_offset = self.log_end_offset
        if self._log_bytes + len(data) > self.config.max_log_bytes:
            return self._refuse(ErrorCode.KAFKA_STORAGE_ERROR)
        stored = StoredBatch(
            base_offset,
            header.last_offset_delta,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            max_timestamp,
            attributes,
            place_batch(data, header, base_offset, self.leader_epoch),
        )
        self._store(stored)
        if header.producer_id > NO_PRODUCER_ID:
            self.producers[header.producer_id] = _entry_after(entry, stored)
        return ProduceOutcome(
            ErrorCode.NONE,
            base_offset,
            now_ms if self.config.is_log_append_time else NO_TIMESTAMP,
            self.log_start_offset,
            self.log_end_offset if required_acks == ACKS_ALL else INVALID_OFFSET,
        )

    def _store(self, stored: StoredBatch) -> None:
        if stored.base_offset != self.log_end_offset:
            raise OffsetsNotContiguous(f"{stored.base_offset} follows {self.log_end_offset}")
        self.batches.append(stored)
        self.log_end_offset = stored.base_offset + stored.last_offset_delta + 1
        self._log_bytes += len(stored.data)

    def _remember(self, stored: StoredBatch) -> None:
        """Take a replicated batch into the producer state, unchecked (origin REPLICATION)."""
        if stored.attributes & CONTROL:
            raise TransactionsNotServed(f"a control batch at offset {stored.base_offset}")
        if stored.producer_id <= NO_PRODUCER_ID:
            return
        if stored.attributes & TRANSACTIONAL:
            raise TransactionsNotServed(f"a transaction at offset {stored.base_offset}")
        entry = self.producers.get(stored.producer_id, UNKNOWN_PRODUCER)
        self.producers[stored.producer_id] = _entry_after(entry, stored)

    def _load_newest(self, snapshots: Mapping[int, bytes], now_ms: int) -> int:
        """Load the newest whole snapshot in reach; the offset from which to replay."""
        timeout_ms = self.config.producer_id_expiration_ms
        for offset in sorted(snapshots, reverse=True):
            if not self.log_start_offset < offset <= self.log_end_offset:
                continue
            try:
                rows = decode_snapshot(snapshots[offset])
            except CorruptSnapshot:
                continue
            for row in rows:
                entry = from_snapshot(row)
                if entry.current_txn_first_offset != INVALID_OFFSET:
                    raise TransactionsNotServed(f"snapshot {offset} has an open transaction")
                if not is_expired(entry, now_ms, timeout_ms):
                    self.producers[row.producer_id] = entry
            return offset
        return self.log_start_offset


def _refused(error: ErrorCode, log_start_offset: int) -> ProduceOutcome:
    return ProduceOutcome(error, INVALID_OFFSET, NO_TIMESTAMP, log_start_offset, INVALID_OFFSET)


def _check_producer(entry: ProducerStateEntry, header: BatchHeader) -> ErrorCode:
    """Epoch, transaction, sequence, in the order of 4.2 and later. `ProducerAppendInfo.append`.

    No transaction is ever verified here, so a transactional batch is one outside a transaction.
    """
    error = check_producer_epoch(entry, header.producer_epoch)
    if error:
        return error
    if header.attributes & TRANSACTIONAL:
        return ErrorCode.INVALID_TXN_STATE
    return check_sequence(entry, header.producer_epoch, header.base_sequence)


def _entry_after(entry: ProducerStateEntry, stored: StoredBatch) -> ProducerStateEntry:
    delta = stored.last_offset_delta
    metadata = BatchMetadata(
        last_sequence(stored.base_sequence, delta),
        stored.base_offset + delta,
        delta,
        stored.max_timestamp,
    )
    return with_batch(entry, stored.producer_epoch, metadata)


def _stored(header: BatchHeader, data: bytes) -> StoredBatch:
    return StoredBatch(
        header.base_offset,
        header.last_offset_delta,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.max_timestamp,
        header.attributes,
        data,
    )
