"""The memory of Spark's driver by the number of traces; its report must be that of processes.

    python -m benchmarks.driver_memory [SCOPE] [--traces 100000] [--times 10] [--heap 512m]
                                       [--master local-cluster[2,1,1024]] [--json FILE]

Two runs on Spark, one of `--traces`, one of so many `--times`, each in a new process with a driver
of that heap; executors are processes of their own. Peaks are resident memory as Linux keeps it
(VmHWM), of the Python that drives and of its JVM, read each tenth of a second until they end. The
larger run is repeated on processes of this machine, and both must write the same report, byte for
byte.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measuring import count_option, run_benchmark, scope_argument

REPORT = "report.json"


class Failed(RuntimeError):
    """A run did not end as it should, or two reports differ."""


def status_of(process_id: int) -> dict[str, str]:
    """The fields of /proc/ID/status; none if the process is gone."""
    try:
        lines = Path(f"/proc/{process_id}/status").read_text(encoding="ascii").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def children_of(process_id: int) -> Iterator[int]:
    """Its child processes."""
    try:
        words = Path(f"/proc/{process_id}/task/{process_id}/children").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return
    yield from map(int, words.split())


def peaks_of(process_id: int) -> dict[str, int]:
    """The peak resident bytes of a driver's Python and of its JVM, as far as they run."""
    found = {"python": status_of(process_id)}
    for child in children_of(process_id):
        status = status_of(child)
        if status.get("Name") == "java":
            found["jvm"] = status
    return {
        name: int(status["VmHWM"].split()[0]) * 1024
        for name, status in found.items()
        if "VmHWM" in status
    }


def run(words: Sequence[str], out: Path) -> tuple[dict[str, int], float]:
    """One run: peaks of its driver in bytes, and its seconds. Raises Failed."""
    command = [sys.executable, "-m", "kafka_eos", "run", *words, "--out", str(out)]
    began, peaks = time.monotonic(), dict[str, int]()
    with (
        tempfile.TemporaryFile("w+") as told,
        subprocess.Popen(command, stdout=told, stderr=subprocess.STDOUT) as process,
    ):
        while process.poll() is None:
            for name, peak in peaks_of(process.pid).items():
                peaks[name] = max(peak, peaks.get(name, 0))
            time.sleep(0.1)
        told.seek(0)
        if process.returncode:
            raise Failed(f"{' '.join(command)} ended with {process.returncode}: {told.read()}")
    return peaks, time.monotonic() - began


def measure(asked: Namespace) -> Mapping[str, Any]:
    """Both runs on Spark, and the larger one on processes. Raises Failed."""
    cluster = ("--backend", "spark", "--master", asked.master)
    heap = ("--conf", f"spark.driver.memory={asked.heap}")
    runs = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for traces in (asked.traces, asked.traces * asked.times):
            size = ("--scope", asked.scope, "--traces", str(traces))
            peaks, seconds = run((*size, *cluster, *heap), folder / str(traces))
            runs.append({"traces": traces, "peaks_bytes": peaks, "seconds": round(seconds, 1)})
            shown = ", ".join(f"{name} {peak / 2**20:.0f} MiB" for name, peak in peaks.items())
            print(f"{asked.scope}, {traces:,} traces: {shown}; {seconds:.0f} s", flush=True)
        here = folder / "processes"
        _, seconds = run((*size, "--backend", "processes"), here)
        if (here / REPORT).read_bytes() != (folder / str(traces) / REPORT).read_bytes():
            raise Failed(f"the reports of {traces:,} traces on Spark and on processes differ")
    print(f"processes: the same report, byte for byte; {seconds:.0f} s")
    growth = {
        name: round(peak / runs[0]["peaks_bytes"][name], 3)
        for name, peak in runs[1]["peaks_bytes"].items()
    }
    print(f"{asked.times} times the traces: " + ", ".join(f"{n} x {g}" for n, g in growth.items()))
    return {"scope": asked.scope, "heap": asked.heap, "runs": runs, "growth": growth}


OPTIONS = {
    "scope": scope_argument("idempotent-small"),
    "--traces": count_option(100_000, "traces of the smaller run"),
    "--times": count_option(10, "the larger run has so many times the traces"),
    "--heap": {"default": "512m", "metavar": "SIZE", "help": "of the driver (512m)"},
    "--master": {
        "default": "local-cluster[2,1,1024]",
        "metavar": "M",
        "help": "Spark's master (local-cluster[2,1,1024])",
    },
}

main = partial(run_benchmark, "driver_memory", __doc__, OPTIONS, measure, (Failed,))

if __name__ == "__main__":
    sys.exit(main())
