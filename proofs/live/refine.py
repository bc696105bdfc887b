"""Refinement: each step of the protocol is a step of the page that a user believes in, or none.

Breadth first over the model's own functions. Beside each world stands the view of it that its
composition's `spec` gives; a step whose two views differ must be one that `spec.is_step` allows.
The first that is not ends a shortest trace, for no shorter path has such a step.
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
    """The scope's model has no page that its users believe in."""


class UnknownRefinementAssumption(ValueError):
    """No assumption has this name; the message lists those that there are."""


@dataclass(frozen=True, slots=True)
class Refinement:
    """What was found. `trace` ends with the first step that the page does not allow."""

    scope: str
    variant: str
    dropped: str
    distinct: int
    transitions: int
    changes: int
    trace: Trace | None

    @property
    def verdict(self) -> str:
        """holds or violated: the whole scope was seen, or a step that should not be."""
        return "holds" if self.trace is None else "violated"


def without(assumption: str, spec: Any) -> tuple[str, str]:
    """The scope and the variant that lack an assumption. Raises UnknownAssumption."""
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
        """The worlds first seen from here, and the path of a step that is not allowed, if any."""
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
    """Whether a scope refines its page; `dropped` takes a configuration that lacks an assumption.

    Raises NoSpec, UnknownAssumption, and as `setting_of`.
    """
    model = model_for(scope, patches)
    configuration_of(model, scope, variant)
    spec = model.modules.get("spec")
    if spec is None:
        raise NoSpec(f"{scope} has no page to refine; choose a scope of transactions")
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
