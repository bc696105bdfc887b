"""`conformance coverage`: which statements of impl's protocol the scopes execute together."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from conformance.backends.processes import usable_cores
from conformance.guaranteed import HOLDS, VIOLATED
from conformance.mutants.coverage import FunctionCoverage, unreached_functions
from conformance.mutants.judged import Reached
from conformance.mutants.statements import protocol_places
from conformance.verbs.mutants import prepared_of
from conformance.verbs.random_mutants import judged_where, reached_by
from proofs.run import EXIT_CODES
from proofs.run.directory import RunDirectory
from proofs.run.files import code_digest, pretty, write_json, write_whole
from proofs.say import say
from proofs.verbs.options import parse_positive

SCHEMA_VERSION: Final = 1
DEFAULT_OUT: Final = Path("out") / "impl-coverage"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """All that `coverage` takes."""
    parser.add_argument(
        "--scope", metavar="SCOPE", action="append", help="this one; again for more (default: all)"
    )
    parser.add_argument("--processes", type=parse_positive, metavar="N", help="default: all cores")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, metavar="DIR")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the answer as JSON")


def execute(options: argparse.Namespace) -> int:
    """Judge impl in every scope and report; 0 if each function that is not executed whole has a
    reason. What was recorded for the same code is not recorded again. Raises BadUse."""
    with RunDirectory(options.out, {}, code_digest(), ("prepared",)) as run:
        prepared = judged_where(options.scope, options.out, prepared_of)
        reached = reached_by(prepared, run, options.processes or usable_cores())
        report = report_of(reached)
        write_whole(options.out / "report.json", pretty(report))
    write_json(options.json, report)
    for row in report["unreached"]:
        say(format_row(row))
    say(f"{report['executed']} of {report['statements']} statements of the protocol are executed")
    say(f"verdict: {report['verdict']}; report: {options.out / 'report.json'}")
    return EXIT_CODES[report["verdict"]]


def report_of(reached: Mapping[str, Reached]) -> dict[str, Any]:
    """What all scopes execute together, and by function what none does."""
    executed = frozenset[int]().union(*(found.places for found in reached.values()))
    rows: list[FunctionCoverage] = unreached_functions(executed)
    return {
        "schema_version": SCHEMA_VERSION,
        "scopes": {name: len(found.places) for name, found in reached.items()},
        "statements": len(protocol_places()),
        "executed": len(executed & protocol_places().keys()),
        "unreached": [row.to_json() for row in rows],
        "verdict": HOLDS if all(row.why for row in rows) else VIOLATED,
    }


def format_row(row: Mapping[str, Any]) -> str:
    """A function for the reader."""
    lines = ", ".join(map(str, row["lines"]))
    count = f"{len(row['lines'])} of {row['statements']}"
    return f"{row['function']}: {count}, lines {lines}: {row['why'] or '?'}"
