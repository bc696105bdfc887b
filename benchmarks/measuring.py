"""What benchmarks share: a command, rounds in turns, medians, ratios, and the report.

A benchmark measures in rounds. In each round every contender is measured once, and the one that
begins changes, so that a machine that slows down slows all of them. A ratio is the median of the
rounds' ratios. Processor time hardly depends on who else uses the machine; wall time does.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, Final, NamedTuple, TypeVar

from impl.form import FORM

ROOT: Final = Path(__file__).parents[1]
FORMS: Final = ("compiled", "python")

T = TypeVar("T")

Measure = Callable[[argparse.Namespace], Mapping[str, Any]]
"""Measures what the arguments ask for, prints each figure, and returns the report's content."""


class Time(NamedTuple):
    """How long something took, in seconds: of the clock, and of processors."""

    seconds: float
    cpu_seconds: float


# ---- rounds


def measure_time(
    work: Callable[[], T], cpu_clock: Callable[[], float] = process_time
) -> tuple[Time, T]:
    """Do the work, and say how long it took."""
    cpu, begun = cpu_clock(), perf_counter()
    result = work()
    return Time(perf_counter() - begun, cpu_clock() - cpu), result


def processor_seconds() -> float:
    """What this process and its finished children have used until now."""
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def alternate(names: Sequence[str], rounds: int, measure: Callable[[str], T]) -> dict[str, list[T]]:
    """What `measure` gives for each name, round by round; the one that begins changes."""
    found: dict[str, list[T]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names[:: 1 if number % 2 == 0 else -1]:
            found[name].append(measure(name))
    return found


def median_time(rounds: Sequence[Time]) -> Time:
    """The medians of both clocks."""
    return Time(*map(median, zip(*rounds, strict=True)))


def compare_rounds(name: str, found: Mapping[str, Sequence[Time]]) -> dict[str, Any]:
    """A contender's rounds against those of "ours"; no ratios for ours itself.

    `ratio` is our throughput to its own, `cpu_ratio` its processor time to ours, of all rounds: in
    both, more than 1 is better for ours. None where our processor time is less than a tick.
    """
    mine, ours = found[name], found.get("ours", [])
    row: dict[str, Any] = {"ratio": None, "cpu_ratio": None}
    if ours and name != "ours":
        cpu, our_cpu = (sum(each.cpu_seconds for each in rounds) for rounds in (mine, ours))
        row["ratio"] = ratio([each.seconds for each in ours], [each.seconds for each in mine])
        row["cpu_ratio"] = round_figures(cpu / our_cpu) if our_cpu else None
    return row | {"seconds_of_each_round": [round_figures(each.seconds) for each in mine]}


def ratio(ours: Sequence[float], peer: Sequence[float]) -> float:
    """The peer's seconds to ours: the median of the rounds' ratios."""
    return round_figures(median(theirs / mine for mine, theirs in zip(ours, peer, strict=True)))


def round_figures(value: float) -> float:
    """Four figures that count."""
    return float(f"{value:.4g}")


def format_ratios(*found: float | None) -> str:
    """A column each; empty where there is nothing to compare."""
    return "".join(f"{'' if r is None else f'{r:.3g}x':>9}" for r in found).rstrip()


# ---- the command


def positive(text: str) -> int:
    """A number of a command line. Raises ValueError, which argparse tells the user."""
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def count_option(default: int, what: str) -> dict[str, Any]:
    """An option that takes a number from 1 on."""
    return {"type": positive, "default": default, "help": f"{what} ({default})"}


def scope_argument(default: str) -> dict[str, Any]:
    """The argument that names a scope."""
    return {"nargs": "?", "default": default, "metavar": "SCOPE"}


def load_average() -> float:
    """How many processes wanted to run in the last minute, this benchmark's own included."""
    return round(os.getloadavg()[0], 2)


def run_benchmark(
    name: str,
    description: str | None,
    options: Mapping[str, Mapping[str, Any]],
    measure: Measure,
    refusals: tuple[type[Exception], ...] = (),
    words: Sequence[str] | None = None,
) -> int:
    """Parse the arguments, measure, and write the report if `--json` asks for it.

    `options` are the arguments of `add_argument` by name. Each of the `refusals` ends the command
    with its message and exit code 2.
    """
    summary = (description or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=summary)
    for option, settings in options.items():
        parser.add_argument(option, **settings)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report")
    parser.add_argument("--form", choices=FORMS, help="of `impl`: `compiled` builds it if need be")
    asked = parser.parse_args(words)
    if asked.form not in (None, FORM):
        return run_in_form(asked.form, name, sys.argv[1:] if words is None else words)
    if asked.form is not None:
        print(f"{name}: impl is {FORM}", flush=True)
    load = load_average()
    try:
        content = measure(asked)
    except refusals as refusal:
        parser.exit(2, f"{refusal}\n")
    if asked.json is not None:
        head = {
            "benchmark": name,
            "form": FORM,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "load_average": [load, load_average()],
        }
        write_file(asked.json, json.dumps({**head, **content}, indent=2) + "\n")
    return 0


def run_in_form(form: str, name: str, words: Sequence[str]) -> int:
    """Run the benchmark, and all that it starts, with `impl` in this form; the exit code."""
    path = [str(ROOT)]
    if form == "compiled":
        build = [sys.executable, str(ROOT / "scripts" / "compiled.py")]
        built = subprocess.run(build, stdout=subprocess.PIPE, text=True, check=False)
        if built.returncode:
            return built.returncode
        path.insert(0, built.stdout.strip())
    paths = {"PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-m", f"benchmarks.{name}", *words]
    return subprocess.run(command, env={**os.environ, **paths}, check=False).returncode


def write_file(file: Path, text: str) -> None:
    """Write a file, in a new folder if need be."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
