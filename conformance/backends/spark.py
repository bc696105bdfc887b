"""Spark: on the cores of this machine, on a cluster (`master`), or through Connect (`remote`).

Theory of operation. A wave is a DataFrame of numbers, one for each range, in as many partitions
as asked for; `mapInArrow` judges the ranges of a task and merges what they gave into one row. Many
rows are shuffled into MERGED tasks, which merge them again: the driver gets at most as many.

On this machine workers read the repository and the prepared files where they are. Elsewhere both
travel as archives, which Spark unpacks once on each machine; archives and not zipped packages, as
the model is also read as text and compiled objects are loaded as files.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from conformance.backends import (
    HEARTBEAT_SECONDS,
    BackendError,
    BackendFailed,
    Options,
    ResultRow,
    TraceRange,
    WorkerTask,
)
from proofs.run.files import PACKAGES

WorkerFunction = Callable[[Iterator[Any]], Iterator[Any]]
"""Record batches in, record batches out."""

OLDEST_JAVA: Final = 17
LOCAL: Final = "local[*]"
SCHEMA: Final = "ranges binary, body binary"
MERGED: Final = 8
"""Rows of a wave that come to the driver: a wave of more tasks is merged by as many others."""
PARTITIONS_PER_CORE: Final = 3
"""More than one, so that a core that is done early takes over from a slow one."""
REMOTE_PARTITIONS: Final = 32
"""Where the number of cores is unknown."""

CONFIGURATIONS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # A wave's plan is one step over as many rows as there are ranges: nothing to adapt or compile.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    # A wave is lost with any of its tasks, and a defect of ours fails as often as it is tried.
    "spark.task.maxFailures": "2",
}

LOCAL_JAVA: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Java does little here, on the cores that Python needs: no threads to collect or to optimise."""

LOGGING: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""

NO_JAVA: Final = (
    f"Spark needs Java {OLDEST_JAVA} or newer, {{what}}; install a JDK"
    " (Debian: openjdk-17-jdk-headless) or set JAVA_HOME, or use --backend processes"
)


# Java


def find_java() -> str:
    """The `java` that Spark will start. Raises BackendError."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    if found is None:
        where = f"not in JAVA_HOME={home}" if home else "and there is no java on the PATH"
        raise BackendError(NO_JAVA.format(what=where))
    return found


def require_java() -> None:
    """Raises BackendError unless Java is there and new enough."""
    java = find_java()
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version is None or int(version[1]) < OLDEST_JAVA:
        what = f"{java} is {version[1]}" if version else f"{java} does not run"
        raise BackendError(NO_JAVA.format(what=what))


# The session


@contextmanager
def stderr_into(path: Path) -> Iterator[None]:
    """What Java writes into the standard error that it inherits goes into a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def local_session(master: str, scratch: Path) -> SparkSession:
    """A session of our own on `master`."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    logging = scratch / "log4j2.properties"
    logging.write_text(LOGGING, encoding="utf-8")
    builder = SparkSession.builder.master(master).appName("kafka-eos")
    for name, value in CONFIGURATIONS.items():
        builder = builder.config(name, value)
    java = f"-Dlog4j2.configurationFile={logging.as_uri()}"
    if is_local(master):
        java = f"{LOCAL_JAVA} {java}"
        # Names of this machine that do not resolve are common; nobody else connects.
        builder = builder.config("spark.driver.host", "127.0.0.1")
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    return (
        builder.config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.driver.extraJavaOptions", java)
        .getOrCreate()
    )


def remote_session(remote: str) -> SparkSession:
    """A session of a Spark Connect server. Raises BackendError without Connect's own packages."""
    try:
        return SparkSession.builder.remote(remote).appName("kafka-eos").getOrCreate()
    except ImportError as error:
        raise BackendError(
            f"--remote needs Spark Connect ({error}). Type: pip install 'pyspark[connect]'"
        ) from error


def open_session(options: Options, scratch: Path) -> SparkSession:
    """The session that the options ask for. Raises BackendError."""
    if options.master and options.remote:
        raise BackendError("--master and --remote exclude each other; leave one out")
    where = options.remote or options.master or LOCAL
    if options.remote is None:
        require_java()
    try:
        with stderr_into(options.log):
            if options.remote:
                return remote_session(options.remote)
            return local_session(where, scratch)
    except (PySparkException, OSError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise BackendError(f"no Spark session on {where}: {reason}; see {options.log}") from error


# What travels


def archive_packages(folder: Path, roots: Sequence[Path]) -> Path:
    """Our packages as one archive, each from the first root that has it."""
    tree = folder / "packages"
    for name in PACKAGES:
        source = next(root / name for root in roots if (root / name).is_dir())
        shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    return Path(shutil.make_archive(str(folder / "kafka_eos_packages"), "zip", tree))


def ship(session: SparkSession, task: WorkerTask, scratch: Path) -> None:
    """Packages and prepared files, to wherever tasks will run."""
    packages = archive_packages(scratch, task.roots)
    prepared = shutil.make_archive(str(scratch / "kafka_eos_prepared"), "zip", task.directory)
    session.addArtifacts(str(packages), prepared, archive=True)


def at_workers(task: WorkerTask, entry: str, *given: Any, shipped: bool) -> WorkerFunction:
    """The function for `mapInArrow` that calls `entry` of `spark_worker` with the task as it is
    there, what is given, and the batches.

    It is nested so that it travels as code: nothing of ours can be imported before it has run.
    """
    module, directory = task.module, str(task.directory)
    roots = [str(root) for root in task.roots]

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        import sys
        from importlib import import_module
        from pathlib import Path

        from pyspark import SparkFiles

        places, prepared = roots, directory
        if shipped:
            places = [SparkFiles.get("kafka_eos_packages.zip")]
            prepared = SparkFiles.get("kafka_eos_prepared.zip")
        sys.path[:] = places + [place for place in sys.path if place not in places]
        worker = import_module("conformance.backends.spark_worker")
        there = worker.WorkerTask(module, Path(prepared), tuple(map(Path, places)))
        yield from getattr(worker, entry)(there, *given, batches)

    return work


# The backend


class Spark:
    """A session, and how wide its waves are."""

    name = "spark"

    def __init__(
        self, session: SparkSession, task: WorkerTask, options: Options, scratch: Path
    ) -> None:
        self._session = session
        self._scratch = scratch
        self._log = options.log
        self._shipped = bool(options.remote) or not is_local(options.master or LOCAL)
        self._task = task
        self._thread = ThreadPoolExecutor(1)
        self.cores = None if options.remote else session.sparkContext.defaultParallelism
        self._partitions = options.partitions or default_partitions(self.cores)
        if self._shipped:
            ship(session, task, scratch)

    def judge(self, ranges: Sequence[TraceRange]) -> Iterator[ResultRow | None]:
        """The rows of all ranges, as they come: at the end of the wave. Raises BackendFailed."""
        collected = self._thread.submit(self._collect, ranges)
        while (rows := wait_for_result(collected)) is None:
            yield None
        yield from rows

    def _collect(self, ranges: Sequence[TraceRange]) -> list[ResultRow]:
        width = min(self._partitions, len(ranges))
        numbers = self._session.range(0, len(ranges), 1, width)
        bounds = [tuple(part) for part in deal(ranges, width)]
        rows = numbers.mapInArrow(self._at_workers("judge_numbers", bounds), SCHEMA)
        if width > MERGED:
            rows = rows.repartition(MERGED).mapInArrow(self._at_workers("merge_batches"), SCHEMA)
        try:
            return [ResultRow(*map(bytes, row)) for row in rows.collect()]
        except PySparkException as error:
            raise BackendFailed(f"Spark failed: {error}\nsee also {self._log}") from error

    def _at_workers(self, entry: str, *given: Any) -> WorkerFunction:
        return at_workers(self._task, entry, *given, shipped=self._shipped)

    def close(self) -> None:
        """Stop the session and remove what it left behind."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._session.stop()
        shutil.rmtree(self._scratch, ignore_errors=True)


def deal(ranges: Sequence[TraceRange], hands: int) -> list[TraceRange]:
    """The ranges such that tasks, which get neighbours, have some of everywhere: traces are long in
    the beginning of a run, and short in the end."""
    return [part for hand in range(hands) for part in ranges[hand::hands]]


def wait_for_result(future: Future[list[ResultRow]]) -> list[ResultRow] | None:
    """The future's result, or None if it takes longer than a heartbeat."""
    try:
        return future.result(HEARTBEAT_SECONDS)
    except NotYet:
        return None


def is_local(master: str) -> bool:
    """Whether tasks run on this machine, in processes that see the same files."""
    return master == "local" or master.startswith("local[")


def default_partitions(cores: int | None) -> int:
    """The default number of tasks in a wave."""
    return REMOTE_PARTITIONS if cores is None else cores * PARTITIONS_PER_CORE


def open_backend(task: WorkerTask, options: Options) -> Spark:
    """A Spark session that knows the task. Raises BackendError."""
    # Beside the log and not in the system's own place: what a killed run leaves, the next removes.
    scratch = options.log.resolve().parent / "spark"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    where = replace(task, directory=task.directory.resolve())
    try:
        return Spark(open_session(options, scratch), where, options, scratch)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
