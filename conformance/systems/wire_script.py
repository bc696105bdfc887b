"""What a leader hears in a trace: the requests that reach it, in their order.

1. The model's clients and its network are played by the judge that also judges `impl`; the leaders
   that it talks to here only write down what they hear. So a real broker gets exactly the requests
   that the leader of the model gets, and no rule of a client or a connection is written twice.
2. These leaders answer as the observer says, in the wire's numbers. The judge compares that with
   the model in the scope's numbers: a script is made only if both are the same leader.
3. A refusal (NOT_ENOUGH_REPLICAS) is not delivered. A broker of one node always has its replicas,
   so the network plays it: nothing reaches the leader, and the client is told.

Theory of operation. What a client sends next depends on the answers before. A script is made with
the answers of the model, so it holds as long as the broker gives just these; the first other one
ends the trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from conformance.judge import Judge, Steps
from conformance.systems.base import Payload, Reaction, View, WireNumbers
from conformance.systems.wire_observer import Answer, Observer, States
from conformance.tables import Tables, leader_view
from model.leader import Leader
from model.messages import INVALID_OFFSET, Batch, Error
from model.setting import Setting
from proofs.trace.format import Instance

DELIVERIES: Final = ("request_arrives", "late_request_arrives")
"""The rules that deliver a request to a leader, one each."""

FORBIDDEN: Final = ("leader_restarts", "leader_fails_over", "high_watermark_advances")
"""What nobody does to a broker of one node over its wire."""


class CannotPlay(ValueError):
    """A trace or a scope that needs more than one broker that is left alone."""


class Delivery(NamedTuple):
    """A request that reaches the leader. `step` counts from 1; 0 is the scope's own beginning."""

    step: int
    partition: int
    batch: Batch
    answer: Answer


class Script(NamedTuple):
    """A trace, the requests of it that reach leaders, and the points that it covers."""

    steps: Steps
    deliveries: tuple[Delivery, ...]
    seen: int

    def instance(self, step: int) -> Instance:
        """The rule instance of a step that counts from 1; that of step 0 is the beginning."""
        return self.steps[step - 1] if step else ("initial", ())


class _Exact:
    """The wire's numbers as they are: for views of leaders that have them already."""

    def __getitem__(self, sequence: int) -> int:
        return sequence


class _Listener:
    """A leader that writes down what it hears, and answers as the model does."""

    def __init__(self, observer: Observer, partition: int, heard: list[tuple[int, Batch, Answer]]):
        self._observer = observer
        self._partition = partition
        self._heard = heard
        self._states = observer.empty

    def begin(self, states: States) -> None:
        self._states = states

    def view(self) -> View:
        return leader_view(_Exact(), self._leader)  # type: ignore[arg-type]

    def on_produce(self, request: Payload) -> Reaction:
        batch = Batch(*request)
        row = self._observer.allowed(self._states, batch)
        answer, self._states = next(iter(row.items()))
        self._heard.append((self._partition, batch, answer))
        required_offset = 0 if answer.error else answer.base_offset + batch.record_count
        start = self._leader.log_start_offset
        sent = (batch.first_record, answer.error, answer.base_offset, required_offset, start)
        return Reaction(self.view(), ((sent, None),))

    def on_produce_without_replicas(self, request: Payload) -> Reaction:
        first_record = request[-1]
        start = self._leader.log_start_offset
        refusal = (first_record, int(Error.NOT_ENOUGH_REPLICAS), INVALID_OFFSET, 0, start)
        return Reaction(self.view(), ((refusal, None),))

    def advance_high_watermark(self) -> Reaction:
        raise CannotPlay("a broker of one node has no followers")

    def restart(self) -> Reaction:
        raise CannotPlay("nobody restarts the broker")

    def recover(self, covered: int) -> Reaction:
        raise CannotPlay("nobody kills the broker")

    def expire_producer(self, producer_id: int) -> Reaction:
        raise CannotPlay("nobody waits until a producer id expires")

    def delete_records(self, deleted: int) -> Reaction:
        raise CannotPlay("nobody deletes records")

    def on_produce_then_unreplicated(self, request: Payload, timed_out: int) -> Reaction:
        raise CannotPlay("a broker of one node has its batches replicated at once")

    def fail_over(self, kept: int) -> Reaction:
        raise CannotPlay("there is no other broker")

    @property
    def _leader(self) -> Leader:
        return self._states.leaders[0]


class _Listeners:
    """A system of leaders that listen."""

    clients = ()

    def __init__(self, k: Setting, observer: Observer) -> None:
        self.heard: list[tuple[int, Batch, Answer]] = []
        self.leaders = tuple(
            _Listener(observer, partition, self.heard) for partition in range(k.layout.partitions)
        )
        self._observer = observer
        self._first = WireNumbers(k)[k.layout.first_sequence]

    def reset(self) -> None:
        self.heard.clear()
        for leader in self.leaders:
            leader.begin(self._observer.empty)
        if self._first > 0:
            for leader in self.leaders:
                leader.on_produce((0, 0, self._first, 1, 0))

    def request(self, partition: int, request: View) -> Payload:
        return request


class ScriptWriter:
    """Makes scripts of the traces of one setting. Raises CannotPlay for one with followers."""

    def __init__(self, k: Setting, tables: Tables, observer: Observer) -> None:
        if k.layout.replicas > 1:
            raise CannotPlay(
                f"the scope has {k.layout.replicas} replicas, a broker over its wire has one;"
                " choose a scope with one"
            )
        self._listeners = _Listeners(k, observer)
        self._judge = Judge(tables, self._listeners)
        self._begins = k.layout.partitions if k.layout.first_sequence > 0 else 0

    def script(self, steps: Steps) -> Script:
        """The trace's script. Raises the judge's NotAllowed; CannotPlay."""
        refused = next((rule for rule, _ in steps if rule in FORBIDDEN), None)
        if refused is not None:
            raise CannotPlay(f"{refused}: nobody does that to a broker over its wire")
        result = self._judge.judge(steps)
        if result.divergence is not None:
            raise AssertionError(f"the model differs from itself: {result.divergence}")
        return Script(steps, tuple(self._deliveries(steps)), result.seen)

    def _deliveries(self, steps: Steps) -> Iterator[Delivery]:
        numbers = [0] * self._begins
        numbers += [i for i, (rule, _) in enumerate(steps, start=1) if rule in DELIVERIES]
        for step, (partition, batch, answer) in zip(numbers, self._listeners.heard, strict=True):
            yield Delivery(step, partition, batch, answer)
