"""Many traces at a time over a few connections of one broker.

1. A trace's requests go over one connection, each once the one before was answered: a leader hears
   them in the model's order. Which connection of the model's they belong to no leader asks.
2. In a round each trace sends its next request; then all answers are read. A request is on its
   way for every trace, so the broker is not waited for.
3. A connection that breaks, or an answer that does not come in time, is not yet a finding: traces
   wait behind each other there. Those that had no answer are run again, alone, with new producer
   ids and partitions; what is silent then is a finding.
4. A broker that then does not answer ApiVersions either has stopped: `BackendFailed`.
5. What is done to brokers (`nodes`) happens to all traces that are on their way. So traces
   that want the same deeds in the same order are on their way together, and each deed waits until
   every one of them waits for it: a hundred traces share one restart.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from conformance.backends import BackendFailed
from conformance.kafka.admin import Supported, api_versions, describe_producers
from conformance.kafka.connection import ANSWER_TIMEOUT_MS, BrokerConnection
from conformance.kafka.errors import AnswerTimeout, ConnectionLost, KafkaError, WireError
from conformance.systems.brokers.idempotent.wire_messages import (
    NEWEST_PRODUCE,
    OLDEST_PRODUCE,
    TELLS_LOG_START,
    Binding,
    Misaddressed,
    topic_configs,
)
from conformance.systems.brokers.idempotent.judged_brokers import JudgedBrokers
from conformance.systems.brokers.idempotent.observer import Observer
from conformance.systems.brokers.idempotent.deliveries import LeaderScript
from conformance.systems.brokers.idempotent.bookings import BookingPool, TopicForm
from conformance.systems.brokers.idempotent.leader_session import (
    Ask,
    Asking,
    BrokerFault,
    Delete,
    Describe,
    Produce,
    Silent,
    TraceOutcome,
    trial,
)
from impl import ApiKey, DecodeError

CONNECTIONS: Final = 4
IN_FLIGHT: Final = 25
"""Traces at a time on each connection."""
SHARE_A_DEED: Final = 400
"""Traces that are on their way together when something is done to brokers."""

Ended = tuple[int, TraceOutcome]
"""A trace's number, and how it ended."""
Heard = Callable[[int, Any, Any], None]
"""Told of each answered Produce request: a trace's number, the request, the answer's body."""

NO_ANSWER: Final[Mapping[type[Exception], str]] = {
    AnswerTimeout: "no answer in time",
    ConnectionLost: "the connection was closed",
    Misaddressed: "an answer for another partition",
    DecodeError: "an answer that cannot be read",
}
FAILURES: Final = (WireError, DecodeError, Misaddressed)
"""What ends a connection."""


def reason_of(error: Exception) -> str:
    """Why there is no answer, in words that do not differ from run to run."""
    return next(
        (text for kind, text in NO_ANSWER.items() if isinstance(error, kind)),
        "an answer that nobody asked for",
    )


@dataclass(frozen=True, slots=True)
class Broker:
    """Where a broker listens, and what it supports of what is asked here; who does what to it."""

    nodes: JudgedBrokers
    supported: Supported
    timeout_ms: int = ANSWER_TIMEOUT_MS

    @property
    def describes(self) -> bool:
        """It tells of its producers."""
        return ApiKey.DESCRIBE_PRODUCERS in self.supported.versions

    @property
    def produce_version(self) -> int:
        """The newest that both know; below OLDEST_PRODUCE none."""
        oldest, newest = self.supported.versions.get(ApiKey.PRODUCE, (0, -1))
        version = min(newest, NEWEST_PRODUCE)
        return version if version >= max(oldest, OLDEST_PRODUCE) else -1

    @property
    def tells_log_start(self) -> bool:
        """Its answers to Produce have it."""
        return self.produce_version >= TELLS_LOG_START

    def connect(self) -> BrokerConnection:
        """One more connection, to whoever leads. Raises ConnectionLost."""
        return BrokerConnection(*self.nodes.address, timeout_ms=self.timeout_ms)


class LeaderSession:
    """A trace on its way: what it asks next."""

    __slots__ = ("ask", "asking", "binding", "number", "outcome", "script")

    def __init__(self, number: int, script: LeaderScript, binding: Binding, asking: Asking) -> None:
        self.number = number
        self.script = script
        self.binding = binding
        self.asking = asking
        self.ask: Ask | None = None
        self.outcome: TraceOutcome | None = None
        self.answered(None)

    @property
    def rests(self) -> bool:
        """It asks nothing over a connection."""
        return self.ask is None or isinstance(self.ask, BrokerFault)

    def answered(self, answer: Any) -> None:
        """Go on with an answer, until the next question or the end."""
        try:
            self.ask = self.asking.send(answer)
        except StopIteration as ended:
            self.ask, self.outcome = None, ended.value


class SharedConnection:
    """A connection and the traces on it."""

    def __init__(self, broker: Broker, heard: Heard | None) -> None:
        self._broker = broker
        self._heard = heard
        self._connection = broker.connect()
        self.lanes: list[LeaderSession] = []

    def send(self) -> None:
        """Each trace's next request goes out."""
        for lane in self.lanes:
            if isinstance(lane.ask, Produce):
                request = lane.binding.request(lane.ask)
            elif isinstance(lane.ask, Delete):
                request = lane.binding.deletion(lane.ask)
            else:
                continue
            self._connection.send(request.api_key, request.api_version, request.body)

    def receive(self) -> None:
        """All answers, each to its trace; then what the broker tells of producers."""
        describing = [lane for lane in self.lanes if isinstance(lane.ask, Describe)]
        for lane in self.lanes:
            if isinstance(lane.ask, Produce):
                answer = self._connection.receive()
                read = lane.binding.answer(lane.ask, answer.body)
                if self._heard is not None:
                    self._heard(lane.number, answer.request, answer.body)
                lane.answered(read)
            elif isinstance(lane.ask, Delete):
                lane.answered(lane.binding.deleted(lane.ask, self._connection.receive().body))
        if describing:
            self._describe(describing)

    def left(self) -> list[LeaderSession]:
        """The traces that have ended, or wait for a deed; they leave the line."""
        gone = [lane for lane in self.lanes if lane.rests]
        self.lanes = [lane for lane in self.lanes if not lane.rests]
        return gone

    def close(self) -> None:
        """Close the connection."""
        self._connection.abort()

    def _describe(self, lanes: list[LeaderSession]) -> None:
        asked = [(lane, lane.ask.partition) for lane in lanes if isinstance(lane.ask, Describe)]
        slots = [lane.binding.booking.slots[partition] for lane, partition in asked]
        told = describe_producers(self._connection, [(s.topic, s.partition) for s in slots])
        for lane, partition in asked:
            lane.answered(lane.binding.described(partition, told))


class BrokerHarness:
    """Runs scripts against one broker. `heard` is told of every answered batch.

    `traces` is how many will come, as far as that is known. Raises BackendFailed.
    """

    def __init__(
        self, observer: Observer, broker: Broker, traces: int, heard: Heard | None = None
    ) -> None:
        self._observer = observer
        self._broker = broker
        self._heard = heard
        self._lines: list[SharedConnection] = []
        self._ready: deque[LeaderSession] = deque()
        self._waiting: list[LeaderSession] = []
        self._alone: list[LeaderSession] = []
        form = TopicForm(broker.nodes.replicas, topic_configs(observer.k))
        try:
            self._supply = BookingPool(broker.connect(), traces, CONNECTIONS * IN_FLIGHT, form)
        except WireError as error:
            raise BackendFailed(str(error)) from error

    def run(self, scripts: Iterable[tuple[int, LeaderScript]]) -> Iterator[Ended | None]:
        """How each ended, in any order; None after each round. Raises BackendFailed."""
        later: dict[tuple[str, ...], list[tuple[int, LeaderScript]]] = {}
        try:
            yield from self._play(undisturbed(scripts, later))
            for deeds in sorted(later):
                rest = iter(later[deeds])
                while some := list(islice(rest, SHARE_A_DEED)):
                    yield from self._play(some)
        except (KafkaError, DecodeError) as error:
            raise BackendFailed(f"the broker failed: {error}") from error

    def close(self) -> None:
        """Close all connections."""
        for line in self._lines:
            line.close()
        self._supply.close()

    def _play(self, scripts: Iterable[tuple[int, LeaderScript]]) -> Iterator[Ended | None]:
        """Scripts with the same deeds, all together."""
        waiting = iter(scripts)
        while True:
            while self._fill(waiting):
                for ended in self._round():
                    yield ended.number, self._closed(ended)
                yield None
            if not self._waiting:
                break
            self._do_together()
        while self._alone:
            ended = self._run_alone(self._alone.pop(0))
            yield ended.number, self._closed(ended)
            yield None

    def _fill(self, waiting: Iterator[tuple[int, LeaderScript]]) -> bool:
        """Traces that may go on, and new ones, where there is room; whether any is on its way."""
        while len(self._lines) < CONNECTIONS:
            self._lines.append(SharedConnection(self._broker, self._heard))
        for line in self._lines:
            while len(line.lanes) < IN_FLIGHT:
                lane = self._next(waiting)
                if lane is None:
                    break
                line.lanes.append(lane)
        return any(line.lanes for line in self._lines)

    def _next(self, waiting: Iterator[tuple[int, LeaderScript]]) -> LeaderSession | None:
        """The next trace that waits for no deed."""
        while True:
            if self._ready:
                lane = self._ready.popleft()
            else:
                following = next(waiting, None)
                if following is None:
                    return None
                lane = self._lane(*following)
            if not isinstance(lane.ask, BrokerFault):
                return lane
            self._waiting.append(lane)

    def _lane(self, number: int, script: LeaderScript) -> LeaderSession:
        bounds = self._observer.k.bounds
        booking = self._supply.take(bounds.producer_ids, bounds.partitions)
        now_ms = time.time_ns() // 1_000_000
        binding = Binding(booking, self._broker.produce_version, now_ms)
        asking = trial(self._observer, script, describes=self._broker.describes)
        return LeaderSession(number, script, binding, asking)

    def _round(self) -> Iterator[LeaderSession]:
        """One more answer for each trace, and the traces that end with it."""
        broken = [line for line in self._lines if not self._survives(line, SharedConnection.send)]
        for line in self._lines:
            if line not in broken and not self._survives(line, SharedConnection.receive):
                broken.append(line)
            for lane in line.left():
                if lane.ask is None:
                    yield lane
                else:
                    self._waiting.append(lane)
        for line in broken:
            line.close()
            self._lines.remove(line)
            self._alone += line.lanes

    @staticmethod
    def _survives(line: SharedConnection, act: Callable[[SharedConnection], None]) -> bool:
        try:
            act(line)
        except FAILURES:
            return False
        return True

    def _do_together(self) -> None:
        """The deed that all wait for; then all may go on."""
        [deed] = {lane.ask.rule for lane in self._waiting if isinstance(lane.ask, BrokerFault)}
        self._do(deed)
        for lane in self._waiting:
            self._go_on(lane)
        self._ready += self._waiting
        self._waiting = []

    def _do(self, deed: str) -> None:
        """Something is done to brokers, and they lead all partitions again."""
        for line in self._lines:
            line.close()
        self._lines.clear()
        self._broker.nodes.do(deed)
        self._supply.reconnect(self._broker.connect())

    def _go_on(self, lane: LeaderSession) -> None:
        """After a deed."""
        booking = self._supply.restarted(lane.binding.booking)
        lane.binding = replace(lane.binding, booking=booking)
        lane.answered(None)

    def _run_alone(self, before: LeaderSession) -> LeaderSession:
        """The same trace again, with brokers of its own as it were."""
        lane = self._lane(before.number, before.script)
        line = SharedConnection(self._broker, self._heard)
        line.lanes.append(lane)
        try:
            while lane.ask is not None:
                if isinstance(lane.ask, BrokerFault):
                    line.close()
                    self._do(lane.ask.rule)
                    line = SharedConnection(self._broker, self._heard)
                    line.lanes.append(lane)
                    self._go_on(lane)
                line.send()
                line.receive()
        except FAILURES as error:
            self._check_alive(error)
            lane.answered(Silent(reason_of(error)))
        finally:
            line.close()
        return lane

    def _check_alive(self, silence: Exception) -> None:
        """Raises BackendFailed if the broker answers nothing at all."""
        try:
            with self._broker.connect() as connection:
                api_versions(connection)
        except (KafkaError, DecodeError) as error:
            raise BackendFailed(
                f"the broker does not answer any more: {silence}; nor ApiVersions: {error}"
            ) from error

    def _closed(self, lane: LeaderSession) -> TraceOutcome:
        """A trace's outcome; its partitions go back."""
        assert lane.outcome is not None
        if lane.outcome.left:
            self._supply.give_back(lane.binding.booking, lane.outcome.left)
        return lane.outcome


def undisturbed(
    scripts: Iterable[tuple[int, LeaderScript]],
    later: dict[tuple[str, ...], list[tuple[int, LeaderScript]]],
) -> Iterator[tuple[int, LeaderScript]]:
    """The scripts without deeds; the others are put into `later`, by their deeds."""
    for number, script in scripts:
        if script.deeds:
            later.setdefault(script.deeds, []).append((number, script))
        else:
            yield number, script
