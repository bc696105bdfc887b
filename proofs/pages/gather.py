"""Gathers the evidence by explorations, one after another.

It explores every small scope under every group of releases that behave the same; every unbounded
scope, with all assumptions and with each one dropped; runs that show what each assumption of the
theorems is for; and the known defects. Existing evidence is not gathered again, except for scopes
whose counts no longer match the expected ones. An interrupted gathering therefore continues where
it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from model.releases import NEWEST
from proofs.explore.expected import EXPECTED
from proofs.explore.scope import Finding, explore_scope, shortest_counterexample
from proofs.lift.source import COMPOSITIONS, load_model
from proofs.live.check import Live, PropertyOutcome, explore_live
from proofs.mutants.table import ModelMutant
from proofs.pages.evidence import Evidence, ExploredScope, LassoRun, LivenessScope, ShortestRun
from proofs.pages.subjects import (
    assumed_properties_in,
    columns,
    guarantees_in,
    in_the_end,
    known_defects,
    page_of,
    trace_of,
)
from proofs.prove.run.assumption_necessity import DROPPED, trace_without
from proofs.trace.format import Trace, label
from proofs.trace.pictures import text
from proofs.trace.replay import configuration_of, model_of, replay
from proofs.trace.story import tell

MOST_STATES = 40_000
"""Scopes with more states than this under the default variant are left to `explore`."""

REDUCED = {
    "live-retries": "live-retries/records=3",
    "live-restarts": "live-restarts/records=3",
    "live-stream": "live-stream/records=3/breaks=0",
    "live-failover": "live-failover/records=3",
    "live-timeouts": "live-timeouts/records=3",
}
"""Unbounded scopes that are explored with fewer records or fewer faults, so that they are small
enough for the source, which needs no compiling."""

NEVER_IN_VAIN = f"{NEWEST}/first_sequence=strict/sequence_order=wraps"
"""The rules under which no idempotent producer waits for ever: no release has them."""

IN_THE_END = {
    "live-retries": (NEWEST, NEVER_IN_VAIN),
    "live-stream": (NEWEST, NEVER_IN_VAIN),
    "live-transaction": (NEWEST, "v1"),
    "live-expiry": (NEWEST, "v1"),
}
"""Unbounded scopes that are explored under several variants; the others under the newest."""

OF_ASSUMED_PROPERTIES = {
    "idempotent": ("idempotent-timeout/in_flight=1", "idempotent-timeout/breaks=0"),
    "transactions": (
        "transactions-trouble/unheard=1",
        "transactions-trouble/delays=1/expirations=1",
        "transactions-between/leaves=1/others=0",
        "transactions-trouble-log/failures=1",
    ),
}
"""Small scopes with other limits, which show where assumed properties break, or what makes them
true."""

Tell = Callable[[int, int, str], None]
"""Receives how many pieces of evidence exist, how many are gathered in all, and the next one."""
Place = tuple[str, str, str]
"""A composition, a scope and a variant."""
Keep = Callable[[Evidence], None]


def describe_trace(trace: Trace) -> tuple[str, ...]:
    """Return a trace in sentences, one a line, without its title."""
    model = model_of(trace.header)
    story = tell(model, trace.header, trace.steps, replay(trace, model))
    return tuple(text(story, with_changes=False).splitlines()[1:])


def kept_run(finding: Finding, lines: tuple[str, ...] = ()) -> ShortestRun:
    """Return the run of a finding, as evidence keeps it."""
    return ShortestRun(
        property=finding.property,
        scope=finding.trace.header.scope,
        variant=finding.trace.header.variant,
        guaranteed=finding.guaranteed,
        steps=finding.steps,
        events=finding.events,
        told=lines,
    )


class NotFound(ValueError):
    """A known breach was not found: its table belongs to another text of the model."""


# Scopes


def small_scopes(composition: str) -> tuple[str, ...]:
    """Return the scopes that are explored under every variant."""
    named = (
        name
        for name in load_model(composition).scopes.SCOPES
        if name in EXPECTED and EXPECTED[name].distinct <= MOST_STATES
    )
    return (*named, *OF_ASSUMED_PROPERTIES.get(composition, ()))


def sentences_in(composition: str) -> tuple[str, ...]:
    """Return what is checked in each scope: guarantees and assumed properties."""
    return (*guarantees_in(composition), *assumed_properties_in(composition))


def small_places() -> Iterator[Place]:
    """Yield each small scope under each group of releases that behave the same, the newest
    first."""
    for composition in COMPOSITIONS:
        for column in columns(composition):
            yield from ((composition, scope, column.variant) for scope in small_scopes(composition))


def see(composition: str, scope: str, variant: str) -> tuple[ExploredScope, tuple[Finding, ...]]:
    """Explore one scope completely, and return its findings with their traces."""
    report = explore_scope(
        scope, variant, assumed_properties=assumed_properties_in(composition), engine="ints"
    )
    counts = report.counts
    assert counts.transitions is not None
    seen = ExploredScope(
        composition=composition,
        scope=scope,
        variant=variant,
        distinct=counts.distinct,
        transitions=counts.transitions,
        depth=counts.depth,
        broken=tuple(kept_run(finding) for finding in report.violations),
    )
    return seen, report.violations


def is_expected(row: ExploredScope) -> bool:
    """Whether a scope's counts match the expected ones, if the variant is the newest."""
    known = EXPECTED.get(row.scope)
    if known is None or row.variant != columns(row.composition)[0].variant:
        return True
    return (row.distinct, row.transitions) == (known.distinct, known.transitions)


def newest_runs(seen: Evidence) -> Iterator[tuple[str, ShortestRun]]:
    """Yield (composition, run): for each guarantee or assumed property that some variant breaks,
    the shortest run of the newest such variant."""
    for composition in COMPOSITIONS:
        for name in sentences_in(composition):
            runs = (seen.shortest(composition, name, c.variant) for c in columns(composition))
            first = next((run for run in runs if run is not None), None)
            if first is not None:
                yield composition, first


# Liveness


def unbounded_places() -> Iterator[Place]:
    """Yield each unbounded scope under each variant in question, by its full name."""
    for composition in COMPOSITIONS:
        model = load_model(composition)
        table = model.modules.get("liveness")
        for scope in table.SCOPES if table is not None else ():
            for variant in IN_THE_END.get(scope, (NEWEST,)):
                yield composition, REDUCED.get(scope, scope), model.variants.parse(variant).name


def questions(composition: str, scope: str, variant: str) -> tuple[str, ...]:
    """Return the guarantees that are checked in an unbounded scope, with the assumptions of
    each."""
    k = configuration_of(load_model(composition), scope, variant)
    return tuple(f"{p.name}: {', '.join(p.under)}" for p in in_the_end(composition) if p.asked(k))


def lasting(composition: str, live: Live, outcome: PropertyOutcome, without: str) -> LassoRun:
    """Return what is kept of a lasso."""
    found = outcome.lasso
    assert found is not None
    return LassoRun(
        composition=composition,
        property=outcome.name,
        without=without,
        scope=live.scope,
        variant=live.stepper.k.variant.name,
        stem=found.stem,
        loop=len(found.trace.steps) - found.stem,
        told=tuple(text(found.story, with_changes=False).splitlines()[1:]),
    )


def lassos(composition: str, live: Live, holds: tuple[str, ...]) -> Iterator[LassoRun]:
    """Yield the lassos of properties that are not guaranteed; and, for properties that hold, those
    without each assumption."""
    for outcome in live.report().outcomes:
        if outcome.lasso is not None:
            yield lasting(composition, live, outcome, "")
    for guarantee in in_the_end(composition):
        for assumption in guarantee.under if guarantee.name in holds else ():
            (outcome,) = live.report(assumption, only=[guarantee.name]).outcomes
            if outcome.lasso is not None:
                yield lasting(composition, live, outcome, assumption)


def look_to_the_end(
    composition: str, scope: str, variant: str
) -> tuple[LivenessScope, tuple[LassoRun, ...]]:
    """Check one unbounded scope: what holds in it, and the lassos."""
    engine = "source" if scope in REDUCED.values() else "ints"
    live = explore_live(scope, variant, engine=engine)
    report = live.report()
    asked = [outcome for outcome in report.outcomes if outcome.exercised]
    holds = tuple(outcome.name for outcome in asked if outcome.holds)
    unbounded = LivenessScope(
        composition=composition,
        scope=report.scope,
        variant=report.variant,
        distinct=report.distinct,
        transitions=report.transitions,
        asked=questions(composition, scope, variant),
        guaranteed=tuple(outcome.name for outcome in asked if outcome.guaranteed),
        holds=holds,
    )
    return unbounded, tuple(lassos(composition, live, holds))


def shortest_lassos(found: Iterable[LassoRun]) -> tuple[LassoRun, ...]:
    """Return the shortest lasso for each guarantee without each assumption, in their order."""
    best: dict[tuple[str, ...], LassoRun] = {}
    for one in found:
        key = (one.composition, one.property, one.without)
        known = best.setdefault(key, one)
        if one.stem + one.loop < known.stem + known.loop:
            best[key] = one
    return tuple(best.values())


# Assumptions and known defects


def without(name: str) -> ShortestRun:
    """Return a run that shows what an assumption of the theorems is for. Raises NotFound."""
    found = trace_without(name)
    if found is None:
        raise NotFound(f"without {name} nothing breaks any more")
    return kept_run(found, tuple(label(s.rule, s.choice) for s in found.trace.steps))


def finding_of(mutant: ModelMutant) -> Finding:
    """Return the run by which a known defect shows. Raises NotFound."""
    size = EXPECTED[mutant.scope.partition("/")[0]].distinct
    engine = "ints" if size <= MOST_STATES else "c"
    found = shortest_counterexample(
        mutant.scope, mutant.variant, mutant.property, patches=mutant.patches, engine=engine
    )
    if found is None:
        raise NotFound(f"{mutant.name} breaks {mutant.property} no more")
    return found


# The whole evidence


def kept_rows(evidence: Evidence) -> dict[Place, ExploredScope]:
    """Return the small scopes that need not be explored again: the questions about their
    composition have not changed, and neither have their counts."""
    same = {c for c in COMPOSITIONS if evidence.asked.get(c) == sentences_in(c)}
    rows = [row for row in evidence.seen if row.composition in same]
    changed = {row.scope.partition("/")[0] for row in rows if not is_expected(row)}
    return {
        (row.composition, row.scope, row.variant): row
        for row in rows
        if row.scope.partition("/")[0] not in changed
    }


def changed_compositions(evidence: Evidence) -> set[str]:
    """Return the compositions whose unbounded scopes are checked for something else now. All these
    scopes are checked again, because only the shortest lassos were kept."""
    wanted = tuple(unbounded_places())
    return {
        row.composition
        for row in evidence.unbounded
        if (row.composition, row.scope, row.variant) not in wanted
        or row.asked != questions(row.composition, row.scope, row.variant)
    }


def count_missing(evidence: Evidence) -> int:
    """Return how many pieces of evidence have to be gathered."""
    changed = changed_compositions(evidence)
    unbounded = {
        (row.composition, row.scope, row.variant)
        for row in evidence.unbounded
        if row.composition not in changed
    }
    return (
        len({*small_places()} - kept_rows(evidence).keys())
        + len({*unbounded_places()} - unbounded)
        + len({mutant.name for mutant in known_defects()} - evidence.defects.keys())
        + len(DROPPED.keys() - evidence.without.keys())
    )


class Gathering:
    """The evidence as it grows; `keep` receives it after each step."""

    def __init__(self, evidence: Evidence, tell: Tell, keep: Keep) -> None:
        self.evidence = evidence
        self.tell = tell
        self.keep = keep
        self.findings: dict[Place, Finding] = {}
        self.total = count_missing(evidence)
        self.done = 0

    def begin(self, what: str) -> None:
        """Tell what is gathered next."""
        self.tell(self.done, self.total, what)
        self.done += 1

    def know(self, **changes: Any) -> None:
        """Add to the evidence, and keep it."""
        self.evidence = replace(self.evidence, **changes)
        self.keep(self.evidence)

    def add_seen(self) -> None:
        """Add the small scopes that are missing or have changed, and all scopes of a composition
        whose questions have changed."""
        wanted = tuple(small_places())
        known = kept_rows(self.evidence)
        rows = {place: known[place] for place in wanted if place in known}
        self.know(seen=tuple(rows.values()), asked={c: sentences_in(c) for c in COMPOSITIONS})
        for place in wanted:
            if place not in rows:
                rows[place] = self.see(*place)
                self.know(seen=tuple(rows.values()))
        self.know(seen=tuple(rows[place] for place in wanted))

    def see(self, composition: str, scope: str, variant: str) -> ExploredScope:
        """Explore one scope, and remember its findings."""
        self.begin(f"{scope}, {variant}")
        seen, findings = see(composition, scope, variant)
        for found in findings:
            header = found.trace.header
            self.findings[header.scope, header.variant, found.property] = found
        return seen

    def add_shown(self) -> None:
        """Add the runs that the pages of guarantees show."""
        shown: dict[str, ShortestRun] = {}
        traces = dict(self.evidence.traces)
        for composition, run in newest_runs(self.evidence):
            page = page_of(composition, run.property)
            before = self.evidence.shown.get(page)
            if before is None or replace(before, told=()) != run:
                found = self.finding(composition, run)
                before = kept_run(found, describe_trace(found.trace))
                traces[trace_of(page)] = found.trace
            shown[page] = before
        self.know(shown=shown, traces=traces)

    def finding(self, composition: str, run: ShortestRun) -> Finding:
        """Return a run with its trace: from this gathering, or searched again."""
        known = self.findings.get((run.scope, run.variant, run.property))
        if known is None:
            self.tell(self.done, self.total, f"{run.scope}, {run.variant}, {run.property}")
            assumed = run.property in assumed_properties_in(composition)
            known = shortest_counterexample(
                run.scope, run.variant, run.property, assumed=assumed, engine="ints"
            )
        assert known is not None
        return known

    def add_unbounded(self) -> None:
        """Add the unbounded scopes that are missing, and all of a composition whose questions have
        changed, because only the shortest lassos were kept."""
        wanted = tuple(unbounded_places())
        changed = changed_compositions(self.evidence)
        rows = {
            (row.composition, row.scope, row.variant): row
            for row in self.evidence.unbounded
            if row.composition not in changed
        }
        lasting = tuple(loop for loop in self.evidence.lasting if loop.composition not in changed)
        self.know(unbounded=tuple(rows.values()), lasting=lasting)
        for place in wanted:
            if place not in rows:
                self.begin(f"{place[1]}, {place[2]}")
                rows[place], found = look_to_the_end(*place)
                every = shortest_lassos([*self.evidence.lasting, *found])
                self.know(unbounded=tuple(rows.values()), lasting=every)
        self.know(unbounded=tuple(rows[place] for place in wanted))

    def add_defects(self) -> None:
        """Add the known defects that are missing."""
        known = {mutant.name: mutant for mutant in known_defects()}
        for name, mutant in known.items():
            if name not in self.evidence.defects:
                self.begin(f"{name}: {mutant.scope}, {mutant.variant}")
                found = finding_of(mutant)
                run = kept_run(found, describe_trace(found.trace))
                self.know(
                    defects={**self.evidence.defects, name: run},
                    traces={**self.evidence.traces, name: found.trace},
                )
        self.know(defects={name: self.evidence.defects[name] for name in known})

    def add_without(self) -> None:
        """Add the missing runs that show what assumptions are for."""
        for name in DROPPED:
            if name not in self.evidence.without:
                self.begin(f"without {name}")
                self.know(without={**self.evidence.without, name: without(name)})
        self.know(without={name: self.evidence.without[name] for name in DROPPED})

    def drop_traces(self) -> None:
        """Drop the traces that no page shows."""
        names = {*map(trace_of, self.evidence.shown), *self.evidence.defects}
        self.know(traces={name: self.evidence.traces[name] for name in sorted(names)})


def gather_evidence(kept: Evidence, tell: Tell, keep: Keep = lambda evidence: None) -> Evidence:
    """Gather all evidence; `tell` is called before each piece. Raises NotFound, and as
    `explore_scope`."""
    gathering = Gathering(kept, tell, keep)
    gathering.add_seen()
    gathering.add_shown()
    gathering.add_unbounded()
    gathering.add_defects()
    gathering.add_without()
    gathering.drop_traces()
    return gathering.evidence
