"""Two workers of the C engine against one, on the same scope.

    python -m benchmarks.scaling [SCOPE] [--pairs 5] [--workers 2] [--json FILE]

The scope is lifted and compiled once, before anything is timed. A pair is one search with one
worker and one with more, in turns, so that a machine that slows down slows both; each goes from an
empty engine to a freed one, and all must find the same states and transitions.

Processor time says what the wall clock cannot say on a busy machine: how much more work the workers
do together than one alone. `others` is what all else on the machine used while the pairs ran; where
that is much, there were no free cores to scale to.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).parents[1])

from proofs.explore.explorer import ExplorationRun, load, peak_bytes, prepare, searched
from proofs.explore.native import Library, NativeSearch
from proofs.explore.scope import DEFAULT_VARIANT
from proofs.lift.build import lift
from proofs.lift.machine import Machine
from proofs.lift.source import composition
from proofs.trace.replay import UnknownScope, configuration_of

PAIRS = 5
WORKERS = 2


class Disagreement(RuntimeError):
    """Two searches of one machine did not find the same."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """Medians of the pairs; `ratio` is one worker's seconds to those of `workers`.

    `processor_ratio` is the processor seconds of `workers` to those of one; `others_seconds` are
    the processor seconds of all other processes meanwhile, None where the system does not tell.
    """

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
    one_processor_seconds: float
    many_processor_seconds: float
    processor_ratio: float
    others_seconds: float | None
    peak_bytes: int


def machine_of(scope: str) -> Machine:
    """A scope of the default variant, lifted. Raises UnknownScope."""
    return lift(
        composition("idempotent"),
        configuration_of(composition("idempotent"), scope, DEFAULT_VARIANT),
        scope,
    ).machine


def search(machine: Machine, library: Library, workers: int) -> tuple[float, tuple[int, int]]:
    """One search: its seconds, and how many states and transitions it found."""
    begun = time.perf_counter()
    engine = NativeSearch(library, workers=workers, with_edges=False)
    try:
        run = ExplorationRun(machine, "c", engine, None)
        found = searched(run, lambda: None, stop=False, max_depth=None)
    finally:
        engine.close()
    return time.perf_counter() - begun, (found.distinct, found.transitions)


@dataclass(frozen=True, slots=True)
class Timed:
    """A search's seconds, of the clock and of processors, and what it found."""

    seconds: float
    processor_seconds: float
    counts: tuple[int, int]


def own_seconds() -> float:
    """Processor seconds that this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def all_seconds() -> float | None:
    """Processor seconds that all processes have used; None where there is no /proc/stat."""
    try:
        words = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    except OSError:
        return None
    user, nice, system, *_ = (int(word) for word in words[1:])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def timed(machine: Machine, library: Library, workers: int) -> Timed:
    """One search and the processor time that it took."""
    before = own_seconds()
    seconds, counts = search(machine, library, workers)
    return Timed(seconds, own_seconds() - before, counts)


def pairs_of(
    machine: Machine, library: Library, workers: int, pairs: int
) -> list[tuple[Timed, Timed]]:
    """One worker, then `workers`, and so on. Raises Disagreement."""
    done: list[tuple[Timed, Timed]] = []
    for _ in range(pairs):
        done.append((timed(machine, library, 1), timed(machine, library, workers)))
        counts = {run.counts for pair in done for run in pair}
        if len(counts) != 1:
            raise Disagreement(f"{machine.name}: states and transitions {sorted(counts)}")
    return done


def measured(scope: str, workers: int, pairs: int) -> Scaling:
    """All pairs. Raises UnknownScope, Disagreement, and what the C engine raises."""
    machine = machine_of(scope)
    library = load(prepare(machine))
    own, every = own_seconds(), all_seconds()
    done = pairs_of(machine, library, workers, pairs)
    own, now = own_seconds() - own, all_seconds()
    ones, manys = zip(*done, strict=True)
    one, many = (statistics.median(run.seconds for run in runs) for runs in (ones, manys))
    share, shares = (
        statistics.median(run.processor_seconds for run in runs) for runs in (ones, manys)
    )
    return Scaling(
        scope=scope,
        workers=workers,
        cores=os.cpu_count() or 1,
        pairs=pairs,
        distinct=ones[0].counts[0],
        transitions=ones[0].counts[1],
        one_seconds=round(one, 4),
        many_seconds=round(many, 4),
        ratio=round(one / many, 3),
        ratio_of_each_pair=tuple(round(a.seconds / b.seconds, 3) for a, b in done),
        one_processor_seconds=round(share, 4),
        many_processor_seconds=round(shares, 4),
        processor_ratio=round(shares / share, 3) if share else 1.0,
        others_seconds=None
        if every is None or now is None
        else round(max(0.0, now - every - own), 2),
        peak_bytes=peak_bytes(),
    )


def shown(r: Scaling) -> str:
    """The report in three lines."""
    each = ", ".join(f"{ratio:.2f}" for ratio in r.ratio_of_each_pair)
    others = "" if r.others_seconds is None else f"; others used {r.others_seconds:.1f} s meanwhile"
    return (
        f"{r.scope}: {r.distinct:,} states, {r.transitions:,} transitions,"
        f" peak {r.peak_bytes / 2**20:,.0f} MiB, {r.cores} cores\n"
        f"{r.workers} workers: ratio {r.ratio:.2f}, medians of {r.pairs} alternated pairs:"
        f" {r.one_seconds:.2f} s with one, {r.many_seconds:.2f} s with {r.workers};"
        f" each pair {each}\n"
        f"processor time: ratio {r.processor_ratio:.2f}, {r.one_processor_seconds:.2f} s with one,"
        f" {r.many_processor_seconds:.2f} s with {r.workers}{others}"
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
