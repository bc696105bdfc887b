"""How many trace ids a run gets through where judging costs nothing: waves, rows and the journal.

    python -m benchmarks.trace_ids [--count 100000000] [--backend spark] [--cores 2] [--json FILE]

The judge of a range gives how many traces it has, and nothing else. What is timed is a whole run,
from its first wave to its last, with its journal in a file; not the start of the backend. Besides
the rate, it reports the peak memory of this process, and the sizes of the journal and of the
largest wave. All ids must be counted.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measuring import count_option, run_benchmark
from conformance.backends.by_name import BACKENDS, open_backend
from conformance.judging.backend import BackendError, Options, TraceRange, WorkerTask
from conformance.judging.findings import Summary
from conformance.judging.rows import Found
from conformance.judging.runner import Waves, run_waves
from proofs.run.directory import JOURNAL
from proofs.run.journal import Journal


class IdsLost(RuntimeError):
    """The run did not count each id once."""


# What workers do


def load(directory: Path) -> None:
    """Nothing needs to be loaded."""


def judge(prepared: None, part: TraceRange) -> Found:
    """The number of traces."""
    return Found(Summary(traces=part.last - part.first))


# The run


def count_ids(count: int, backend: str, cores: int) -> dict[str, Any]:
    """Run; what it took. Raises BackendError, IdsLost."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if backend == "spark":
            options = Options(folder / "backend.log", master=f"local[{cores}]")
        else:
            options = Options(folder / "backend.log", partitions=cores)
        opened = open_backend(backend, WorkerTask("benchmarks.trace_ids", folder), options)
        try:
            waves = Waves(Journal(folder / JOURNAL), count)
            begun = time.perf_counter()
            found = run_waves(waves, opened, lambda done, total: None, time.perf_counter)
            seconds = time.perf_counter() - begun
        finally:
            opened.close()
        if found.summary.traces != count:
            raise IdsLost(f"{found.summary.traces:,} of {count:,} ids were counted")
        return {
            "count": count,
            "backend": backend,
            "cores": cores,
            "seconds": round(seconds, 3),
            "ids_per_second": round(count / seconds),
            "waves": len(waves.done),
            "journal_bytes": (folder / JOURNAL).stat().st_size,
            "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        }


def measure(asked: Namespace) -> Mapping[str, Any]:
    """One run. Raises BackendError, IdsLost."""
    report = count_ids(asked.count, asked.backend, asked.cores)
    print(
        f"{report['count']:,} ids on {report['backend']} in {report['seconds']:,.1f} s:"
        f" {report['ids_per_second']:,} ids/s in {report['waves']} waves; journal"
        f" {report['journal_bytes'] / 1e6:.1f} MB, this process at most"
        f" {report['peak_kib'] / 1024:,.0f} MiB"
    )
    return report


OPTIONS = {
    "--count": count_option(100_000_000, "trace ids"),
    "--backend": {"choices": BACKENDS, "default": BACKENDS[0], "help": "where ranges are judged"},
    "--cores": count_option(2, "cores of the backend"),
}

main = partial(run_benchmark, "trace_ids", __doc__, OPTIONS, measure, (BackendError,))

if __name__ == "__main__":
    sys.exit(main())
