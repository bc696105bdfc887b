"""A consumer's membership of a classic group: join, synchronise, heartbeat, leave.

1. Before a member joins again it commits its positions, and gives up all partitions (the eager
   protocol).
2. A member whose application asks for no records during `max_poll_interval_ms` leaves.
3. The coordinator's choice of a leader assigns the partitions, by the assignor that all members
   have in common.

Source: `AbstractCoordinator`, `ConsumerCoordinator` of Kafka 4.3.1.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from impl.client.arguments import GroupMetadata
from impl.client.connection import Body
from impl.consumer.assignors import ASSIGNORS, Subscription
from impl.consumer.consumer_requests import ConsumerRequests, RetriableError
from impl.consumer.fetcher import Fetcher
from impl.consumer.membership import GroupSettings, MembershipManager
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

    @property
    def metadata(self) -> GroupMetadata:
        """Its generation and ids."""
        me = self.settings
        return GroupMetadata(me.group_id, self.generation_id, self.member_id, me.group_instance_id)

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
            try:
                await self._requests.ask_coordinator(ApiKey.LEAVE_GROUP, body)
            except (OSError, RetriableError) as error:
                _log.info("%s does not leave: %s", self.member_id, error)
        self.member_id, self.generation_id = NO_MEMBER, NO_GENERATION

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
        self._needs_rebalance = False
        self._requests.topics.update(topic for topic, _ in assigned)
        self._fetcher.assign(assigned)
        self._committed_s = asyncio.get_running_loop().time()
        self._beating = self._requests.cluster.start_task(self._beat())
        await self._call("on_partitions_assigned", set(assigned))

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


def _subscription(row: Body) -> Subscription:
    _, body = decode_record("CONSUMER_PROTOCOL_SUBSCRIPTION", row["metadata"])
    return Subscription(row["member_id"], row["group_instance_id"], frozenset(body["topics"]))


def _encode_assignment(places: Iterable[TopicPartition]) -> bytes:
    rows = [
        {"topic": row["topic"], "partitions": row["partitions"]}
        for row in topic_rows(places, name="topic")
    ]
    return encode_record("CONSUMER_PROTOCOL_ASSIGNMENT", 0, {"assigned_partitions": rows})
