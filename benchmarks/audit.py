"""An audit of generated logs: whether it finds all that is planted, and how fast it reads.

    python -m benchmarks.audit [--bytes 1000000000] [--of-each 100] [--partitions 1]
                               [--folder DIR] [--dump-log] [--json FILE]

Logs of about so many bytes are generated in a new folder, and removed at the end: ordinary
producers in batches of 16 records and 16 kB, and so many defects of each kind. The audit must find
what is planted and nothing else. `MB/s` is by processor time, so that it says what a core reads,
whoever else uses the machine. With `--dump-log` Kafka's own kafka-dump-log of 4.3.1 reads the
largest partition, headers and checksums alone, beside this audit of it; both print nothing.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measuring import (
    Time,
    count_option,
    load_average,
    measure_time,
    processor_seconds,
    round_figures,
    run_benchmark,
)
from conformance.adapters.brokers.kafka.releases import NEWEST
from conformance.audit.generated import differences, generate
from conformance.audit.partition_audit import AuditSettings, PartitionAudit, audit_partition
from conformance.audit.report import conclude
from conformance.audit.segments import PartitionSource, find_partitions
from conformance.audit.task import audit_all
from conformance.judging.backend import Options
from proofs.cache import cache_folder, make_once
from proofs.java import FetchFailed, MissingTool, download_jars, find_java
from proofs.run.journal import Journal

DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"
TOOLS = f"org.apache.kafka:kafka-tools:{NEWEST}"


class WrongFindings(Exception):
    """An audit found something else than what is planted."""


def done(audits: Iterator[PartitionAudit | None]) -> list[PartitionAudit]:
    """All partitions."""
    return [audit for audit in audits if audit is not None]


def timed(work: Callable[[], Any], size_bytes: int, what: str) -> tuple[dict[str, Any], Any]:
    """Print and return how fast it was, and what it gave."""
    time, result = measure_time(work, processor_seconds)
    figures = figures_of(time, size_bytes)
    print(f"{what:<14}" + "  ".join(f"{name} {value}" for name, value in figures.items()))
    return figures, result


def figures_of(time: Time, size_bytes: int) -> dict[str, Any]:
    """Times, and MB a second of either clock."""
    megabytes = size_bytes / 1e6
    return {
        "seconds": round_figures(time.seconds),
        "cpu_seconds": round_figures(time.cpu_seconds),
        "mb_per_second": round_figures(megabytes / time.seconds),
        "mb_per_cpu_second": round_figures(megabytes / time.cpu_seconds),
        "load": load_average(),
    }


def tools() -> list[Path]:
    """The jars of Kafka's tools; the first time they come through Maven. Raises MissingTool,
    FetchFailed."""
    folder = cache_folder() / "kafka-tools" / NEWEST
    made = make_once(folder, lambda draft: download_jars([TOOLS], draft))
    return sorted(made.glob("*.jar"))


def dump_log(log: PartitionSource) -> None:
    """Kafka's own reader of segments."""
    jars = ":".join(map(str, tools()))
    files = ",".join(f"{log.folder}/{name}" for name in log.segments)
    command = [str(find_java()), "-cp", jars, DUMP_LOG, "--files", files]
    quiet = subprocess.DEVNULL
    subprocess.run(command, check=True, stdout=quiet, stderr=quiet)


def measure(asked: Namespace) -> Mapping[str, Any]:
    """Generate, audit, compare. Raises WrongFindings."""
    folder = Path(tempfile.mkdtemp(prefix="kafka-eos-audit-", dir=asked.folder))
    try:
        return measure_in(folder, asked)
    finally:
        shutil.rmtree(folder)


def measure_in(folder: Path, asked: Namespace) -> Mapping[str, Any]:
    """As `measure`, in a folder."""
    logs: Sequence[PartitionSource] = []
    settings = AuditSettings(NEWEST)
    generated, planted = timed(
        lambda: generate(folder, asked.bytes, of_each=asked.of_each), asked.bytes, "generate"
    )
    logs = find_partitions([str(folder)])
    size = sum(log.bytes for log in logs)
    print(f"{size / 1e6:,.0f} MB in {len(logs)} partitions, {len(planted):,} findings planted")
    options = Options(folder / "log", partitions=asked.partitions)
    read, audits = timed(
        lambda: done(audit_all(logs, settings, Journal(), "processes", options)), size, "partitions"
    )
    concluded, result = timed(lambda: conclude(audits, settings), size, "transactions")
    if wrong := differences(planted, result.findings):
        raise WrongFindings("\n".join(wrong[:20]))
    print("all found, and nothing else")
    content = {
        "bytes": size,
        "batches": sum(audit.batches for audit in audits),
        "planted": len(planted),
        "generate": generated,
        "partitions": read,
        "transactions": concluded,
    }
    if asked.dump_log:
        tools()
        content |= compare_with_dump_log(max(logs, key=lambda log: log.bytes), settings)
    return content


def compare_with_dump_log(log: PartitionSource, settings: AuditSettings) -> Mapping[str, Any]:
    """Both on one partition, which has just been read: as much of it is in memory for either."""
    for segment in log.read():
        bytes(segment)
    print(f"{log.bytes / 1e6:,.0f} MB, read once more:")
    ours, _ = timed(lambda: audit_partition(log, settings), log.bytes, "one partition")
    theirs, _ = timed(lambda: dump_log(log), log.bytes, "dump-log")
    return {"one_partition": ours, "dump_log": theirs}


OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "--bytes": count_option(1_000_000_000, "of the logs, about"),
    "--of-each": count_option(100, "defects of each kind"),
    "--partitions": count_option(1, "processes"),
    "--folder": {"type": Path, "metavar": "DIR", "help": "for the logs (the system's own)"},
    "--dump-log": {"action": "store_true", "help": "measure kafka-dump-log, too"},
}


def main(words: Sequence[str] | None = None) -> int:
    """Run the command."""
    return run_benchmark(
        "audit", __doc__, OPTIONS, measure, (WrongFindings, FetchFailed, MissingTool), words
    )


if __name__ == "__main__":
    sys.exit(main())
