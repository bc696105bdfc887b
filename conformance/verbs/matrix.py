"""`matrix`: judges brokers, levels and clients, one `run` after the other, and tabulates the
causes.

The same command continues with the first cell that is not finished; the result of a cell is in its
folder under --out. `--keep FILE` keeps the results beside those of other cells, and `make docs`
writes the pages.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from conformance.adapters.brokers.kafka.errors import KafkaError
from conformance.adapters.brokers.kfake_process import BrokerMissing
from conformance.campaigns.matrix.cells import (
    BROKERS,
    SCOPES,
    MatrixCell,
    cells_of,
    open_system,
    version_of,
)
from conformance.campaigns.matrix.page import matrix_pages
from conformance.judging.backend import BackendError
from conformance.judging.plan import Plan, configuration
from conformance.judging.reports.document import Document
from conformance.judging.system import NotApplicable
from conformance.verbs import run
from proofs.java import JavaError
from proofs.run import EXIT_CODES, positive, worst
from proofs.run.directory import RunDirectory
from proofs.run.files import code_digest, write_json, write_whole
from proofs.say import note, say
from proofs.trace.format import read

SCHEMA_VERSION: Final = 1
OUT: Final = Path("out/matrix")
CELLS: Final = "cells"
NOT_RUN: Final = (BrokerMissing, BackendError, KafkaError, JavaError, NotApplicable)
"""The reasons for which a cell cannot be run here."""

Row = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `matrix`."""
    brokers = ", ".join((*BROKERS, "wire://HOST:PORT"))
    parser.add_argument(
        "--brokers", metavar="NAMES", help=f'of {brokers} (default: all but wire; "": none)'
    )
    parser.add_argument(
        "--clients", metavar="CMDS", default="", help="java:RELEASE or commands, between commas"
    )
    parser.add_argument("--scopes", default=",".join(SCOPES), help=f"default: {','.join(SCOPES)}")
    parser.add_argument("--traces", type=int, metavar="N", help="of each cell (default: all)")
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="keep the results, for `make docs`"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="the results as JSON")
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help=f"default: {OUT}")


def execute(options: argparse.Namespace) -> int:
    """Judge the remaining cells; returns the exit code of the worst cell. Raises BadUse, OtherRun,
    Stopped."""
    scopes = options.scopes.split(",")
    for scope in scopes:
        configuration(Plan(scope=scope))
    given = BROKERS if options.brokers is None else options.brokers.split(",")
    brokers = [broker for broker in given if broker]
    clients = [client for client in options.clients.split(",") if client]
    cells = cells_of(brokers, clients, scopes)
    asked = {"traces": positive("--traces", options.traces)}
    with RunDirectory(options.out, asked, code_digest(), (CELLS,)) as directory:
        for cell in cells:
            if cell.name not in directory.journal:
                note(f"matrix: {cell.name}")
                directory.journal.add(cell.name, judged(cell, options))
        rows = [directory.journal[cell.name] for cell in cells]
        report: Row = {"schema_version": SCHEMA_VERSION, "cells": rows, "verdict": verdict_of(rows)}
        directory.write(report, {}, options.json)
    pages = matrix_pages(report)
    write_pages(pages, options.out)
    if options.keep is not None:
        write_json(options.keep, with_kept(options.keep, rows))
    say(pages["matrix"].markdown().rstrip())
    say(f"verdict: {report['verdict']}")
    return EXIT_CODES[report["verdict"]]


def with_kept(file: Path, rows: list[Row]) -> Row:
    """The results of a file, with `rows` in place of those of the same cells."""
    kept = json.loads(file.read_text(encoding="utf-8"))["cells"] if file.exists() else []
    cells = {row["name"]: row for row in (*kept, *rows)}
    all_rows = [*cells.values()]
    return {"schema_version": SCHEMA_VERSION, "cells": all_rows, "verdict": verdict_of(all_rows)}


def write_pages(pages: dict[str, Document], out: Path) -> None:
    """Write each page as Markdown and HTML."""
    for name, page in pages.items():
        write_whole(out / f"{name}.md", page.markdown())
        write_whole(out / f"{name}.html", page.html())


def verdict_of(rows: list[Row]) -> str:
    """The verdict of the worst cell that could be run."""
    return worst([row["verdict"] for row in rows if row["verdict"]] or ["undecided"])


def judged(cell: MatrixCell, options: argparse.Namespace) -> Row:
    """Run a cell; returns its row. A cell that cannot be run here has no verdict, and a reason."""
    row: Row = {
        **cell._asdict(),
        "name": cell.name,
        "version": version_of(cell),
        "date": datetime.now(UTC).date().isoformat(),
        "verdict": None,
        "why_not": None,
        "causes": [],
    }
    out = options.out / CELLS / cell.name
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    try:
        with open_system(cell) as system:
            arguments = cell.arguments(system, options.traces)
            run.execute(parser.parse_args([*arguments, "--out", str(out)]))
    except NOT_RUN as error:
        return row | {"why_not": str(error) or type(error).__name__}
    return row | found_in(out)


def found_in(out: Path) -> Row:
    """The results of a run, as far as the matrix shows them."""
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    return {
        "verdict": report["verdict"],
        "variant": report["variant"],
        "traces": report["traces"],
        "steps": report["steps"],
        "transitions": report["coverage"]["transitions"],
        "undecided": report["undecided"],
        "masked": report["masked"],
        "causes": [cause_of(row, out) for row in report["divergences"]],
    }


def cause_of(row: Row, out: Path) -> Row:
    """A cause with its requests, if there are any."""
    kept = ("cause", "breaks", "occurrences", "rule", "steps", "expected", "observed", "decided_by")
    exchanges = read(out / row["trace"]).header.exchanges if row["script"] else ()
    return {
        **{name: row[name] for name in kept},
        "exchanges": list(exchanges),
        "no_script": row["no_script"],
    }


def kept_pages(file: Path) -> dict[str, Document]:
    """The pages of results that were kept."""
    return matrix_pages(json.loads(file.read_text(encoding="utf-8")))
