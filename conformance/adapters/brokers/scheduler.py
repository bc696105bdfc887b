"""Plays many sessions at a time, over shared or separate connections.

1. In each round of a connection, the scheduler reads the answers to its requests, and sends the
   next ones, so that brokers work while answers are read. A resting session leaves its place to
   another.
2. A fault affects all sessions under way. So sessions that want similar faults are played together
   (`fault_schedule`), and a fault waits until each of them wants it, or a later one.
3. A trace that stays undecided, or whose connection breaks, is played a second time, alone on its
   connections and with longer time-outs. Only then does a missing answer count as a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from conformance.adapters.brokers.broker_testbed import BrokerTestbed, Numbered
from conformance.adapters.brokers.exchange import (
    Ask,
    BrokerFault,
    NoAnswer,
    Session,
    TraceEnd,
    Wait,
)
from conformance.adapters.brokers.fault_schedule import FaultPlace, FaultSchedule
from conformance.adapters.brokers.kafka.errors import AnswerTimeout, ConnectionLost, KafkaError
from conformance.adapters.brokers.wire import CoordinatorConnection
from conformance.judging.backend import BackendFailed
from impl import DecodeError
from proofs.java import JavaError

LONGER: Final = 4
"""The factor by which time-outs grow when a trace is played a second time."""

NO_ANSWER: Final[Mapping[type[Exception], str]] = {
    AnswerTimeout: "no answer in time",
    ConnectionLost: "the connection was closed",
    DecodeError: "an answer that cannot be read",
}


class Lane:
    """A session under way, with its present request or wait."""

    def __init__(
        self, numbered: Numbered, resources: Any, session: Session, turns: Sequence[FaultPlace]
    ) -> None:
        self.numbered = numbered
        self.resources = resources
        self.end: TraceEnd | None = None
        self.asks: list[Ask] = []
        self.sent: list[CoordinatorConnection] | None = None
        self.rests_until = 0.0
        self.fault: str | None = None
        self.answer_to_fault: Any = None
        self._session = session
        self._turns = iter(turns)
        self.turn: FaultPlace | None = None
        self.advance(None)

    @property
    def is_on_its_way(self) -> bool:
        """Whether it has a request under way, or rests."""
        return self.end is None and self.fault is None

    def advance(self, answers: list[Any] | None) -> None:
        """Continue the session with answers."""
        self.sent = None
        try:
            self._take(self._session.send(answers))  # type: ignore[arg-type]
        except StopIteration as ended:
            self.asks, self.end = [], ended.value

    def fail(self, reason: str) -> None:
        """Tell the session that no answer comes."""
        try:
            self._session.throw(NoAnswer(reason))
        except StopIteration as ended:
            self.end = ended.value
        except NoAnswer:
            self.end = TraceEnd(is_undecided=True)
        else:
            raise AssertionError("a session ends where it has no answer")

    def resume(self) -> None:
        """The fault for which the session waited has happened."""
        self.fault, self.turn = None, None
        self.advance([self.answer_to_fault])

    def _take(self, asks: Sequence[Ask | Wait | BrokerFault]) -> None:
        self.asks = [ask for ask in asks if isinstance(ask, Ask)]
        self.rests_until = max((ask.until for ask in asks if isinstance(ask, Wait)), default=0.0)
        self.fault = next((ask.name for ask in asks if isinstance(ask, BrokerFault)), None)
        if self.fault is not None:
            self.turn = next(self._turns)


class Line:
    """Connections, and the sessions that share them."""

    def __init__(self, testbed: BrokerTestbed) -> None:
        self.lanes: list[Lane] = []
        self._testbed = testbed
        self._wires: dict[Hashable, CoordinatorConnection] = {}

    @property
    def rests_until(self) -> float:
        """The time at which its first session sends or expects an answer; 0.0 for now."""
        return min(lane.rests_until for lane in self.lanes)

    def receive(self) -> None:
        """Read the answers, each for its session."""
        now = self._testbed.clock.now_s()
        for lane in self.lanes:
            if lane.sent is not None and lane.rests_until <= now:
                lane.advance([wire.receive() for wire in lane.sent])

    def leave(self) -> list[Lane]:
        """Remove and return the sessions that have ended or wait for a fault."""
        gone = [lane for lane in self.lanes if not lane.is_on_its_way]
        self.lanes = [lane for lane in self.lanes if lane.is_on_its_way]
        return gone

    def send(self) -> None:
        """Send the requests of the sessions."""
        for lane in self.lanes:
            if lane.sent is None:
                lane.sent = [self._wire(ask, lane) for ask in lane.asks]
                for ask, wire in zip(lane.asks, lane.sent, strict=True):
                    wire.send(ask.call)

    def close(self) -> None:
        """Close the connections."""
        for wire in self._wires.values():
            wire.close()

    def _wire(self, ask: Ask, lane: Lane) -> CoordinatorConnection:
        route = self._testbed.route(ask, lane.resources)
        if route not in self._wires:
            self._wires[route] = self._testbed.connect(route)
        return self._wires[route]


class Scheduler:
    """Plays scripts at the brokers of a testbed. `undecided` counts the tries without a result."""

    def __init__(self, testbed: BrokerTestbed) -> None:
        self.undecided = 0
        self._testbed = testbed
        self._busy: list[Line] = []
        self._idle: list[Line] = []
        self._timeout_factor = 1

    def run(self, scripts: Iterable[Numbered]) -> Iterator[tuple[int, TraceEnd] | None]:
        """The end of each trace by its number, and None now and then. Raises BackendFailed."""
        again: list[Numbered] = []
        try:
            for self._timeout_factor, some in ((1, scripts), (LONGER, again)):
                for lane in self._play_all(some):
                    if lane is None or lane.end is None:
                        yield None
                        continue
                    self.undecided += lane.end.is_undecided
                    if lane.end.is_undecided and self._timeout_factor == 1:
                        again.append(lane.numbered)
                    else:
                        yield lane.numbered[0], lane.end
        except (KafkaError, JavaError, DecodeError) as error:
            raise BackendFailed(f"the brokers failed: {error}") from error

    def close(self) -> None:
        """Close all connections."""
        for line in (*self._busy, *self._idle):
            line.close()
        self._busy, self._idle = [], []

    # ---- batches

    def _play_all(self, scripts: Iterable[Numbered]) -> Iterator[Lane | None]:
        """Play the traces without faults first; then those of each schedule."""
        groups: dict[Any, list[Numbered]] = {}
        waiting: list[Lane] = []
        lanes = (self._begin(one, ()) for one in self._ungrouped(scripts, groups))
        yield from self._advance(lanes, waiting)
        assert not waiting, "a fault that no group is for"
        for group in sorted(groups):
            rest = iter(groups[group])
            while batch := list(islice(rest, self._testbed.together)):
                yield from self._play_together(batch)

    def _ungrouped(
        self, scripts: Iterable[Numbered], groups: dict[Any, list[Numbered]]
    ) -> Iterator[Numbered]:
        for number, script in scripts:
            group = self._testbed.group_of(script)
            if group is None:
                yield number, script
            else:
                groups.setdefault(group, []).append((number, script))

    def _play_together(self, batch: Sequence[Numbered]) -> Iterator[Lane | None]:
        """Play traces of one schedule; their ends are returned once the brokers are as before."""
        schedule = FaultSchedule.around([script.faults for _, script in batch])
        self._testbed.begin(batch, schedule)
        waiting: list[Lane] = []
        ended: list[Lane] = []
        lanes: Iterator[Lane] = map(self._begin, batch, schedule.turns)
        for place in range(-1, len(schedule.faults)):
            if place >= 0:
                lanes = self._inject(schedule.faults[place], place, waiting)
            for lane in self._advance(lanes, waiting):
                ended += [] if lane is None else [lane]
                yield None
        self.close()
        self._testbed.end()
        yield from ended

    def _inject(self, fault: str, place: int, waiting: list[Lane]) -> Iterator[Lane]:
        """Inject a fault, if any session waits for it; returns the sessions that go on."""
        resumed = [lane for lane in waiting if lane.turn and lane.turn.place == place]
        if resumed or self._testbed.is_due(fault):
            self.close()
            self._testbed.inject(fault, len(resumed))
        for lane in resumed:
            lane.answer_to_fault = self._testbed.resume(lane.resources)
        going = [lane for lane in waiting if lane.turn and lane.turn.resumes_at == place]
        waiting[:] = [lane for lane in waiting if lane not in going]
        for lane in going:
            lane.resume()
        return iter(going)

    # ---- rounds

    def _begin(self, numbered: Numbered, turns: Sequence[FaultPlace]) -> Lane:
        resources, session = self._testbed.session(*numbered, self._timeout_factor)
        return Lane(numbered, resources, session, turns)

    def _advance(self, lanes: Iterator[Lane], waiting: list[Lane]) -> Iterator[Lane | None]:
        """Advance each session until it has ended, or waits for a fault: then it is `waiting`."""
        gone: list[Lane] = []
        while self._open(lanes, gone) or gone:
            now = self._testbed.clock.now_s()
            due = [line for line in self._busy if line.rests_until <= now]
            if not due and self._busy and not gone:
                first_s = min(line.rests_until for line in self._busy)
                self._testbed.clock.sleep(max(first_s - now, 0))
            for line in due:
                self._exchange(line, lanes, gone)
            waiting += [lane for lane in gone if lane.end is None]
            for lane in [lane for lane in gone if lane.end is not None]:
                assert lane.end is not None
                self._testbed.give_back(lane.resources, lane.end)
                yield lane
            gone.clear()
            yield None

    def _open(self, lanes: Iterator[Lane], gone: list[Lane]) -> bool:
        """Open lines for sessions without one, while there is room; returns whether any session is
        under way."""
        shared = self._shared
        while (
            len(self._busy) * shared < self._testbed.most
            and sum(not line.rests_until for line in self._busy) * shared < self._testbed.asking
        ):
            line = self._idle.pop() if self._idle else Line(self._testbed)
            self._fill(line, lanes, gone)
            if not line.lanes:
                self._idle.append(line)
                break
            self._busy.append(line)
            self._attempt(line, line.send, gone)
        return bool(self._busy)

    @property
    def _shared(self) -> int:
        """The number of sessions on a line. On its own line, a session knows that its request is
        unanswered."""
        return self._testbed.in_flight if self._timeout_factor == 1 else 1

    def _exchange(self, line: Line, lanes: Iterator[Lane], gone: list[Lane]) -> None:
        """One round of a line."""
        if not self._attempt(line, line.receive, gone):
            return
        gone += line.leave()
        self._fill(line, lanes, gone)
        if not line.lanes:
            self._busy.remove(line)
            self._idle.append(line)
        else:
            self._attempt(line, line.send, gone)

    def _fill(self, line: Line, lanes: Iterator[Lane], gone: list[Lane]) -> None:
        while len(line.lanes) < self._shared and (lane := next(lanes, None)) is not None:
            (line.lanes if lane.is_on_its_way else gone).append(lane)

    def _attempt(self, line: Line, act: Callable[[], None], gone: list[Lane]) -> bool:
        """Send or receive; returns whether the connections still work. Raises BackendFailed."""
        try:
            act()
        except (KafkaError, DecodeError) as failure:
            self._testbed.check_alive(failure)
            self._busy.remove(line)
            line.close()
            gone += line.leave()
            for lane in line.lanes:
                if self._timeout_factor == 1:
                    lane.end = TraceEnd(is_undecided=True)
                else:
                    lane.fail(reason_of(failure))
            gone += line.lanes
            return False
        return True


def reason_of(failure: Exception) -> str:
    """The reason why no answer came, in words that do not vary from run to run."""
    return next(
        (text for kind, text in NO_ANSWER.items() if isinstance(failure, kind)),
        "an answer that nobody asked for",
    )
