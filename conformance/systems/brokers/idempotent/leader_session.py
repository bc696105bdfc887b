"""One trace against a broker: what is asked, and what each answer must be.

Theory of operation. `trial` is a generator: it yields what to ask next and is sent what was
answered, so that one thread keeps many traces going. It asks what the script has, then for the
producers' state (settling: what the broker tells of itself), then the probes. The first difference
ends it. An answer that is allowed, but not the script's, ends the script: what a client would do
next is not in it; settling and probes follow all the same.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from conformance.systems.brokers.idempotent.observer import (
    LeaderSet,
    ObservedAnswer,
    Observer,
    ProducerState,
    Undecided,
    producer_state,
)
from conformance.systems.brokers.idempotent.leader_probes import PROBES, heard_producers
from conformance.systems.brokers.idempotent.deliveries import BY_ITSELF, ISOLATE, LeaderEvent, LeaderScript
from conformance.systems.brokers.idempotent.bookings import Left
from model.idempotent.leader import Leader, log_end_offset
from model.idempotent.messages import NO_PRODUCER_EPOCH, Batch
from proofs.trace.format import Instance

Json = Any


class Produce(NamedTuple):
    """Ask: a batch for a partition of the model. Its answer is an `ObservedAnswer` with the
    offset."""

    partition: int
    batch: Batch
    is_isolated: bool


class Describe(NamedTuple):
    """Ask: what is known of each producer in a partition. Its answer has a state for each that
    the broker knows."""

    partition: int


class Delete(NamedTuple):
    """Ask: the log's head up to an offset is deleted. Its answer is `Deleted`."""

    partition: int
    offset: int


class Deleted(NamedTuple):
    """Whether it was, and where the log starts now."""

    error: int
    low_watermark: int


class BrokerFault(NamedTuple):
    """Ask: something is done to brokers, a rule of the leader or ISOLATE. Its answer is None."""

    rule: str


Ask = Produce | Describe | Delete | BrokerFault
Asking = Generator[Ask, Any, "TraceOutcome"]


class Silent(NamedTuple):
    """The answer that did not come, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference of a trace, at a step (from 1; the last for settling and probes).

    `instance` is a rule instance, or `settle` or `probe_...` with producer and partition.
    """

    step: int
    instance: Instance
    expected: Mapping[str, Json]
    observed: Mapping[str, Json]


class AnsweredBatch(NamedTuple):
    """A batch, and what the broker answered."""

    partition: int
    batch: Batch
    answer: ObservedAnswer


@dataclass(frozen=True, slots=True)
class TraceOutcome:
    """How a trace ended. `left` has what is left of each partition of the model, if it ended as
    it should; else `told` has all that was answered. `steps` were followed."""

    difference: Difference | None = None
    is_undecided: bool = False
    left: tuple[Left, ...] = ()
    told: tuple[AnsweredBatch, ...] = ()
    steps: int = 0


class _Differs(Exception):
    """Ends a trial."""

    def __init__(self, expected: Mapping[str, Json], observed: Mapping[str, Json]) -> None:
        super().__init__()
        self.expected = expected
        self.observed = observed


@dataclass(slots=True)
class _Place:
    """Where a trial stands, for the difference that it may find there."""

    states: list[LeaderSet]
    step: int = 0
    instance: Instance = ("initial", ())
    is_isolated: bool = False
    told: list[AnsweredBatch] = field(default_factory=list)


def trial(observer: Observer, script: LeaderScript, *, describes: bool) -> Asking:
    """Ask and compare until the end or the first difference. `describes`: the broker tells of
    its producers."""
    place = _Place([observer.empty] * observer.k.bounds.partitions)
    try:
        followed = yield from _follow(observer, place, script)
        for partition in range(len(place.states) if describes else 0):
            yield from _settle(observer, place, partition)
        for partition in range(len(place.states)):
            yield from _probe(observer, place, partition)
    except _Differs as found:
        difference = Difference(place.step, place.instance, found.expected, found.observed)
        return TraceOutcome(difference, told=tuple(place.told))
    except Undecided:
        return TraceOutcome(is_undecided=True)
    return TraceOutcome(left=tuple(_left(states) for states in place.states), steps=followed)


def _follow(observer: Observer, place: _Place, script: LeaderScript) -> Generator[Ask, Any, int]:
    """All that leaders hear, as long as they do as the script says; how many steps that was."""
    for one in script.heard:
        place.step, place.instance = one.step, script.instance(one.step)
        if isinstance(one, LeaderEvent):
            yield from _do(observer, place, one)
            continue
        answered = yield from _produce(observer, place, one.partition, one.batch)
        if answered != one.answer:
            return one.step
    place.step = len(script.steps)
    return place.step


def _left(states: LeaderSet) -> Left:
    leader = states.leaders[0]
    return Left(leader.log_start_offset, log_end_offset(leader.log))


def _do(observer: Observer, place: _Place, event: LeaderEvent) -> Generator[Ask, Any, None]:
    """Something beside requests happens to a leader."""
    if event.rule == ISOLATE:
        place.is_isolated = True
        yield BrokerFault(event.rule)
        return
    states = place.states[event.partition]
    if event.rule == "recover":
        after: LeaderSet | None = observer.crashed(states)
    else:
        after = observer.moved(states, event.rule, event.inputs)
    assert after is not None, f"no state has {event}"
    place.states[event.partition] = after
    if event.rule == "delete_records":
        yield from _delete(event.partition, after.leaders[0].log_start_offset)
    elif event.rule not in BY_ITSELF:
        yield BrokerFault(event.rule)
        place.is_isolated = False


def _delete(partition: int, offset: int) -> Generator[Ask, Any, None]:
    """The log's head is deleted up to an offset."""
    answered = yield Delete(partition, offset)
    wanted = Deleted(0, offset)
    if answered != wanted:
        path = f"leader[{partition}].delete_records"
        if isinstance(answered, Silent):
            raise _Differs({path: 1}, {path: answered.reason})
        raise _Differs(
            {f"{path}.{name}": value for name, value in wanted._asdict().items()},
            {f"{path}.{name}": value for name, value in answered._asdict().items()},
        )


def _produce(
    observer: Observer, place: _Place, partition: int, batch: Batch
) -> Generator[Ask, Any, ObservedAnswer]:
    """A batch, and its answer."""
    allowed = observer.allowed(place.states[partition], batch)
    answered = yield Produce(partition, batch, place.is_isolated)
    if isinstance(answered, ObservedAnswer):
        place.told.append(AnsweredBatch(partition, batch, answered))
    after = allowed.get(answered)
    if after is None:
        raise _differing(partition, list(allowed), answered)
    place.states[partition] = after
    return answered  # type: ignore[no-any-return]


def _differing(
    partition: int, allowed: list[ObservedAnswer], answered: ObservedAnswer | Silent
) -> _Differs:
    """The fields in which an answer is none of those that are allowed."""
    path = f"leader[{partition}].sends"
    if isinstance(answered, Silent):
        return _Differs({path: 1}, {path: answered.reason})
    names = [
        name
        for name in ObservedAnswer._fields
        if getattr(answered, name) not in [getattr(answer, name) for answer in allowed]
    ]
    expected = {
        f"{path}[0].{name}": _one_or_many(sorted({getattr(answer, name) for answer in allowed}))
        for name in names or ObservedAnswer._fields
    }
    observed = {
        f"{path}[0].{name}": getattr(answered, name) for name in names or ObservedAnswer._fields
    }
    return _Differs(expected, observed)


def _one_or_many(values: list[int]) -> Json:
    return values[0] if len(values) == 1 else values


def _settle(observer: Observer, place: _Place, partition: int) -> Generator[Ask, Any, None]:
    """What the broker tells of each producer is what some state says."""
    place.instance = ("settle", (("partition", partition),))
    told: Mapping[int, ProducerState] | Silent = yield Describe(partition)
    if isinstance(told, Silent):
        path = f"leader[{partition}].producers"
        raise _Differs({path: "told"}, {path: told.reason})
    for producer in range(observer.k.bounds.producer_ids):
        shown = told.get(producer, ProducerState(NO_PRODUCER_EPOCH, -1))
        left = observer.that(place.states[partition], partial(_tells, producer, shown))
        if left is None:
            wanted = producer_state(place.states[partition].leaders[0], producer)
            raise _differing_states(f"leader[{partition}].producers[{producer}]", wanted, shown)
        place.states[partition] = left


def _tells(producer: int, shown: ProducerState, leader: Leader) -> bool:
    return producer_state(leader, producer) == shown


def _differing_states(path: str, wanted: ProducerState, shown: ProducerState) -> _Differs:
    names = [name for name in shown._fields if getattr(wanted, name) != getattr(shown, name)]
    expected, observed = (
        {f"{path}.{name}": getattr(state, name) for name in names} for state in (wanted, shown)
    )
    return _Differs(expected, observed)


def _probe(observer: Observer, place: _Place, partition: int) -> Generator[Ask, Any, None]:
    """All probes of one leader, for each producer that it heard of."""
    for producer in heard_producers(observer.k, place.states[partition].leaders[0]):
        for name, probe in PROBES.items():
            choice = (("producer", producer), ("partition", partition))
            place.instance = (f"probe_{name}", choice)
            leader = place.states[partition].leaders[0]
            for batch in probe(observer.k, leader, producer):
                yield from _produce(observer, place, partition, batch)
