"""Plays a trace once more, alone, at fresh partitions, and records each request, answer and
difference.

Theory of operation. A session sends requests and compares answers; here it is driven without the
scheduler, one request after the other, so that each answer is seen with its request. Each
difference that the session finds, masked or not, is attached to the answer that showed it. So the
expected side of an exchange is the broker's answer, except at these places, where it is the model's
value.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from conformance.adapters.brokers.broker_testbed import BrokerTestbed
from conformance.adapters.brokers.exchange import Ask, BrokerFault, NoAnswer, TraceEnd, Wait
from conformance.adapters.brokers.fault_schedule import FaultSchedule
from conformance.adapters.brokers.kafka.connection import WireRequest
from conformance.adapters.brokers.kafka.errors import AnswerTimeout, ConnectionLost
from conformance.adapters.brokers.scheduler import NO_ANSWER
from conformance.adapters.brokers.wire import CoordinatorConnection
from conformance.judging.masks import Masks, Row
from conformance.judging.reports.script import NotReproducible
from conformance.judging.signatures import INDEX
from impl import DecodeError
from impl.protocol.message_form import Value
from impl.protocol.schemas import ApiKey

READS: Final = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.OFFSET_FETCH,
        ApiKey.LIST_OFFSETS,
    }
)
"""Requests that change nothing: if repeated, they count as one exchange."""

TELLS: Final = (
    ("producers", ApiKey.DESCRIBE_PRODUCERS),
    ("coordinator", ApiKey.DESCRIBE_TRANSACTIONS),
    ("log", ApiKey.FETCH),
    ("high_watermark", ApiKey.FETCH),
    ("last_stable_offset", ApiKey.FETCH),
    ("committed", ApiKey.OFFSET_FETCH),
    ("stable", ApiKey.OFFSET_FETCH),
)
"""The API whose answer showed a difference, by a name in its path; for other names, the request's
own."""


@dataclass(slots=True)
class RecordedExchange:
    """A request and its answer, or None; `differing` are rows of the judge."""

    connection: Hashable
    request: WireRequest
    answer: Value | None
    differing: list[Row] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Recording:
    """All exchanges of a trace. `producers` are ids that it was given before; `topic_configs` are
    those of its topics."""

    exchanges: Sequence[RecordedExchange]
    producers: Sequence[int] = ()
    topic_configs: Mapping[str, str] = field(default_factory=dict)


def record(testbed: BrokerTestbed, script: Any, ignored: Iterable[str]) -> Recording:
    """Play a script at a testbed that has played nothing. Raises NotReproducible, KafkaError,
    DecodeError."""
    if getattr(script, "faults", ()):
        raise NotReproducible("brokers are stopped, or held, in this trace")
    recorder = _Recorder(testbed)
    testbed.masks = Masks(ignored, recorder.tell)
    try:
        end = recorder.play(script)
    finally:
        recorder.close()
    if end.difference is None:
        raise NotReproducible("the trace did not show it again, alone at new partitions")
    difference = end.difference
    recorder.tell([(p, v, difference.observed.get(p)) for p, v in difference.expected.items()])
    return Recording(recorder.exchanges, recorder.producers, testbed.topic_configs)


class _Recorder:
    """Drives one session without the scheduler."""

    def __init__(self, testbed: BrokerTestbed) -> None:
        self.exchanges: list[RecordedExchange] = []
        self.producers: Sequence[int] = ()
        self._testbed = testbed
        self._wires: dict[Hashable, CoordinatorConnection] = {}

    def play(self, script: Any) -> TraceEnd:
        """Play the script to its end. No faults are injected."""
        self._testbed.begin([(0, script)], FaultSchedule.around([()]))
        resources, session = self._testbed.session(0, script, 1)
        self.producers = self._testbed.producers_of(resources)
        answers: list[Any] | None = None
        while True:
            try:
                asks = session.send(answers)  # type: ignore[arg-type]
                answers = [self._ask(ask, resources) for ask in asks if self._is_asked(ask)]
            except StopIteration as ended:
                end: TraceEnd = ended.value
                return end
            except (AnswerTimeout, ConnectionLost, DecodeError) as failure:
                self.exchanges[-1].answer = None
                try:
                    session.throw(NoAnswer(NO_ANSWER[type(failure)]))
                except StopIteration as ended:
                    return ended.value  # type: ignore[no-any-return]

    def _is_asked(self, ask: Ask | Wait | BrokerFault) -> bool:
        if isinstance(ask, BrokerFault):
            raise NotReproducible(f"something is done to brokers in this trace: {ask.name}")
        if isinstance(ask, Wait):
            clock = self._testbed.clock
            clock.sleep(max(ask.until - clock.now_s(), 0))
            return False
        return True

    def _ask(self, ask: Any, resources: Any) -> Any:
        route, request = self._testbed.route(ask, resources), ask.call.request
        if route not in self._wires:
            self._wires[route] = self._testbed.connect(route)
        last = self.exchanges[-1] if self.exchanges else None
        is_again = last is not None and last.request == request and request.api_key in READS
        if last is None or not is_again:
            last = RecordedExchange(route, request, None)
            self.exchanges.append(last)
        wire = self._wires[route].connection
        last.answer = wire.ask(request.api_key, request.api_version, request.body)
        last.differing.clear()
        return ask.call.read(last.answer)

    def tell(self, rows: Sequence[Row]) -> None:
        """Attach differences to the last answer."""
        for row in rows:
            exchange = self._telling(row[0])
            if exchange is not None and row not in exchange.differing:
                exchange.differing.append(row)

    def _telling(self, path: str) -> RecordedExchange | None:
        names = INDEX.sub("", path).split(".")
        api = next((api for name, api in TELLS if name in names), None)
        found = (
            one
            for one in reversed(self.exchanges)
            if (one.request.api_key == api if api else one.request.api_key not in READS)
        )
        return next(found, None)

    def close(self) -> None:
        """Close the connections."""
        for wire in self._wires.values():
            wire.close()
