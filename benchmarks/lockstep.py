"""Steps of lockstep that a core judges in a second, in each form.

    python -m benchmarks.lockstep [SCOPE] [--every 1] [--rounds 1] [--json FILE]

A form is who is under test, and what messages pass: values, or the codec. All traces of the scope's
cover are judged as `conformance run --system impl` judges them, ranges of the same size in the same
order, in one process; `--every N` takes one range in so many. The forms take turns, in each round
nothing is known yet of what the system does, and the median of the rounds counts.

The time is the processor's that the process has used: on a busy machine the wall clock would say
nothing. Where processors share caches or are throttled, others still cost some of it; so the load
is printed, too. A divergence ends the run: what goes wrong has no speed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import process_time

from conformance.plan import BadPlan, Plan, PreparedPlan, judge_of, judge_range, prepare
from conformance.runner import cut

FORMS = (("client,leader", "values"), ("leader", "values"), ("client,leader", "bytes"))
"""(actors, on)."""


class Diverged(RuntimeError):
    """The system is not what the model says."""


@dataclass(frozen=True, slots=True)
class Speed:
    """One form. `steps_per_second` is that of a core, the median of `of_each_round`."""

    actors: str
    on: str
    traces: int
    steps: int
    steps_per_second: int
    of_each_round: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Round:
    """One form, judged once: what was judged, in how many seconds of the processor."""

    traces: int
    steps: int
    seconds: float


def prepared_forms(scope: str, folder: Path) -> Iterator[PreparedPlan]:
    """What each form judges. Raises BadPlan."""
    for number, (actors, on) in enumerate(FORMS):
        plan = Plan(scope=scope, actors=actors, on=on, traces_from=("cover",))
        yield prepare(plan, folder / str(number))


def judged(prepared: PreparedPlan, every: int) -> Round:
    """One form from the beginning. Raises Diverged."""
    judge_of.cache_clear()
    traces = steps = 0
    begun = process_time()
    for part in cut(0, prepared.count)[::every]:
        summary = judge_range(prepared, part.first, part.last)
        traces, steps = traces + summary.traces, steps + summary.steps
        if summary.divergences:
            raise Diverged(f"{prepared.plan}: trace {summary.findings[0]['id']}")
    return Round(traces, steps, process_time() - begun)


def measured(scope: str, every: int, rounds: int) -> list[Speed]:
    """All forms, in turns. Raises BadPlan, Diverged."""
    with tempfile.TemporaryDirectory() as folder:
        forms = list(prepared_forms(scope, Path(folder)))
        turns = [[judged(form, every) for form in forms] for _ in range(rounds)]
    return [
        speed(form.plan, found) for form, found in zip(forms, zip(*turns, strict=True), strict=True)
    ]


def speed(plan: Plan, found: Sequence[Round]) -> Speed:
    """One form's rounds together."""
    rates = tuple(round(one.steps / one.seconds) for one in found)
    first = found[0]
    return Speed(plan.actors, plan.on, first.traces, first.steps, round(median(rates)), rates)


def shown(scope: str, speeds: Sequence[Speed]) -> Iterator[str]:
    """The report, a line a form."""
    for one in speeds:
        each = ", ".join(f"{rate:,}" for rate in one.of_each_round)
        yield (
            f"{scope}, {one.actors} on {one.on}: {one.steps_per_second:,} steps/s on a core"
            f" ({one.steps:,} steps of {one.traces:,} traces; each round {each})"
        )
    yield f"load {' '.join(f'{load:.1f}' for load in os.getloadavg())}, {os.cpu_count()} cores"


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("scope", nargs="?", default="idempotent-small", metavar="SCOPE")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one range in so many")
    parser.add_argument("--rounds", type=int, default=1, help="of all forms")
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args(words)
    try:
        speeds = measured(asked.scope, max(1, asked.every), max(1, asked.rounds))
    except BadPlan as error:
        parser.exit(2, f"{error}\n")
    print("\n".join(shown(asked.scope, speeds)))
    if asked.json is not None:
        content = {"benchmark": "lockstep", "scope": asked.scope, "forms": [*map(asdict, speeds)]}
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
