"""Refinement: each step of the protocol is a step of the abstract specification, or changes nothing
that it speaks of.

The search is breadth first, over the model's own functions. Each world is mapped to a view by its
composition's `spec`. Where a step changes the view, `spec.is_step` must allow the change. The first
step that it does not allow ends a shortest counterexample.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from proofs.explore.result import SearchProgress
from proofs.explore.source import instances, successors
from proofs.lift.patch import Patch
from proofs.lift.source import model_for
from proofs.trace.format import Header, Instance, Trace
from proofs.trace.replay import Stepper, World, configuration_of, record

TICK_STATES = 512


class NoSpec(ValueError):
    """The scope's composition has no abstract specification."""


class UnknownRefinementAssumption(ValueError):
    """No assumption has this name; the message lists those that there are."""


@dataclass(frozen=True, slots=True)
class Refinement:
    """What was found. `trace` ends with the first step that the specification does not allow."""

    scope: str
    variant: str
    dropped: str
    distinct: int
    transitions: int
    changes: int
    trace: Trace | None

    @property
    def verdict(self) -> str:
        """`holds` if the whole scope was searched, `violated` if a step is not allowed."""
        return "holds" if self.trace is None else "violated"


def without(assumption: str, spec: Any) -> tuple[str, str]:
    """The scope and the variant that lack an assumption. Raises UnknownRefinementAssumption."""
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
        self.views: dict[World, Any] = {first: spec.view(stepper.k, first)}
        self.parents: dict[World, tuple[World, int] | None] = {first: None}
        self.frontier = [first]
        self.depth = self.transitions = self.changes = 0

    def path(self, world: World) -> list[Instance]:
        """The rule instances that lead to a world."""
        steps: list[Instance] = []
        parent = self.parents[world]
        while parent is not None:
            world, number = parent
            steps.append(self.of[number])
            parent = self.parents[world]
        return steps[::-1]

    def expand(self, world: World) -> tuple[list[World], list[Instance] | None]:
        """The new worlds behind this one, and the path to a step that is not allowed, if any."""
        found = []
        before = self.views[world]
        for number, after in successors(self.stepper, world, self.of):
            self.transitions += 1
            if after not in self.views:
                self.views[after] = self.spec.view(self.stepper.k, after)
                self.parents[after] = (world, number)
                found.append(after)
            if before != self.views[after]:
                self.changes += 1
                if not self.spec.is_step(before, self.views[after]):
                    return found, [*self.path(world), self.of[number]]
        return found, None

    def run(self, progress: Callable[[SearchProgress], None]) -> list[Instance] | None:
        """All levels, or up to the first step that is not allowed: its path."""
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
        """How far the search is."""
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
    """Whether a scope refines its specification; `dropped` names an assumption to do without.

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
    return Refinement(scope, name, dropped, len(walk.views), walk.transitions, walk.changes, trace)
