"""Observers of a variant: as a server's clients, or between actors.

- `ServerObserver`: a broker whose coordinator and leaders are judged over the wire, and which sends
  its markers by itself. It observes the broker's answers, its description of its state where that
  is requested, and its answers to the probes after a trace: everything that `run` compares there.
- `ActorObserver`: actors of a system in process. It observes the messages that they send.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Hashable, Sequence
from dataclasses import replace
from typing import ClassVar

from conformance.adapters.brokers.backend import ScriptWriter
from conformance.adapters.brokers.recorded_events import RecordedEvents
from conformance.adapters.brokers.transactions.nodes_script import NodesWriter, ReplayAtNodes
from conformance.adapters.brokers.transactions.transaction_probes import with_room
from conformance.adapters.brokers.transactions.transaction_script import (
    KnownEndings,
    ModelReplay,
    TransactionScriptWriter,
    events_of,
    refuse,
)
from conformance.adapters.impl.judges import tables_of
from conformance.generate.broker_graph import (
    AT_NODES,
    AT_ONE,
    DELAYS_MARKER,
    MARKER,
    UNASKED,
    events_at,
)
from conformance.judging.compositions import judged_composition
from conformance.judging.distinguish.product import Observed, World
from model.language import Disabled
from proofs.explore.source import instances
from proofs.trace.format import Instance
from proofs.trace.replay import configuration_of
from proofs.trace.shrink import Steps


class ServerObserver:
    """Observes answers over the wire. Raises NotApplicable."""

    unasked: Container[str] = ()
    taken_whole: Container[str] = ()

    def __init__(self, scope: str, variant: str) -> None:
        model = judged_composition(scope).model
        k = configuration_of(model, scope, variant)
        refuse(k, nodes=self.has_nodes)
        tables = self._tables = tables_of(with_room(k))
        messages = model.messages
        answers = (messages.Answer, messages.ProduceAnswer)
        limits = replace(tables.k, bounds=replace(tables.k.bounds, log=k.bounds.log))
        scoped = RecordedEvents(model, tables, answers, scope=limits)
        self.initial: World = scoped.initial
        self.instances: Sequence[Instance] = [i for i in instances(model, k) if self.is_played(i)]
        self._replay = functools.partial(self.replay, tables, scoped, KnownEndings())
        self._ends = functools.partial(self.replay, tables, events_of(tables), KnownEndings())

    has_nodes = False
    replay: ClassVar[Callable[..., ModelReplay]] = ModelReplay
    writer: ClassVar[Callable[..., ScriptWriter]] = TransactionScriptWriter

    def is_played(self, instance: Instance) -> bool:
        """Whether a test brings the event about."""
        return instance[0] in events_at(AT_ONE) - UNASKED

    def after(self, world: World, instance: Instance) -> Observed:
        """One step, after the markers that the server had to write. Raises Disabled."""
        replay = self._replay().at(world)
        if instance[0] != DELAYS_MARKER:
            replay.finish_markers()
        if replay.is_beyond:
            raise Disabled(by_scope=True)
        sent = replay.send(instance)
        return Observed(replay.world, sent and sent.request, sent and sent.answer)

    def behind(self, world: World) -> Hashable:
        """The server's whole observable state, and its answers to the probes."""
        replay = self._ends().at(world)
        replay.finish()
        script = replay.script()
        return script.settled, script.endings

    def trace(self, steps: Steps) -> Steps:
        """The steps with markers."""
        steps_with_markers: Steps = self.writer(self._tables).script(steps).steps
        return steps_with_markers


class NodesObserver(ServerObserver):
    """The same for three brokers, which are stopped and killed: the leader of the last partition
    may be down while the other brokers continue."""

    has_nodes = True
    writer: ClassVar[Callable[..., ScriptWriter]] = NodesWriter
    replay: ClassVar[Callable[..., ModelReplay]] = functools.partial(
        ReplayAtNodes, late_marker=False
    )

    def is_played(self, instance: Instance) -> bool:
        """Whether a test brings the event about; includes markers, which may wait."""
        rule, choice = instance
        heard = dict(choice).get("heard", 1) == 1
        return (rule in events_at(AT_NODES) - UNASKED) or (rule == MARKER and heard)

    def after(self, world: World, instance: Instance) -> Observed:
        """One step with the markers that follow, and the observable state without that of a leader
        that is held. Raises Disabled."""
        replay = self._replay().at(world)
        sent = replay.send(instance)
        shown = replay.show()
        observation = (sent and sent.answer, shown.coordinator, shown.leaders[:-1])
        return Observed(replay.world, sent and sent.request, observation)


class ActorObserver:
    """Observes the messages between actors."""

    unasked: Container[str] = UNASKED
    taken_whole: Container[str] = ()

    def __init__(self, scope: str, variant: str) -> None:
        model = judged_composition(scope).model
        k = configuration_of(model, scope, variant)
        self._events = RecordedEvents(model, tables_of(k), scope=k)
        self.initial: World = self._events.initial
        self.instances: Sequence[Instance] = instances(model, k)

    def after(self, world: World, instance: Instance) -> Observed:
        """One event, with the inputs and messages of actors in it. Raises Disabled."""
        event = self._events.run(world, instance)
        calls = [(call.rule.__name__, call.inputs, call.sends) for call in event.calls]
        return Observed(event.world, None, tuple(calls))

    def behind(self, world: World) -> Hashable:
        """Nothing: the states of actors are not observed."""

    def trace(self, steps: Steps) -> Steps:
        """The steps unchanged: actors take no steps by themselves."""
        return steps


class WorldObserver:
    """Observes a whole world, whose observable state is compared after each event. Systems of such
    a composition take whole events."""

    unasked: Container[str] = frozenset({"offset_is_fetched"})
    """A view has the answer that a fetch would get."""

    def __init__(self, scope: str, variant: str) -> None:
        model = judged_composition(scope).model
        k = configuration_of(model, scope, variant)
        self._tables = tables_of(k)
        self.taken_whole: Container[str] = frozenset(model.rules)
        self.initial: World = self._tables.first
        self.instances: Sequence[Instance] = instances(model, k)

    def after(self, world: World, instance: Instance) -> Observed:
        """One event, and the observable state after it. Raises Disabled."""
        rule, choices = instance
        node, _ = self._tables.after(world, rule, *(value for _, value in choices))
        return Observed(node, None, node.view)

    def behind(self, world: World) -> Hashable:
        """Nothing: the last state was compared already."""

    def trace(self, steps: Steps) -> Steps:
        """The steps unchanged: a world takes no steps by itself."""
        return steps
