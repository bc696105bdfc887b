"""A named scope of a named variant, explored by any engine: the one entry that verbs use.

Whatever engine looked, each counterexample and each witness is replayed on the source here, so
that a report never shows a trace that the model's own text does not run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proofs.explore import source
from proofs.explore.source import Instance
from proofs.lift.text import Model, Patch, patched
from proofs.trace.format import Header, Trace, dumps
from proofs.trace.replay import ReplayError, Stepper, World, events, record, setting_of

SEQUENTIAL_SEED = 0
"""An exploration draws no random numbers; traces carry this seed."""


class CounterexampleDoesNotReplay(Exception):
    """An engine and the source disagree: a defect of ours, never of the model."""


class UnknownEngine(ValueError):
    """No engine has this name; the message lists those that there are."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken property with a shortest trace; `promised` tells whether that is a fault."""

    property: str
    promised: bool
    trace: Trace
    steps: int
    events: int


@dataclass(frozen=True, slots=True)
class Counts:
    """What an engine counted. `paths` are shortest ways: promises broken, witnesses seen.

    `complete` is False if the engine ended before all was seen; `transitions`, `levels` and
    `firings` are None where an engine cannot tell; `collision_bound` bounds the probability that
    the visited set took two states for one.
    """

    distinct: int
    depth: int
    complete: bool
    transitions: int | None = None
    levels: tuple[int, ...] | None = None
    firings: Mapping[str, int] | None = None
    deadlocks: int | None = None
    violations: Mapping[str, tuple[Instance, ...]] = field(default_factory=dict)
    witnesses: Mapping[str, tuple[Instance, ...]] = field(default_factory=dict)
    collision_bound: float = 0.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search is: states found, of these expanded, and steps from the first."""

    distinct: int
    expanded: int
    depth: int


@dataclass(frozen=True, slots=True)
class Job:
    """All that an engine is told. `progress` returns False to end the search."""

    model: Model
    k: Any
    name: str
    workers: int
    stop: bool
    progress: Callable[[Progress], bool]


@dataclass(frozen=True, slots=True)
class ScopeReport:
    """A scope explored. `verdict` is holds, violated (a *promised* property) or undecided."""

    scope: str
    variant: str
    engine: str
    patches: tuple[Patch, ...]
    counts: Counts
    violations: tuple[Finding, ...]
    witnesses: Mapping[str, Trace]
    verdict: str
    workers: int
    seconds: float

    def found(self, name: str) -> Finding | None:
        """The finding of one property; None if it holds."""
        return next((f for f in self.violations if f.property == name), None)


# Engines


def explore_source(job: Job) -> Counts:
    """The model's own functions."""

    def progress(search: source.Search) -> bool:
        expanded = sum(search.levels)
        return job.progress(Progress(search.distinct, expanded, search.depth))

    asked = source.asked_of(job.model, stop=job.stop, progress=progress)
    found = source.search(job.model, job.k, asked)
    return Counts(
        distinct=found.distinct,
        depth=found.depth,
        complete=found.complete,
        transitions=found.transitions,
        levels=tuple(found.levels),
        firings=dict(found.firings),
        deadlocks=len(found.deadlocks),
        violations={name: found.path(state) for name, state in found.violations.items()},
        witnesses={name: found.path(state) for name, state in found.witnesses.items()},
    )


ENGINES: dict[str, Callable[[Job], Counts]] = {"source": explore_source}


# Reports


def always_go_on(_progress: Progress) -> bool:
    """No limit."""
    return True


def traced(
    stepper: Stepper, header: Header, path: Sequence[Instance], what: str
) -> tuple[Trace, World]:
    """A path as a trace, with the world at its end. Raises CounterexampleDoesNotReplay."""
    try:
        trace, worlds = record(stepper, header, path)
    except ReplayError as error:
        raise CounterexampleDoesNotReplay(f"{what}: {error}") from error
    return trace, worlds[-1]


def finding(stepper: Stepper, header: Header, promise: Any, path: Sequence[Instance]) -> Finding:
    """A counterexample, replayed. Raises CounterexampleDoesNotReplay."""
    trace, last = traced(stepper, header, path, promise.name)
    if promise.check(stepper.k, last):
        raise CounterexampleDoesNotReplay(f"{promise.name} holds at the end of {dumps(trace)}")
    return Finding(
        property=promise.name,
        promised=promise.promised(stepper.k),
        trace=trace,
        steps=len(trace.steps),
        events=events(stepper.model, trace.steps),
    )


def verdict_of(counts: Counts, violations: Sequence[Finding]) -> str:
    """A fault is a fault, however much was seen; nothing holds until all was seen."""
    if any(f.promised for f in violations):
        return "violated"
    return "holds" if counts.complete else "undecided"


def with_budgets(scope: str, budgets: Mapping[str, int] | None) -> str:
    """The scope's name with budgets replaced by hand."""
    return "/".join([scope, *(f"{name}={count}" for name, count in (budgets or {}).items())])


def explore_scope(
    scope_name: str,
    variant_text: str = "4.3.1",
    *,
    patches: Sequence[Patch] = (),
    engine: str = "c",
    workers: int = 1,
    stop: bool = False,
    budgets: Mapping[str, int] | None = None,
    progress: Callable[[Progress], bool] = always_go_on,
    clock: Callable[[], float] = time.perf_counter,
) -> ScopeReport:
    """Explore a scope of a variant, with or without patches.

    `stop` ends at the first broken property; `budgets` replaces some of the scope's own. Raises
    UnknownScope, UnknownVariant, UnknownEngine, PatchError, all ValueErrors;
    CounterexampleDoesNotReplay if an engine and the source disagree.
    """
    if engine not in ENGINES:
        raise UnknownEngine(f"no engine is called {engine!r}; choose one of {', '.join(ENGINES)}")
    begun = clock()
    model = patched(tuple(patches))
    named = with_budgets(scope_name, budgets)
    k = setting_of(model, named, variant_text)
    counts = ENGINES[engine](Job(model, k, named, workers, stop, progress))
    header = Header(
        named,
        k.variant.name,
        SEQUENTIAL_SEED,
        patches=tuple((p.function, p.before, p.after) for p in patches),
    )
    stepper = Stepper(model, k)
    promises = {p.name: p for p in model.promises.PROMISES}
    violations = tuple(
        finding(stepper, header, promises[name], counts.violations[name])
        for name in promises
        if name in counts.violations
    )
    return ScopeReport(
        scope=named,
        variant=k.variant.name,
        engine=engine,
        patches=tuple(patches),
        counts=counts,
        violations=violations,
        witnesses={
            name: traced(stepper, header, path, name)[0] for name, path in counts.witnesses.items()
        },
        verdict=verdict_of(counts, violations),
        workers=workers,
        seconds=clock() - begun,
    )
