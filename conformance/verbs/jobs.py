"""`jobs`: many commands of `kafka-eos`, in parallel on Spark or on processes of this machine.

A command is a template; --each gives the values of the names in its braces. Each job is a process
of its own. The same command skips jobs that ended with 0 or 1, and repeats jobs that ended with bad
use or without a decision.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from conformance.backends.by_name import open_job_backend
from conformance.backends.jobs import task
from conformance.backends.jobs.table import CommandJob, jobs_of, values_of
from conformance.backends.jobs.task import JobResult
from conformance.judging.backend import Options, WorkerTask, each_once
from conformance.verbs.backend_options import add_backend, backend_options
from conformance.verbs.listing import KINDS, names_of
from proofs.run import BAD_USE, HOLDS, NOT_DECIDED, VIOLATED, one_of
from proofs.run.directory import RunDirectory
from proofs.run.files import code_digest, pretty, write_whole
from proofs.run.journal import Journal
from proofs.say import note, say

SCHEMA_VERSION: Final = 1
OUT: Final = Path("out/jobs")
PREPARED: Final = "prepared"
REPORTS: Final = "reports"
LOG: Final = "spark.log"

VERDICTS: Final = {HOLDS: "holds", VIOLATED: "violated", BAD_USE: "bad use"}
"""The verdicts by exit code; any other code is `undecided`."""

DECIDED: Final = (HOLDS, VIOLATED)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `jobs`."""
    parser.add_argument(
        "commands",
        nargs="*",
        metavar="COMMAND",
        help="the words behind `kafka-eos`, quoted; {NAME} is filled from --each; paths in it are"
        " absolute, and the verb has a --json",
    )
    parser.add_argument("--table", type=Path, metavar="FILE", help="more commands, one a line")
    parser.add_argument(
        "--each",
        action="append",
        default=[],
        metavar="NAME=A,B",
        help="the values of a name; NAME=@KIND are all that `list KIND` shows, NAME=@KIND:REGEX"
        " some of them; again for each name",
    )
    parser.add_argument("--list", action="store_true", help="print the jobs, do none")
    add_backend(parser, "processes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the results as JSON")
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help=f"default: {OUT}")


def execute(options: argparse.Namespace) -> int:
    """Run the remaining jobs; returns the exit code of the worst job. Raises BadUse, OtherRun,
    BackendError, Stopped."""
    where = backend_options(options, options.out / LOG)
    jobs = jobs_of([*options.commands, *commands_in(options.table)], each(options.each))
    if options.list:
        for job in jobs:
            say(job.command)
        return HOLDS
    asked = {"jobs": [job.command for job in jobs]}
    with RunDirectory(options.out, asked, code_digest(), (PREPARED, REPORTS)) as directory:
        failed = [
            row_of(jobs[result.number], result)
            for result in do(jobs, options.backend, where, directory)
            if result.exit_code not in DECIDED
        ]
        rows = {row["command"]: row for row in (*directory.journal.values(), *failed)}
        ordered = [rows[job.command] for job in jobs]
        code = worst_of(row["exit_code"] for row in ordered)
        report = {
            "schema_version": SCHEMA_VERSION,
            "jobs": [{k: v for k, v in row.items() if k != "seconds"} for row in ordered],
            "verdict": VERDICTS.get(code, "undecided"),
        }
        times = {"seconds": {row["command"]: row["seconds"] for row in ordered}}
        directory.write(report, times, options.json)
    for line in summary(ordered):
        say(line)
    return code


def do(
    jobs: Sequence[CommandJob], backend: str, where: Options, directory: RunDirectory
) -> Iterator[JobResult]:
    """Run the jobs that the journal lacks. Yields each result after it is written to the journal
    and the reports. Raises BackendError."""
    assert directory.path is not None
    journal: Journal = directory.journal
    left = [number for number, job in enumerate(jobs) if job.command not in journal]
    if len(left) < len(jobs):
        note(f"jobs: {len(jobs) - len(left):,} of {len(jobs):,} are done already")
    if not left:
        return
    prepared = directory.path / PREPARED
    task.write_jobs(jobs, prepared)
    opened = open_job_backend(backend, WorkerTask(task.__name__, prepared), where)
    try:
        done = map(result_of, opened.run_jobs(left))
        for result in each_once(left, done, lambda result: result.number):
            if result is None:
                continue
            row = row_of(jobs[result.number], result)
            file = directory.path / REPORTS / f"{result.number:05}.json"
            write_whole(file, pretty({**row, "lines": result.lines, "report": result.report}))
            if result.exit_code in DECIDED:
                journal.add(row["command"], row)
            note(f"jobs: {row['verdict']:<9} {row['seconds']:8.1f} s  {row['command']}")
            yield result
    finally:
        opened.close()


def result_of(body: bytes | None) -> JobResult | None:
    """The result in a worker's message, if any."""
    return None if body is None else JobResult(**json.loads(body))


def row_of(job: CommandJob, result: JobResult) -> dict[str, Any]:
    """The row of the report; `because` is the last line of a job without a verdict."""
    is_decided = result.exit_code in DECIDED
    because = "" if is_decided else (list(result.lines) or ["it printed nothing"])[-1]
    return {
        "command": job.command,
        "number": result.number,
        "exit_code": result.exit_code,
        "verdict": VERDICTS.get(result.exit_code, "undecided"),
        "because": because,
        "seconds": result.seconds,
    }


def worst_of(codes: Iterable[int]) -> int:
    """1 if a job ended with 1, else the code of bad use, of no decision, or 0."""
    found = {code if code in VERDICTS else NOT_DECIDED for code in codes}
    return next(code for code in (VIOLATED, BAD_USE, NOT_DECIDED, HOLDS) if code in found)


def summary(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The final lines in the terminal: each job that does not hold, and the counts."""
    for row in rows:
        if row["exit_code"] != HOLDS:
            because = f": {row['because']}" if row["because"] else ""
            yield f"{row['verdict']}: {row['command']}{because}"
    verdicts = [row["verdict"] for row in rows]
    counts = (f"{verdicts.count(verdict):,} {verdict}" for verdict in dict.fromkeys(verdicts))
    yield f"{len(rows):,} jobs: {', '.join(counts)}"


def commands_in(table: Path | None) -> list[str]:
    """The lines of a file, without empty ones and those that begin with #. Raises OSError."""
    if table is None:
        return []
    lines = (line.strip() for line in table.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def each(given: Sequence[str]) -> dict[str, list[str]]:
    """The values of --each. Raises BadUse."""

    def known(kind: str) -> list[str]:
        return names_of(one_of("KIND", kind, KINDS))

    return values_of(given, known)
