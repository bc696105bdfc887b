"""Ours and a peer, measured alternately in one run: medians, ratio, JSON.

A pair is one timed loop of each, in turns, so that a machine that slows down slows both. The loops
are as long as the slower of the two needs, which a first, untimed round finds out; both make the
same number of calls. The time is that of this process, so that other ones on the machine count for
little.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import process_time

PAIRS = 5
LOOP_SECONDS = 0.1

Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Medians of one piece of work, in microseconds a call; the ratios are peer to ours.

    `best_ratio` is that of the fastest loops.
    """

    name: str
    peer: str
    ours_us: float
    peer_us: float
    ratio: float
    best_ratio: float
    pairs: int
    calls: int


def _seconds(work: Work, calls: int) -> float:
    begin = process_time()
    for _ in range(calls):
        work()
    return process_time() - begin


def _calls_for(work: Work, loop_seconds: float) -> int:
    """How many calls fill a loop; this also warms the caches."""
    calls = 1
    while (taken := _seconds(work, calls)) < loop_seconds / 4:
        calls *= 2
    return max(1, round(calls * loop_seconds / taken))


def compare(
    name: str,
    ours: Work,
    peer: Work,
    *,
    peer_name: str,
    pairs: int = PAIRS,
    loop_seconds: float = LOOP_SECONDS,
) -> Comparison:
    """Time `ours` and `peer` alternately, `pairs` times, without the garbage collector."""
    calls = min(_calls_for(ours, loop_seconds), _calls_for(peer, loop_seconds))
    ours_times: list[float] = []
    peer_times: list[float] = []
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(pairs):
            ours_times.append(_seconds(ours, calls))
            peer_times.append(_seconds(peer, calls))
            gc.collect()
    finally:
        if was_enabled:
            gc.enable()
    mine, theirs = (1e6 * median(times) / calls for times in (ours_times, peer_times))
    return Comparison(
        name,
        peer_name,
        ours_us=round(mine, 2),
        peer_us=round(theirs, 2),
        ratio=round(theirs / mine, 2),
        best_ratio=round(min(peer_times) / min(ours_times), 2),
        pairs=pairs,
        calls=calls,
    )


def main(
    claim: str,
    run: Callable[[int, float], Iterable[Comparison]],
    arguments: Sequence[str] | None = None,
) -> None:
    """The command line of a benchmark: print each comparison as it is done, then write JSON.

    `run` takes the number of pairs and the seconds of a loop.
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{claim}")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="timed loops of each (default 5)")
    parser.add_argument("--loop-seconds", type=float, default=LOOP_SECONDS, help="length of a loop")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the comparisons to FILE")
    options = parser.parse_args(arguments)
    print(f"{'':32}{'ours':>12}{'peer':>12}{'ratio':>9}{'best':>9}   peer")
    done: list[Comparison] = []
    for result in run(options.pairs, options.loop_seconds):
        done.append(result)
        print(
            f"{result.name:32}{result.ours_us:>9.2f} us{result.peer_us:>9.2f} us"
            f"{result.ratio:>8.2f}x{result.best_ratio:>8.2f}x   {result.peer}",
            flush=True,
        )
    if options.json:
        report = {
            "benchmark": claim,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "comparisons": [asdict(result) for result in done],
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=2) + "\n")
