"""`run --system client`: a real client in many runs, each under faults, judged by the model."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from conformance.backends import BackendFailed
from conformance.client.ledger import ClientJournal, outcome_of
from conformance.client.plan import RunPlan, draw_plan, without_faults
from conformance.client.processes import JAVA, ClientCommand, client_command
from conformance.client.recorder import record_runs
from conformance.client.report import answer, report_json, run_json
from conformance.explained import Explained, read_baseline
from conformance.files import alone_in, digest, pretty
from conformance.plan import Plan, Summary
from conformance.progress import ProgressDisplay
from conformance.report import write_reports
from conformance.rows import Found
from conformance.verbs import EXIT_CODES, EXIT_NOT_DECIDED, BadUse, note, one_of
from conformance.verbs.folder import begin
from model.idempotent.configuration import Variant
from model.idempotent.variants import DEFAULT_VARIANT, RELEASES, parse
from proofs.java import JavaError
from proofs.say import say

RUNS: Final = 500
"""Runs, unless --traces says how many."""
AT_ONCE: Final = 8
"""Runs that go on at the same time, unless --partitions says how many."""
FAULTS: Final = ("connections", "none")


@dataclass(frozen=True, slots=True)
class ClientTask:
    """What is judged: a client, by the model of a variant, in so many runs."""

    client: str
    variant: Variant
    plan: Plan
    runs: int

    def run_plan(self, number: int) -> RunPlan:
        """One of the runs."""
        plan = draw_plan(self.plan.seed, number)
        return plan if self.plan.faults == FAULTS[0] else without_faults(plan)

    def arguments(self, judge: str, baseline: Sequence[Explained]) -> dict[str, Any]:
        """What the report depends on."""
        return {
            "system": self.plan.system,
            "client": self.client,
            "variant": self.variant.name,
            "seed": self.plan.seed,
            "runs": self.runs,
            "faults": self.plan.faults,
            "judge": judge,
            "baseline": digest(repr(baseline)) if baseline else None,
        }


def run(plan: Plan, options: argparse.Namespace) -> int:
    """Judge a client; the exit code.

    Raises BadUse, UnknownVariant, BadBaseline, OtherRun, BackendFailed where the client cannot be
    started.
    """
    task = task_of(plan, options)
    baseline = read_baseline(options.baseline) if options.baseline else ()
    arguments = task.arguments(options.judge, baseline)
    out: Path = options.out or Path("out") / f"client-{digest(pretty(arguments))[:8]}"
    with alone_in(out):
        begin(out, arguments)
        ledger = ClientJournal(out / "waves")
        began = time.monotonic()
        try:
            command = client_command(task.client)
            asyncio.run(judge_rest(task, command, ledger, options.partitions or AT_ONCE))
        except KeyboardInterrupt:
            note(f"stopped; what is done is in {out}, and the same command goes on from there")
            return EXIT_NOT_DECIDED
        except (JavaError, OSError) as error:
            raise BackendFailed(f"--client {task.client}: {error}") from error
        report = report_json(task.arguments(options.judge, ()), task.variant, ledger, baseline, out)
        times = run_json(ledger, time.monotonic() - began)
        write_reports(out, report, times, options.json)
    say(answer(report, times, out))
    return EXIT_CODES[report["verdict"]]


def task_of(plan: Plan, options: argparse.Namespace) -> ClientTask:
    """The task that the arguments make. Raises BadUse, UnknownVariant."""
    if options.client is None:
        raise BadUse("--system client needs --client java:RELEASE or --client CMD")
    for name, given in (
        ("--actors", options.actors),
        ("--codec", options.on),
        ("--kafka", options.kafka),
        ("--level", options.level),
        ("--traces-from", options.traces_from),
        ("--master", options.master),
        ("--remote", options.remote),
    ):
        if given is not None:
            raise BadUse(f"{name} is not for a client; leave it out")
    faults = one_of("--faults", options.faults or FAULTS[0], FAULTS)
    changed = replace(plan, system="client", faults=faults, actors="client", on="bytes")
    return ClientTask(options.client, variant_of(options), changed, options.traces or RUNS)


def variant_of(options: argparse.Namespace) -> Variant:
    """The variant of the client's release, unless --variant says another.

    Raises BadUse, UnknownVariant.
    """
    if options.variant is not None:
        return parse(options.variant)
    if options.client.startswith(JAVA):
        release = options.client.removeprefix(JAVA)
        return parse(one_of("--client java:", release, tuple(RELEASES)))
    return parse(DEFAULT_VARIANT)


async def judge_rest(
    task: ClientTask, command: ClientCommand, ledger: ClientJournal, at_once: int
) -> None:
    """Run what is left; judging has a process of its own, so that no run waits for it."""
    left = list(ledger.missing(task.runs))
    if not left:
        note(f"judged before: {task.runs:,} runs")
        return
    loop = asyncio.get_running_loop()
    plans = [task.run_plan(number) for number in left]
    begun_at = task.runs - len(left)
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        ProgressDisplay(sys.stderr, task.runs, begun_at, None) as show,
    ):
        async for trace in record_runs(command, plans, at_once):
            outcome = await loop.run_in_executor(pool, outcome_of, task.variant, trace)
            ledger.add(trace, outcome)
            diverged = sum(o.finding is not None for o in ledger.outcomes.values())
            show(len(ledger.outcomes), Found(Summary(divergences=diverged)))
