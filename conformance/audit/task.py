"""What workers do: audit one partition each, the largest first."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from conformance.audit.partition_audit import AuditSettings, PartitionAudit, audit_partition
from conformance.audit.segments import PartitionSource
from conformance.backends import Options, WorkerTask, open_job_backend
from conformance.backends.processes import usable_cores
from proofs.run.files import pretty, write_whole

PLAN: Final = "plan.json"
BYTES_A_PROCESS: Final = 256 << 20
"""Less is read here before a process has started."""


class AuditPlan(NamedTuple):
    """The partitions, by size, and how they are judged."""

    settings: AuditSettings
    logs: tuple[PartitionSource, ...]


def load(directory: Path) -> AuditPlan:
    """The plan that `write_plan` wrote."""
    plan = json.loads((directory / PLAN).read_text(encoding="utf-8"))
    logs = (PartitionSource(**{**log, "segments": tuple(log["segments"])}) for log in plan["logs"])
    return AuditPlan(AuditSettings(**plan["settings"]), tuple(logs))


def write_plan(plan: AuditPlan, directory: Path) -> None:
    """Write what workers load."""
    logs = [log._asdict() for log in plan.logs]
    text = pretty({"settings": asdict(plan.settings), "logs": logs})
    write_whole(directory / PLAN, text)


def run(plan: AuditPlan, number: int) -> bytes:
    """Audit one partition. Raises OSError."""
    return pickle.dumps(audit_partition(plan.logs[number], plan.settings))


def audit_all(
    logs: Sequence[PartitionSource], settings: AuditSettings, backend: str, options: Options
) -> Iterator[PartitionAudit | None]:
    """Audit all partitions, wherever that is done; None now and then while nothing is done. Raises
    BackendError, OSError."""
    by_size = sorted(logs, key=lambda log: (-log.bytes, log[:2]))
    processes = options.partitions or default_processes(logs)
    if backend == "processes" and processes == 1:
        yield from (audit_partition(log, settings) for log in by_size)
        return
    with TemporaryDirectory(prefix="kafka-eos-audit-") as name:
        write_plan(AuditPlan(settings, tuple(by_size)), Path(name))
        task = WorkerTask(__name__, Path(name))
        width = replace(options, partitions=processes) if backend == "processes" else options
        opened = open_job_backend(backend, task, width)
        try:
            for body in opened.run_jobs(range(len(by_size))):
                yield None if body is None else pickle.loads(body)
        finally:
            opened.close()


def default_processes(logs: Sequence[PartitionSource]) -> int:
    """As many as there are cores, partitions, and enough to read."""
    total = sum(log.bytes for log in logs)
    return min(usable_cores(), len(logs), 1 + total // BYTES_A_PROCESS)
