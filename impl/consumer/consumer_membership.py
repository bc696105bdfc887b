"""A consumer's membership of a consumer group (KIP-848): the broker assigns, step by step.

1. Heartbeats join, tell what has changed, and bring assignments; they are sent all the time.
2. An assignment is taken within the application's calls: positions are committed, what is to be
   given up is revoked, what is new is assigned, and only then the broker hears of it. Partitions
   that stay are read on.
3. A member that is fenced, or whose application asks for no records during
   `max_poll_interval_ms`, has lost its partitions; the next call gives them up, and it joins again.

Theory of operation: `MemberCore` decides, this module has the requests, the time and the listener.
Source: `ConsumerMembershipManager`, `ConsumerHeartbeatRequestManager` of Kafka 4.3.1.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from typing import Final

from impl.client.arguments import GroupMetadata
from impl.client.connection import Body
from impl.consumer.consumer_requests import ConsumerRequests, RetriableError
from impl.consumer.fetcher import Fetcher
from impl.consumer.member_core import MemberCore, MembershipState
from impl.consumer.membership import GroupSettings, MembershipManager
from impl.coordinator.metadata import TopicPartition as NamedPartition
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import JOIN_EPOCH, TopicIdPartition, TopicPartition
from impl.protocol.schemas import ApiKey

_log = logging.getLogger(__name__)

_ID_BYTES: Final = 16
WAITS_FOR_APPLICATION: Final = frozenset({MembershipState.RECONCILING, MembershipState.FENCED})


class ConsumerMembership(MembershipManager):
    """One member of a consumer group."""

    rejoin_errors = frozenset(
        {
            ErrorCode.STALE_MEMBER_EPOCH,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,
        }
    )

    def __init__(
        self,
        settings: GroupSettings,
        requests: ConsumerRequests,
        fetcher: Fetcher,
        commit: Callable[[], Awaitable[None]],
    ) -> None:
        """The member makes its id itself, once (KIP-1082)."""
        super().__init__(settings, requests, fetcher, commit)
        self._core = MemberCore(settings, secrets.token_urlsafe(_ID_BYTES))
        self._changed = asyncio.Event()
        self._polled_s = 0.0

    @property
    def metadata(self) -> GroupMetadata:
        """Its epoch and ids, once it has subscribed."""
        me, core = self.settings, self._core
        if core.state is MembershipState.UNSUBSCRIBED:
            return GroupMetadata(me.group_id)
        return GroupMetadata(me.group_id, core.epoch, core.member_id, me.group_instance_id)

    @property
    def fetching_identity(self) -> Body:
        """A member that has joined says who it is."""
        core = self._core
        has_joined = core.epoch > JOIN_EPOCH
        return {"member_id": core.member_id, "member_epoch": core.epoch} if has_joined else {}

    def on_refused(self, error: ErrorCode) -> None:
        """The next heartbeat finds out what the group thinks of this member."""
        self._core.fail()
        self._changed.set()

    def _resubscribe(self) -> None:
        self._core.subscribe(self.topics)
        self._changed.set()
        self.request_rebalance()

    async def _leave_group(self) -> None:
        body = self._core.leave()
        if body is not None:
            await self._say_that_it_leaves(ApiKey.CONSUMER_GROUP_HEARTBEAT, body)

    # ---- rebalances

    async def _rebalance(self) -> None:
        """One step; heartbeats go on meanwhile, and may ask for another one."""
        if self._beating is None:
            self._polled_s = self._requests.cluster.clock.time_s()
            self._beating = self._requests.cluster.start_task(self._beat())
        if self._core.is_fenced:
            await self._give_up_lost()
        elif self._core.state is MembershipState.RECONCILING:
            await self._reconcile()
        self._needs_rebalance = self._core.is_fenced
        self._changed.set()

    async def _reconcile(self) -> None:
        """Revoke, then take, then say so. A member that is fenced meanwhile stops."""
        core, fetcher = self._core, self._fetcher
        target = await self._resolve(core.target)
        places = set(map(NamedPartition._make, target.values()))
        revoked = fetcher.assigned.keys() - places
        if revoked:
            await self._commit_positions()
            if core.is_fenced:
                return
            await self._call("on_partitions_revoked", revoked)
        if core.is_fenced:
            return
        added = places - fetcher.assigned.keys()
        fetcher.reassign(places)
        _log.info("%s, epoch %d: %s", core.member_id, core.epoch, sorted(places))
        await self._call("on_partitions_assigned", added)
        core.own(target)

    async def _resolve(
        self, target: frozenset[TopicIdPartition]
    ) -> dict[TopicIdPartition, TopicPartition]:
        """Those of them whose topics have names; the others wait for the next heartbeat."""
        names = self._requests.cluster.topic_names
        if any(topic_id not in names for topic_id, _ in target):
            await self._requests.request_metadata()
        return {
            (topic_id, index): (names[topic_id], index)
            for topic_id, index in target
            if topic_id in names
        }

    async def _give_up_lost(self) -> None:
        lost = set(self._fetcher.assigned)
        if lost:
            await self._call("on_partitions_lost", lost)
        self._fetcher.assign(())
        self._core.rejoin()

    # ---- heartbeats

    async def _beat(self) -> None:
        """Send heartbeats until the member leaves, which cancels this."""
        while True:
            self._changed.clear()
            body = self._next_request(self._requests.cluster.clock.time_s())
            if body is None:
                await self._wait()
                continue
            try:
                await self._beat_once(body)
            except (RetriableError, OSError):
                self._core.fail()
                await self._requests.refresh()
            except Exception as error:
                self._core.fence()
                self._fail(error)
            if self._core.state in WAITS_FOR_APPLICATION:
                self.request_rebalance()

    def _next_request(self, now_s: float) -> Body | None:
        """The heartbeat that is due; the last one, if the application is late."""
        if self.was_polled:
            self._polled_s, self.was_polled = now_s, False
        if now_s < self._poll_due_s:
            return self._core.poll(now_s * 1_000)
        limit_ms = self.settings.max_poll_interval_ms
        _log.warning("%s leaves: no records for %d ms", self._core.member_id, limit_ms)
        body = self._core.leave()
        self._core.fence()
        return body

    async def _beat_once(self, body: Body) -> None:
        answer = await self._requests.ask_coordinator(ApiKey.CONSUMER_GROUP_HEARTBEAT, body)
        error = self._core.receive(answer, self._requests.cluster.clock.time_s() * 1_000)
        text = f" ({answer['error_message']})" if answer["error_message"] else ""
        self._requests.check(error, f"ConsumerGroupHeartbeat of {self.settings.group_id}{text}")

    async def _wait(self) -> None:
        """Until something has changed, or is due; a member that is fenced waits for its call."""
        clock, timeout_s = self._requests.cluster.clock, None
        if not self._core.is_fenced:
            due_s = min(self._core.due_ms / 1_000, self._poll_due_s)
            timeout_s = max(due_s - clock.time_s(), 0.0)
        with suppress(TimeoutError):
            async with clock.timeout(timeout_s):
                await self._changed.wait()

    @property
    def _poll_due_s(self) -> float:
        """When an application that asks for nothing has lost its partitions."""
        if self._core.is_fenced:
            return inf
        return self._polled_s + self.settings.max_poll_interval_ms / 1_000
