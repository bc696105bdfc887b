"""The work of a worker on a job: it runs one command, in a process and an empty folder of its
own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from conformance.backends.jobs.table import CommandJob
from proofs.run.files import REPOSITORY, pretty, write_whole

JOBS: Final = "jobs.json"
REPORT: Final = "report.json"
LINES_KEPT: Final = 20


class JobResult(NamedTuple):
    """The end of a job: `lines` are the last lines that it printed, `report` is the JSON report
    that it wrote, or None."""

    number: int
    exit_code: int
    seconds: float
    lines: Sequence[str]
    report: Any


def write_jobs(jobs: Sequence[CommandJob], directory: Path) -> None:
    """Write the jobs for workers."""
    write_whole(directory / JOBS, pretty([list(job.words) for job in jobs]))


def load(directory: Path) -> list[CommandJob]:
    """The jobs that `write_jobs` wrote."""
    return [CommandJob(tuple(words)) for words in json.loads((directory / JOBS).read_text("utf-8"))]


def run(jobs: Sequence[CommandJob], number: int) -> bytes:
    """Do one job; its JobResult as JSON. Raises OSError."""
    began_s = time.monotonic()
    places = [str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
    with TemporaryDirectory(prefix="kafka-eos-job-") as folder:
        report = Path(folder) / REPORT
        done = subprocess.run(
            [sys.executable, "-m", "kafka_eos", *jobs[number].words, "--json", str(report)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        written = json.loads(report.read_text("utf-8")) if report.exists() else None
    lines = done.stdout.splitlines()[-LINES_KEPT:]
    seconds = round(time.monotonic() - began_s, 3)
    result = JobResult(number, done.returncode, seconds, lines, written)
    return json.dumps(result._asdict()).encode()
