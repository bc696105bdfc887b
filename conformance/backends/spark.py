"""Spark: on the cores of this machine, on a cluster (`master`), or through Connect (`remote`).

Theory of operation. A wave is a DataFrame of numbers, one for each range, in as many partitions as
requested. `mapInArrow` judges the ranges of a task, and merges their results into one row. If there
are many rows, they are shuffled into MERGED tasks, which merge them again, so that the driver
receives at most MERGED rows.

On this machine workers read the repository and the prepared files in place. On other machines both
arrive as archives, which Spark unpacks once on each machine. They are archives instead of zipped
packages because the model is also read as text, and compiled objects are loaded as files.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from conformance.backends.environment import environment_reader, group_by_host
from conformance.backends.spark_failures import describe_failure
from conformance.backends.spark_session import OpenSession, open_session
from conformance.judging.backend import (
    HEARTBEAT_SECONDS,
    BackendError,
    BackendFailed,
    Options,
    ResultRow,
    TraceRange,
    WorkerTask,
)
from proofs.run.files import PACKAGES

T = TypeVar("T")
WorkerFunction = Callable[[Iterator[Any]], Iterator[Any]]
"""Record batches in, record batches out."""

SCHEMA: Final = "ranges binary, body binary"
JOB_SCHEMA: Final = "body binary"
MERGED: Final = 8
"""The most rows of a wave that the driver receives: larger waves are merged by this many tasks."""
PARTITIONS_PER_CORE: Final = 3
"""More than one, so that a core that finishes early takes over from a slow one."""
JOBS_A_CORE: Final = 4
"""The number of jobs of a wave for each core; their results are known when the whole wave is
finished."""
REMOTE_PARTITIONS: Final = 32
"""The number of partitions if the number of cores is unknown."""
SHIPPED: Final = (*PACKAGES, "kafka_eos")
"""Includes the command line: jobs are commands."""

# Shipping


def archive_packages(folder: Path, roots: Sequence[Path], name: str = "packages") -> Path:
    """Our packages as one archive, each from the first root that has it."""
    tree = folder / "tree"
    for package in SHIPPED:
        source = next(root / package for root in roots if (root / package).is_dir())
        shutil.copytree(source, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    return Path(shutil.make_archive(str(folder / name), "zip", tree))


def ship(session: SparkSession, task: WorkerTask, scratch: Path) -> tuple[str, str]:
    """Send packages and prepared files to the machines that run tasks; returns the names that they
    have there.

    Names are new each time, because an existing session may have those of an earlier run.
    """
    token = uuid4().hex[:8]
    packages = archive_packages(scratch, task.roots, f"kafka_eos_packages_{token}")
    to = str(scratch / f"kafka_eos_prepared_{token}")
    prepared = Path(shutil.make_archive(to, "zip", task.directory))
    session.addArtifacts(str(packages), str(prepared), archive=True)
    return packages.name, prepared.name


def at_workers(
    task: WorkerTask, shipped: tuple[str, str] | None, entry: str, *given: Any
) -> WorkerFunction:
    """The function for `mapInArrow` that calls `entry` of `spark_worker` with the task in its form
    on the worker, the given value, and the batches.

    The function is nested so that it is sent as code: before it runs, a worker cannot import our
    packages.
    """
    module, directory = task.module, str(task.directory)
    roots = [str(root) for root in task.roots]

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        import sys
        from importlib import import_module
        from pathlib import Path

        from pyspark import SparkFiles

        places, prepared = roots, directory
        if shipped is not None:
            packages, prepared = map(SparkFiles.get, shipped)
            places = [packages]
        sys.path[:] = places + [place for place in sys.path if place not in places]
        worker = import_module("conformance.backends.spark_worker")
        there = worker.WorkerTask(module, Path(prepared), tuple(map(Path, places)))
        yield from getattr(worker, entry)(there, *given, batches)

    return work


def environment_at() -> WorkerFunction:
    """The function for `mapInArrow` that returns a worker's environment, as JSON.

    It uses none of our packages: a worker may not have them yet, or cannot import them.
    """
    read = environment_reader()

    def look(batches: Iterator[Any]) -> Iterator[Any]:
        import json

        import pyarrow

        for _ in batches:
            yield pyarrow.RecordBatch.from_pylist([{"environment": json.dumps(read())}])

    return look


# The backend


class Spark:
    """A session, and the width of its waves."""

    name = "spark"

    def __init__(
        self, opened: OpenSession, task: WorkerTask, options: Options, scratch: Path
    ) -> None:
        self.session, self._opened = opened.session, opened
        self._scratch = scratch
        self._log = options.log
        self._task = task
        self._thread = ThreadPoolExecutor(1)
        self.group = f"kafka-eos-{uuid4().hex[:8]}"
        self._partitions = options.partitions
        self._shipped: tuple[str, str] | None = None
        self.executors: Sequence[dict[str, Any]] = ()

    def prepare(self) -> None:
        """Send the files that workers need, and let workers load them. Otherwise the first wave
        would count loading as judging, and the second would be cut for a slow machine. Raises
        BackendError."""
        self.submit("which Python executors have", self._read_environment).result()
        if not self._opened.is_local:
            self._shipped = self._in_spark(lambda: ship(self.session, self._task, self._scratch))
        self.submit("loading what is judged", self._load).result()

    @property
    def cores(self) -> int | None:
        """The present number of cores: executors come and go."""
        if self._opened.is_remote:
            return None
        return int(self.session.sparkContext.defaultParallelism)

    def judge(self, ranges: Sequence[TraceRange]) -> Iterator[ResultRow | None]:
        """The rows of all ranges, at the end of the wave. Raises BackendFailed."""
        what = f"traces {ranges[0].first:,} to {ranges[-1].last:,}"
        collected = self.submit(what, lambda: self._collect(ranges))
        while (rows := wait_for_result(collected)) is None:
            yield None
        yield from rows

    def submit(self, what: str, work: Callable[[], T]) -> Future[T]:
        """Begin work whose jobs have a name and belong to the group of this backend, after all work
        begun before it. The future raises BackendFailed, whatever Spark raises."""

        def named() -> T:
            self._describe(what)
            return work()

        return self._thread.submit(self._in_spark, named)

    def _collect(self, ranges: Sequence[TraceRange]) -> list[ResultRow]:
        width = min(self._partitions or default_partitions(self.cores), len(ranges))
        numbers = self.session.range(0, len(ranges), 1, width)
        bounds = [tuple(part) for part in deal(ranges, width)]
        rows = numbers.mapInArrow(self.at_workers("judge_numbers", bounds), SCHEMA)
        if width > MERGED:
            rows = rows.repartition(MERGED).mapInArrow(self.at_workers("merge_batches"), SCHEMA)
        return [ResultRow(*map(bytes, row)) for row in rows.collect()]

    def run_jobs(self, numbers: Sequence[int]) -> Iterator[bytes | None]:
        """The result of each job, one wave at a time. Raises BackendFailed."""
        left = list(numbers)
        while left:
            size = JOBS_A_CORE * (self.cores or REMOTE_PARTITIONS)
            wave, left = left[:size], left[size:]
            collected = self.submit(f"{len(wave):,} jobs", partial(self._collect_jobs, wave))
            while (rows := wait_for_result(collected)) is None:
                yield None
            yield from rows

    def _collect_jobs(self, wave: Sequence[int]) -> list[bytes]:
        places = self.session.range(0, len(wave), 1, len(wave))  # each job is a task of its own
        rows = places.mapInArrow(self.at_workers("run_numbers", tuple(wave)), JOB_SCHEMA)
        return [bytes(row.body) for row in rows.collect()]

    def at_workers(self, entry: str, *given: Any) -> WorkerFunction:
        """The function for `mapInArrow` that calls `entry` of `spark_worker` on workers."""
        return at_workers(self._task, self._shipped, entry, *given)

    def _in_spark(self, work: Callable[[], T]) -> T:
        """The result of `work`. Raises BackendFailed, whatever Spark raises."""
        try:
            return work()
        except (PySparkException, Py4JError, OSError) as error:
            raise BackendFailed(f"Spark failed: {describe_failure(error, self._log)}") from error

    def _describe(self, what: str) -> None:
        """Name the jobs of this thread, for Spark's UI and for cancelling them."""
        if self._opened.is_remote:
            self.session.addTag(self.group)
        else:
            context = self.session.sparkContext
            context.setJobGroup(self.group, f"kafka-eos: {what}", interruptOnCancel=True)

    def _load(self) -> None:
        width = self.cores or REMOTE_PARTITIONS
        there = self.session.range(0, width, 1, width)
        there.mapInArrow(self.at_workers("load"), SCHEMA).collect()

    def _read_environment(self) -> None:
        """Read the Python and the packages of executors. Raises BackendError if an executor lacks a
        package that judging needs: otherwise the first wave would fail, after large files were
        sent. Spark itself checks that all have the same Python."""
        width = min(default_partitions(self.cores), REMOTE_PARTITIONS)
        there = self.session.range(0, width, 1, width)
        rows = there.mapInArrow(environment_at(), "environment string").collect()
        found = [json.loads(row.environment) for row in rows]
        for environment in found:
            missing = [name for name, known in environment["packages"].items() if known is None]
            if missing:
                raise BackendError(
                    f"Python {environment['python']} of the executor on {environment['host']} lacks"
                    f" {', '.join(missing)}: install it there, or name another Python by"
                    " PYSPARK_PYTHON"
                )
        spark = {"spark": self.session.version}
        self.executors = [{**group, **spark} for group in group_by_host(found)]

    def cancel(self) -> None:
        """End the jobs of this backend."""
        if self._opened.is_remote:
            self.session.interruptTag(self.group)
        else:
            self.session.sparkContext.cancelJobGroup(self.group)

    def close(self) -> None:
        """End the jobs, stop the session if it is ours, and remove its files."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        with suppress(PySparkException, Py4JError, OSError):  # a session that is gone needs no end
            self.cancel()
            if self._opened.is_ours:
                self.session.stop()
        shutil.rmtree(self._scratch, ignore_errors=True)


def deal(ranges: Sequence[TraceRange], hands: int) -> list[TraceRange]:
    """Order the ranges so that each task, which gets neighbours, has some from everywhere: traces
    are long at the beginning of a run, and short at the end."""
    return [part for hand in range(hands) for part in ranges[hand::hands]]


def wait_for_result(future: Future[list[T]]) -> list[T] | None:
    """The future's result, or None if it takes longer than a heartbeat."""
    try:
        return future.result(HEARTBEAT_SECONDS)
    except NotYet:
        return None


def default_partitions(cores: int | None) -> int:
    """The default number of tasks in a wave."""
    return REMOTE_PARTITIONS if cores is None else cores * PARTITIONS_PER_CORE


def open_backend(task: WorkerTask, options: Options) -> Spark:
    """A Spark session that can run the task. Raises BackendError."""
    # Beside the log instead of in the system's temporary folder: the next run removes files of a
    # killed one.
    scratch = options.log.resolve().parent / "spark"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    where = replace(task, directory=task.directory.resolve())
    try:
        backend = Spark(open_session(options, scratch), where, options, scratch)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    try:
        backend.prepare()
    except BaseException:
        backend.close()
        raise
    return backend
