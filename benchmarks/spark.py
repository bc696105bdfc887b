"""Spark against processes of the same machine: the same traces, judged by the same function.

    python -m benchmarks.spark [SCOPE] [--traces 56000] [--pairs 5] [--cores 2] [--json FILE]

The timed work lasts from the request for all ranges until all rows are merged. Not counted are
preparing the scope, starting Spark's session or the pool, and a first complete round on each, in
which workers import modules and load the model's tables; their duration is reported. A pair is one
round on each backend, in turns; both must give the same result. `ratio` is Spark's throughput to
that of the processes, the fixed cost of a round included. That cost is reported as well: a round of
one trace for each core. `idle` is the share of the cores' time in Spark's rounds in which no task
ran, as Spark's own executors count it. Rounds should take six seconds or more. With the defaults
the benchmark takes about four minutes on two idle cores.
"""

from __future__ import annotations

import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measuring import alternate, count_option, run_benchmark, scope_argument
from conformance.backends.by_name import open_backend
from conformance.judging.backend import Backend, BackendError, Options, TraceRange, WorkerTask
from conformance.judging.plan import BadPlan, Plan, prepare
from conformance.judging.rows import Found, found_in
from conformance.judging.runner import cut

SETTLED_SECONDS = 2.0
LEAST_MICROSECONDS = 100.0
"""With less work a trace, this would measure how rows travel."""

Clock = Callable[[], float]


class Disagreement(RuntimeError):
    """Two backends gave other rows for the same ranges."""


def judge_round(backend: Backend, ranges: Sequence[TraceRange]) -> Found:
    """What all ranges give."""
    return found_in(row for row in backend.judge(ranges) if row is not None)


def time_rounds(
    backends: Mapping[str, Backend], ranges: Sequence[TraceRange], pairs: int, clock: Clock
) -> dict[str, list[float]]:
    """The seconds of each backend's rounds, in turns. Raises Disagreement."""
    expected: list[Found] = []

    def judge(name: str) -> float:
        begun = clock()
        found = judge_round(backends[name], ranges)
        seconds = clock() - begun
        expected.append(found)
        if found != expected[0]:
            raise Disagreement(f"{name} gives another result than an earlier round")
        return seconds

    return alternate(list(backends), pairs, judge)


def summarise(
    ranges: Sequence[TraceRange],
    cores: int,
    begin_seconds: Mapping[str, float],
    fixed: Mapping[str, Sequence[float]],
    found: Mapping[str, Sequence[float]],
    busy_seconds: float,
) -> dict[str, Any]:
    """Medians of the pairs, in seconds; `microseconds_a_trace` are of one core's time.

    `busy_seconds` are those of all tasks in Spark's rounds.
    """
    spark, processes = median(found["spark"]), median(found["processes"])
    ratios = [
        theirs / mine for mine, theirs in zip(found["spark"], found["processes"], strict=True)
    ]
    traces = sum(part.last - part.first for part in ranges)
    return {
        "traces": traces,
        "ranges": len(ranges),
        "cores": cores,
        "pairs": len(ratios),
        "begin_seconds": {name: round(seconds, 3) for name, seconds in begin_seconds.items()},
        "fixed_seconds": {name: round(median(seconds), 3) for name, seconds in fixed.items()},
        "spark_seconds": round(spark, 3),
        "processes_seconds": round(processes, 3),
        "ratio": round(median(ratios), 3),
        "ratio_of_each_pair": [round(ratio, 3) for ratio in ratios],
        "idle": round(1 - busy_seconds / (cores * sum(found["spark"])), 4),
        "microseconds_a_trace": round(1e6 * processes * cores / traces, 1),
    }


def compare(scope: str, traces: int, pairs: int, cores: int) -> dict[str, Any]:
    """Prepare, start both, compare. Raises BadPlan, BackendError, Disagreement."""
    clock = time.perf_counter
    with tempfile.TemporaryDirectory() as name, ExitStack() as at_end:
        folder = Path(name)
        prepared = prepare(Plan(scope=scope, traces=traces), folder / "prepared")
        task = WorkerTask("conformance.adapters.impl.worker", prepared.directory.resolve())
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
            judge_round(backends[kind], ranges)
            begin_seconds[kind] = clock() - begun
        shortest = [TraceRange(n, n + 1) for n in range(min(cores, prepared.count))]
        fixed = time_rounds(backends, shortest, pairs, clock)
        before = busy_seconds(backends["spark"])
        found = time_rounds(backends, ranges, pairs, clock)
        busy = busy_seconds(backends["spark"]) - before
        return {"scope": scope, **summarise(ranges, cores, begin_seconds, fixed, found, busy)}


def busy_seconds(spark: Any) -> float:
    """How long executors have run tasks so far, together; Spark knows it moments after their end.

    What a task waits for, from the driver to an executor and back, is not in it.
    """
    time.sleep(SETTLED_SECONDS)
    context = spark.session.sparkContext
    gateway = context._gateway
    no_quantiles = gateway.new_array(gateway.jvm.double, 0)
    any_task = gateway.jvm.java.util.ArrayList()
    store = context._jsc.sc().statusStore()
    stages = store.stageList(None, False, False, no_quantiles, any_task)
    milliseconds: int = sum(stages.apply(n).executorRunTime() for n in range(stages.size()))
    return milliseconds / 1_000


def format_report(r: Mapping[str, Any]) -> str:
    """The report in four lines."""
    each = ", ".join(f"{ratio:.2f}" for ratio in r["ratio_of_each_pair"])
    begins = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in r["begin_seconds"].items())
    fixed = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in r["fixed_seconds"].items())
    return (
        f"{r['scope']}: {r['traces']:,} traces in {r['ranges']} ranges,"
        f" {r['microseconds_a_trace']:,.0f} microseconds of a core each, {r['cores']} cores\n"
        f"not counted, to begin and to load: {begins}\n"
        f"counted, the price of any round, however short: {fixed}\n"
        f"Spark: ratio {r['ratio']:.3f} to processes, median of {r['pairs']} alternated pairs"
        f" ({each}); medians {r['spark_seconds']:.2f} s and {r['processes_seconds']:.2f} s;"
        f" cores idle {100 * r['idle']:.1f} % of Spark's rounds"
    )


def measure(asked: Namespace) -> Mapping[str, Any]:
    """Both backends on a scope. Raises BadPlan, BackendError, Disagreement."""
    report = compare(asked.scope, asked.traces, asked.pairs, asked.cores)
    print(format_report(report))
    if report["microseconds_a_trace"] < LEAST_MICROSECONDS:
        print(f"too little work: below {LEAST_MICROSECONDS:.0f} microseconds a trace")
    return report


OPTIONS = {
    "scope": scope_argument("idempotent-default"),
    "--traces": count_option(56_000, "traces of a round"),
    "--pairs": count_option(5, "rounds of each backend"),
    "--cores": count_option(2, "cores of each backend"),
}

main = partial(run_benchmark, "spark", __doc__, OPTIONS, measure, (BadPlan, BackendError))

if __name__ == "__main__":
    sys.exit(main())
