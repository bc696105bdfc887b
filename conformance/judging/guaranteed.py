"""The guarantees that the judged traces exercised, and those that they broke.

Two rules:

1. As long as a system agrees with the model, its worlds are the model's. If the scope was explored,
   each state was checked then, and the covered transitions tell which states were met. If it was
   not explored, each trace is walked on the model's functions, and each world is checked once. A
   diverging trace counts up to the step before the difference.
2. The world of a system that diverged is built from what the system shows of itself. Nothing
   follows the system beyond its first difference.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import Any, Final

from conformance.generate.models import model_of_configuration
from conformance.judging.backend import TraceRange
from conformance.judging.compositions import JudgedComposition, judged_composition
from conformance.judging.findings import JudgedRange
from conformance.judging.judge import Steps
from conformance.judging.plan import PreparedPlan, configuration
from model.properties import Guarantee
from proofs.trace.format import Choice
from proofs.trace.replay import Stepper

HOLDS: Final = "holds"
VIOLATED: Final = "violated"
NOT_EXERCISED: Final = "not_exercised"

MAX_WORLDS: Final = 200_000
"""The number of worlds that a walker remembers; then it starts again with an empty cache."""


@dataclass(frozen=True, slots=True)
class ObservedProperties:
    """The names of the guarantees that were broken somewhere, and of the witnesses that were
    met."""

    broken: frozenset[str] = frozenset()
    met: frozenset[str] = frozenset()

    def merge(self, other: ObservedProperties) -> ObservedProperties:
        """Merge two results."""
        return ObservedProperties(self.broken | other.broken, self.met | other.met)


def observe_world(k: Any, world: Any) -> ObservedProperties:
    """The guarantees that one world breaks, and the witnesses that it meets."""
    guarantees = model_of_configuration(k).guarantees
    return ObservedProperties(
        frozenset(p.name for p in guarantees.GUARANTEES if not p.check(k, world)),
        frozenset(w.name for w in guarantees.WITNESSES if w.check(k, world)),
    )


def statuses(seen: ObservedProperties, k: Any) -> dict[str, str]:
    """The status of each guarantee: violated, holds, or not exercised."""
    guarantees = model_of_configuration(k).guarantees
    return {p.name: status(p, seen, k) for p in guarantees.GUARANTEES}


def status(guarantee: Guarantee[Any, Any], seen: ObservedProperties, k: Any) -> str:
    """The status of one guarantee. A broken one was exercised, whatever its witness says."""
    if guarantee.name in seen.broken:
        return VIOLATED
    witnesses = model_of_configuration(k).guarantees.WITNESSES
    was_met = any(w.check is guarantee.witness and w.name in seen.met for w in witnesses)
    return HOLDS if was_met and guarantee.needs(k) else NOT_EXERCISED


def not_guaranteed(k: Any) -> list[str]:
    """The guarantees that this variant does not give in this scope."""
    model = model_of_configuration(k)
    return [p.name for p in model.guarantees.GUARANTEES if not p.guaranteed(k)]


# Explored states


def observe_transitions(prepared: PreparedPlan, transitions: bytes) -> ObservedProperties:
    """The properties of the states that a summary's transitions reach, in an explored scope."""
    bits = prepared.shows(transitions)
    named = judged_composition(prepared.plan.scope).model.guarantees
    guarantees, witnesses = ([s.name for s in kind] for kind in (named.GUARANTEES, named.WITNESSES))
    found = frozenset(n for i, n in enumerate((*guarantees, *witnesses)) if bits >> i & 1)
    return ObservedProperties(found.intersection(guarantees), found.intersection(witnesses))


# Walking on the model


@dataclass(slots=True)
class ExploredWorld:
    """A world, its properties, and the successors by rule instance that are known so far."""

    world: Any
    seen: ObservedProperties
    next: dict[tuple[str, Choice], ExploredWorld] = field(default_factory=dict)


class GuaranteeWalker:
    """Walks traces on the model; its cache of worlds serves all traces."""

    def __init__(self, k: Any) -> None:
        self._stepper = Stepper(model_of_configuration(k), k)
        self._places: dict[Any, ExploredWorld] = {}

    def walk(self, steps: Steps) -> ObservedProperties:
        """The properties of all worlds of a trace, including the first."""
        place = self._place(self._stepper.initial())
        broken, met = set(place.seen.broken), set(place.seen.met)
        for instance in steps:
            following = place.next.get(instance)
            if following is None:
                world = self._stepper.apply(*instance, place.world)
                following = place.next[instance] = self._place(world)
            place = following
            broken |= place.seen.broken
            met |= place.seen.met
        return ObservedProperties(frozenset(broken), frozenset(met))

    def _place(self, world: Any) -> ExploredWorld:
        place = self._places.get(world)
        if place is None:
            if len(self._places) >= MAX_WORLDS:
                self._forget()
            place = self._places[world] = ExploredWorld(
                world, observe_world(self._stepper.k, world)
            )
        return place

    def _forget(self) -> None:
        for place in self._places.values():
            place.next.clear()
        self._places.clear()


@functools.lru_cache(maxsize=8)
def walker_of(k: Any) -> GuaranteeWalker:
    """The walker of a configuration; it serves all ranges that this process judges."""
    return GuaranteeWalker(k)


def guarantees_of(
    prepared: PreparedPlan, part: TraceRange, judged: JudgedRange
) -> ObservedProperties:
    """The properties that the traces showed up to the last step on which system and model
    agreed."""
    if prepared.transitions_total is not None:
        return observe_transitions(prepared, judged.summary.transitions)
    agreed = judged.agreed
    walker = walker_of(configuration(prepared.plan))
    seen = ObservedProperties()
    for number in range(part.first, part.last):
        steps = prepared.trace(number)
        seen = seen.merge(walker.walk(steps[: agreed.get(number, len(steps))]))
    return seen


# Worlds of a system that diverged


def without_unshown(seen: ObservedProperties, composition: JudgedComposition) -> ObservedProperties:
    """The properties without guarantees about parts of a world that no system of the composition
    shows."""
    guarantees = composition.model.guarantees.GUARANTEES
    shown = {p.name for p in guarantees if composition.unshown.isdisjoint(p.about)}
    return replace(seen, broken=seen.broken & shown)
