"""`run` for a broker over its wire: the same folder and report, other connections."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from conformance.explained import EXPLAINED, Explained, read_baseline, stale
from conformance.files import alone_in
from conformance.plan import Finding, Plan, Prepared, compute_cover_bound, prepare, setting
from conformance.progress import Progress, Told
from conformance.promised import not_promised, statuses
from conformance.report import (
    Result,
    report_json,
    run_json,
    write_reports,
)
from conformance.runner import Ledger, Manifest, run_waves
from conformance.systems.wire import NEVER, WireBackend, traces_plan
from conformance.systems.wire_brokers import address_of, running, started
from conformance.systems.wire_harness import Broker
from conformance.verbs import EXIT_CODES, EXIT_NOT_DECIDED, BadUse, note, say
from conformance.verbs.answer import answer
from conformance.verbs.folder import begin
from conformance.verbs.in_process import (
    MOST_TRANSITIONS_TO_BOUND,
    arguments_of,
    default_out,
    drawn,
)

ON: Final = "bytes"
ACTORS: Final = "leader"
FAULTS: Final = "connections"


def run(plan: Plan, options: argparse.Namespace) -> int:
    """Judge the plan; the exit code.

    Raises BackendError, OtherRun, BadPlan, BadBaseline, BadUse, CannotPlay.
    """
    plan = over_wire(plan, options)
    baseline = read_baseline(options.baseline) if options.baseline else ()
    arguments = arguments_of(plan, options, baseline) | {"address": options.system}
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


def over_wire(plan: Plan, options: argparse.Namespace) -> Plan:
    """The plan with what a wire allows. Raises BadUse, NoBroker for an address that is none."""
    for name, given, only in (
        ("--on", options.on, (ON,)),
        ("--actors", options.actors, (ACTORS,)),
        ("--faults", options.faults, tuple(NEVER)),
        ("--master", options.master, ()),
        ("--remote", options.remote, ()),
    ):
        if given is not None and given not in only:
            there_is = f"there is {' or '.join(only)}" if only else "leave it out"
            raise BadUse(f"{name} {given} is not built for a broker over its wire; {there_is}")
    if plan.system == "wire":
        address_of(options.system)
    return replace(plan, on=ON, actors=ACTORS, faults=options.faults or FAULTS)


@contextmanager
def broker_of(plan: Plan, options: argparse.Namespace) -> Iterator[Broker]:
    """The broker that is asked for, as long as this runs. Raises NoBroker, BackendFailed."""
    if plan.system == "wire":
        yield running(options.system)
        return
    variant = setting(traces_plan(plan)).variant
    with started(variant.release, variant.level) as broker:
        yield broker


def judged(
    plan: Plan, options: argparse.Namespace, out: Path, baseline: Sequence[Explained]
) -> tuple[Result, Ledger]:
    """All that a run finds. Raises KeyboardInterrupt, BackendError."""
    told = Told(sys.stderr)
    with broker_of(plan, options) as broker:
        prepared = prepare(traces_plan(plan), out / "prepared", told)
        if (prepared.transitions_total or 0) <= MOST_TRANSITIONS_TO_BOUND:
            told("computing the least cover", 0.0)
            prepared = compute_cover_bound(prepared)
        ledger = Ledger.open(out / "waves", Manifest(prepared.count))
        backend = WireBackend(prepared, broker)
        try:
            judge_rest(ledger, prepared, backend)
            findings = shrunk(ledger, backend, told)
        finally:
            backend.close()
    rows = (*EXPLAINED, *baseline)
    k = setting(prepared.plan)
    shown_as = replace(prepared, plan=replace(prepared.plan, system=plan.system))
    summary = ledger.total.summary
    result = Result(
        prepared=replace(prepared, plan=plan),
        total=summary,
        judge=options.judge,
        divergences=drawn(shown_as, findings, rows, k.variant.release, out),
        unexamined=summary.divergences - len(summary.findings),
        promises=statuses(ledger.total.seen),
        not_promised=not_promised(k),
        undecided=prepared.count - summary.traces,
        not_applicable=backend.not_applicable,
        stale=stale(rows, k.variant.release, findings),
    )
    return result, ledger


def judge_rest(ledger: Ledger, prepared: Prepared, backend: WireBackend) -> None:
    """Run the waves that are left. Raises BackendFailed."""
    stood = ledger.next_id
    if stood:
        note(f"going on: {stood:,} of {prepared.count:,} traces are judged")
    with Progress(sys.stderr, prepared.count, stood, prepared.transitions_total) as show:
        run_waves(ledger, backend, show, time.monotonic)


def shrunk(ledger: Ledger, backend: WireBackend, told: Told) -> list[Finding]:
    """The findings with shorter traces. Raises BackendFailed."""
    found: list[Finding] = []
    for number, finding in enumerate(ledger.total.summary.findings):
        told("shrinking divergences", number / len(ledger.total.summary.findings))
        found.append(backend.shrunk(finding))
    return found
