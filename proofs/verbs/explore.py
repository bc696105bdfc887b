"""`explore SCOPE...`: every reachable state of a scope, and a shortest trace to what is broken."""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from proofs.explore.engines import ENGINES, EngineFunction, engine_for
from proofs.explore.expected import BY_NAME_ONLY, EXPECTED
from proofs.explore.scope import ScopeReport, explore_scope, read_pairs
from proofs.java import FetchFailed, MissingTool
from proofs.lift.patch import Patch
from proofs.lift.source import composition_of, load_model, model_for, scope_names
from proofs.risks import risks_of
from proofs.run import BadUse, worst
from proofs.run.directory import Remote
from proofs.say import say
from proofs.trace.breach import breach_of
from proofs.trace.replay import UnknownScope, configuration_of
from proofs.verbs.options import (
    add_engines,
    add_output,
    add_patch,
    add_variant,
    patches_of,
    rows_of,
)
from proofs.verbs.output import (
    ExplorationDisplay,
    Output,
    finding_json,
    sometimes_json,
    sometimes_lines,
    trace_json,
)

COMPARED: Mapping[str, tuple[str, ...]] = {
    scope: tuple(engines.split())
    for scope, engines in read_pairs(
        """
c: idempotent-medium transactions-small transactions-exhausted transactions-forgotten
    transactions-log
c ints: transactions-markers transactions-late-batch transactions-guards transactions-offsets
    transactions-readers
c ints tlc: idempotent-small processing
source c ints tlc: idempotent-tiny idempotent-restart idempotent-expiry idempotent-producers
    idempotent-loss idempotent-too-large idempotent-exhaustion idempotent-late-error
    idempotent-wrap-across idempotent-unresolved idempotent-split idempotent-deletion delivery
    idempotent-partitions-replicas
    producer-ids producer-ids-alone transactions-tiny transactions-trouble transactions-trouble-log
    transactions-log-again transactions-guards-partitions transactions-window transactions-between
    transactions-writes transactions-offsets-log transactions-two-errors
    transactions-two-expirations transactions-leaderless
"""
    )
}
"""The engines that explore a scope when all are compared; scopes not listed have the three of
COMPARED_ELSE."""

COMPARED_ELSE = ("source", "c", "ints")

CHECKPOINTS = "checkpoints"
"""The folder of explorations that are not finished."""

AGREED = ("distinct", "transitions", "depth", "levels")
"""The counts on which engines must agree; None is a count that an engine does not have."""


def add_arguments(
    parser: argparse.ArgumentParser, place: Callable[[str], Path | Remote] = Path
) -> None:
    """Add the verb's options; `place` reads --out."""
    parser.add_argument("scopes", nargs="*", metavar="SCOPE", help="NAME[/BUDGET=N...]")
    parser.add_argument(
        "--all",
        action="store_true",
        help="all scopes but large, engines compared; --engine: by these of them only",
    )
    add_variant(parser)
    add_engines(parser)
    add_patch(parser)
    parser.add_argument("--stop", action="store_true", help="end at the first broken guarantee")
    parser.add_argument(
        "--property",
        dest="ask",
        action="append",
        default=[],
        metavar="NAME",
        help="check this assumed property too, which nobody guarantees (see `list`)",
    )
    parser.add_argument(
        "--symmetry",
        metavar="INDEX",
        help="explore one state for all that differ by an exchange of these: partitions, ...",
    )
    parser.add_argument(
        "--witnesses",
        action="store_true",
        help="what must happen sometimes decides other variants and budgets, too",
    )
    add_output(parser, place)


def execute(arguments: argparse.Namespace, engines: Mapping[str, EngineFunction] = ENGINES) -> int:
    """Explore, compare if several engines are requested, and write. Raises ValueError."""
    patches = patches_of(arguments)
    plan = plan_of(arguments, patches)
    names = ("variant", "stop", "ask", "symmetry", "witnesses")
    rows = [list(row) for row in plan]
    with Output(arguments, *names, made=(CHECKPOINTS,), plan=rows, patches=rows_of(patches)) as out:
        work = Work(arguments, patches, out, engines, plan)
        done, skipped = work.explore_all(plan)
        disagreements = compare(done)
        for line in side_by_side(done):
            say(line)
        for line in disagreements:
            say(f"the engines disagree: {line}")
        content = report_of(done, skipped, disagreements)
        return out.finish(content, workers=arguments.workers, **work.run)


def plan_of(arguments: argparse.Namespace, patches: Sequence[Patch] = ()) -> list[tuple[str, str]]:
    """Return (scope, engine) in the order of the work. Raises ValueError for a bad name."""
    everything = arguments.all
    if not everything and not arguments.scopes:
        raise BadUse(
            "name a SCOPE, as `kafka-eos explore idempotent-tiny`, or write --all for all of them:"
            " that takes an hour; `kafka-eos list scopes` says what there is"
        )
    scopes = every_scope() if everything else arguments.scopes
    for scope in scopes:
        check_is_no_addition(scope, patches)
        configuration_of(model_for(scope), scope, arguments.variant)
    if not everything:
        return [
            (scope, engine)
            for scope in scopes
            for engine in arguments.engine or (engine_for(scope),)
        ]
    chosen = arguments.engine or tuple(ENGINES)
    return [
        (scope, engine)
        for scope in scopes
        for engine in COMPARED.get(scope, COMPARED_ELSE)
        if engine in chosen
    ]


def check_is_no_addition(scope: str, patches: Sequence[Patch]) -> None:
    """Raise UnknownScope for a scope that only a patch defines."""
    name = scope.partition("/")[0]
    entry = re.compile(rf"^{re.escape(name)}: ", re.MULTILINE)
    if name not in scope_names() and any(entry.search(patch.after) for patch in patches):
        raise UnknownScope(
            f"{name} is a scope that the patch adds: scopes are read from the model as it stands;"
            " write the entry into its file, and leave it out of the patch"
        )


def every_scope() -> list[str]:
    """Return the scopes of --all: those that need not be requested by name."""
    return [scope for scope in EXPECTED if scope not in BY_NAME_ONLY]


def is_missing_tool(error: Exception) -> bool:
    """Whether TLC's Java or jar is missing; TLC is then left out of a comparison, with a
    message."""
    return isinstance(error, MissingTool | FetchFailed)


class Work:
    """The explorations of one command. `run` collects the content of `run.json`."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        patches: Sequence[Patch],
        output: Output,
        engines: Mapping[str, EngineFunction],
        plan: Sequence[tuple[str, str]],
    ) -> None:
        self.plan = frozenset(plan)
        self.arguments = arguments
        self.patches = tuple(patches)
        self.output = output
        self.engines = engines
        self.run: dict[str, Any] = {"peak_bytes": 0, "explorations": []}

    def explore_all(
        self, plan: Sequence[tuple[str, str]]
    ) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
        """Return what each exploration found, and which explorations were skipped."""
        journal = self.output.journal
        done: list[dict[str, Any]] = []
        skipped: list[dict[str, str]] = []
        for scope, engine in plan:
            unit = f"{scope} by {engine}"
            if unit in journal:
                say(f"{unit}: done before")
                done.append(journal[unit])
                self.forget(scope, engine)
                continue
            try:
                report = self.one(scope, engine)
            except Exception as error:
                if len(plan) == 1 or not is_missing_tool(error):
                    raise
                say(f"{unit}: left out, {error}")
                skipped.append({"scope": scope, "engine": engine, "why": str(error)})
                continue
            done.append(report)
            if report["interrupted"]:
                break
            if report["verdict"] != "undecided":
                journal.add(unit, report)
            self.forget(scope, engine)
        return done, skipped

    def checkpoint(self, scope: str, engine: str) -> Path | None:
        """Return the folder of one exploration while it runs; None without --out."""
        if self.output.path is None:
            return None
        return self.output.path / CHECKPOINTS / f"{scope.replace('/', '-')}-{engine}"

    def forget(self, scope: str, engine: str) -> None:
        """Remove the checkpoint of an exploration that the report holds."""
        folder = self.checkpoint(scope, engine)
        if folder is not None and folder.exists():
            shutil.rmtree(folder)
            if not any(folder.parent.iterdir()):
                folder.parent.rmdir()

    def compares_source(self, scope: str) -> bool:
        """Whether the source explores the scope anyway, to be compared at the end."""
        return (scope, "source") in self.plan

    def one(self, scope: str, engine: str) -> dict[str, Any]:
        """Explore one scope by one engine, and print and write what is found."""
        with ExplorationDisplay(f"{scope} by {engine}") as progress:
            report = explore_scope(
                scope,
                self.arguments.variant,
                patches=self.patches,
                assumed_properties=self.arguments.ask,
                witnesses=self.arguments.witnesses,
                engine=engine,
                engines=self.engines,
                workers=self.arguments.workers,
                stop=self.arguments.stop,
                checkpoint=self.checkpoint(scope, engine),
                symmetry=self.arguments.symmetry,
                is_checked=not self.compares_source(scope),
                progress=progress,
            )
        peak = report.counts.peak_bytes or 0
        self.run["peak_bytes"] = max(self.run["peak_bytes"], peak)
        self.run["explorations"].append(
            {
                "scope": report.scope,
                "engine": report.counts.engine,
                "seconds": round(report.seconds, 3),
            }
        )
        say_report(report)
        base = scope.replace("/", "-")
        for found in report.violations:
            self.output.pictures(
                model_for(scope, self.patches), f"{base}-{found.property}", found.trace
            )
        for name, trace in report.sometimes.before.items():
            self.output.pictures(model_for(scope), f"{base}-{name}-before", trace)
        return exploration_json(report, engine)


# Reports


def exploration_json(report: ScopeReport, asked: str) -> dict[str, Any]:
    """Return one exploration in the report; `asked` is the engine that the plan names."""
    counts = report.counts
    return {
        "scope": report.scope,
        "variant": report.variant,
        "asked": asked,
        "engine": counts.engine,
        "distinct": counts.distinct,
        "orbits": counts.orbits,
        "transitions": counts.transitions,
        "depth": counts.depth,
        "levels": None if counts.levels is None else list(counts.levels),
        "firings": counts.firings,
        "deadlocks": counts.deadlocks,
        "violations": [finding_json(found) for found in report.violations],
        "witnesses": {name: trace_json(trace) for name, trace in report.witnesses.items()},
        **sometimes_json(report.sometimes),
        "collision_bound": counts.collision_bound,
        "interrupted": counts.interrupted,
        "verdict": report.verdict,
    }


def verdict_of(done: Sequence[Mapping[str, Any]], disagreements: Sequence[str]) -> str:
    """Return the worst verdict."""
    if disagreements:
        return "violated"
    return worst(entry["verdict"] for entry in done) if done else "undecided"


def report_of(
    done: Sequence[dict[str, Any]], skipped: Sequence[Any], disagreements: Sequence[str]
) -> dict[str, Any]:
    """Return the report of all explorations; the keys of a single one are also at the top."""
    single = done[0] if len(done) == 1 else {}
    return {
        **single,
        "explorations": list(done),
        "skipped": list(skipped),
        "disagreements": list(disagreements),
        "verdict": verdict_of(done, disagreements),
    }


def compare(done: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the differences between engines on scopes that both explored completely."""
    differences = []
    whole = [entry for entry in done if entry["verdict"] != "undecided"]
    for i, entry in enumerate(whole):
        first = next(e for e in whole if e["scope"] == entry["scope"])
        if first is whole[i]:
            continue
        for key in AGREED:
            ours, theirs = first[key], entry[key]
            if None not in (ours, theirs) and ours != theirs:
                differences.append(
                    f"{entry['scope']}, {key}: {first['asked']} {ours}, {entry['asked']} {theirs}"
                )
    return differences


def side_by_side(done: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the counts of each engine, in one line a scope, if several engines explored it."""
    engines = list(dict.fromkeys(entry["asked"] for entry in done))
    if len(engines) < 2:
        return
    scopes = list(dict.fromkeys(entry["scope"] for entry in done))
    width = max(map(len, scopes))
    yield f"{'distinct states, depth':<{width}}" + "".join(f"{engine:>20}" for engine in engines)
    for scope in scopes:
        counted = {entry["asked"]: entry for entry in done if entry["scope"] == scope}
        cells = (format_counts(counted.get(engine)) for engine in engines)
        yield f"{scope:<{width}}" + "".join(f"{cell:>20}" for cell in cells)


def format_counts(entry: Mapping[str, Any] | None) -> str:
    """Return one engine's counts of a scope, or "-" if it did not explore the scope completely."""
    if entry is None or entry["verdict"] == "undecided":
        return "-"
    return f"{entry['distinct']:,}, {entry['depth']}"


def say_report(report: ScopeReport) -> None:
    """Print what one exploration found."""
    counts = report.counts
    transitions = "" if counts.transitions is None else f"{counts.transitions:,} transitions, "
    orbits = "" if counts.orbits is None else f" in {counts.orbits:,} orbits"
    peak = "" if counts.peak_bytes is None else f", peak {counts.peak_bytes / 2**20:,.0f} MiB"
    say(
        f"{report.scope} [{report.variant}] by {counts.engine}: {counts.distinct:,} states{orbits},"
        f" {transitions}depth {counts.depth}, {report.seconds:.1f} s{peak}: {report.verdict}"
    )
    for found in report.violations:
        fault = "BROKEN" if found.guaranteed else "not guaranteed here, and not kept"
        say(f"    {found.property}: {fault}; {found.steps} steps, {found.events} events")
        say(f"        {breach_of(found.property, found.trace, brief=True)}")
    for line in sometimes_lines(report.sometimes):
        say(f"    {line}")
    if line := unpromised_line(report):
        say(line)
    for line in elsewhere_lines(report):
        say(line)


def unpromised_line(report: ScopeReport) -> str:
    """Return what a verdict of `holds` leaves out: broken guarantees that the variant does not give
    here."""
    names = [found.property for found in report.violations if not found.guaranteed]
    if report.verdict != "holds" or not names:
        return ""
    return f"what is promised here holds; not promised here, and broken: {', '.join(names)}"


def elsewhere_lines(report: ScopeReport) -> Iterator[str]:
    """Yield known breaches that this scope does not show, caused by rules that the variant
    changes."""
    home = composition_of(report.scope)
    own = load_model(home).variants.parse(report.variant.partition("/")[0]).name.split("/")
    changed = {part.partition("=")[0] for part in report.variant.split("/") if part not in own}
    risks = [risk for risk in risks_of(home, report.variant) if changed & risk.rules.keys()]
    for risk in risks if report.verdict == "holds" else ():
        if risk.scope and risk.scope != report.scope:
            broken = ", ".join(risk.breaks)
            command = f"kafka-eos try --variant {report.variant}"
            yield f"known to break {broken} in {risk.scope}: {command}"
