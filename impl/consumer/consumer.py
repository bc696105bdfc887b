"""The asyncio consumer, with manual assignment of partitions and without group membership.

1. A position is the offset of the next record; it moves when records are returned.
2. read_committed returns no record of an open or aborted transaction, and waits for open
   transactions before it uses committed offsets (KIP-447).
3. Retriable errors are retried until the call's timeout.

Theory of operation: `getmany` fetches from each leader at the positions, decodes the records
(`fetched`), and buffers those beyond `max_records`. Names are aiokafka's.
Source: `KafkaConsumer`, `Fetcher`, `ConsumerCoordinator` of Kafka 4.3.1.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, NoReturn, TypeVar

from impl.client.arguments import (
    check_choice,
    check_integer,
    check_offset,
    check_text,
    parse_offsets,
    parse_partition,
    parse_partitions,
)
from impl.client.connection import Body, Connection
from impl.client.errors import IllegalStateError, KafkaTimeoutError
from impl.client.network_client import NetworkClient
from impl.client.transport import AsyncioNetwork, Network
from impl.consumer.errors import (
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RefusedError,
)
from impl.consumer.fetched import ConsumerRecord, decode_records
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import (
    CONSUMER_REPLICA,
    CoordinatorType,
    Isolation,
    Timestamp,
    TopicPartition,
    topic_rows,
)
from impl.protocol.record_batch import INVALID_OFFSET
from impl.protocol.schemas import ApiKey

T = TypeVar("T")

ISOLATION_LEVELS: Final = {
    "read_uncommitted": Isolation.READ_UNCOMMITTED,
    "read_committed": Isolation.READ_COMMITTED,
}
RESETS: Final = {"earliest": Timestamp.EARLIEST, "latest": Timestamp.LATEST, "none": None}
"""`auto_offset_reset` to the timestamp of ListOffsets."""

REQUIRE_STABLE_FROM: Final = 7
"""The first OffsetFetch version that can refuse offsets of open transactions."""

COORDINATOR_ERRORS: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT}
)


class _RetriableError(Exception):
    """A request should be repeated later; the message says why."""


class Consumer:
    """A consumer on asyncio. Times are milliseconds, sizes bytes.

    `isolation_level` is "read_uncommitted" or "read_committed"; `auto_offset_reset` "earliest",
    "latest" or "none". Raises `InvalidArgumentError`, `InvalidBootstrapServers`.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] = "localhost:9092",
        *,
        group_id: str | None = None,
        isolation_level: str = "read_uncommitted",
        auto_offset_reset: str = "latest",
        client_id: str = "consumer-1",
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 52_428_800,
        max_partition_fetch_bytes: int = 1_048_576,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: int = 100,
        default_api_timeout_ms: int = 60_000,
        network: Network | None = None,
    ) -> None:
        check_choice("isolation_level", isolation_level, ISOLATION_LEVELS)
        check_choice("auto_offset_reset", auto_offset_reset, RESETS)
        check_integer("fetch_max_wait_ms", fetch_max_wait_ms)
        check_integer("fetch_max_bytes", fetch_max_bytes)
        check_integer("max_partition_fetch_bytes", max_partition_fetch_bytes)
        check_integer("request_timeout_ms", request_timeout_ms)
        check_integer("retry_backoff_ms", retry_backoff_ms)
        check_integer("default_api_timeout_ms", default_api_timeout_ms)
        if group_id is not None:
            check_text("group_id", group_id)
        check_text("client_id", client_id)
        self._isolation = ISOLATION_LEVELS[isolation_level]
        self._reset = RESETS[auto_offset_reset]
        self._group_id = group_id
        self._max_wait_ms = fetch_max_wait_ms
        self._max_bytes = fetch_max_bytes
        self._partition_max_bytes = max_partition_fetch_bytes
        self._backoff_s = retry_backoff_ms / 1_000
        self._timeout_s = default_api_timeout_ms / 1_000
        self._cluster = NetworkClient(
            network or AsyncioNetwork(), bootstrap_servers, client_id, request_timeout_ms
        )
        self._request_timeout_s = request_timeout_ms / 1_000
        self._coordinator: int | None = None
        self._topics: set[str] = set()
        self._positions: dict[TopicPartition, int | None] = {}
        self._fetched: deque[tuple[TopicPartition, ConsumerRecord, int]] = deque()
        self._ahead: dict[TopicPartition, int] = {}
        self._is_started = self._is_stopped = False

    # ---- start and stop

    async def start(self) -> None:
        """Connect. Raises `NoBrokersAvailable`, `UnsupportedClusterError`, `IllegalStateError`."""
        self._check_not_stopped()
        try:
            await self._cluster.start()
        except OSError:
            self._check_not_stopped()
            raise
        self._check_not_stopped()
        self._is_started = True

    async def stop(self) -> None:
        """Close all connections; nothing is committed."""
        self._is_stopped = True
        await self._cluster.close()

    def _check_started(self) -> None:
        self._check_not_stopped()
        if not self._is_started:
            raise IllegalStateError("the consumer is not started: start it first")

    def _check_not_stopped(self) -> None:
        if self._is_stopped:
            raise IllegalStateError("the consumer is stopped: create another one")

    async def __aenter__(self) -> Consumer:
        """Start; if that fails, stop."""
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        await self.stop()

    # ---- positions

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these (topic, partition), each from its committed offset or the reset.

        Raises `InvalidArgumentError`.
        """
        self._positions = dict.fromkeys(parse_partitions(partitions))
        self._topics.update(topic for topic, _ in self._positions)
        self._fetched.clear()
        self._ahead.clear()

    def assignment(self) -> set[TopicPartition]:
        """The assigned partitions."""
        return set(self._positions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read from this offset on.

        Raises `IllegalStateError` unless assigned, `InvalidArgumentError`.
        """
        self._check_assigned(partition)
        check_offset(offset)
        self._positions[partition] = offset
        self._ahead.pop(partition, None)
        self._fetched = deque(row for row in self._fetched if row[0] != partition)

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record; requested first if it is unknown.

        Raises `IllegalStateError`, `NoOffsetForPartitionError`, `KafkaTimeoutError`,
        `RefusedError`.
        """
        self._check_assigned(partition)
        position = self._positions[partition]
        if position is None:
            position = await self._first_position(partition)
            self._positions[partition] = position
        return position

    async def _first_position(self, partition: TopicPartition) -> int:
        committed = None if self._group_id is None else await self.committed(partition)
        return await self._reset_position(partition) if committed is None else committed

    async def _reset_position(self, partition: TopicPartition) -> int:
        if self._reset is None:
            problem = f"{partition} has no committed offset, and auto_offset_reset is none"
            raise NoOffsetForPartitionError(f"{problem}: seek one")
        return (await self._list_offsets([partition], self._reset))[partition]

    def _check_assigned(self, partition: TopicPartition) -> None:
        if partition not in self._positions:
            raise IllegalStateError(f"{partition} is not assigned: assign it first")

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The first offset of each log.

        Raises `KafkaTimeoutError`, `RefusedError`, `IllegalStateError`, `InvalidArgumentError`.
        """
        return await self._list_offsets(partitions, Timestamp.EARLIEST)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last record that this isolation level may read, of each log.

        Raises as `beginning_offsets`.
        """
        return await self._list_offsets(partitions, Timestamp.LATEST)

    async def _list_offsets(
        self, partitions: Iterable[TopicPartition], timestamp: Timestamp
    ) -> dict[TopicPartition, int]:
        places = parse_partitions(partitions)
        self._topics.update(topic for topic, _ in places)
        return {place: await self._list_offset(place, timestamp) for place in places}

    async def _list_offset(self, place: TopicPartition, timestamp: Timestamp) -> int:
        async def attempt() -> int:
            row = {"partition_index": place[1], "timestamp": timestamp}
            body = {
                "replica_id": CONSUMER_REPLICA,
                "isolation_level": self._isolation,
                "topics": [{"name": place[0], "partitions": [row]}],
            }
            answer = await self._ask(await self._leader(place), ApiKey.LIST_OFFSETS, body)
            answered = _only_row(answer, f"ListOffsets of {place}")
            self._check(answered["error_code"], f"ListOffsets of {place}")
            offset: int = answered["offset"]
            return offset

        return await self._retry_until_timeout(attempt, f"ListOffsets of {place}")

    # ---- committed offsets

    async def committed(self, partition: TopicPartition) -> int | None:
        """The group's offset, None without one; read_committed waits for open transactions.

        Raises `IllegalStateError` without a group, `KafkaTimeoutError`, `RefusedError`,
        `InvalidArgumentError`.
        """
        topic, index = parse_partition(partition)

        async def attempt() -> int | None:
            version = self._cluster.version(ApiKey.OFFSET_FETCH)
            if self._isolation and version < REQUIRE_STABLE_FROM:
                what = f"read_committed needs OffsetFetch {REQUIRE_STABLE_FROM}, not {version}"
                raise RefusedError(ErrorCode.UNSUPPORTED_VERSION, what)
            body = {
                "group_id": self._group_id,
                "topics": [{"name": topic, "partition_indexes": [index]}],
                "require_stable": bool(self._isolation),
            }
            answer = await self._ask_coordinator(ApiKey.OFFSET_FETCH, body)
            self._check(answer["error_code"], f"OffsetFetch of {self._group_id}")
            row = _only_row(answer, f"OffsetFetch of {partition}")
            self._check(row["error_code"], f"OffsetFetch of {partition}")
            offset: int = row["committed_offset"]
            return None if offset == INVALID_OFFSET else offset

        return await self._retry_until_timeout(attempt, f"OffsetFetch of {partition}")

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit offsets, by default the positions, outside of transactions.

        Raises `IllegalStateError` without a group, `KafkaTimeoutError`, `RefusedError`,
        `InvalidArgumentError`.
        """
        wanted = self._known_positions() if offsets is None else parse_offsets(offsets)
        rows = (
            (
                topic,
                {"partition_index": index, "committed_offset": offset, "committed_metadata": ""},
            )
            for (topic, index), offset in wanted.items()
        )
        body = {
            "group_id": self._group_id,
            "member_id": "",
            "topics": topic_rows(rows),
        }

        async def attempt() -> None:
            answer = await self._ask_coordinator(ApiKey.OFFSET_COMMIT, body)
            for topic in answer["topics"]:
                for row in topic["partitions"]:
                    self._check(row["error_code"], f"OffsetCommit of {topic['name']}")

        if wanted:
            await self._retry_until_timeout(attempt, "OffsetCommit")

    def _known_positions(self) -> dict[TopicPartition, int]:
        return {place: at for place, at in self._positions.items() if at is not None}

    # ---- records

    async def getone(self) -> ConsumerRecord:
        """The next record; waits for it. Raises as `getmany`."""
        while True:
            for records in (
                await self.getmany(timeout_ms=self._max_wait_ms, max_records=1)
            ).values():
                return records[0]

    async def getmany(
        self, *, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Available records, at most `max_records`; {} if there are none within `timeout_ms`.

        Raises `OffsetOutOfRangeError`, `NoOffsetForPartitionError`, `RefusedError`,
        `KafkaTimeoutError` if a position is not found in time, `IllegalStateError`,
        `InvalidArgumentError`.
        """
        check_integer("timeout_ms", timeout_ms)
        if max_records is not None:
            check_integer("max_records", max_records, least=1)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_ms / 1_000
        while not self._fetched:
            began_s = loop.time()
            left_s = max(0.0, deadline_s - began_s)
            await self._fetch_all(min(self._max_wait_ms, int(left_s * 1_000)))
            if self._fetched:
                break
            self._skip_undelivered()
            if loop.time() >= deadline_s:
                break
            # A broker may answer at once although it has nothing.
            pause_s = began_s + min(self._max_wait_ms / 1_000, left_s) - loop.time()
            await asyncio.sleep(max(pause_s, 0.0))
        return self._pop_records(max_records)

    def _pop_records(self, max_records: int | None) -> dict[TopicPartition, list[ConsumerRecord]]:
        taken: dict[TopicPartition, list[ConsumerRecord]] = {}
        count = len(self._fetched) if max_records is None else min(max_records, len(self._fetched))
        for _ in range(count):
            place, record, next_position = self._fetched.popleft()
            taken.setdefault(place, []).append(record)
            self._positions[place] = next_position
        if not self._fetched:
            self._skip_undelivered()
        return taken

    def _skip_undelivered(self) -> None:
        """Move positions past markers and aborted records."""
        self._positions.update(self._ahead)
        self._ahead.clear()

    async def _fetch_all(self, max_wait_ms: int) -> None:
        self._check_started()
        await self._load_metadata()
        by_leader: dict[int, list[TopicPartition]] = {}
        for place in list(self._positions):
            await self.position(place)
            leader = self._cluster.leaders.get(place, -1)
            by_leader.setdefault(leader, []).append(place)
        for node_id, places in by_leader.items():
            try:
                if node_id < 0:
                    self._no_leader(places[0])
                await self._fetch(node_id, places, max_wait_ms)
            except (_RetriableError, OSError):
                await self._refresh()

    async def _fetch(self, node_id: int, places: list[TopicPartition], max_wait_ms: int) -> None:
        rows = ((place[0], self._fetch_row(place)) for place in places)
        body = {
            "max_wait_ms": max_wait_ms,
            "min_bytes": 1,
            "max_bytes": self._max_bytes,
            "isolation_level": self._isolation,
            "topics": topic_rows(rows, name="topic"),
        }
        answer = await self._ask(await self._cluster.connect_node(node_id), ApiKey.FETCH, body)
        self._check(answer["error_code"], "Fetch")
        for topic in answer["responses"]:
            for row in topic["partitions"]:
                await self._process_partition((topic["topic"], row["partition_index"]), row)

    def _fetch_row(self, place: TopicPartition) -> Body:
        return {
            "partition": place[1],
            "fetch_offset": self._positions[place],
            "partition_max_bytes": self._partition_max_bytes,
        }

    async def _process_partition(self, place: TopicPartition, row: Body) -> None:
        if row["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE:
            if self._reset is None:
                problem = f"{place} does not have offset {self._positions[place]}"
                raise OffsetOutOfRangeError(f"{problem}, and auto_offset_reset is none: seek one")
            self._positions[place] = await self._reset_position(place)
            return
        self._check(row["error_code"], f"Fetch of {place}")
        position = self._positions[place]
        assert position is not None
        aborted = [
            (aborted["producer_id"], aborted["first_offset"])
            for aborted in row["aborted_transactions"] or []
        ]
        records, next_offset = decode_records(row["records"] or b"", position, aborted)
        for offset, record in records:
            whole = ConsumerRecord(
                *place, offset, record.timestamp, record.key, record.value, record.headers
            )
            self._fetched.append((place, whole, offset + 1))
        self._ahead[place] = next_offset

    # ---- requests

    async def _ask(self, connection: Connection, api_key: ApiKey, body: Body) -> Body:
        async with asyncio.timeout(self._request_timeout_s):
            return await connection.request(api_key, self._cluster.version(api_key), body)

    async def _load_metadata(self) -> None:
        """Request metadata of topics that have none."""
        if not self._topics <= self._cluster.partitions.keys():
            try:
                await self._cluster.refresh(self._topics)
            except OSError:
                return

    async def _leader(self, place: TopicPartition) -> Connection:
        await self._load_metadata()
        node_id = self._cluster.leaders.get(place, -1)
        if node_id < 0:
            self._no_leader(place)
        return await self._cluster.connect_node(node_id)

    def _no_leader(self, place: TopicPartition) -> NoReturn:
        """Raise `RefusedError` for a topic that the cluster refuses, else `_RetriableError`."""
        error = self._cluster.topic_errors.get(place[0], ErrorCode.NONE)
        self._check(error, f"metadata of topic {place[0]!r}")
        raise _RetriableError(f"{place} has no leader")

    async def _ask_coordinator(self, api_key: ApiKey, body: Body) -> Body:
        if self._group_id is None:
            raise IllegalStateError(
                f"{api_key.name} without a group_id: create a consumer with one"
            )
        if self._coordinator is None:
            asked = {
                "key": self._group_id,
                "key_type": CoordinatorType.GROUP,
                "coordinator_keys": [self._group_id],
            }
            connection = await self._cluster.any_connection()
            answer = await self._ask(connection, ApiKey.FIND_COORDINATOR, asked)
            row = self._cluster.read_coordinators(answer)[0]
            self._check(row["error_code"], f"FindCoordinator of {self._group_id}")
            self._coordinator = row["node_id"]
        return await self._ask(await self._cluster.connect_node(self._coordinator), api_key, body)

    def _check(self, code: int, what: str) -> None:
        """Raise `_RetriableError` for a retriable error, else `RefusedError`."""
        if code == ErrorCode.NONE:
            return
        error = ErrorCode.of(code)
        if error in COORDINATOR_ERRORS:
            self._coordinator = None
        if error.is_retriable:
            raise _RetriableError(f"{what}: {error.name}")
        raise RefusedError(error, what)

    async def _retry_until_timeout(self, attempt: Callable[[], Awaitable[T]], what: str) -> T:
        why = ""
        try:
            async with asyncio.timeout(self._timeout_s):
                while True:
                    self._check_started()
                    try:
                        return await attempt()
                    except (_RetriableError, OSError) as error:
                        why = f" ({str(error) or type(error).__name__})"
                        await self._refresh()
        except TimeoutError:
            late = f"{what}: no answer within {self._timeout_s} s{why}"
            raise KafkaTimeoutError(late) from None

    async def _refresh(self) -> None:
        """Back off, and request metadata."""
        await asyncio.sleep(self._backoff_s)
        self._coordinator = None
        try:
            await self._cluster.refresh(self._topics)
        except OSError:
            return


def _only_row(answer: Body, what: str) -> Body:
    """The row of the requested partition. Raises `_RetriableError` if there is none."""
    rows: list[Body] = [row for topic in answer["topics"] for row in topic["partitions"]]
    if len(rows) != 1:
        raise _RetriableError(f"{what}: the answer has {len(rows)} partitions, not 1")
    return rows[0]
