"""`client-table`: checks, client by client, that features that work with Kafka work with our
broker.

Each client comes from its own registry, and runs one program for each feature at both brokers. The
same command continues with the first cell that was not run. `--keep FILE` replaces older results of
the same cells; `make docs` writes a page of them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from conformance.adapters.brokers.kafka.errors import KafkaError
from conformance.adapters.brokers.kafka.releases import NEWEST
from conformance.campaigns.client_table.brokers import OURS, SecuredBroker, open_broker
from conformance.campaigns.client_table.cell import run_cell
from conformance.campaigns.client_table.clients import CLIENTS, ClientRelease, clients_named
from conformance.campaigns.client_table.features import FEATURES, Feature
from conformance.campaigns.client_table.page import LACKS, NOT_RUN, client_table_page, verdicts_of
from conformance.verbs.testbed_options import KAFKAS
from proofs.java import JavaError
from proofs.run import EXIT_CODES, one_of, worst
from proofs.run.directory import RunDirectory
from proofs.run.files import code_digest, write_json, write_whole
from proofs.run.journal import Journal
from proofs.say import note, say

SCHEMA_VERSION: Final = 1
OUT: Final = Path("out/client-table")
PAGE: Final = "client_table"
NOT_HERE: Final = (KafkaError, JavaError, OSError)
"""The reasons for which a cell cannot be run here."""

Row = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `client-table`."""
    clients = ", ".join(client.product for client in CLIENTS)
    features = ", ".join(feature.name for feature in FEATURES)
    parser.add_argument(
        "--clients", metavar="NAMES", default="", help=f"of {clients}, each with :RELEASE (all)"
    )
    parser.add_argument("--features", metavar="NAMES", default="", help=f"of {features} (all)")
    parser.add_argument(
        "--brokers",
        metavar="NAMES",
        default=f"{NEWEST},{OURS}",
        help=f"{OURS}, releases of Kafka (default: {NEWEST},{OURS})",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="keep the results, for `make docs`"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="the results as JSON")
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help=f"default: {OUT}")


def execute(options: argparse.Namespace) -> int:
    """Run the remaining cells; 0 if all features that work on Kafka work on ours, 1 if one does
    not, 3 if a cell could not be run here. Raises BadUse, OtherRun, Stopped."""
    clients = clients_named([name for name in options.clients.split(",") if name])
    by_name = {feature.name: feature for feature in FEATURES}
    asked = [name for name in options.features.split(",") if name]
    features = [by_name[one_of("feature", name, by_name)] for name in asked or by_name]
    brokers = [one_of("broker", name, (OURS, *KAFKAS)) for name in options.brokers.split(",")]
    with RunDirectory(options.out, {}, code_digest()) as directory:
        rows = [
            row
            for broker in brokers
            for row in rows_at(broker, clients, features, directory.journal)
        ]
        verdict = worst(verdicts_of(rows))
        directory.write(report_of(rows), {}, options.json)
    page = client_table_page(rows)
    write_whole(options.out / f"{PAGE}.md", page.markdown())
    write_whole(options.out / f"{PAGE}.html", page.html())
    if options.keep is not None:
        write_json(options.keep, report_of(with_kept(options.keep, rows)))
    say(page.markdown().rstrip())
    say(f"verdict: {verdict}")
    return EXIT_CODES[verdict]


def report_of(rows: Sequence[Row]) -> Row:
    """All cells, and their verdict."""
    return {
        "schema_version": SCHEMA_VERSION,
        "cells": list(rows),
        "verdict": worst(verdicts_of(rows)),
    }


def with_kept(file: Path, rows: Sequence[Row]) -> list[Row]:
    """The results of a file, with `rows` in place of those of the same cells."""
    kept = json.loads(file.read_text(encoding="utf-8"))["cells"] if file.exists() else []
    cells = {(row["client"], row["feature"], row["broker"]): row for row in (*kept, *rows)}
    return list(cells.values())


def rows_at(
    broker: str, clients: Sequence[ClientRelease], features: Sequence[Feature], journal: Journal
) -> list[Row]:
    """The rows of one broker, which is started only if a cell remains."""
    rows: list[Row] = []
    with ExitStack() as stack:
        running: SecuredBroker | Exception | None = None
        for client in clients:
            for feature in features:
                unit = f"{client.client} {feature.name} {broker}"
                if unit not in journal:
                    running = running or _open(stack, broker)
                    note(f"client-table: {unit}")
                    row = row_of(client, feature, broker, running)
                    if row["result"] != NOT_RUN:
                        journal.add(unit, row)
                    rows.append(row)
                else:
                    rows.append(journal[unit])
    return rows


def _open(stack: ExitStack, broker: str) -> SecuredBroker | Exception:
    """The broker, or the reason why it is not available."""
    try:
        return stack.enter_context(open_broker(broker))
    except NOT_HERE as error:
        return error


def row_of(
    client: ClientRelease, feature: Feature, broker: str, running: SecuredBroker | Exception
) -> Row:
    """One cell, with its result."""
    row: Row = {
        "client": client.title,
        "feature": feature.name,
        "broker": broker,
        "version": running.version if isinstance(running, SecuredBroker) else broker,
        "date": datetime.now(UTC).date().isoformat(),
        "facts": [],
    }
    if why := client.lacks.get(feature.name):
        return row | {"result": LACKS, "error": why}
    if isinstance(running, Exception):
        return row | {"result": NOT_RUN, "error": str(running)}
    try:
        return row | run_cell(client.client, feature, running)._asdict()
    except NOT_HERE as error:
        return row | {"result": NOT_RUN, "error": str(error)}
