"""The requests and other events that reach leaders in a trace, in order.

1. The model's own events are run, in the wire's numbers: a real broker gets the requests that these
   events deliver to leaders. So no rule of a client or a connection is written twice.
2. The network plays errors that no broker can be made to return. A request that is refused
   (NOT_ENOUGH_REPLICAS, or for good INVALID_TIMESTAMP) is not delivered. An error after the append
   (NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT) replaces the broker's own answer on its way
   to the client.

Theory of operation. A client's next request depends on earlier answers. A script is made with the
model's answers, so it is valid as long as the broker gives the same ones. Another answer, or an
answer that follows from another choice of the broker, ends the trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from conformance.adapters.brokers.idempotent.observer import ObservedAnswer, Observer
from conformance.adapters.brokers.recorded_events import ActorCall, RecordedEvents
from conformance.generate.faults import CLIENTS, Means, describe_need, events_by
from conformance.judging.judge import NotAllowed, Steps
from conformance.judging.system import View
from conformance.judging.tables import ActorTables
from model.idempotent.configuration import Configuration, FirstSequence
from model.idempotent.leader import (
    Leader,
    on_invalid_produce,
    on_produce,
    on_produce_without_replicas,
)
from model.idempotent.messages import Batch, Error, ProduceRequest, ProduceResponse
from model.idempotent.world import World
from model.language import Disabled, Wire, declaration_of
from proofs.lift.source import load_model
from proofs.trace.format import Instance

IDEMPOTENT: Final = load_model("idempotent")
FAILOVERS: Final = events_by(IDEMPOTENT, {Wire.CLUSTER})
FAIL_OVER: Final = "fail_over"
ISOLATE: Final = "isolate"
"""Not a rule of the model: from here on no follower fetches, so the next leader lacks later
batches."""
PLAYED_BY_NETWORK: Final = (on_produce_without_replicas, on_invalid_produce)
"""Rules by which the leader refuses a request without a change of its state."""
DONE_TO_BROKERS: Final = frozenset({Wire.RESTARTS, Wire.CLUSTER, Wire.DYNAMIC_CONFIGS})
"""The means for faults, for which all traces under way must wait."""


class CannotPlay(ValueError):
    """A trace or scope needs something that a test cannot do at these brokers."""


class Delivery(NamedTuple):
    """A request that reaches the leader. `step` counts from 1; 0 is the beginning of the scope.

    `answer` is the broker's answer, `stored` the number of batches in its log after it.
    """

    step: int
    partition: int
    batch: Batch
    answer: ObservedAnswer
    stored: int


class LeaderEvent(NamedTuple):
    """An event of the leader other than a request, with its inputs; or ISOLATE. `wire` is the means
    that brings it about."""

    step: int
    partition: int
    rule: str
    wire: Wire | None
    inputs: tuple[int, ...] = ()


class LeaderScript(NamedTuple):
    """A trace, the deliveries that reach leaders in it, and the points that it covers."""

    steps: Steps
    heard: tuple[Delivery | LeaderEvent, ...]
    seen: int

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults of the trace in order; all traces under way must wait for each."""
        return tuple(
            one.rule
            for one in self.heard
            if isinstance(one, LeaderEvent) and one.wire in DONE_TO_BROKERS
        )

    def instance(self, step: int) -> Instance:
        """The rule instance of a step; steps count from 1. The instance of step 0 is the
        beginning."""
        return self.steps[step - 1] if step else ("initial", ())


class WireTables(ActorTables):
    """Producers and leaders in the wire's numbers. Their views are never compared."""

    def __init__(self, k: Configuration) -> None:
        super().__init__(k, IDEMPOTENT)

    def state_view(self, state: Any) -> View:
        """None, since views are not compared."""

    def message_view(self, value: Any) -> View:
        """None, since views are not compared."""

    def errors_in(self, sends: Sequence[Any]) -> Iterator[str]:
        """The errors in answers to Produce."""
        return (m.error.name for m in sends if isinstance(m, ProduceResponse))


class LeaderScriptWriter:
    """Turns the traces of one configuration into scripts.

    `means` are those of a test at these brokers. Raises CannotPlay for a scope that needs others.
    """

    def __init__(self, k: Configuration, observer: Observer, means: Means = CLIENTS) -> None:
        self._means = means
        if k.bounds.replicas > 1 and Wire.CLUSTER not in means:
            raise CannotPlay(
                f"the scope has {k.bounds.replicas} replicas, and there is one broker; choose a"
                " scope with one, or more brokers of a release that can be started (--nodes 3)"
            )
        if k.bounds.replicas == 1 and Wire.CLUSTER in means:
            raise CannotPlay("the scope has one replica; leave --nodes out, or choose another")
        if k.bounds.first_sequence > 0 and k.variant.first_sequence != FirstSequence.ANY:
            raise CannotPlay(
                f"the scope begins at sequence {k.bounds.first_sequence}, and a leader of"
                f" {k.variant.release} takes 0 alone from who is new; choose another scope"
            )
        self.tables = WireTables(observer.k)
        self._observer = observer
        self._events = RecordedEvents(IDEMPOTENT, self.tables)
        self._partitions = k.bounds.partitions
        self._producer_ids = k.bounds.producer_ids

    def script(self, steps: Steps) -> LeaderScript:
        """The script of a trace. Raises NotAllowed, CannotPlay.

        It ends before a step that no fault at brokers brings about as the model has it
        (`playable`).
        """
        steps = playable(steps)
        world, seen = self._events.initial, 0
        heard: list[Delivery | LeaderEvent] = [*self._begun(world)]
        for step, instance in enumerate(steps, start=1):
            try:
                event = self._events.run(world, instance)
            except (Disabled, IndexError) as error:
                raise NotAllowed(step, instance) from error
            world = event.world
            seen |= event.seen()
            heard += self.reached(step, instance, event.calls)
        script = LeaderScript(steps, tuple(isolated(heard)), seen)
        self._check(script)
        return script

    def _begun(self, world: World) -> Iterator[Delivery]:
        """The batches that are stored at the beginning of the scope."""
        for partition, leader in world.leaders.items():
            for stored in leader.log:
                answer = ObservedAnswer(
                    int(Error.NONE), stored.base_offset, leader.log_start_offset
                )
                yield Delivery(0, partition, stored.batch, answer, len(leader.log))

    def reached(
        self, step: int, instance: Instance, calls: Iterable[ActorCall]
    ) -> Iterator[Delivery | LeaderEvent]:
        """The deliveries to leaders in an event."""
        partition = dict(instance[1]).get("partition", 0)
        wire = declaration_of(IDEMPOTENT.rules[instance[0]]).wire
        for call in calls:
            if not isinstance(call.actor, Leader) or call.rule in PLAYED_BY_NETWORK:
                continue
            request = call.inputs[0] if call.inputs else None
            if not isinstance(request, ProduceRequest):
                yield LeaderEvent(step, partition, call.rule.__name__, wire, call.inputs)
                continue
            # The broker gives its leader's own answer, even if the model replaces it by a later
            # error.
            (answer,) = on_produce(self._observer.k, call.actor, request).sends
            told = self._observer.told(answer)
            yield Delivery(step, partition, request.batch, told, len(call.after.log))

    def _check(self, script: LeaderScript) -> None:
        """Raises CannotPlay if a test cannot bring the script about."""
        for one in script.heard:
            if isinstance(one, LeaderEvent) and one.wire not in self._means:
                rule, _ = script.instance(one.step)
                raise CannotPlay(describe_need(f"step {one.step}", rule, one.wire))
        if "expire_producer" in script.faults and self._producer_ids > 1:
            raise CannotPlay("producers expire together; choose a scope with one producer id")
        if script.faults and self._partitions > 1:
            raise CannotPlay(
                "a broker that stops takes all its partitions with it, and the scope stops one;"
                " choose a scope with one partition, or --faults connections"
            )


def playable(steps: Steps) -> Steps:
    """The steps before a second failover, or before a stop after an expiry.

    At a second failover, the next leader was killed before, and remembers less than a replica that
    never was. Producers expire here because the test changes their expiration time for a moment; a
    broker that restarts may find some of them in an older snapshot, younger than they should be.
    """
    seen: set[str] = set()
    for i, (rule, _) in enumerate(steps):
        again = rule in FAILOVERS and not seen.isdisjoint(FAILOVERS)
        if again or (rule == "leader_restarts" and "producer_id_expires" in seen):
            return steps[:i]
        seen.add(rule)
    return steps


def isolated(heard: list[Delivery | LeaderEvent]) -> list[Delivery | LeaderEvent]:
    """Adds ISOLATE before the batches that the next leader lacks, or before the failover if it
    lacks none.

    Raises CannotPlay if it lacks batches that the previous leader had at its start: all replicas
    have those.
    """
    placed: list[Delivery | LeaderEvent] = []
    begins, had = 0, 0
    for one in heard:
        if isinstance(one, LeaderEvent) and one.rule == FAIL_OVER:
            (kept,) = one.inputs
            if kept < had:
                raise CannotPlay(f"step {one.step}: the next leader is to lack what all have")
            lacks = (i for i in range(begins, len(placed)) if _stored(placed[i]) > kept)
            placed.insert(
                next(lacks, len(placed)), LeaderEvent(one.step, one.partition, ISOLATE, one.wire)
            )
            begins, had = len(placed), kept
        placed.append(one)
    return placed


def _stored(one: Delivery | LeaderEvent) -> int:
    return one.stored if isinstance(one, Delivery) else 0
