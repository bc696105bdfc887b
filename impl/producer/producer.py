"""The asyncio producer: idempotent by default, transactional with a `transactional_id`.

1. `send` returns once the record is queued, with a future of its outcome. Records of a partition
   are resolved in the order of `send`.
2. An error says what is legal next: `error.advice`, and for a transactional producer
   `error.legal_calls`.
3. A transaction contains all records that were sent in it, or nothing: a refused record, whatever
   the reason, fails the commit.
4. A call that takes longer than max_block_ms raises `KafkaTimeoutError` and continues: repeat it.

Theory of operation: calls go to the core; the `Sender` does the rest. Names are aiokafka's.
Source: `KafkaProducer` of Kafka 4.3.1.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from impl.client.arguments import (
    GroupMetadata,
    OffsetAndMetadata,
    check_partition,
    check_topic,
)
from impl.client.errors import (
    IllegalStateError,
    KafkaTimeoutError,
    ProducerError,
    UnknownTopicOrPartitionError,
)
from impl.client.network_client import NetworkClient
from impl.client.security import ClientSecurity
from impl.client.transport import AsyncioNetwork, Network
from impl.producer.arguments import check_key_and_value
from impl.producer.batch import DeliveryHandle
from impl.producer.config import ProducerConfig
from impl.producer.core import (
    INIT_PRODUCER_ID_VERSIONS,
    PRODUCE_VERSIONS,
    IdempotentProducerCore,
)
from impl.producer.errors import (
    BufferExhaustedError,
    ProducerClosedError,
    TopicRefusedError,
)
from impl.producer.partitioner import Partitioner
from impl.producer.sender import RecordMetadata, Sender
from impl.producer.transactional_core import TransactionalProducerCore
from impl.producer.transactional_requests import CallResult, RequestVersions
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import TopicPartition
from impl.protocol.schemas import ApiKey

if TYPE_CHECKING:
    from ssl import SSLContext

T = TypeVar("T")

JITTER: Final = 0.2
"""The relative jitter of backoffs. `CommonClientConfigs.RETRY_BACKOFF_JITTER`."""


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class Producer:
    """A producer on asyncio. Settings are the fields of `ProducerConfig`; times in ms.

    `network` opens connections, `clock_ms` timestamps records, `rng` makes the jitter of backoffs;
    for TLS and SASL see `ClientSecurity`. Raises `ConfigError`, `InvalidBootstrapServers`,
    `InvalidArgumentError`.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] = "localhost:9092",
        *,
        network: Network | None = None,
        clock_ms: Callable[[], int] = _wall_clock_ms,
        rng: random.Random | None = None,
        security_protocol: str = "PLAINTEXT",
        ssl_context: SSLContext | None = None,
        sasl_mechanism: str = "PLAIN",
        sasl_plain_username: str | None = None,
        sasl_plain_password: str | None = None,
        **config: object,
    ) -> None:
        security = ClientSecurity(
            security_protocol,
            ssl_context,
            sasl_mechanism,
            sasl_plain_username,
            sasl_plain_password,
        )
        self._config = ProducerConfig.of(**config)
        self._clock_ms = clock_ms
        self._rng = rng or random.Random()
        self._cluster = NetworkClient(
            network or AsyncioNetwork(security.context),
            bootstrap_servers,
            self._config.client_id,
            self._config.request_timeout_ms,
            security,
        )
        self._partitioner = Partitioner(self._config.batch_size)
        self._core: IdempotentProducerCore | None = None
        self._sender: Sender | None = None
        self._starting = asyncio.Lock()
        self._is_stopped = False

    # ---- start and stop

    async def start(self) -> None:
        """Connect; with a transactional id also fence older producers of it.

        May be called again after `AuthorizationError` or `KafkaTimeoutError`. Raises
        `NoBrokersAvailable`, `AuthenticationFailedError`, `UnsupportedClusterError`,
        `ProducerError`.
        """
        self._check_not_stopped()
        async with self._starting:
            if self._core is None:
                await self._connect()
        if self._config.transactional_id is not None:
            await self._call("start", TransactionalProducerCore.initialize)

    async def _connect(self) -> None:
        try:
            await self._cluster.start()
        except OSError:
            self._check_not_stopped()
            raise
        self._check_not_stopped()
        self._core = self._new_core()
        backoff_ms = self._config.retry_backoff_ms
        self._sender = Sender(self._core, self._cluster, backoff_ms)
        self._sender.start()

    def _new_core(self) -> IdempotentProducerCore:
        served = self._cluster.served
        if self._config.transactional_id is not None:
            versions = RequestVersions.of(served)
            return TransactionalProducerCore(self._config, jitter=self._jitter, versions=versions)
        produce = self._cluster.newest(ApiKey.PRODUCE, PRODUCE_VERSIONS)
        init = INIT_PRODUCER_ID_VERSIONS[-1]
        if self._config.enable_idempotence:
            init = self._cluster.newest(ApiKey.INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSIONS)
        return IdempotentProducerCore(
            self._config,
            jitter=self._jitter,
            produce_version=produce,
            init_producer_id_version=init,
        )

    def _jitter(self, backoff_ms: int) -> float:
        return backoff_ms * self._rng.uniform(1 - JITTER, 1 + JITTER)

    async def stop(self, timeout_ms: int | None = None) -> None:
        """Send what is queued, abort an open transaction, and close all connections.

        Records without an outcome after `timeout_ms` (default: delivery_timeout_ms) fail.
        """
        self._is_stopped = True
        limit_ms = self._config.delivery_timeout_ms if timeout_ms is None else timeout_ms
        try:
            if self._core is not None and self._sender is not None:
                await self._finish(self._core, self._sender, limit_ms / 1_000)
        finally:
            await self._cluster.close()

    async def _finish(self, core: IdempotentProducerCore, sender: Sender, limit_s: float) -> None:
        """Resolve all futures, even if this is cancelled."""
        core.close()
        sender.notify()
        try:
            async with asyncio.timeout(limit_s):
                while not core.is_idle:
                    await sender.wait_for_change()
        except TimeoutError:
            pass
        finally:
            core.abort()
            sender.resolve_futures()

    async def __aenter__(self) -> Producer:
        """Start; stop at once if that fails."""
        try:
            await self.start()
        except BaseException:
            await self.stop(timeout_ms=0)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        await self.stop()

    # ---- records

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> asyncio.Future[RecordMetadata]:
        """Queue a record; the future has its `RecordMetadata`, or its `DeliveryError`.

        Waits up to max_block_ms for the topic's metadata and for memory. A topic that does not
        exist is logged at once, and `UnknownTopicOrPartitionError` in the end. After
        `KafkaTimeoutError` or `TopicRefusedError` the record is not queued, and its transaction
        cannot commit; after `InvalidArgumentError` it can.
        Raises as `IdempotentProducerCore.append`, in a transaction `IllegalStateError`.
        """
        core, sender = self._check_started()
        if isinstance(core, TransactionalProducerCore):
            self._with_advice(core.check_send)
        stamp_ms = self._clock_ms() if timestamp_ms is None else timestamp_ms

        def try_append() -> DeliveryHandle | None:
            nonlocal partition
            partitions = self._partitions_of(topic, sender, partition)
            if partitions is None:
                return None
            if partition is None:
                size_bytes = len(key or b"") + len(value or b"")
                partition = self._partitioner.partition(topic, key, size_bytes, partitions)
            try:
                return core.append(
                    topic,
                    partition,
                    value=value,
                    key=key,
                    headers=headers,
                    timestamp_ms=stamp_ms,
                    now_ms=sender.now_ms(),
                )
            except BufferExhaustedError:
                return None

        try:
            _check_record(topic, partition, key, value)
            self._watch_topic(topic, sender)
            handle = try_append()
            if handle is None:
                handle = await self._poll_until(try_append, sender)
        except TimeoutError:
            error = self._timeout_error(topic, partition)
            raise self._fail_send(core, error, ErrorCode.REQUEST_TIMED_OUT) from None
        except TopicRefusedError as refused:
            raise self._fail_send(core, refused, refused.error_code) from None
        except ProducerError as error:
            raise self._with_legal_calls(error) from None
        assert partition is not None, "a record that is queued has a partition"
        return sender.track_record((topic, partition), handle)

    async def _poll_until(self, attempt: Callable[[], T | None], sender: Sender) -> T:
        """The first result of `attempt` that is not None. Raises `TimeoutError` after max_block_ms.

        Callers try once before: the timer alone costs as much as queueing a record.
        """
        # Send lingering batches now. Once: each loop of the sender wakes its waiters.
        sender.notify()
        async with asyncio.timeout(self._config.max_block_ms / 1_000):
            while True:
                await sender.wait_for_change()
                found = attempt()
                if found is not None:
                    return found

    def _fail_send(
        self, core: IdempotentProducerCore, error: ProducerError, error_code: ErrorCode
    ) -> ProducerError:
        if isinstance(core, TransactionalProducerCore):
            core.fail_transaction(error_code, str(error))
        return self._with_legal_calls(error)

    def _timeout_error(self, topic: str, partition: int | None) -> KafkaTimeoutError:
        """What a record waited for."""
        within = f"within {self._config.max_block_ms} ms"
        known = self._cluster.partitions.get(topic, 0)
        error = self._cluster.topic_errors.get(topic)
        if not known:
            what = f"no metadata of topic {topic!r}" + (f" but {error.name}" if error else "")
            is_unknown = error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            kind = UnknownTopicOrPartitionError if is_unknown else KafkaTimeoutError
            return kind(f"{what}, {within}")
        if partition is not None and partition >= known:
            what = f"topic {topic!r} has {known} partition(s), no partition {partition}"
            return UnknownTopicOrPartitionError(f"{what}, {within}")
        what = f"no room in buffer_memory for a record of topic {topic!r}"
        return KafkaTimeoutError(f"{what}, {within}")

    async def send_and_wait(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> RecordMetadata:
        """Send a record and wait for its outcome. Raises as `send`, and its `DeliveryError`."""
        outcome = await self.send(
            topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
        )
        return await outcome

    async def flush(self) -> None:
        """Send what is queued without lingering, and wait for all outcomes.

        Raises `IllegalStateError` before `start`, `ProducerClosedError` after `stop`.
        """
        core, sender = self._check_started()
        core.flush()
        sender.notify()
        while not core.is_flushed:
            await sender.wait_for_change()

    async def partitions_for(self, topic: str) -> set[int]:
        """The partitions of a topic. Waits for its metadata.

        Raises `KafkaTimeoutError`, `TopicRefusedError`, `InvalidArgumentError`.
        """
        _, sender = self._check_started()
        check_topic(topic)
        self._watch_topic(topic, sender)
        ask = partial(self._partitions_of, topic, sender)
        try:
            partitions = ask()
            if partitions is None:
                partitions = await self._poll_until(ask, sender)
            return set(range(partitions))
        except TimeoutError:
            raise self._timeout_error(topic, None) from None

    def _watch_topic(self, topic: str, sender: Sender) -> None:
        """Add the topic to those whose metadata is requested, without its last error."""
        if topic not in sender.topics:
            sender.topics.add(topic)
            self._cluster.topic_errors.pop(topic, None)

    def _partitions_of(
        self, topic: str, sender: Sender, partition: int | None = None
    ) -> int | None:
        """The number of partitions, once it exceeds `partition`; None while it is unknown.

        Raises `TopicRefusedError`, after which the topic's metadata is no longer requested, and
        `ProducerClosedError` if the producer was stopped.
        """
        partitions = self._cluster.partitions.get(topic, 0)
        if partitions > (partition or 0):
            return partitions
        self._check_not_stopped()
        error = self._cluster.topic_errors.get(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not error.is_retriable:
            sender.topics.discard(topic)
            raise TopicRefusedError(topic, error)
        sender.request_metadata()
        return None

    # ---- transactions

    async def begin_transaction(self) -> None:
        """Begin a transaction. Raises `IllegalStateError`, in an error state its error."""
        self._with_advice(self._transactional("begin_transaction").begin)

    async def commit_transaction(self) -> None:
        """Commit the records that were sent, once all are acknowledged.

        Raises `TransactionAbortableError` (abort, then begin again), `FatalProducerError` and its
        subclass `ProducerFenced`, `KafkaTimeoutError` (call again), `IllegalStateError`.
        """
        await self._call("commit_transaction", TransactionalProducerCore.begin_commit)

    async def abort_transaction(self) -> None:
        """Abort all records. Raises as `commit_transaction`, but for abortable errors."""
        await self._call("abort_transaction", TransactionalProducerCore.begin_abort)

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group: str | GroupMetadata,
    ) -> None:
        """Commit a consumer's offsets, those of the next records to read, with the transaction.

        Raises as `commit_transaction`, `CommitFailedError` for a consumer that is no longer a
        member of its group, and `InvalidArgumentError`.
        """
        await self._call(
            "send_offsets_to_transaction", lambda core: core.send_offsets(offsets, group)
        )

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Begin; commit at the end of the block, abort if it, or the commit, raises.

        The error is raised again once the transaction is aborted, if an abort is legal.
        """
        await self.begin_transaction()
        try:
            yield
            await self.commit_transaction()
        except BaseException as error:
            core = self._transactional("abort_transaction")
            if "abort_transaction" in core.legal_calls():
                await self.abort_transaction()
            if isinstance(error, ProducerError):
                self._with_legal_calls(error)
            raise

    async def _call(
        self, name: str, begin: Callable[[TransactionalProducerCore], CallResult]
    ) -> None:
        """Start a call and wait for its result. Raises its error, or `KafkaTimeoutError`."""
        core = self._transactional(name)
        _, sender = self._check_started()
        result = self._with_advice(partial(begin, core))
        try:
            async with asyncio.timeout(self._config.max_block_ms / 1_000):
                await sender.track_call(result)
        except TimeoutError:
            what = f"{name} is not done within {self._config.max_block_ms} ms, and continues"
            what += f": {core.last_refusal}" if core.last_refusal else ""
            raise self._with_legal_calls(KafkaTimeoutError(what)) from None
        self._with_advice(result.acknowledge)

    def _transactional(self, name: str) -> TransactionalProducerCore:
        core, _ = self._check_started()
        if not isinstance(core, TransactionalProducerCore):
            raise IllegalStateError(f"{name} without a transactional_id", ("send", "stop"))
        return core

    def _check_started(self) -> tuple[IdempotentProducerCore, Sender]:
        self._check_not_stopped()
        if self._core is None or self._sender is None:
            raise IllegalStateError("the producer is not started", ("start",))
        return self._core, self._sender

    def _check_not_stopped(self) -> None:
        if self._is_stopped or (self._core is not None and self._core.is_closed):
            raise ProducerClosedError("the producer is stopped: create another one")

    def _with_advice(self, call: Callable[[], T]) -> T:
        """Call, and add the legal calls to its error."""
        try:
            return call()
        except ProducerError as error:
            self._with_legal_calls(error)
            raise

    def _with_legal_calls(self, error: ProducerError) -> ProducerError:
        if isinstance(self._core, TransactionalProducerCore):
            error.legal_calls = self._core.legal_calls()
        return error


def _check_record(topic: object, partition: object, key: object, value: object) -> None:
    """Check a record before anything is waited for. Raises `InvalidArgumentError`."""
    check_topic(topic)
    if partition is not None:
        check_partition(partition)
    check_key_and_value(key, value)
