"""The asyncio consumer: partitions are assigned by hand, there is no group membership.

1. A position is the offset of the next record to be read; it moves when records are returned.
2. read_committed shows no record of a transaction that is open or aborted, and takes no committed
   offset while a transaction that would move it is open (KIP-447).
3. A call that a broker could answer later is repeated until its time is over.

Theory of operation: `getmany` fetches from each leader what its positions ask for, filters it
(`fetched`), and keeps what is more than `max_records`. Names are aiokafka's.
Source: `KafkaConsumer`, `Fetcher`, `ConsumerCoordinator` of Kafka 4.3.1.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, NoReturn, TypeVar

from impl.client.cluster import Cluster, TopicPartition
from impl.client.connection import Body, Connection
from impl.client.transport import AsyncioNetwork, Network
from impl.consumer.arguments import (
    check_choice,
    check_integer,
    check_offset,
    check_text,
    checked_offsets,
    checked_place,
    checked_places,
)
from impl.consumer.errors import (
    IllegalStateError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RefusedError,
)
from impl.consumer.fetched import ConsumerRecord, seen
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import CONSUMER_REPLICA, CoordinatorType, Isolation, Timestamp
from impl.protocol.record_batch import INVALID_OFFSET
from impl.protocol.schemas import ApiKey

T = TypeVar("T")

ISOLATION_LEVELS: Final = {
    "read_uncommitted": Isolation.READ_UNCOMMITTED,
    "read_committed": Isolation.READ_COMMITTED,
}
RESETS: Final = {"earliest": Timestamp.EARLIEST, "latest": Timestamp.LATEST, "none": None}
"""`auto_offset_reset`: the time that ListOffsets is asked for."""

REQUIRE_STABLE_SINCE: Final = 7
"""The OffsetFetch version from which on offsets of open transactions can be waited for."""

FIND_AGAIN: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT}
)


class _Later(Exception):
    """A broker asks to try again later; the message says why."""


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
        self._cluster = Cluster(
            network or AsyncioNetwork(), bootstrap_servers, client_id, request_timeout_ms
        )
        self._request_timeout_s = request_timeout_ms / 1_000
        self._coordinator: int | None = None
        self._topics: set[str] = set()
        self._positions: dict[TopicPartition, int | None] = {}
        self._fetched: deque[tuple[TopicPartition, ConsumerRecord, int]] = deque()
        self._ahead: dict[TopicPartition, int] = {}
        self._is_started = self._is_stopped = False

    # ---- beginning and end

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
        """End; nothing is committed."""
        self._is_stopped = True
        await self._cluster.close()

    def _check_started(self) -> None:
        self._check_not_stopped()
        if not self._is_started:
            raise IllegalStateError("the consumer is not started: start it first")

    def _check_not_stopped(self) -> None:
        if self._is_stopped:
            raise IllegalStateError("the consumer is stopped: make another one")

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
        """Read these (topic, partition), each from its committed offset or the reset's.

        Raises `InvalidArgumentError`.
        """
        self._positions = dict.fromkeys(checked_places(partitions))
        self._topics.update(topic for topic, _ in self._positions)
        self._fetched.clear()
        self._ahead.clear()

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read."""
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
        """The offset of the next record to be returned; found first if it is not known.

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
        """The offset behind the last record that this isolation level may see, of each log.

        Raises as `beginning_offsets`.
        """
        return await self._list_offsets(partitions, Timestamp.LATEST)

    async def _list_offsets(
        self, partitions: Iterable[TopicPartition], timestamp: Timestamp
    ) -> dict[TopicPartition, int]:
        places = checked_places(partitions)
        self._topics.update(topic for topic, _ in places)
        return {place: await self._list_offset(place, timestamp) for place in places}

    async def _list_offset(self, place: TopicPartition, timestamp: Timestamp) -> int:
        async def ask() -> int:
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

        return await self._until_answered(ask, f"ListOffsets of {place}")

    # ---- committed offsets

    async def committed(self, partition: TopicPartition) -> int | None:
        """The group's offset, None without one; waits for a transaction that would move it.

        Raises `IllegalStateError` without a group, `KafkaTimeoutError`, `RefusedError`,
        `InvalidArgumentError`.
        """
        topic, index = checked_place(partition)

        async def ask() -> int | None:
            version = self._cluster.version(ApiKey.OFFSET_FETCH)
            if self._isolation and version < REQUIRE_STABLE_SINCE:
                what = f"read_committed needs OffsetFetch {REQUIRE_STABLE_SINCE}, not {version}"
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

        return await self._until_answered(ask, f"OffsetFetch of {partition}")

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit offsets, unless given the positions, outside of any transaction.

        Raises `IllegalStateError` without a group, `KafkaTimeoutError`, `RefusedError`,
        `InvalidArgumentError`.
        """
        wanted = self._known_positions() if offsets is None else checked_offsets(offsets)
        topics: dict[str, list[Body]] = {}
        for (topic, index), offset in wanted.items():
            row = {
                "partition_index": index,
                "committed_offset": offset,
                "committed_metadata": "",
            }
            topics.setdefault(topic, []).append(row)
        body = {
            "group_id": self._group_id,
            "member_id": "",
            "topics": [{"name": name, "partitions": rows} for name, rows in topics.items()],
        }

        async def ask() -> None:
            answer = await self._ask_coordinator(ApiKey.OFFSET_COMMIT, body)
            for topic in answer["topics"]:
                for row in topic["partitions"]:
                    self._check(row["error_code"], f"OffsetCommit of {topic['name']}")

        if wanted:
            await self._until_answered(ask, "OffsetCommit")

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
        """What there is, at most `max_records`; {} if nothing came within `timeout_ms`.

        Raises `OffsetOutOfRangeError`, `NoOffsetForPartitionError`, `RefusedError`,
        `KafkaTimeoutError` where a position is not found in time, `IllegalStateError`,
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
            self._pass_the_unseen()
            if loop.time() >= deadline_s:
                break
            # A broker may answer at once that there is nothing.
            pause_s = began_s + min(self._max_wait_ms / 1_000, left_s) - loop.time()
            await asyncio.sleep(max(pause_s, 0.0))
        return self._take(max_records)

    def _take(self, max_records: int | None) -> dict[TopicPartition, list[ConsumerRecord]]:
        taken: dict[TopicPartition, list[ConsumerRecord]] = {}
        count = len(self._fetched) if max_records is None else min(max_records, len(self._fetched))
        for _ in range(count):
            place, record, next_position = self._fetched.popleft()
            taken.setdefault(place, []).append(record)
            self._positions[place] = next_position
        if not self._fetched:
            self._pass_the_unseen()
        return taken

    def _pass_the_unseen(self) -> None:
        """Nothing is left to be returned: go behind markers, and what was aborted."""
        self._positions.update(self._ahead)
        self._ahead.clear()

    async def _fetch_all(self, max_wait_ms: int) -> None:
        self._check_started()
        await self._learn()
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
            except (_Later, OSError):
                await self._refresh()

    async def _fetch(self, node_id: int, places: list[TopicPartition], max_wait_ms: int) -> None:
        topics: dict[str, list[Body]] = {}
        for place in places:
            row = {
                "partition": place[1],
                "fetch_offset": self._positions[place],
                "partition_max_bytes": self._partition_max_bytes,
            }
            topics.setdefault(place[0], []).append(row)
        body = {
            "max_wait_ms": max_wait_ms,
            "min_bytes": 1,
            "max_bytes": self._max_bytes,
            "isolation_level": self._isolation,
            "topics": [{"topic": name, "partitions": rows} for name, rows in topics.items()],
        }
        answer = await self._ask(await self._cluster.connect_node(node_id), ApiKey.FETCH, body)
        self._check(answer["error_code"], "Fetch")
        for topic in answer["responses"]:
            for row in topic["partitions"]:
                await self._take_fetched((topic["topic"], row["partition_index"]), row)

    async def _take_fetched(self, place: TopicPartition, row: Body) -> None:
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
        records, next_offset = seen(row["records"] or b"", position, aborted)
        for offset, record in records:
            whole = ConsumerRecord(
                *place, offset, record.timestamp, record.key, record.value, record.headers
            )
            self._fetched.append((place, whole, offset + 1))
        self._ahead[place] = next_offset

    # ---- asking

    async def _ask(self, connection: Connection, api_key: ApiKey, body: Body) -> Body:
        async with asyncio.timeout(self._request_timeout_s):
            return await connection.request(api_key, self._cluster.version(api_key), body)

    async def _learn(self) -> None:
        """Ask for topics that were never asked for."""
        if not self._topics <= self._cluster.partitions.keys():
            try:
                await self._cluster.refresh(self._topics)
            except OSError:
                return

    async def _leader(self, place: TopicPartition) -> Connection:
        await self._learn()
        node_id = self._cluster.leaders.get(place, -1)
        if node_id < 0:
            self._no_leader(place)
        return await self._cluster.connect_node(node_id)

    def _no_leader(self, place: TopicPartition) -> NoReturn:
        """Raise `RefusedError` for a topic that the cluster refuses, else `_Later`."""
        error = self._cluster.topic_errors.get(place[0], ErrorCode.NONE)
        self._check(error, f"metadata of topic {place[0]!r}")
        raise _Later(f"{place} has no leader")

    async def _ask_coordinator(self, api_key: ApiKey, body: Body) -> Body:
        if self._group_id is None:
            raise IllegalStateError(f"{api_key.name} without a group_id: make a consumer with one")
        if self._coordinator is None:
            asked = {
                "key": self._group_id,
                "key_type": CoordinatorType.GROUP,
                "coordinator_keys": [self._group_id],
            }
            connection = await self._cluster.any_connection()
            found = await self._ask(connection, ApiKey.FIND_COORDINATOR, asked)
            rows = found.get("coordinators") or [found]
            self._check(rows[0]["error_code"], f"FindCoordinator of {self._group_id}")
            self._coordinator = rows[0]["node_id"]
            self._cluster.nodes.setdefault(rows[0]["node_id"], (rows[0]["host"], rows[0]["port"]))
        return await self._ask(await self._cluster.connect_node(self._coordinator), api_key, body)

    def _check(self, code: int, what: str) -> None:
        """Raise `_Later` for an error that passes, `RefusedError` for one that does not."""
        if code == ErrorCode.NONE:
            return
        error = ErrorCode.of(code)
        if error in FIND_AGAIN:
            self._coordinator = None
        if error.is_retriable:
            raise _Later(f"{what}: {error.name}")
        raise RefusedError(error, what)

    async def _until_answered(self, ask: Callable[[], Awaitable[T]], what: str) -> T:
        why = ""
        try:
            async with asyncio.timeout(self._timeout_s):
                while True:
                    self._check_started()
                    try:
                        return await ask()
                    except (_Later, OSError) as error:
                        why = f" ({str(error) or type(error).__name__})"
                        await self._refresh()
        except TimeoutError:
            late = f"{what}: no answer within {self._timeout_s} s{why}"
            raise KafkaTimeoutError(late) from None

    async def _refresh(self) -> None:
        """Wait a little, and ask who leads what."""
        await asyncio.sleep(self._backoff_s)
        self._coordinator = None
        try:
            await self._cluster.refresh(self._topics)
        except OSError:
            return


def _only_row(answer: Body, what: str) -> Body:
    """What an answer says of the partition that was asked about. Raises `_Later`: nothing."""
    rows: list[Body] = [row for topic in answer["topics"] for row in topic["partitions"]]
    if len(rows) != 1:
        raise _Later(f"{what}: the answer has {len(rows)} partitions, not 1")
    return rows[0]
