"""One trace against a broker: its requests, and the answers that are allowed.

Theory of operation. A session sends the requests of the script, then asks for the producers' state
(settling: the broker's description of itself), then sends the probes. The first difference ends the
session. An answer that is allowed but is not the script's ends only the script, because the script
does not have the client's next requests; settling and probes follow all the same.
"""

from __future__ import annotations

import operator
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from conformance.adapters.brokers.exchange import (
    Ask,
    Asks,
    BrokerFault,
    Difference,
    DifferenceFound,
    NoAnswer,
    Session,
    TraceEnd,
)
from conformance.adapters.brokers.idempotent.deliveries import (
    DONE_TO_BROKERS,
    ISOLATE,
    LeaderEvent,
    LeaderScript,
)
from conformance.adapters.brokers.idempotent.leader_probes import PROBES, heard_producers
from conformance.adapters.brokers.idempotent.observer import (
    LeaderSet,
    ObservedAnswer,
    Observer,
    ProducerState,
    Undecided,
    producer_state,
)
from conformance.adapters.brokers.idempotent.wire_messages import Binding, Deleted
from conformance.adapters.brokers.wire import WireCall
from conformance.judging.masks import NO_MASKS, MaskedTrace, Masks
from model.idempotent.leader import Leader, log_end_offset
from model.idempotent.messages import NO_PRODUCER_EPOCH, Batch
from proofs.trace.format import Instance


class FinalOffsets(NamedTuple):
    """The start and end of a partition's log after a trace, in the trace's own offsets."""

    start: int
    end: int


class AnsweredBatch(NamedTuple):
    """A batch, and the broker's answer."""

    partition: int
    batch: Batch
    answer: ObservedAnswer


@dataclass(slots=True)
class LeaderProgress:
    """The present point of a trace, for the report of a difference."""

    observer: Observer
    script: LeaderScript
    binding: Binding
    states: list[LeaderSet]
    step: int = 0
    instance: Instance = ("initial", ())
    is_isolated: bool = False
    answered: list[AnsweredBatch] = field(default_factory=list)
    masked: MaskedTrace = field(default_factory=lambda: MaskedTrace(NO_MASKS))

    def differ(
        self, path: str, expected: Mapping[str, Any], observed: Mapping[str, Any]
    ) -> DifferenceFound:
        """A difference in some fields."""
        wanted = {path + name: value for name, value in expected.items()}
        found = {path + name: value for name, value in observed.items()}
        return DifferenceFound(Difference(self.step, self.instance, wanted, found))

    def compare(self, path: str, expected: Mapping[str, Any], observed: Mapping[str, Any]) -> None:
        """Compare two values. Raises DifferenceFound, unless masks hide the whole difference."""
        rows = [(path + name, value, observed[name]) for name, value in expected.items()]
        found = self.masked.visible(self.instance[0], self.step, rows)
        if found:
            names = [name.removeprefix(path) for name, _, _ in found]
            raise self.differ(path, *({n: side[n] for n in names} for side in (expected, observed)))

    def ask(self, call: WireCall[Any], path: str, wanted: Any = 1) -> Asks:
        """The answer to a call. Raises DifferenceFound if none comes."""
        try:
            [answer] = yield [Ask(call)]
        except NoAnswer as silence:
            raise self.differ(path, {"": wanted}, {"": silence.reason}) from silence
        return answer


def leader_session(
    observer: Observer,
    script: LeaderScript,
    binding: Binding,
    *,
    describes: bool,
    masks: Masks = NO_MASKS,
) -> Session:
    """Send and compare until the end of the trace, or the first difference that no mask hides.
    `describes` says that the broker describes its producers."""
    empty = [observer.empty] * observer.k.bounds.partitions
    at = LeaderProgress(observer, script, binding, empty, masked=MaskedTrace(masks))
    try:
        followed = yield from _follow(at)
        for partition in range(len(at.states) if describes else 0):
            yield from _settle(at, partition)
        for partition in range(len(at.states)):
            yield from _probe(at, partition)
    except DifferenceFound as found:
        behind = at.masked.behind(at.step)
        follows = at.masked.has_consequences
        return TraceEnd(
            found.difference, answered=at.answered, masked=behind, is_consequence=follows
        )
    except Undecided:
        return TraceEnd(is_undecided=True)
    # A masked difference may have left the logs in another state than the model's.
    left = None if at.masked.first_use else [_left(states) for states in at.states]
    return TraceEnd(left=left, steps=followed, masked=at.masked.behind(followed))


def _follow(at: LeaderProgress) -> Generator[Any, Any, int]:
    """Deliver to the leaders as long as they answer as in the script; returns the number of
    steps."""
    for one in at.script.heard:
        at.step, at.instance = one.step, at.script.instance(one.step)
        if isinstance(one, LeaderEvent):
            yield from _do(at, one)
            continue
        answered = yield from _produce(at, one.partition, one.batch)
        if answered != one.answer:
            return one.step
    at.step = len(at.script.steps)
    return at.step


def _left(states: LeaderSet) -> FinalOffsets:
    leader = states.leaders[0]
    return FinalOffsets(leader.log_start_offset, log_end_offset(leader.log))


def _do(at: LeaderProgress, event: LeaderEvent) -> Asks:
    """Bring about an event of a leader other than a request."""
    if event.rule == ISOLATE:
        at.is_isolated = True
        yield [BrokerFault(event.rule)]
        return
    states = at.states[event.partition]
    if event.rule == "recover":
        after: LeaderSet | None = at.observer.crashed(states)
    else:
        after = at.observer.moved(states, event.rule, event.inputs)
    assert after is not None, f"no state has {event}"
    at.states[event.partition] = after
    if event.rule == "delete_records":
        yield from _delete(at, event.partition, after.leaders[0].log_start_offset)
    elif event.wire in DONE_TO_BROKERS:
        yield [BrokerFault(event.rule)]
        at.is_isolated = False


def _delete(at: LeaderProgress, partition: int, offset: int) -> Asks:
    """Delete the head of a log up to an offset."""
    path = f"leader[{partition}].delete_records"
    answered = yield from at.ask(at.binding.delete_records(partition, offset), path)
    wanted = Deleted(0, offset)
    if answered != wanted:
        raise at.differ(f"{path}.", wanted._asdict(), answered._asdict())


def _produce(at: LeaderProgress, partition: int, batch: Batch) -> Asks:
    """Send a batch, and check its answer."""
    path = f"leader[{partition}].sends"
    allowed = at.observer.allowed(at.states[partition], batch)
    call = at.binding.produce(partition, batch, is_isolated=at.is_isolated)
    answered: ObservedAnswer = yield from at.ask(call, path)
    at.answered.append(AnsweredBatch(partition, batch, answered))
    after = allowed.get(answered)
    if after is None:
        at.compare(f"{path}[0].", *_differing(list(allowed), answered))
        answered, after = nearest(allowed, answered)
    at.states[partition] = after
    return answered


def nearest(
    allowed: Mapping[ObservedAnswer, LeaderSet], answered: ObservedAnswer
) -> tuple[ObservedAnswer, LeaderSet]:
    """The allowed answer that agrees with the given one in most fields, and the states that explain
    it."""
    return max(allowed.items(), key=lambda row: sum(map(operator.eq, row[0], answered)))


def _differing(
    allowed: Sequence[ObservedAnswer], answered: ObservedAnswer
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields in which an answer matches none of the allowed ones."""
    values = {
        name: sorted({getattr(answer, name) for answer in allowed})
        for name in ObservedAnswer._fields
    }
    names = [n for n in values if getattr(answered, n) not in values[n]] or list(values)
    expected = {n: values[n][0] if len(values[n]) == 1 else values[n] for n in names}
    return expected, {n: getattr(answered, n) for n in names}


def _settle(at: LeaderProgress, partition: int) -> Asks:
    """Check the broker's description of each producer: some state must explain it."""
    at.instance = ("settle", (("partition", partition),))
    path = f"leader[{partition}].producers"
    known = yield from at.ask(at.binding.describe_producers(partition), path, "told")
    if isinstance(known, str):
        raise at.differ(path, {"": "told"}, {"": known})
    for producer in range(at.observer.k.bounds.producer_ids):
        found = known.get(producer, ProducerState(NO_PRODUCER_EPOCH, -1))
        left = at.observer.that(at.states[partition], partial(_has_state, producer, found))
        if left is None:
            wanted = producer_state(at.states[partition].leaders[0], producer)
            names = [n for n in found._fields if getattr(wanted, n) != getattr(found, n)]
            expected, observed = ({n: getattr(s, n) for n in names} for s in (wanted, found))
            at.compare(f"{path}[{producer}].", expected, observed)
            continue
        at.states[partition] = left


def _has_state(producer: int, state: ProducerState, leader: Leader) -> bool:
    return producer_state(leader, producer) == state


def _probe(at: LeaderProgress, partition: int) -> Asks:
    """Send all probes to one leader, for each producer from which it has stored a batch."""
    k = at.observer.k
    for producer in heard_producers(k, at.states[partition].leaders[0]):
        for name, probe in PROBES.items():
            choice = (("producer", producer), ("partition", partition))
            at.instance = (f"probe_{name}", choice)
            leader = at.states[partition].leaders[0]
            for batch in probe(k, leader, producer):
                yield from _produce(at, partition, batch)
