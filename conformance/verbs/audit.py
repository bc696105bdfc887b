"""`audit`: what was written to real topics, held to the model's rules of a leader.

It reads log directories of brokers, or fetches a cluster's topics, and writes report.json,
report.md and audit_findings.parquet into --out. With --generate it writes log directories with
planted defects.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from conformance.audit.generated import generate
from conformance.audit.live import copy_cluster
from conformance.audit.partition_audit import AuditSettings, PartitionAudit
from conformance.audit.report import (
    FINDINGS,
    AuditResult,
    conclude,
    markdown,
    report_of,
    table_of_findings,
    terminal_lines,
)
from conformance.audit.segments import find_partitions
from conformance.audit.task import audit_all
from conformance.dataset import Dataset
from conformance.verbs.backend_options import add_backend, backend_options
from model.idempotent import variants as idempotent
from proofs.run import EXIT_CODES, HOLDS, BadUse, one_of
from proofs.run.directory import JOURNAL, Stopped
from proofs.run.files import digest, pretty, write_json, write_whole
from proofs.run.journal import Journal
from proofs.run.progress import CountDisplay
from proofs.say import say

REPORT: Final = "report.json"
PAGE: Final = "report.md"
TABLE: Final = "audit_findings"
PLANTED: Final = "planted.json"
LOG: Final = "spark.log"
PREFIX: Final = "kafka-eos-audit-"

DEFAULTS: Final = AuditSettings(next(iter(idempotent.RELEASES)))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """All that `audit` takes."""
    _add_input(parser)
    _add_rules(parser)
    _add_place(parser)


def _add_input(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what is audited")
    what.add_argument(
        "--log-dir",
        action="append",
        metavar="DIR",
        help="a broker's log directory, or a partition's folder in it, here or at a URI as in"
        " s3://BUCKET/FOLDER; again for each",
    )
    what.add_argument(
        "--bootstrap-servers",
        metavar="HOST:PORT,...",
        help="a cluster, whose topics are fetched and audited",
    )
    what.add_argument(
        "--copy",
        type=Path,
        metavar="DIR",
        help="keep there what was fetched, as a log directory (default: it is removed)",
    )
    what.add_argument("--topics", metavar="REGEX", help="only these (default: all)")
    what.add_argument(
        "--live",
        action="store_true",
        help="brokers were at work while the directories were copied",
    )
    what.add_argument(
        "--generate",
        type=Path,
        metavar="DIR",
        help="write logs with planted defects there, and what they are into DIR/planted.json",
    )
    what.add_argument(
        "--bytes", type=int, default=1 << 20, metavar="N", help="of --generate (default: 1 MiB)"
    )
    what.add_argument(
        "--of-each",
        type=int,
        default=100,
        metavar="N",
        help="so many defects of each kind that --generate plants (default: 100)",
    )


def _add_rules(parser: argparse.ArgumentParser) -> None:
    how = parser.add_argument_group("how it is judged")
    how.add_argument(
        "--release",
        default=DEFAULTS.release,
        help=f"of the brokers: {', '.join(idempotent.RELEASES)} (default: {DEFAULTS.release})",
    )
    how.add_argument(
        "--producer-expiration-ms",
        type=int,
        default=DEFAULTS.producer_expiration_ms,
        metavar="MS",
        help="the brokers' producer.id.expiration.ms (default: a day)",
    )
    how.add_argument(
        "--max-transaction-ms",
        type=int,
        default=DEFAULTS.max_transaction_ms,
        metavar="MS",
        help="the brokers' transaction.max.timeout.ms (default: 15 minutes)",
    )


def _add_place(parser: argparse.ArgumentParser) -> None:
    where = parser.add_argument_group("where it runs")
    add_backend(where, "processes")
    where.add_argument(
        "--dataset",
        metavar="URI",
        help="the findings as Parquet, at a path or URI that audits and runs may share",
    )
    where.add_argument("--json", type=Path, metavar="FILE", help="the report")
    where.add_argument("--out", type=Path, metavar="DIR", help="where report and table go")


def execute(options: argparse.Namespace) -> int:
    """Audit; 0 without a defect, 1 with one. Raises BadUse, BackendError, OSError."""
    if sum(map(bool, (options.log_dir, options.bootstrap_servers, options.generate))) != 1:
        raise BadUse("give one of --log-dir, --bootstrap-servers, --generate")
    if options.generate is not None:
        return plant(options.generate, options.bytes, options.of_each)
    if options.bootstrap_servers is None:
        return audit(options, options.log_dir, settings_of(options))
    settings = replace(settings_of(options), is_live=True)
    with ExitStack() as stack:
        folder = options.copy or Path(stack.enter_context(TemporaryDirectory(prefix=PREFIX)))
        if any(folder.glob("*")):
            raise BadUse(f"--copy {folder}: name a new or an empty folder")
        copy_cluster(options.bootstrap_servers, options.topics, folder)
        return audit(options, [str(folder)], settings)


def audit(options: argparse.Namespace, directories: Sequence[str], settings: AuditSettings) -> int:
    """Audit log directories. Raises BadUse, BackendError, OSError."""
    where = backend_options(options, (options.out or Path.cwd()) / LOG)
    dataset = None if options.dataset is None else Dataset.at(options.dataset)
    logs = find_partitions(directories, options.topics)
    file = None if options.out is None else options.out / JOURNAL
    audits: list[PartitionAudit] = []
    try:
        with CountDisplay("partitions audited", len(logs)) as progress:
            done = audit_all(logs, settings, Journal(file), options.backend, where)
            for audited in done:
                audits += [] if audited is None else [audited]
                progress(len(audits))
    except KeyboardInterrupt:
        raise Stopped(left_behind(file, len(audits))) from None
    result = conclude(audits, settings)
    write(result, options)
    if file is not None:
        file.unlink(missing_ok=True)  # the next audit reads what is there then
    if dataset is not None:
        dataset.write_table(TABLE, *named_table(result))
    for text in terminal_lines(result):
        say(text)
    return EXIT_CODES[result.verdict]


def left_behind(journal: Path | None, audited: int) -> str:
    """What an interrupted audit says."""
    if journal is None or not audited:
        return "stopped; nothing is kept: with --out DIR the same command goes on where it stood"
    return (
        f"stopped; {audited:,} partitions are in {journal}, and the same command goes on from there"
    )


def plant(directory: Path, size_bytes: int, of_each: int) -> int:
    """Write logs with planted defects. Raises BadUse, OSError."""
    if directory.exists():
        raise BadUse(f"--generate {directory} is there already; name a new folder")
    planted = generate(directory, size_bytes, of_each=of_each)
    write_whole(directory / PLANTED, pretty([one._asdict() for one in planted]))
    say(f"{len(planted):,} findings are planted in {directory}; {PLANTED} there lists them")
    return HOLDS


def settings_of(options: argparse.Namespace) -> AuditSettings:
    """What is taken for granted. Raises BadUse."""
    return AuditSettings(
        release=one_of("--release", options.release, idempotent.RELEASES),
        producer_expiration_ms=options.producer_expiration_ms,
        max_transaction_ms=options.max_transaction_ms,
        is_live=options.live,
    )


def write(result: AuditResult, options: argparse.Namespace) -> None:
    """The files of --out and --json."""
    report = report_of(result)
    write_json(options.json, report)
    if options.out is not None:
        write_whole(options.out / REPORT, pretty(report))
        write_whole(options.out / PAGE, markdown(result))
        _, columns, [table] = named_table(result)
        pq.write_table(table.cast(columns), options.out / f"{TABLE}.parquet")


def named_table(result: AuditResult) -> tuple[str, pa.Schema, list[pa.Table]]:
    """The audit's name, which says what it read, and its findings."""
    name = digest(pretty(report_of(result)["partitions"]))[:16]
    return name, FINDINGS, [table_of_findings(name, result.findings)]
