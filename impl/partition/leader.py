"""The leader of one partition: client batches in, offsets out.

Seven rules:

1. `produce` appends a batch or leaves everything unchanged.
2. The checks run in Kafka's order: shape, acks, leadership, replicas, batch, duplicate,
   verification, epoch, sequence, open transaction.
3. The log stores the client's batch, stamped with offset and leader epoch.
4. The high watermark moves only on `advance_high_watermark`, forward, up to the end of the log.
5. A batch that is in the log stays there, even if its client gets an error: too few replicas, or a
   time-out.
6. A new leader replays batches without checks: those that were replicated (then it remembers five
   batches a producer), or those on disk after a snapshot (one batch, and later ones).
7. The first batch of a transaction needs a guard: `begin_verification` creates it, the caller
   verifies with the coordinator, and appends with the guard. Only coordinators write markers
   (`write_marker`).

Theory of operation: `produce` returns a `ProduceOutcome`. An acks=-1 request may be answered when
the high watermark reaches its `required_offset`; until then `settle` returns None. The state of a
producer id is one immutable `ProducerStateEntry`, replaced on append. The log and all that follows
from it is a `ReplicaLog`, the same for leaders and followers: `PartitionLeader(log=...)` leads it,
`resign` returns it. No clock or file is read here.
Sources: `ReplicaManager.appendRecords`, `Partition.appendRecordsToLeader`, `UnifiedLog.append`,
`DelayedProduce`; release 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Final, NamedTuple

from impl.log.disk import StorageError
from impl.log.transaction_index import AbortedTransaction
from impl.partition.errors import InvalidInSyncReplicas, RecordError
from impl.partition.log_config import COMPACT, DEFAULT_CONFIG, LogConfig
from impl.partition.log_loader import load_log
from impl.partition.origins import CHECKS, AppendOrigin, Checks
from impl.partition.producer_state import (
    UNKNOWN_PRODUCER,
    ProducerStateEntry,
    check_producer_epoch,
    check_sequence,
    find_duplicate,
)
from impl.partition.producer_states import apply_data_batch
from impl.partition.replica_log import LogRecovery, ReplicaLog
from impl.partition.stored_batch import SegmentFile, StoredBatch
from impl.partition.transactions import (
    check_marker,
    check_open,
    check_verified,
    check_verified_sequence,
    is_ongoing,
    parse_marker,
    with_marker,
)
from impl.partition.validation import ValidBatch, first_batch, validate_batch
from impl.partition.verification import NO_GUARD, VerificationEntry, VerificationStart
from impl.protocol.control_records import ControlType, EndTransactionMarker, marker_batch
from impl.protocol.errors import ErrorCode, InvalidRecord
from impl.protocol.record_batch import (
    CONTROL,
    INVALID_OFFSET,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    encode_batch,
    last_sequence,
    place_batch,
)

_NONE: Final = ErrorCode.NONE
_new: Final = tuple.__new__
ACKS_ALL: Final = -1
VALID_ACKS: Final = frozenset((ACKS_ALL, 0, 1))

HIGH_WATERMARK: Final = -1
"""Delete all replicated records. `DeleteRecordsRequest.HIGH_WATERMARK`."""

_CLIENT: Final = CHECKS[AppendOrigin.CLIENT]
_COORDINATOR: Final = CHECKS[AppendOrigin.COORDINATOR]

_WITHOUT_LOG_START: Final = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
)
"""Errors that Kafka answers with log start offset -1. `ReplicaManager.appendRecordsToLeader`."""


class ProduceOutcome(NamedTuple):
    """The answer to one batch; offsets and times are -1 where there is none.

    `required_offset` is the high watermark that an acks=-1 answer waits for, -1 for no wait. QUIRK:
    `log_append_time_ms` of a duplicate is the remembered batch's timestamp.
    """

    error: ErrorCode
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    required_offset: int
    record_errors: tuple[RecordError, ...] = ()

    @classmethod
    def refuse(cls, error: ErrorCode, log_start_offset: int = INVALID_OFFSET) -> ProduceOutcome:
        """The answer to a batch that is not appended."""
        return cls(error, INVALID_OFFSET, NO_TIMESTAMP, log_start_offset, INVALID_OFFSET)


class DeleteOutcome(NamedTuple):
    """The answer to DeleteRecords; `low_watermark` is the start of the log, -1 with an error."""

    error: ErrorCode
    low_watermark: int


class LeaderView(NamedTuple):
    """The state of a leader without the bytes of its log; comparable, hashable.

    `ongoing` has (first offset, producer id), `unreplicated` (first offset, the marker's offset).
    """

    leader_epoch: int
    is_leader: bool
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    last_stable_offset: int
    producers: tuple[tuple[int, ProducerStateEntry], ...]
    verifications: tuple[tuple[int, VerificationEntry], ...]
    ongoing: tuple[tuple[int, int], ...]
    unreplicated: tuple[tuple[int, int], ...]
    aborted: tuple[AbortedTransaction, ...]


class PartitionLeader:
    """The leader of one partition; `log.rules` are those of a release.

    Read-only: `log`, and of it `log_start_offset`, `log_end_offset`,
    `high_watermark`, `last_stable_offset` (offsets), `config`, `producers` (entries by
    producer id), `batches`; also `leader_epoch`, `replication_factor`, `in_sync_replicas`,
    `is_leader`.
    """

    __slots__ = ("in_sync_replicas", "is_leader", "leader_epoch", "log", "replication_factor")

    def __init__(
        self,
        *,
        leader_epoch: int = 0,
        log_start_offset: int = 0,
        config: LogConfig = DEFAULT_CONFIG,
        replication_factor: int = 1,
        log: ReplicaLog | None = None,
    ) -> None:
        """The leader of an empty log, or of `log`, which has its own start and settings."""
        self.log = log or ReplicaLog(log_start_offset=log_start_offset, config=config)
        self.leader_epoch = leader_epoch
        self.replication_factor = replication_factor
        self.in_sync_replicas = replication_factor
        self.is_leader = True

    @classmethod
    def elect(
        cls,
        replicated: Iterable[StoredBatch],
        *,
        leader_epoch: int,
        high_watermark: int,
        log_start_offset: int = 0,
        config: LogConfig = DEFAULT_CONFIG,
        replication_factor: int = 1,
    ) -> PartitionLeader:
        """A leader from a follower's fetched batches, in order.

        The follower applied them with origin REPLICATION, so it remembers up to five batches a
        producer, even deleted ones. Raises `PartitionError`.
        """
        log = ReplicaLog(log_start_offset=log_start_offset, config=config)
        log.replicate(replicated)
        log.advance_high_watermark(high_watermark)
        return cls(leader_epoch=leader_epoch, replication_factor=replication_factor, log=log)

    @classmethod
    def restart(
        cls,
        files: Sequence[bytes | SegmentFile],
        snapshots: Mapping[int, bytes],
        *,
        leader_epoch: int,
        high_watermark: int,
        now_ms: int,
        log_start_offset: int = 0,
        config: LogConfig = DEFAULT_CONFIG,
        replication_factor: int = 1,
        store: MutableMapping[int, bytes] | None = None,
        segments: Sequence[int] = (),
        had_clean_shutdown: bool = False,
        recovery_point: int | None = None,
        transaction_indexes: Mapping[int, bytes] | None = None,
    ) -> PartitionLeader:
        """A leader from disk: the log's files and `{offset: snapshot bytes}`.

        Loads the newest valid snapshot inside the log, without producers expired at `now_ms`, and
        replays the batches after it, or the whole log if there is none. New snapshots go to
        `store`, by default a copy of `snapshots`. `load_log` documents the other
        arguments; `recovery` says what was lost. A high watermark outside the log is moved to its
        nearer end (`UnifiedLog.updateHighWatermark`). Raises `DecodeError`, `PartitionError`.
        `ProducerStateManager.truncateAndReload`, `UnifiedLog.rebuildProducerState`.
        """
        kept = dict(snapshots) if store is None else store
        if store is not None and store is not snapshots:
            store.update(snapshots)
        replica = ReplicaLog(log_start_offset=log_start_offset, config=config, snapshots=kept)
        load_log(
            replica,
            files,
            now_ms=now_ms,
            segments=segments,
            had_clean_shutdown=had_clean_shutdown,
            recovery_point=recovery_point,
            transaction_indexes=transaction_indexes,
        )
        inside = min(max(high_watermark, replica.log_start_offset), replica.log_end_offset)
        replica.advance_high_watermark(inside)
        return cls(leader_epoch=leader_epoch, replication_factor=replication_factor, log=replica)

    # ---- the log

    @property
    def config(self) -> LogConfig:
        """The topic's settings."""
        return self.log.config

    @property
    def log_start_offset(self) -> int:
        """Offset of the first record that can be read."""
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """Offset of the next record."""
        return self.log.log_end_offset

    @property
    def high_watermark(self) -> int:
        """All replicas have the records below."""
        return self.log.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """All records below are decided and replicated; the bound of read_committed consumers."""
        return self.log.last_stable_offset

    @property
    def producers(self) -> dict[int, ProducerStateEntry]:
        """Producer state by producer id."""
        return self.log.producer_states.entries

    @property
    def batches(self) -> list[StoredBatch]:
        """The log."""
        return self.log.batches

    @property
    def recovery(self) -> LogRecovery:
        """What the last restart lost."""
        return self.log.recovery

    def view(self) -> LeaderView:
        """This leader as a value."""
        log, states = self.log, self.log.producer_states
        return LeaderView(
            self.leader_epoch,
            self.is_leader,
            log.log_start_offset,
            log.log_end_offset,
            log.high_watermark,
            log.last_stable_offset,
            tuple(sorted(states.entries.items())),
            tuple(sorted(states.verifications.items())),
            tuple(states.ongoing.items()),
            tuple(sorted(states.unreplicated.items())),
            tuple(log.aborted),
        )

    # ---- appending

    def begin_verification(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        *,
        supports_epoch_bump: bool,
        now_ms: int,
    ) -> VerificationStart:
        """The guard with which to append a transactional batch.

        NO_GUARD without an error: the transaction is open in the partition, append at once. Any
        other guard: first verify with the coordinator (AddPartitionsToTxn, to verify in V1, to add
        in V2), and append with the guard on success. `base_sequence` is the batch's, or -1 for
        TxnOffsetCommit; `supports_epoch_bump`: the request is V2. Errors: NOT_LEADER_OR_FOLLOWER,
        INVALID_PRODUCER_EPOCH. `UnifiedLog.maybeStartTransactionVerification`.
        """
        states, rules = self.log.producer_states, self.log.rules
        entry = states.entries.get(producer_id, UNKNOWN_PRODUCER)
        if not self.is_leader:
            return VerificationStart(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if rules.checks_epoch_at_begin and producer_id in states.entries:
            error = check_producer_epoch(entry, producer_epoch)
            if error:
                return VerificationStart(error)
        if is_ongoing(entry, producer_epoch, rules):
            return VerificationStart(_NONE)
        begun = states.begin_verification(
            producer_id,
            producer_epoch,
            base_sequence,
            supports_epoch_bump=supports_epoch_bump,
            now_ms=now_ms,
        )
        return VerificationStart(_NONE, begun.guard)

    def produce(
        self,
        batch_bytes: bytes | None,
        *,
        required_acks: int,
        now_ms: int,
        guard: int = NO_GUARD,
    ) -> ProduceOutcome:
        """Append the batch of a client's Produce request (3 or later), origin CLIENT.

        `required_acks` is -1, 0 or 1, `now_ms` the broker's clock, `guard` from
        `begin_verification`. A refusal is an outcome; nothing is raised.
        `ReplicaManager.appendRecords`.
        """
        try:
            return self._append_as_leader(batch_bytes, _CLIENT, required_acks, now_ms, guard)
        except StorageError:
            return self._refuse(ErrorCode.KAFKA_STORAGE_ERROR)

    def append_as_coordinator(
        self,
        batch_bytes: bytes,
        *,
        required_acks: int = ACKS_ALL,
        now_ms: int,
        guard: int = NO_GUARD,
        transaction_version: int = 0,
    ) -> ProduceOutcome:
        """Append a batch from a coordinator of this broker, without checks of header and sequence.

        A transactional batch is verified like a client's. A control batch is a marker:
        `write_marker`.
        """
        try:
            return self._append_as_leader(
                batch_bytes, _COORDINATOR, required_acks, now_ms, guard, transaction_version
            )
        except StorageError:
            return self._refuse(ErrorCode.KAFKA_STORAGE_ERROR)

    def write_marker(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        control_type: ControlType,
        coordinator_epoch: int,
        now_ms: int,
        transaction_version: int = 0,
    ) -> ProduceOutcome:
        """Append the COMMIT or ABORT marker of WriteTxnMarkers, answered when it is replicated.

        `transaction_version` is the request's, 0 if it has none (WriteTxnMarkers 1). Errors besides
        those of an append: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED. Raises
        `InvalidField` for numbers out of a marker's range.
        `KafkaApis.handleWriteTxnMarkersRequest`.
        """
        batch = marker_batch(
            EndTransactionMarker(control_type, coordinator_epoch),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            timestamp=now_ms,
        )
        return self.append_as_coordinator(
            encode_batch(batch), now_ms=now_ms, transaction_version=transaction_version
        )

    def _append_as_leader(
        self,
        batch_bytes: bytes | None,
        checks: Checks,
        required_acks: int,
        now_ms: int,
        guard: int,
        transaction_version: int = 0,
    ) -> ProduceOutcome:
        data = first_batch(batch_bytes)
        if not isinstance(data, bytes):
            return ProduceOutcome.refuse(data)
        if required_acks not in VALID_ACKS:
            return ProduceOutcome.refuse(ErrorCode.INVALID_REQUIRED_ACKS)
        error = self._check_replicas(required_acks)
        if error:
            return self._refuse(error)
        log = self.log
        batch = validate_batch(data, log.limits, now_ms, checks)
        if not isinstance(batch, ValidBatch):
            if isinstance(batch, ErrorCode):
                return self._refuse(batch)
            return self._refuse(batch.error)._replace(record_errors=batch.records)
        header = batch.header
        last_offset = log.log_end_offset + header.last_offset_delta
        log.roll_if_full(len(batch.data), last_offset, batch.max_timestamp)
        if header.producer_id <= NO_PRODUCER_ID:
            return self._append(batch, None, required_acks, now_ms)
        entry = log.producer_states.entries.get(header.producer_id, UNKNOWN_PRODUCER)
        if header.attributes & CONTROL:
            return self._append_marker(batch, entry, required_acks, now_ms, transaction_version)
        last = last_sequence(header.base_sequence, header.last_offset_delta)
        known = find_duplicate(entry, header.producer_epoch, last, header.last_offset_delta)
        if known is not None and checks.duplicate:
            wait = known.last_offset + 1 if required_acks == ACKS_ALL else INVALID_OFFSET
            return ProduceOutcome(
                _NONE, known.first_offset, known.timestamp, log.log_start_offset, wait
            )
        error = self._check_producer(entry, header, checks, guard)
        if error:
            return self._refuse(error)
        return self._append(batch, entry, required_acks, now_ms)

    def _check_producer(
        self, entry: ProducerStateEntry, header: BatchHeader, checks: Checks, guard: int
    ) -> ErrorCode:
        """Check verification, epoch, sequence, open transaction. `ProducerAppendInfo.append`."""
        rules, epoch = self.log.rules, header.producer_epoch
        verification = self.log.producer_states.verifications.get(header.producer_id)
        is_transactional = bool(header.attributes & TRANSACTIONAL)
        if checks.verification and is_transactional:
            error = check_verified(entry, epoch, verification, guard, rules)
            if error:
                return error
        error = check_producer_epoch(entry, epoch)
        if checks.producer_epoch and error:
            return error
        if checks.sequence:
            first = header.base_sequence
            error = check_verified_sequence(entry, first, verification, rules)
            error = error or check_sequence(entry, epoch, first)
            if error:
                return error
        return check_open(entry, is_transactional)

    def _append_marker(
        self,
        batch: ValidBatch,
        entry: ProducerStateEntry,
        required_acks: int,
        now_ms: int,
        transaction_version: int,
    ) -> ProduceOutcome:
        """Check and append a control batch; without a marker it changes no producer state."""
        try:
            marker = parse_marker(batch.data)
        except InvalidRecord:
            return self._refuse(ErrorCode.INVALID_RECORD)
        if marker is None:
            return self._append(batch, None, required_acks, now_ms)
        epoch, coordinator_epoch = batch.header.producer_epoch, marker.coordinator_epoch
        error = check_marker(entry, epoch, coordinator_epoch, transaction_version, self.log.rules)
        if error:
            return self._refuse(error)
        return self._append(batch, entry, required_acks, now_ms, marker)

    def _check_replicas(self, required_acks: int) -> ErrorCode:
        """Check leadership and in-sync replicas. `Partition.appendRecordsToLeader`."""
        if not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if required_acks == ACKS_ALL and not self._has_enough_replicas():
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return _NONE

    def _has_enough_replicas(self) -> bool:
        """Whether min_insync_replicas are in sync, or all replicas. `effectiveMinIsr`."""
        least = min(self.log.config.min_insync_replicas, self.replication_factor)
        return self.in_sync_replicas >= least

    def _refuse(self, error: ErrorCode) -> ProduceOutcome:
        bare = error in _WITHOUT_LOG_START
        return ProduceOutcome.refuse(error, INVALID_OFFSET if bare else self.log_start_offset)

    def _append(
        self,
        batch: ValidBatch,
        entry: ProducerStateEntry | None,
        required_acks: int,
        now_ms: int,
        marker: EndTransactionMarker | None = None,
    ) -> ProduceOutcome:
        """Assign offsets, store, update producer state. The last part of `UnifiedLog.append`."""
        header, attributes, max_timestamp, data = batch
        log = self.log
        base_offset = log.log_end_offset
        epoch, size_bytes = self.leader_epoch, len(data)
        if log.size_bytes + size_bytes > log.config.max_log_bytes:
            return self._refuse(ErrorCode.KAFKA_STORAGE_ERROR)
        stored = _new(
            StoredBatch,
            (
                base_offset,
                header.last_offset_delta,
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                max_timestamp,
                attributes,
                epoch,
                size_bytes,
                place_batch(data, header, base_offset, epoch),
            ),
        )
        if entry is None or marker is None:
            log.append(stored, None if entry is None else apply_data_batch(entry, stored))
        else:
            after = with_marker(
                entry, header.producer_epoch, marker.coordinator_epoch, max_timestamp
            )
            is_aborted = marker.control_type == ControlType.ABORT
            log.append_marker(stored, after, is_aborted=is_aborted)
        return _new(
            ProduceOutcome,
            (
                _NONE,
                base_offset,
                now_ms if log.limits.is_log_append_time else NO_TIMESTAMP,
                log.log_start_offset,
                log.log_end_offset if required_acks == ACKS_ALL else INVALID_OFFSET,
                (),
            ),
        )

    # ---- after the append

    def settle(self, outcome: ProduceOutcome, *, is_overdue: bool = False) -> ProduceOutcome | None:
        """The answer to a request now; None while it waits for replicas.

        `is_overdue`: its timeout has passed. Whatever the answer, the batch stays in the log, and
        its retry is a duplicate. `DelayedProduce.tryComplete`, `onExpiration`,
        `Partition.checkEnoughReplicasReachOffset`.
        """
        if outcome.error or outcome.required_offset == INVALID_OFFSET:
            return outcome
        if not self.is_leader:
            return outcome._replace(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.high_watermark >= outcome.required_offset:
            if self._has_enough_replicas():
                return outcome
            return outcome._replace(error=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return outcome._replace(error=ErrorCode.REQUEST_TIMED_OUT) if is_overdue else None

    def advance_high_watermark(self, offset: int) -> None:
        """All replicas have the records below `offset`. Raises `HighWatermarkOutOfRange`."""
        self.log.advance_high_watermark(offset)

    def advance_as_replicated(self) -> None:
        """All replicas in sync have the whole log, whose records count if these are enough.

        With too few the high watermark stays (KIP-966). `Partition.maybeIncrementLeaderHW`.
        """
        if self.in_sync_replicas >= self.replication_factor or self._has_enough_replicas():
            self.log.advance_high_watermark(self.log.log_end_offset)

    def update_replicas(self, replication_factor: int, in_sync: int) -> None:
        """Set how many replicas there are, and how many of them are in sync, with the leader.

        Raises `InvalidInSyncReplicas`.
        """
        self.replication_factor = replication_factor
        self.update_in_sync_replicas(in_sync)

    def update_in_sync_replicas(self, count: int) -> None:
        """Set the number of in-sync replicas, with the leader. Raises `InvalidInSyncReplicas`."""
        if not 1 <= count <= self.replication_factor:
            problem = f"{count} of {self.replication_factor} replicas in sync"
            raise InvalidInSyncReplicas(problem)
        self.in_sync_replicas = count

    def resign(self) -> ReplicaLog:
        """Stop leading: refuse appends and waiting answers from now on. Returns the log."""
        self.is_leader = False
        return self.log

    # ---- deletion, expiry, snapshots

    def delete_records(self, before: int) -> DeleteOutcome:
        """Delete the records before an offset, or before the high watermark (HIGH_WATERMARK).

        A topic that is only compacted refuses it: POLICY_VIOLATION, whatever the offset. Producer
        state stays until a restart (KAFKA-7190). `Partition.deleteRecordsOnLeader`.
        """
        if not self.is_leader:
            return DeleteOutcome(ErrorCode.NOT_LEADER_OR_FOLLOWER, INVALID_OFFSET)
        if self.config.cleanup_policy == COMPACT:
            return DeleteOutcome(ErrorCode.POLICY_VIOLATION, INVALID_OFFSET)
        offset = self.high_watermark if before == HIGH_WATERMARK else before
        if not 0 <= offset <= self.high_watermark:
            return DeleteOutcome(ErrorCode.OFFSET_OUT_OF_RANGE, INVALID_OFFSET)
        try:
            self.log.advance_log_start(offset)
        except StorageError:
            return DeleteOutcome(ErrorCode.KAFKA_STORAGE_ERROR, INVALID_OFFSET)
        return DeleteOutcome(_NONE, self.log_start_offset)

    def remove_expired_producers(self, now_ms: int) -> None:
        """Forget idle producers. `ProducerStateManager.removeExpiredProducers`."""
        self.log.producer_states.remove_expired(now_ms)

    def snapshot(self) -> bytes:
        """The producer snapshot at `log_end_offset`, the bytes of Kafka's file."""
        return self.log.producer_states.encode()
