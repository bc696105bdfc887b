"""Explores several configurations, one after another, to find where each point and pair is met
first."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from proofs.coverage.events import CoverageEvent, happening
from proofs.coverage.goals import Goals, goals
from proofs.coverage.pairs import layer, shortest_meeting, transitions
from proofs.coverage.points import Site, sites
from proofs.coverage.space import Space, WitnessPath
from proofs.coverage.states import state_points, ways
from proofs.explore.explorer import Report
from proofs.lift.build import Lifted, lift
from proofs.lift.dag import TRUE, Node, negate
from proofs.lift.machine import Machine
from proofs.lift.obligations import Claim, decide
from proofs.lift.source import Model
from proofs.trace.replay import configuration_of


@dataclass(frozen=True, slots=True)
class SurveyCase:
    """A configuration by name, and the engine that explores it."""

    scope: str
    variant: str
    engine: str = "c"


@dataclass(frozen=True, slots=True)
class FirstWitness:
    """The configuration in which something was met first, and the shortest path to it."""

    look: SurveyCase
    way: WitnessPath


@dataclass(slots=True)
class Survey:
    """The points met so far: points, states and edges by name, pairs as `a+b`; and the open ones.

    `states` has the number of states of each configuration; `open_goals` has the goals of open
    points in the `machines` that do not fold them away.
    """

    model: Model
    events: Sequence[CoverageEvent]
    points: dict[str, FirstWitness] = field(default_factory=dict)
    pairs: dict[str, FirstWitness] = field(default_factory=dict)
    states: dict[SurveyCase, int] = field(default_factory=dict)
    machines: dict[SurveyCase, Machine] = field(default_factory=dict)
    open_goals: dict[str, list[tuple[SurveyCase, Node]]] = field(default_factory=dict)

    def look(self, look: SurveyCase, *, progress: Report | None = None) -> None:
        """Explore one more configuration. Raises as `explore`, and the model's UnknownVariant."""
        k = configuration_of(self.model, look.scope, look.variant)
        lifted = lift(self.model, k, look.scope, guarantees=False)
        space = Space(lifted.machine, look.engine, progress)
        self.states[look], self.machines[look] = len(space.states), lifted.machine
        self._points(look, goals(self.model, k, self._open_sites()), space)
        self._pairs(look, k, lifted, space)
        for name, way in ways(space, lifted, k, self.model):
            self.points.setdefault(name, FirstWitness(look, way))

    def _open_sites(self) -> dict[int, Site]:
        """Return the places of the text with an outcome that no configuration has met yet."""
        return {
            tree: site
            for tree, site in sites(self.model).items()
            if not {site.point(holds=holds).name for holds in (True, False)} <= self.points.keys()
        }

    def _points(self, look: SurveyCase, every: Goals, space: Space) -> None:
        """Search for the points that have not been met yet."""
        wanted = {point: every[point] for point in every.keys() - self.points.keys()}
        for point, way in space.first(wanted).items():
            self.points[point] = FirstWitness(look, way)
            self.open_goals.pop(point, None)
        unmet = {point: ways for point, ways in wanted.items() if point not in self.points}
        for point, possible in space.possible(unmet).items():
            if possible:
                nodes = ((look, node) for _, node in possible)
                self.open_goals.setdefault(point, []).extend(nodes)

    def _pairs(self, look: SurveyCase, k: Any, lifted: Lifted, space: Space) -> None:
        """Search for the pairs that have not been met yet."""
        can_be = happening(self.model, k, lifted.world, self.events, space.instances)
        missing = [pair for pair in every_pair(self.events) if pair not in self.pairs]
        wanted = [pair for pair in missing if set(pair.split("+")) <= can_be.keys()]
        names = {name for pair in wanted for name in pair.split("+")}
        layers = {name: layer(space, transitions(space, can_be[name])) for name in names}
        for pair in wanted:
            first, second = pair.split("+")
            run = shortest_meeting(space, layers[first], layers[second])
            if run is not None:
                self.pairs[pair] = FirstWitness(look, WitnessPath(space.steps(run)))


def evidence(surveys: Sequence[Survey], unmet: Iterable[str]) -> dict[str, str]:
    """Return by point how certain it is that no configuration meets it.

    Either no configuration evaluates the place to this outcome, because the conditions are folded
    away; or the declared ranges exclude it (Z3); or no explored state meets it.
    """
    read_off = {point.name for survey in surveys for point in state_points(survey.model)}
    found = {
        name: "not met" if "+" in name or name in read_off else "never evaluated" for name in unmet
    }
    for survey in surveys:
        claims: dict[SurveyCase, list[Claim]] = {}
        for point in found.keys() & survey.open_goals.keys():
            found[point] = "excluded by ranges"
            for look, condition in survey.open_goals[point]:
                claims.setdefault(look, []).append(Claim(point, TRUE, negate(condition)))
        for look, excluded in claims.items():
            decided = decide(survey.machines[look], excluded)
            found |= {d.name: "not met" for d in decided if d.result != "holds"}
    return found


def every_pair(events: Iterable[CoverageEvent]) -> list[str]:
    """Return every two events, as `a+b`, in the order of the table."""
    names = dict.fromkeys(event.name for event in events)
    return [f"{a}+{b}" for a, b in itertools.combinations(names, 2)]
