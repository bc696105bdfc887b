"""The transaction coordinator: owners of transactional ids, and the ends of their transactions.

Five rules:

1. Answers, appends and markers are effects; this module only decides.
2. A state change is logged first. `on_appended` reports the result; then memory changes, and then
   the request is answered.
3. EndTxn is answered when PrepareX is logged. Markers and CompleteX follow.
4. One transition at a time for an id; meanwhile other requests get CONCURRENT_TRANSACTIONS.
5. What Kafka calls an illegal state is UNKNOWN_SERVER_ERROR, and changes nothing. A state that the
   level's log cannot represent is UNSUPPORTED_VERSION, and (QUIRK) stays pending.

Theory of operation: the caller passes requests with a reference and the time, receives effects,
and reports back: `on_appended` for each `AppendRecords`, `on_markers_written` for `SendMarkers`
(all partitions at once, or some at a time). It calls `retry`, `abort_timed_out` and
`remove_expired` periodically, `elect`, `load` and `resign` as leadership moves. `view()` is a
snapshot of the state.

    EndTxn -> AppendRecords(PrepareCommit) -> on_appended -> SendAnswer, SendMarkers
           -> on_markers_written -> AppendRecords(CompleteCommit) -> on_appended

Sources: `TransactionCoordinator`, `TransactionStateManager`, `TransactionMarkerChannelManager`;
release 4.3.1; KIP-98, KIP-360, KIP-890.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from impl.coordinator import inspection
from impl.coordinator.config import EPOCH_BUMP_FROM, TransactionConfig
from impl.coordinator.effects import Effect, RequestReference, SendAnswer, SendMarkers
from impl.coordinator.end_txn import EndTxnAction, check_still_prepared, decide_v1, decide_v2
from impl.coordinator.init_producer_id import InitAction, decide
from impl.coordinator.log_records import encode_key
from impl.coordinator.markers import Completion, Completions, CompletionState, MarkerAction
from impl.coordinator.metadata import (
    IllegalTransition,
    TopicPartition,
    TransactionImage,
    TransactionMetadata,
    is_epoch_exhausted,
)
from impl.coordinator.state_manager import (
    EpochAndMetadata,
    PendingAppend,
    Purpose,
    TransactionStateManager,
    is_expired,
    is_timed_out,
)
from impl.coordinator.states import PREPARED, TransactionState, prepare_state
from impl.coordinator.tombstones import chunks
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import (
    NO_PRODUCER,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerIdAndEpoch,
)

GenerateProducerId = Callable[[int], tuple[ErrorCode, int]]
"""From a time in ms to an error, or a new id. `ProducerIdManager.generate`."""


class TransactionCoordinator:
    """One broker's coordinator. Read-only: `config`."""

    __slots__ = ("_completions", "_generate_producer_id", "_next_token", "_states", "config")

    def __init__(
        self, generate_producer_id: GenerateProducerId, config: TransactionConfig | None = None
    ) -> None:
        self.config = config or TransactionConfig()
        self._generate_producer_id = generate_producer_id
        self._states = TransactionStateManager(self.config)
        self._completions = Completions()
        self._next_token = 0

    def set_transaction_version(self, level: int) -> None:
        """Follow the cluster's feature: values and ends of transactions from now on."""
        if level != self.config.transaction_version:
            self.config = self._states.config = replace(self.config, transaction_version=level)

    # ---- requests

    def init_producer_id(
        self,
        request: RequestReference,
        transactional_id: str | None,
        transaction_timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        now_ms: int,
    ) -> list[Effect]:
        """InitProducerId. `expected` is the current identity (KIP-360). `handleInitProducerId`."""
        if transactional_id is None:
            error, producer_id = self._generate_producer_id(now_ms)
            producer = NO_PRODUCER if error else ProducerIdAndEpoch(producer_id, 0)
            return [SendAnswer(request, error, producer)]
        if transactional_id == "":
            return [SendAnswer(request, ErrorCode.INVALID_REQUEST)]
        if not 0 < transaction_timeout_ms <= self.config.transaction_max_timeout_ms:
            return [SendAnswer(request, ErrorCode.INVALID_TRANSACTION_TIMEOUT)]
        entry = self._find_or_add(transactional_id, transaction_timeout_ms, now_ms)
        if isinstance(entry, ErrorCode):
            return [SendAnswer(request, entry)]
        try:
            return self._init(request, entry, transaction_timeout_ms, expected, now_ms)
        except IllegalTransition as refusal:
            return [SendAnswer(request, refusal.error)]

    def _find_or_add(
        self, transactional_id: str, timeout_ms: int, now_ms: int
    ) -> EpochAndMetadata | ErrorCode:
        found = self._states.find(transactional_id)
        if found is not None:
            return found
        error, producer_id = self._generate_producer_id(now_ms)
        if error:
            return error
        image = TransactionImage(
            producer_id, NO_PRODUCER_EPOCH, timeout_ms, last_update_timestamp_ms=now_ms
        )
        return self._states.add(transactional_id, image)

    def _init(
        self,
        request: RequestReference,
        entry: EpochAndMetadata,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        now_ms: int,
    ) -> list[Effect]:
        step = decide(entry.metadata, expected)
        if isinstance(step, ErrorCode):
            return [SendAnswer(request, step)]
        if step is InitAction.FENCE:
            return self._abort(Purpose.FENCE, request, entry, now_ms)
        image: TransactionImage | None
        if step is InitAction.ROTATE:
            error, producer_id = self._generate_producer_id(now_ms)
            if error:
                return [SendAnswer(request, error)]
            image = entry.metadata.prepare_rotation(
                producer_id, timeout_ms, now_ms, keep_last=expected is not None
            )
        else:
            epoch = None if expected is None else expected.producer_epoch
            image = entry.metadata.prepare_epoch_bump(timeout_ms, epoch, now_ms)
        if image is None:
            return [SendAnswer(request, ErrorCode.PRODUCER_FENCED)]
        return [self._states.append(Purpose.INIT_PRODUCER_ID, entry, image, request=request)]

    def add_partitions(
        self,
        request: RequestReference,
        transactional_id: str | None,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
        client_transaction_version: int,
        now_ms: int,
    ) -> list[Effect]:
        """AddPartitionsToTxn that adds, and AddOffsetsToTxn; one answer for all partitions.

        `handleAddPartitionsToTransaction`.
        """
        entry = self._find(transactional_id)
        if isinstance(entry, ErrorCode):
            return [SendAnswer(request, entry)]
        metadata, wanted = entry.metadata, frozenset(partitions)
        error = self._check_add(metadata, producer)
        is_open = metadata.current.state is TransactionState.ONGOING
        if error or (is_open and wanted <= metadata.current.partitions):
            return [SendAnswer(request, error)]
        try:
            image = metadata.prepare_add_partitions(wanted, client_transaction_version, now_ms)
            return [self._states.append(Purpose.ADD_PARTITIONS, entry, image, request=request)]
        except IllegalTransition as refusal:
            return [SendAnswer(request, refusal.error)]

    def _check_add(self, metadata: TransactionMetadata, producer: ProducerIdAndEpoch) -> ErrorCode:
        is_pending = metadata.pending_state is not None
        if is_pending and self.config.add_partitions_pending_first:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        error = _check_producer(metadata.current, producer)
        if error:
            return error
        if is_pending or metadata.current.state in PREPARED:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return ErrorCode.NONE

    def verify_partitions(
        self,
        transactional_id: str | None,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
    ) -> dict[TopicPartition, ErrorCode]:
        """AddPartitionsToTxn that only verifies: it writes nothing and waits for nothing.

        It ignores a pending transition, which the leader's guard covers.
        `handleVerifyPartitionsInTransaction`.
        """
        entry = self._find(transactional_id)
        if isinstance(entry, ErrorCode):
            return dict.fromkeys(partitions, entry)
        now = entry.metadata.current
        error = _check_producer(now, producer)
        if not error and now.state in PREPARED:
            error = ErrorCode.CONCURRENT_TRANSACTIONS
        if error:
            return dict.fromkeys(partitions, error)
        absent = self.config.absent_partition_error
        return {
            partition: ErrorCode.NONE if partition in now.partitions else absent
            for partition in partitions
        }

    def end_txn(
        self,
        request: RequestReference,
        transactional_id: str | None,
        producer: ProducerIdAndEpoch,
        commit: bool,
        client_transaction_version: int,
        now_ms: int,
    ) -> list[Effect]:
        """A client's EndTxn. `client_transaction_version` is 2 from request version 5 on, else 0.

        `handleEndTransaction`.
        """
        entry = self._find(transactional_id)
        if isinstance(entry, ErrorCode):
            return [SendAnswer(request, entry)]
        is_v2 = client_transaction_version >= EPOCH_BUMP_FROM
        try:
            decision = (decide_v2 if is_v2 else decide_v1)(
                entry.metadata, producer, commit, self.config
            )
            if isinstance(decision, EndTxnAction):
                return self._end(
                    request, entry, producer, commit, client_transaction_version, now_ms
                )
        except IllegalTransition as refusal:
            return [SendAnswer(request, refusal.error)]
        is_retry = is_v2 and not decision
        identity = entry.metadata.current.identity if is_retry else NO_PRODUCER
        return [SendAnswer(request, decision, identity)]

    def _end(
        self,
        request: RequestReference,
        entry: EpochAndMetadata,
        producer: ProducerIdAndEpoch,
        commit: bool,
        client_transaction_version: int,
        now_ms: int,
    ) -> list[Effect]:
        metadata = entry.metadata
        error, next_id = self._next_producer_id(metadata, client_transaction_version, now_ms)
        if error:
            return [SendAnswer(request, error)]
        image = metadata.prepare_end(
            prepare_state(commit=commit), client_transaction_version, next_id, now_ms
        )
        return [
            self._states.append(
                Purpose.END_TXN, entry, image, request=request, producer=producer, commit=commit
            )
        ]

    def _next_producer_id(
        self, metadata: TransactionMetadata, client_transaction_version: int, now_ms: int
    ) -> tuple[ErrorCode, int]:
        """A new producer id, if this end uses the last epoch of the current one."""
        ends_as_v2 = client_transaction_version >= EPOCH_BUMP_FROM
        if ends_as_v2 and is_epoch_exhausted(metadata.current.producer_epoch):
            return self._generate_producer_id(now_ms)
        return ErrorCode.NONE, NO_PRODUCER_ID

    def _find(self, transactional_id: str | None) -> EpochAndMetadata | ErrorCode:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        found = self._states.find(transactional_id)
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING if found is None else found

    # ---- aborts by the coordinator

    def _abort(
        self, purpose: Purpose, request: RequestReference, entry: EpochAndMetadata, now_ms: int
    ) -> list[Effect]:
        """Fence the current producer, and abort. Raises `IllegalTransition`.

        Below level 2 memory has the fencing epoch before the log; at level 2 the abort itself bumps
        the epoch, once (KAFKA-19367), and a failed fence changes nothing.
        """
        metadata = entry.metadata
        version = self.config.transaction_version if self.config.bumps_epoch else 0
        fence_epoch = metadata.prepare_fence()
        metadata.cancel()
        error, next_id = ErrorCode.NONE, NO_PRODUCER_ID
        if self._fences_in_memory:
            metadata.take_fenced_epoch(fence_epoch)
        elif self.config.own_aborts_rotate:
            error, next_id = self._next_producer_id(metadata, version, now_ms)
        if error:
            return [] if purpose is Purpose.TIME_OUT else [SendAnswer(request, error)]
        producer = ProducerIdAndEpoch(metadata.current.producer_id, fence_epoch)
        image = metadata.prepare_end(TransactionState.PREPARE_ABORT, version, next_id, now_ms)
        return [self._states.append(purpose, entry, image, request=request, producer=producer)]

    @property
    def _fences_in_memory(self) -> bool:
        return not self.config.bumps_epoch or self.config.fence_bump == "twice"

    def abort_timed_out(self, now_ms: int) -> list[Effect]:
        """Abort transactions that timed out; the next scan retries failures.

        QUIRK: the first one that cannot be fenced ends every scan; those after it stay open.
        `abortTimedOutTransactions`.
        """
        effects: list[Effect] = []
        with suppress(IllegalTransition):
            for _, entry in self._states.entries():
                if is_timed_out(entry, now_ms):
                    effects += self._abort(Purpose.TIME_OUT, None, entry, now_ms)
        return effects

    def remove_expired(self, now_ms: int) -> list[Effect]:
        """Forget unused ids. `removeExpiredTransactionalIds`."""
        expired: dict[tuple[int, int], list[str]] = {}
        for partition, entry in self._states.entries():
            if is_expired(entry, now_ms, self.config.transactional_id_expiration_ms):
                names = expired.setdefault((partition, entry.coordinator_epoch), [])
                names.append(entry.metadata.transactional_id)
                entry.metadata.prepare_dead()
        limit = self.config.max_tombstone_batch_bytes
        return [
            self._states.append_tombstones(partition, epoch, names)
            for (partition, epoch), all_names in expired.items()
            for names in chunks(all_names, limit, key_size=lambda name: len(encode_key(name)))
        ]

    # ---- results of appends

    def on_appended(self, token: int, error: ErrorCode, now_ms: int) -> list[Effect]:
        """The result of an `AppendRecords`: NONE, or an error of the log.

        After an error the record may still be in the log. Raises `KeyError` for an unknown token.
        """
        try:
            pending, error = self._states.complete_append(token, error)
        except IllegalTransition:
            return []
        return _AFTER[pending.purpose](self, pending, error, now_ms)

    def _after_init(self, pending: PendingAppend, error: ErrorCode, now_ms: int) -> list[Effect]:
        assert pending.image is not None
        identity = NO_PRODUCER if error else pending.image.identity
        return [SendAnswer(pending.request, error, identity)]

    def _after_add(self, pending: PendingAppend, error: ErrorCode, now_ms: int) -> list[Effect]:
        return [SendAnswer(pending.request, error)]

    def _after_expire(self, pending: PendingAppend, error: ErrorCode, now_ms: int) -> list[Effect]:
        return []

    def _after_prepare(self, pending: PendingAppend, error: ErrorCode, now_ms: int) -> list[Effect]:
        """Answer after PrepareX, and send the markers if it is logged. `sendTxnMarkersCallback`."""
        epoch = pending.append.coordinator_epoch
        metadata = self._states.find_under(pending.transactional_id, epoch)
        if isinstance(metadata, ErrorCode):
            return _end_answer(pending, error or metadata)
        if error:
            is_fence = pending.purpose is not Purpose.END_TXN
            metadata.has_failed_epoch_fence |= is_fence and self._fences_in_memory
            return _end_answer(pending, error)
        error = check_still_prepared(metadata, pending.producer, pending.commit)
        if error:
            return _end_answer(pending, error)
        image = metadata.prepare_complete(now_ms)
        answer = _end_answer(pending, ErrorCode.NONE, image)
        return answer + self._begin_completion(EpochAndMetadata(epoch, metadata), image)

    def _after_complete(
        self, pending: PendingAppend, error: ErrorCode, now_ms: int
    ) -> list[Effect]:
        epoch = pending.append.coordinator_epoch
        completion = self._completions.find(pending.transactional_id, epoch)
        if completion is None:
            return []
        if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            completion.state = CompletionState.APPEND_FAILED
        else:
            self._completions.remove(completion)
        return []

    # ---- markers

    def _begin_completion(self, entry: EpochAndMetadata, image: TransactionImage) -> list[Effect]:
        """`TransactionMarkerChannelManager.addTxnMarkersToSend`."""
        now = entry.metadata.current
        self._next_token += 1
        completion = Completion(
            self._next_token,
            entry.metadata,
            self._states.partition_of(entry.metadata.transactional_id),
            entry.coordinator_epoch,
            image,
            now.identity,
            now.state is TransactionState.PREPARE_COMMIT,
            now.client_transaction_version,
            waiting=set(now.partitions),
        )
        self._completions.add(completion)
        return [completion.send()] if completion.waiting else self._append_completion(completion)

    def _append_completion(self, completion: Completion) -> list[Effect]:
        """Append CompleteX: all markers are written. `writeTxnCompletion`."""
        entry = EpochAndMetadata(completion.coordinator_epoch, completion.metadata)
        completion.state = CompletionState.APPENDING
        try:
            return [self._states.append(Purpose.COMPLETE, entry, completion.image)]
        except IllegalTransition:
            self._completions.remove(completion)
            return []

    def on_markers_written(
        self, sent: SendMarkers, errors: Mapping[TopicPartition, ErrorCode]
    ) -> list[Effect]:
        """Leaders' answers to markers of `sent`; NETWORK_EXCEPTION if there was none.

        `TransactionMarkerRequestCompletionHandler.onComplete`.
        """
        completion = self._completions.find(sent.transactional_id, sent.coordinator_epoch)
        if completion is None or completion.token != sent.token:
            return []
        metadata = completion.metadata
        for partition, error in errors.items():
            action = completion.apply_answer(partition, error)
            if action is MarkerAction.STOP:
                self._completions.remove(completion)
                return []
            if action is MarkerAction.DONE:
                metadata.remove_partition(partition)
        if metadata.current.partitions or completion.state is not CompletionState.AWAITING_MARKERS:
            return []
        return self._append_completion(completion)

    def retry(self) -> list[Effect]:
        """Retry the markers, and the appends of CompleteX, that failed."""
        effects: list[Effect] = []
        for completion in self._completions:
            if completion.waiting:
                effects.append(completion.send())
            elif completion.state is CompletionState.APPEND_FAILED:
                effects += self._append_completion(completion)
        return effects

    # ---- leadership

    def elect(self, partition: int, coordinator_epoch: int) -> None:
        """This broker leads a partition of `__transaction_state`; `load` comes next."""
        self._completions.remove_partition(partition)
        self._states.elect(partition, coordinator_epoch)

    def load(
        self,
        partition: int,
        coordinator_epoch: int,
        records: Iterable[tuple[bytes, bytes | None]],
        now_ms: int,
    ) -> list[Effect]:
        """Load the partition's records, oldest first, and send markers of prepared transactions.

        Raises `DecodeError`; the partition is then still loading.
        """
        effects: list[Effect] = []
        for entry in self._states.load(partition, coordinator_epoch, records):
            if entry.metadata.current.state in PREPARED:
                image = entry.metadata.prepare_complete(now_ms)
                effects += self._begin_completion(entry, image)
        return effects

    def resign(self, partition: int, coordinator_epoch: int | None = None) -> None:
        """Another broker leads the partition: drop all that is in progress."""
        self._states.resign(partition, coordinator_epoch)
        if partition not in self._states.coordinator_epochs:
            self._completions.remove_partition(partition)

    # ---- inspection

    def describe(self, transactional_id: str) -> inspection.DescribeResult:
        """DescribeTransactions, one id. `handleDescribeTransactions`."""
        return inspection.describe(self._states, transactional_id)

    def list_transactions(
        self, filters: inspection.ListFilters, now_ms: int
    ) -> inspection.ListResult:
        """ListTransactions. `listTransactionStates`."""
        return inspection.list_transactions(self._states, filters, now_ms)

    def view(self) -> inspection.CoordinatorView:
        """A snapshot of the state."""
        return inspection.view(self._states, self._completions)


def _check_producer(now: TransactionImage, producer: ProducerIdAndEpoch) -> ErrorCode:
    if producer.producer_id != now.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if producer.producer_epoch != now.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def _end_answer(
    pending: PendingAppend, error: ErrorCode, complete: TransactionImage | None = None
) -> list[Effect]:
    """Answer EndTxn with the next identity; after a fence the client has to repeat its request."""
    if pending.purpose is Purpose.TIME_OUT:
        return []
    if pending.purpose is Purpose.FENCE:
        return [SendAnswer(pending.request, error or ErrorCode.CONCURRENT_TRANSACTIONS)]
    producer = complete.identity if complete and complete.bumps_epoch else NO_PRODUCER
    return [SendAnswer(pending.request, error, producer)]


_AFTER: Final[
    Mapping[
        Purpose, Callable[[TransactionCoordinator, PendingAppend, ErrorCode, int], list[Effect]]
    ]
] = {
    Purpose.INIT_PRODUCER_ID: TransactionCoordinator._after_init,
    Purpose.ADD_PARTITIONS: TransactionCoordinator._after_add,
    Purpose.END_TXN: TransactionCoordinator._after_prepare,
    Purpose.FENCE: TransactionCoordinator._after_prepare,
    Purpose.TIME_OUT: TransactionCoordinator._after_prepare,
    Purpose.COMPLETE: TransactionCoordinator._after_complete,
    Purpose.EXPIRE: TransactionCoordinator._after_expire,
}
