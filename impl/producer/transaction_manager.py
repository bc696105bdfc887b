"""The transactions of one producer: its state, its requests, and the partitions it may write to.

1. `LEGAL_CALLS` lists what the application may call, `LEGAL_SOURCES` the state transitions; an
   illegal call changes nothing.
2. A batch is sent only to a partition of the transaction: V1 adds the partition by a request first,
   V2 by the batch itself.
3. EndTxn is sent after all batches are finished; a failed batch fails the commit.
4. One request at a time, sent again until it is answered: all of them are safe to repeat.
5. In V1 an epoch belongs to the producer, and is bumped after an abort that left sequences in
   doubt. In V2 it belongs to the transaction: the answer to EndTxn has the next one, and all
   sequences start at 0.

Theory of operation: calls change the state and queue requests (`transactional_requests`). The
sender takes `next_request` and reports the result to `receive` or `on_request_failed`; `ANSWERS`
decides what follows. A call that takes time returns a `CallResult`: until the application has
acknowledged it, the same call returns the same result and no other one is legal, so that a call
that timed out is repeated.
Source: `TransactionManager` of Kafka 4.3.1; KIP-98, KIP-360, KIP-447, KIP-588, KIP-654, KIP-890.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from impl.client.errors import IllegalStateError
from impl.producer.arguments import parse_group_offsets
from impl.producer.batch import ProducerBatch
from impl.producer.config import ProducerConfig
from impl.producer.errors import (
    DeliveryError,
    FatalProducerError,
    ProducerFenced,
    TransactionAbortableError,
)
from impl.producer.sequence_manager import (
    LEGAL_SOURCES,
    TRANSACTIONAL_RETRY_TABLE,
    PartitionEntry,
    RefusedBatch,
    SequenceManager,
    State,
    precedes,
)
from impl.producer.transactional_requests import (
    CallResult,
    RequestVersions,
    TxnRequest,
    TxnRequestQueue,
)
from impl.producer.transactional_responses import (
    ADD_PARTITIONS_RETRY_BACKOFF_MS,
    FAILURES,
    Action,
    Answer,
    action_for,
    added_partitions,
    check_answer,
    coordinator_of,
    decide_error,
)
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import TopicPartition
from impl.protocol.record_batch import (
    NO_PRODUCER,
    NO_PRODUCER_ID,
    ProducerIdAndEpoch,
    decrement_sequence,
)
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
"""The legal calls of each state. A call that is not finished may always be repeated."""

V2_LEVEL: Final = 2
"""From this level of the feature transaction.version on, a cluster supports requests V2."""


class PendingCall(NamedTuple):
    """The last call that takes time, and its result."""

    name: str
    result: CallResult


class TransactionManager(SequenceManager):
    """The transactional part of Kafka's SequenceManager: see the rules above.

    Attributes: `epoch_bump_required`, InitProducerId follows EndTxn (V1); `partitions` of the
    transaction; `in_flight`, the request without an answer; `last_refusal`, why the current request
    is being retried.
    """

    def __init__(self, config: ProducerConfig, versions: RequestVersions) -> None:
        super().__init__(config.max_partitions)
        self._config = config
        self._queue = TxnRequestQueue(config.transactional_id or "", versions)
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
        """Whether requests are V2 (KIP-890)."""
        return self._queue.is_v2

    @property
    def identity(self) -> ProducerIdAndEpoch:
        """Producer id and epoch."""
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    # ---- calls of the application

    def legal_calls(self) -> tuple[str, ...]:
        """The names of the calls that are legal now."""
        awaited = self._find_awaited_call()
        return LEGAL_CALLS[self.state] if awaited is None else (awaited.name, "stop")

    def _find_awaited_call(self) -> PendingCall | None:
        """The call whose end the application has not heard of; none after a fatal error."""
        pending = self._pending
        if pending is None or pending.result.is_acknowledged or self.state is State.FATAL_ERROR:
            return None
        return pending

    def initialize(self) -> CallResult:
        """Request producer id and epoch, which fences older producers of this transactional id.

        Raises `IllegalStateError`, and in an error state the `DeliveryError` that led to it.
        Source: `TransactionManager.initializeTransactions`.
        """
        return self._start_call("start", State.INITIALIZING, self._begin_initialize)

    def begin(self) -> None:
        """Begin a transaction, without a request. Raises as `initialize`."""
        self._check_call("begin_transaction")
        self._transition_to(State.IN_TRANSACTION)

    def begin_commit(self) -> CallResult:
        """Commit once every batch is acknowledged. Raises as `initialize`."""
        return self._start_call("commit_transaction", State.COMMITTING_TRANSACTION, self._begin_end)

    def begin_abort(self) -> CallResult:
        """Abort; batches that were never sent are dropped. Raises as `initialize`."""
        return self._start_call("abort_transaction", State.ABORTING_TRANSACTION, self._begin_end)

    def send_offsets(self, offsets: Any, group: Any) -> CallResult:
        """Commit a consumer's offsets with the transaction, as `parse_group_offsets` takes them.

        Raises as `initialize`, and `InvalidArgumentError`.
        Source: `TransactionManager.sendOffsetsToTransaction`, KIP-447.
        """
        sent, group = parse_group_offsets(offsets, group)
        self._check_call("send_offsets_to_transaction")
        if not sent:
            result = CallResult()
            result.succeed()
            return result
        is_added = self._config.remember_groups and group.group_id in self._groups
        if not (self.is_v2 or is_added):
            return self._queue.add_offsets(self.identity, sent, group)
        self._is_started = True
        return self._queue.txn_offset_commit(self.identity, sent, group, CallResult())

    def check_send(self) -> None:
        """Check that a record may be sent now. Raises as `initialize`.

        Source: `TransactionManager.maybeAddPartition`.
        """
        self._check_call("send")
        if self.producer_id == NO_PRODUCER_ID:
            raise IllegalStateError(
                "send without a producer id: start was refused", ("abort_transaction", "stop")
            )

    def add_partition(self, topic_partition: TopicPartition) -> None:
        """Add a new batch's partition. `TransactionManager.maybeAddPartition`.

        A partition has no batch when a transaction begins: its first record makes one.
        """
        super().add_partition(topic_partition)
        if self.is_v2:
            self.partitions.add(topic_partition)
            self._is_started = True
        elif topic_partition not in self.partitions:
            self._new_partitions[topic_partition] = None

    def abort_at_close(self) -> None:
        """Abort a transaction that is open when the producer closes. `Sender.run`.

        An error may have come since the last call of `next_request`. Then a commit that still waits
        must not be sent.
        """
        if self.state in (State.IN_TRANSACTION, State.ABORTABLE_ERROR):
            self._fail_waiting_requests()
            self._transition_to(State.ABORTING_TRANSACTION)
            self._begin_end()

    def _fail_waiting_requests(self) -> None:
        """Fail what `next_request` would fail after an error; lookups of coordinators stay."""
        error = self.last_error
        if error is None:
            return
        for request in self._queue.take_all():
            if request.looks_up is None:
                request.result.fail(error)
            else:
                self._queue.retry(request, request.not_before_ms)

    def _start_call(self, name: str, target: State, start: Callable[[], CallResult]) -> CallResult:
        """Start a call that takes time, or return its result if it is not acknowledged yet.

        Source: `TransactionManager.handleCachedTransactionRequestResult`, KAFKA-13412.
        """
        awaited = self._find_awaited_call()
        if awaited is not None and awaited.name == name:
            return awaited.result
        self._check_call(name)
        self._transition_to(target)
        self._pending = PendingCall(name, start())
        return self._pending.result

    def _check_call(self, name: str) -> None:
        legal = self.legal_calls()
        if name in legal:
            return
        if self.last_error is not None and legal == LEGAL_CALLS[self.state]:
            error = self.last_error.restate(f"{name}: {self.last_error}", may_be_written=False)
            error.legal_calls = legal
            raise error
        awaited = self._find_awaited_call()
        now = self.state.value if awaited is None else f"the end of {awaited.name} is unknown"
        raise IllegalStateError(f"{name} while {now}", legal)

    def _begin_initialize(self) -> CallResult:
        timeout_ms = self._config.transaction_timeout_ms
        is_bump = self.state is not State.INITIALIZING
        expected = self.identity if is_bump else NO_PRODUCER
        return self._queue.init_producer_id(expected, timeout_ms, is_epoch_bump=is_bump)

    def _begin_end(self) -> CallResult:
        """Queue EndTxn, followed by InitProducerId if a new epoch is needed.

        The transaction ends in the protocol (V1 or V2) in which it began. An upgrade takes effect
        after it, with a new epoch, so that no epoch is used in both (KAFKA-18227).
        Source: `TransactionManager.beginCompletingTransaction`.
        """
        is_commit = self.state is State.COMMITTING_TRANSACTION
        if not is_commit:
            self._new_partitions.clear()
        self._enqueue_new_partitions()
        result = self._queue.end_txn(self.identity, is_commit=is_commit)
        self._choose_protocol(is_first=False)
        return self._begin_initialize() if self.epoch_bump_required else result

    # ---- V1 and V2

    def update_level(self, level: int) -> None:
        """Set the cluster's finalized level of transaction.version, -1 for none.

        It takes effect at the next InitProducerId, or at the end of the transaction.
        Source: `TransactionManager.maybeUpdateTransactionV2Enabled`.
        """
        self._level = level

    def _choose_protocol(self, *, is_first: bool) -> None:
        if self._config.transaction_requests != "auto":
            return
        was_v2, self._queue.is_v2 = self.is_v2, self._level >= V2_LEVEL
        if self.is_v2 and not was_v2 and not is_first:
            self.epoch_bump_required = True

    @property
    def produce_version(self) -> int:
        """The version of Produce for V1 or V2, whichever is in use."""
        return self._queue.versions.of_api(ApiKey.PRODUCE, self.is_v2)

    # ---- the requests

    def next_request(self, now_ms: int, *, has_incomplete_batches: bool) -> TxnRequest | None:
        """Remove and return the request to send now, if there is one.

        Source: `TransactionManager.nextRequest`.
        """
        self._enqueue_new_partitions()
        while self._queue:
            request = self._queue.head
            is_end = request.api_key == ApiKey.END_TXN
            if (is_end and has_incomplete_batches) or request.not_before_ms > now_ms:
                return None
            self._queue.pop()
            if self.last_error is not None and request.looks_up is None:
                request.result.fail(self.last_error)
            elif is_end and not self._is_started:
                # The coordinator knows nothing of this transaction.
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
        """Whether a request is in flight or waits."""
        return self.in_flight is not None or bool(self._queue)

    @property
    def due_ms(self) -> int:
        """When the next request may be sent, ms; nothing else is sent before."""
        return self._queue.head.not_before_ms if self._queue else 0

    def coordinator(self, request: TxnRequest) -> int:
        """The node of the request's coordinator, `NO_NODE` if it must be looked up."""
        assert request.coordinator is not None, "this request goes to any node"
        return self._queue.coordinator(request.coordinator)

    def put_back(self, request: TxnRequest) -> None:
        """Queue again a request that could not be sent."""
        self._queue.retry(request)

    def look_up(self, request: TxnRequest) -> None:
        """Queue the request again, behind a lookup of its coordinator."""
        self._queue.look_up(request)
        self._queue.retry(request)

    # ---- answers

    def on_request_failed(self, now_ms: int) -> None:
        """The connection of the request in flight broke; the broker may have received it.

        Source: `TxnRequestHandler.onComplete`.
        """
        request = self._take_in_flight()
        if request.coordinator is not None:
            self._queue.look_up(request)
        self._retry(request, self._config.retry_backoff_ms, now_ms)

    def check_answer(self, answer: Answer) -> None:
        """Raise `MalformedAnswerError` if this cannot answer the request in flight."""
        assert self.in_flight is not None, "an answer without a request"
        check_answer(self.in_flight, answer)

    def receive(self, answer: Answer, now_ms: int) -> None:
        """Process the answer to the request in flight; in FATAL_ERROR it has no effect."""
        request = self._take_in_flight()
        if self.state is State.FATAL_ERROR:
            return
        error = decide_error(request, answer)
        if error is ErrorCode.NONE:
            _SUCCESS[request.api_key](self, request, answer)
        else:
            self._apply_action(request, error, now_ms)

    def _take_in_flight(self) -> TxnRequest:
        request, self.in_flight = self.in_flight, None
        self.last_refusal = ""
        assert request is not None, "an answer without a request"
        return request

    def _apply_action(self, request: TxnRequest, error: ErrorCode, now_ms: int) -> None:
        """Do what `ANSWERS` says about an error."""
        action = action_for(request.api_key, error)
        if action in FAILURES:
            self._fail_call(request, error, action)
            return
        self.last_refusal = f"{request.api_key.name} was answered {error.name}"
        backoff_ms = self._config.retry_backoff_ms
        if action is Action.LOOK_UP:
            self._queue.look_up(request)
        elif action is Action.RETRY_SOON and not self.partitions:
            backoff_ms = min(backoff_ms, ADD_PARTITIONS_RETRY_BACKOFF_MS)
        self._retry(request, backoff_ms, now_ms)

    def _retry(self, request: TxnRequest, backoff_ms: int, now_ms: int) -> None:
        if self.state is not State.FATAL_ERROR:
            self._queue.retry(request, now_ms + backoff_ms)

    def _fail_call(self, request: TxnRequest, error: ErrorCode, action: Action) -> None:
        kind = FAILURES[action]
        if action is Action.ABORT_UNLESS_ABORTING and self.state is State.ABORTING_TRANSACTION:
            kind = FatalProducerError
        if action is Action.ABORT_AND_BUMP and not self._can_bump:
            kind = FatalProducerError
        failure = kind(error, f"{request.api_key.name} was refused: {error.name}", True)
        request.result.fail(failure)
        if isinstance(failure, FatalProducerError):
            self._enter_fatal(failure)
        else:
            self._enter_abortable(failure, asks_for_bump=action is Action.ABORT_AND_BUMP)

    def _on_init_producer_id(self, request: TxnRequest, answer: Answer) -> None:
        self._set_identity(answer)
        self._enter(State.READY)
        if request.is_epoch_bump:
            self._reset_sequences()
        else:
            self._choose_protocol(is_first=True)
        request.result.succeed()

    def _on_partitions_added(self, request: TxnRequest, answer: Answer) -> None:
        self.partitions.update(added_partitions(answer))
        self._is_started = True

    def _on_offsets_added(self, request: TxnRequest, answer: Answer) -> None:
        """The group's partition is in the transaction: commit the offsets."""
        self._is_started = True
        self._groups.add(request.group.group_id)
        self._queue.txn_offset_commit(self.identity, request.offsets, request.group, request.result)

    def _on_offsets_committed(self, request: TxnRequest, answer: Answer) -> None:
        request.result.succeed()

    def _on_end_txn(self, request: TxnRequest, answer: Answer) -> None:
        """Complete the transaction. In V2 the answer has the epoch of the next one."""
        if answer.get("producer_id", NO_PRODUCER_ID) != NO_PRODUCER_ID:
            self._set_identity(answer)
            self._reset_sequences()
        self._complete_transaction()
        request.result.succeed()

    def _on_coordinator_found(self, request: TxnRequest, answer: Answer) -> None:
        assert request.looks_up is not None
        self._queue.set_coordinator(request.looks_up, coordinator_of(answer))

    def _set_identity(self, answer: Answer) -> None:
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
    def _can_bump(self) -> bool:
        """Whether the producer gets a new epoch after an abort."""
        return self.is_v2 or self._queue.versions.supports_bump

    @property
    def is_completing(self) -> bool:
        """Whether the transaction is being committed or aborted."""
        return self.state in (State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION)

    @property
    def has_transaction(self) -> bool:
        """Whether a transaction is open, even a failed one. `hasOngoingTransaction`."""
        return self.is_completing or self.state in (State.IN_TRANSACTION, State.ABORTABLE_ERROR)

    def fail_transaction(self, error: ErrorCode, what: str, *, may_be_written: bool) -> None:
        """Fail the transaction because a record was refused, here or by a leader.

        Source: `TransactionManager.maybeTransitionToErrorState`, KAFKA-9279.
        """
        failure = TransactionAbortableError(error, f"{what}: {error.name}", may_be_written)
        self._enter_abortable(failure, asks_for_bump=not self.is_completing)

    def fail_send(self, error: ErrorCode, what: str) -> None:
        """A commit contains all records that were sent: without this one there is none."""
        self.fail_transaction(error, what, may_be_written=False)

    def _enter_abortable(self, error: DeliveryError, *, asks_for_bump: bool) -> None:
        """Enter ABORTABLE_ERROR, unless an abort is in progress already."""
        if asks_for_bump and not self.is_v2 and self._queue.versions.supports_bump:
            self.epoch_bump_required = True
        if self.state is not State.ABORTING_TRANSACTION:
            self._enter(State.ABORTABLE_ERROR, error)

    def fail(self, error: ErrorCode, what: str) -> None:
        """Enter FATAL_ERROR, which is legal from every state and final."""
        kind = ProducerFenced if error is ErrorCode.PRODUCER_FENCED else FatalProducerError
        self._enter_fatal(kind(error, f"{what}: {error.name}", True))

    def _enter_fatal(self, error: DeliveryError) -> None:
        """Enter FATAL_ERROR, and fail all calls."""
        self._transition_to(State.FATAL_ERROR, error)
        self.fail_requests(error)

    def fail_requests(self, error: DeliveryError) -> None:
        """Fail all unfinished calls. `TransactionManager.failPendingRequests`."""
        waiting = [request.result for request in self._queue.take_all()]
        if self._pending is not None:
            waiting.append(self._pending.result)
        if self.in_flight is not None:
            waiting.append(self.in_flight.result)
        for result in waiting:
            result.fail(error)

    def _enter(self, target: State, error: DeliveryError | None = None) -> None:
        """Change the state after an answer; an illegal transition is fatal (KAFKA-14831)."""
        if self.state in LEGAL_SOURCES[target]:
            self._transition_to(target, error)
        else:
            what = f"{self.state.value} cannot become {target.value}"
            self._enter_fatal(FatalProducerError(ErrorCode.UNKNOWN_SERVER_ERROR, what, True))

    # ---- batches

    def stops_drain(self, batch: ProducerBatch, entry: PartitionEntry) -> bool:
        """A partition that is not in the transaction yet has to wait as well."""
        return batch.topic_partition not in self.partitions or super().stops_drain(batch, entry)

    def assign(self, batch: ProducerBatch, entry: PartitionEntry) -> None:
        """Give the batch a sequence, and mark it as transactional."""
        super().assign(batch, entry)
        batch.is_transactional = True

    def can_retry(self, batch: ProducerBatch, error: ErrorCode, log_start_offset: int) -> bool:
        """Whether the refused batch may be sent again. See `TRANSACTIONAL_RETRY_TABLE`."""
        entry = self.entry(batch.topic_partition)
        unresolved = self.unresolved_sequence(batch.topic_partition)
        refusal = RefusedBatch(batch, entry, unresolved, log_start_offset)
        for row in TRANSACTIONAL_RETRY_TABLE:
            if row.error is error and row.when(refusal):
                if row.renumbers:
                    entry.start_sequences_at_beginning(*self.identity)
                return True
        return error.is_retriable

    def on_failure(self, batch: ProducerBatch, error: ErrorCode, adjust: bool) -> None:
        """Fail the transaction of a failed batch.

        `adjust`: a leader refused the batch, so later batches take its sequences.
        Source: `TransactionManager.handleFailedBatch`.
        """
        topic, partition = batch.topic_partition
        if self.is_fatal(error):
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
        """Sequences of the partition are lost: abort, and continue with a new epoch.

        Source: `TransactionManager.maybeResolveSequences`.
        """
        topic, partition = topic_partition
        what = f"records sent to {topic}-{partition} may be missing"
        error = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if self._can_bump:
            failure = TransactionAbortableError(error, what, True)
            self._enter_abortable(failure, asks_for_bump=True)
            self._bump_after_abort()
        else:
            self.fail(error, what)

    def _bump_after_abort(self) -> None:
        """Add InitProducerId to an abort that was queued without a bump, and wait for both.

        Kafka's client does not, and then stays in INITIALIZING forever.
        """
        end_txn = self._queue.find(ApiKey.END_TXN)
        is_awaited = end_txn and self._pending and self._pending.result is end_txn.result
        if end_txn and is_awaited and self.epoch_bump_required and self.last_error is None:
            self._begin_initialize()
            bump = self._queue.find(ApiKey.INIT_PRODUCER_ID)
            assert bump is not None
            bump.result, end_txn.result = end_txn.result, bump.result


def _close_the_gap(entry: PartitionEntry, failed: ProducerBatch) -> None:
    """Give a refused batch's sequences to those after it. `adjustSequencesDueToFailedBatch`."""
    entry.next_sequence = decrement_sequence(entry.next_sequence, failed.record_count)
    for batch in entry.in_flight:
        if not precedes(batch.base_sequence, failed.base_sequence):
            base_sequence = decrement_sequence(batch.base_sequence, failed.record_count)
            batch.reset_producer_state(batch.producer_id, batch.producer_epoch, base_sequence)


_M = TransactionManager
_SUCCESS: Final[Mapping[ApiKey, Callable[[_M, TxnRequest, Answer], None]]] = {
    ApiKey.INIT_PRODUCER_ID: _M._on_init_producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: _M._on_partitions_added,
    ApiKey.ADD_OFFSETS_TO_TXN: _M._on_offsets_added,
    ApiKey.TXN_OFFSET_COMMIT: _M._on_offsets_committed,
    ApiKey.END_TXN: _M._on_end_txn,
    ApiKey.FIND_COORDINATOR: _M._on_coordinator_found,
}
