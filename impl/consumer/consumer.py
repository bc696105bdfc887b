"""The asyncio consumer: partitions are assigned to it, by the application or by its group.

1. A position is the offset of the next record; it moves when records are returned.
2. read_committed returns no record of an open or aborted transaction, and waits for open
   transactions before it uses committed offsets (KIP-447).
3. Retriable errors are retried until the call's timeout.
4. A member of a group joins, and commits by itself, within `getone` and `getmany`: a record that
   these returned is taken for processed when they are called again.

Theory of operation: the `Fetcher` asks all leaders at the same time, and ahead of the application;
`getmany` takes from it. Names are aiokafka's.
Source: `KafkaConsumer`, `Fetcher`, `ConsumerCoordinator` of Kafka 4.3.1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from impl.client.arguments import (
    GroupMetadata,
    OffsetAndMetadata,
    check_choice,
    check_integer,
    check_offset,
    check_text,
    check_topic,
    parse_offsets,
    parse_partition,
    parse_partitions,
)
from impl.client.connection import Body
from impl.client.errors import IllegalStateError
from impl.client.network_client import NetworkClient
from impl.client.security import ClientSecurity
from impl.client.transport import AsyncioNetwork, Network
from impl.consumer.classic_membership import ClassicMembership
from impl.consumer.consumer_membership import ConsumerMembership
from impl.consumer.consumer_requests import ConsumerRequests
from impl.consumer.errors import NoOffsetForPartitionError, RefusedError
from impl.consumer.fetched import ConsumerRecord
from impl.consumer.fetcher import Fetcher, FetchSettings
from impl.consumer.membership import CLASSIC, CONSUMER, GroupSettings, MembershipManager
from impl.consumer.offset_requests import OffsetRequests, only_row
from impl.protocol.fields import (
    CONSUMER_REPLICA,
    Isolation,
    Timestamp,
    TopicPartition,
)
from impl.protocol.record_batch import INVALID_OFFSET
from impl.protocol.schemas import ApiKey
from impl.settings import LONG_MAX

if TYPE_CHECKING:
    from ssl import SSLContext

ISOLATION_LEVELS: Final = {
    "read_uncommitted": Isolation.READ_UNCOMMITTED,
    "read_committed": Isolation.READ_COMMITTED,
}
RESETS: Final = {"earliest": Timestamp.EARLIEST, "latest": Timestamp.LATEST, "none": None}
"""`auto_offset_reset` to the timestamp of ListOffsets."""
MEMBERSHIPS: Final[Mapping[str, type[MembershipManager]]] = {
    CLASSIC: ClassicMembership,
    CONSUMER: ConsumerMembership,
}
"""By `group_protocol`."""


class OffsetAndTimestamp(NamedTuple):
    """A record's offset and timestamp, ms."""

    offset: int
    timestamp: int


class Consumer:
    """A consumer on asyncio. Times are milliseconds, sizes bytes.

    It reads `topics`: all partitions of them, or with a `group_id` those that its group gives it;
    or the partitions of `assign`. `isolation_level` is "read_uncommitted" or "read_committed";
    `auto_offset_reset` "earliest", "latest" or "none". `partition_assignment_strategy` names
    assignors, "range" and "roundrobin", the preferred first. With `group_protocol` "consumer" the
    broker assigns, by `group_remote_assignor` or its default (KIP-848); sessions and heartbeats are
    its affair, too. `enable_auto_commit` commits positions
    of a member every `auto_commit_interval_ms`, before it gives up partitions, and when it stops;
    what `assign` gave is never committed without `commit`. For TLS and SASL see `ClientSecurity`.
    Raises `InvalidArgumentError`, `InvalidBootstrapServers`.
    """

    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Iterable[str] = "localhost:9092",
        group_id: str | None = None,
        group_instance_id: str | None = None,
        session_timeout_ms: int = 45_000,
        heartbeat_interval_ms: int = 3_000,
        max_poll_interval_ms: int = 300_000,
        partition_assignment_strategy: Iterable[str] = ("range", "roundrobin"),
        group_protocol: str = "classic",
        group_remote_assignor: str | None = None,
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 5_000,
        isolation_level: str = "read_uncommitted",
        auto_offset_reset: str = "latest",
        client_id: str = "consumer-1",
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 52_428_800,
        max_partition_fetch_bytes: int = 1_048_576,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: int = 100,
        default_api_timeout_ms: int = 60_000,
        security_protocol: str = "PLAINTEXT",
        ssl_context: SSLContext | None = None,
        sasl_mechanism: str = "PLAIN",
        sasl_plain_username: str | None = None,
        sasl_plain_password: str | None = None,
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
        for topic in topics:
            check_topic(topic)
        check_text("client_id", client_id)
        self._subscription = topics
        self._isolation = ISOLATION_LEVELS[isolation_level]
        self._reset = RESETS[auto_offset_reset]
        self._group_id = group_id
        self._max_wait_ms = fetch_max_wait_ms
        security = ClientSecurity(
            security_protocol,
            ssl_context,
            sasl_mechanism,
            sasl_plain_username,
            sasl_plain_password,
        )
        self._cluster = NetworkClient(
            network or AsyncioNetwork(security.context),
            bootstrap_servers,
            client_id,
            request_timeout_ms,
            security,
        )
        self._requests = ConsumerRequests(
            self._cluster,
            self._check_started,
            group_id=group_id,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            default_api_timeout_ms=default_api_timeout_ms,
        )
        settings = FetchSettings(
            self._isolation, fetch_max_wait_ms, fetch_max_bytes, max_partition_fetch_bytes
        )
        self._fetcher = Fetcher(self._requests, settings, self._reset_position)
        self._offsets = OffsetRequests(self._requests, self._isolation)
        self._group: MembershipManager | None = None
        if group_id is not None:
            me = GroupSettings(
                group_id,
                group_instance_id,
                session_timeout_ms,
                heartbeat_interval_ms,
                max_poll_interval_ms,
                tuple(partition_assignment_strategy),
                auto_commit_interval_ms if enable_auto_commit else None,
                group_protocol,
                group_remote_assignor,
            )
            me.check()
            self._group = MEMBERSHIPS[group_protocol](
                me, self._requests, self._fetcher, self.commit
            )
            self._offsets.group = self._group
        self._is_started = self._is_stopped = False

    # ---- start and stop

    async def start(self) -> None:
        """Connect; assign all partitions of the topics that were given, or begin to join the group.

        Raises `NoBrokersAvailable`, `AuthenticationFailedError`, `UnsupportedClusterError`,
        `IllegalStateError`; for topics `KafkaTimeoutError`, `RefusedError`.
        """
        self._check_not_stopped()
        try:
            await self._cluster.start()
        except OSError:
            self._check_not_stopped()
            raise
        self._check_not_stopped()
        self._is_started = True
        if self._subscription and self._group is not None:
            self.subscribe(self._subscription)
            await self._group.work(0)
        elif self._subscription:
            self.assign([place for t in self._subscription for place in await self._partitions(t)])

    async def _partitions(self, topic: str) -> list[TopicPartition]:
        self._requests.topics.add(topic)

        async def attempt() -> list[TopicPartition]:
            await self._requests.load_metadata()
            if topic not in self._cluster.partitions:
                self._requests.raise_no_leader((topic, 0))
            return [(topic, index) for index in range(self._cluster.partitions[topic])]

        return await self._requests.retry_until_timeout(attempt, f"metadata of topic {topic!r}")

    async def stop(self) -> None:
        """Leave the group, after a commit if that is enabled; close all connections."""
        if self._group is not None and self._is_started and not self._is_stopped:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._requests.request_timeout_s):
                    await self._group.leave()
        self._is_stopped = True
        await self._cluster.close()
        self._fetcher.wake()

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

    # ---- subscription

    def subscribe(self, topics: Iterable[str], listener: object | None = None) -> None:
        """Read these topics as a member of the group; the next call for records joins it.

        `listener` is a `ConsumerRebalanceListener`, or has its methods. Raises `IllegalStateError`
        without a group, or with partitions of `assign`; `InvalidArgumentError`.
        """
        chosen = [topics] if isinstance(topics, str) else list(topics)
        for topic in chosen:
            check_topic(topic)
        if self._group is None:
            raise IllegalStateError("subscribe without a group_id: create a consumer with one")
        if self._fetcher.assigned and not self._group.topics:
            raise IllegalStateError("partitions were assigned by hand: assign none of them first")
        self._group.subscribe(chosen, listener)

    def subscription(self) -> frozenset[str]:
        """The topics that are read as a member of the group."""
        return frozenset() if self._group is None else self._group.topics

    def group_metadata(self) -> GroupMetadata:
        """This member, for `Producer.send_offsets_to_transaction` (KIP-447).

        Raises `IllegalStateError` without a group.
        """
        if self._group is None:
            raise IllegalStateError("a consumer without a group_id: create one with it")
        return self._group.metadata

    async def unsubscribe(self) -> None:
        """Leave the group, after a commit if that is enabled, and read nothing."""
        if self._group is not None:
            await self._group.leave()
        self._fetcher.assign(())

    # ---- positions

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these (topic, partition), each from its committed offset or the reset.

        Raises `IllegalStateError` of a member, whose group assigns; `InvalidArgumentError`.
        """
        if self.subscription():
            raise IllegalStateError("the group assigns partitions: unsubscribe first")
        self._fetcher.assign(parse_partitions(partitions))
        self._requests.topics.update(topic for topic, _ in self._fetcher.assigned)

    def assignment(self) -> set[TopicPartition]:
        """The assigned partitions."""
        return set(self._fetcher.assigned)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read from this offset on.

        Raises `IllegalStateError` unless assigned, `InvalidArgumentError`.
        """
        self._check_assigned(partition)
        check_offset(offset)
        self._fetcher.seek(partition, offset)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read these partitions, by default all, from the first record of their logs.

        Raises as `beginning_offsets`; `IllegalStateError` unless assigned.
        """
        self._seek_all(await self.beginning_offsets(self._chosen(partitions)))

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read these partitions, by default all, from the end of their logs on.

        Raises as `seek_to_beginning`.
        """
        self._seek_all(await self.end_offsets(self._chosen(partitions)))

    async def seek_to_committed(self, *partitions: TopicPartition) -> None:
        """Read these partitions, by default all, from the group's offsets; without one they stay.

        Raises as `committed`; `IllegalStateError` unless assigned.
        """
        chosen = self._chosen(partitions)
        found = zip(chosen, await asyncio.gather(*map(self.committed, chosen)), strict=True)
        self._seek_all({place: offset for place, offset in found if offset is not None})

    def _chosen(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """These partitions, or all that are assigned. Raises `IllegalStateError`."""
        chosen = parse_partitions(partitions) or list(self._fetcher.assigned)
        for place in chosen:
            self._check_assigned(place)
        return chosen

    def _seek_all(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Seek, but for partitions that were taken away meanwhile."""
        for place, offset in offsets.items():
            if place in self._fetcher.assigned:
                self._fetcher.seek(place, offset)

    def pause(self, *partitions: TopicPartition) -> None:
        """Neither fetch nor return records of these partitions, until `resume` or a new assignment.

        Raises `IllegalStateError` unless assigned, `InvalidArgumentError`.
        """
        for place in self._chosen(partitions) if partitions else ():
            self._fetcher.pause(place)

    def resume(self, *partitions: TopicPartition) -> None:
        """Undo `pause`. Raises as it."""
        for place in self._chosen(partitions) if partitions else ():
            self._fetcher.resume(place)

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return set(self._fetcher.paused)

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record; requested first if it is unknown.

        Raises `IllegalStateError`, `NoOffsetForPartitionError`, `KafkaTimeoutError`,
        `RefusedError`.
        """
        self._check_assigned(partition)
        assigned = self._fetcher.assigned[partition]
        if assigned.position is None:
            position = await self._first_position(partition)
            if assigned.position is None:
                assigned.set_position(position)
        assert assigned.position is not None
        return assigned.position

    async def _first_position(self, partition: TopicPartition) -> int:
        committed = None if self._group_id is None else await self.committed(partition)
        if committed is not None:
            return committed
        position = await self._reset_position(partition)
        if position is None:
            problem = f"{partition} has no committed offset, and auto_offset_reset is none"
            raise NoOffsetForPartitionError(f"{problem}: seek one")
        return position

    async def _reset_position(self, partition: TopicPartition) -> int | None:
        """Where auto_offset_reset leads, None for nowhere."""
        return None if self._reset is None else await self._list_offset(partition, self._reset)

    def _check_assigned(self, partition: TopicPartition) -> None:
        if partition not in self._fetcher.assigned:
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
        self._requests.topics.update(topic for topic, _ in places)
        offsets = await asyncio.gather(*(self._list_offset(place, timestamp) for place in places))
        return dict(zip(places, offsets, strict=True))

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each log whose timestamp, ms, is this one or later; None without one.

        Raises as `beginning_offsets`.
        """
        places = parse_partitions(timestamps)
        for place in places:
            check_integer("timestamp", timestamps[place], greatest=LONG_MAX)
        self._requests.topics.update(topic for topic, _ in places)
        rows = await asyncio.gather(*(self._find_row(at, timestamps[at]) for at in places))
        found = (OffsetAndTimestamp(row["offset"], row["timestamp"]) for row in rows)
        return {
            place: None if one.offset == INVALID_OFFSET else one
            for place, one in zip(places, found, strict=True)
        }

    async def _list_offset(self, place: TopicPartition, timestamp: Timestamp) -> int:
        offset: int = (await self._find_row(place, timestamp))["offset"]
        return offset

    async def _find_row(self, place: TopicPartition, timestamp: int) -> Body:
        """The row of a ListOffsets answer."""

        async def attempt() -> Body:
            row = {"partition_index": place[1], "timestamp": timestamp}
            body = {
                "replica_id": CONSUMER_REPLICA,
                "isolation_level": self._isolation,
                "topics": [{"name": place[0], "partitions": [row]}],
            }
            answer = await self._requests.ask_leader(place, ApiKey.LIST_OFFSETS, body)
            answered = only_row(answer, f"ListOffsets of {place}")
            self._requests.check(answered["error_code"], f"ListOffsets of {place}")
            return answered

        return await self._requests.retry_until_timeout(attempt, f"ListOffsets of {place}")

    # ---- committed offsets

    async def committed(self, partition: TopicPartition) -> int | None:
        """The group's offset, None without one; read_committed waits for open transactions.

        Raises `IllegalStateError` without a group, `KafkaTimeoutError`, `RefusedError`,
        `InvalidArgumentError`.
        """
        return await self._offsets.fetch(parse_partition(partition))

    async def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None
    ) -> None:
        """Commit offsets, by default the positions, outside of transactions.

        Raises `IllegalStateError` without a group, `CommitFailedError` if the group has given the
        partitions to others, `KafkaTimeoutError`, `RefusedError`, `InvalidArgumentError`.
        """
        wanted = self._known_positions() if offsets is None else offsets
        await self._offsets.commit(parse_offsets(wanted))

    def _known_positions(self) -> dict[TopicPartition, int]:
        return {
            place: part.position
            for place, part in self._fetcher.assigned.items()
            if part.position is not None
        }

    # ---- records

    async def getone(self) -> ConsumerRecord:
        """The next record; waits for it. Raises as `getmany`."""
        while True:
            # `getmany` costs several times as much as a record that is there.
            taken = self._take(1) or await self.getmany(timeout_ms=self._max_wait_ms, max_records=1)
            for records in taken.values():
                return records[0]

    def _take(self, max_records: int | None) -> dict[TopicPartition, list[ConsumerRecord]]:
        """What is there already; leaders with an answer less to take are asked again."""
        self._check_started()
        if self._group is not None:
            self._group.was_polled = True
            if self._group.has_work:
                return {}
        taken = self._fetcher.take(max_records)
        if taken and self._fetcher.may_ask:
            self._fetcher.send_fetches()
        return taken

    def __aiter__(self) -> Consumer:
        """`async for record in consumer:` is `getone`, for ever."""
        return self

    async def __anext__(self) -> ConsumerRecord:
        """As `getone`."""
        return await self.getone()

    async def getmany(
        self, *, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Available records, at most `max_records`; {} if there are none within `timeout_ms`.

        A member of a group joins and commits here, as long as `timeout_ms` lets it.

        Raises `OffsetOutOfRangeError`, `NoOffsetForPartitionError`, `RefusedError`,
        `KafkaTimeoutError` if a position is not found in time, `DecodeError`, `IllegalStateError`,
        `InvalidArgumentError`.
        """
        check_integer("timeout_ms", timeout_ms)
        if max_records is not None:
            check_integer("max_records", max_records, least=1)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_ms / 1_000
        while True:
            taken = self._take(max_records)
            if taken:
                return taken
            left_s = deadline_s - loop.time()
            if self._group is not None:
                left_s = min(left_s, self._group.settings.heartbeat_interval_ms / 1_000)
                if self._group.has_work:
                    await self._group.work(max(left_s, 0.0))
            await self._find_positions()
            self._check_started()
            self._fetcher.send_fetches()
            if loop.time() >= deadline_s:
                await asyncio.sleep(0)  # a loop of calls without time must not stop the fetches
                return {}
            await self._fetcher.wait(max(min(left_s, deadline_s - loop.time()), 0.0))

    async def _find_positions(self) -> None:
        await self._requests.load_metadata()
        unknown = [place for place, part in self._fetcher.assigned.items() if part.position is None]
        try:
            await asyncio.gather(*map(self.position, unknown))
        except RefusedError as error:
            if self._group is None or error.error_code not in self._group.rejoin_errors:
                raise
            self._group.on_refused(error.error_code)
