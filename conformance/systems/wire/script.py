"""What a leader hears in a trace: the requests that reach it and what else happens to it, in order.

1. The model's clients and its network are played by the judge that also judges `impl`; the leaders
   that it talks to here only write down what they hear. So a real broker gets exactly the requests
   that the leader of the model gets, and no rule of a client or a connection is written twice.
2. These leaders answer as the observer says, in the wire's numbers. The judge compares that with
   the model in the scope's numbers: a script is made only if both are the same leader.
3. What no broker can be made to answer is played by the network. A refusal (NOT_ENOUGH_REPLICAS)
   is not delivered, and an error that comes too late (NOT_ENOUGH_REPLICAS_AFTER_APPEND,
   REQUEST_TIMED_OUT) is told to the client in place of the broker's own answer.

Theory of operation. What a client sends next depends on the answers before. A script is made with
the answers of the model, so it holds as long as the broker gives just these. Another one, or one
that follows from another choice of the broker's, ends the trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from conformance.judge import Judge, Steps
from conformance.systems.base import Payload, Reaction, View, WireNumbers
from conformance.systems.wire.observer import LeaderSet, ObservedAnswer, Observer
from conformance.tables import Tables, leader_view
from model.idempotent.configuration import Configuration, FirstSequence
from model.idempotent.leader import Leader, late_error
from model.idempotent.messages import INVALID_OFFSET, Batch, Error
from proofs.trace.format import Instance

HEARD: Final = frozenset(
    (
        "request_arrives",
        "late_request_arrives",
        "request_outlives_replicas",
        "high_watermark_advances",
        "records_are_deleted",
        "producer_id_expires",
        "leader_restarts",
        "leader_crashes",
        "leader_fails_over",
        "leader_fails_over_uncleanly",
    )
)
"""The rules of the world that a leader hears of, once each."""

FAILOVERS: Final = ("leader_fails_over", "leader_fails_over_uncleanly")

ASKED: Final = frozenset(("delete_records",))
"""The rules of a leader that a request brings about."""
BY_ITSELF: Final = frozenset(("advance_high_watermark",))
"""Those that replicas bring about: nobody does anything for them."""
FAIL_OVER: Final = "fail_over"
ISOLATE: Final = "isolate"
"""Not a rule: from here on no follower fetches. Behind it stands what the next leader lacks."""


class CannotPlay(ValueError):
    """A trace or a scope that needs what nobody can do to these brokers."""


class Delivery(NamedTuple):
    """A request that reaches the leader. `step` counts from 1; 0 is the scope's own beginning.

    `answer` is what the broker answers, `stored` how many batches its log has then.
    """

    step: int
    partition: int
    batch: Batch
    answer: ObservedAnswer
    stored: int


class LeaderEvent(NamedTuple):
    """A rule of the leader beside requests, with its inputs; or ISOLATE."""

    step: int
    partition: int
    rule: str
    inputs: tuple[int, ...] = ()


class LeaderScript(NamedTuple):
    """A trace, what of it leaders hear, and the points that it covers."""

    steps: Steps
    heard: tuple[Delivery | LeaderEvent, ...]
    seen: int

    @property
    def deeds(self) -> tuple[str, ...]:
        """What must be done to brokers, in order; all that is on its way must wait for it."""
        return tuple(
            one.rule
            for one in self.heard
            if isinstance(one, LeaderEvent) and one.rule not in ASKED | BY_ITSELF
        )

    def instance(self, step: int) -> Instance:
        """The rule instance of a step that counts from 1; that of step 0 is the beginning."""
        return self.steps[step - 1] if step else ("initial", ())


class _Exact:
    """The wire's numbers as they are: for views of leaders that have them already."""

    def __getitem__(self, sequence: int) -> int:
        return sequence


class _Heard(NamedTuple):
    """What a leader heard, before it is known which step it was."""

    partition: int
    batch: Batch | None
    answer: ObservedAnswer | None
    stored: int
    rule: str = ""
    inputs: tuple[int, ...] = ()


class _Listener:
    """A leader that writes down what it hears, and answers as the model does."""

    def __init__(self, observer: Observer, partition: int, heard: list[_Heard]):
        self._observer = observer
        self._partition = partition
        self._heard = heard
        self._states = observer.empty

    def begin(self, states: LeaderSet) -> None:
        self._states = states

    def view(self) -> View:
        return leader_view(_Exact(), self._leader)  # type: ignore[arg-type]

    def on_produce(self, request: Payload) -> Reaction:
        return self._answered(request, self._produced(request))

    def on_produce_then_unreplicated(self, request: Payload, timed_out: int) -> Reaction:
        answer = self._produced(request)
        if answer.error == Error.NONE:
            answer = answer._replace(error=int(late_error(timed_out)))
        return self._answered(request, answer)

    def on_produce_without_replicas(self, request: Payload) -> Reaction:
        start = self._leader.log_start_offset
        return self._answered(
            request, ObservedAnswer(Error.NOT_ENOUGH_REPLICAS, INVALID_OFFSET, start)
        )

    def advance_high_watermark(self) -> Reaction:
        return self._moved("advance_high_watermark")

    def restart(self) -> Reaction:
        return self._moved("restart")

    def recover(self, covered: int) -> Reaction:
        return self._moved("recover", covered)

    def expire_producer(self, producer_id: int) -> Reaction:
        return self._moved("expire_producer", producer_id)

    def delete_records(self, deleted: int) -> Reaction:
        return self._moved("delete_records", deleted)

    def fail_over(self, kept: int) -> Reaction:
        return self._moved(FAIL_OVER, kept)

    @property
    def _leader(self) -> Leader:
        return self._states.leaders[0]

    def _produced(self, request: Payload) -> ObservedAnswer:
        producer_id, producer_epoch, base_sequence, record_count, first_record = request
        batch = Batch(
            producer_id,
            producer_epoch,
            base_sequence,
            record_count,
            max(producer_id, 0),
            first_record,
        )
        row = self._observer.allowed(self._states, batch)
        answer, self._states = next(iter(row.items()))
        self._heard.append(_Heard(self._partition, batch, answer, len(self._leader.log)))
        return answer

    def _answered(self, request: Payload, answer: ObservedAnswer) -> Reaction:
        """A success waits for the replicas; an error, also one that comes late, does not."""
        end_offset = answer.base_offset + request[3]
        required_offset = 0 if answer.error else self._observer.awaited(end_offset)
        error, base_offset, start = answer
        sent = (request[-1], error, base_offset, required_offset, start)
        return self.view(), ((sent, None),)

    def _moved(self, rule: str, *inputs: int) -> Reaction:
        after = self._observer.moved(self._states, rule, inputs)
        assert after is not None, f"the model's leader has no {rule}{inputs} here"
        self._states = after
        stored = len(self._leader.log)
        self._heard.append(_Heard(self._partition, None, None, stored, rule, inputs))
        return self.view(), ()


class _Listeners:
    """A system of leaders that listen."""

    clients = ()

    def __init__(self, k: Configuration, observer: Observer) -> None:
        self.heard: list[_Heard] = []
        self.leaders = tuple(
            _Listener(observer, partition, self.heard) for partition in range(k.bounds.partitions)
        )
        self._observer = observer
        self._first = WireNumbers(k)[k.bounds.first_sequence]

    def reset(self, memoised: bool) -> None:
        self.heard.clear()
        for leader in self.leaders:
            leader.begin(self._observer.empty)
        if self._first > 0:
            for leader in self.leaders:
                leader.on_produce((0, 0, self._first, 1, 0))

    def request(self, partition: int, request: View) -> Payload:
        return request


class LeaderScriptWriter:
    """Makes scripts of the traces of one configuration.

    `plays` are the rules of a leader that can be brought about at the brokers that are judged.
    Raises CannotPlay for a scope that they cannot have.
    """

    def __init__(
        self, k: Configuration, tables: Tables, observer: Observer, plays: Iterable[str] = ()
    ) -> None:
        self._plays = frozenset(plays)
        if k.bounds.replicas > 1 and FAIL_OVER not in self._plays:
            raise CannotPlay(
                f"the scope has {k.bounds.replicas} replicas, and there is one broker; choose a"
                " scope with one, or more brokers of a release that can be started (--nodes 3)"
            )
        if k.bounds.replicas == 1 and FAIL_OVER in self._plays:
            raise CannotPlay("the scope has one replica; leave --nodes out, or choose another")
        if k.bounds.first_sequence > 0 and k.variant.first_sequence != FirstSequence.ANY:
            raise CannotPlay(
                f"the scope begins at sequence {k.bounds.first_sequence}, and a leader of"
                f" {k.variant.release} takes 0 alone from who is new; choose another scope"
            )
        self._listeners = _Listeners(k, observer)
        self._judge = Judge(tables, self._listeners)
        self._begins = k.bounds.partitions if k.bounds.first_sequence > 0 else 0
        self._partitions = k.bounds.partitions
        self._producer_ids = k.bounds.producer_ids

    def script(self, steps: Steps) -> LeaderScript:
        """The trace's script. Raises the judge's NotAllowed; CannotPlay.

        It ends before what no deed shows as it is (`playable`).
        """
        steps = playable(steps)
        result = self._judge.judge(steps)
        if result.divergence is not None:
            raise AssertionError(f"the model differs from itself: {result.divergence}")
        script = LeaderScript(steps, tuple(isolated(list(self._events(steps)))), result.seen)
        self._check(script)
        return script

    def _events(self, steps: Steps) -> Iterator[Delivery | LeaderEvent]:
        numbers = [0] * self._begins
        numbers += [i for i, (rule, _) in enumerate(steps, start=1) if rule in HEARD]
        for step, one in zip(numbers, self._listeners.heard, strict=True):
            if one.batch is not None and one.answer is not None:
                yield Delivery(step, one.partition, one.batch, one.answer, one.stored)
            else:
                yield LeaderEvent(step, one.partition, one.rule, one.inputs)

    def _check(self, script: LeaderScript) -> None:
        """Raises CannotPlay for what nobody can do."""
        missing = sorted({*script.deeds} - self._plays - {ISOLATE})
        if missing:
            raise CannotPlay(f"{', '.join(missing)}: nobody can do that to these brokers")
        if "expire_producer" in script.deeds and self._producer_ids > 1:
            raise CannotPlay("producers expire together; choose a scope with one producer id")
        if script.deeds and self._partitions > 1:
            raise CannotPlay(
                "a broker that stops takes all its partitions with it, and the scope stops one;"
                " choose a scope with one partition, or --faults connections"
            )


def playable(steps: Steps) -> Steps:
    """The steps before a second failover, or a stop behind an expiry.

    The replica that would lead then was killed before, and remembers less than one that never was.
    And producers expire here because a broker's patience is changed for a moment; when it begins
    again it may find some of them in an older snapshot, not as old as they should be.
    """
    seen: set[str] = set()
    for i, (rule, _) in enumerate(steps):
        again = rule in FAILOVERS and not seen.isdisjoint(FAILOVERS)
        if again or (rule == "leader_restarts" and "producer_id_expires" in seen):
            return steps[:i]
        seen.add(rule)
    return steps


def isolated(heard: list[Delivery | LeaderEvent]) -> list[Delivery | LeaderEvent]:
    """With ISOLATE before what the next leader lacks, or before the failover if it lacks nothing.

    Raises CannotPlay if it lacks what the leader before had already: all replicas have that.
    """
    placed: list[Delivery | LeaderEvent] = []
    begins, had = 0, 0
    for one in heard:
        if isinstance(one, LeaderEvent) and one.rule == FAIL_OVER:
            (kept,) = one.inputs
            if kept < had:
                raise CannotPlay(f"step {one.step}: the next leader is to lack what all have")
            lacks = (i for i in range(begins, len(placed)) if _stored(placed[i]) > kept)
            placed.insert(next(lacks, len(placed)), LeaderEvent(one.step, one.partition, ISOLATE))
            begins, had = len(placed), kept
        placed.append(one)
    return placed


def _stored(one: Delivery | LeaderEvent) -> int:
    return one.stored if isinstance(one, Delivery) else 0
