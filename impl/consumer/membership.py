"""What a member of a group does whatever its protocol is: listen, rebalance, commit, leave.

1. A rebalance happens within the application's calls for records: no partition is given to another
   member while the application still processes records that it got from here.
2. Heartbeats are sent beside that. They only note that there is something to do (`has_work`); the
   next call for records does it.
3. Positions are committed within those calls, too: what was returned before is processed by then.

Theory of operation: `ClassicMembership` and `ConsumerMembership` know the protocols.
Source: `AbstractCoordinator`, `AbstractMembershipManager`, `ConsumerCoordinator` of Kafka 4.3.1.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from math import inf
from typing import Any, Final, NamedTuple

from impl.client.arguments import GroupMetadata, check_choice, check_integer, check_text
from impl.client.connection import Body
from impl.client.errors import InvalidArgumentError
from impl.consumer.assignors import ASSIGNORS
from impl.consumer.consumer_requests import ConsumerRequests, RetriableError
from impl.consumer.errors import CommitFailedError
from impl.consumer.fetcher import Fetcher
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import TopicPartition

_log = logging.getLogger(__name__)

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
PROTOCOLS: Final = (CLASSIC, CONSUMER)


class ConsumerRebalanceListener:
    """What an application wants to know of a rebalance; all methods may be coroutines."""

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> Any:
        """These are given up; called after the last record of them was processed."""

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> Any:
        """These were assigned; called before the first record of them."""

    def on_partitions_lost(self, lost: set[TopicPartition]) -> Any:
        """The group has given these to others already; by default as if they were revoked.

        Only a member of `group_protocol="consumer"` is told.
        """
        return self.on_partitions_revoked(lost)


class GroupSettings(NamedTuple):
    """Times in ms. `assignors` are names, the preferred first; `remote_assignor` the broker's."""

    group_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    assignors: tuple[str, ...] = ("range", "roundrobin")
    auto_commit_interval_ms: int | None = None
    protocol: str = CLASSIC
    remote_assignor: str | None = None

    def check(self) -> None:
        """Raises `InvalidArgumentError`."""
        check_text("group_id", self.group_id)
        if self.group_instance_id is not None:
            check_text("group_instance_id", self.group_instance_id)
        check_integer("session_timeout_ms", self.session_timeout_ms, least=1)
        most = self.session_timeout_ms
        check_integer("heartbeat_interval_ms", self.heartbeat_interval_ms, least=1, greatest=most)
        check_integer("max_poll_interval_ms", self.max_poll_interval_ms, least=1)
        if self.auto_commit_interval_ms is not None:
            check_integer("auto_commit_interval_ms", self.auto_commit_interval_ms)
        for name in self.assignors or (None,):
            check_choice("partition_assignment_strategy", name, ASSIGNORS)
        if self.remote_assignor is not None:
            check_text("group_remote_assignor", self.remote_assignor)
        check_choice("group_protocol", self.protocol, PROTOCOLS)
        self._check_protocol()

    def _check_protocol(self) -> None:
        """A setting of the other protocol would have no effect. `ConsumerConfig`."""
        defaults = self._field_defaults
        for field, (protocol, argument) in _OF_ONE_PROTOCOL.items():
            value = getattr(self, field)
            if protocol != self.protocol and value != defaults[field]:
                may_be = f"cannot be set with group_protocol={self.protocol!r}"
                raise InvalidArgumentError(argument, may_be, value)


_OF_ONE_PROTOCOL: Final = {
    "session_timeout_ms": (CLASSIC, "session_timeout_ms"),
    "heartbeat_interval_ms": (CLASSIC, "heartbeat_interval_ms"),
    "assignors": (CLASSIC, "partition_assignment_strategy"),
    "remote_assignor": (CONSUMER, "group_remote_assignor"),
}
"""Fields that one protocol has, and what they are called as arguments."""


class MembershipManager(ABC):
    """One member. Public state: `was_polled`, which the consumer sets whenever it is called.

    Read-only: `topics` of its subscription; `has_work`, whether `work` has anything to do.
    """

    rejoin_errors: frozenset[ErrorCode]
    """Errors of OffsetCommit that say that the group has gone on without this member."""

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
        self._rebalancing: asyncio.Task[None] | None = None
        self._beating: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self._needs_rebalance = False
        self._committed_s = 0.0
        self.topics: frozenset[str] = frozenset()
        self.has_work = False
        self.was_polled = False

    # ---- what differs

    @property
    @abstractmethod
    def metadata(self) -> GroupMetadata:
        """Its generation or epoch, and its ids."""

    @property
    @abstractmethod
    def fetching_identity(self) -> Body:
        """The fields by which OffsetFetch is held to the member, if it is."""

    @abstractmethod
    def _resubscribe(self) -> None:
        """`topics` are others."""

    @abstractmethod
    async def _rebalance(self) -> None:
        """Do what the group wants; `_needs_rebalance` if there is more. Raises `RefusedError`."""

    @abstractmethod
    async def _leave_group(self) -> None:
        """Tell the coordinator; all partitions are given up."""

    @abstractmethod
    def on_refused(self, error: ErrorCode) -> None:
        """A request about offsets was refused with one of `rejoin_errors`."""

    @property
    def identity(self) -> Body:
        """The fields by which OffsetCommit is held to member and generation."""
        me = self.metadata
        return {
            "member_id": me.member_id,
            "generation_id_or_member_epoch": me.generation_id,
            "group_instance_id": me.group_instance_id,
        }

    # ---- what the application does

    def subscribe(self, topics: Iterable[str], listener: Any) -> None:
        """Read these topics instead of those before; a call for records rebalances."""
        self.topics = frozenset(topics)
        if listener is not None:
            self._listener = listener
        self._requests.topics.update(self.topics)
        self._resubscribe()

    def request_rebalance(self) -> None:
        """Let the next call for records do what the group wants."""
        self._needs_rebalance = self.has_work = True
        self._fetcher.wake()

    def check_commit(self, code: int, asked: Body) -> None:
        """Raise `CommitFailedError` for an error that says that the group has gone on.

        `asked` is the `identity` of the request. Raises `RetriableError` if the member has another
        epoch by now.
        """
        error = ErrorCode.of(code)
        if error is ErrorCode.STALE_MEMBER_EPOCH and asked != self.identity:
            raise RetriableError(error.name)
        if error in self.rejoin_errors:
            self.on_refused(error)
            raise CommitFailedError(f"OffsetCommit of {self.settings.group_id}: {error.name}")

    async def work(self, timeout_s: float) -> None:
        """Rebalance if that is due, and commit; at most for this long.

        Raises `RefusedError`, and what the listener raises.
        """
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._needs_rebalance and self._rebalancing is None:
            self._rebalancing = self._requests.cluster.start_task(self._rebalance())
        if self._rebalancing is not None:
            await asyncio.wait([self._rebalancing], timeout=timeout_s)
            if self._rebalancing.done():
                ended, self._rebalancing = self._rebalancing, None
                self.has_work = self._needs_rebalance
                if not ended.cancelled():  # else the consumer stops
                    ended.result()
            return
        self.has_work = False
        await self._commit_positions()

    async def leave(self) -> None:
        """Commit, give up all partitions, and leave."""
        if not self.topics:
            return
        if self._rebalancing is not None:
            self._rebalancing.cancel()
        await self._give_up()
        await self._leave_group()
        self.topics, self._needs_rebalance, self.has_work = frozenset(), False, False

    # ---- partitions

    async def _give_up(self) -> None:
        """Stop the heartbeats, commit, and give up all partitions."""
        if self._beating is not None:
            self._beating.cancel()
            self._beating = None
        revoked = set(self._fetcher.assigned)
        if revoked:
            await self._commit_positions()
            await self._call("on_partitions_revoked", revoked)
            self._fetcher.assign(())

    async def _call(self, method: str, places: set[TopicPartition]) -> None:
        """Tell the listener, which need not be a `ConsumerRebalanceListener`."""
        default = self._listener.on_partitions_revoked
        found = getattr(self._listener, method, default)(places)
        if inspect.isawaitable(found):
            await found

    def _fail(self, error: Exception) -> None:
        """Let the next call for records raise this."""
        self._failure, self.has_work = error, True
        self._fetcher.wake()

    # ---- commits

    @property
    def _commit_due_s(self) -> float:
        """When positions are to be committed again; never, if the application does it."""
        interval_ms = self.settings.auto_commit_interval_ms
        return inf if interval_ms is None else self._committed_s + interval_ms / 1_000

    def _note_commit(self, now_s: float) -> None:
        if now_s >= self._commit_due_s:
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
