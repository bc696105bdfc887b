"""What members ask of the coordinator of consumer groups, and what it decides (KIP-848)."""

from __future__ import annotations

from typing import NamedTuple

from impl.coordinator.classic_group import ClassicGroup
from impl.coordinator.consumer_group import GroupRecord
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import LEAVE_EPOCH, STATIC_LEAVE_EPOCH, TopicIdPartition


class GroupRefusal(Exception):
    """A request is refused; `error` and the text are the answer."""

    def __init__(self, error: ErrorCode, text: str | None = None) -> None:
        super().__init__(text)
        self.error = error
        self.text = text


class SubscribedTopic(NamedTuple):
    """A topic, as assignments see it."""

    topic_id: bytes
    partitions: int


class HeartbeatRequest(NamedTuple):
    """ConsumerGroupHeartbeat; None, and -1 for a time, where nothing has changed since the last."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: frozenset[TopicIdPartition] | None = None
    client_id: str = ""
    client_host: str = ""

    @property
    def leaves(self) -> bool:
        """Whether the member leaves, for good or until its next instance comes."""
        return self.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)

    @property
    def is_full(self) -> bool:
        """Whether the member says all of itself, and so wants to hear all."""
        has_subscription = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms != -1 and has_subscription and self.owned is not None


class HeartbeatAnswer(NamedTuple):
    """Answer a heartbeat; `assignment` None where it has not changed."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: frozenset[TopicIdPartition] | None = None


class TimerChange(NamedTuple):
    """A member's timer of this kind is due then, ms; None: it is cancelled."""

    kind: str
    member_id: str
    due_ms: int | None
    keeps_earlier: bool = False
    """Whether a timer that is set already stays as it is."""


class GroupDecision(NamedTuple):
    """What a coordinator wants done: append `records` as one batch, then tell it (`on_appended`).

    `refreshed_epoch`: the group epoch for which topics were looked at, None if they were not.
    `regexes` are to be resolved next. `replaces_classic`: the classic group goes first.
    `becomes_classic`: the group that takes this one's place; `rebalances`, at once.
    """

    group_id: str
    records: tuple[GroupRecord, ...] = ()
    answer: HeartbeatAnswer | None = None
    timers: tuple[TimerChange, ...] = ()
    refreshed_epoch: int | None = None
    regexes: frozenset[str] = frozenset()
    replaces_classic: bool = False
    becomes_classic: ClassicGroup | None = None
    rebalances: bool = False
