"""The idempotent producer without sockets, clocks or threads.

1. Calls take values and the time, and change only this object; `poll` returns what the driver has
   to do as effects. The same calls give the same effects.
2. `poll` is one iteration of Kafka's sender loop: at most one request a node, at most one batch a
   partition in it, never more than max_in_flight_requests_per_connection requests in flight a node.
3. An answer is accepted for the oldest request in flight of a connection. When a connection breaks,
   all its requests fail, and their correlation ids are never accepted again.
4. A call that raises has changed nothing.

Theory of operation: `append` queues records (`accumulator`); `poll` requests a producer id if it
has none, else it numbers batches (`sequence_manager`) and sends them; `receive` and `disconnected`
complete requests (`in_flight_requests`), each batch of which is acknowledged, queued again, or
failed. The driver sends each `SendRequest` to its node in order, closes the connection of a
`Disconnect`, answers `metadata_update_requested` with `update_metadata`, and polls again after
`next_timeout_ms`, which is 0 after any call. With acks=0 there is no answer: the driver calls
`confirm_sent` instead.
Source: `Sender` of Kafka 4.3.1; KIP-98, KIP-360.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from impl.producer.accumulator import Backoff, RecordAccumulator
from impl.producer.answers import BatchAnswer, read_init_answer, read_produce_answers
from impl.producer.batch import DeliveryHandle, FinalState, ProducerBatch
from impl.producer.config import ProducerConfig
from impl.producer.errors import (
    AbortedError,
    ConfigError,
    DeliveryError,
    DeliveryTimeoutError,
    FatalProducerError,
    ProducerClosedError,
    RecordTooLargeError,
    TooManyPartitionsError,
    UnexpectedAnswerError,
)
from impl.producer.in_flight_requests import NO_NODE, InFlightRequests
from impl.producer.sequence_manager import (
    NullSequenceManager,
    PartitionState,
    SequenceManager,
    State,
)
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import TopicPartition, topic_rows
from impl.protocol.record_batch import (
    INVALID_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
)
from impl.protocol.schemas import ApiKey
from impl.settings import INT_MAX

Body = dict[str, Any]
"""A message as `impl.protocol.messages` reads and writes it."""

PRODUCE_VERSIONS: Final = range(3, 13)
"""3 is the first with record batches v2; 13 names topics by id, and leaders are known by name."""

INIT_PRODUCER_ID_VERSIONS: Final = range(6)


class SendRequest(NamedTuple):
    """Send this to the node, after all earlier requests to it; connect first if necessary.

    A Produce request with acks=0 is never answered: call `confirm_sent` when it is written.
    """

    node_id: int
    correlation_id: int
    api_key: int
    api_version: int
    body: Body


class Disconnect(NamedTuple):
    """Close the node's connection: an answer is overdue. Its requests are failed already."""

    node_id: int


Effect = SendRequest | Disconnect


def no_jitter(backoff_ms: int) -> float:
    """Backoffs without jitter."""
    return backoff_ms


class IdempotentProducerCore:
    """A producer that writes each record once, in order, unless idempotence is off.

    `jitter` maps a backoff in ms to the one to use (Kafka's: plus or minus 20 %). Raises
    `ConfigError`. Attributes: `metadata_update_requested`, the driver should refresh leaders.
    """

    def __init__(
        self,
        config: ProducerConfig,
        *,
        jitter: Backoff = no_jitter,
        produce_version: int = PRODUCE_VERSIONS[-1],
        init_producer_id_version: int = INIT_PRODUCER_ID_VERSIONS[-1],
    ) -> None:
        _check_versions(produce_version, init_producer_id_version)
        self._config = config
        self._produce_version = produce_version
        self._init_producer_id_version = init_producer_id_version
        self._manager = self._new_manager(config)
        self._accumulator = RecordAccumulator(config, self._manager, jitter)
        self._in_flight = InFlightRequests(
            config.max_in_flight_requests_per_connection, config.request_timeout_ms
        )
        self._init_not_before_ms = 0
        self._has_changed = True
        self._last_poll_ms = 0
        self.metadata_update_requested = True

    def _new_manager(self, config: ProducerConfig) -> SequenceManager:
        if config.transactional_id is not None:
            raise ConfigError("transactional_id", "must not be set for this producer")
        kind = SequenceManager if config.enable_idempotence else NullSequenceManager
        return kind(config.max_partitions)

    # ---- calls of the application and the driver

    def append(
        self,
        topic: str,
        partition: int,
        *,
        value: Any = None,
        key: Any = None,
        headers: Any = (),
        timestamp_ms: Any = None,
        now_ms: int,
    ) -> DeliveryHandle:
        """Queue one record; its timestamp, an integer, is `now_ms` unless given.

        Key and value are bytes, bytearrays or None, headers pairs of a string and bytes or None.
        What applications give has no declared type, which compiled code would check before.

        Raises `RecordTooLargeError`, `BufferExhaustedError`, `TooManyPartitionsError`,
        `InvalidArgumentError`, in an error state `AuthorizationError` or `FatalProducerError`, and
        after `close` `ProducerClosedError`. Source: `KafkaProducer.doSend`.
        """
        self._check_append()
        timestamp_ms = now_ms if timestamp_ms is None else timestamp_ms
        self._has_changed = True
        try:
            return self._accumulator.append(
                (topic, partition), key, value, headers, timestamp_ms, now_ms
            )
        except (RecordTooLargeError, TooManyPartitionsError) as error:
            self._manager.fail_send(ErrorCode.MESSAGE_TOO_LARGE, str(error))
            raise

    def try_append(
        self, topic_partition: TopicPartition, key: object, value: object, timestamp_ms: Any
    ) -> ProducerBatch | None:
        """Add a record to a batch that is open, for drivers with many records: nothing is due
        earlier than before, unless the batch is full now.

        None, without a change, if that is not possible: call `append`. Raises the errors of error
        states as `append`.
        """
        if self._accumulator.is_closed:
            return None
        self._manager.check_send()
        return self._accumulator.try_append(topic_partition, key, value, timestamp_ms)

    def append_batch(
        self, topic: str, partition: int, batch: ProducerBatch, *, now_ms: int
    ) -> None:
        """Queue a batch that is whole, behind all records of its partition.

        Raises as `append`; the batch is unchanged then.
        """
        self._check_append()
        self._has_changed = True
        try:
            self._accumulator.append_batch((topic, partition), batch, now_ms)
        except (RecordTooLargeError, TooManyPartitionsError) as error:
            self._manager.fail_send(ErrorCode.MESSAGE_TOO_LARGE, str(error))
            raise

    def _check_append(self) -> None:
        if self._accumulator.is_closed:
            raise ProducerClosedError("the producer is closed: create another one")
        self._manager.check_send()

    def flush(self) -> None:
        """Send what is queued without lingering, until `is_flushed`.

        Source: `KafkaProducer.flush`.
        """
        self._has_changed = True
        self._accumulator.begin_flush()

    def close(self) -> None:
        """Accept no more records, and send what is queued. Poll until `is_idle`, or `abort`.

        Source: `KafkaProducer.close`, `Sender.run`.
        """
        self._has_changed = True
        self._accumulator.is_closed = True

    def abort(self) -> None:
        """Close, and fail all unfinished records with `AbortedError`. Nothing is sent again.

        Source: `Sender.forceClose`, `RecordAccumulator.abortIncompleteBatches`.
        """
        self.close()
        closed = "the producer was closed"
        self._fail_all(AbortedError(ErrorCode.UNKNOWN_SERVER_ERROR, closed, may_be_written=False))

    def poll(self, now_ms: int) -> tuple[Effect, ...]:
        """One iteration of the sender loop; () if there is nothing to send. `Sender.runOnce`."""
        self._has_changed = False
        self._last_poll_ms = now_ms
        effects: list[Effect] = []
        for node_id in self._in_flight.overdue_nodes(now_ms):
            effects.append(Disconnect(node_id))
            self.metadata_update_requested = True
            self._fail_requests(node_id, ErrorCode.REQUEST_TIMED_OUT, now_ms)
        if self._may_send(now_ms, effects):
            self._send_producer_data(now_ms, effects)
        if effects:
            self._has_changed = True
        return tuple(effects)

    def receive(self, correlation_id: int, response_body: Mapping[str, Any], now_ms: int) -> None:
        """Process the answer to the oldest request in flight of its connection.

        Raises `UnexpectedAnswerError`, `MalformedAnswerError`: close the connection then, and call
        `disconnected`. Source: `Sender.handleProduceResponse`.
        """
        batches = self._in_flight.oldest(correlation_id).batches
        if batches:
            if not self._config.acks:
                raise UnexpectedAnswerError(f"{correlation_id} was sent with acks=0")
            answers = read_produce_answers(response_body, batches)
            self._close_request(correlation_id, response_body, now_ms)
            for batch, answer in answers:
                self._complete_batch(batch, answer, now_ms)
        else:
            self._receive_other(correlation_id, response_body, now_ms)

    def _receive_other(
        self, correlation_id: int, response_body: Mapping[str, Any], now_ms: int
    ) -> None:
        """The answer to a request without records: InitProducerId."""
        init_answer = read_init_answer(response_body)
        self._close_request(correlation_id, response_body, now_ms)
        if self._manager.on_init_producer_id(*init_answer):
            self._init_not_before_ms = now_ms + self._config.retry_backoff_ms

    def confirm_sent(self, correlation_id: int, now_ms: int) -> None:
        """Complete a request with acks=0, which is written to its connection.

        Raises `UnexpectedAnswerError` unless it is the oldest in flight of its connection, with
        acks=0. Source: `NetworkClient.handleCompletedSends`.
        """
        batches = self._in_flight.oldest(correlation_id).batches
        if self._config.acks:
            raise UnexpectedAnswerError(f"{correlation_id} awaits its answer")
        self._close_request(correlation_id, {}, now_ms)
        for batch in batches:
            self._complete_batch(batch, BatchAnswer(ErrorCode.NONE), now_ms)

    def _close_request(self, correlation_id: int, body: Mapping[str, Any], now_ms: int) -> None:
        self._has_changed = True
        throttle_time_ms: int = body.get("throttle_time_ms", 0)
        self._in_flight.complete(correlation_id, now_ms + throttle_time_ms)

    def disconnected(self, node_id: int, now_ms: int) -> None:
        """The node's connection broke: fail all its requests with NETWORK_EXCEPTION.

        Source: `NetworkClient.processDisconnection`, `Sender.handleProduceResponse`.
        """
        self._has_changed = True
        self._fail_requests(node_id, ErrorCode.NETWORK_EXCEPTION, now_ms)

    def update_metadata(
        self,
        leaders: Mapping[TopicPartition, int],
        leader_epochs: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Replace the known leaders: (topic, partition) to node id, -1 for none.

        `leader_epochs` lets a retry to a new leader skip its backoff (KIP-951). Partitions without
        an entry keep their records and sequences.
        """
        self._has_changed = True
        self.metadata_update_requested = False
        self._accumulator.update_leaders(leaders, leader_epochs or {})

    def next_timeout_ms(self, now_ms: int) -> int | None:
        """Milliseconds until `poll` may have work; None if only a call can bring some."""
        if self._has_changed:
            return 0
        due = [due_ms for due_ms in self._due_times_ms() if due_ms > self._last_poll_ms]
        return max(0, min(due) - now_ms) if due else None

    # ---- introspection

    @property
    def is_flushed(self) -> bool:
        """Whether all records queued before the last `flush` are finished."""
        return not self._accumulator.is_flushing

    @property
    def is_closed(self) -> bool:
        """Whether records are refused."""
        return self._accumulator.is_closed

    @property
    def is_idle(self) -> bool:
        """Whether every record is finished; copies of it may still be in the network."""
        return self._accumulator.oldest is None

    @property
    def producer_id(self) -> int:
        """The producer id, -1 while there is none."""
        return self._manager.producer_id

    @property
    def producer_epoch(self) -> int:
        """The epoch that partitions with nothing in flight use next, -1 while there is none."""
        return self._manager.producer_epoch

    @property
    def epoch_bump_required(self) -> bool:
        """Whether the next poll bumps the epoch."""
        return self._manager.epoch_bump_required

    @property
    def state(self) -> State:
        """The state of the transaction manager."""
        return self._manager.state

    @property
    def last_error(self) -> DeliveryError | None:
        """The error of an error state."""
        return self._manager.last_error

    def partition_state(self, topic: str, partition: int) -> PartitionState:
        """A snapshot of one partition; initial values if it was never used."""
        return self._manager.partition_state((topic, partition))

    # ---- the sender loop

    def _may_send(self, now_ms: int, effects: list[Effect]) -> bool:
        """Perform pending bumps and requests for ids; False if no batch may be sent now."""
        if self._accumulator.is_closed and self.is_idle:
            return False
        manager = self._manager
        manager.maybe_resolve_sequences()
        if manager.last_error is not None:
            self._abort_batches(manager.last_error)
            return False
        if manager.epoch_bump_required:
            manager.bump_epoch()
        if manager.state is State.UNINITIALIZED:
            manager.begin_initializing()
        if manager.state is State.INITIALIZING:
            self._maybe_send_init_producer_id(now_ms, effects)
            return False
        return True

    def _abort_batches(self, error: DeliveryError) -> None:
        """Fail all unfinished batches; request a producer id again if that may help (KAFKA-13668).

        Source: `Sender.maybeAbortBatches`.
        """
        self._fail_all(error)
        if self._manager.state is State.ABORTABLE_ERROR:
            self._manager.uninitialize()
            self._has_changed = True

    def _fail_all(self, error: DeliveryError) -> None:
        for batch in self._accumulator.take_all():
            aborted = error.restate(f"{_describe(batch)}: {error}", _was_sent(batch))
            batch.finish(FinalState.ABORTED, INVALID_OFFSET, aborted)
            self._manager.forget(batch)
            self._accumulator.complete(batch)

    def _maybe_send_init_producer_id(self, now_ms: int, effects: list[Effect]) -> None:
        """Request a producer id from the least loaded node, one request at a time.

        QUIRK: until the answer nothing else happens; records do not even expire.
        Source: `Sender.maybeSendAndPollTransactionalRequest`.
        """
        if self._in_flight.is_initializing or now_ms < self._init_not_before_ms:
            return
        nodes = self._accumulator.nodes
        if not nodes:
            self.metadata_update_requested = True
        node_id = self._in_flight.least_loaded(nodes, now_ms)
        if node_id == NO_NODE:
            return
        body: Body = {
            "transactional_id": None,
            "transaction_timeout_ms": INT_MAX,
            "producer_id": NO_PRODUCER_ID,
            "producer_epoch": NO_PRODUCER_EPOCH,
        }
        correlation_id = self._in_flight.open(node_id, [], now_ms)
        version = self._init_producer_id_version
        effects.append(SendRequest(node_id, correlation_id, ApiKey.INIT_PRODUCER_ID, version, body))

    def _send_producer_data(self, now_ms: int, effects: list[Effect]) -> None:
        """Drain, then expire. QUIRK: a batch that was just drained may expire.

        Source: `Sender.sendProducerData`.
        """
        accumulator = self._accumulator
        for node_id in accumulator.ready_nodes(now_ms):
            if self._in_flight.is_ready(node_id, now_ms):
                batches = accumulator.drain(node_id, now_ms)
                if batches:
                    effects.append(self._produce_request(node_id, batches, now_ms))
        if accumulator.has_unknown_leaders:
            self.metadata_update_requested = True
        oldest = accumulator.oldest
        if oldest is not None and accumulator.is_expired(oldest, now_ms):
            self._expire_batches(now_ms)

    def _produce_request(
        self, node_id: int, batches: list[ProducerBatch], now_ms: int
    ) -> SendRequest:
        rows = ((batch.topic_partition[0], _partition_data(batch)) for batch in batches)
        body: Body = {
            "transactional_id": None,
            "acks": self._config.acks,
            "timeout_ms": self._config.request_timeout_ms,
            "topics": topic_rows(rows),
        }
        correlation_id = self._in_flight.open(node_id, batches, now_ms)
        return SendRequest(node_id, correlation_id, ApiKey.PRODUCE, self._produce_version, body)

    def _expire_batches(self, now_ms: int) -> None:
        """Fail batches after delivery_timeout_ms: queued ones first, then those in flight.

        QUIRK: only a batch in retry leaves its sequence unresolved, although a leader may have any
        batch that was sent once. Source: `Sender.sendProducerData`, KIP-91.
        """
        self._has_changed = True
        for batch in self._accumulator.expire(now_ms):
            waited_ms = now_ms - batch.created_ms
            what = (
                f"{_describe(batch)}: not acknowledged within {waited_ms} ms of its creation;"
                f" {_last_attempt(batch)}"
            )
            error = DeliveryTimeoutError(ErrorCode.REQUEST_TIMED_OUT, what, _was_sent(batch))
            self._fail_batch(batch, error, adjust=False)
            if batch.in_retry:
                self._manager.mark_sequence_unresolved(batch)

    def _due_times_ms(self) -> Iterator[int]:
        """Times at which work becomes due."""
        yield self._init_not_before_ms
        yield from self._in_flight.due_times_ms()
        yield from self._accumulator.due_times_ms()

    # ---- completed requests

    def _fail_requests(self, node_id: int, error: ErrorCode, now_ms: int) -> None:
        for request in self._in_flight.remove_node(node_id):
            if not request.batches:
                self._init_not_before_ms = now_ms + self._config.retry_backoff_ms
            for batch in request.batches:
                self._complete_batch(batch, BatchAnswer(error), now_ms)

    def _complete_batch(self, batch: ProducerBatch, answer: BatchAnswer, now_ms: int) -> None:
        """Acknowledge, queue again or fail one batch. `Sender.completeBatch`."""
        self._accumulator.release(batch)
        error = answer.error
        if error is ErrorCode.NONE:
            batch.log_append_time = answer.log_append_time
            batch.log_start_offset = answer.log_start_offset
            self._acknowledge(batch, answer.base_offset)
        elif (
            error is ErrorCode.MESSAGE_TOO_LARGE
            and batch.record_count > 1
            and not batch.is_whole
            and not batch.is_done
        ):
            self._accumulator.split_and_reenqueue(batch)
        elif self._can_retry(batch, answer, now_ms):
            batch.last_refusal = error
            self._accumulator.reenqueue(batch, now_ms)
        elif error is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._acknowledge(batch, INVALID_OFFSET)
        else:
            adjust = batch.attempts < self._config.retries
            self._fail_batch(batch, self._refusal_error(batch, answer), adjust=adjust)
        if error.refreshes_metadata:
            self.metadata_update_requested = True
            self._accumulator.update_leader(
                batch.topic_partition, answer.leader_id, answer.leader_epoch
            )

    def _can_retry(self, batch: ProducerBatch, answer: BatchAnswer, now_ms: int) -> bool:
        """Whether limits and sequences allow another attempt. `Sender.canRetry`."""
        return (
            not batch.is_done
            and batch.attempts < self._config.retries
            and not self._accumulator.is_expired(batch, now_ms)
            and self._manager.can_retry(batch, answer.error, answer.log_start_offset)
        )

    def _refusal_error(self, batch: ProducerBatch, answer: BatchAnswer) -> DeliveryError:
        """The error of a refused batch. After a retriable error it may be in the log."""
        error = answer.error
        is_fatal = self._manager.is_fatal(error)
        kind = FatalProducerError if is_fatal else DeliveryError
        reason = error.name if answer.message is None else f"{error.name}, {answer.message}"
        is_unknown = error.is_retriable or error is ErrorCode.UNKNOWN_SERVER_ERROR
        return kind(error, f"{_describe(batch)}: {reason}", batch.in_retry or is_unknown)

    def _acknowledge(self, batch: ProducerBatch, base_offset: int) -> None:
        self._manager.on_success(batch, base_offset)
        if batch.finish(FinalState.SUCCEEDED, base_offset, None):
            self._accumulator.complete(batch)

    def _fail_batch(self, batch: ProducerBatch, error: DeliveryError, *, adjust: bool) -> None:
        if batch.finish(FinalState.FAILED, INVALID_OFFSET, error):
            self._manager.on_failure(batch, error.error_code, adjust)
            self._accumulator.complete(batch)


def _partition_data(batch: ProducerBatch) -> Body:
    return {"index": batch.topic_partition[1], "records": batch.encode()}


def _check_versions(produce_version: int, init_producer_id_version: int) -> None:
    for name, version, served in (
        ("produce_version", produce_version, PRODUCE_VERSIONS),
        ("init_producer_id_version", init_producer_id_version, INIT_PRODUCER_ID_VERSIONS),
    ):
        if version not in served:
            raise ConfigError(name, f"must be {served[0]} to {served[-1]}, is {version}")


def _was_sent(batch: ProducerBatch) -> bool:
    return batch.outstanding or batch.in_retry


def _last_attempt(batch: ProducerBatch) -> str:
    """What is known of it: why the records are late."""
    if batch.last_refusal is not ErrorCode.NONE:
        return f"its last attempt ended with {batch.last_refusal.name}"
    if batch.outstanding:
        return "it was sent, and no answer has come"
    return "it was never sent, as its leader was not known or not reachable"


def _describe(batch: ProducerBatch) -> str:
    topic, partition = batch.topic_partition
    return f"{batch.record_count} record(s) for {topic}-{partition}"
