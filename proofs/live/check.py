"""Checks liveness in an unbounded scope: each property, under all its assumptions or without one.

The model's tables name the properties (`model.idempotent.liveness`). For each, the complete graph
of the scope is searched for a loop that violates the property and keeps every assumption.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from proofs.explore.engines import say_on_stderr
from proofs.explore.explorer import Report
from proofs.explore.scope import DEFAULT_VARIANT, header_of, is_as_named
from proofs.explore.sometimes import Sometimes, compare_unpatched, sometimes
from proofs.lift.compiler import NoCompiler
from proofs.lift.patch import Patch
from proofs.lift.source import Model, model_for
from proofs.live.fair import Bools, Loop, LoopQuestion, Strong, Weak, shortest_loop
from proofs.live.graph import Explored, GraphQuestion, Place, Sentence, explored, places
from proofs.live.lasso import Lasso, lasso
from proofs.run import worst
from proofs.trace.replay import Stepper, UnknownScope, configuration_of


class UnknownAssumption(ValueError):
    """No property of the scope rests on an assumption of this name."""


@dataclass(frozen=True, slots=True)
class PropertyOutcome:
    """The result for one property. `fairness` names the assumptions; `exercised` says whether its
    "if" happens at all."""

    name: str
    guaranteed: bool
    fairness: tuple[str, ...]
    exercised: bool
    lasso: Lasso | None

    @property
    def holds(self) -> bool:
        """Whether no run violates the property."""
        return self.lasso is None


@dataclass(frozen=True, slots=True)
class LiveReport:
    """The results for a scope's properties. `cut` names assumptions that the scope's sizes make
    void, because a limit forbids somewhere what they require; a property with such an assumption is
    undecided. `sometimes` has the properties whose "if" never happens, and the events that never
    do."""

    scope: str
    variant: str
    dropped: str | None
    distinct: int
    transitions: int
    cut: tuple[str, ...]
    sometimes: Sometimes
    outcomes: tuple[PropertyOutcome, ...] = field(default=())

    @property
    def verdict(self) -> str:
        """The verdict. A lasso is a violation even if the scope cuts an assumption, but `holds`
        needs that none is cut. Properties that are not guaranteed may fail, unless an assumption is
        dropped: then every lasso counts."""
        counted = (o for o in self.outcomes if o.guaranteed or self.dropped is not None)
        kept = "holds" if all(outcome.holds for outcome in counted) else "violated"
        return worst((kept, self.sometimes.verdict, "undecided" if self.cut else "holds"))

    def outcome(self, name: str) -> PropertyOutcome:
        """Return the outcome of one property."""
        return next(o for o in self.outcomes if o.name == name)


# The table, in terms of the graph


def events_of(fairness: Any) -> tuple[Any, ...]:
    """Return the events of an assumption; the last one is the event that must be possible."""
    return (fairness.event,) if is_weak(fairness) else (fairness.often, fairness.then)


def is_weak(fairness: Any) -> bool:
    """Whether an assumption is of the kind `Happens`."""
    return hasattr(fairness, "event")


def is_ceasing(guarantee: Any) -> bool:
    """Whether a property is of the kind `Ceases`."""
    return hasattr(guarantee, "event")


def sentences(model: Model) -> list[Sentence]:
    """Return the functions of the table that are evaluated on states."""
    table = model.liveness
    events = [e for a in table.ASSUMPTIONS.values() for e in events_of(a.fairness)]
    events += [p.event for p in table.EVENTUALLY if is_ceasing(p)]
    asked = [e.when for e in events if e.when is not None]
    asked += [p.pending for p in table.EVENTUALLY if not is_ceasing(p)]
    return list(dict.fromkeys(asked))


def fair_rules(model: Model) -> list[str]:
    """Return the rules whose occurrence some assumption requires."""
    every = model.liveness.ASSUMPTIONS.values()
    return sorted({rule for a in every for rule in events_of(a.fairness)[-1].rules})


def constraints(
    graph: Explored, assumptions: Iterable[Any]
) -> tuple[tuple[Weak, ...], tuple[Strong, ...]]:
    """Return the assumptions at all places, as weak and strong fairness."""
    weak: list[Weak] = []
    strong: list[Strong] = []
    for assumption in assumptions:
        for place in places(graph.k):
            first, *others = (graph.taken(e, place) for e in events_of(assumption.fairness))
            if others:
                strong.append(Strong(first, others[0]))
            else:
                weak.append(Weak(graph.edges.begins(first), first))
    return tuple(weak), tuple(strong)


def asked_of(graph: Explored, guarantee: Any, place: Place) -> tuple[Bools, Bools, Bools | None]:
    """Return (states, edges, must) in which a loop would break a property."""
    if is_ceasing(guarantee):
        return graph.depth >= 0, graph.rules >= 0, graph.taken(guarantee.event, place)
    pending = graph.value(guarantee.pending, place)
    same = pending[graph.edges.sources] == pending[graph.edges.targets]
    return pending != 0, same, None


def is_exercised(graph: Explored, guarantee: Any) -> bool:
    """Whether the subject of a property occurs at some place."""
    if is_ceasing(guarantee):
        return any(graph.taken(guarantee.event, place).any() for place in places(graph.k))
    return any(graph.value(guarantee.pending, place).any() for place in places(graph.k))


def cut(graph: Explored, model: Model, guarantees: Iterable[Any]) -> tuple[str, ...]:
    """Return the assumptions that the scope's sizes make void."""
    names = dict.fromkeys(name for guarantee in guarantees for name in guarantee.under)
    wanted = {n: events_of(model.liveness.ASSUMPTIONS[n].fairness)[-1] for n in names}
    return tuple(
        name
        for name, event in wanted.items()
        if any(graph.is_cut(event, place) for place in places(graph.k))
    )


# Checking


@dataclass(frozen=True, slots=True)
class Live:
    """An explored scope: its properties can be checked, under all assumptions or without one."""

    stepper: Stepper
    scope: str
    engine: str
    patches: tuple[Patch, ...]
    graph: Explored

    def report(self, drop: str | None = None, only: Collection[str] = ()) -> LiveReport:
        """Check the scope's properties, or those of `only`; with `drop`, those that rest on this
        assumption, without it.

        Raises UnknownAssumption, and EnginesDisagree if the source does not confirm a lasso.
        """
        guarantees = asked_for(self.stepper, only, drop)
        asked = [guarantee.name for guarantee in guarantees]
        return LiveReport(
            scope=self.scope,
            variant=self.stepper.k.variant.name,
            dropped=drop,
            distinct=self.graph.edges.states,
            transitions=len(self.graph.rules),
            cut=cut(self.graph, self.stepper.model, guarantees),
            sometimes=Sometimes() if drop else self.sometimes(asked),
            outcomes=tuple(self.outcome(guarantee, drop) for guarantee in guarantees),
        )

    def sometimes(self, asked: Sequence[str]) -> Sometimes:
        """Compare the scope's claims with what happens in it: events, and the "if" of
        properties."""
        stepper, variant = self.stepper, self.stepper.k.variant.name
        claims = sometimes(
            stepper.model,
            self.scope,
            variant,
            asked,
            self.happened(),
            enforce=is_as_named(stepper, self.scope),
        )
        if self.patches and (claims.lost or claims.unexpected):
            unpatched = live_unpatched(self.scope, variant, self.engine)
            return compare_unpatched(claims, unpatched.happened(), {})
        return claims

    def happened(self) -> frozenset[str]:
        """Return the events that happened, and the properties whose "if" did."""
        rules = {self.graph.instances[number][0] for number in np.unique(self.graph.rules)}
        asked = asked_for(self.stepper, (), None)
        return frozenset({*rules, *(p.name for p in asked if is_exercised(self.graph, p))})

    def outcome(self, guarantee: Any, drop: str | None) -> PropertyOutcome:
        """Return the outcome of a property over all places, with the shortest of its lassos."""
        under = tuple(name for name in guarantee.under if name != drop)
        assumed = [self.stepper.model.liveness.ASSUMPTIONS[name] for name in under]
        weak, strong = constraints(self.graph, assumed)
        found: list[Lasso] = []
        for place in places(self.graph.k):
            states, edges, must = asked_of(self.graph, guarantee, place)
            question = LoopQuestion(self.graph.edges, states, edges, weak, strong, must)
            loop = shortest_loop(question, self.graph.depth)
            if loop is not None:
                found.append(self.lasso(guarantee, assumed, place, loop))
        shortest = min(found, key=lambda one: len(one.trace.steps), default=None)
        guaranteed = bool(guarantee.guaranteed(self.graph.k))
        exercised = is_exercised(self.graph, guarantee)
        return PropertyOutcome(guarantee.name, guaranteed, under, exercised, shortest)

    def lasso(self, guarantee: Any, assumed: Sequence[Any], place: Place, loop: Loop) -> Lasso:
        """Return a loop with the path to it, replayed on the source."""
        return lasso(
            self.stepper,
            header_of(self.stepper, self.scope, self.patches),
            places(self.graph.k),
            place,
            [self.graph.instance(edge) for edge in self.graph.stem(loop.state)],
            [self.graph.instance(edge) for edge in loop.edges],
            guarantee,
            assumed,
        )


def asked_for(stepper: Stepper, only: Collection[str], dropped: str | None) -> list[Any]:
    """Return the properties to check. Raises UnknownAssumption."""
    table = stepper.model.liveness
    here = [p for p in table.EVENTUALLY if p.asked(stepper.k)]
    chosen = [p for p in here if not only or p.name in only]
    if dropped is None:
        return chosen
    resting = [p for p in chosen if dropped in p.under]
    if not resting:
        known = ", ".join(dict.fromkeys(name for p in chosen for name in p.under))
        raise UnknownAssumption(f"nothing here rests on {dropped!r}; choose one of {known}")
    return resting


def explore_live(
    scope: str,
    variant: str = DEFAULT_VARIANT,
    *,
    patches: Sequence[Patch] = (),
    engine: str = "c",
    progress: Report | None = None,
    say: Callable[[str], None] = say_on_stderr,
) -> Live:
    """Explore an unbounded scope completely: in C, or in integers if there is no compiler.

    Raises UnknownScope and the model's UnknownVariant, each a ValueError; PatchError, LiftError,
    LimitReached, RangeBroken.
    """
    model = model_for(scope, tuple(patches))
    stepper = Stepper(model, configuration_of(model, scope, variant))
    known = ", ".join(model.liveness.SCOPES)
    if not stepper.k.bounds.unbounded:
        raise UnknownScope(f"{scope} ends, so that nothing goes on for ever; choose one of {known}")
    if not model.canonical_form.has_normal_form(stepper.k):
        raise UnknownScope(f"worlds of {scope} have no normal form; choose one of {known}")
    asked = GraphQuestion(stepper, scope, sentences(model), fair_rules(model))
    try:
        graph = explored(asked, engine, progress)
    except NoCompiler as missing:
        say(f"no C compiler, so engine ints, which is slower: {missing}")
        graph = explored(asked, "ints", progress)
    return Live(stepper, scope, engine, tuple(patches), graph)


@functools.lru_cache(maxsize=16)
def live_unpatched(scope: str, variant: str, engine: str) -> Live:
    """Explore the model without patches in this configuration, once."""
    return explore_live(scope, variant, engine=engine)
