"""The report of a campaign, determined by its arguments; and the times of the run."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final, TextIO

from impl.simulator.campaign import Campaign, Results
from impl.simulator.consume_transform_produce import WorldOutcome

SCHEMA_VERSION: Final = 1
LINES_BEFORE_CRASH: Final = 12
STORY_LINES: Final = 40
CRASH: Final = ("client-0 dies", "client-0 pauses")
"""The endings of the log line of the first client's crash."""


def build_report(campaign: Campaign, kinds: Sequence[str], results: Results) -> dict[str, object]:
    """The report; the same arguments give the same bytes."""
    example = results.wrong or results.unfinished
    totals = {name: results.totals[name] for name in sorted(results.totals)}
    return {
        "schema_version": SCHEMA_VERSION,
        "verb": "consume-transform-produce",
        "order": campaign.program.order.value,
        "requests": campaign.program.requests,
        "transactional_id": "own" if campaign.program.has_own_id else "shared",
        "faults": list(kinds),
        "seed": campaign.seed,
        "runs": campaign.runs,
        "steps": campaign.steps,
        "crash_steps": len(results.crash_steps),
        **totals,
        "failures": dict(sorted(results.failures.items())),
        "counterexample": None if example is None else _counterexample(campaign, example),
        "verdict": _verdict(results),
    }


def _verdict(results: Results) -> str:
    if results.wrong is not None:
        return "violated"
    return "holds" if results.unfinished is None else "undecided"


def _counterexample(campaign: Campaign, example: WorldOutcome) -> dict[str, object]:
    faults = asdict(campaign.faults) | {"crash_step": example.crash_step}
    fields = example._asdict()
    lists = {name: list(value) for name, value in fields.items() if isinstance(value, tuple)}
    return {"faults": faults, **fields, **lists}


def describe_run(runs: int, seconds: float) -> dict[str, object]:
    """The duration and host of the run."""
    return {
        "seconds": round(seconds, 3),
        "runs_per_second": round(runs / seconds, 1),
        "load": os.getloadavg()[0],
        "host": platform.node(),
        "python": platform.python_version(),
    }


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Write a JSON file. Raises `OSError`."""
    path.write_text(json.dumps(value, indent=2) + "\n")


def print_report(report: Mapping[str, object], run: Mapping[str, object], stream: TextIO) -> None:
    """Print the report as text."""
    lines = [
        f"{report['runs']} worlds from seed {report['seed']}, {report['order']},"
        f" requests {report['requests']}, faults {', '.join(map(str, _list(report['faults'])))}",
        f"a client without faults takes {report['steps']} steps; clients crashed at"
        f" {report['crash_steps']} of them,"
        f" {report['crashed']} times",
        f"lost {report['lost']}, duplicated {report['duplicated']},"
        f" out of order {report['out_of_order']}, aborted records {report['aborted']}",
    ]
    failures = report["failures"]
    if isinstance(failures, dict) and failures:
        counts = ", ".join(f"{name} {count}" for name, count in failures.items())
        lines.append(f"clients that failed and were restarted: {counts}")
    lines += _story(report["counterexample"])
    lines.append(f"{report['verdict']} ({run['seconds']} s, {run['runs_per_second']} worlds/s)")
    print(*lines, sep="\n", file=stream)


def _story(counterexample: object) -> list[str]:
    if not isinstance(counterexample, dict):
        return []
    story = [line for line in map(str, _list(counterexample["story"])) if " reader " not in line]
    crash = next((at for at, line in enumerate(story) if line.endswith(CRASH)), len(story))
    first = max(crash - LINES_BEFORE_CRASH, 0)
    return [
        f"seed {counterexample['seed']}, crash before step {counterexample['crash_step']}:",
        *(f"  lost: {value}" for value in _list(counterexample["lost"])),
        *(f"  duplicated: {value}" for value in _list(counterexample["duplicated"])),
        *(f"  {line}" for line in story[first : first + STORY_LINES]),
    ]


def _list(value: object) -> list[object]:
    assert isinstance(value, list)
    return value
