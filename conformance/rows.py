"""What ranges give, as rows and back: what travels from workers, and into wave files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from conformance.backends import FINDING, GUARANTEES, SUMMARY, ResultRow, TraceRange
from conformance.findings import Summary
from conformance.guaranteed import ObservedProperties
from conformance.signatures import findings_from, findings_json
from proofs.run.files import line


@dataclass(frozen=True, slots=True)
class Found:
    """What some traces gave: numbers and findings, and what they showed of the guarantees."""

    summary: Summary = field(default_factory=Summary)
    seen: ObservedProperties = field(default_factory=ObservedProperties)

    def merge(self, other: Found) -> Found:
        """Both together. Associative and commutative; `Found()` is neutral."""
        return Found(self.summary.merge(other.summary), self.seen.merge(other.seen))


# As plain data


def summary_json(summary: Summary) -> dict[str, Any]:
    """A summary; transitions in hexadecimal, sets in their order."""
    return {
        "traces": summary.traces,
        "steps": summary.steps,
        "transitions": summary.transitions.hex(),
        "rules": sorted(summary.rules),
        "branches": sorted(summary.branches),
        "error_codes": sorted(summary.error_codes),
        "findings": findings_json(summary.findings),
    }


def summary_from(value: dict[str, Any]) -> Summary:
    """The summary that `summary_json` wrote."""
    return Summary(
        traces=value["traces"],
        steps=value["steps"],
        transitions=bytes.fromhex(value["transitions"]),
        rules=frozenset(value["rules"]),
        branches=frozenset(value["branches"]),
        error_codes=frozenset(value["error_codes"]),
        findings=findings_from(value["findings"]),
    )


def properties_json(seen: ObservedProperties) -> dict[str, Any]:
    """What was seen of the guarantees."""
    return {"broken": sorted(seen.broken), "met": sorted(seen.met)}


def properties_from(value: dict[str, Any]) -> ObservedProperties:
    """What `properties_json` wrote."""
    return ObservedProperties(frozenset(value["broken"]), frozenset(value["met"]))


def to_json(found: Found) -> dict[str, Any]:
    """All that was found."""
    return {"summary": summary_json(found.summary), "guarantees": properties_json(found.seen)}


def from_json(value: dict[str, Any]) -> Found:
    """What `to_json` wrote."""
    return Found(summary_from(value["summary"]), properties_from(value["guarantees"]))


# As rows


def rows_of(part: TraceRange, found: Found) -> list[ResultRow]:
    """One row for the numbers, one for the guarantees, one for each signature of findings."""
    numbers = summary_json(replace(found.summary, findings={}))
    return [
        ResultRow(SUMMARY, *part, line(numbers)),
        ResultRow(GUARANTEES, *part, line(properties_json(found.seen))),
        *(
            ResultRow(FINDING, *part, line(finding))
            for finding in findings_json(found.summary.findings)
        ),
    ]


READERS = {
    SUMMARY: lambda value: Found(summary_from(value)),
    GUARANTEES: lambda value: Found(seen=properties_from(value)),
    FINDING: lambda value: Found(Summary(findings=findings_from([value]))),
}


def found_in(rows: Iterable[ResultRow]) -> Found:
    """All rows together; their order does not matter."""
    total = Found()
    for row in sorted(rows):
        total = total.merge(READERS[row.kind](json.loads(row.body)))
    return total
