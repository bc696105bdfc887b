"""Transactions of one producer: its state, its requests, and which partitions may be written.

1. What the application may call stands in `LEGAL_CALLS`, what a state may follow in
   `LEGAL_SOURCES`; a call that is not legal changes nothing.
2. A batch leaves only for a partition of the transaction: V1 adds it by a request first, V2 by the
   batch itself.
3. EndTxn leaves after every batch has its outcome; a batch that failed takes the commit with it.
4. One request at a time. One whose answer is lost is sent again until it is answered: each may
   safely be repeated.
5. With V1 an epoch is the producer's own, and new after an abort that left sequences in doubt; with
   V2 it is the transaction's: EndTxn answers the next one, and all sequences begin at 0.

Theory of operation: calls change the state and queue requests (`txn_queue`). The sender takes
`next_request` and tells what came of it with `receive` or `request_failed`; `ANSWERS` decides what
follows. A call that takes time returns a `CallResult`: until its end has been told, the same call
returns the same result and no other one is legal, so that a call that timed out is repeated.
Source: `TransactionManager` of Kafka 4.3.1; KIP-98, KIP-360, KIP-447, KIP-588, KIP-654, KIP-890.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from impl.producer.batch import ProducerBatch, TopicPartition
from impl.producer.config import ProducerConfig
from impl.producer.errors import (
    DeliveryError,
    FatalProducerError,
    IllegalStateError,
    ProducerFenced,
    TransactionAbortableError,
)
from impl.producer.sequence import precedes
from impl.producer.transaction_manager import (
    LEGAL_SOURCES,
    TRANSACTIONAL_RETRY_TABLE,
    PartitionEntry,
    Refusal,
    State,
    TransactionManager,
)
from impl.producer.txn_answers import (
    ENDS,
    Answer,
    added_partitions,
    check_answer,
    coordinator_of,
    error_of,
)
from impl.producer.txn_arguments import checked_offsets
from impl.producer.txn_queue import ProducerIdAndEpoch, TxnQueue
from impl.producer.txn_requests import (
    ADD_PARTITIONS_RETRY_BACKOFF_MS,
    CallResult,
    GroupMetadata,
    OffsetAndMetadata,
    RequestVersions,
    Then,
    TxnRequest,
    then_for,
)
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import NO_PRODUCER_ID, decrement_sequence
from impl.protocol.schemas import ApiKey

LEGAL_CALLS: Final[Mapping[State, tuple[str, ...]]] = {
    State.UNINITIALIZED: ("start", "stop"),
    State.INITIALIZING: ("stop",),
    State.READY: ("begin_transaction", "stop"),
    State.IN_TRANSACTION: (
        "send",
        "send_offsets_to_transaction",
        "commit_transaction",
        "abort_transaction",
        "stop",
    ),
    State.COMMITTING_TRANSACTION: ("stop",),
    State.ABORTING_TRANSACTION: ("stop",),
    State.ABORTABLE_ERROR: ("abort_transaction", "stop"),
    State.FATAL_ERROR: ("stop",),
}
"""What the application may call in each state; one that has not ended may always be repeated."""

V2_LEVEL: Final = 2
"""The level of the feature transaction.version from which on a cluster announces requests V2."""


class PendingCall(NamedTuple):
    """The last call that takes time, and what became of it."""

    name: str
    result: CallResult


class TransactionalManager(TransactionManager):
    """The transactional part of Kafka's TransactionManager: see the rules above.

    Attributes: `epoch_bump_required`, a new epoch is asked for behind EndTxn (V1); `partitions` of
    the transaction; `in_flight`, the open request; `last_refusal`, the last answer that a request
    is repeated for, in words.
    """

    def __init__(self, config: ProducerConfig, versions: RequestVersions) -> None:
        super().__init__(config.max_partitions)
        self._config = config
        self._queue = TxnQueue(config.transactional_id or "", versions)
        self._queue.is_v2 = config.transaction_requests == "v2"
        self._level = -1
        self._is_started = False
        self._new_partitions: dict[TopicPartition, None] = {}
        self._groups: set[str] = set()
        self._pending: PendingCall | None = None
        self.partitions: set[TopicPartition] = set()
        self.in_flight: TxnRequest | None = None
        self.last_refusal = ""

    @property
    def is_v2(self) -> bool:
        """Whether the requests in use are V2."""
        return self._queue.is_v2

    @property
    def identity(self) -> ProducerIdAndEpoch:
        """Producer id and epoch."""
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    # ---- the calls of the application

    def legal_calls(self) -> tuple[str, ...]:
        """The names of the calls that are legal now."""
        pending = self._pending
        if pending and not pending.result.is_acknowledged and self.state is not State.FATAL_ERROR:
            return (pending.name, "stop")
        return LEGAL_CALLS[self.state]

    def initialize(self) -> CallResult:
        """Ask for producer id and epoch; older producers of this transactional id are fenced then.

        Raises `IllegalStateError`, and in an error state the `DeliveryError` that led to it.
        Source: `TransactionManager.initializeTransactions`.
        """
        return self._call("start", State.INITIALIZING, self._begin_initialize)

    def begin(self) -> None:
        """Begin a transaction; no request says so. Raises as `initialize`."""
        self._check_call("begin_transaction")
        self._transition_to(State.IN_TRANSACTION)

    def begin_commit(self) -> CallResult:
        """Commit once every batch is acknowledged. Raises as `initialize`."""
        return self._call("commit_transaction", State.COMMITTING_TRANSACTION, self._begin_end)

    def begin_abort(self) -> CallResult:
        """Abort; what has not left yet does not leave any more. Raises as `initialize`."""
        return self._call("abort_transaction", State.ABORTING_TRANSACTION, self._begin_end)

    def send_offsets(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: str | GroupMetadata
    ) -> CallResult:
        """Let the consumer's offsets move if, and when, the transaction commits.

        Raises as `initialize`, and `InvalidArgumentError`.
        Source: `TransactionManager.sendOffsetsToTransaction`, KIP-447.
        """
        sent, group = checked_offsets(offsets, group)
        self._check_call("send_offsets_to_transaction")
        if not sent:
            result = CallResult()
            result.succeed()
            return result
        remembers = self._config.remember_groups and group.group_id in self._groups
        if not (self.is_v2 or remembers):
            return self._queue.add_offsets(self.identity, sent, group)
        self._is_started = True
        return self._queue.txn_offset_commit(self.identity, sent, group, CallResult())

    def check_send(self) -> None:
        """Whether a record may be sent now. Raises as `initialize`.

        Source: `TransactionManager.maybeAddPartition`.
        """
        self._check_call("send")
        if self.producer_id == NO_PRODUCER_ID:
            raise IllegalStateError(
                "send without a producer id: start was refused", ("abort_transaction", "stop")
            )

    def add_partition(self, topic_partition: TopicPartition) -> None:
        """A record for this partition is queued. `TransactionManager.maybeAddPartition`."""
        if self.is_v2:
            self.partitions.add(topic_partition)
            self._is_started = True
        elif topic_partition not in self.partitions:
            self._new_partitions[topic_partition] = None

    def abort_at_close(self) -> None:
        """End the transaction that the application has left open. `Sender.run`."""
        if self.state in (State.IN_TRANSACTION, State.ABORTABLE_ERROR):
            self._transition_to(State.ABORTING_TRANSACTION)
            self._begin_end()

    def _call(self, name: str, target: State, start: Callable[[], CallResult]) -> CallResult:
        """Begin a call that takes time, or join it if its end has not been told.

        Source: `TransactionManager.handleCachedTransactionRequestResult`, KAFKA-13412.
        """
        pending = self._pending
        if pending and pending.name == name and not pending.result.is_acknowledged:
            return pending.result
        self._check_call(name)
        self._transition_to(target)
        self._pending = PendingCall(name, start())
        return self._pending.result

    def _check_call(self, name: str) -> None:
        legal = self.legal_calls()
        if name in legal:
            return
        if self.last_error is not None and legal == LEGAL_CALLS[self.state]:
            error = self.last_error.restated(f"{name}: {self.last_error}", may_be_written=False)
            error.legal_calls = legal
            raise error
        raise IllegalStateError(f"{name} while {self.state.value}", legal)

    def _begin_initialize(self) -> CallResult:
        timeout_ms = self._config.transaction_timeout_ms
        is_bump = self.state is not State.INITIALIZING
        expected = self.identity if is_bump else ProducerIdAndEpoch()
        return self._queue.init_producer_id(expected, timeout_ms, is_epoch_bump=is_bump)

    def _begin_end(self) -> CallResult:
        """Queue EndTxn, and behind it InitProducerId if a new epoch is needed.

        The transaction ends with the requests it began with. A move to V2 counts from here on, and
        takes a new epoch, so that no epoch knows both (KAFKA-18227).
        Source: `TransactionManager.beginCompletingTransaction`.
        """
        is_commit = self.state is State.COMMITTING_TRANSACTION
        if not is_commit:
            self._new_partitions.clear()
        self._enqueue_new_partitions()
        result = self._queue.end_txn(self.identity, is_commit=is_commit)
        self._choose_requests(is_first=False)
        return self._begin_initialize() if self.epoch_bump_required else result

    # ---- V1 and V2

    def update_level(self, level: int) -> None:
        """The cluster announces this level of transaction.version; -1 where it has none.

        It counts from the next InitProducerId, or the end of the transaction, on.
        Source: `TransactionManager.maybeUpdateTransactionV2Enabled`.
        """
        self._level = level

    def _choose_requests(self, *, is_first: bool) -> None:
        if self._config.transaction_requests != "auto":
            return
        was_v2, self._queue.is_v2 = self.is_v2, self._level >= V2_LEVEL
        if self.is_v2 and not was_v2 and not is_first:
            self.epoch_bump_required = True

    @property
    def produce_version(self) -> int:
        """The version of Produce that speaks the requests in use."""
        return self._queue.versions.of_api(ApiKey.PRODUCE, self.is_v2)

    # ---- the requests

    def next_request(self, now_ms: int, *, has_incomplete_batches: bool) -> TxnRequest | None:
        """Take the request that is to be sent now, if there is one.

        Source: `TransactionManager.nextRequest`.
        """
        self._enqueue_new_partitions()
        while self._queue:
            request = self._queue.head
            is_end = request.api_key is ApiKey.END_TXN
            if (is_end and has_incomplete_batches) or request.not_before_ms > now_ms:
                return None
            self._queue.take()
            if self.last_error is not None and request.looks_up is None:
                request.result.fail(self.last_error)
            elif is_end and not self._is_started:
                # No coordinator has heard of this transaction.
                self._complete_transaction()
                request.result.succeed()
            else:
                return request
        return None

    def _enqueue_new_partitions(self) -> None:
        if self._new_partitions:
            self._queue.add_partitions(self.identity, self._new_partitions)
            self._new_partitions.clear()

    @property
    def has_requests(self) -> bool:
        """Whether a request is open or waits."""
        return self.in_flight is not None or bool(self._queue)

    @property
    def due_ms(self) -> int:
        """When the next request may be sent: nothing else is sent before."""
        return self._queue.head.not_before_ms if self._queue else 0

    def coordinator(self, request: TxnRequest) -> int:
        """The node that the request goes to, `NO_NODE` if it must be looked up."""
        assert request.coordinator is not None, "this one goes to any node"
        return self._queue.coordinator(request.coordinator)

    def put_back(self, request: TxnRequest) -> None:
        """The request could not be sent: it waits again."""
        self._queue.retry(request)

    def look_up(self, request: TxnRequest) -> None:
        """The request waits until its coordinator is found."""
        self._queue.look_up(request)
        self._queue.retry(request)

    # ---- answers

    def request_failed(self, now_ms: int) -> None:
        """The open request's connection broke: perhaps it was heard.

        Source: `TxnRequestHandler.onComplete`.
        """
        request = self._take_in_flight()
        if request.coordinator is not None:
            self._queue.look_up(request)
        self._retry(request, self._config.retry_backoff_ms, now_ms)

    def check_answer(self, answer: Answer) -> None:
        """Raise `MalformedAnswerError` if this cannot be the open request's answer."""
        assert self.in_flight is not None, "an answer without a request"
        check_answer(self.in_flight, answer)

    def receive(self, answer: Answer, now_ms: int) -> None:
        """Take the open request's answer. After the end of the producer it comes to nothing."""
        request = self._take_in_flight()
        if self.state is State.FATAL_ERROR:
            return
        error = error_of(request, answer)
        if error is ErrorCode.NONE:
            _SUCCESS[request.api_key](self, request, answer)
        else:
            self._act(request, error, now_ms)

    def _take_in_flight(self) -> TxnRequest:
        request, self.in_flight = self.in_flight, None
        self.last_refusal = ""
        assert request is not None, "an answer without a request"
        return request

    def _act(self, request: TxnRequest, error: ErrorCode, now_ms: int) -> None:
        """What `ANSWERS` says of an error."""
        then = then_for(request.api_key, error)
        if then in ENDS:
            self._end_call(request, error, then)
            return
        self.last_refusal = f"{request.api_key.name} was answered {error.name}"
        backoff_ms = self._config.retry_backoff_ms
        if then is Then.LOOK_UP:
            self._queue.look_up(request)
        elif then is Then.RETRY_SOON and not self.partitions:
            backoff_ms = min(backoff_ms, ADD_PARTITIONS_RETRY_BACKOFF_MS)
        self._retry(request, backoff_ms, now_ms)

    def _retry(self, request: TxnRequest, backoff_ms: int, now_ms: int) -> None:
        if self.state is not State.FATAL_ERROR:
            self._queue.retry(request, now_ms + backoff_ms)

    def _end_call(self, request: TxnRequest, error: ErrorCode, then: Then) -> None:
        kind = ENDS[then]
        if then is Then.ABORT_UNLESS_ABORTING and self.state is State.ABORTING_TRANSACTION:
            kind = FatalProducerError
        if then is Then.ABORT_AND_BUMP and not self._can_go_on:
            kind = FatalProducerError
        failure = kind(error, f"{request.api_key.name} was refused: {error.name}", True)
        request.result.fail(failure)
        if isinstance(failure, FatalProducerError):
            self._end(failure)
        else:
            self._abortable(failure, asks_for_bump=then is Then.ABORT_AND_BUMP)

    def _initialized(self, request: TxnRequest, answer: Answer) -> None:
        self._take_identity(answer)
        self._enter(State.READY)
        if request.is_epoch_bump:
            self._reset_sequences()
        else:
            self._choose_requests(is_first=True)
        request.result.succeed()

    def _partitions_added(self, request: TxnRequest, answer: Answer) -> None:
        self.partitions.update(added_partitions(answer))
        self._is_started = True

    def _offsets_added(self, request: TxnRequest, answer: Answer) -> None:
        """The group's offsets are in the transaction: now they can be committed."""
        self._is_started = True
        self._groups.add(request.group.group_id)
        self._queue.txn_offset_commit(self.identity, request.offsets, request.group, request.result)

    def _offsets_committed(self, request: TxnRequest, answer: Answer) -> None:
        request.result.succeed()

    def _ended(self, request: TxnRequest, answer: Answer) -> None:
        """V2: the answer gives the epoch of the next transaction."""
        if answer.get("producer_id", NO_PRODUCER_ID) != NO_PRODUCER_ID:
            self._take_identity(answer)
            self._reset_sequences()
        self._complete_transaction()
        request.result.succeed()

    def _found(self, request: TxnRequest, answer: Answer) -> None:
        assert request.looks_up is not None
        self._queue.found(request.looks_up, coordinator_of(answer))

    def _take_identity(self, answer: Answer) -> None:
        self.producer_id, self.producer_epoch = answer["producer_id"], answer["producer_epoch"]

    def _reset_sequences(self) -> None:
        self.entries.clear()
        self._unresolved.clear()

    def _complete_transaction(self) -> None:
        """Source: `TransactionManager.resetTransactionState`."""
        self._enter(State.INITIALIZING if self.epoch_bump_required else State.READY)
        self.epoch_bump_required = False
        self._is_started = False
        self._new_partitions.clear()
        self._groups.clear()
        self.partitions.clear()

    # ---- errors

    @property
    def _can_go_on(self) -> bool:
        """Whether an abort leaves the producer with sequences that are not in doubt."""
        return self.is_v2 or self._queue.versions.supports_bump

    @property
    def is_completing(self) -> bool:
        """Whether the transaction is about to end."""
        return self.state in (State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION)

    @property
    def has_transaction(self) -> bool:
        """Whether a transaction is open, also one that failed. `hasOngoingTransaction`."""
        return self.is_completing or self.state in (State.IN_TRANSACTION, State.ABORTABLE_ERROR)

    def fail_transaction(self, error: ErrorCode, what: str, *, may_be_written: bool) -> None:
        """A record was refused, here or by a leader: its transaction cannot be committed.

        Source: `TransactionManager.maybeTransitionToErrorState`, KAFKA-9279.
        """
        failure = TransactionAbortableError(error, f"{what}: {error.name}", may_be_written)
        self._abortable(failure, asks_for_bump=not self.is_completing)

    def _abortable(self, error: DeliveryError, *, asks_for_bump: bool) -> None:
        """An abort is under way: then nothing else can go wrong by this."""
        if asks_for_bump and not self.is_v2 and self._queue.versions.supports_bump:
            self.epoch_bump_required = True
        if self.state is not State.ABORTING_TRANSACTION:
            self._enter(State.ABORTABLE_ERROR, error)

    def fail(self, error: ErrorCode, what: str) -> None:
        """End the producer: FATAL_ERROR is legal from every state and is never left."""
        kind = ProducerFenced if error is ErrorCode.PRODUCER_FENCED else FatalProducerError
        self._end(kind(error, f"{what}: {error.name}", True))

    def _end(self, error: DeliveryError) -> None:
        """Nothing is asked any more, and every call has its error."""
        self._transition_to(State.FATAL_ERROR, error)
        self.fail_requests(error)

    def fail_requests(self, error: DeliveryError) -> None:
        """Every call that waits has its error. `TransactionManager.failPendingRequests`."""
        waiting = [request.result for request in self._queue.take_all()]
        if self._pending is not None:
            waiting.append(self._pending.result)
        if self.in_flight is not None:
            waiting.append(self.in_flight.result)
        for result in waiting:
            result.fail(error)

    def _enter(self, target: State, error: DeliveryError | None = None) -> None:
        """Change the state for an answer. What the table forbids is the end (KAFKA-14831)."""
        if self.state in LEGAL_SOURCES[target]:
            self._transition_to(target, error)
        else:
            what = f"{self.state.value} cannot become {target.value}"
            self._end(FatalProducerError(ErrorCode.UNKNOWN_SERVER_ERROR, what, True))

    # ---- batches

    def stops_drain(self, batch: ProducerBatch, entry: PartitionEntry) -> bool:
        """A partition that is not in the transaction yet has to wait, too."""
        return batch.topic_partition not in self.partitions or super().stops_drain(batch, entry)

    def assign(self, batch: ProducerBatch, entry: PartitionEntry) -> None:
        """A sequence, and the mark of a transaction."""
        super().assign(batch, entry)
        batch.is_transactional = True

    def can_retry(self, batch: ProducerBatch, error: ErrorCode, log_start_offset: int) -> bool:
        """Whether the refused batch may be sent again. See `TRANSACTIONAL_RETRY_TABLE`."""
        entry = self.entry(batch.topic_partition)
        unresolved = self.unresolved_sequence(batch.topic_partition)
        refusal = Refusal(batch, entry, unresolved, log_start_offset)
        for row in TRANSACTIONAL_RETRY_TABLE:
            if row.error is error and row.when(refusal):
                if row.renumbers:
                    entry.start_sequences_at_beginning(*self.identity)
                return True
        return error.is_retriable

    def on_failure(self, batch: ProducerBatch, error: ErrorCode, adjust: bool) -> None:
        """The batch is given up, and the transaction with it.

        `adjust`: a leader refused it for good, so the batches behind it take its sequences.
        Source: `TransactionManager.handleFailedBatch`.
        """
        topic, partition = batch.topic_partition
        if self.ends_with(error):
            self.fail(error, "Produce was refused")
        else:
            self.fail_transaction(error, f"a batch for {topic}-{partition}", may_be_written=True)
        self.forget(batch)
        if self.state is State.FATAL_ERROR:
            return
        if error is ErrorCode.UNKNOWN_PRODUCER_ID:
            self.entries.pop(batch.topic_partition, None)
            self._unresolved.pop(batch.topic_partition, None)
        elif adjust:
            _close_the_gap(self.entry(batch.topic_partition), batch)

    def _request_bump(self, topic_partition: TopicPartition) -> None:
        """Sequences of the partition are lost. Only an abort with a new epoch helps.

        Source: `TransactionManager.maybeResolveSequences`.
        """
        topic, partition = topic_partition
        what = f"{topic}-{partition} may lack records that were sent"
        error = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if self._can_go_on:
            failure = TransactionAbortableError(error, what, True)
            self._abortable(failure, asks_for_bump=True)
            self._bump_behind_abort()
        else:
            self.fail(error, what)

    def _bump_behind_abort(self) -> None:
        """An abort that was queued without a new epoch gets one, and ends with it.

        Kafka's client leaves it at EndTxn, and initializes for ever then.
        """
        end_txn = self._queue.waiting(ApiKey.END_TXN)
        is_awaited = end_txn and self._pending and self._pending.result is end_txn.result
        if end_txn and is_awaited and self.epoch_bump_required and self.last_error is None:
            self._begin_initialize()
            bump = self._queue.waiting(ApiKey.INIT_PRODUCER_ID)
            assert bump is not None
            bump.result, end_txn.result = end_txn.result, bump.result


def _close_the_gap(entry: PartitionEntry, failed: ProducerBatch) -> None:
    """The batches behind a refused one take its sequences. `adjustSequencesDueToFailedBatch`."""
    entry.next_sequence = decrement_sequence(entry.next_sequence, failed.record_count)
    for batch in _behind(entry, failed):
        base_sequence = decrement_sequence(batch.base_sequence, failed.record_count)
        batch.reset_producer_state(batch.producer_id, batch.producer_epoch, base_sequence)


def _behind(entry: PartitionEntry, failed: ProducerBatch) -> Iterator[ProducerBatch]:
    for batch in entry.in_flight:
        if not precedes(batch.base_sequence, failed.base_sequence):
            yield batch


_M = TransactionalManager
_SUCCESS: Final[Mapping[ApiKey, Callable[[_M, TxnRequest, Answer], None]]] = {
    ApiKey.INIT_PRODUCER_ID: _M._initialized,
    ApiKey.ADD_PARTITIONS_TO_TXN: _M._partitions_added,
    ApiKey.ADD_OFFSETS_TO_TXN: _M._offsets_added,
    ApiKey.TXN_OFFSET_COMMIT: _M._offsets_committed,
    ApiKey.END_TXN: _M._ended,
    ApiKey.FIND_COORDINATOR: _M._found,
}
