"""A plan module that judges nothing: what it finds is arithmetic on trace ids.

`fake.json` in the prepared directory has `count`, `diverging` (trace ids), `pause` (seconds a
trace), and `die_at` (a trace id whose worker dies).
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from conformance.judging.backend import TraceRange
from conformance.judging.findings import Summary
from conformance.judging.guaranteed import ObservedProperties
from conformance.judging.rows import Found
from conformance.judging.signatures import Finding, count_findings

TRANSITIONS = 1000


def load(directory: Path) -> dict[str, Any]:
    (directory / f"loaded-{os.getpid()}").touch()
    configurations: dict[str, Any] = json.loads((directory / "fake.json").read_text())
    return configurations


def write(directory: Path, count: int, **configurations: Any) -> Path:
    """A prepared directory."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "fake.json").write_text(json.dumps({"count": count, **configurations}))
    return directory


def finding_of(number: int) -> Finding:
    """A difference that two signatures and several lengths share."""
    field = f"leader[{number % 3}].error"
    return {
        "id": number,
        "steps": 5 + number % 7,
        "rule": "request_arrives",
        "expected": {field: 0},
        "observed": {field: 45 + number % 2},
    }


def judge_one(number: int, configurations: dict[str, Any]) -> Found:
    """What one trace gives."""
    time.sleep(configurations.get("pause", 0))
    if number == configurations.get("die_at"):
        os._exit(9)
    if number == configurations.get("raise_at"):
        raise ValueError(f"no such trace: {number}")
    diverged = number in configurations.get("diverging", ())
    covered = 1 << (number * 37) % TRANSITIONS
    summary = Summary(
        traces=1,
        steps=5 + number % 7,
        transitions=covered.to_bytes((TRANSITIONS + 7) // 8, "little"),
        rules=frozenset({f"rule_{number % 5}"}),
        error_codes=frozenset({"NONE"}),
        findings=count_findings([finding_of(number)] if diverged else []),
    )
    return Found(summary, ObservedProperties(met=frozenset({f"witness_{number % 3}"})))


def judge(configurations: dict[str, Any], part: TraceRange) -> Found:
    total = Found()
    for number in range(part.first, part.last):
        total = total.merge(judge_one(number, configurations))
    return total
