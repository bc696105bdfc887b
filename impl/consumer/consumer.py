"""The asyncio consumer: partitions are assigned to it, by the application or by its group.

1. A position is the offset of the next record; it moves when records are returned.
2. read_committed returns no record of an open or aborted transaction, and waits for open
   transactions before it uses committed offsets (KIP-447).
3. Retriable errors are retried until the call's timeout.
4. A rebalance happens, and positions are committed by themselves, within `getone` and `getmany`: a
   record that these returned is taken for processed when they are called again.

Theory of operation: the `Fetcher` asks all leaders at the same time, and ahead of the application;
`getmany` takes from it. Names are aiokafka's.
Source: `KafkaConsumer`, `Fetcher`, `ConsumerCoordinator` of Kafka 4.3.1.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Never

from impl.client.arguments import (
    GroupMetadata,
    OffsetAndMetadata,
    check_boolean,
    check_choice,
    check_integer,
    check_offset,
    check_text,
    check_topic,
    parse_offsets,
    parse_partition,
    parse_partitions,
    refuse_unknown,
)
from impl.client.consumed import MemberMetadata
from impl.client.errors import IllegalStateError, InvalidArgumentError
from impl.client.network_client import NetworkClient
from impl.client.security import ClientSecurity
from impl.client.transport import AsyncioNetwork, Network
from impl.clock import SharedClock
from impl.consumer.assigned_partition import LogEnds
from impl.consumer.assignors import PartitionAssignor, parse_assignors
from impl.consumer.classic_membership import ClassicMembership
from impl.consumer.consumer_membership import ConsumerMembership
from impl.consumer.consumer_record import ConsumerRecord, Decoding, Deserializer
from impl.consumer.consumer_requests import ConsumerRequests
from impl.consumer.errors import ConsumerStoppedError, RefusedError
from impl.consumer.fetcher import Fetcher, FetchSettings
from impl.consumer.membership import CLASSIC, CONSUMER, GroupSettings, MembershipManager
from impl.consumer.metrics import read_metrics
from impl.consumer.offset_requests import OffsetRequests
from impl.consumer.positions import OffsetAndTimestamp, Positions
from impl.consumer.topic_membership import TopicMembership
from impl.consumer.transaction_reader import TransactionReader
from impl.consumer.unknown_positions import UnknownPositions
from impl.protocol.fields import Isolation, Timestamp, TopicPartition
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


class Consumer:
    """A consumer on asyncio. Times are milliseconds, sizes bytes.

    It reads `topics`: all partitions of them, or with a `group_id` those that its group gives it;
    or the partitions of `assign`. `isolation_level` is "read_uncommitted" or "read_committed";
    `auto_offset_reset` "earliest", "latest" or "none". `partition_assignment_strategy` has names of
    assignors, "range", "roundrobin", "sticky" and "cooperative-sticky", or classes, the preferred
    first. With `group_protocol` "consumer" the broker assigns, by `group_remote_assignor` or its
    default (KIP-848); sessions and heartbeats are its affair, too. `enable_auto_commit` commits
    positions every `auto_commit_interval_ms`, before partitions are given up, and when the consumer
    stops. A deserializer gets bytes or None. For TLS and SASL see `ClientSecurity`; for
    `clock` see `Producer`.
    Raises `UnknownSettingError`, `InvalidArgumentError`, `InvalidBootstrapServers`.
    """

    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Iterable[str] = "localhost",
        client_id: str = "consumer-1",
        group_id: str | None = None,
        group_instance_id: str | None = None,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 52_428_800,
        fetch_min_bytes: int = 1,
        max_partition_fetch_bytes: int = 1_048_576,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: int = 100,
        auto_offset_reset: str = "latest",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 5_000,
        check_crcs: bool = True,
        metadata_max_age_ms: int = 300_000,
        partition_assignment_strategy: Iterable[
            str | type[PartitionAssignor] | PartitionAssignor
        ] = ("range", "roundrobin"),
        max_poll_interval_ms: int = 300_000,
        rebalance_timeout_ms: int | None = None,
        session_timeout_ms: int = 45_000,
        heartbeat_interval_ms: int = 3_000,
        max_poll_records: int | None = None,
        ssl_context: SSLContext | None = None,
        security_protocol: str = "PLAINTEXT",
        exclude_internal_topics: bool = True,
        isolation_level: str = "read_uncommitted",
        sasl_mechanism: str = "PLAIN",
        sasl_plain_password: str | None = None,
        sasl_plain_username: str | None = None,
        client_rack: str | None = None,
        group_protocol: str = "classic",
        group_remote_assignor: str | None = None,
        default_api_timeout_ms: int = 60_000,
        network: Network | None = None,
        clock: SharedClock | None = None,
        **unknown: Never,
    ) -> None:
        refuse_unknown(Consumer, unknown)
        check_choice("isolation_level", isolation_level, ISOLATION_LEVELS)
        check_choice("auto_offset_reset", auto_offset_reset, RESETS)
        check_choice("group_protocol", group_protocol, MEMBERSHIPS)
        check_boolean("enable_auto_commit", enable_auto_commit)
        check_boolean("exclude_internal_topics", exclude_internal_topics)
        check_integer("request_timeout_ms", request_timeout_ms)
        check_integer("retry_backoff_ms", retry_backoff_ms)
        check_integer("default_api_timeout_ms", default_api_timeout_ms)
        check_text("client_id", client_id)
        if max_poll_records is not None:
            check_integer("max_poll_records", max_poll_records, least=1)
        fetching = FetchSettings(
            ISOLATION_LEVELS[isolation_level],
            fetch_max_wait_ms,
            fetch_min_bytes,
            fetch_max_bytes,
            max_partition_fetch_bytes,
            metadata_max_age_ms,
            client_rack,
            Decoding(check_crcs, key_deserializer, value_deserializer),
        )
        fetching.check()
        group = GroupSettings(
            "" if group_id is None else group_id,
            group_instance_id,
            session_timeout_ms,
            heartbeat_interval_ms,
            max_poll_interval_ms,
            parse_assignors(partition_assignment_strategy),
            auto_commit_interval_ms if enable_auto_commit and group_id is not None else None,
            group_protocol,
            group_remote_assignor,
            rebalance_timeout_ms,
            exclude_internal_topics,
        )
        if group_id is not None:
            group.check()
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
            clock=clock,
        )
        self._requests = ConsumerRequests(
            self._cluster,
            self._check_started,
            group_id=group_id,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            default_api_timeout_ms=default_api_timeout_ms,
            metadata_max_age_ms=metadata_max_age_ms,
        )
        self._max_wait_ms = fetch_max_wait_ms
        self._max_poll_records = max_poll_records
        self._offsets = OffsetRequests(self._requests, fetching.isolation_level)
        self._positions = Positions(
            self._requests, self._offsets, fetching.isolation_level, RESETS[auto_offset_reset]
        )
        self._fetcher = Fetcher(self._requests, fetching, self._positions.reset)
        self._cluster.on_topic_replaced = self._fetcher.forget_topic
        self._unknown_positions = UnknownPositions(self._cluster, self._positions, self._fetcher)
        kind = TopicMembership if group_id is None else MEMBERSHIPS[group_protocol]
        self._group = kind(group, self._requests, self._fetcher, self.commit)
        self._offsets.group = None if group_id is None else self._group
        self._reader = TransactionReader(
            self._fetcher, commits_by_itself=group.auto_commit_interval_ms is not None
        )
        self._is_started = self._is_stopped = False
        if topics:
            self.subscribe(topics)

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
        self._requests.start()
        self._group.start()
        if self._group.is_subscribed:
            needs_no_one = self._requests.group_id is None
            await self._group.work(self._requests.request_timeout_s if needs_no_one else 0)

    async def stop(self) -> None:
        """Leave the group, after a commit if that is enabled; close all connections.

        Raises what the rebalance listener raises, when all that is done.
        """
        try:
            if self._is_started and not self._is_stopped:
                with suppress(TimeoutError):
                    async with self._cluster.clock.timeout(self._requests.request_timeout_s):
                        await self._group.leave()
        finally:  # whatever a listener raises
            self._is_stopped = True
            await self._cluster.close()
            self._fetcher.wake()

    def _check_started(self) -> None:
        self._check_not_stopped()
        if not self._is_started:
            raise IllegalStateError("the consumer is not started: start it first")

    def _check_not_stopped(self) -> None:
        if self._is_stopped:
            raise ConsumerStoppedError("the consumer is stopped: create another one")

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

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | None = None,
        listener: object | None = None,
    ) -> None:
        """Read these topics, or those whose names begin with a match of the regular expression.

        The next call for records joins the group; without a group all partitions are read.
        `listener` is a `ConsumerRebalanceListener`, or has its methods. Raises `IllegalStateError`
        with partitions of `assign`, `InvalidArgumentError`.
        """
        chosen = [topics] if isinstance(topics, str) else list(topics)
        for topic in chosen:
            check_topic(topic)
        if bool(chosen) == (pattern is not None):
            raise InvalidArgumentError("topics", "or a pattern must be given", (chosen, pattern))
        if self._group.is_assigned_by_hand:
            raise IllegalStateError("partitions were assigned by hand: assign none of them first")
        self._group.subscribe(chosen, _compile(pattern), listener)

    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed to; of a pattern, those that matched it last."""
        return self._group.topics

    def group_metadata(self) -> GroupMetadata:
        """This member, for `Producer.send_offsets_to_transaction` (KIP-447).

        By it the producer also knows which records were returned before an abort, and not since.
        Raises `IllegalStateError` without a group.
        """
        return MemberMetadata.of(self._group.metadata, self._reader)

    def unsubscribe(self) -> Awaitable[None]:
        """Read nothing, and leave the group, after a commit if that is enabled.

        Who wants to know when that is done waits for the result. Raises `IllegalStateError`.
        """
        self._check_not_stopped()
        return self._group.leave()

    async def topics(self) -> set[str]:
        """All topics that this client may read, without internal ones.

        Raises `KafkaTimeoutError`, `IllegalStateError`.
        """
        return await self._requests.all_topics()

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The partitions of a topic; None while the consumer has no metadata of it."""
        count = self._cluster.partitions.get(topic)
        return None if count is None else set(range(count))

    # ---- positions

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these (topic, partition), each from its committed offset or the reset.

        Raises `IllegalStateError` with a subscription, `InvalidArgumentError`.
        """
        if self._group.is_subscribed:
            raise IllegalStateError("the subscription assigns partitions: unsubscribe first")
        self._group.assign(parse_partitions(partitions))

    def assignment(self) -> set[TopicPartition]:
        """The assigned partitions."""
        return set(self._fetcher.assigned)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read from this offset on.

        Raises `IllegalStateError` unless assigned, `InvalidArgumentError`.
        """
        place = self._assigned_place(partition)
        check_offset(offset)
        self._fetcher.seek(place, offset)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> bool:
        """Read these partitions, by default all, from the first record of their logs.

        The result is True. Raises as `beginning_offsets`; `IllegalStateError` unless assigned.
        """
        return self._seek_all(await self.beginning_offsets(self._chosen(partitions)))

    async def seek_to_end(self, *partitions: TopicPartition) -> bool:
        """Read these partitions, by default all, from the end of their logs on.

        The result is True. Raises as `seek_to_beginning`.
        """
        return self._seek_all(await self.end_offsets(self._chosen(partitions)))

    async def seek_to_committed(
        self, *partitions: TopicPartition
    ) -> dict[TopicPartition, int | None]:
        """Read these partitions, by default all, from the group's offsets.

        A partition without one is read from where this consumer began: at the offset of its last
        `seek`, or where `auto_offset_reset` has led. After an aborted transaction its records are
        read again so. The result are the group's offsets, None without one. Raises as `committed`;
        `IllegalStateError` unless assigned.
        """
        chosen = self._chosen(partitions)
        offsets = await asyncio.gather(*map(self.committed, chosen))
        found = dict(zip(chosen, offsets, strict=True))
        began = {place: self._fetcher.began_at(place) for place in chosen}
        self._seek_all({place: began[place] if at is None else at for place, at in found.items()})
        return found

    def _chosen(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """These partitions, or all that are assigned. Raises `IllegalStateError`."""
        chosen = parse_partitions(partitions) or list(self._fetcher.assigned)
        return [self._assigned_place(place) for place in chosen]

    def _assigned_place(self, partition: TopicPartition) -> TopicPartition:
        place = parse_partition(partition)
        if place not in self._fetcher.assigned:
            raise IllegalStateError(f"{place} is not assigned: assign it first")
        return place

    def _seek_all(self, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Seek, but for partitions without an offset, and those that were taken away meanwhile."""
        for place, offset in offsets.items():
            if offset is not None and place in self._fetcher.assigned:
                self._fetcher.seek(place, offset)
        return True

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
        place = self._assigned_place(partition)
        assigned = self._fetcher.assigned[place]
        if assigned.position is None:
            found = await self._positions.find(assigned)
            if assigned.position is None:
                assigned.set_position(found.offset, found.leader_epoch)
        assert assigned.position is not None
        return assigned.position

    def highwater(self, partition: TopicPartition) -> int | None:
        """The high watermark as the last Fetch answer had it; None before there is one.

        Raises `IllegalStateError` unless assigned.
        """
        ends = self._log_ends(partition)
        return None if ends is None else ends.high_watermark

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """As `highwater`: below it no transaction is open."""
        ends = self._log_ends(partition)
        return None if ends is None else ends.last_stable_offset

    def last_poll_timestamp(self, partition: TopicPartition) -> int | None:
        """As `highwater`: when that was, ms since the epoch."""
        ends = self._log_ends(partition)
        return None if ends is None else ends.timestamp_ms

    def _log_ends(self, partition: TopicPartition) -> LogEnds | None:
        return self._fetcher.log_ends.get(self._assigned_place(partition))

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The first offset of each log.

        Raises `KafkaTimeoutError`, `RefusedError`, `IllegalStateError`, `InvalidArgumentError`.
        """
        return await self._positions.list(parse_partitions(partitions), Timestamp.EARLIEST)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last record that this isolation level may read, of each log.

        Raises as `beginning_offsets`.
        """
        return await self._positions.list(parse_partitions(partitions), Timestamp.LATEST)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each log whose timestamp, ms, is this one or later; None without one.

        Raises as `beginning_offsets`.
        """
        for timestamp in timestamps.values():
            check_integer("timestamp", timestamp, greatest=LONG_MAX)
        places = parse_partitions(timestamps)
        return await self._positions.first_since(
            dict(zip(places, timestamps.values(), strict=True))
        )

    # ---- committed offsets

    async def committed(self, partition: TopicPartition) -> int | None:
        """The group's offset, None without one; read_committed waits for open transactions.

        Raises `IllegalStateError` without a group, `KafkaTimeoutError`, `RefusedError`,
        `InvalidArgumentError`.
        """
        found = await self._offsets.fetch(parse_partition(partition))
        return None if found is None else found.offset

    async def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None
    ) -> None:
        """Commit offsets, by default the positions, outside of transactions.

        Offsets of a topic that was deleted and created again are dropped, with a warning.
        Raises `IllegalStateError` without a group, `CommitFailedError` if the group has given the
        partitions to others, `KafkaTimeoutError`, `RefusedError`, `InvalidArgumentError`.
        """
        if self._requests.group_id is None:
            raise IllegalStateError("commit without a group_id: create a consumer with one")
        self._cluster.check_loop()
        wanted = self._reader.keep_known(
            parse_offsets(self._known_positions() if offsets is None else offsets)
        )
        await self._offsets.commit(wanted)
        self._reader.settle(wanted)

    def _known_positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        return {
            place: OffsetAndMetadata(part.position, "", part.position_epoch)
            for place, part in self._fetcher.assigned.items()
            if part.position is not None
        }

    # ---- records

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord:
        """The next record, of these partitions or of any; waits for it. Raises as `getmany`."""
        wanted = frozenset(parse_partitions(partitions)) if partitions else ()
        while True:
            # `getmany` costs several times as much as a record that is there.
            taken = self._take(1, wanted) or await self.getmany(
                *wanted, timeout_ms=self._max_wait_ms, max_records=1
            )
            for records in taken.values():
                return records[0]

    def _take(
        self, max_records: int | None, wanted: Collection[TopicPartition]
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """What is there already; leaders with an answer less to take are asked again."""
        self._check_started()
        self._group.was_polled = True
        if self._group.has_work:
            return {}
        taken = self._fetcher.take(max_records, wanted)
        if taken and self._fetcher.may_ask:
            self._fetcher.send_fetches(wanted)
        return taken

    def __aiter__(self) -> Consumer:
        """`async for record in consumer:` is `getone`, until the consumer is stopped."""
        return self

    async def __anext__(self) -> ConsumerRecord:
        """As `getone`."""
        try:
            return await self.getone()
        except ConsumerStoppedError:
            raise StopAsyncIteration from None

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Available records, of these partitions or of any; {} if there are none in `timeout_ms`.

        There are at most `max_records`, or `max_poll_records`. A member of a group joins and
        commits here, as long as `timeout_ms` lets it. A call that begins to look for positions
        waits for them for 0.2 s at most, even if `timeout_ms` is less.

        Raises `OffsetOutOfRangeError`, `LogTruncationError`, `NoOffsetForPartitionError`,
        `RecordDeserializationError`, `RefusedError`, `KafkaTimeoutError` if a position is not found
        within `default_api_timeout_ms`, `DecodeError`, `IllegalStateError`, `InvalidArgumentError`.
        """
        self._cluster.check_loop()
        check_integer("timeout_ms", timeout_ms)
        if max_records is not None:
            check_integer("max_records", max_records, least=1)
        if not self._group.reads_anything:
            raise IllegalStateError("nothing to read: subscribe to topics, or assign partitions")
        most = max_records or self._max_poll_records
        wanted = frozenset(parse_partitions(partitions)) if partitions else ()
        clock = self._cluster.clock
        deadline_s = clock.time_s() + timeout_ms / 1_000
        while True:
            taken = self._take(most, wanted)
            if taken:
                return taken
            left_s = deadline_s - clock.time_s()
            left_s = min(left_s, self._group.settings.heartbeat_interval_ms / 1_000)
            if self._group.has_work:
                await self._group.work(max(left_s, 0.0))
            await self._find_positions()
            self._check_started()
            self._fetcher.send_fetches(wanted)
            if clock.time_s() >= deadline_s:
                await asyncio.sleep(0)  # a loop of calls without time must not stop the fetches
                self._fetcher.raise_failure()
                return {}
            await self._fetcher.wait(max(min(left_s, deadline_s - clock.time_s()), 0.0))

    async def _find_positions(self) -> None:
        await self._requests.load_metadata()
        try:
            await self._unknown_positions.find()
        except RefusedError as error:
            if error.error_code not in self._group.rejoin_errors:
                raise
            self._group.on_refused(error.error_code)

    # ---- what it has done

    def metrics(self) -> dict[str, dict[str, float]]:
        """Numbers since the start, by Kafka's names of groups and metrics.

        `consumer-fetch-manager-metrics.TOPIC-PARTITION` has the `records-lag` of each partition
        that was fetched: records that are there and were not returned yet.
        """
        return read_metrics(self._requests, self._fetcher, self._offsets, self._group)


def _compile(pattern: str | None) -> re.Pattern[str] | None:
    """Raises `InvalidArgumentError`."""
    try:
        return None if pattern is None else re.compile(pattern)
    except (re.error, TypeError) as error:
        raise InvalidArgumentError(
            "pattern", f"must be a regular expression ({error})", pattern
        ) from None
