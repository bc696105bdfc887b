"""The course of every run, whatever is judged: its folder, its waves, its findings, its report.

A system brings a `Subject`: which traces it is judged by, and how to begin. While it is at work it
gives a backend, shrinks findings, and says what it shows of guarantees.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from conformance import pages
from conformance.backends import Backend
from conformance.explained import EXPLAINED, Explained, explanation, read_baseline, stale
from conformance.files import alone_in, digest, pretty
from conformance.guaranteed import ObservedProperties, not_guaranteed, statuses
from conformance.plan import (
    Finding,
    Plan,
    PreparedPlan,
    checked,
    compute_cover_bound,
    configuration,
    prepare,
)
from conformance.progress import PreparationDisplay, ProgressDisplay
from conformance.report import (
    ReportedDivergence,
    Result,
    SideCheck,
    report_json,
    run_json,
    write_reports,
)
from conformance.runner import Manifest, WaveJournal, run_waves
from conformance.verbs import EXIT_CODES, EXIT_NOT_DECIDED, note
from conformance.verbs.answer import answer
from conformance.verbs.folder import begin
from proofs.say import say

MOST_TRANSITIONS_TO_BOUND: Final = 2_000_000
"""The linear program behind `cover.bound` takes 22 seconds there; beyond, the bound stays null."""


class AtWork(Protocol):
    """A system that is judged now."""

    @property
    def not_applicable(self) -> Sequence[str]:
        """What it does not show, and is therefore not asked."""

    @property
    def least_ranges(self) -> int:
        """Ranges of a wave at least: more than 1 where a wave takes long however few it has."""

    def checks(self) -> Mapping[str, SideCheck]:
        """What is checked beside traces, by name, after them. Raises BackendError."""

    def backend(self) -> Backend:
        """Who judges ranges of traces; called once, and only if some are left.

        The end of work closes it. Raises BackendError.
        """

    def shrunk(self, finding: Finding) -> Finding:
        """The finding with a trace of which no step can be left out."""

    def shown_by(self, finding: Finding) -> ObservedProperties:
        """What the system shows of the guarantees once it differed."""


class Opens(Protocol):
    """Begins to work, with what was prepared and a file for its log."""

    def __call__(self, prepared: PreparedPlan, log: Path) -> AbstractContextManager[AtWork]:
        """The system at work, until the end of the run. Raises BackendError."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is judged. `plan` is what reports name, `traces` the plan that traces are cut for;
    `more` are arguments beside the plan's that the report depends on."""

    plan: Plan
    traces: Plan
    opens: Opens
    more: dict[str, Any] = field(default_factory=dict)


def run(subject: Subject, options: argparse.Namespace) -> int:
    """Judge it and report; the exit code.

    Raises BackendError, OtherRun, BadPlan, BadBaseline.
    """
    checked(subject.traces)
    baseline = read_baseline(options.baseline) if options.baseline else ()
    arguments = arguments_of(subject, options, baseline)
    out: Path = options.out or default_out(arguments)
    with alone_in(out):
        begin(out, arguments)
        try:
            result, ledger = judged(subject, options.judge, out, baseline)
        except KeyboardInterrupt:
            note(f"stopped; what is done is in {out}, and the same command goes on from there")
            return EXIT_NOT_DECIDED
        report, times = report_json(result), run_json(ledger.manifest.waves)
        write_reports(out, report, times, options.json)
    say(answer(report, times, out))
    return EXIT_CODES[result.verdict]


# The folder


def arguments_of(
    subject: Subject, options: argparse.Namespace, baseline: Sequence[Explained]
) -> dict[str, Any]:
    """What the report depends on, and so what a run in the same folder must have in common."""
    known = digest(repr(baseline)) if baseline else None
    return {**subject.plan.to_json(), "judge": options.judge, "baseline": known, **subject.more}


def default_out(arguments: dict[str, Any]) -> Path:
    """A folder of its own for each set of arguments."""
    scope = arguments["scope"].replace("/", "-")
    return Path("out") / f"{arguments['system']}-{scope}-{digest(pretty(arguments))[:8]}"


# Judging


def judged(
    subject: Subject, judge: str, out: Path, baseline: Sequence[Explained]
) -> tuple[Result, WaveJournal]:
    """All that a run finds. Raises KeyboardInterrupt, BackendError."""
    told = PreparationDisplay(sys.stderr)
    prepared = prepare(subject.traces, out / "prepared", told)
    if (prepared.transitions_total or 0) <= MOST_TRANSITIONS_TO_BOUND:
        told("computing the least cover", 0.0)
        prepared = compute_cover_bound(prepared)
    ledger = WaveJournal.open(out / "waves", Manifest(prepared.count))
    with subject.opens(prepared, out / "backend.log") as at_work:
        judge_rest(ledger, prepared, at_work)
        named = replace(prepared, plan=replace(prepared.plan, system=subject.plan.system))
        result = examined(named, ledger, at_work, judge, out, baseline, told)
        return replace(result, prepared=replace(prepared, plan=subject.plan)), ledger


def judge_rest(ledger: WaveJournal, prepared: PreparedPlan, at_work: AtWork) -> None:
    """Run the waves that are left. Raises BackendError."""
    stood = ledger.next_id
    if stood == prepared.count:
        note(f"judged before: {prepared.count:,} traces")
        return
    if stood:
        note(f"going on: {stood:,} of {prepared.count:,} traces are judged")
    backend = at_work.backend()
    with ProgressDisplay(sys.stderr, prepared.count, stood, prepared.transitions_total) as show:
        run_waves(ledger, backend, show, time.monotonic, at_work.least_ranges)


# Findings


def examined(
    prepared: PreparedPlan,
    ledger: WaveJournal,
    at_work: AtWork,
    judge: str,
    out: Path,
    baseline: Sequence[Explained],
    told: PreparationDisplay,
) -> Result:
    """The findings shrunk, explained and drawn; and what became of the guarantees."""
    summary, seen = ledger.total.summary, ledger.total.seen
    shrunk = []
    for number, finding in enumerate(summary.findings):
        told("shrinking divergences", number / len(summary.findings))
        shrunk.append(at_work.shrunk(finding))
        seen = seen.merge(at_work.shown_by(shrunk[-1]))
    k = configuration(prepared.plan)
    rows = (*EXPLAINED, *baseline)
    return Result(
        prepared=prepared,
        total=summary,
        judge=judge,
        divergences=drawn(prepared, shrunk, rows, k.variant.release, out),
        unexamined=summary.divergences - len(summary.findings),
        guarantees=statuses(seen, k),
        not_guaranteed=not_guaranteed(k),
        undecided=prepared.count - summary.traces,
        not_applicable=at_work.not_applicable,
        checks=at_work.checks(),
        stale=stale(rows, k.variant.release, shrunk),
    )


def drawn(
    prepared: PreparedPlan,
    findings: Sequence[Finding],
    rows: Sequence[Explained],
    release: str,
    out: Path,
) -> list[ReportedDivergence]:
    """One divergence for each different finding, its trace and page in `out`/divergences."""
    found: dict[str, ReportedDivergence] = {}
    for finding in findings:
        key = pretty([finding[name] for name in ("trace", "expected", "observed")])
        if key in found:
            known = found[key]
            found[key] = replace(known, occurrences=known.occurrences + 1)
            continue
        name = f"divergences/{len(found) + 1:02d}-{finding['rule']}"
        pages.write(prepared, finding, out / name)
        found[key] = ReportedDivergence(
            finding, f"{name}.jsonl", explanation(rows, release, finding), 1
        )
    return list(found.values())
