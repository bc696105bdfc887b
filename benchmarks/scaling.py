"""Two workers of the C engine against one, on the same scope.

    python -m benchmarks.scaling [SCOPE] [--pairs 5] [--workers 2] [--json FILE]

The scope is lifted and compiled once, before anything is timed. A pair is one search with one
worker and one with more, in turns, so that a machine that slows down slows both; each goes from an
empty engine to a freed one, and all must find the same states and transitions.

Processor time says what the wall clock cannot say on a busy machine: how much more work the workers
do together than one alone. `others` is what all other processes used while the pairs ran; where
that is much, there were no free cores to scale to.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measuring import (
    Time,
    count_option,
    measure_time,
    median_time,
    processor_seconds,
    run_benchmark,
    scope_argument,
)
from proofs.explore.explorer import ExplorationRun, load, peak_bytes, prepare, searched
from proofs.explore.native import Library, NativeSearch
from proofs.explore.scope import DEFAULT_VARIANT
from proofs.lift.build import lift
from proofs.lift.machine import Machine
from proofs.lift.source import load_model
from proofs.trace.replay import UnknownScope, configuration_of


class Disagreement(RuntimeError):
    """Two searches of one machine did not find the same."""


def machine_of(scope: str) -> Machine:
    """A scope of the default variant, lifted. Raises UnknownScope."""
    model = load_model("idempotent")
    return lift(model, configuration_of(model, scope, DEFAULT_VARIANT), scope).machine


def search(machine: Machine, library: Library, workers: int) -> tuple[int, int]:
    """One search: how many states and transitions it found."""
    engine = NativeSearch(library, workers=workers, with_edges=False)
    try:
        run = ExplorationRun(machine, "c", engine, None)
        found = searched(run, lambda: None, stop=False, max_depth=None)
    finally:
        engine.close()
    return found.distinct, found.transitions


def all_seconds() -> float | None:
    """Processor seconds that all processes have used; None where there is no /proc/stat."""
    try:
        words = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    except OSError:
        return None
    user, nice, system, *_ = (int(word) for word in words[1:])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def measure_pairs(scope: str, workers: int, pairs: int) -> dict[str, Any]:
    """Medians of all pairs; a ratio is one worker's seconds to those of `workers`, or the
    processor seconds of `workers` to those of one.

    Raises UnknownScope, Disagreement, and what the C engine raises.
    """
    machine = machine_of(scope)
    library = load(prepare(machine))
    counts: set[tuple[int, int]] = set()

    def timed(workers: int) -> Time:
        time, found = measure_time(lambda: search(machine, library, workers), processor_seconds)
        counts.add(found)
        if len(counts) != 1:
            raise Disagreement(f"{machine.name}: states and transitions {sorted(counts)}")
        return time

    own, every = processor_seconds(), all_seconds()
    found = [(timed(1), timed(workers)) for _ in range(pairs)]
    own, now = processor_seconds() - own, all_seconds()
    others = None if every is None or now is None else round(max(0.0, now - every - own), 2)
    one, many = map(median_time, zip(*found, strict=True))
    [(distinct, transitions)] = counts
    return {
        "scope": scope,
        "workers": workers,
        "pairs": pairs,
        "distinct": distinct,
        "transitions": transitions,
        "one_seconds": round(one.seconds, 4),
        "many_seconds": round(many.seconds, 4),
        "ratio": round(one.seconds / many.seconds, 3),
        "ratio_of_each_pair": [round(a.seconds / b.seconds, 3) for a, b in found],
        "one_processor_seconds": round(one.cpu_seconds, 4),
        "many_processor_seconds": round(many.cpu_seconds, 4),
        "processor_ratio": round(many.cpu_seconds / one.cpu_seconds, 3) if one.cpu_seconds else 1.0,
        "others_seconds": others,
        "peak_bytes": peak_bytes(),
    }


def format_pairs(r: Mapping[str, Any]) -> str:
    """The report in three lines."""
    each = ", ".join(f"{ratio:.2f}" for ratio in r["ratio_of_each_pair"])
    others = r["others_seconds"]
    meanwhile = "" if others is None else f"; others used {others:.1f} s meanwhile"
    return (
        f"{r['scope']}: {r['distinct']:,} states, {r['transitions']:,} transitions,"
        f" peak {r['peak_bytes'] / 2**20:,.0f} MiB, {os.cpu_count()} cores\n"
        f"{r['workers']} workers: ratio {r['ratio']:.2f}, medians of {r['pairs']} alternated pairs:"
        f" {r['one_seconds']:.2f} s with one, {r['many_seconds']:.2f} s with {r['workers']};"
        f" each pair {each}\n"
        f"processor time: ratio {r['processor_ratio']:.2f},"
        f" {r['one_processor_seconds']:.2f} s with one,"
        f" {r['many_processor_seconds']:.2f} s with {r['workers']}{meanwhile}"
    )


def measure(asked: Namespace) -> Mapping[str, Any]:
    """All pairs of a scope. Raises UnknownScope, Disagreement."""
    report = measure_pairs(asked.scope, asked.workers, asked.pairs)
    print(format_pairs(report))
    return report


OPTIONS = {
    "scope": scope_argument("idempotent-medium"),
    "--pairs": count_option(5, "searches of each kind"),
    "--workers": count_option(2, "workers against one"),
}

main = partial(run_benchmark, "scaling", __doc__, OPTIONS, measure, (UnknownScope,))

if __name__ == "__main__":
    sys.exit(main())
