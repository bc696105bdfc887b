"""`conformance coverage`: the statements of impl's protocol that all scopes together execute.

Each function with statements that no scope executes has a reason. With a ceiling, a file that
`--keep` wrote, no statement may be missed that was executed when the file was written.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from conformance.backends.processes import usable_cores
from conformance.campaigns.mutants import HuntScope
from conformance.campaigns.mutants.judged import Reached
from conformance.judging.coverage.functions import stale_reasons, unreached_functions
from conformance.judging.coverage.statements import protocol_places
from conformance.judging.guaranteed import HOLDS, VIOLATED
from conformance.judging.plan import PreparedPlan
from conformance.verbs.mutants import prepared_of
from conformance.verbs.random_mutants import judged_where, reached_by
from proofs.run import EXIT_CODES, BadUse
from proofs.run.directory import RunDirectory
from proofs.run.files import code_digest, pretty, write_json, write_whole
from proofs.say import say
from proofs.verbs.options import parse_positive

SCHEMA_VERSION: Final = 1
DEFAULT_OUT: Final = Path("out") / "impl-coverage"

Ceiling = Mapping[str, Any]
"""The content of a `--keep` file: the `scopes`, the number of `traces` of each, None for all, and
by function the number of statements that are not executed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `coverage`."""
    parser.add_argument(
        "--scope", metavar="SCOPE", action="append", help="this one; again for more (default: all)"
    )
    parser.add_argument(
        "--traces", type=parse_positive, metavar="N", help="the first of each scope (default: all)"
    )
    parser.add_argument(
        "--ceiling",
        type=Path,
        metavar="FILE",
        help="judge the scopes and traces of FILE, and name what was executed when --keep wrote it"
        " and is no more",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="write how much of each function is not executed"
    )
    parser.add_argument("--processes", type=parse_positive, metavar="N", help="default: all cores")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, metavar="DIR")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the answer as JSON")


def execute(options: argparse.Namespace) -> int:
    """Judge impl in every scope and report; 0 if each function with unexecuted statements has a
    reason, or is no worse than the ceiling. Results for the same code are not recorded again.
    Raises BadUse."""
    ceiling = read_ceiling(options) if options.ceiling else None
    scopes = ceiling["scopes"] if ceiling else options.scope
    traces = ceiling["traces"] if ceiling else options.traces
    with RunDirectory(options.out, {"traces": traces}, code_digest(), ("prepared",)) as run:
        prepared = judged_where(
            scopes, options.out, lambda scope, out: first_traces(scope, out, traces)
        )
        reached = reached_by(prepared, run, options.processes or usable_cores())
        report = report_of(reached, ceiling)
        write_whole(options.out / "report.json", pretty(report))
    write_json(options.json, report)
    write_json(options.keep, ceiling_of(report, traces))
    for row in report["unreached" if ceiling is None else "lost"]:
        say(format_row(row))
    for name in report["stale"]:
        say(f"{name}: executed whole, so that its reason in unreached.toml can go")
    say(f"{report['executed']} of {report['statements']} statements of the protocol are executed")
    say(f"verdict: {report['verdict']}; report: {options.out / 'report.json'}")
    return EXIT_CODES[report["verdict"]]


def read_ceiling(options: argparse.Namespace) -> Ceiling:
    """The file of --ceiling. Raises BadUse."""
    if options.scope or options.traces:
        raise BadUse("--ceiling FILE names the scopes and traces; leave --scope and --traces out")
    try:
        found: Ceiling = json.loads(options.ceiling.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadUse(f"--ceiling {options.ceiling}: {error}") from error
    return found


def first_traces(scope: HuntScope, out: Path, traces: int | None) -> PreparedPlan:
    """The first traces of a scope; those of its cover come first."""
    prepared = prepared_of(scope, out)
    if traces is not None and traces < prepared.count:
        prepared = replace(prepared, count=traces)
        prepared.save()
    return prepared


# The report


def report_of(reached: Mapping[str, Reached], ceiling: Ceiling | None = None) -> dict[str, Any]:
    """The statements that all scopes together execute, and by function those that none executes.
    `stale` has the functions that are executed whole although they have a reason."""
    executed = frozenset[int]().union(*(found.places for found in reached.values()))
    rows = [row.to_json() for row in unreached_functions(executed)]
    lost = [] if ceiling is None else beyond(rows, ceiling["unreached"])
    stale = stale_reasons([row["function"] for row in rows])
    explained = all(row["why"] for row in rows) and not stale
    return {
        "schema_version": SCHEMA_VERSION,
        "scopes": {name: len(found.places) for name, found in reached.items()},
        "statements": len(protocol_places()),
        "executed": len(executed & protocol_places().keys()),
        "unreached": rows,
        "stale": stale,
        "lost": lost,
        "verdict": VIOLATED if lost or (ceiling is None and not explained) else HOLDS,
    }


def beyond(rows: Sequence[Mapping[str, Any]], most: Mapping[str, int]) -> list[dict[str, Any]]:
    """The functions with more unexecuted statements than allowed, and their numbers."""
    return [
        {**row, "why": f"{most.get(row['function'], 0)} were not executed before"}
        for row in rows
        if len(row["lines"]) > most.get(row["function"], 0)
    ]


def ceiling_of(report: Mapping[str, Any], traces: int | None) -> dict[str, Any]:
    """The content that `--keep` writes for a report."""
    return {
        "scopes": list(report["scopes"]),
        "traces": traces,
        "executed": report["executed"],
        "unreached": {
            row["function"]: len(row["lines"])
            for row in sorted(report["unreached"], key=lambda row: str(row["function"]))
        },
    }


def format_row(row: Mapping[str, Any]) -> str:
    """A function as a line of the terminal."""
    lines = ", ".join(map(str, row["lines"]))
    count = f"{len(row['lines'])} of {row['statements']}"
    return f"{row['function']}: {count}, lines {lines}: {row['why'] or '?'}"
