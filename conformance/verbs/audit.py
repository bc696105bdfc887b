"""`audit`: holds the logs of real topics to the model's rules of a leader.

It reads log directories of brokers, or fetches a cluster's topics, and writes report.json,
report.md and audit_findings.parquet into --out. With --generate it writes log directories with
planted defects.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from conformance.audit.decisions import TOPIC
from conformance.audit.generated import generate
from conformance.audit.kinds import SERVERS
from conformance.audit.live import LiveCluster, check_cluster, copy_cluster
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
from conformance.audit.segments import PartitionSource, find_partitions, was_stopped_cleanly
from conformance.audit.task import audit_all
from conformance.judging.reports.dataset import Dataset
from conformance.verbs.backend_options import add_backend, backend_options
from impl.client.command_config import InvalidCommandConfig, read_command_config
from impl.client.security import NO_SECURITY
from model.idempotent import variants as idempotent
from proofs.run import EXIT_CODES, HOLDS, BadUse, positive
from proofs.run.directory import JOURNAL, REPORT, RunDirectory, Stopped
from proofs.run.files import code_digest, digest, pretty, write_json, write_whole
from proofs.run.progress import CountDisplay
from proofs.say import note, say
from proofs.verbs.deployment import release_of

PAGE: Final = "report.md"
TABLE: Final = "audit_findings"
PLANTED: Final = "planted.json"
LOG: Final = "spark.log"
PREFIX: Final = "kafka-eos-audit-"

BYTES: Final = 1 << 20
OF_EACH: Final = 100
GOES_WITH: Final = {
    "bytes": "generate",
    "of_each": "generate",
    "copy": "bootstrap_servers",
    "command_config": "bootstrap_servers",
}
NUMBERS: Final = ("bytes", "of_each", "producer_expiration_ms", "max_transaction_ms")
NOTHING_KEPT: Final = (
    "stopped; nothing is kept: with --out DIR the same command goes on where it stood"
)

DEFAULTS: Final = AuditSettings(next(iter(idempotent.RELEASES)))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `audit`."""
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
        "--command-config",
        type=Path,
        metavar="FILE",
        help="how to connect with TLS or SASL, as Kafka's command-line tools are told",
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
    what.add_argument("--bytes", type=int, metavar="N", help="of --generate (default: 1 MiB)")
    what.add_argument(
        "--of-each",
        type=int,
        metavar="N",
        help=f"so many defects of each kind that --generate plants (default: {OF_EACH})",
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
    """Audit; 0 without a defect, 1 with one. Raises BadUse, OtherRun, Busy, BackendError,
    FetchRefused, OSError."""
    check_use(options)
    if options.generate is not None:
        return plant(options.generate, options.bytes or BYTES, options.of_each or OF_EACH)
    settings = settings_of(options)
    if options.bootstrap_servers is None:
        logs = find_partitions(options.log_dir, options.topics)
        for text in what_limits(logs, options):
            note(text)
        with opened(options, settings) as directory:
            return audit(options, logs, settings, directory)
    if options.copy is not None and any(options.copy.glob("*")):
        raise BadUse(f"--copy {options.copy}: name a new or an empty folder")
    cluster = cluster_of(options)
    check_cluster(cluster)
    with ExitStack() as stack:
        directory = stack.enter_context(opened(options, settings))
        folder = options.copy or Path(stack.enter_context(TemporaryDirectory(prefix=PREFIX)))
        copy_cluster(cluster, folder)
        return audit(options, find_partitions([str(folder)]), settings, directory)


def cluster_of(options: argparse.Namespace) -> LiveCluster:
    """The named cluster. Raises BadUse, OSError."""
    security = NO_SECURITY
    if options.command_config is not None:
        try:
            security = read_command_config(options.command_config)
        except InvalidCommandConfig as error:
            raise BadUse(f"--command-config {error}") from error
    return LiveCluster(options.bootstrap_servers, security, options.topics)


def servers_of(options: argparse.Namespace) -> str:
    """The broker options for commands in a report."""
    if options.command_config is None:
        return options.bootstrap_servers or SERVERS
    return f"{options.bootstrap_servers} --command-config {options.command_config}"


def what_limits(logs: Sequence[PartitionSource], options: argparse.Namespace) -> Iterator[str]:
    """Limits of the audit in these directories, and its assumptions. Raises BadUse."""
    if all(log.topic != TOPIC for log in logs):
        yield f"without {TOPIC} nothing is known of what coordinators decided"
    copies = sum(log.replicas > 1 for log in logs)
    if copies:
        yield f"{copies:,} partitions are in several directories: of each the longest is audited"
    for directory in options.log_dir if not options.live else ():
        if not was_stopped_cleanly(directory):
            yield (
                f"{directory} was not left by a clean stop: if it was copied while its broker was"
                " at work, say so with --live"
            )


def check_use(options: argparse.Namespace) -> None:
    """Check the arguments by themselves. Raises BadUse."""
    if sum(map(bool, (options.log_dir, options.bootstrap_servers, options.generate))) != 1:
        raise BadUse("give one of --log-dir, --bootstrap-servers, --generate")
    for name, goes_with in GOES_WITH.items():
        if getattr(options, name) is not None and not getattr(options, goes_with):
            raise BadUse(f"{option(name)} goes with {option(goes_with)}; leave it out")
    for name in NUMBERS:
        positive(option(name), getattr(options, name))
    try:
        re.compile(options.topics or "")
    except re.error as error:
        raise BadUse(
            f"--topics {options.topics!r} is no regular expression of Python: {error}"
        ) from error


def option(name: str) -> str:
    """The name of an argument on the command line."""
    return f"--{name.replace('_', '-')}"


def opened(options: argparse.Namespace, settings: AuditSettings) -> RunDirectory:
    """The folder of --out, which must not belong to another run. Raises OtherRun, Busy,
    DamagedRun."""
    question = {
        "verb": "audit",
        **{name: getattr(options, name) for name in ("log_dir", "bootstrap_servers", "topics")},
        **asdict(settings),
    }
    return RunDirectory(options.out, question, code_digest())


def audit(
    options: argparse.Namespace,
    logs: Sequence[PartitionSource],
    settings: AuditSettings,
    directory: RunDirectory,
) -> int:
    """Audit partitions. Raises BadUse, BackendError, OSError."""
    where = backend_options(options, (options.out or Path.cwd()) / LOG)
    dataset = None if options.dataset is None else Dataset.at(options.dataset)
    audits: list[PartitionAudit] = []
    try:
        with CountDisplay("partitions audited", len(logs)) as progress:
            done = audit_all(logs, settings, directory.journal, options.backend, where)
            for audited in done:
                audits += [] if audited is None else [audited]
                progress(len(audits))
    except KeyboardInterrupt:
        if directory.path is None:
            raise Stopped(NOTHING_KEPT) from None
        raise
    result = conclude(audits, settings, servers_of(options))
    write(result, options)
    if directory.path is not None:  # the next audit copies the topics anew
        (directory.path / JOURNAL).unlink(missing_ok=True)
    if dataset is not None:
        dataset.write_table(TABLE, *named_table(result))
    for text in terminal_lines(result):
        say(text)
    if directory.path is not None:
        say(f"report: {directory.path / REPORT}")
    return EXIT_CODES[result.verdict]


def plant(directory: Path, size_bytes: int, of_each: int) -> int:
    """Write logs with planted defects. Raises BadUse, OSError."""
    if directory.exists():
        raise BadUse(f"--generate {directory} is there already; name a new folder")
    planted = generate(directory, size_bytes, of_each=of_each)
    write_whole(directory / PLANTED, pretty([one._asdict() for one in planted]))
    say(f"{len(planted):,} findings are planted in {directory}; {PLANTED} there lists them")
    return HOLDS


def settings_of(options: argparse.Namespace) -> AuditSettings:
    """The assumptions of the audit. Raises UnknownVariant."""
    return AuditSettings(
        release=release_of(options.release, idempotent.RELEASES),
        producer_expiration_ms=options.producer_expiration_ms,
        max_transaction_ms=options.max_transaction_ms,
        is_live=options.live or options.bootstrap_servers is not None,
    )


def write(result: AuditResult, options: argparse.Namespace) -> None:
    """Write the files of --out and --json."""
    report = report_of(result)
    write_json(options.json, report)
    if options.out is not None:
        write_whole(options.out / REPORT, pretty(report))
        write_whole(options.out / PAGE, markdown(result))
        _, columns, [table] = named_table(result)
        pq.write_table(table.cast(columns), options.out / f"{TABLE}.parquet")


def named_table(result: AuditResult) -> tuple[str, pa.Schema, list[pa.Table]]:
    """The audit's name, which says what was read, and its findings."""
    name = digest(pretty(report_of(result)["partitions"]))[:16]
    return name, FINDINGS, [table_of_findings(name, result.findings)]
