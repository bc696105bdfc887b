"""A consumer's membership of a classic group: join, synchronise, heartbeat, leave.

1. A member joins within the application's calls for records: no partition is given to another
   member while the application still processes records that it got from here. Before it joins
   again it commits its positions, and gives up all partitions (the eager protocol).
2. Heartbeats are sent beside that. They only note that the group rebalances, or has gone on
   without this member (`has_work`); the next call for records does the rest.
3. A member whose application asks for no records during `max_poll_interval_ms` leaves.
4. The coordinator's choice of a leader assigns the partitions, by the assignor that all members
   have in common.

Source: `AbstractCoordinator`, `ConsumerCoordinator` of Kafka 4.3.1.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, NamedTuple

from impl.client.arguments import check_choice, check_integer, check_text
from impl.client.connection import Body
from impl.consumer.assignors import ASSIGNORS, Subscription
from impl.consumer.consumer_requests import ConsumerRequests, RetriableError
from impl.consumer.errors import CommitFailedError
from impl.consumer.fetcher import Fetcher
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import TopicPartition, topic_rows
from impl.protocol.schemas import ApiKey
from impl.protocol.state_records import decode_record, encode_record

_log = logging.getLogger(__name__)

CONSUMER_PROTOCOL: Final = "consumer"
NO_GENERATION: Final = -1
NO_MEMBER: Final = ""

SUBSCRIPTION_VERSION: Final = 0
"""What is written has no newer fields: they are for members that keep partitions (KIP-429)."""

FORGOTTEN: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
"""The group has gone on without this member."""
REJOIN: Final = FORGOTTEN | {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.MEMBER_ID_REQUIRED}


class ConsumerRebalanceListener:
    """What an application wants to know of a rebalance; both methods may be coroutines."""

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> Any:
        """These are given up; called after the last record of them was processed."""

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> Any:
        """These were assigned; called before the first record of them."""


class GroupSettings(NamedTuple):
    """Times in ms. `assignors` are names, the preferred first."""

    group_id: str
    group_instance_id: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    assignors: tuple[str, ...]
    auto_commit_interval_ms: int | None


def check_group_settings(
    group_id: str,
    group_instance_id: str | None,
    session_timeout_ms: int,
    heartbeat_interval_ms: int,
    max_poll_interval_ms: int,
    assignors: Iterable[str],
    auto_commit_interval_ms: int | None,
) -> GroupSettings:
    """Checked settings of a member. Raises `InvalidArgumentError`."""
    check_text("group_id", group_id)
    if group_instance_id is not None:
        check_text("group_instance_id", group_instance_id)
    check_integer("session_timeout_ms", session_timeout_ms, least=1)
    check_integer(
        "heartbeat_interval_ms", heartbeat_interval_ms, least=1, greatest=session_timeout_ms
    )
    check_integer("max_poll_interval_ms", max_poll_interval_ms, least=1)
    if auto_commit_interval_ms is not None:
        check_integer("auto_commit_interval_ms", auto_commit_interval_ms)
    names = tuple(assignors)
    for name in names or (None,):
        check_choice("partition_assignment_strategy", name, ASSIGNORS)
    return GroupSettings(
        group_id,
        group_instance_id,
        session_timeout_ms,
        heartbeat_interval_ms,
        max_poll_interval_ms,
        names,
        auto_commit_interval_ms,
    )


class _RejoinError(Exception):
    """The coordinator wants the member to join again, at once."""


class ConsumerMembership:
    """One member. Public state: `was_polled`, which the consumer sets whenever it is called.

    Read-only: `topics` of its subscription; `has_work`, whether `work` has anything to do;
    `member_id`, `generation_id`.
    """

    def __init__(
        self,
        settings: GroupSettings,
        requests: ConsumerRequests,
        fetcher: Fetcher,
        commit: Callable[[], Awaitable[None]],
    ) -> None:
        """`commit` commits the positions of all assigned partitions."""
        self.settings = settings
        self._requests = requests
        self._fetcher = fetcher
        self._commit = commit
        self._listener: Any = ConsumerRebalanceListener()
        self._joining: asyncio.Task[None] | None = None
        self._beating: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self._needs_join = False
        self._committed_s = 0.0
        self.topics: frozenset[str] = frozenset()
        self.member_id = NO_MEMBER
        self.generation_id = NO_GENERATION
        self.has_work = False
        self.was_polled = False

    @property
    def identity(self) -> Body:
        """The fields by which OffsetCommit is held to member and generation."""
        return {
            "member_id": self.member_id,
            "generation_id_or_member_epoch": self.generation_id,
            "group_instance_id": self.settings.group_instance_id,
        }

    # ---- what the application does

    def subscribe(self, topics: Iterable[str], listener: Any) -> None:
        """Read these topics instead of those before; the next call for records joins."""
        self.topics = frozenset(topics)
        if listener is not None:
            self._listener = listener
        self._requests.topics.update(self.topics)
        self.request_join()

    def request_join(self) -> None:
        """Let the next call for records join the group again."""
        self._needs_join = self.has_work = True
        self._fetcher.wake()

    def check_commit(self, code: int) -> None:
        """Raise `CommitFailedError` for an error that says that the group has gone on."""
        error = ErrorCode.of(code)
        if error in REJOIN:
            self._forget(error)
            self.request_join()
            raise CommitFailedError(f"OffsetCommit of {self.settings.group_id}: {error.name}")

    async def work(self, timeout_s: float) -> None:
        """Join if that is due, and commit; at most for this long.

        Raises `RefusedError`, and what the listener raises.
        """
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._needs_join and self._joining is None:
            self._joining = self._requests.cluster.start_task(self._rebalance())
        if self._joining is not None:
            await asyncio.wait([self._joining], timeout=timeout_s)
            if self._joining.done():
                ended, self._joining = self._joining, None
                self.has_work = self._needs_join
                if not ended.cancelled():  # else the consumer stops
                    ended.result()
            return
        self.has_work = False
        await self._commit_positions()

    async def leave(self) -> None:
        """Commit, give up all partitions, and leave; a static member does not leave (KIP-345)."""
        if not self.topics:
            return
        if self._joining is not None:
            self._joining.cancel()
        await self._give_up()
        if self.member_id and self.settings.group_instance_id is None:
            me = {"member_id": self.member_id, "group_instance_id": None, "reason": "it leaves"}
            body = {"group_id": self.settings.group_id, "members": [me], **me}
            try:
                await self._requests.ask_coordinator(ApiKey.LEAVE_GROUP, body)
            except (OSError, RetriableError) as error:
                _log.info("%s does not leave: %s", self.member_id, error)
        self.member_id, self.generation_id = NO_MEMBER, NO_GENERATION
        self.topics, self._needs_join, self.has_work = frozenset(), False, False

    # ---- rebalances

    async def _rebalance(self) -> None:
        await self._give_up()
        while True:
            self._requests.check_started()
            try:
                assigned = await self._sync(await self._join())
                break
            except _RejoinError:
                continue
            except (RetriableError, OSError):
                await self._requests.refresh()
        _log.info("%s, generation %d: %s", self.member_id, self.generation_id, assigned)
        self._needs_join = False
        self._requests.topics.update(topic for topic, _ in assigned)
        self._fetcher.assign(assigned)
        self._committed_s = asyncio.get_running_loop().time()
        self._beating = self._requests.cluster.start_task(self._beat())
        await _call(self._listener.on_partitions_assigned, set(assigned))

    async def _give_up(self) -> None:
        """Commit, and give up all partitions."""
        if self._beating is not None:
            self._beating.cancel()
            self._beating = None
        revoked = set(self._fetcher.assigned)
        if revoked:
            await self._commit_positions()
            await _call(self._listener.on_partitions_revoked, revoked)
            self._fetcher.assign(())

    async def _join(self) -> Body:
        me = self.settings
        subscription = encode_record(
            "CONSUMER_PROTOCOL_SUBSCRIPTION", SUBSCRIPTION_VERSION, {"topics": sorted(self.topics)}
        )
        body = {
            "group_id": me.group_id,
            "session_timeout_ms": me.session_timeout_ms,
            "rebalance_timeout_ms": me.max_poll_interval_ms,
            "member_id": self.member_id,
            "group_instance_id": me.group_instance_id,
            "protocol_type": CONSUMER_PROTOCOL,
            "protocols": [{"name": name, "metadata": subscription} for name in me.assignors],
        }
        more_s = me.max_poll_interval_ms / 1_000
        answer = await self._requests.ask_coordinator(ApiKey.JOIN_GROUP, body, more_s)
        if answer["error_code"] == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer["member_id"]
        self._check(answer["error_code"], "JoinGroup")
        self.member_id, self.generation_id = answer["member_id"], answer["generation_id"]
        return answer

    async def _sync(self, joined: Body) -> list[TopicPartition]:
        me = self.settings
        is_leader = joined["leader"] == self.member_id
        body = {
            "group_id": me.group_id,
            "generation_id": self.generation_id,
            "member_id": self.member_id,
            "group_instance_id": me.group_instance_id,
            "protocol_type": CONSUMER_PROTOCOL,
            "protocol_name": joined["protocol_name"],
            "assignments": await self._assign_all(joined) if is_leader else [],
        }
        more_s = me.max_poll_interval_ms / 1_000
        answer = await self._requests.ask_coordinator(ApiKey.SYNC_GROUP, body, more_s)
        self._check(answer["error_code"], "SyncGroup")
        if not answer["assignment"]:
            return []
        _, mine = decode_record("CONSUMER_PROTOCOL_ASSIGNMENT", answer["assignment"])
        rows = mine["assigned_partitions"]
        return [(row["topic"], index) for row in rows for index in row["partitions"]]

    async def _assign_all(self, joined: Body) -> list[Body]:
        """What the leader tells each member."""
        members = [_subscription(row) for row in joined["members"]]
        wanted = frozenset().union(*(member.topics for member in members))
        self._requests.topics.update(wanted)
        await self._requests.request_metadata()
        known = self._requests.cluster.partitions
        partitions = {topic: known[topic] for topic in wanted if topic in known}
        assignment = ASSIGNORS[joined["protocol_name"]](members, partitions)
        return [
            {"member_id": member_id, "assignment": _encode_assignment(places)}
            for member_id, places in assignment.items()
        ]

    def _check(self, code: int, what: str) -> None:
        """Raises `_RejoinError`, `RetriableError`, `RefusedError`."""
        error = ErrorCode.of(code)
        if error in REJOIN:
            self._forget(error)
            raise _RejoinError
        self._requests.check(code, f"{what} of {self.settings.group_id}")

    def _forget(self, error: ErrorCode) -> None:
        """Drop the identity that the coordinator does not know any more."""
        if error in FORGOTTEN:
            self.generation_id = NO_GENERATION
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = NO_MEMBER

    # ---- heartbeats

    async def _beat(self) -> None:
        """Send heartbeats until the coordinator does not know the member, or it joins again."""
        clock_s = asyncio.get_running_loop().time
        polled_s = clock_s()
        while self.generation_id != NO_GENERATION:
            await asyncio.sleep(self.settings.heartbeat_interval_ms / 1_000)
            if self.was_polled:
                polled_s, self.was_polled = clock_s(), False
            self._note_commit(clock_s())
            is_late = clock_s() - polled_s > self.settings.max_poll_interval_ms / 1_000
            try:
                await (self._leave_for_delay() if is_late else self._beat_once())
            except (RetriableError, OSError):
                await self._requests.refresh()
            except Exception as error:
                self._failure, self.has_work = error, True
                self._fetcher.wake()
                return

    async def _beat_once(self) -> None:
        body = {
            "group_id": self.settings.group_id,
            "generation_id": self.generation_id,
            "member_id": self.member_id,
            "group_instance_id": self.settings.group_instance_id,
        }
        answer = await self._requests.ask_coordinator(ApiKey.HEARTBEAT, body)
        error = ErrorCode.of(answer["error_code"])
        if error in REJOIN:
            self._forget(error)
            self.request_join()
        else:
            self._requests.check(error, f"Heartbeat of {self.settings.group_id}")

    async def _leave_for_delay(self) -> None:
        limit_ms = self.settings.max_poll_interval_ms
        _log.warning("%s leaves: no records were asked for in %d ms", self.member_id, limit_ms)
        me = {"member_id": self.member_id, "group_instance_id": None}
        body = {"group_id": self.settings.group_id, "members": [me], **me}
        self._forget(ErrorCode.UNKNOWN_MEMBER_ID)
        self.request_join()
        if self.settings.group_instance_id is None:
            await self._requests.ask_coordinator(ApiKey.LEAVE_GROUP, body)

    # ---- commits

    def _note_commit(self, now_s: float) -> None:
        interval_ms = self.settings.auto_commit_interval_ms
        if interval_ms is not None and now_s - self._committed_s >= interval_ms / 1_000:
            self.has_work = True

    async def _commit_positions(self) -> None:
        """Commit, if the consumer does that by itself; a failure is logged, as by Kafka's."""
        if self.settings.auto_commit_interval_ms is None:
            return
        self._committed_s = asyncio.get_running_loop().time()
        try:
            await self._commit()
        except Exception as error:
            _log.warning("positions are not committed: %s", error)


async def _call(
    function: Callable[[set[TopicPartition]], Any], places: set[TopicPartition]
) -> None:
    found = function(places)
    if inspect.isawaitable(found):
        await found


def _subscription(row: Body) -> Subscription:
    _, body = decode_record("CONSUMER_PROTOCOL_SUBSCRIPTION", row["metadata"])
    return Subscription(row["member_id"], row["group_instance_id"], frozenset(body["topics"]))


def _encode_assignment(places: Iterable[TopicPartition]) -> bytes:
    rows = [
        {"topic": row["topic"], "partitions": row["partitions"]}
        for row in topic_rows(places, name="topic")
    ]
    return encode_record("CONSUMER_PROTOCOL_ASSIGNMENT", 0, {"assigned_partitions": rows})
