"""How many steps of lockstep one core judges in a second, in each form.

    python -m benchmarks.lockstep [SCOPE] [--every 1] [--rounds 1] [--json FILE]

A form is the actors under test, and whether messages pass as values or through the codec. All
traces of the scope's cover are judged as by `conformance run --system impl`: the same ranges in the
same order, in one process; `--every N` takes every Nth range. The forms take turns, each round
begins with empty memos, and the median of the rounds counts.

The time is processor time of this process, because wall time means little on a busy machine. Shared
caches and throttling still affect it, so the load is printed as well. A divergence ends the run.
"""

from __future__ import annotations

import os
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

from benchmarks.measuring import count_option, run_benchmark, scope_argument
from conformance.adapters.impl.judges import judge_of, judge_range
from conformance.judging.compositions import judged_composition
from conformance.judging.plan import BadPlan, Plan, PreparedPlan, prepare
from conformance.judging.runner import cut


def forms_of(scope: str) -> list[tuple[str, str]]:
    """Actors and on: all actors and those without the client as values, then all on bytes."""
    actors = judged_composition(scope).actors
    return [*((some, "values") for some in actors[:2]), (actors[0], "bytes")]


class Diverged(RuntimeError):
    """The system is not what the model says."""


def prepare_forms(scope: str, folder: Path) -> Iterator[PreparedPlan]:
    """What each form judges. Raises BadPlan."""
    for index, (actors, on) in enumerate(forms_of(scope)):
        plan = Plan(scope=scope, actors=actors, on=on, traces_from=("cover",))
        yield prepare(plan, folder / str(index))


def judge_form(prepared: PreparedPlan, every: int) -> tuple[int, int, int]:
    """One form from the beginning: traces, steps, steps a processor second. Raises Diverged."""
    judge_of.cache_clear()
    traces = steps = 0
    begun = process_time()
    for part in cut(0, prepared.count)[::every]:
        summary, findings = judge_range(prepared, part.first, part.last)
        traces, steps = traces + summary.traces, steps + summary.steps
        if findings:
            raise Diverged(f"{prepared.plan}: trace {findings[0]['id']}")
    return traces, steps, round(steps / (process_time() - begun))


def measure_forms(scope: str, every: int, rounds: int) -> list[dict[str, Any]]:
    """The steps a second of each form; forms take turns. Raises BadPlan, Diverged."""
    with tempfile.TemporaryDirectory() as folder:
        forms = list(prepare_forms(scope, Path(folder)))
        found = [[judge_form(form, every) for form in forms] for _ in range(rounds)]
    return [
        {
            "actors": actors,
            "on": on,
            "traces": judged[0][0],
            "steps": judged[0][1],
            "steps_per_second": round(median(rate for *_, rate in judged)),
            "of_each_round": [rate for *_, rate in judged],
        }
        for (actors, on), judged in zip(forms_of(scope), zip(*found, strict=True), strict=True)
    ]


def measure(asked: Namespace) -> Mapping[str, Any]:
    """All forms of a scope. Raises BadPlan, Diverged."""
    forms = measure_forms(asked.scope, asked.every, asked.rounds)
    for form in forms:
        each = ", ".join(f"{rate:,}" for rate in form["of_each_round"])
        print(
            f"{asked.scope}, {form['actors']} on {form['on']}: {form['steps_per_second']:,}"
            f" steps/s on a core ({form['steps']:,} steps of {form['traces']:,} traces;"
            f" each round {each})"
        )
    print(f"load {' '.join(f'{load:.1f}' for load in os.getloadavg())}, {os.cpu_count()} cores")
    return {"scope": asked.scope, "forms": forms}


OPTIONS = {
    "scope": scope_argument("idempotent-small"),
    "--every": count_option(1, "judge one range in so many"),
    "--rounds": count_option(1, "rounds of all forms"),
}

main = partial(run_benchmark, "lockstep", __doc__, OPTIONS, measure, (BadPlan,))

if __name__ == "__main__":
    sys.exit(main())
