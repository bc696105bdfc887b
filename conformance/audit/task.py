"""The work of workers: each audits one partition at a time, the largest first.

The journal has the finished audits. If a partition has changed since, or the settings or the code
have, the unit has another name, and the partition is audited again.
"""

from __future__ import annotations

import functools
import json
import pickle
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from conformance.audit.partition_audit import AuditSettings, PartitionAudit, audit_partition
from conformance.audit.segments import PartitionSource
from conformance.backends.by_name import open_job_backend
from conformance.backends.processes import usable_cores
from conformance.judging.backend import Options, WorkerTask, each_once
from proofs.run.files import code_digest, digest, line, pretty, write_whole
from proofs.run.journal import Journal

PLAN: Final = "plan.json"
CODE: Final = functools.cache(code_digest)
BYTES_A_PROCESS: Final = 256 << 20
"""The least number of bytes that is worth a process."""


class AuditPlan(NamedTuple):
    """The partitions, sorted by size, and the settings."""

    settings: AuditSettings
    logs: tuple[PartitionSource, ...]


def load(directory: Path) -> AuditPlan:
    """The plan that `write_plan` wrote."""
    plan = json.loads((directory / PLAN).read_text(encoding="utf-8"))
    logs = (PartitionSource(**{**log, "segments": tuple(log["segments"])}) for log in plan["logs"])
    return AuditPlan(AuditSettings(**plan["settings"]), tuple(logs))


def write_plan(plan: AuditPlan, directory: Path) -> None:
    """Write the plan for workers."""
    logs = [log._asdict() for log in plan.logs]
    text = pretty({"settings": asdict(plan.settings), "logs": logs})
    write_whole(directory / PLAN, text)


def run(plan: AuditPlan, number: int) -> bytes:
    """Audit one partition. Raises OSError."""
    return pickle.dumps(audit_partition(plan.logs[number], plan.settings))


def audit_all(
    logs: Sequence[PartitionSource],
    settings: AuditSettings,
    journal: Journal,
    backend: str,
    options: Options,
) -> Iterator[PartitionAudit | None]:
    """Audit all partitions that the journal lacks, and return the audits of all; None now and then
    while no audit is finished. Raises BackendError, OSError."""
    by_size = sorted(logs, key=lambda log: (-log.bytes, log[:2]))
    units = {unit_of(log, settings): log for log in by_size}
    left = {log[:2]: unit for unit, log in units.items() if unit not in journal}
    yield from (unpacked(journal[unit]) for unit in units if unit in journal)
    if not left:
        return
    audits = audit_each([units[unit] for unit in left.values()], settings, backend, options)
    for audit in each_once(left, audits, lambda audit: audit[:2]):
        if audit is not None:
            journal.add(left[audit[:2]], packed(audit))
        yield audit


def audit_each(
    logs: Sequence[PartitionSource], settings: AuditSettings, backend: str, options: Options
) -> Iterator[PartitionAudit | None]:
    """Audit these partitions in order, as `audit_all`."""
    processes = options.partitions or default_processes(logs)
    if backend == "processes" and processes <= 1:
        yield from (audit_partition(log, settings) for log in logs)
        return
    with TemporaryDirectory(prefix="kafka-eos-audit-") as name:
        write_plan(AuditPlan(settings, tuple(logs)), Path(name))
        task = WorkerTask(__name__, Path(name))
        width = replace(options, partitions=processes) if backend == "processes" else options
        opened = open_job_backend(backend, task, width)
        try:
            for body in opened.run_jobs(range(len(logs))):
                yield None if body is None else pickle.loads(body)
        finally:
            opened.close()


def unit_of(log: PartitionSource, settings: AuditSettings) -> str:
    """The name of the unit: a partition in its present state, the settings and the code."""
    judged = digest(line({"log": log._asdict(), "settings": asdict(settings), "code": CODE()}))
    return f"{log.topic}-{log.partition} {judged[:16]}"


def packed(audit: PartitionAudit) -> str:
    """An audit in the form that the journal keeps."""
    return b64encode(zlib.compress(pickle.dumps(audit))).decode()


def unpacked(text: str) -> PartitionAudit:
    """The audit that `packed` wrote."""
    audit: PartitionAudit = pickle.loads(zlib.decompress(b64decode(text)))
    return audit


def default_processes(logs: Sequence[PartitionSource]) -> int:
    """The smallest of: cores, partitions, and bytes divided by the least that is worth a
    process."""
    total = sum(log.bytes for log in logs)
    return min(usable_cores(), len(logs), 1 + total // BYTES_A_PROCESS)
