"""The transactional producer without sockets, clocks or threads.

1. All rules of the idempotent core hold; a transaction is written as a whole or not at all.
2. One `poll` sends either one transactional request or batches, never both, and nothing while such
   a request is in flight or waits for its next attempt.
3. A refused record, even one that was never queued, fails its transaction: a commit contains all
   records that were sent (KAFKA-9279).
4. Closing aborts the open transaction, once all records sent before are finished.

Theory of operation: `initialize`, `begin`, `begin_commit`, `begin_abort` and `send_offsets` go to
the `TransactionManager`; `poll` takes its next request, finds the node, and sends batches if there
is none. The driver passes known nodes to `update_nodes`, and the cluster's level of
transaction.version to `update_level`; coordinators may be nodes that only an answer to
FindCoordinator named. Source: `Sender`, `KafkaProducer` of Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from impl.producer.accumulator import Backoff
from impl.producer.batch import FinalState, ProducerBatch
from impl.producer.config import ProducerConfig
from impl.producer.core import Effect, IdempotentProducerCore, SendRequest, no_jitter
from impl.producer.errors import (
    AbortedError,
    AuthorizationError,
    ConfigError,
    DeliveryError,
    TransactionAbortedError,
)
from impl.producer.in_flight_requests import NO_NODE
from impl.producer.sequence_manager import State
from impl.producer.transaction_manager import TransactionManager
from impl.producer.transactional_requests import CallResult, RequestVersions, TxnRequest
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import TopicPartition
from impl.protocol.record_batch import INVALID_OFFSET
from impl.protocol.schemas import ApiKey


class TransactionalProducerCore(IdempotentProducerCore):
    """A producer whose records become visible in transactions.

    `versions`: the newest that the cluster serves. Raises `ConfigError`.
    """

    def __init__(
        self,
        config: ProducerConfig,
        *,
        jitter: Backoff = no_jitter,
        versions: RequestVersions | None = None,
    ) -> None:
        self._versions = versions or RequestVersions()
        self._node_ids: tuple[int, ...] = ()
        super().__init__(
            config,
            jitter=jitter,
            produce_version=self._versions.newest[ApiKey.PRODUCE],
            init_producer_id_version=self._versions.newest[ApiKey.INIT_PRODUCER_ID],
        )

    def _new_manager(self, config: ProducerConfig) -> TransactionManager:
        if config.transactional_id is None:
            raise ConfigError("transactional_id", "must be set for this producer")
        self._transactions = TransactionManager(config, self._versions)
        return self._transactions

    # ---- calls of the application

    def initialize(self) -> CallResult:
        """Fence older producers of this id, and get an epoch. `KafkaProducer.initTransactions`.

        Raises `IllegalStateError`, in an error state the `DeliveryError` that led to it.
        """
        self._has_changed = True
        return self._transactions.initialize()

    def begin(self) -> None:
        """Begin a transaction. Raises as `initialize`. `KafkaProducer.beginTransaction`."""
        self._transactions.begin()

    def begin_commit(self) -> CallResult:
        """Commit all that was sent. Raises as `initialize`. `KafkaProducer.commitTransaction`."""
        self._has_changed = True
        return self._transactions.begin_commit()

    def begin_abort(self) -> CallResult:
        """Abort all that was sent. Raises as `initialize`. `KafkaProducer.abortTransaction`."""
        self._has_changed = True
        return self._transactions.begin_abort()

    def send_offsets(self, offsets: Any, group: Any) -> CallResult:
        """Commit a consumer's offsets with the transaction, as `parse_group_offsets` takes them.

        Raises as `initialize`, and `InvalidArgumentError`.
        """
        self._has_changed = True
        return self._transactions.send_offsets(offsets, group)

    def check_send(self) -> None:
        """Check that a record may be sent now. Raises as `initialize`."""
        self._transactions.check_send()

    def fail_transaction(self, error: ErrorCode, what: str) -> None:
        """A record could not be queued, for lack of memory or metadata: fail its transaction."""
        self._has_changed = True
        self._transactions.fail_send(error, what)

    def legal_calls(self) -> tuple[str, ...]:
        """The names of the calls that are legal now."""
        return ("stop",) if self._accumulator.is_closed else self._transactions.legal_calls()

    @property
    def last_refusal(self) -> str:
        """Why the current request is being retried; empty if it is not."""
        return self._transactions.last_refusal

    # ---- calls of the driver

    def update_nodes(self, node_ids: Collection[int]) -> None:
        """Replace the nodes to which FindCoordinator may be sent."""
        self._has_changed = True
        self._node_ids = tuple(sorted(node_ids))

    def update_level(self, level: int) -> None:
        """Set the cluster's finalized level of transaction.version, -1 for none."""
        self._transactions.update_level(level)

    def abort(self) -> None:
        """Close, and fail all unfinished records and calls. Nothing is sent again."""
        super().abort()
        closed = AbortedError(ErrorCode.UNKNOWN_SERVER_ERROR, "the producer was closed", True)
        self._transactions.fail_requests(closed)

    @property
    def is_idle(self) -> bool:
        """Whether every record and call is finished, and no transaction is open."""
        manager = self._transactions
        if manager.state is State.FATAL_ERROR:
            return super().is_idle
        is_open = self._accumulator.is_closed and manager.has_transaction
        return super().is_idle and not manager.has_requests and not is_open

    @property
    def is_v2(self) -> bool:
        """Whether requests are V2 (KIP-890)."""
        return self._transactions.is_v2

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """The partitions of the transaction."""
        return frozenset(self._transactions.partitions)

    # ---- the sender loop

    def _may_send(self, now_ms: int, effects: list[Effect]) -> bool:
        manager = self._transactions
        manager.maybe_resolve_sequences()
        error = manager.last_error
        if error is not None and manager.state is State.FATAL_ERROR:
            self._fail_all(error)
            return False
        if isinstance(error, AuthorizationError):
            manager.fail_requests(error)
            self._abort_batches(error)
            return False
        if self._accumulator.is_closed and self._accumulator.oldest is None:
            manager.abort_at_close()
        return not self._maybe_send_transactional_request(now_ms, effects)

    def _maybe_send_transactional_request(self, now_ms: int, effects: list[Effect]) -> bool:
        """Whether batches must wait: a request is in flight, is sent now, or backs off.

        Source: `Sender.maybeSendAndPollTransactionalRequest`.
        """
        manager = self._transactions
        if manager.in_flight is not None:
            return True
        self._abort_undrained()
        has_incomplete = self._accumulator.oldest is not None
        while request := manager.next_request(now_ms, has_incomplete_batches=has_incomplete):
            node_id = self._node_for(request, now_ms)
            if node_id != NO_NODE:
                self._send_other(node_id, request, now_ms, effects)
                return True
            if request.coordinator is None:
                self.metadata_update_requested = True
                manager.put_back(request)
                return True
            manager.look_up(request)
        return manager.due_ms > now_ms

    def _node_for(self, request: TxnRequest, now_ms: int) -> int:
        if request.coordinator is None:
            return self._in_flight.least_loaded(self._node_ids, now_ms)
        return self._transactions.coordinator(request)

    def _send_other(
        self, node_id: int, request: TxnRequest, now_ms: int, effects: list[Effect]
    ) -> None:
        if not self._in_flight.is_ready(node_id, now_ms):
            self._transactions.put_back(request)
            return
        self._transactions.in_flight = request
        correlation_id = self._in_flight.open(node_id, [], now_ms)
        effects.append(
            SendRequest(node_id, correlation_id, request.api_key, request.api_version, request.body)
        )

    def _abort_undrained(self) -> None:
        """Abort batches without a sequence if the transaction cannot be committed.

        Source: `RecordAccumulator.abortUndrainedBatches`, KIP-654.
        """
        error: DeliveryError | None = self._transactions.last_error
        if self._transactions.state is State.ABORTING_TRANSACTION:
            what = "the transaction is aborted"
            error = TransactionAbortedError(ErrorCode.NONE, what, may_be_written=False)
        if error is None:
            return
        for batch in self._accumulator.take_unsequenced():
            aborted = error.restate(str(error), may_be_written=False)
            batch.finish(FinalState.ABORTED, INVALID_OFFSET, aborted)
            self._accumulator.complete(batch)

    def _receive_other(
        self, correlation_id: int, response_body: Mapping[str, Any], now_ms: int
    ) -> None:
        self._transactions.check_answer(response_body)
        self._close_request(correlation_id, response_body, now_ms)
        self._transactions.receive(response_body, now_ms)

    def _fail_requests(self, node_id: int, error: ErrorCode, now_ms: int) -> None:
        had_other = self._in_flight.is_initializing
        super()._fail_requests(node_id, error, now_ms)
        if had_other and not self._in_flight.is_initializing:
            self._transactions.on_request_failed(now_ms)

    def _produce_request(
        self, node_id: int, batches: list[ProducerBatch], now_ms: int
    ) -> SendRequest:
        request = super()._produce_request(node_id, batches, now_ms)
        request.body["transactional_id"] = self._config.transactional_id
        return request._replace(api_version=self._transactions.produce_version)

    def _due_times_ms(self) -> Iterator[int]:
        yield self._transactions.due_ms
        yield from super()._due_times_ms()
