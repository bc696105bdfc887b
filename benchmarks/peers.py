"""Two implementations of one function, timed call by call: ours and kafka-python's.

A round is one timed loop of each. The loops are as long as the slower of the two needs, which a
first, untimed round finds out; both make the same count_option of calls. The time is that of this
process, so that other ones on the machine count for little.
"""

from __future__ import annotations

import gc
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from statistics import median
from time import process_time
from typing import Any
from warnings import catch_warnings, simplefilter

from benchmarks.measuring import alternate, count_option, run_benchmark

PAIRS = 5
LOOP_SECONDS = 0.1

Work = Callable[[], object]
Works = Iterable[tuple[str, Work, Work]]
"""What is done, how we do it, and how the peer does it."""


def kafka_python(module: str) -> Any:
    """A module of kafka-python, which reads its schemas in a deprecated way."""
    with catch_warnings():
        simplefilter("ignore", DeprecationWarning)
        return import_module(module)


PEER = f"kafka-python {kafka_python('kafka').__version__}"


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
    gc.collect()
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


@contextmanager
def _without_garbage_collector() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def compare(name: str, ours: Work, peer: Work, pairs: int, loop_seconds: float) -> Comparison:
    """Time `ours` and `peer` alternately, `pairs` times, without the garbage collector."""
    works = {"ours": ours, "peer": peer}
    calls = min(_calls_for(work, loop_seconds) for work in works.values())
    with _without_garbage_collector():
        found = alternate(list(works), pairs, lambda who: _seconds(works[who], calls))
    mine, theirs = (1e6 * median(times) / calls for times in found.values())
    return Comparison(
        name,
        PEER,
        ours_us=round(mine, 2),
        peer_us=round(theirs, 2),
        ratio=round(theirs / mine, 2),
        best_ratio=round(min(found["peer"]) / min(found["ours"]), 2),
        pairs=pairs,
        calls=calls,
    )


def _format(result: Comparison) -> str:
    return (
        f"{result.name:32}{result.ours_us:>9.2f} us{result.peer_us:>9.2f} us"
        f"{result.ratio:>8.2f}x{result.best_ratio:>8.2f}x   {result.peer}"
    )


def compare_all(
    name: str,
    description: str | None,
    works: Callable[[], Works],
    words: Sequence[str] | None = None,
) -> int:
    """The command of a benchmark of functions: compare each, and print it when it is done."""

    def measure(asked: Namespace) -> Mapping[str, Any]:
        print(f"{'':32}{'ours':>12}{'peer':>12}{'ratio':>9}{'best':>9}   peer")
        done = []
        for what, ours, peer in works():
            done.append(compare(what, ours, peer, asked.pairs, asked.loop_seconds))
            print(_format(done[-1]), flush=True)
        return {"comparisons": [asdict(result) for result in done]}

    options = {
        "--pairs": count_option(PAIRS, "timed loops of each"),
        "--loop-seconds": {
            "type": float,
            "default": LOOP_SECONDS,
            "help": f"length of a loop ({LOOP_SECONDS})",
        },
    }
    return run_benchmark(name, description, options, measure, words=words)
