"""Many traces at a time over a few connections of one broker.

1. A trace's requests go over one connection, each once the one before was answered: a leader hears
   them in the model's order. Which connection of the model's they belong to no leader asks.
2. In a round each trace sends its next request; then all answers are read. A request is on its
   way for every trace, so the broker is not waited for.
3. A connection that breaks, or an answer that does not come in time, is not yet a finding: traces
   wait behind each other there. Those that had no answer are run again, alone, with new producer
   ids and partitions; what is silent then is a finding.
4. A broker that then does not answer ApiVersions either has stopped: `BackendFailed`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from conformance.backends import BackendFailed
from conformance.kafka.admin import Supported, api_versions, describe_producers
from conformance.kafka.connection import ANSWER_TIMEOUT_MS, Connection
from conformance.kafka.errors import AnswerTimeout, ConnectionLost, KafkaError, WireError
from conformance.systems.wire_messages import (
    NEWEST_PRODUCE,
    OLDEST_PRODUCE,
    Binding,
    Misaddressed,
)
from conformance.systems.wire_observer import Observer
from conformance.systems.wire_script import Script
from conformance.systems.wire_supply import Supply
from conformance.systems.wire_trial import Ask, Asking, Describe, Outcome, Produce, Silent, trial
from impl import ApiKey, DecodeError

CONNECTIONS: Final = 4
IN_FLIGHT: Final = 25
"""Traces at a time on each connection."""

Address = tuple[str, int]
Ended = tuple[int, Outcome]
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
    """Where a broker listens, and what it supports of what is asked here."""

    address: Address
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

    def connect(self) -> Connection:
        """One more connection. Raises ConnectionLost."""
        return Connection(*self.address, timeout_ms=self.timeout_ms)


class Lane:
    """A trace on its way: what it asks next."""

    __slots__ = ("ask", "asking", "binding", "number", "outcome", "script")

    def __init__(self, number: int, script: Script, binding: Binding, asking: Asking) -> None:
        self.number = number
        self.script = script
        self.binding = binding
        self.asking = asking
        self.ask: Ask | None = None
        self.outcome: Outcome | None = None
        self.answered(None)

    def answered(self, answer: Any) -> None:
        """Go on with an answer, until the next question or the end."""
        try:
            self.ask = self.asking.send(answer)
        except StopIteration as ended:
            self.ask, self.outcome = None, ended.value


class Line:
    """A connection and the traces on it."""

    def __init__(self, broker: Broker, heard: Heard | None) -> None:
        self._broker = broker
        self._heard = heard
        self._connection = broker.connect()
        self.lanes: list[Lane] = []

    def send(self) -> None:
        """Each trace's next batch goes out."""
        for lane in self.lanes:
            if isinstance(lane.ask, Produce):
                request = lane.binding.request(lane.ask)
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
        if describing:
            self._describe(describing)

    def ended(self) -> list[Lane]:
        """The traces that have ended; they leave the line."""
        done = [lane for lane in self.lanes if lane.ask is None]
        self.lanes = [lane for lane in self.lanes if lane.ask is not None]
        return done

    def close(self) -> None:
        """Close the connection."""
        self._connection.abort()

    def _describe(self, lanes: list[Lane]) -> None:
        places = []
        for lane in lanes:
            assert lane.ask is not None
            slot = lane.binding.booking.slots[lane.ask.partition]
            places.append((slot.topic, slot.partition))
        told = describe_producers(self._connection, places)
        for lane in lanes:
            assert lane.ask is not None
            lane.answered(lane.binding.described(lane.ask.partition, told))


class Harness:
    """Runs scripts against one broker. `heard` is told of every answered batch.

    `traces` is how many will come, as far as that is known. Raises BackendFailed.
    """

    def __init__(
        self, observer: Observer, broker: Broker, traces: int, heard: Heard | None = None
    ) -> None:
        self._observer = observer
        self._broker = broker
        self._heard = heard
        self._lines: list[Line] = []
        self._alone: list[Lane] = []
        try:
            self._supply = Supply(broker.connect(), traces, CONNECTIONS * IN_FLIGHT)
        except WireError as error:
            raise BackendFailed(str(error)) from error

    def run(self, scripts: Iterable[tuple[int, Script]]) -> Iterator[Ended | None]:
        """How each ended, in any order; None after each round. Raises BackendFailed."""
        waiting = iter(scripts)
        try:
            while self._fill(waiting) or self._alone:
                for ended in self._round():
                    yield ended.number, self._closed(ended)
                yield None
        except (KafkaError, DecodeError) as error:
            raise BackendFailed(f"the broker failed: {error}") from error

    def close(self) -> None:
        """Close all connections."""
        for line in self._lines:
            line.close()
        self._supply.close()

    def _fill(self, waiting: Iterator[tuple[int, Script]]) -> bool:
        """New traces where there is room; whether any is on its way."""
        while len(self._lines) < CONNECTIONS:
            self._lines.append(Line(self._broker, self._heard))
        for line in self._lines:
            while len(line.lanes) < IN_FLIGHT:
                following = next(waiting, None)
                if following is None:
                    break
                line.lanes.append(self._lane(*following))
        return any(line.lanes for line in self._lines)

    def _lane(self, number: int, script: Script) -> Lane:
        layout = self._observer.k.layout
        booking = self._supply.take(layout.producers, layout.partitions)
        now_ms = time.time_ns() // 1_000_000
        binding = Binding(booking, self._broker.produce_version, now_ms)
        asking = trial(self._observer, script, describes=self._broker.describes)
        return Lane(number, script, binding, asking)

    def _round(self) -> Iterator[Lane]:
        """One more answer for each trace, and the traces that end with it."""
        broken = [line for line in self._lines if not self._survives(line, Line.send)]
        for line in self._lines:
            if line not in broken and not self._survives(line, Line.receive):
                broken.append(line)
            yield from line.ended()
        for line in broken:
            line.close()
            self._lines.remove(line)
            self._alone += line.lanes
        while self._alone:
            yield self._run_alone(self._alone.pop(0))

    @staticmethod
    def _survives(line: Line, act: Callable[[Line], None]) -> bool:
        try:
            act(line)
        except FAILURES:
            return False
        return True

    def _run_alone(self, before: Lane) -> Lane:
        """The same trace again, on a connection of its own."""
        lane = self._lane(before.number, before.script)
        line = Line(self._broker, self._heard)
        line.lanes.append(lane)
        try:
            while lane.ask is not None:
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

    def _closed(self, lane: Lane) -> Outcome:
        """A trace's outcome; its partitions go back."""
        assert lane.outcome is not None
        if lane.outcome.records:
            self._supply.give_back(lane.binding.booking, lane.outcome.records)
        return lane.outcome
