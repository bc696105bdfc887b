"""`run --system client`: a real client in many runs, each under faults, judged by the model.

In the report `traces` are runs, and `steps` the explained requests. A client's timing is its own,
so the reports of two runs with one seed need not be equal byte for byte.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import reduce
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from conformance.adapters.clients import protocol_rules
from conformance.adapters.clients import transactional_rules as rules
from conformance.adapters.clients import visible_records as promises
from conformance.adapters.clients.guaranteed import configuration_of_guarantees, states
from conformance.adapters.clients.judgement import EXPLAINED
from conformance.adapters.clients.known_causes import known_cause
from conformance.adapters.clients.outcome import ClientRunOutcome, trace_name
from conformance.adapters.clients.processes import (
    JAVA,
    ClientCommand,
    check_command,
    client_command,
    client_version,
)
from conformance.adapters.clients.recorded_run import judge_one, lines_of
from conformance.adapters.clients.recorder import record_runs
from conformance.adapters.clients.run_plan import LEVEL, RunPlan, draw_plan, without_faults
from conformance.adapters.clients.trace import format_trace, parse_trace
from conformance.adapters.clients.trace_page import client_page
from conformance.adapters.clients.transactional_plan import (
    draw_transactional,
    without_coordinator_faults,
)
from conformance.judging.backend import BackendFailed
from conformance.judging.causes import WORST_FIRST, Cause
from conformance.judging.guaranteed import not_guaranteed
from conformance.judging.known_differences import KNOWN_DIFFERENCES, explanation, stale
from conformance.judging.plan import Plan, PreparedPlan
from conformance.judging.reports.pipeline import Baseline, Judged, format_findings, judge_and_report
from conformance.judging.reports.report import ReportedDivergence, Result
from conformance.judging.rows import Found
from conformance.judging.runner import Wave
from conformance.judging.signatures import Finding, Findings, Signature, add_up, by_first_id
from model.idempotent.configuration import Variant
from model.idempotent.messages import Error
from model.idempotent.variants import DEFAULT_VARIANT, RELEASES, parse
from proofs.java import JavaError
from proofs.lift.source import load_model
from proofs.run import BadUse, one_of
from proofs.run.directory import RunDirectory
from proofs.run.files import write_whole
from proofs.run.interrupts import without_interrupts
from proofs.run.journal import Journal
from proofs.run.progress import CountDisplay
from proofs.say import note

RUNS: Final = 500
"""The number of runs without --traces."""
AT_ONCE: Final = 8
"""The number of runs at the same time without --partitions."""
FAULTS: Final = ("connections", "none")
NOT_FOR_CLIENTS: Final[Mapping[str, tuple[str, object]]] = {
    "--actors": ("actors", None),
    "--codec": ("on", None),
    "--kafka": ("kafka", None),
    "--scope": ("scope", Plan().scope),
    "--traces-from": ("traces_from", None),
    "--backend": ("backend", None),
    "--master": ("master", None),
    "--remote": ("remote", None),
    "--conf": ("conf", None),
    "--ignore": ("ignore", None),
    "--no-automatic-masks": ("automatic_masks", True),
}
"""Options of `run` that do not apply, by name: the attribute, and its value without the option."""
CLIENT_MODULES: Final = (
    "model.idempotent.client",
    "model.idempotent.responses",
    "model.idempotent.recovery",
)
"""The modules that hold a client's rules."""
TRACES: Final = "runs"
"""The folder of the traces that are not explained."""


@dataclass(frozen=True, slots=True)
class ClientTask:
    """The question of a run: a client, the model of a variant, and the number of runs. With a
    `level` of transaction.version the client's transactions are judged; with None, its idempotent
    batches."""

    client: str
    variant: Variant
    plan: Plan
    runs: int
    at_once: int = AT_ONCE
    level: int | None = None

    def run_plan(self, number: int) -> RunPlan:
        """One of the runs."""
        has_faults = self.plan.faults == FAULTS[0]
        if self.level is None:
            plan = draw_plan(self.plan.seed, number)
            return plan if has_faults else without_faults(plan)
        own = draw_transactional(self.plan.seed, number, self.level)
        return own if has_faults else without_coordinator_faults(own)

    @property
    def question(self) -> dict[str, Any]:
        """The values on which the report depends."""
        return {
            "system": self.plan.system,
            "client": self.client,
            "variant": self.variant.name,
            "seed": self.plan.seed,
            "runs": self.runs,
            "faults": self.plan.faults,
            "level": self.level,
        }


def run(plan: Plan, options: argparse.Namespace) -> int:
    """Judge a client, and return the exit code.

    Raises BadUse, UnknownVariant, BadBaseline, OtherRun, Stopped, and BackendFailed if the client
    cannot be started.
    """
    task = task_of(plan, options)
    return judge_and_report(
        "client",
        task.question,
        options,
        lambda directory, baseline: judge_client(task, options.judge, directory, baseline),
    )


def task_of(plan: Plan, options: argparse.Namespace) -> ClientTask:
    """The task that the arguments describe. Raises BadUse, UnknownVariant."""
    if options.client is None:
        raise BadUse("--system client needs --client java:RELEASE or --client CMD")
    for name, (field, without) in NOT_FOR_CLIENTS.items():
        if getattr(options, field) != without:
            raise BadUse(f"{name} is not for a client; leave it out")
    faults = one_of("--faults", options.faults or FAULTS[0], FAULTS)
    changed = replace(plan, system="client", faults=faults, actors="client", on="bytes")
    if not options.client.startswith(JAVA):
        check_command(options.client)
    runs, at_once = options.traces or RUNS, options.partitions or AT_ONCE
    level = level_of(options)
    return ClientTask(options.client, variant_of(options), changed, runs, at_once, level)


def level_of(options: argparse.Namespace) -> int | None:
    """The broker's transaction.version for transactions, None for runs without transactions. Raises
    BadUse."""
    if options.transactions:
        return LEVEL if options.level is None else int(options.level)
    if options.level is not None:
        raise BadUse("--level is of transactions; add --transactions, or leave it out")
    return None


def variant_of(options: argparse.Namespace) -> Variant:
    """The variant of the client's release, unless --variant names another.

    Raises BadUse, UnknownVariant.
    """
    if options.variant is not None:
        return parse(options.variant)
    if options.client.startswith(JAVA):
        release = options.client.removeprefix(JAVA)
        return parse(one_of("--client java:", release, tuple(RELEASES)))
    return parse(DEFAULT_VARIANT)


# Judging


def judge_client(
    task: ClientTask, judge: str, directory: RunDirectory, baseline: Baseline
) -> Judged:
    """The result of all runs. Raises KeyboardInterrupt, BackendFailed."""
    assert directory.path is not None
    began, known = time.monotonic(), len(directory.journal)
    try:
        command = client_command(task.client)
        asyncio.run(judge_rest(task, command, directory.journal, directory.path / TRACES))
    except (JavaError, OSError) as error:
        raise BackendFailed(f"--client {task.client}: {error}") from error
    outcomes = [ClientRunOutcome.from_json(row) for row in directory.journal.values()]
    result = result_of(task, outcomes, judge, directory.path, baseline)
    # Only the runs of this start: times of earlier ones are not kept.
    seconds = round(time.monotonic() - began, 3)
    steps = sum(outcome.found.summary.steps for outcome in outcomes[known:])
    return result, [Wave(known, task.runs, seconds, steps, "client", None)]


async def judge_rest(
    task: ClientTask, command: ClientCommand, journal: Journal, traces: Path
) -> None:
    """Run all remaining plans. Judging has a process of its own, so that no run waits for it."""
    left = [number for number in range(task.runs) if f"run {number}" not in journal]
    if not left:
        note(f"judged before: {task.runs:,} runs")
        return
    loop = asyncio.get_running_loop()
    plans = [task.run_plan(number) for number in left]
    total = Found()
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        CountDisplay("runs", task.runs, task.runs - len(left)) as display,
    ):
        async for trace in record_runs(command, plans, task.at_once):
            with without_interrupts():  # the first call starts the process
                judging = loop.run_in_executor(pool, judge_one, task.variant, trace)
            outcome = await judging
            number = trace.plan.number
            if outcome.verdict != EXPLAINED:
                named = replace(trace, variant=task.variant.name)
                write_whole(traces / trace_name(number), format_trace(named))
            journal.add(f"run {number}", outcome.to_json())
            total = total.merge(outcome.found)
            display(len(journal), *format_findings(total, None))


# Reporting


def result_of(
    task: ClientTask,
    outcomes: Sequence[ClientRunOutcome],
    judge: str,
    out: Path,
    baseline: Baseline,
) -> Result:
    """The result of the runs; the trace of each divergence is written to `out`."""
    total = reduce(Found.merge, (outcome.found for outcome in outcomes), Found())
    rows = (*KNOWN_DIFFERENCES, *baseline)
    undecided = undecided_runs(outcomes, judge)
    k = configuration_of_guarantees(task.variant, 1, 1)
    of_transactions = task.level is not None
    return Result(
        prepared=prepared_of(task, out),
        total=total.summary,
        judge=judge,
        divergences=list(group_findings(total.summary.findings, rows, task, out)),
        guarantees=promises.states(total.seen) if of_transactions else states(total.seen, k),
        not_guaranteed=() if of_transactions else not_guaranteed(k),
        undecided=len(undecided),
        stale=stale(rows, task.variant.release, total.summary.findings),
        more={
            "unfinished": sum(outcome.unfinished for outcome in outcomes),
            "idle": sum(outcome.is_idle for outcome in outcomes),
            "undecided_because": dict(sorted(Counter(o.why for o in undecided).items())),
        },
    )


def undecided_runs(outcomes: Sequence[ClientRunOutcome], judge: str) -> list[ClientRunOutcome]:
    """The runs that decide nothing. A few idle runs are normal if timeouts are shorter than a
    client's start. If a client is idle in half of its runs, the other runs show nothing either.
    """
    idle = sum(outcome.is_idle for outcome in outcomes)
    is_mostly_idle = 2 * idle >= len(outcomes)
    undecided = [outcome for outcome in outcomes if outcome.is_undecided(judge)]
    return [outcome for outcome in undecided if is_mostly_idle or not outcome.is_idle]


def prepared_of(task: ClientTask, out: Path) -> PreparedPlan:
    """The points that runs can cover: the client's rules, and the error codes in its answers."""
    plan = replace(
        task.plan,
        system=f"client {client_version(task.client)}",
        scope="client" if task.level is None else f"client transactions/level={task.level}",
        variant=task.variant.name,
        traces_from=("runs",),
    )
    codes = frozenset(error.name for error in Error)
    rules = rules_of_client() if task.level is None else frozenset()
    return PreparedPlan(plan, out, task.runs, 0, None, 0, None, None, rules, frozenset(), codes)


def rules_of_client() -> frozenset[str]:
    """The names of the rules that a client has."""
    rules = load_model("idempotent").actor_rules
    return frozenset(n for n, rule in rules.items() if rule.__module__ in CLIENT_MODULES)


def group_findings(
    findings: Findings, rows: Baseline, task: ClientTask, out: Path
) -> Iterator[ReportedDivergence]:
    """One divergence for all findings in the same fields of the same request. Of the worst
    findings, the shortest one's trace and story are written to `out`."""
    groups = add_up((signature.without_values, found) for signature, found in findings.items())
    for number, (signature, found) in enumerate(by_first_id(groups), start=1):
        name = f"divergences/{number:02d}-{signature.rule}.jsonl"
        shortest = worst_of(findings, signature)
        text = (out / TRACES / shortest["trace"]).read_text(encoding="utf-8")
        write_whole(out / name, text)
        trace = parse_trace(text, name)
        told = lines_of(task.variant, trace, shortest)
        write_whole((out / name).with_suffix(".txt"), "".join(f"{line}\n" for line in told))
        write_whole((out / name).with_suffix(".html"), client_page(trace, shortest, told))
        known = explanation(rows, task.variant.release, signature)
        cause = Cause(signature.rule, signature.fields, "")
        yield ReportedDivergence(
            shortest,
            name,
            known,
            found,
            cause,
            decided_by=text_of_rule(task.client, cause),
            no_script="a client decides itself what it sends; the first line of the trace has its"
            " settings, what the application sent and when, and what the network did to the n-th"
            " request; the others have all requests and answers",
        )


def worst_of(findings: Findings, group: Signature) -> Finding:
    """The finding of a group that breaks most; among equals, the shortest."""
    kept = [f for s, o in findings.items() if s.without_values == group for f in o.shortest]
    return min(kept, key=lambda f: (WORST_FIRST.index(f["breaks"]), f["steps"], f["id"]))


def text_of_rule(client: str, cause: Cause) -> str:
    """The text of the rule behind a cause, and known facts about the client."""
    named = {one.__name__: one for one in (*rules.RULES, *rules.POLICIES, *protocol_rules.RULES)}
    rule, known = named.get(cause.decider), known_cause(client, cause.text)
    said = inspect.getdoc(rule) or "" if rule else ""
    return f"{said}\n\n{client}: {known.text}".strip() if known else said
