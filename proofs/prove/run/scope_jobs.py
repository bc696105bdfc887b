"""Checks in scopes what proofs rest on: clauses hold in every state, ranges hold, each rule that
the proofs cover is applied, and a run that an assumption excludes breaks a guarantee.

Each check is a job of its own, which only texts name, so that processes can share the jobs.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from types import MappingProxyType
from typing import Any

from proofs.explore.scope import Finding
from proofs.lift.patch import Patch
from proofs.lift.source import Model, load_model
from proofs.prove.engine.actor_simulation import SimulationResult
from proofs.prove.engine.assumptions import events_left_out
from proofs.prove.engine.composition import Composition, CompositionInduction, check_world_scope
from proofs.prove.engine.missing_steps import changes_actor
from proofs.prove.engine.scope_check import ScopeCheck, ScopeOfProof, seen_in
from proofs.prove.engine.theorem import Theorem
from proofs.prove.idempotent.assumptions import EVERYWHERE
from proofs.prove.idempotent.checked_scopes import CHECKED_SCOPES, RANGED_SCOPES
from proofs.prove.idempotent.scope_state import check_scope
from proofs.prove.idempotent.simulation import simulate_scope
from proofs.prove.idempotent.symbolic_state import resets
from proofs.prove.producer_ids import simulated_scopes as producer_ids
from proofs.prove.run.all_theorems import THEOREMS
from proofs.prove.run.assumption_necessity import DROPPED, trace_without
from proofs.prove.run.range_check import RangeCheck, check_ranges
from proofs.prove.run.vacuity import EXCLUDED
from proofs.prove.transactions import simulated_scopes as transactions
from proofs.prove.transactions.simulated_scopes import SIMULATED_SCOPES
from proofs.prove.transactions.simulation import simulate_transactions
from proofs.run.interrupts import without_interrupts
from proofs.trace.events import actor_rules_of
from proofs.trace.replay import configuration_of

MORE_SIMULATED: Mapping[str, tuple[tuple[str, str], ...]] = {
    **transactions.MORE_SIMULATED,
    **producer_ids.MORE_SIMULATED,
}
"""Ten more scopes of these compositions that `prove --simulate` checks. For idempotent producers,
CHECKED_SCOPES are checked; no theorem is about processing."""

COMPOSITIONS = {t.name: t.composition for t in THEOREMS}


@dataclass(frozen=True, slots=True)
class ScopeJob:
    """One check: its kind and its scope. `patches` are those of the model in question."""

    kind: str
    theorem: str = ""
    scope: str = ""
    variant: str = ""
    assumption: str = ""
    patches: tuple[Patch, ...] = ()

    @property
    def home(self) -> str:
        """The composition that the job is about."""
        return COMPOSITIONS[self.theorem].home if self.theorem else "idempotent"

    @property
    def place(self) -> tuple[str, ...]:
        """The key of jobs that one process does one after another."""
        return (self.home, self.scope, self.variant, self.assumption)


Patched = Mapping[str, tuple[Patch, ...]]
"""The patches of the models, by composition."""
JobResult = ScopeCheck | RangeCheck | Finding | None


@lru_cache(maxsize=1)
def explored(home: str, patches: tuple[Patch, ...], scope: str, variant: str) -> ScopeOfProof:
    """Return a scope that is explored once for all jobs which check it one after another."""
    model = load_model(home, patches)
    return ScopeOfProof(model, configuration_of(model, scope, variant), scope)


def scope_of(job: ScopeJob) -> ScopeOfProof:
    """Return the scope that a job checks."""
    return explored(job.home, job.patches, job.scope, job.variant)


def clauses_of(job: ScopeJob) -> ScopeCheck:
    """Check the clauses about one producer on every state of a scope, and match its transitions
    with steps of the proofs."""
    scope = scope_of(job)
    check, simulated = check_scope(scope), simulate_scope(scope.model, scope.k, scope.graph)
    failed = (*check.failed, *map(str, simulated.unmatched.values()))
    return replace(check, failed=failed, matched=simulated.matched)


def transitions_of(job: ScopeJob) -> ScopeCheck:
    """Match the transitions of a scope with steps about one producer."""
    scope = scope_of(job)
    return check_of(scope, simulate_scope(scope.model, scope.k, scope.graph))


def check_of(scope: ScopeOfProof, seen: SimulationResult) -> ScopeCheck:
    """Return the result of a comparison as the check of a scope."""
    return seen_in(scope, map(str, seen.unmatched.values()), seen.matched)


def ranges_of(job: ScopeJob) -> RangeCheck:
    """Check the ranges of a scope."""
    scope = scope_of(job)
    return check_ranges(scope.model, scope.k, scope.name)


def composed_of(job: ScopeJob) -> ScopeCheck:
    """Check the clauses of a composition on every world of one of its scopes."""
    of = COMPOSITIONS[job.theorem]
    return (of.check or check_world_scope)(of, scope_of(job))


def simulated_of(job: ScopeJob) -> ScopeCheck:
    """Match the transitions of a scope with the steps of a theorem about transactions."""
    scope = scope_of(job)
    return check_of(scope, simulate_transactions(COMPOSITIONS[job.theorem], scope))


def simulation_jobs(
    theorems: Sequence[Theorem], plain: Sequence[str], patched: Patched
) -> Iterator[ScopeJob]:
    """Yield the jobs that compare transitions with the steps of the theorems; `plain` as in
    `jobs_for`."""
    for theorem in theorems:
        usual = SIMULATED_SCOPES.get(theorem.name)
        more = MORE_SIMULATED.get(theorem.name, ())
        kind = "simulated" if theorem.home == "transactions" else "composed"
        for scope, variant in dict.fromkeys((*((usual,) if usual else ()), *more)):
            own = patched.get(theorem.home, ())
            yield ScopeJob(kind, theorem.name, scope, variant, patches=own)
    for job in jobs_for((), plain, patched):
        if job.kind == "clauses":
            yield replace(job, kind="transitions")


KINDS: Mapping[str, Callable[[ScopeJob], JobResult]] = {
    "composed": composed_of,
    "simulated": simulated_of,
    "clauses": clauses_of,
    "transitions": transitions_of,
    "ranges": ranges_of,
    "excluded": lambda job: trace_without(job.assumption),
}


@dataclass(frozen=True, slots=True)
class Scoped:
    """The results of all checks. `excluded` has the traces without assumptions, None where none is
    known; `vacuous` are rules that the proofs cover and no scope applies."""

    clauses: tuple[ScopeCheck, ...] = ()
    ranges: tuple[RangeCheck, ...] = ()
    excluded: Mapping[str, Finding | None] = field(default_factory=dict)
    vacuous: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """The assumptions whose expected trace was not found."""
        lost = (name for name, trace in self.excluded.items() if trace is None)
        return tuple(name for name in lost if name in DROPPED)

    @property
    def broken(self) -> tuple[str, ...]:
        """The names of everything that failed."""
        checks: tuple[ScopeCheck | RangeCheck, ...] = (*self.clauses, *self.ranges)
        return (*self.missing, *self.vacuous, *(name for c in checks for name in c.failed))


def jobs_for(
    theorems: Sequence[Theorem], plain: Sequence[str], patched: Patched
) -> Iterator[ScopeJob]:
    """Yield all jobs that the theorems need, long ones first. `plain` are the variants of the
    theorems about one producer."""
    for theorem in theorems:
        of = theorem.composition
        own = patched.get(theorem.home, ())
        for scope, variant in product(of.scopes, of.variants):
            yield ScopeJob("composed", theorem.name, scope, variant, patches=own)
        if theorem.name in SIMULATED_SCOPES:
            yield ScopeJob("simulated", theorem.name, *SIMULATED_SCOPES[theorem.name], patches=own)
    patches = patched.get("idempotent", ())
    model = load_model("idempotent", patches)
    keeping = [text for text in plain if not resets(model.variants.parse(text))]
    for kind, scopes, variants in (
        ("clauses", CHECKED_SCOPES, keeping),
        ("ranges", RANGED_SCOPES, plain),
    ):
        for scope, text in scopes.items() if plain else ():
            for variant in (text,) if text else variants:
                yield ScopeJob(kind, scope=scope, variant=variant, patches=patches)
    for assumption in dict.fromkeys(a for t in theorems for a in t.assumptions):
        yield ScopeJob("excluded", assumption=assumption)


def look(jobs: Sequence[ScopeJob]) -> list[JobResult]:
    """Do the jobs of one place."""
    return [KINDS[job.kind](job) for job in jobs]


def look_at(
    jobs: Sequence[ScopeJob], processes: int, seen: Callable[[int, int], None]
) -> list[tuple[ScopeJob, Any]]:
    """Return each job with its result, in their order; calls `seen(done, total)` after each
    place."""
    places: dict[tuple[str, ...], list[ScopeJob]] = {}
    for job in jobs:
        places.setdefault(job.place, []).append(job)
    groups = list(places.values())
    if processes == 1:
        found = list(_counted(groups, map(look, groups), seen))
    else:
        with without_interrupts():
            workers = multiprocessing.get_context("spawn").Pool(processes)
        with workers as pool:
            found = list(_counted(groups, pool.imap(look, groups), seen))
    known = {job: result for pairs in found for job, result in pairs}
    return [(job, known[job]) for job in jobs]


def _counted(
    groups: Sequence[Sequence[ScopeJob]],
    found: Iterable[Sequence[JobResult]],
    seen: Callable[[int, int], None],
) -> Iterator[list[tuple[ScopeJob, JobResult]]]:
    done, total = 0, sum(map(len, groups))
    for group, results in zip(groups, found, strict=True):
        done += len(group)
        seen(done, total)
        yield list(zip(group, results, strict=True))


def scoped(
    theorems: Sequence[Theorem],
    plain: Sequence[str],
    patched: Patched = MappingProxyType({}),
    *,
    processes: int = 1,
    seen: Callable[[int, int], None] = lambda done, total: None,
) -> Scoped:
    """Check everything that the theorems rest on; `plain` as in `jobs_for`."""
    found = look_at(tuple(jobs_for(theorems, plain, patched)), processes, seen)
    of_one = tuple(check for job, check in found if job.kind == "clauses")
    return Scoped(
        clauses=(
            *of_one,
            *(c for t in theorems for c in of_composition(t, patched, found)),
            *(check for job, check in found if job.kind == "simulated"),
        ),
        ranges=tuple(check for job, check in found if job.kind == "ranges"),
        excluded={job.assumption: trace for job, trace in found if job.kind == "excluded"},
        vacuous=never_taken(of_one) if of_one else (),
    )


def never_taken(checks: Sequence[ScopeCheck]) -> tuple[str, ...]:
    """Return the rules of the world that the proofs cover and no checked scope applies: their steps
    are vacuous."""
    taken = {rule for check in checks for rule, times in check.firings.items() if times > 0}
    model = load_model("idempotent")
    return tuple(set(model.rules) - events_left_out(model, EVERYWHERE) - taken)


def of_composition(
    theorem: Theorem, patched: Patched, found: Iterable[tuple[ScopeJob, Any]]
) -> tuple[ScopeCheck, ...]:
    """Return the checks of one composition. Rules that none of its scopes applies would leave steps
    vacuous; they are named among the failures."""
    of = theorem.composition
    mine = [c for job, c in found if job.kind == "composed" and job.theorem == theorem.name]
    if not mine:
        return ()
    model: Model = load_model(of.home, patched.get(of.home, ()))
    taken = {rule for check in mine for rule in check.firings}
    vacuous = never_taken_of(theorem, of, model, taken)
    return (*mine[:-1], replace(mine[-1], failed=(*mine[-1].failed, *vacuous)))


def never_taken_of(
    theorem: Theorem, of: Composition, model: Model, seen: Collection[str]
) -> tuple[str, ...]:
    """Return what the steps of a composition cover although no event in `seen` applies it: names of
    actors' rules, or of events if the steps are events."""
    if of.worlds is None:
        return tuple(event for event in model.rules if event not in seen)
    left_out = events_left_out(model, theorem.assumptions)
    rules = {event: actor_rules_of(model, event) for event in model.rules if event not in left_out}
    steps = (s for v in of.variants for s in CompositionInduction(of, model, v).steps)
    possible = (s.taken for s in steps if EXCLUDED.get(s.rule) != frozenset())
    about = {t.rule.__name__ for taken in possible for t in taken if changes_actor(t.rule)}
    taken = set[str]().union(*(rules[event] for event in seen))
    return tuple(sorted((about & set[str]().union(*rules.values())) - taken))
