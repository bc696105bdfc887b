"""`run` for a system in process: prepare, judge in waves, shrink, report."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from conformance import pages
from conformance.backends import Backend, Options, Task, open_backend
from conformance.explained import EXPLAINED, Explained, explanation, read_baseline, stale
from conformance.files import alone_in, digest, pretty
from conformance.plan import (
    Finding,
    Plan,
    Prepared,
    checked,
    compute_cover_bound,
    prepare,
    setting,
    shrink_finding,
)
from conformance.progress import Progress, Told
from conformance.promised import not_promised, shown_by, statuses
from conformance.report import (
    Divergence,
    Result,
    report_json,
    run_json,
    write_reports,
)
from conformance.rows import Found
from conformance.runner import Ledger, Manifest, run_waves
from conformance.verbs import EXIT_CODES, EXIT_NOT_DECIDED, note, say
from conformance.verbs.answer import answer
from conformance.verbs.folder import begin

MOST_TRANSITIONS_TO_BOUND: Final = 200_000
"""Beyond, the linear program behind `cover.bound` takes minutes; the bound stays null."""


def run(plan: Plan, options: argparse.Namespace) -> int:
    """Judge the plan; the exit code. Raises BackendError, OtherRun, BadPlan, BadBaseline."""
    checked(plan)
    baseline = read_baseline(options.baseline) if options.baseline else ()
    arguments = arguments_of(plan, options, baseline)
    out: Path = options.out or default_out(arguments)
    with alone_in(out):
        begin(out, arguments)
        try:
            result, ledger = judged(plan, options, out, baseline)
        except KeyboardInterrupt:
            note(f"stopped; what is done is in {out}, and the same command goes on from there")
            return EXIT_NOT_DECIDED
        report, times = report_json(result), run_json(ledger.manifest.waves)
        write_reports(out, report, times, options.json)
    say(answer(report, times, out))
    return EXIT_CODES[result.verdict]


# The folder


def arguments_of(
    plan: Plan, options: argparse.Namespace, baseline: Sequence[Explained]
) -> dict[str, Any]:
    """What the report depends on, and so what a run in the same folder must have in common."""
    known = digest(repr(baseline)) if baseline else None
    return {**plan.to_json(), "judge": options.judge, "baseline": known}


def default_out(arguments: dict[str, Any]) -> Path:
    """A folder of its own for each set of arguments."""
    scope = arguments["scope"].replace("/", "-")
    return Path("out") / f"{arguments['system']}-{scope}-{digest(pretty(arguments))[:8]}"


# Judging


def judged(
    plan: Plan, options: argparse.Namespace, out: Path, baseline: Sequence[Explained]
) -> tuple[Result, Ledger]:
    """All that a run finds. Raises KeyboardInterrupt, BackendError."""
    told = Told(sys.stderr)
    prepared = prepare(plan, out / "prepared", told)
    if (prepared.transitions_total or 0) <= MOST_TRANSITIONS_TO_BOUND:
        told("computing the least cover", 0.0)
        prepared = compute_cover_bound(prepared)
    ledger = Ledger.open(out / "waves", Manifest(prepared.count))
    judge_rest(ledger, prepared, options, out)
    return examined(prepared, ledger.total, options.judge, out, baseline, told), ledger


def judge_rest(ledger: Ledger, prepared: Prepared, options: argparse.Namespace, out: Path) -> None:
    """Run the waves that are left. Raises BackendError."""
    stood = ledger.next_id
    if stood == prepared.count:
        note(f"judged before: {prepared.count:,} traces")
        return
    if stood:
        note(f"going on: {stood:,} of {prepared.count:,} traces are judged")
    backend = backend_of(prepared, options, out)
    try:
        with Progress(sys.stderr, prepared.count, stood, prepared.transitions_total) as show:
            run_waves(ledger, backend, show, time.monotonic)
    finally:
        backend.close()


def backend_of(prepared: Prepared, options: argparse.Namespace, out: Path) -> Backend:
    """The backend that is asked for, started. Raises BackendError."""
    task = Task("conformance.judging", prepared.directory.resolve())
    where = Options(out / "backend.log", options.master, options.remote, options.partitions)
    return open_backend(options.backend, task, where)


# Findings


def examined(
    prepared: Prepared,
    total: Found,
    judge: str,
    out: Path,
    baseline: Sequence[Explained],
    told: Told,
) -> Result:
    """The findings shrunk, explained and drawn; and what became of the promises."""
    summary = total.summary
    shrunk = []
    for number, finding in enumerate(summary.findings):
        told("shrinking divergences", number / len(summary.findings))
        shrunk.append(shrink_finding(prepared, finding))
    rows = (*EXPLAINED, *baseline)
    release = setting(prepared.plan).variant.release
    seen = total.seen
    for finding in shrunk:
        seen = seen.merge(shown_by(prepared, finding))
    return Result(
        prepared=prepared,
        total=summary,
        judge=judge,
        divergences=drawn(prepared, shrunk, rows, release, out),
        unexamined=summary.divergences - len(summary.findings),
        promises=statuses(seen),
        not_promised=not_promised(setting(prepared.plan)),
        stale=stale(rows, release, shrunk),
    )


def drawn(
    prepared: Prepared,
    findings: Sequence[Finding],
    rows: Sequence[Explained],
    release: str,
    out: Path,
) -> list[Divergence]:
    """One divergence for each different finding, its trace and page in `out`/divergences."""
    found: dict[str, Divergence] = {}
    for finding in findings:
        key = pretty([finding[name] for name in ("trace", "expected", "observed")])
        if key in found:
            known = found[key]
            found[key] = replace(known, occurrences=known.occurrences + 1)
            continue
        name = f"divergences/{len(found) + 1:02d}-{finding['rule']}"
        pages.write(prepared, finding, out / name)
        found[key] = Divergence(finding, f"{name}.jsonl", explanation(rows, release, finding), 1)
    return list(found.values())
