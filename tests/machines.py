"""Rule-based machines made from the model's rules, to run against a system.

A *system* is anything that can be put back to its beginning and told each step with the worlds
around it; it raises where it sees a difference (what runs `impl` is `conformance`'s). Two drivers:

1. `machine(...)` is a Hypothesis `RuleBasedStateMachine`: one rule for each rule of the world,
   offered while it is enabled, its choices drawn from those that are. Hypothesis shrinks.
2. `execute_all(...)` is exhaustive: steered by an explored graph, it executes every labelled
   transition and returns what it executed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from hypothesis import strategies
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from proofs.explore.source import SourceGraph, instances
from proofs.lift.source import Model
from proofs.trace.format import Choice, Instance
from proofs.trace.replay import Stepper, World

Transition = tuple[int, int, int]
"""(state, rule instance, state), by number as in a `SourceGraph`."""


class MachineSubject(Protocol):
    """What a machine runs against."""

    def reset(self) -> None:
        """Back to the beginning of the scope."""

    def step(self, rule: str, choice: Mapping[str, int], before: World, after: World) -> None:
        """One event, with the worlds around it. Raises AssertionError if the system differs."""


class LeftTheGraph(AssertionError):
    """A step of the model led to another world than the explored graph says."""


class Play:
    """A run of the model and a system, side by side. `world` is where it stands."""

    def __init__(self, stepper: Stepper, system: MachineSubject) -> None:
        self.stepper = stepper
        self.system = system
        self.instances = instances(stepper.model, stepper.k)
        self.reset()

    def reset(self) -> None:
        """Both at the beginning."""
        self.system.reset()
        self.world = self.stepper.initial()

    def enabled(self, name: str) -> list[Choice]:
        """The choices with which a rule is enabled now, in their order."""
        return [
            choice
            for other, choice in self.instances
            if other == name and self.stepper.after(other, choice, self.world) is not None
        ]

    def fire(self, instance: Instance) -> None:
        """One event. Raises the model's Disabled, and whatever the system raises."""
        name, choice = instance
        before, self.world = self.world, self.stepper.apply(name, choice, self.world)
        self.system.step(name, dict(choice), before, self.world)


# Hypothesis


class ModelMachine(RuleBasedStateMachine):
    """The base of generated machines: a play, and what to do where nothing is enabled."""

    play: Play

    def is_over(self) -> bool:
        """Whether no rule is enabled."""
        return not any(self.play.enabled(name) for name in self.play.stepper.model.rules)

    @precondition(is_over)
    @rule()
    def begin_again(self) -> None:
        """At the end of a run the next one begins: Hypothesis wants a rule in every state."""
        self.play.reset()


def machine_rule(name: str) -> Any:
    """One rule of the world as a rule of Hypothesis."""

    def offered(machine: ModelMachine) -> bool:
        return bool(machine.play.enabled(name))

    def fires(machine: ModelMachine, data: strategies.DataObject) -> None:
        choice = data.draw(strategies.sampled_from(machine.play.enabled(name)), label=name)
        machine.play.fire((name, choice))

    fires.__name__ = name
    return precondition(offered)(rule(data=strategies.data())(fires))


def machine(
    model: Model, k: Any, system: Callable[[], MachineSubject]
) -> type[RuleBasedStateMachine]:
    """A machine class; `.TestCase` of it is a test. `system` makes a fresh system for each run."""

    def begin(self: ModelMachine) -> None:
        super(made, self).__init__()
        self.play = Play(Stepper(model, k), system())

    rules: dict[str, Any] = {name: machine_rule(name) for name in model.rules}
    made: type[ModelMachine] = type("Machine", (ModelMachine,), {"__init__": begin, **rules})
    return made


# Exhaustive


@dataclass(slots=True)
class Tour:
    """Which transitions of a graph are still to be executed, by the state they begin in."""

    leaving: dict[int, list[Transition]]
    missing: dict[int, list[Transition]]

    @classmethod
    def of(cls, graph: SourceGraph) -> Tour:
        """All of them."""
        leaving: dict[int, list[Transition]] = {}
        for edge in graph.edges:
            leaving.setdefault(edge[0], []).append(edge)
        return cls(leaving, {state: edges[::-1] for state, edges in leaving.items()})

    def next_from(self, state: int) -> tuple[Transition, ...]:
        """The shortest way to a missing transition and over it; () if there is none from here."""
        came: dict[int, Transition | None] = {state: None}
        queue = deque([state])
        while queue:
            here = queue.popleft()
            if self.missing.get(here):
                return (*way(came, here), self.missing[here].pop())
            for edge in self.leaving.get(here, ()):
                if edge[2] not in came:
                    came[edge[2]] = edge
                    queue.append(edge[2])
        return ()


def way(came: Mapping[int, Transition | None], state: int) -> Iterator[Transition]:
    """The transitions that led a search to a state, first to last."""
    found = []
    edge = came[state]
    while edge is not None:
        found.append(edge)
        edge = came[edge[0]]
    return reversed(found)


def execute_all(
    model: Model, k: Any, graph: SourceGraph, system: MachineSubject
) -> tuple[frozenset[Transition], int]:
    """Execute every transition of the graph; what was executed, and in how many steps.

    Raises LeftTheGraph, and whatever the system raises.
    """
    play, tour = Play(Stepper(model, k), system), Tour.of(graph)
    executed: set[Transition] = set()
    state = steps = 0
    while True:
        ahead = tour.next_from(state)
        if not ahead and state == 0:
            return frozenset(executed), steps
        if not ahead:
            play.reset()
            state = 0
        for edge in ahead:
            play.fire(graph.instances[edge[1]])
            if play.world != graph.worlds[edge[2]]:
                raise LeftTheGraph(f"{graph.instances[edge[1]]} from state {edge[0]}")
            executed.add(edge)
            state, steps = edge[2], steps + 1
