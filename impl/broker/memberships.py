"""The members of groups at one node: the effects of their coordinator are carried out.

Theory of operation: a request waits under a number for the effect that answers it; the records of
groups are appended where their offsets are. Who leads a partition of `__consumer_offsets`
coordinates its groups, and loads them from it.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections import deque
from collections.abc import Callable, Iterable
from hashlib import blake2b
from itertools import count
from typing import Final
from uuid import UUID

from impl.broker.services import NodeServices
from impl.coordinator.classic_group import ClassicGroup
from impl.coordinator.group_messages import AppendGroup, GroupEffect, JoinAnswer, SyncAnswer
from impl.coordinator.group_records import encode_group_key
from impl.coordinator.groups import GroupCoordinator
from impl.coordinator.offsets import APPEND_ERRORS, OffsetsCoordinator, encode_commit
from impl.coordinator.offsets_state import GroupOffsets
from impl.coordinator.placement import OFFSETS_TOPIC
from impl.partition.leader import PartitionLeader
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import Record

GroupAnswer = JoinAnswer | SyncAnswer
AppendOffsets = Callable[[PartitionLeader, int, bytes, int], ErrorCode]
"""Appends a batch to a partition of `__consumer_offsets`: leader, partition, batch, time."""

_ID_BYTES: Final = 16


class Memberships:
    """Read-only: `groups`, the coordinator."""

    __slots__ = ("_append", "_callbacks", "_node", "_numbers", "_offsets", "groups")

    def __init__(
        self, node: NodeServices, offsets: OffsetsCoordinator, append: AppendOffsets
    ) -> None:
        self._node = node
        self._offsets = offsets
        self._append = append
        self._numbers = count(1)
        self._callbacks: dict[int, Callable[[GroupAnswer], None]] = {}
        self.groups = GroupCoordinator(offsets.members, self.new_member_id, node.config.groups)

    def find(self, group_id: str) -> ClassicGroup | None:
        """The group; one that only commits offsets is empty. None if there is none here."""
        offsets = self._offsets.find(group_id, may_be_empty=True)
        known = self.groups.groups.get(group_id)
        if known is not None or not isinstance(offsets, GroupOffsets):
            return known
        is_simple = group_id in offsets.groups - offsets.consumer_groups.keys()
        return ClassicGroup(group_id) if is_simple else None

    def new_member_id(self, prefix: str, now_ms: int) -> str:
        """An id from a client id or instance id, in the form of Kafka's.

        Unique even for a node that begins anew: members of the last one still send heartbeats.
        """
        return f"{prefix}-{UUID(bytes=self._new_id(now_ms))}"

    def new_consumer_id(self, now_ms: int) -> str:
        """An id for a member of a consumer group, which is Kafka's text of a UUID."""
        return urlsafe_b64encode(self._new_id(now_ms)).decode().rstrip("=")

    def _new_id(self, now_ms: int) -> bytes:
        node = self._node
        text = f"{node.cluster.cluster_id}/{node.config.node_id}/{now_ms}/{next(self._numbers)}"
        return blake2b(text.encode(), digest_size=_ID_BYTES).digest()

    def await_answer(self, callback: Callable[[GroupAnswer], None]) -> int:
        """A number for a request to `groups`; its answer goes to `callback`."""
        number = next(self._numbers)
        self._callbacks[number] = callback
        return number

    def perform(self, effects: Iterable[GroupEffect], now_ms: int) -> None:
        """Carry out effects, and those that follow from them."""
        todo = deque(effects)
        while todo:
            effect = todo.popleft()
            if isinstance(effect, AppendGroup):
                error = self._append_group(effect, now_ms)
                todo.extend(self.groups.on_appended(effect.group_id, error, now_ms))
            else:
                assert isinstance(effect.request, int)
                self._callbacks.pop(effect.request)(effect)

    def _append_group(self, effect: AppendGroup, now_ms: int) -> ErrorCode:
        record = Record(0, now_ms, encode_group_key(effect.group_id), effect.value)
        partition = self._offsets.partition_of(effect.group_id)
        error = self.append(partition, encode_commit([record], now_ms), now_ms)
        return APPEND_ERRORS.get(error, error)

    def append(self, partition: int, batch: bytes, now_ms: int) -> ErrorCode:
        """Append a batch about groups, or the error of the log."""
        leader = self._node.leader(self._node.topics.get(OFFSETS_TOPIC), partition)
        if isinstance(leader, ErrorCode):
            return leader
        return self._append(leader, partition, batch, now_ms)

    # ---- time and leadership

    def remove_expired(self, now_ms: int) -> None:
        """Remove offsets that have expired, and groups that have nothing left.

        What cannot be stored now is tried again at the next check.
        """
        for tombstones, group_id in self._offsets.forget_expired(self.groups.groups, now_ms=now_ms):
            error = self.append(*tombstones, now_ms)
            if group_id is not None and not error:
                self.groups.remove(group_id)

    def advance(self, now_ms: int) -> None:
        """End rebalances and sessions that are due."""
        self.perform(self.groups.advance(now_ms), now_ms)

    def skip_delays(self, now_ms: int) -> None:
        """Let time pass until a waiting member is answered, if there is one."""
        answered = len(self._callbacks)
        while answered and len(self._callbacks) == answered:
            due_ms = self.groups.timers.next_due_ms
            assert due_ms is not None, "a member waits for a timer"
            self.advance(max(now_ms, due_ms))

    def load(self, partition: int, now_ms: int) -> None:
        """Load the groups of a partition whose offsets are loaded."""
        offsets = self._offsets.partitions[partition]
        assert offsets is not None, "its offsets are loaded first"
        self.groups.load(offsets.stored_groups, now_ms)

    def resign(self, partition: int, now_ms: int) -> None:
        """Another node coordinates the groups of this partition."""
        lost = [g for g in self.groups.groups if self._offsets.partition_of(g) == partition]
        self.perform(self.groups.resign(lost), now_ms)
