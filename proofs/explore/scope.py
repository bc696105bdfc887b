"""Explores a named scope of a named variant by any engine: the one entry that verbs use.

Whichever engine explored, each counterexample and each witness is replayed on the source here, so a
report never shows a trace that the model's own text does not run.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from model.releases import NEWEST
from proofs.explore.engines import (
    ENGINES,
    EngineCounts,
    EngineFunction,
    EngineJob,
    EnginesDisagree,
    engine_for,
    say_on_stderr,
)
from proofs.explore.explorer import Report
from proofs.explore.gauge import with_gauge
from proofs.explore.release_claims import is_claimed
from proofs.explore.sometimes import (
    Sometimes,
    compare_unpatched,
    happened,
    sometimes_explored,
)
from proofs.explore.source_check import check_by_source
from proofs.lift.build import is_unbounded
from proofs.lift.patch import Patch
from proofs.lift.source import Model, model_for, with_assumed_properties
from proofs.run import worst
from proofs.trace.events import events
from proofs.trace.format import Header, Instance, Trace, dumps
from proofs.trace.replay import (
    ReplayError,
    Stepper,
    UnknownScope,
    World,
    configuration_of,
    record,
)

DEFAULT_VARIANT = NEWEST


def read_pairs(text: str) -> tuple[tuple[str, str], ...]:
    """Return (scope, variant) pairs of a text of lines `VARIANT: SCOPE SCOPE ...`; indented lines
    continue."""
    rows = (" ".join(row.split()) for row in re.split(r"\n(?=\S)", text.strip()))
    named = (row.split(": ") for row in rows)
    return tuple((scope, variant) for variant, scopes in named for scope in scopes.split())


class UnknownEngine(ValueError):
    """No engine has this name; the message lists the engines."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken property with a shortest trace; `guaranteed` says whether the variant promises
    it."""

    property: str
    guaranteed: bool
    trace: Trace
    steps: int
    events: int


@dataclass(frozen=True, slots=True)
class ScopeReport:
    """The exploration of a scope. `verdict` is holds, violated (a *guaranteed* property is broken,
    or what the scope says never happens did), vacuous (nothing is broken, but what must happen
    never does) or undecided.

    `scope` and `variant` are full names; `counts.engine` is the engine that ran; `seconds` is the
    whole time, lifting and compiling included.
    """

    scope: str
    variant: str
    patches: tuple[Patch, ...]
    counts: EngineCounts
    violations: tuple[Finding, ...]
    witnesses: Mapping[str, Trace]
    sometimes: Sometimes
    verdict: str
    workers: int
    seconds: float

    def found(self, name: str) -> Finding | None:
        """Return the finding of one property; None if there is none."""
        return next((f for f in self.violations if f.property == name), None)


def traced(
    stepper: Stepper, header: Header, path: Sequence[Instance], what: str
) -> tuple[Trace, World]:
    """Return a path as a trace, with the world at its end. Raises EnginesDisagree."""
    try:
        trace, worlds = record(stepper, header, path)
    except ReplayError as error:
        raise EnginesDisagree(f"{what}: {error}") from error
    return trace, worlds[-1]


def finding(stepper: Stepper, header: Header, name: str, path: Sequence[Instance]) -> Finding:
    """Return a counterexample, replayed. Raises EnginesDisagree."""
    guarantee = next(p for p in stepper.model.guarantees.GUARANTEES if p.name == name)
    trace, last = traced(stepper, header, path, name)
    if guarantee.check(stepper.k, last):
        raise EnginesDisagree(f"{name} holds on the source at the end of\n{dumps(trace)}")
    return Finding(
        property=name,
        guaranteed=guarantee.guaranteed(stepper.k),
        trace=trace,
        steps=len(trace.steps),
        events=events(stepper.model, trace.steps),
    )


def verdict_of(counts: EngineCounts, violations: Sequence[Finding], claims: Sometimes) -> str:
    """Return the verdict: a fault counts even in a partial exploration, but `holds` needs a
    complete one."""
    kept = "violated" if any(f.guaranteed for f in violations) else "holds"
    return worst((kept, claims.verdict, "holds" if counts.complete else "undecided"))


def with_budgets(scope: str, budgets: Mapping[str, int] | None) -> str:
    """Return the scope's name with budgets replaced by hand."""
    return "/".join([scope, *(f"{name}={count}" for name, count in (budgets or {}).items())])


def header_of(stepper: Stepper, scope: str, patches: Sequence[Patch]) -> Header:
    """Return the header of the scope's traces; the seed is 0, because an exploration draws no
    numbers."""
    rows = tuple((patch.function, patch.before, patch.after) for patch in patches)
    return Header(scope, stepper.k.variant.name, patches=rows)


def reported(
    stepper: Stepper,
    header: Header,
    patches: Sequence[Patch],
    counts: EngineCounts,
    claims: Sometimes,
    workers: int,
) -> ScopeReport:
    """Return counts with their traces. Raises EnginesDisagree."""
    names = [p.name for p in stepper.model.guarantees.GUARANTEES if p.name in counts.violations]
    violations = tuple(finding(stepper, header, n, counts.violations[n]) for n in names)
    return ScopeReport(
        scope=header.scope,
        variant=header.variant,
        patches=tuple(patches),
        counts=counts,
        violations=violations,
        witnesses={
            name: traced(stepper, header, path, name)[0] for name, path in counts.witnesses.items()
        },
        sometimes=claims,
        verdict=verdict_of(counts, violations, claims),
        workers=workers,
        seconds=0.0,
    )


def asked(model: Model, stepper: Stepper, *, guaranteed_only: bool) -> frozenset[str]:
    """Return the names of the guarantees that an exploration checks."""
    every = model.guarantees.GUARANTEES
    return frozenset(p.name for p in every if not guaranteed_only or p.guaranteed(stepper.k))


def is_as_named(stepper: Stepper, scope: str) -> bool:
    """Whether this is a named scope under the default variant, for which the scope's claims are
    made."""
    named = configuration_of(stepper.model, scope.partition("/")[0], DEFAULT_VARIANT)
    k = stepper.k
    return bool(named == replace(k, variant=replace(k.variant, name=named.variant.name)))


def explore_scope(
    scope_name: str,
    variant_text: str = DEFAULT_VARIANT,
    *,
    patches: Sequence[Patch] = (),
    assumed_properties: Collection[str] = (),
    witnesses: bool = False,
    engine: str | None = None,
    engines: Mapping[str, EngineFunction] = ENGINES,
    workers: int = 1,
    stop: bool = False,
    is_checked: bool = False,
    budgets: Mapping[str, int] | None = None,
    max_depth: int | None = None,
    checkpoint: Path | None = None,
    symmetry: str | None = None,
    progress: Report | None = None,
    say: Callable[[str], None] = say_on_stderr,
    clock: Callable[[], float] = time.perf_counter,
) -> ScopeReport:
    """Explore a scope of a variant, with or without patches. `assumed_properties` names those that
    are checked in addition to the guarantees. Claims about what must happen decide the verdict of a
    named scope under the default variant, and of a small one under any release; with `witnesses`,
    of any configuration. With patches, the claim in any configuration is what happens there without
    them. If there is no claim, what must happen in a small scope of the same variant decides.

    `scope_name` is `NAME[/BUDGET=N...]`; `budgets` replaces budgets too. Without an `engine` the
    scope's size decides. With `is_checked` a small scope that was lifted is also explored by the
    source, once for each text, and must give the same. `stop` ends at the first level that breaks a
    guaranteed property; TLC always ends there. `max_depth` limits the number of steps. `checkpoint`
    is a folder in which c and ints keep the search, to continue it later. `symmetry` names an index
    type, such as `partitions`, whose elements are interchangeable: c and ints explore one state for
    all that differ by them. After Ctrl-C the report has what was found until then, undecided.

    Raises UnknownScope, UnknownVariant, UnknownAssumedProperty, UnknownEngine, NotSymmetric,
    PatchError, all of them a ValueError; LiftError for a patch that cannot be lifted;
    EnginesDisagree; RangeBroken; CheckpointError; and errors about tools that an engine needs and
    does not find.
    """
    name = with_budgets(scope_name, budgets)
    engine = engine or engine_for(name)
    if engine not in engines:
        raise UnknownEngine(f"no engine is called {engine!r}; choose one of {', '.join(engines)}")
    begun = clock()
    model = with_assumed_properties(model_for(scope_name, tuple(patches)), assumed_properties)
    stepper = Stepper(model, configuration_of(model, name, variant_text))
    if is_unbounded(stepper.k):
        raise UnknownScope(
            f"{name} goes on for ever, and its logs are cut short: ask `liveness` of it"
        )
    guarantees = asked(model, stepper, guaranteed_only=stop or engine == "tlc")
    job = EngineJob(
        model=model,
        k=stepper.k,
        name=name,
        workers=workers,
        stop=stop,
        max_depth=max_depth,
        guarantees=guarantees,
        progress=progress,
        say=say,
        checkpoint=checkpoint,
        symmetry=symmetry,
    )
    counts = engines[engine](job)
    if is_checked:
        check_by_source(job, counts)
    enforce = witnesses or is_as_named(stepper, name) or is_claimed(name, stepper.k.variant)
    claims = sometimes_explored(model, name, variant_text, counts, enforce=enforce)
    if patches and (claims.lost or claims.unexpected):
        here = engine if engine in ENGINES else "c"
        unpatched = explore_unpatched(name, variant_text, here, workers)
        claims = compare_unpatched(claims, happened(unpatched.counts), unpatched.witnesses)
    if counts.complete and claims.verdict == "holds" and not enforce:
        claims = with_gauge(claims, name, stepper.k.variant.name)
    header = header_of(stepper, name, patches)
    report = reported(stepper, header, patches, counts, claims, workers)
    return replace(report, seconds=clock() - begun)


def shortest_counterexample(
    scope: str,
    variant: str,
    name: str,
    *,
    patches: Sequence[Patch] = (),
    assumed: bool = False,
    engine: str | None = None,
    workers: int = 1,
) -> Finding | None:
    """Return a shortest trace that breaks one property, guaranteed or not; None if nothing breaks
    it.

    The search ends at this trace, and checks nothing else. `explore_scope` says what else is
    broken, and what happens in the scope at all. The property is a guarantee of the model, or
    `assumed`. Raises as `explore_scope`.
    """
    own = [name] if assumed else []
    model = with_assumed_properties(model_for(scope, tuple(patches)), own)
    stepper = Stepper(model, configuration_of(model, scope, variant))
    job = EngineJob(
        model=model,
        k=stepper.k,
        name=scope,
        workers=workers,
        stop=True,
        max_depth=None,
        guarantees=frozenset({name}),
        progress=None,
        say=say_on_stderr,
        witnesses=False,
    )
    path = ENGINES[engine or engine_for(scope)](job).violations.get(name)
    if path is None:
        return None
    return finding(stepper, header_of(stepper, scope, patches), name, path)


@functools.lru_cache(maxsize=64)
def explore_unpatched(scope: str, variant: str, engine: str, workers: int) -> ScopeReport:
    """Explore the model without patches in this configuration, once."""
    return explore_scope(scope, variant, engine=engine, workers=workers)
