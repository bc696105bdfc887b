"""The findings of an audit as JSON, Markdown, a table, and lines for a terminal.

The report depends on the logs and the settings alone, and names the brokers that the logs came
from. It does not depend on the backend, or on the place of the logs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa

from conformance.audit.decisions import TOPIC, CoordinatorLogs
from conformance.audit.kinds import KINDS, SERVERS, AuditFinding
from conformance.audit.outcomes import judge_outcomes
from conformance.audit.partition_audit import AuditSettings, PartitionAudit
from proofs.run.files import line

SCHEMA_VERSION: Final = 1
MOST_OF_A_KIND: Final = 1_000
"""The most findings of a kind in `report.json`; the table has all."""
MOST_SHOWN: Final = 5
"""The most findings of a kind in the terminal."""

FINDINGS: Final = pa.schema(
    {
        "audit": pa.string(),
        "kind": pa.string(),
        "is_defect": pa.bool_(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "producer_id": pa.int64(),
        "producer_epoch": pa.int32(),
        "places": pa.int64(),
        "details": pa.string(),
    }
)
"""The table of findings; `details` is JSON."""


@dataclass(frozen=True, slots=True)
class AuditResult:
    """All partitions and findings, in the order of topics, partitions and offsets; `servers` are
    the brokers that actions name."""

    settings: AuditSettings
    audits: Sequence[PartitionAudit]
    findings: Sequence[AuditFinding]
    servers: str = SERVERS

    @property
    def verdict(self) -> str:
        """The verdict: whether there is a defect."""
        return "violated" if any(KINDS[f.kind].is_defect for f in self.findings) else "holds"

    def counts(self, *, defects: bool) -> dict[str, int]:
        """The number of places of each kind."""
        counted = Counter[str]()
        for finding in self.findings:
            if KINDS[finding.kind].is_defect == defects:
                counted[finding.kind] += finding.places
        return dict(sorted(counted.items()))


def conclude(
    audits: Iterable[PartitionAudit], settings: AuditSettings, servers: str = SERVERS
) -> AuditResult:
    """The findings across all partitions."""
    ordered = sorted(audits, key=lambda audit: (audit.topic, audit.partition))
    coordinators = CoordinatorLogs(
        (state for audit in ordered for state in audit.states),
        [audit.partition for audit in ordered if audit.topic == TOPIC],
        is_whole=not any(audit.is_damaged for audit in ordered if audit.topic == TOPIC),
    )
    found = [finding for audit in ordered for finding in audit.findings]
    found += judge_outcomes(ordered, coordinators, settings)
    return AuditResult(settings, ordered, sorted(found, key=place_of), servers)


def place_of(finding: AuditFinding) -> tuple[Any, ...]:
    """The sort key of a finding."""
    return (finding.topic, finding.partition, finding.offset, finding.kind, finding.producer_id)


# JSON


def report_of(result: AuditResult) -> dict[str, Any]:
    """`report.json`."""
    audits = result.audits
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": result.verdict,
        "release": result.settings.release,
        "producer_expiration_ms": result.settings.producer_expiration_ms,
        "max_transaction_ms": result.settings.max_transaction_ms,
        "is_live": result.settings.is_live,
        "coordinators_log": any(audit.topic == TOPIC for audit in audits),
        "totals": {
            "partitions": len(audits),
            **{name: sum(getattr(audit, name) for audit in audits) for name in SUMMED},
            "transactions": sum(len(audit.endings) for audit in audits),
        },
        "defects": result.counts(defects=True),
        "allowed": result.counts(defects=False),
        "findings": [json_of(one, result.servers) for one in kept_of(result.findings)],
        "partitions": [partition_json(audit) for audit in audits],
    }


SUMMED: Final = ("segments", "bytes", "batches", "records")
OF_A_PARTITION: Final = (
    *("topic", "partition", "segments", "replicas", "bytes", "batches", "records", "producers"),
    *("first_offset", "end_offset"),
)


def partition_json(audit: PartitionAudit) -> dict[str, Any]:
    """A partition's numbers; `transactions` counts ends at this partition."""
    numbers = {name: getattr(audit, name) for name in OF_A_PARTITION}
    return {**numbers, "transactions": len(audit.endings)}


def kept_of(findings: Iterable[AuditFinding], most: int = MOST_OF_A_KIND) -> Iterator[AuditFinding]:
    """The first findings of each kind."""
    counted = Counter[str]()
    for finding in findings:
        counted[finding.kind] += 1
        if counted[finding.kind] <= most:
            yield finding


def json_of(finding: AuditFinding, servers: str) -> dict[str, Any]:
    """A finding, with its meaning and what to do."""
    kind = KINDS[finding.kind]
    return {
        **finding._asdict(),
        "details": dict(finding.details),
        "is_defect": kind.is_defect,
        "meaning": kind.meaning,
        "action": action_of(finding, servers),
    }


def action_of(finding: AuditFinding, servers: str) -> str:
    """The advice for a finding, with its place and the brokers filled in."""
    return KINDS[finding.kind].action.format(
        servers=servers, topic=finding.topic, partition=finding.partition, offset=finding.offset
    )


# A table


def table_of_findings(name: str, findings: Iterable[AuditFinding]) -> pa.Table:
    """All findings of the audit `name`, as rows."""
    rows = (
        {
            **finding._asdict(),
            "audit": name,
            "is_defect": KINDS[finding.kind].is_defect,
            "details": line(dict(finding.details)),
        }
        for finding in findings
    )
    return pa.Table.from_pylist(list(rows), FINDINGS)


# Text


class KindSummary(NamedTuple):
    """The findings of one kind."""

    kind: str
    places: int
    findings: Sequence[AuditFinding]


def sections(result: AuditResult) -> Iterator[KindSummary]:
    """The kinds that were found, defects first."""
    counts = result.counts(defects=True) | result.counts(defects=False)
    for kind in KINDS:
        if kind in counts:
            found = [finding for finding in result.findings if finding.kind == kind]
            yield KindSummary(kind, counts[kind], found)


def terminal_lines(result: AuditResult) -> Iterator[str]:
    """A summary."""
    report = report_of(result)
    totals: Mapping[str, int] = report["totals"]
    names = ("partitions", "segments", "batches", "transactions")
    words = ", ".join(f"{totals[name]:,} {name}" for name in names)
    yield f"{words}; {totals['bytes'] / 1e6:,.1f} MB"
    for section in sections(result):
        yield from section_lines(section, result.servers)
    yield f"verdict: {result.verdict}"


def section_lines(section: KindSummary, servers: str) -> Iterator[str]:
    """A kind, and the first of its defects."""
    kind = KINDS[section.kind]
    what = "DEFECT" if kind.is_defect else "allowed"
    yield f"{what} {section.kind} {section.places:,}: {kind.meaning}"
    if not kind.is_defect:
        return
    for finding in section.findings[:MOST_SHOWN]:
        yield f"  {sentence_of(finding)}"
        yield f"    {action_of(finding, servers)}"
    if len(section.findings) > MOST_SHOWN:
        yield f"  and {len(section.findings) - MOST_SHOWN:,} more"


def sentence_of(finding: AuditFinding) -> str:
    """The place of a finding, and its particulars."""
    who = f", producer {finding.producer_id} epoch {finding.producer_epoch}"
    details = ", ".join(f"{name} {line(value)}" for name, value in finding.details.items())
    where = f"{finding.topic}-{finding.partition} offset {finding.offset}"
    return where + (who if finding.producer_id >= 0 else "") + (f": {details}" if details else "")


def markdown(result: AuditResult) -> str:
    """`report.md`."""
    return "\n".join(markdown_lines(result)) + "\n"


def markdown_lines(result: AuditResult) -> Iterator[str]:
    """The report for people."""
    yield from ("# Audit", "", f"Verdict: **{result.verdict}**", "")
    yield from ("| topic | partition | offsets | batches | records | ends of transactions |",)
    yield "|---|---|---|---|---|---|"
    for audit in result.audits:
        offsets = f"{audit.first_offset} to {audit.end_offset}"
        yield (
            f"| {audit.topic} | {audit.partition} | {offsets} | {audit.batches} |"
            f" {audit.records} | {len(audit.endings)} |"
        )
    for kind, places, found in sections(result):
        what = "defect" if KINDS[kind].is_defect else "allowed"
        yield from ("", f"## {kind}: {places} ({what})", "", KINDS[kind].meaning, "")
        for finding in found[:MOST_OF_A_KIND]:
            yield f"- {sentence_of(finding)}"
            if KINDS[kind].is_defect:
                yield f"  - {action_of(finding, result.servers)}"
