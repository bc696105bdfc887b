"""The table of runs in separate folders, which `releases` and `run --scope all` write."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proofs.run import worst
from proofs.run.directory import REPORT, RUN

Row = Mapping[str, Any]


def figures_of(out: Path) -> dict[str, Any]:
    """The main figures of a run."""
    report = json.loads((out / REPORT).read_text(encoding="utf-8"))
    run = json.loads((out / RUN).read_text(encoding="utf-8"))
    taken = report["coverage"]["transitions"]
    return {
        "traces": report["traces"],
        "steps": report["steps"],
        "transitions": "{covered:,} of {total:,}".format_map(taken) if taken["total"] else "-",
        "divergences": report["diverging_traces"],
        "undecided": report["undecided"],
        "seconds": run["seconds"],
        "steps_per_second": run["steps_per_second_in_all"],
        "verdict": report["verdict"],
    }


def verdict_of(rows: Sequence[Row]) -> str:
    """The verdict of the worst run."""
    return worst(row["verdict"] for row in rows)


def table(columns: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """The rows in Markdown, and the verdict."""
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for row in rows:
        cells = [
            f"{row[name]:,}" if isinstance(row[name], int) else str(row[name]) for name in columns
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, f"verdict: {verdict_of(rows)}"]
