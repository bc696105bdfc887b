"""Refinement: each step of the protocol is a step of the abstract specification, or changes nothing
in its view.

The search is breadth first, over the model's own functions. The composition's `spec` maps each
world to a view. If a step changes the view, `spec.is_step` must allow the change, and the change
must be one of `spec.STEPS`, by one of this step's events. The first step that is not allowed ends a
shortest counterexample. Each of `spec.STEPS` must happen, except those that the scope never has.
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from proofs.explore.result import SearchProgress
from proofs.explore.scope import is_as_named
from proofs.explore.sometimes import Sometimes, compare_unpatched, sometimes
from proofs.explore.source import instances, successors
from proofs.lift.patch import Patch
from proofs.lift.source import model_for
from proofs.run import worst
from proofs.trace.format import Header, Instance, Trace
from proofs.trace.replay import Stepper, World, configuration_of, record

TICK_STATES = 512


class NoSpec(ValueError):
    """The scope's composition has no abstract specification."""


class UnknownRefinementAssumption(ValueError):
    """No assumption has this name; the message lists the assumptions."""


@dataclass(frozen=True, slots=True)
class Refinement:
    """The result. `trace` ends with the first step that the specification does not allow, and `why`
    says what is wrong with it. `steps` counts the changes by abstract step."""

    scope: str
    variant: str
    dropped: str
    distinct: int
    transitions: int
    changes: int
    steps: Mapping[str, int]
    trace: Trace | None
    why: str
    sometimes: Sometimes

    @property
    def verdict(self) -> str:
        """The verdict: `holds` if the whole scope was searched, `violated` if a step is not
        allowed, `vacuous` if an abstract step or an event that must happen never does."""
        return worst(("holds" if self.trace is None else "violated", self.sometimes.verdict))


def without(assumption: str, spec: Any) -> tuple[str, str]:
    """Return the scope and the variant that lack an assumption. Raises
    UnknownRefinementAssumption."""
    if assumption not in spec.ASSUMPTIONS:
        known = ", ".join(spec.ASSUMPTIONS)
        raise UnknownRefinementAssumption(
            f"no assumption is called {assumption!r}; choose one of {known}"
        )
    lacking = spec.ASSUMPTIONS[assumption]
    return lacking.scope, lacking.variant


class Walk:
    """The search: worlds with their views, and how each was reached."""

    def __init__(self, stepper: Stepper, spec: Any) -> None:
        first = stepper.initial()
        self.stepper = stepper
        self.spec = spec
        self.of = instances(stepper.model, stepper.k)
        self.views: dict[World, Any] = {}
        self.known: dict[Any, Any] = {}
        self.found: dict[tuple[int, int], tuple[bool, tuple[str, ...]]] = {}
        self.steps = Counter({step.name: 0 for step in spec.STEPS})
        self.happened: set[str] = set()
        self.why = ""
        self.add_view(first)
        self.parents: dict[World, tuple[World, int] | None] = {first: None}
        self.frontier = [first]
        self.depth = self.transitions = self.changes = 0

    def add_view(self, world: World) -> None:
        """Keep the world's view; equal views are one object."""
        view = self.spec.view(self.stepper.k, world)
        self.views[world] = self.known.setdefault(view, view)

    def classify(self, before: Any, after: Any) -> tuple[bool, tuple[str, ...]]:
        """Return whether one view may follow another, and the abstract steps that this is."""
        pair = id(before), id(after)
        if pair not in self.found:
            names = tuple(s.name for s in self.spec.STEPS if s.happens(before, after))
            self.found[pair] = self.spec.is_step(before, after), names
        return self.found[pair]

    def wrong(self, before: Any, after: Any, rule: str) -> str:
        """Return what is wrong with a change that a rule makes; "" if it is allowed."""
        allowed, names = self.classify(before, after)
        self.steps.update(names)
        if not allowed or not names:
            return "this is no step of the specification"
        others = [s.name for s in self.spec.STEPS if s.name in names and rule not in s.events]
        return f"{others[0]} is no step of {rule}" if others else ""

    def path(self, world: World) -> list[Instance]:
        """Return the rule instances that lead to a world."""
        steps: list[Instance] = []
        parent = self.parents[world]
        while parent is not None:
            world, number = parent
            steps.append(self.of[number])
            parent = self.parents[world]
        return steps[::-1]

    def expand(self, world: World) -> tuple[list[World], list[Instance] | None]:
        """Return the new worlds after this one, and the path to a step that is not allowed, if
        any."""
        found = []
        before = self.views[world]
        for number, after in successors(self.stepper, world, self.of):
            self.transitions += 1
            self.happened.add(self.of[number][0])
            if after not in self.views:
                self.add_view(after)
                self.parents[after] = (world, number)
                found.append(after)
            if before is not self.views[after]:
                self.changes += 1
                self.why = self.wrong(before, self.views[after], self.of[number][0])
                if self.why:
                    return found, [*self.path(world), self.of[number]]
        return found, None

    def run(self, progress: Callable[[SearchProgress], None]) -> list[Instance] | None:
        """Search all levels, or up to the first step that is not allowed, and return the path of
        this step."""
        begun = time.perf_counter()
        while self.frontier:
            later: list[World] = []
            for position, world in enumerate(self.frontier):
                found, wrong = self.expand(world)
                later += found
                if wrong is not None:
                    return wrong
                if position % TICK_STATES == 0:
                    progress(self.now(position, time.perf_counter() - begun))
            self.frontier = later
            self.depth += 1
        return None

    def now(self, expanded: int, seconds: float) -> SearchProgress:
        """Return the progress of the search."""
        return SearchProgress(
            self.depth, expanded, len(self.frontier), len(self.views), self.transitions, seconds
        )


def refine(
    scope: str,
    variant: str,
    *,
    dropped: str = "",
    patches: tuple[Patch, ...] = (),
    progress: Callable[[SearchProgress], None] = lambda now: None,
) -> Refinement:
    """Check whether a scope refines its specification; `dropped` names an assumption to leave out.

    Raises NoSpec, UnknownRefinementAssumption, and as `configuration_of`.
    """
    model = model_for(scope, patches)
    configuration_of(model, scope, variant)
    spec = model.modules.get("spec")
    if spec is None:
        raise NoSpec(f"{scope} has no specification to refine; choose a scope of transactions")
    if dropped:
        scope, variant = without(dropped, spec)
    stepper = Stepper(model, configuration_of(model, scope, variant))
    walk = Walk(stepper, spec)
    wrong = walk.run(progress)
    name = stepper.k.variant.name
    rows = tuple((patch.function, patch.before, patch.after) for patch in patches)
    header = Header(scope, name, patches=rows)
    trace = None if wrong is None else record(stepper, header, wrong)[0]
    return Refinement(
        scope=scope,
        variant=name,
        dropped=dropped,
        distinct=len(walk.views),
        transitions=walk.transitions,
        changes=walk.changes,
        steps=dict(walk.steps),
        trace=trace,
        why=walk.why,
        sometimes=Sometimes() if trace or dropped else sometimes_walked(walk, scope, patches),
    )


def sometimes_walked(walk: Walk, scope: str, patches: tuple[Patch, ...]) -> Sometimes:
    """Compare the scope's claims with a complete search: events, and abstract steps."""
    stepper, variant = walk.stepper, walk.stepper.k.variant.name
    claims = sometimes(
        stepper.model,
        scope,
        variant,
        walk.steps,
        walk.happened | set(+walk.steps),
        enforce=is_as_named(stepper, scope),
    )
    if patches and (claims.lost or claims.unexpected):
        return compare_unpatched(claims, happened_unpatched(scope, variant), {})
    return claims


@functools.lru_cache(maxsize=64)
def happened_unpatched(scope: str, variant: str) -> frozenset[str]:
    """Return what happens in the model without patches."""
    model = model_for(scope)
    walk = Walk(Stepper(model, configuration_of(model, scope, variant)), model.spec)
    walk.run(lambda now: None)
    return frozenset(walk.happened | set(+walk.steps))
