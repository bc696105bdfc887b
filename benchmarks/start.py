"""How long `kafka-eos serve` takes to its first answer: `python -m benchmarks.start`.

From the start of the process to the answer to an ApiVersions request on its socket; `cpu` is the
processor time of the process until then, in steps of 10 ms. The other rows are what no broker in
Python can do without: the interpreter, and asyncio with argparse. Rows take turns, so that a busy
machine slows down all of them. Modules are compiled before, as an installation has them.
"""

from __future__ import annotations

import subprocess
import sys
from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any, Final

from benchmarks.live.running import ROOT, Running, first_answer
from benchmarks.measuring import (
    Time,
    alternate,
    count_option,
    measure_time,
    processor_seconds,
    round_figures,
    run_benchmark,
)

SERVE: Final = "kafka-eos serve"
FLOORS: Final[Mapping[str, str]] = {"python": "pass", "asyncio": "import argparse, asyncio"}


def start_broker() -> Time:
    """One start. Raises `KafkaError` if it does not answer."""
    command = [sys.executable, "-m", "kafka_eos", "serve", "--listen", "127.0.0.1:0"]
    begun = perf_counter()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            host, _, port = process.stdout.readline().split()[-1].rpartition(":")
            running = Running((host, int(port)), process.pid)
            first_answer(running)
            return Time(perf_counter() - begun, running.cpu_seconds())
        finally:
            process.stdout.readlines(1)  # it says its form, too
            process.terminate()


def start_python(program: str) -> Time:
    """A process that does nothing else."""
    run = partial(subprocess.run, [sys.executable, "-c", program], check=True)
    return measure_time(run, processor_seconds)[0]


def measure(asked: Namespace) -> dict[str, Any]:
    """Start each in turn, and print medians and the fastest."""
    ways = {name: partial(start_python, program) for name, program in FLOORS.items()}
    start_broker()
    found = alternate(
        [*FLOORS, SERVE],
        asked.starts,
        lambda name: ways[name]() if name in ways else start_broker(),
    )
    rows = []
    for name, times in found.items():
        seconds, cpu = ([time[index] for time in times] for index in (0, 1))
        row = {"seconds": round_figures(median(seconds)), "fastest": round_figures(min(seconds))}
        rows.append({"what": name, **row, "cpu_seconds": round_figures(median(cpu))})
        print(
            f"{name:16}{1e3 * median(seconds):>8.0f} ms, fastest {1e3 * min(seconds):>6.0f} ms,"
            f" cpu {1e3 * median(cpu):>6.0f} ms",
            flush=True,
        )
    return {"starts": rows}


OPTIONS: Final = {"--starts": count_option(15, "starts of each")}

main = partial(run_benchmark, "start", __doc__, OPTIONS, measure)

if __name__ == "__main__":
    sys.exit(main())
