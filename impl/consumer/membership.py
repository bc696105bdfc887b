"""What a member of a group does whatever its protocol is: listen, rebalance, commit, leave.

1. A rebalance happens within the application's calls for records: no partition is given to another
   member while the application still processes records that it got from here.
2. Heartbeats are sent beside that. They only note that there is something to do (`has_work`); the
   next call for records does it.
3. Positions are committed within those calls, too: what was returned before is processed by then.

4. Who subscribes to a pattern reads the topics that match it in the last metadata.

Theory of operation: `ClassicMembership` and `ConsumerMembership` know the protocols;
`TopicMembership` is for a consumer without a group.
Source: `AbstractCoordinator`, `AbstractMembershipManager`, `ConsumerCoordinator` of Kafka 4.3.1.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from re import Pattern
from typing import Any, Final, NamedTuple

from impl.client.arguments import GroupMetadata, check_choice, check_integer, check_text
from impl.client.connection import Body
from impl.client.errors import CommitFailedError, IllegalStateError, InvalidArgumentError
from impl.consumer.assignors import DEFAULT_ASSIGNORS, PartitionAssignor
from impl.consumer.consumer_requests import ConsumerRequests, RetriableError
from impl.consumer.errors import RefusedError
from impl.consumer.fetcher import Fetcher
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import TopicPartition
from impl.protocol.schemas import ApiKey

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

        Only a member that keeps partitions in a rebalance is told: of `group_protocol="consumer"`,
        or one whose assignors are cooperative.
        """
        return self.on_partitions_revoked(lost)


LEAVE_ATTEMPTS: Final = 3
LISTENER_METHODS: Final = ("on_partitions_revoked", "on_partitions_assigned", "on_partitions_lost")
"""A listener has one of them at least."""


class GroupSettings(NamedTuple):
    """Times in ms. `assignors` have the preferred first; `remote_assignor` is the broker's.

    Without `rebalance_timeout_ms` members may take `max_poll_interval_ms` to join again.
    """

    group_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    assignors: tuple[PartitionAssignor, ...] = DEFAULT_ASSIGNORS
    auto_commit_interval_ms: int | None = None
    protocol: str = CLASSIC
    remote_assignor: str | None = None
    rebalance_timeout_ms: int | None = None
    exclude_internal_topics: bool = True

    def check(self) -> None:
        """Raises `InvalidArgumentError`."""
        check_text("group_id", self.group_id)
        if self.group_instance_id is not None:
            check_text("group_instance_id", self.group_instance_id)
        check_choice("group_protocol", self.protocol, PROTOCOLS)
        self._check_protocol()
        check_integer("session_timeout_ms", self.session_timeout_ms, least=1)
        most = self.session_timeout_ms
        check_integer("heartbeat_interval_ms", self.heartbeat_interval_ms, least=1, greatest=most)
        check_integer("max_poll_interval_ms", self.max_poll_interval_ms, least=1)
        if self.auto_commit_interval_ms is not None:
            check_integer("auto_commit_interval_ms", self.auto_commit_interval_ms)
        if self.rebalance_timeout_ms is not None:
            check_integer("rebalance_timeout_ms", self.rebalance_timeout_ms, least=1)
        if self.remote_assignor is not None:
            check_text("group_remote_assignor", self.remote_assignor)

    @property
    def join_timeout_ms(self) -> int:
        """How long the group waits for a member to join again."""
        given_ms = self.rebalance_timeout_ms
        return self.max_poll_interval_ms if given_ms is None else given_ms

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
    "rebalance_timeout_ms": (CLASSIC, "rebalance_timeout_ms"),
    "remote_assignor": (CONSUMER, "group_remote_assignor"),
}
"""Fields that one protocol has, and what they are called as arguments."""


class MembershipManager(ABC):
    """One member. Public state: `was_polled`, which the consumer sets whenever it is called.

    Read-only: `topics` of its subscription; `has_work`, whether `work` has anything to do;
    `rebalances`, how many there were.
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
        self._pattern: Pattern[str] | None = None
        self._rebalancing: asyncio.Task[None] | None = None
        self._beating: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._assigned_next: list[TopicPartition] | None = None
        self._failure: Exception | None = None
        self._needs_rebalance = False
        self._is_commit_due = False
        self._watched: dict[str, int | None] = {}
        self.topics: frozenset[str] = frozenset()
        self.has_work = False
        self.was_polled = False
        self.rebalances = 0
        requests.on_metadata = self._on_metadata

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

    def start(self) -> None:
        """Commit positions from time to time, if the consumer does that by itself."""
        if self.settings.auto_commit_interval_ms is not None:
            self._requests.cluster.start_task(
                self._time_commits(max(self.settings.auto_commit_interval_ms, 1))
            )

    @property
    def is_subscribed(self) -> bool:
        """Whether it reads topics, or waits for some that match its pattern."""
        return bool(self.topics) or self._pattern is not None

    def subscribe(self, topics: Iterable[str], pattern: Pattern[str] | None, listener: Any) -> None:
        """Read these topics instead of those before, or those whose names match the pattern.

        A call for records rebalances. Raises `InvalidArgumentError` for a listener without any of
        the methods.
        """
        if listener is not None and not any(hasattr(listener, name) for name in LISTENER_METHODS):
            may_be = f"must have one of {', '.join(LISTENER_METHODS)}"
            raise InvalidArgumentError("listener", may_be, listener)
        self._pattern = pattern
        self._requests.reads_any_topic = pattern is not None
        if listener is not None:
            self._listener = listener
        self._read(self._matching() if pattern is not None else topics)

    def assign(self, places: Sequence[TopicPartition]) -> None:
        """Read these partitions, once those of the subscription that ends are given up."""
        self._requests.topics.update(topic for topic, _ in places)
        if self._is_leaving:
            self._assigned_next = list(places)
        else:
            self._fetcher.assign(places)

    @property
    def is_assigned_by_hand(self) -> bool:
        """Whether it reads the partitions of `assign`."""
        if self._is_leaving:
            return bool(self._assigned_next)
        return bool(self._fetcher.assigned) and not self.is_subscribed

    @property
    def reads_anything(self) -> bool:
        """Whether it has a subscription or partitions, or is about to give some up."""
        return bool(self.is_subscribed or self._fetcher.assigned or self._assigned_next)

    @property
    def _is_leaving(self) -> bool:
        return self._leaving is not None and not self._leaving.done()

    def _read(self, topics: Iterable[str]) -> None:
        self.topics = frozenset(topics)
        self._requests.topics.update(self.topics)
        if self._leaving is None:
            self._resubscribe()

    def _matching(self) -> frozenset[str]:
        """The topics that the pattern matches, from their beginning."""
        cluster, pattern = self._requests.cluster, self._pattern
        excluded = cluster.internal_topics if self.settings.exclude_internal_topics else ()
        assert pattern is not None
        return frozenset(
            name for name in cluster.partitions if pattern.match(name) and name not in excluded
        )

    def _watch(self, topics: Iterable[str]) -> None:
        """Rebalance when one of these has other partitions than now."""
        counts = self._requests.cluster.partitions
        self._watched = {topic: counts.get(topic) for topic in topics}

    def _on_metadata(self) -> None:
        """There is new metadata."""
        if self._pattern is not None and self._matching() != self.topics:
            self._read(self._matching())
        counts = self._requests.cluster.partitions
        if any(counts.get(topic) != count for topic, count in self._watched.items()):
            self._watched = {}
            self.request_rebalance()

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

        Raises `RefusedError`, what the listener raises, and `IllegalStateError` within it.
        """
        if asyncio.current_task() in (self._rebalancing, self._leaving):
            raise IllegalStateError("a rebalance listener cannot read records: wait for its end")
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._leaving is not None:
            await self._requests.cluster.clock.wait([self._leaving], timeout_s)
            if self._leaving.done():
                self._leaving = None
                if self.is_subscribed:
                    self._resubscribe()
            return
        if self._needs_rebalance and self._rebalancing is None:
            self._rebalancing = self._requests.cluster.start_task(self._rebalance())
        if self._rebalancing is not None:
            await self._requests.cluster.clock.wait([self._rebalancing], timeout_s)
            if self._rebalancing.done():
                ended, self._rebalancing = self._rebalancing, None
                self.rebalances += 1
                if not ended.cancelled() and ended.exception() is not None:
                    self._needs_rebalance = True
                self.has_work = self._needs_rebalance or self._is_commit_due
                if not ended.cancelled():  # else the consumer stops
                    ended.result()
            return
        self.has_work = False
        if self._is_commit_due:
            await self._commit_positions()

    def leave(self) -> asyncio.Task[None]:
        """Commit, give up all partitions, and leave; nothing is subscribed to from now on.

        The task does it: it need not be waited for.
        """
        if self._rebalancing is not None:
            self._rebalancing.cancel()
            self._requests.cluster.hang_up()
        self.topics, self._pattern, self._watched = frozenset(), None, {}
        self._requests.reads_any_topic = self._needs_rebalance = False
        self.has_work = True
        self._leaving = self._requests.cluster.start_task(self._leave(self._leaving))
        return self._leaving

    async def _leave(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        try:
            await self._give_up()
        except Exception:  # of the listener
            await self._end_membership()
            raise
        await self._end_membership()

    async def _end_membership(self) -> None:
        await self._leave_group()
        chosen, self._assigned_next = self._assigned_next, None
        if chosen is not None:
            self._fetcher.assign(chosen)

    async def _say_that_it_leaves(self, api_key: ApiKey, body: Body) -> None:
        """Until the coordinator has answered: else the group waits for the session's end."""
        for attempts_left in reversed(range(LEAVE_ATTEMPTS)):
            try:
                answer = await self._requests.ask_coordinator(api_key, body)
                self._requests.check(answer["error_code"], api_key.name)
            except (OSError, RetriableError) as error:
                if attempts_left:
                    await self._requests.refresh()
                    continue
                _log.warning("%s does not leave: %s", body["member_id"], error)
            except RefusedError as error:
                _log.info("%s does not leave: %s", body["member_id"], error)
            return

    # ---- partitions

    async def _give_up(self) -> None:
        """Stop the heartbeats, commit, and give up all partitions."""
        self._stop_heartbeats()
        revoked = set(self._fetcher.assigned)
        if revoked:
            try:
                await self._commit_positions()
                await self._call("on_partitions_revoked", revoked)
            finally:
                self._fetcher.reassign(self._fetcher.assigned.keys() - revoked)

    def _stop_heartbeats(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
            self._beating = None

    async def _call(self, method: str, places: AbstractSet[TopicPartition]) -> None:
        """Tell the listener, which need not have all methods of a `ConsumerRebalanceListener`."""
        names = (method, "on_partitions_revoked") if method == "on_partitions_lost" else (method,)
        heard = next((name for name in names if hasattr(self._listener, name)), None)
        if heard is not None:
            found = getattr(self._listener, heard)(set(places))
            if inspect.isawaitable(found):
                await found

    def _fail(self, error: Exception) -> None:
        """Let the next call for records raise this."""
        self._failure, self.has_work = error, True
        self._fetcher.wake()

    # ---- commits

    async def _time_commits(self, interval_ms: int) -> None:
        while True:
            await self._requests.cluster.clock.sleep(interval_ms / 1_000)
            if self._fetcher.assigned:
                self._is_commit_due = self.has_work = True
                self._fetcher.wake()

    async def _commit_positions(self) -> None:
        """Commit, if the consumer does that by itself; a failure is logged, as by Kafka's."""
        self._is_commit_due = False
        if self.settings.auto_commit_interval_ms is None:
            return
        try:
            await self._commit()
        except Exception as error:
            _log.warning("positions are not committed: %s", error)
