"""A consumer's membership of a classic group: join, synchronise, heartbeat, leave.

1. Before a member joins again it commits its positions, and gives up all partitions (the eager
   protocol).
2. If all its assignors are cooperative it joins with its partitions, and reads on meanwhile. Then
   it commits, gives up what the new assignment lacks, and if that is anything joins once more, so
   that others get it (KIP-429). Without its place in the group it has lost its partitions.
3. A member whose application asks for no records during `max_poll_interval_ms` leaves.
4. The coordinator's choice of a leader assigns the partitions, by the assignor that all members
   have in common, and again when topics get partitions.

Source: `AbstractCoordinator`, `ConsumerCoordinator` of Kafka 4.3.1.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from impl.client.arguments import GroupMetadata
from impl.client.connection import Body
from impl.client.errors import CommitFailedError
from impl.consumer.assignors import NO_GENERATION, PartitionAssignor, Subscription
from impl.consumer.consumer_requests import ConsumerRequests, RetriableError
from impl.consumer.fetcher import Fetcher
from impl.consumer.membership import GroupSettings, MembershipManager
from impl.coordinator.metadata import TopicPartition as NamedPartition
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import TopicPartition, topic_rows
from impl.protocol.schemas import ApiKey
from impl.protocol.state_records import decode_record, encode_record

_log = logging.getLogger(__name__)

CONSUMER_PROTOCOL: Final = "consumer"
NO_MEMBER: Final = ""

SUBSCRIPTION_VERSION: Final = 3
"""Older members ignore what follows the fields that they know."""

FORGOTTEN: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.GROUP_ID_NOT_FOUND,  # instead of ILLEGAL_GENERATION, by OffsetCommit 9
    }
)
"""The group has gone on without this member."""
REJOIN: Final = FORGOTTEN | {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.MEMBER_ID_REQUIRED}


class _RejoinError(Exception):
    """The coordinator wants the member to join again, at once."""


class ClassicMembership(MembershipManager):
    """One member of a classic group. Read-only, beside: `member_id`, `generation_id`."""

    rejoin_errors = REJOIN

    def __init__(
        self,
        settings: GroupSettings,
        requests: ConsumerRequests,
        fetcher: Fetcher,
        commit: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(settings, requests, fetcher, commit)
        self.member_id = NO_MEMBER
        self.generation_id = NO_GENERATION
        self._last_identity: tuple[int, str] = (NO_GENERATION, NO_MEMBER)
        self._is_cooperative = all(assignor.is_cooperative for assignor in settings.assignors)
        self._joining: asyncio.Task[None] | None = None
        self._target: list[TopicPartition] | None = None
        self._told_topics: frozenset[str] = frozenset()
        self._has_lost = False
        self._last: tuple[list[TopicPartition], int] = ([], NO_GENERATION)

    @property
    def metadata(self) -> GroupMetadata:
        """Its generation and ids; while it joins again, those of before: a coordinator refuses them
        if it has given the partitions to others, and would take offsets from nobody.
        """
        me, now = self.settings, (self.generation_id, self.member_id)
        generation_id, member_id = self._last_identity if now[0] == NO_GENERATION else now
        return GroupMetadata(me.group_id, generation_id, member_id, me.group_instance_id)

    @property
    def identity(self) -> Body:
        """See `MembershipManager`. Raises `CommitFailedError` before it has joined.

        `ConsumerCoordinator.sendOffsetCommitRequest`.
        """
        if self.is_subscribed and self.metadata.generation_id == NO_GENERATION:
            group = self.settings.group_id
            raise CommitFailedError(f"OffsetCommit of {group}: the consumer has not joined yet")
        return super().identity

    @property
    def fetching_identity(self) -> Body:
        """Classic members fetch offsets as anybody does."""
        return {}

    def _resubscribe(self) -> None:
        self.request_rebalance()

    def on_refused(self, error: ErrorCode) -> None:
        """Join again."""
        self._forget(error)
        self.request_rebalance()

    async def _leave_group(self) -> None:
        """A static member does not leave (KIP-345)."""
        if self.member_id and self.settings.group_instance_id is None:
            me = {"member_id": self.member_id, "group_instance_id": None, "reason": "it leaves"}
            body = {"group_id": self.settings.group_id, "members": [me], **me}
            await self._say_that_it_leaves(ApiKey.LEAVE_GROUP, body)
        self.member_id, self.generation_id = NO_MEMBER, NO_GENERATION
        self._last_identity = (NO_GENERATION, NO_MEMBER)

    # ---- rebalances

    async def _rebalance(self) -> None:
        self._needs_rebalance = False
        if not self._is_cooperative:
            await self._give_up()
            assigned = await self._join_group()
            self._fetcher.assign(assigned)
            await self._call("on_partitions_assigned", set(assigned))
            return
        if self._has_lost:
            await self._give_up_lost()
        if self._target is not None:
            await self._reconcile()
        elif self._joining is None:
            self._stop_heartbeats()
            self._joining = self._requests.cluster.start_task(self._join_for_later())

    async def _give_up_lost(self) -> None:
        self._has_lost = False
        lost = set(self._fetcher.assigned)
        if lost:
            await self._call("on_partitions_lost", lost)
            self._fetcher.assign(())

    async def _join_for_later(self) -> None:
        """Join while the application reads on."""
        try:
            target = await self._join_group()
            if self.topics == self._told_topics:
                self._target = target
        except Exception as error:
            self._fail(error)
        finally:
            self._joining = None
        self.request_rebalance()

    async def _reconcile(self) -> None:
        """Give up what others are to have, and take what is new."""
        fetcher, target = self._fetcher, self._target or []
        self._target = None
        revoked = fetcher.assigned.keys() - target
        added = set(target) - fetcher.assigned.keys()
        if revoked:
            await self._commit_positions()
            await self._call("on_partitions_revoked", revoked)
            fetcher.reassign([place for place in fetcher.assigned if place not in revoked])
            self.request_rebalance()
        fetcher.reassign([*fetcher.assigned, *sorted(added)])
        await self._call("on_partitions_assigned", added)

    def leave(self) -> asyncio.Task[None]:
        """See `MembershipManager`."""
        if self._joining is not None:
            self._joining.cancel()
            self._requests.cluster.hang_up()
        self._target = None
        return super().leave()

    def check_commit(self, code: int, asked: Body) -> None:
        """A member that joins and keeps its partitions commits them when it has joined."""
        if code == ErrorCode.REBALANCE_IN_PROGRESS and self._joining is not None:
            raise RetriableError(ErrorCode.REBALANCE_IN_PROGRESS.name)
        super().check_commit(code, asked)

    async def _join_group(self) -> list[TopicPartition]:
        """What this member is assigned; heartbeats are sent from then on."""
        while True:
            self._requests.check_started()
            try:
                if self._pattern is not None:
                    await self._requests.request_metadata()
                    self._needs_rebalance = False  # for other topics: they are told now
                assigned = await self._sync(await self._join())
                break
            except _RejoinError:
                continue
            except (RetriableError, OSError):
                await self._requests.refresh()
        _log.info("%s, generation %d: %s", self.member_id, self.generation_id, assigned)
        self._last = (assigned, self.generation_id)
        self._requests.topics.update(topic for topic, _ in assigned)
        self._stop_heartbeats()
        self._beating = self._requests.cluster.start_task(self._beat())
        return assigned

    def _subscription(self, assignor: PartitionAssignor) -> bytes:
        """What the leader is told of this member."""
        owned = () if self._has_lost else sorted(self._fetcher.assigned)
        body = {
            "topics": sorted(self.topics),
            "user_data": assignor.user_data(*self._last),
            "owned_partitions": topic_rows(owned, name="topic"),
            "generation_id": self.generation_id,
        }
        return encode_record("CONSUMER_PROTOCOL_SUBSCRIPTION", SUBSCRIPTION_VERSION, body)

    async def _join(self) -> Body:
        me = self.settings
        self._told_topics = self.topics
        body = {
            "group_id": me.group_id,
            "session_timeout_ms": me.session_timeout_ms,
            "rebalance_timeout_ms": me.join_timeout_ms,
            "member_id": self.member_id,
            "group_instance_id": me.group_instance_id,
            "protocol_type": CONSUMER_PROTOCOL,
            "protocols": [
                {"name": assignor.name, "metadata": self._subscription(assignor)}
                for assignor in me.assignors
            ],
        }
        more_s = me.join_timeout_ms / 1_000
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
        more_s = me.join_timeout_ms / 1_000
        answer = await self._requests.ask_coordinator(ApiKey.SYNC_GROUP, body, more_s)
        self._check(answer["error_code"], "SyncGroup")
        if not answer["assignment"]:
            return []
        _, mine = decode_record("CONSUMER_PROTOCOL_ASSIGNMENT", answer["assignment"])
        return _places(mine["assigned_partitions"])

    async def _assign_all(self, joined: Body) -> list[Body]:
        """What the leader tells each member."""
        members = [_parse_subscription(row) for row in joined["members"]]
        wanted = frozenset().union(*(member.topics for member in members))
        self._requests.topics.update(wanted)
        self._watched = {}
        await self._requests.request_metadata()
        self._watch(wanted)
        known = self._requests.cluster.partitions
        partitions = {topic: known[topic] for topic in wanted if topic in known}
        chosen = joined["protocol_name"]
        assignor = next(a for a in self.settings.assignors if a.name == chosen)
        assignment = assignor.assign(members, partitions)
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
            if self.generation_id != NO_GENERATION:
                self._last_identity = (self.generation_id, self.member_id)
            self.generation_id = NO_GENERATION
            if self._is_cooperative:
                self._has_lost = True
                self.request_rebalance()
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = NO_MEMBER

    # ---- heartbeats

    async def _beat(self) -> None:
        """Send heartbeats until the coordinator does not know the member, or it joins again."""
        clock = self._requests.cluster.clock
        polled_s = clock.time_s()
        while self.generation_id != NO_GENERATION:
            await clock.sleep(self.settings.heartbeat_interval_ms / 1_000)
            if self.was_polled:
                polled_s, self.was_polled = clock.time_s(), False
            is_late = clock.time_s() - polled_s > self.settings.max_poll_interval_ms / 1_000
            try:
                await (self._leave_for_delay() if is_late else self._beat_once())
            except (RetriableError, OSError):
                await self._requests.refresh()
            except Exception as error:
                self._fail(error)
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
            self.on_refused(error)
        else:
            self._requests.check(error, f"Heartbeat of {self.settings.group_id}")

    async def _leave_for_delay(self) -> None:
        limit_ms = self.settings.max_poll_interval_ms
        _log.warning("%s leaves: no records were asked for in %d ms", self.member_id, limit_ms)
        me = {"member_id": self.member_id, "group_instance_id": None}
        body = {"group_id": self.settings.group_id, "members": [me], **me}
        self.on_refused(ErrorCode.UNKNOWN_MEMBER_ID)
        if self.settings.group_instance_id is None:
            await self._requests.ask_coordinator(ApiKey.LEAVE_GROUP, body)


def _parse_subscription(row: Body) -> Subscription:
    _, body = decode_record("CONSUMER_PROTOCOL_SUBSCRIPTION", row["metadata"])
    return Subscription(
        row["member_id"],
        row["group_instance_id"],
        frozenset(body["topics"]),
        frozenset(_places(body["owned_partitions"])),
        body["generation_id"],
        body["user_data"] or b"",
    )


def _places(rows: Iterable[Body]) -> list[TopicPartition]:
    return [NamedPartition(row["topic"], index) for row in rows for index in row["partitions"]]


def _encode_assignment(places: Iterable[TopicPartition]) -> bytes:
    rows = [
        {"topic": row["topic"], "partitions": row["partitions"]}
        for row in topic_rows(places, name="topic")
    ]
    return encode_record("CONSUMER_PROTOCOL_ASSIGNMENT", 0, {"assigned_partitions": rows})
