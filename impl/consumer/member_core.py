"""A member of a consumer group (KIP-848) without I/O: what it says, and what it is told.

Five rules:

1. All goes by heartbeats, one at a time, as often as the broker says. One says only what has
   changed since the last one that was answered; after one without an answer, the next says all.
2. What has changed is said at once. A member joins with epoch 0, and has no partitions then.
3. Each answer gives the epoch to live with; a new assignment is reconciled by the application,
   which says what it owns after that (`own`).
4. A member that is refused its epoch or its id has lost its partitions. When the application has
   given them up (`rejoin`), it joins again, under the same id.
5. A member that leaves says -1; a static one says -2, and its next instance takes its place.

Theory of operation: `poll` gives the request to send now, `receive` takes its answer, or `fail`
that there was none. Source: `AbstractMembershipManager`, `ConsumerMembershipManager`,
`ConsumerHeartbeatRequestManager` of Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

from impl.client.connection import Body
from impl.consumer.membership import GroupSettings
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    TopicIdPartition,
    place_rows,
)

FENCING_ERRORS: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


class MembershipState(Enum):
    """Kafka's `MemberState`; what waits for the application is RECONCILING or FENCED."""

    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    RECONCILING = "reconciling"
    STABLE = "stable"
    FENCED = "fenced"


_SILENT: Final = frozenset({MembershipState.UNSUBSCRIBED, MembershipState.FENCED})


class MemberCore:
    """One member. Read-only: `member_id`, `epoch`, `state`, `owned`, `target`, `due_ms`.

    `target` is what it is to own; `due_ms`, when the next heartbeat is due. Times are ms of any
    clock that only goes forward.
    """

    def __init__(self, settings: GroupSettings, member_id: str) -> None:
        self._settings = settings
        self._topics: frozenset[str] = frozenset()
        self._told: Body = {}
        self._asked: Body = {}
        self.member_id = member_id
        self.epoch = JOIN_EPOCH
        self.state = MembershipState.UNSUBSCRIBED
        self.owned: frozenset[TopicIdPartition] = frozenset()
        self.target: frozenset[TopicIdPartition] = frozenset()
        self.due_ms = 0.0

    # ---- what the application does

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read these topics; join, if it is no member."""
        self._topics = frozenset(topics)
        if self.state is MembershipState.UNSUBSCRIBED:
            self._join()

    def own(self, places: Iterable[TopicIdPartition]) -> None:
        """The application has exactly these now; of no effect once they are lost."""
        if self.state in _SILENT:
            return
        self.owned = frozenset(places)
        self.state = (
            MembershipState.STABLE if self.owned == self.target else MembershipState.RECONCILING
        )

    @property
    def is_fenced(self) -> bool:
        """Whether what it owned is lost, and not yet given up."""
        return self.state is MembershipState.FENCED

    def fence(self) -> None:
        """What it owned is lost."""
        self.state, self.epoch = MembershipState.FENCED, JOIN_EPOCH

    def rejoin(self) -> None:
        """What was lost is given up: join."""
        self._join()

    def leave(self) -> Body | None:
        """Be no member; the request that says so, None if the group does not know it anyway."""
        is_known = self.state not in _SILENT
        self.state, self.epoch = MembershipState.UNSUBSCRIBED, JOIN_EPOCH
        is_static = self._settings.group_instance_id is not None
        epoch = STATIC_LEAVE_EPOCH if is_static else LEAVE_EPOCH
        return {**self._identity(), "member_epoch": epoch} if is_known else None

    def _join(self) -> None:
        self.state, self.epoch = MembershipState.JOINING, JOIN_EPOCH
        self.owned = self.target = frozenset()
        self._told = {}

    # ---- heartbeats

    def poll(self, now_ms: float) -> Body | None:
        """The heartbeat to send now, None if there is none to send."""
        if self.state in _SILENT:
            return None
        news = {name: value for name, value in self._says().items() if self._is_new(name, value)}
        if not news and now_ms < self.due_ms:
            return None
        self._asked = news
        return {**self._identity(), "member_epoch": self.epoch, **news}

    def receive(self, answer: Body, now_ms: float) -> ErrorCode:
        """Take an answer; its error, if that is the caller's to handle: nothing has changed then.

        Answers that come after the member has left or was fenced are ignored.
        """
        if self.state in _SILENT:
            return ErrorCode.NONE
        error = ErrorCode.of(answer["error_code"])
        if error in FENCING_ERRORS:
            self.fence()
            return ErrorCode.NONE
        if error:
            self.fail()
            return error
        self._told = {**self._told, **self._asked}
        self.epoch = answer["member_epoch"]
        self.due_ms = now_ms + answer["heartbeat_interval_ms"]
        if answer["assignment"] is not None:
            rows = answer["assignment"]["topic_partitions"]
            self.target = frozenset(
                (r["topic_id"], index) for r in rows for index in r["partitions"]
            )
        if self.state is MembershipState.JOINING or self.target != self.owned:
            self.state = MembershipState.RECONCILING
        return ErrorCode.NONE

    def fail(self) -> None:
        """Nobody knows whether the last heartbeat was heard."""
        self._told = {}

    def _identity(self) -> Body:
        return {
            "group_id": self._settings.group_id,
            "member_id": self.member_id,
            "instance_id": self._settings.group_instance_id,
        }

    def _says(self) -> Body:
        """All that a heartbeat can say."""
        return {
            "rebalance_timeout_ms": self._settings.max_poll_interval_ms,
            "subscribed_topic_names": sorted(self._topics),
            "server_assignor": self._settings.remote_assignor,
            "topic_partitions": place_rows(self.owned),
        }

    def _is_new(self, name: str, value: Any) -> bool:
        return name not in self._told or self._told[name] != value
