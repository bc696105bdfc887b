"""Spark against processes of the same machine: the same traces, judged by the same function.

    python -m benchmarks.spark [SCOPE] [--traces 56000] [--pairs 5] [--cores 2] [--json FILE]

What is timed is work: from asking for all ranges to the last row. Preparing the scope, starting
Spark's session or the pool, and a first whole round on each are apart: in it workers import, load
and learn the model's tables, so that all have equally much behind them; how long each backend took
for that is told. A pair is one round on each, in turns, the first one changing; both must give the
same rows. `ratio` is Spark's throughput to that of the processes, with the fixed price of a round.
That price is told, too: it is a round of one trace for each core. Rounds should take six seconds
or more, for a run's waves aim at 45. With the defaults all is over in about four minutes on two
cores that nobody else uses.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).parents[1])

from conformance.backends import (
    Backend,
    BackendError,
    Options,
    ResultRow,
    TraceRange,
    WorkerTask,
    open_backend,
)
from conformance.plan import BadPlan, Plan, prepare
from conformance.runner import cut

PAIRS = 5
TRACES = 56_000
CORES = 2
LEAST_MICROSECONDS = 100.0
"""With less work a trace, this would measure how rows travel."""

Clock = Callable[[], float]


class Disagreement(RuntimeError):
    """Two backends gave other rows for the same ranges."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Medians of the pairs, in seconds; `microseconds_a_trace` are of one core's time."""

    scope: str
    traces: int
    ranges: int
    cores: int
    pairs: int
    begin_seconds: Mapping[str, float]
    fixed_seconds: Mapping[str, float]
    spark_seconds: float
    processes_seconds: float
    ratio: float
    ratio_of_each_pair: tuple[float, ...]
    microseconds_a_trace: float


def rows_of(backend: Backend, ranges: Sequence[TraceRange]) -> list[ResultRow]:
    """All rows, in an order of their own."""
    return sorted(row for row in backend.judge(ranges) if row is not None)


def timed(
    backend: Backend, ranges: Sequence[TraceRange], clock: Clock
) -> tuple[float, list[ResultRow]]:
    """One round: its seconds and its rows."""
    begun = clock()
    rows = rows_of(backend, ranges)
    return clock() - begun, rows


def alternated(
    backends: Mapping[str, Backend], ranges: Sequence[TraceRange], pairs: int, clock: Clock
) -> list[dict[str, float]]:
    """The seconds of each backend, pair by pair. Raises Disagreement."""
    found: list[dict[str, float]] = []
    expected: list[ResultRow] | None = None
    for pair in range(pairs):
        order = list(backends)[:: 1 if pair % 2 == 0 else -1]
        seconds = {}
        for name in order:
            seconds[name], rows = timed(backends[name], ranges, clock)
            expected = rows if expected is None else expected
            if rows != expected:
                raise Disagreement(f"{name} gives other rows than {order[0]} or an earlier round")
        found.append(seconds)
    return found


def compared(
    scope: str,
    ranges: Sequence[TraceRange],
    cores: int,
    begin_seconds: Mapping[str, float],
    fixed: Sequence[Mapping[str, float]],
    pairs: Sequence[Mapping[str, float]],
) -> Comparison:
    """What the pairs come to."""
    spark = statistics.median(pair["spark"] for pair in pairs)
    processes = statistics.median(pair["processes"] for pair in pairs)
    ratios = [pair["processes"] / pair["spark"] for pair in pairs]
    traces = sum(part.last - part.first for part in ranges)
    return Comparison(
        scope=scope,
        traces=traces,
        ranges=len(ranges),
        cores=cores,
        pairs=len(pairs),
        begin_seconds={name: round(seconds, 3) for name, seconds in begin_seconds.items()},
        fixed_seconds={
            name: round(statistics.median(pair[name] for pair in fixed), 3) for name in fixed[0]
        },
        spark_seconds=round(spark, 3),
        processes_seconds=round(processes, 3),
        ratio=round(statistics.median(ratios), 3),
        ratio_of_each_pair=tuple(round(ratio, 3) for ratio in ratios),
        microseconds_a_trace=round(1e6 * processes * cores / traces, 1),
    )


def measured(scope: str, traces: int, pairs: int, cores: int, clock: Clock) -> Comparison:
    """Prepare, start both, compare. Raises BadPlan, BackendError, Disagreement."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as at_end:
        folder = Path(name)
        prepared = prepare(Plan(scope=scope, traces=traces), folder / "prepared")
        task = WorkerTask("conformance.judging", prepared.directory.resolve())
        ranges = cut(0, prepared.count)
        backends: dict[str, Backend] = {}
        begin_seconds = {}
        for kind, options in (
            ("spark", Options(folder / "spark.log", master=f"local[{cores}]")),
            ("processes", Options(folder / "processes.log", partitions=cores)),
        ):
            begun = clock()
            backends[kind] = open_backend(kind, task, options)
            at_end.callback(backends[kind].close)
            rows_of(backends[kind], ranges)
            begin_seconds[kind] = clock() - begun
        shortest = [TraceRange(n, n + 1) for n in range(min(cores, prepared.count))]
        fixed = alternated(backends, shortest, pairs, clock)
        found = alternated(backends, ranges, pairs, clock)
        return compared(scope, ranges, cores, begin_seconds, fixed, found)


def shown(r: Comparison) -> str:
    """The report in four lines."""
    each = ", ".join(f"{ratio:.2f}" for ratio in r.ratio_of_each_pair)
    begins = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in r.begin_seconds.items())
    fixed = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in r.fixed_seconds.items())
    return (
        f"{r.scope}: {r.traces:,} traces in {r.ranges} ranges,"
        f" {r.microseconds_a_trace:,.0f} microseconds of a core each, {r.cores} cores\n"
        f"not counted, to begin and to load: {begins}\n"
        f"counted, the price of any round, however short: {fixed}\n"
        f"Spark: ratio {r.ratio:.3f} to processes, median of {r.pairs} alternated pairs ({each});"
        f" medians {r.spark_seconds:.2f} s and {r.processes_seconds:.2f} s"
    )


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("scope", nargs="?", default="idempotent-default", metavar="SCOPE")
    parser.add_argument("--traces", type=int, default=TRACES)
    parser.add_argument("--pairs", type=int, default=PAIRS, help="rounds of each backend")
    parser.add_argument("--cores", type=int, default=CORES)
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args(words)
    traces, pairs, cores = (max(1, n) for n in (asked.traces, asked.pairs, asked.cores))
    try:
        result = measured(asked.scope, traces, pairs, cores, time.perf_counter)
    except (BadPlan, BackendError) as error:
        parser.exit(2, f"{error}\n")
    print(shown(result))
    if result.microseconds_a_trace < LEAST_MICROSECONDS:
        print(f"too little work: below {LEAST_MICROSECONDS:.0f} microseconds a trace")
    if asked.json is not None:
        content = {"benchmark": "spark", **asdict(result)}
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
