"""Observes leaders alone, over the wire of one broker: everything that `run` compares there.

Leaders answer producers, describe producer states, and answer the probes after a trace. A broker
that is killed may recover from any snapshot, so its later answers reveal no rule: kills are left
out. Brokers with several replicas are not searched, because leaders have the same rules there.
"""

from __future__ import annotations

import functools
from collections.abc import Container, Hashable, Sequence
from typing import Final

from conformance.adapters.brokers.idempotent.deliveries import Delivery, LeaderScriptWriter
from conformance.adapters.brokers.idempotent.leader_probes import PROBES, heard_producers
from conformance.adapters.brokers.idempotent.observer import (
    ObservedAnswer,
    Observer,
    ProducerState,
    producer_state,
)
from conformance.adapters.brokers.idempotent.started_brokers import means_at_one
from conformance.adapters.brokers.kafka.releases import find_release
from conformance.adapters.brokers.recorded_events import RecordedEvents
from conformance.generate.faults import events_by
from conformance.judging.compositions import IDEMPOTENT
from conformance.judging.distinguish.product import Observed, World
from model.idempotent.leader import Leader, on_produce
from model.idempotent.messages import ProduceRequest
from proofs.explore.source import instances
from proofs.trace.format import Instance
from proofs.trace.replay import configuration_of
from proofs.trace.shrink import Steps

KILLED: Final = "leader_crashes"
"""Events after which a broker's state is its own choice."""

Shown = tuple[tuple[tuple[int, ProducerState], ...], tuple[ObservedAnswer, ...]]


class LeaderObserver:
    """The leaders of one broker. Raises CannotPlay for a scope that they cannot have."""

    unasked: Container[str] = ()
    taken_whole: Container[str] = ()

    def __init__(self, scope: str, variant: str) -> None:
        model = IDEMPOTENT.model
        k = configuration_of(model, scope, variant)
        release = find_release(k.variant.release)
        means = means_at_one(release)
        self._describes = release.describes_producers
        self._observer = Observer(k)
        self._writer = LeaderScriptWriter(k, self._observer, means)
        self._events = RecordedEvents(model, self._writer.tables, scope=self._observer.k)
        self._shown = functools.lru_cache(maxsize=100_000)(self._show)
        self.initial: World = self._events.initial
        played = events_by(model, means) - {KILLED}
        self.instances: Sequence[Instance] = [i for i in instances(model, k) if i[0] in played]

    def after(self, world: World, instance: Instance) -> Observed:
        """One event, the requests that reach leaders, and their answers. Raises Disabled."""
        event = self._events.run(world, instance)
        reached = list(self._writer.reached(0, instance, event.calls))
        answers = tuple(one.answer for one in reached if isinstance(one, Delivery))
        inputs = [(one.partition, _given(one)) for one in reached]
        return Observed(event.world, tuple(inputs), answers)

    def behind(self, world: World) -> Hashable:
        """Each leader's description of producers, and its answers to the probes."""
        return tuple(map(self._shown, world.leaders.values()))  # type: ignore[attr-defined]

    def trace(self, steps: Steps) -> Steps:
        """The steps unchanged: leaders take no steps by themselves. Raises CannotPlay."""
        played: Steps = self._writer.script(steps).steps
        return played

    def _show(self, leader: Leader) -> Shown:
        k = self._observer.k
        known = [p for p in range(k.bounds.producer_ids) if leader.producers[p].batches]
        states = tuple((p, producer_state(leader, p)) for p in known if self._describes)
        answers: list[ObservedAnswer] = []
        for producer in heard_producers(k, leader):
            for probe in PROBES.values():
                for batch in probe(k, leader, producer):
                    step = on_produce(k, leader, ProduceRequest(batch))
                    leader = step.actor
                    answers.append(self._observer.told(step.sends[0]))
        return states, tuple(answers)


def _given(one: object) -> Hashable:
    """The inputs of a leader, without its answers."""
    return one.batch if isinstance(one, Delivery) else one[2:]  # type: ignore[index]
