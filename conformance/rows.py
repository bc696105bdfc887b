"""Summaries as rows and back: what travels between workers and the runner, and into wave files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from conformance.backends import FINDING, SUMMARY, Range, Row
from conformance.plan import Summary


def line(value: Any) -> str:
    """A value as canonical JSON: equal values, equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def to_json(summary: Summary) -> dict[str, Any]:
    """A summary as plain data; transitions in hexadecimal, sets in their order."""
    return {
        "traces": summary.traces,
        "steps": summary.steps,
        "transitions": summary.transitions.hex(),
        "rules": sorted(summary.rules),
        "branches": sorted(summary.branches),
        "error_codes": sorted(summary.error_codes),
        "divergences": summary.divergences,
        "findings": list(summary.findings),
    }


def from_json(value: dict[str, Any]) -> Summary:
    """The summary that `to_json` wrote."""
    return Summary(
        traces=value["traces"],
        steps=value["steps"],
        transitions=bytes.fromhex(value["transitions"]),
        rules=frozenset(value["rules"]),
        branches=frozenset(value["branches"]),
        error_codes=frozenset(value["error_codes"]),
        divergences=value["divergences"],
        findings=tuple(value["findings"]),
    )


def rows_of(part: Range, summary: Summary) -> list[Row]:
    """One row for the numbers, one for each finding."""
    numbers = Row(SUMMARY, *part, line(to_json(replace(summary, findings=()))))
    return [numbers, *(Row(FINDING, *part, line(f)) for f in summary.findings)]


def summary_of(rows: Iterable[Row]) -> Summary:
    """All rows together; their order does not matter."""
    total = Summary()
    for row in sorted(rows, key=lambda row: (row.first, row.kind, row.body)):
        value = json.loads(row.body)
        found = from_json(value) if row.kind == SUMMARY else Summary(findings=(value,))
        total = total.merge(found)
    return total
