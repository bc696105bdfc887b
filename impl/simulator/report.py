"""What a campaign says: a report that depends on its arguments alone, and the run's times."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final, TextIO

from impl.simulator.campaign import Campaign, Results
from impl.simulator.consume_transform_produce import Outcome

SCHEMA_VERSION: Final = 1
TOLD_BEFORE: Final = 12
TOLD_LINES: Final = 40
CRASH: Final = ("client-0 is gone", "client-0 stands still")
"""How the line of the story ends at which the first client crashes."""


def report_of(campaign: Campaign, kinds: Sequence[str], results: Results) -> dict[str, object]:
    """The report; the same arguments give the same bytes."""
    shown = results.wrong or results.restless
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
        "counterexample": None if shown is None else _counterexample(campaign, shown),
        "verdict": _verdict(results),
    }


def _verdict(results: Results) -> str:
    if results.wrong is not None:
        return "violated"
    return "holds" if results.restless is None else "undecided"


def _counterexample(campaign: Campaign, shown: Outcome) -> dict[str, object]:
    faults = asdict(campaign.faults) | {"crash_step": shown.crash_step}
    told = shown._asdict()
    lists = {name: list(value) for name, value in told.items() if isinstance(value, tuple)}
    return {"faults": faults, **told, **lists}


def run_of(runs: int, seconds: float) -> dict[str, object]:
    """What this run took, and where."""
    return {
        "seconds": round(seconds, 3),
        "runs_per_second": round(runs / seconds, 1),
        "load": os.getloadavg()[0],
        "host": platform.node(),
        "python": platform.python_version(),
    }


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Write it, keys in their order. Raises `OSError`."""
    path.write_text(json.dumps(value, indent=2) + "\n")


def tell(report: Mapping[str, object], run: Mapping[str, object], stream: TextIO) -> None:
    """The report for people."""
    lines = [
        f"{report['runs']} worlds from seed {report['seed']}, {report['order']},"
        f" requests {report['requests']}, faults {', '.join(map(str, _list(report['faults'])))}",
        f"a life has {report['steps']} steps; clients crashed at {report['crash_steps']} of them,"
        f" {report['crashed']} times",
        f"lost {report['lost']}, duplicated {report['duplicated']},"
        f" out of order {report['out_of_order']}, aborted records {report['aborted']}",
    ]
    failures = report["failures"]
    if isinstance(failures, dict) and failures:
        said = ", ".join(f"{name} {count}" for name, count in failures.items())
        lines.append(f"clients that failed and were started again: {said}")
    lines += _story(report["counterexample"])
    lines.append(f"{report['verdict']} ({run['seconds']} s, {run['runs_per_second']} worlds/s)")
    print(*lines, sep="\n", file=stream)


def _story(counterexample: object) -> list[str]:
    if not isinstance(counterexample, dict):
        return []
    told = [line for line in map(str, _list(counterexample["story"])) if " reader " not in line]
    crash = next((at for at, line in enumerate(told) if line.endswith(CRASH)), len(told))
    first = max(crash - TOLD_BEFORE, 0)
    return [
        f"seed {counterexample['seed']}, crash before step {counterexample['crash_step']}:",
        *(f"  lost: {value}" for value in _list(counterexample["lost"])),
        *(f"  seen twice: {value}" for value in _list(counterexample["duplicated"])),
        *(f"  {line}" for line in told[first : first + TOLD_LINES]),
    ]


def _list(value: object) -> list[object]:
    assert isinstance(value, list)
    return value
