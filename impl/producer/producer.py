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
import logging
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, Unpack

from impl.client.arguments import (
    GroupMetadata,
    OffsetAndMetadata,
    check_callable,
    check_partition,
    check_topic,
    parse_offsets,
)
from impl.client.consumed import ConsumedOffsets, MemberMetadata, OffsetsReader
from impl.client.errors import IllegalStateError, KafkaTimeoutError, ProducerError
from impl.client.network_client import NetworkClient
from impl.client.security import ClientSecurity
from impl.client.transport import AsyncioNetwork, Network
from impl.clock import SharedClock, system_time_ms
from impl.producer.arguments import check_key_and_value
from impl.producer.batch import ProducerBatch
from impl.producer.batch_builder import BatchBuilder, Serializer
from impl.producer.config import ProducerConfig, ProducerSettings
from impl.producer.core import (
    INIT_PRODUCER_ID_VERSIONS,
    PRODUCE_VERSIONS,
    IdempotentProducerCore,
)
from impl.producer.errors import (
    ConfigError,
    ProducerClosedError,
    SkippedRecordsError,
    TopicRefusedError,
)
from impl.producer.interceptors import (
    Headers,
    Interceptors,
    ProducerInterceptor,
    ProducerRecord,
)
from impl.producer.metrics import ProducerMetrics
from impl.producer.placement import PartitionerFunction, RecordPlacement
from impl.producer.record_metadata import RecordMetadata
from impl.producer.sender import Sender
from impl.producer.transactional_core import TransactionalProducerCore
from impl.producer.transactional_requests import CallResult, RequestVersions
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import TopicPartition
from impl.protocol.schemas import ApiKey

if TYPE_CHECKING:
    from ssl import SSLContext

_log = logging.getLogger(__name__)

T = TypeVar("T")

JITTER: Final = 0.2
"""The relative jitter of backoffs. `CommonClientConfigs.RETRY_BACKOFF_JITTER`."""


class _Started(NamedTuple):
    """What a producer has once it has started."""

    core: IdempotentProducerCore
    sender: Sender
    placement: RecordPlacement


class Producer:
    """A producer on asyncio. Settings are the fields of `ProducerConfig`; times in ms.

    `key_serializer` and `value_serializer` make bytes of each key and value, None included.
    `partitioner(key, all_partitions, available_partitions)` chooses where a record without a
    partition goes; without one a key's murmur2 does, as in Java, and records without a key stay
    with a partition for a batch's worth of bytes. `interceptors` see each record (see
    `ProducerInterceptor`). `max_batch_size` is aiokafka's name of `batch_size`. `network` opens
    connections, `rng` makes the jitter of backoffs; for TLS and SASL see `ClientSecurity`. Records
    are timestamped by `clock_ms`. `clock` is that of a `Broker` of this process, by which it lives
    in tests; nobody need name it whose `bootstrap_servers` name that broker. Raises `ConfigError`,
    `UnknownSettingError`, `InvalidBootstrapServers`, `InvalidArgumentError`.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] = "localhost:9092",
        *,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        partitioner: PartitionerFunction | None = None,
        interceptors: Sequence[ProducerInterceptor] = (),
        network: Network | None = None,
        clock: SharedClock | None = None,
        clock_ms: Callable[[], int] | None = None,
        rng: random.Random | None = None,
        security_protocol: str = "PLAINTEXT",
        ssl_context: SSLContext | None = None,
        sasl_mechanism: str = "PLAIN",
        sasl_plain_username: str | None = None,
        sasl_plain_password: str | None = None,
        **config: Unpack[ProducerSettings],
    ) -> None:
        security = ClientSecurity(
            security_protocol,
            ssl_context,
            sasl_mechanism,
            sasl_plain_username,
            sasl_plain_password,
        )
        self._config = ProducerConfig.of(**_with_kafkas_names(dict(config)))
        for note in self._config.notes:
            _log.info("%s", note)
        check_callable("key_serializer", key_serializer)
        check_callable("value_serializer", value_serializer)
        check_callable("partitioner", partitioner)
        self._serializers = (key_serializer, value_serializer)
        self._partitioner = partitioner
        self._interceptors = Interceptors(interceptors)
        self._prepares = any(self._serializers) or bool(self._interceptors)
        self._given_clock_ms = clock_ms
        self._clock_ms = clock_ms or system_time_ms
        self._rng = rng or random.Random()
        self._cluster = NetworkClient(
            network or AsyncioNetwork(security.context),
            bootstrap_servers,
            self._config.client_id,
            self._config.request_timeout_ms,
            security,
            self._rng,
            clock,
        )
        self._metrics = ProducerMetrics()
        self._consumed = ConsumedOffsets()
        self._started: _Started | None = None
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
            if self._started is None:
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
        self._clock_ms = self._given_clock_ms or self._cluster.clock.wall_ms
        core = self._new_core()
        sender = Sender(core, self._cluster, self._config, self._metrics, self._interceptors)
        placement = RecordPlacement(
            self._cluster, sender, self._config, self._partitioner, self._check_not_stopped
        )
        self._started = _Started(core, sender, placement)
        sender.start()

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
        self._consumed.abort()
        limit_ms = self._config.delivery_timeout_ms if timeout_ms is None else timeout_ms
        try:
            if self._started is not None and not self._started.sender.is_closed:
                await self._finish(self._started, limit_ms / 1_000)
        finally:
            await self._cluster.close()

    async def _finish(self, started: _Started, limit_s: float) -> None:
        """Resolve all futures, even if this is cancelled."""
        core, sender, _ = started
        core.close()
        sender.notify()
        try:
            async with self._cluster.clock.timeout(limit_s):
                while not core.is_idle:
                    await sender.wait_for_change()
        except TimeoutError:
            pass
        finally:
            core.abort()
            sender.resolve_futures()
            sender.close()

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
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Queue a record; the future has its `RecordMetadata`, or its `DeliveryError`.

        Waits up to max_block_ms for the topic's metadata and for memory, but only
        unknown_topic_timeout_ms for a topic or partition that the cluster says it does not have:
        that is logged at once, and then raises `UnknownTopicOrPartitionError`. After
        `KafkaTimeoutError` or `TopicRefusedError` the record is not queued, and its transaction
        cannot commit; after `InvalidArgumentError` it can. Raises as
        `IdempotentProducerCore.append`, in a transaction `IllegalStateError`, and what a serializer
        or partitioner raises.
        """
        if self._prepares:
            record = ProducerRecord(topic, value, key, partition, timestamp_ms, headers)
            return await self._send_record(record)
        if timestamp_ms is None:
            timestamp_ms = self._clock_ms()
        started = self._started
        if started is None or self._is_stopped:
            started = self._check_started()
        # Most records join a batch that is open: nothing else needs a check then.
        if not headers and type(topic) is str:
            try:
                if partition is None:
                    partition = started.placement.choose_at_once(topic, key, value)
                if type(partition) is int:
                    batch = started.core.try_append((topic, partition), key, value, timestamp_ms)
                    if batch is not None:
                        return started.sender.track_record(batch)
            except ProducerError as error:
                raise self._with_legal_calls(error) from None
        record = ProducerRecord(topic, value, key, partition, timestamp_ms, headers)
        return await self._place_record(record)

    async def _send_record(
        self, record: ProducerRecord, is_awaited: bool = False
    ) -> asyncio.Future[RecordMetadata]:
        """Send what interceptors and serializers make of a record; `is_awaited` by the caller."""
        if not self._prepares:
            return await self._place_record(record, is_awaited)
        try:
            record = self._interceptors.on_send(record)
            value, key = self._serialize(record.value, record.key)
            return await self._place_record(record._replace(value=value, key=key), is_awaited)
        except Exception as error:
            self._interceptors.on_acknowledgement(None, error)
            raise

    def _serialize(self, value: Any, key: Any) -> tuple[Any, Any]:
        of_key, of_value = self._serializers
        return of_value(value) if of_value else value, of_key(key) if of_key else key

    async def _place_record(
        self, record: ProducerRecord, is_awaited: bool = False
    ) -> asyncio.Future[RecordMetadata]:
        """Check a record, and queue it once it has a partition and memory."""
        core, sender, placement = self._check_started()
        topic, value, key, partition, timestamp_ms, headers = record
        time_ms = self._clock_ms() if timestamp_ms is None else timestamp_ms

        def append(partition: int) -> ProducerBatch:
            return core.append(
                topic,
                partition,
                value=value,
                key=key,
                headers=headers or (),
                timestamp_ms=time_ms,
                now_ms=sender.now_ms(),
            ).batch

        try:
            if isinstance(core, TransactionalProducerCore):
                core.check_send()
            _check_record(topic, partition, key, value)
            batch = await placement.place(topic, partition, (key, value), append)
        except ProducerError as error:
            raise self._fail_send(core, error) from None
        return sender.track_record(batch, is_awaited)

    def _fail_send(self, core: IdempotentProducerCore, error: ProducerError) -> ProducerError:
        """A record that found no topic, partition or memory in time fails its transaction."""
        if isinstance(core, TransactionalProducerCore):
            if isinstance(error, KafkaTimeoutError):
                core.fail_transaction(ErrorCode.REQUEST_TIMED_OUT, str(error))
            elif isinstance(error, TopicRefusedError):
                core.fail_transaction(error.error_code, str(error))
        return self._with_legal_calls(error)

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
    ) -> RecordMetadata:
        """Send a record and wait for its outcome. Raises as `send`, and its `DeliveryError`."""
        record = ProducerRecord(topic, value, key, partition, timestamp_ms, headers)
        return await (await self._send_record(record, is_awaited=True))

    def create_batch(self) -> BatchBuilder:
        """An empty batch, for `send_batch`."""
        return BatchBuilder(
            self._config.batch_size,
            self._config.compression,
            lambda: self._clock_ms(),  # noqa: PLW0108 - it is another one after the start
            *self._serializers,
        )

    async def send_batch(
        self, batch: BatchBuilder, topic: str, *, partition: int
    ) -> asyncio.Future[RecordMetadata]:
        """Queue a batch; the future has the metadata of its first record, or its `DeliveryError`.

        Interceptors do not see it. Raises as `send`, `IllegalStateError` for a batch that was sent
        before, and `InvalidArgumentError` for an empty one.
        """
        core, sender, placement = self._check_started()
        try:
            if isinstance(core, TransactionalProducerCore):
                core.check_send()
            check_topic(topic)
            check_partition(partition)
            filled = batch.take()

            def append(partition: int) -> ProducerBatch:
                core.append_batch(topic, partition, filled, now_ms=sender.now_ms())
                return filled

            await placement.place(topic, partition, (None, None), append)
            return sender.track_record(filled)
        except ProducerError as error:
            raise self._fail_send(core, error) from None

    async def flush(self) -> None:
        """Send what is queued without lingering, and wait for all outcomes.

        Raises `IllegalStateError` before `start`, `ProducerClosedError` after `stop`.
        """
        core, sender, _ = self._check_started()
        self._cluster.check_loop()
        core.flush()
        sender.notify()
        while not core.is_flushed:
            await sender.wait_for_change()

    async def partitions_for(self, topic: str) -> set[int]:
        """The partitions of a topic. Waits for its metadata.

        Raises `KafkaTimeoutError`, `TopicRefusedError`, `InvalidArgumentError`.
        """
        _, _, placement = self._check_started()
        check_topic(topic)
        return set(range(await placement.count_partitions(topic)))

    def metrics(self) -> dict[str, float]:
        """Kafka's names of figures, and their values since the producer was made."""
        return self._metrics.read()

    # ---- transactions

    async def begin_transaction(self) -> None:
        """Begin a transaction. Raises `IllegalStateError`, in an error state its error."""
        self._with_advice(self._transactional("begin_transaction").begin)
        self._consumed.begin()

    async def commit_transaction(self) -> None:
        """Commit the records that were sent, once all are acknowledged.

        Raises `TransactionAbortableError` (abort, then begin again), `FatalProducerError` and its
        subclass `ProducerFenced`, `KafkaTimeoutError` (call again), `IllegalStateError`.
        """
        await self._call("commit_transaction", TransactionalProducerCore.begin_commit)
        self._consumed.commit()

    async def abort_transaction(self) -> None:
        """Abort all records. Raises as `commit_transaction`, but for abortable errors.

        A consumer whose records were in it stands behind them: `Consumer.seek_to_committed` reads
        them again.
        """

        def begin(core: TransactionalProducerCore) -> CallResult:
            result = core.begin_abort()
            self._consumed.abort()
            return result

        await self._call("abort_transaction", begin)

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group_id: str | GroupMetadata,
    ) -> None:
        """Commit a consumer's offsets, those of the next records to read, with the transaction.

        Raises as `commit_transaction`, `CommitFailedError` for a consumer that is no longer a
        member of its group, and `InvalidArgumentError`. With the `group_metadata()` of a `Consumer`
        also `SkippedRecordsError`, when the offsets pass over records that an aborted transaction
        has taken back, and `IllegalStateError` if that consumer commits by itself.
        """

        def begin(core: TransactionalProducerCore) -> CallResult:
            if isinstance(group_id, MemberMetadata) and group_id.reader is not None:
                self._check_consumed(core, offsets, group_id.reader)
            return core.send_offsets(offsets, group_id)

        await self._call("send_offsets_to_transaction", begin)

    def _check_consumed(
        self,
        core: TransactionalProducerCore,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        reader: OffsetsReader,
    ) -> None:
        """Raises `IllegalStateError`, `SkippedRecordsError`, `InvalidArgumentError`."""
        if reader.commits_by_itself:
            raise IllegalStateError(_COMMITS_BY_ITSELF, core.legal_calls())
        skipped = self._consumed.add(parse_offsets(offsets), reader)
        if skipped is not None:
            error = SkippedRecordsError(*skipped)
            core.fail_transaction(error.error_code, str(error))
            raise error

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
        _, sender, _ = self._check_started()
        self._cluster.check_loop()
        result = self._with_advice(partial(begin, core))
        try:
            async with self._cluster.clock.timeout(self._config.max_block_ms / 1_000):
                await sender.track_call(result)
        except TimeoutError:
            what = f"{name} is not done within {self._config.max_block_ms} ms, and continues"
            what += f": {core.last_refusal}" if core.last_refusal else ""
            raise self._with_legal_calls(KafkaTimeoutError(what)) from None
        self._with_advice(result.acknowledge)

    def _transactional(self, name: str) -> TransactionalProducerCore:
        core, _, _ = self._check_started()
        if not isinstance(core, TransactionalProducerCore):
            raise IllegalStateError(f"{name} without a transactional_id", ("send", "stop"))
        return core

    def _check_started(self) -> _Started:
        started = self._started
        if started is None or self._is_stopped:
            self._check_not_stopped()
            raise IllegalStateError("the producer is not started", ("start",))
        return started

    def _check_not_stopped(self) -> None:
        if self._is_stopped or (self._started is not None and self._started.core.is_closed):
            raise ProducerClosedError("the producer is stopped: create another one")

    def _with_advice(self, call: Callable[[], T]) -> T:
        """Call, and add the legal calls to its error."""
        try:
            return call()
        except ProducerError as error:
            self._with_legal_calls(error)
            raise

    def _with_legal_calls(self, error: ProducerError) -> ProducerError:
        core = self._started.core if self._started is not None else None
        if isinstance(core, TransactionalProducerCore):
            error.legal_calls = core.legal_calls()
        return error


_COMMITS_BY_ITSELF: Final = (
    "the consumer commits its positions by itself, also those of transactions that are aborted:"
    " create it with enable_auto_commit=False"
)


def _check_record(topic: object, partition: object, key: object, value: object) -> None:
    """Check a record before anything is waited for. Raises `InvalidArgumentError`."""
    check_topic(topic)
    if partition is not None:
        check_partition(partition)
    check_key_and_value(key, value)


def _with_kafkas_names(config: dict[str, object]) -> dict[str, object]:
    """`max_batch_size`, which is `batch_size`, and None for a client id that is not given."""
    if config.get("client_id", "") is None:
        del config["client_id"]
    if "max_batch_size" in config:
        if "batch_size" in config:
            raise ConfigError("max_batch_size", "is another name of batch_size: give one of them")
        config["batch_size"] = config.pop("max_batch_size")
    return config
