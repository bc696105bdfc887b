"""Two workers of the C engine against one, on the same scope.

    python -m benchmarks.scaling [SCOPE] [--pairs 5] [--workers 2] [--json FILE]

The scope is lifted and compiled once, before anything is timed. A pair is one search with one
worker and one with more, in turns, so that a machine that slows down slows both; each goes from an
empty engine to a freed one, and all must find the same states and transitions.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from proofs.explore.explorer import Run, load, peak_bytes, prepare, searched
from proofs.explore.native import Library, NativeSearch
from proofs.explore.scope import DEFAULT_VARIANT
from proofs.lift.build import lift
from proofs.lift.machine import Machine
from proofs.lift.text import plain
from proofs.trace.replay import UnknownScope, setting_of

PAIRS = 5
WORKERS = 2


class Disagreement(RuntimeError):
    """Two searches of one machine did not find the same."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """Medians of the pairs; `ratio` is one worker's seconds to those of `workers`."""

    scope: str
    workers: int
    cores: int
    pairs: int
    distinct: int
    transitions: int
    one_seconds: float
    many_seconds: float
    ratio: float
    ratio_of_each_pair: tuple[float, ...]
    peak_bytes: int


def machine_of(scope: str) -> Machine:
    """A scope of the default variant, lifted. Raises UnknownScope."""
    return lift(plain(), setting_of(plain(), scope, DEFAULT_VARIANT), scope).machine


def search(machine: Machine, library: Library, workers: int) -> tuple[float, tuple[int, int]]:
    """One search: its seconds, and how many states and transitions it found."""
    begun = time.perf_counter()
    engine = NativeSearch(library, workers=workers, with_edges=False)
    try:
        run = Run(machine, "c", engine, None)
        found = searched(run, lambda: None, stop=False, max_depth=None)
    finally:
        engine.close()
    return time.perf_counter() - begun, (found.distinct, found.transitions)


def measured(scope: str, workers: int, pairs: int) -> Scaling:
    """All pairs. Raises UnknownScope, Disagreement, and what the C engine raises."""
    machine = machine_of(scope)
    library = load(prepare(machine))
    times: list[tuple[float, float]] = []
    counts: set[tuple[int, int]] = set()
    for _ in range(pairs):
        one, found_by_one = search(machine, library, 1)
        many, found_by_many = search(machine, library, workers)
        times.append((one, many))
        counts |= {found_by_one, found_by_many}
        if len(counts) != 1:
            raise Disagreement(f"{scope}: states and transitions {sorted(counts)}")
    distinct, transitions = counts.pop()
    one, many = (statistics.median(column) for column in zip(*times, strict=True))
    return Scaling(
        scope=scope,
        workers=workers,
        cores=os.cpu_count() or 1,
        pairs=pairs,
        distinct=distinct,
        transitions=transitions,
        one_seconds=round(one, 4),
        many_seconds=round(many, 4),
        ratio=round(one / many, 3),
        ratio_of_each_pair=tuple(round(a / b, 3) for a, b in times),
        peak_bytes=peak_bytes(),
    )


def shown(r: Scaling) -> str:
    """The report in two lines."""
    each = ", ".join(f"{ratio:.2f}" for ratio in r.ratio_of_each_pair)
    return (
        f"{r.scope}: {r.distinct:,} states, {r.transitions:,} transitions,"
        f" peak {r.peak_bytes / 2**20:,.0f} MiB, {r.cores} cores\n"
        f"{r.workers} workers: ratio {r.ratio:.2f}, medians of {r.pairs} alternated pairs:"
        f" {r.one_seconds:.2f} s with one, {r.many_seconds:.2f} s with {r.workers};"
        f" each pair {each}"
    )


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("scope", nargs="?", default="idempotent-medium", metavar="SCOPE")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="searches of each kind")
    parser.add_argument("--workers", type=int, default=WORKERS, help="against one")
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args(words)
    try:
        result = measured(asked.scope, max(1, asked.workers), max(1, asked.pairs))
    except UnknownScope as unknown:
        parser.exit(2, f"{unknown}\n")
    print(shown(result))
    if asked.json is not None:
        content = {"benchmark": "scaling", **asdict(result)}
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
