"""The Spark session of a run: an existing one, one with the user's settings, or one of this
machine.

Three rules:

1. An existing session is used as it is, and stays open at the end.
2. This module names the master only if neither an option, `--conf`, `spark-submit` nor
   `spark-defaults.conf` names one.
3. Our settings apply to masters of this machine, and the user's settings override them.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from conformance.backends.spark_failures import describe_failure
from conformance.judging.backend import BackendError, Options

OLDEST_JAVA: Final = 17
LOCAL: Final = "local[*]"
NAME: Final = "kafka-eos"
CONNECT_SECONDS: Final = 5.0
SERVERS: Final = {"spark": ("Spark master", 7077), "sc": ("Spark Connect server", 15002)}
"""The kind of server at a URL, by its scheme, and the default port."""

CONNECT_RETRIES: Final = 8
CONNECT_BACKOFF_MS: Final = 5_000
"""Gives a Connect server up after half a minute instead of ten minutes."""

CONFIGURATIONS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # A wave's plan is a step or two over one row for each range: adaptive execution has no use.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    # A failed task loses the wave, and a defect of ours fails in each attempt.
    "spark.task.maxFailures": "2",
    # Names of this machine often do not resolve; and no other machine connects.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""Settings for a master of this machine, unless the user sets them."""

LOCAL_JAVA: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Java does little here, on the cores that Python needs, so it gets few threads to collect and
optimise."""

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


class OpenSession(NamedTuple):
    """A session; `is_ours` if it was opened here, `is_local` if workers see the same files."""

    session: SparkSession
    is_ours: bool
    is_local: bool
    is_remote: bool


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
    """Raises BackendError unless Java is present and new enough."""
    java = find_java()
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version is None or int(version[1]) < OLDEST_JAVA:
        what = f"{java} is {version[1]}" if version else f"{java} does not run"
        raise BackendError(NO_JAVA.format(what=what))


@contextmanager
def stderr_into(path: Path) -> Iterator[None]:
    """Redirect Java's inherited standard error into a file."""
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


# The user's settings

SUBMIT_OPTIONS: Final = {
    "--master": "spark.master",
    "--name": "spark.app.name",
    "--driver-java-options": "spark.driver.extraJavaOptions",
}
"""The options of `spark-submit` that have names of their own."""


def user_configurations(options: Options) -> dict[str, str]:
    """All settings from outside: `spark-defaults.conf`, `spark-submit`, options."""
    given = defaults_of_file() | submitted()
    if options.master:
        given["spark.master"] = options.master
    return given | dict(options.conf)


def defaults_of_file() -> dict[str, str]:
    """The settings of `spark-defaults.conf`: each line has a name and a value."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (home and f"{home}/conf")
    file = Path(folder or "/nowhere") / "spark-defaults.conf"
    if not file.is_file():
        return {}
    lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
    pairs = (re.split(r"[\s=:]+", line, maxsplit=1) for line in lines if line[:1] not in ("", "#"))
    return {pair[0]: pair[-1] for pair in pairs if len(pair) == 2}


def submitted() -> dict[str, str]:
    """The settings of `spark-submit`, whose Java runs already, or of PYSPARK_SUBMIT_ARGS."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        SparkContext._ensure_initialized()
        return dict(SparkConf(_jvm=SparkContext._jvm).getAll())
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    found = {}
    for option, value in pairwise(words):
        if option in ("--conf", "-c"):
            name, _, value = value.partition("=")
            found[name] = value
        elif option in SUBMIT_OPTIONS:
            found[SUBMIT_OPTIONS[option]] = value
    return found


def is_local(master: str) -> bool:
    """Whether tasks run on this machine, in processes that see the same files."""
    return master == "local" or master.startswith("local[")


# Opening


def open_session(options: Options, scratch: Path) -> OpenSession:
    """The session that the options ask for, or the one that exists. Raises BackendError."""
    if options.master and options.remote:
        raise BackendError("--master and --remote exclude each other; leave one out")
    existing = SparkSession.getActiveSession()
    if existing is not None:
        return existing_session(existing, options)
    if options.remote is None:
        require_java()
    given = user_configurations(options)
    where = options.remote or given.get("spark.master", LOCAL)
    require_server(where)
    try:
        with stderr_into(options.log):
            if options.remote:
                session = remote_session(options.remote, options.conf)
            else:
                session = new_session(given, scratch)
    except (PySparkException, Py4JError, OSError, RuntimeError) as error:
        reason = describe_failure(error, options.log)
        raise BackendError(f"no Spark session on {where}: {reason}") from error
    return OpenSession(session, True, not options.remote and is_local(where), bool(options.remote))


def existing_session(session: SparkSession, options: Options) -> OpenSession:
    """The existing session. Raises BackendError for options that it cannot have."""
    master = "" if is_connect(session) else str(session.sparkContext.master)
    for name, value in (("--master", options.master), ("--remote", options.remote)):
        if value not in (None, master):
            raise BackendError(f"a Spark session exists, on {master}; leave {name} out, or stop it")
    if options.conf:
        raise BackendError("a Spark session exists; give it its settings, and leave --conf out")
    return OpenSession(session, False, is_local(master), is_connect(session))


def is_connect(session: SparkSession) -> bool:
    """Whether it is a session of Spark Connect, which has no context in this process."""
    return ".connect." in type(session).__module__


def new_session(given: Mapping[str, str], scratch: Path) -> SparkSession:
    """A session with the user's settings; on this machine, with our defaults."""
    name_python(given)
    builder = SparkSession.builder
    for name, value in with_ours_beneath(given, scratch).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def name_python(given: Mapping[str, str]) -> None:
    """Tell PySpark which Python executors run: among settings, only `spark-submit` reads
    `spark.pyspark.python`."""
    if "spark.pyspark.python" in given:
        os.environ["PYSPARK_PYTHON"] = given["spark.pyspark.python"]
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def with_ours_beneath(given: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """The user's settings, with our defaults for the others."""
    master = given.get("spark.master", LOCAL)
    ours = local_configurations(scratch) if is_local(master) else {}
    return {"spark.app.name": NAME, "spark.master": master, **ours, **given}


def local_configurations(scratch: Path) -> dict[str, str]:
    """Our settings, including the place of Java's log."""
    logging = scratch / "log4j2.properties"
    logging.write_text(LOGGING, encoding="utf-8")
    return {
        **CONFIGURATIONS,
        "spark.driver.extraJavaOptions": (
            f"{LOCAL_JAVA} -Dlog4j2.configurationFile={logging.as_uri()}"
        ),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }


def remote_session(remote: str, conf: tuple[tuple[str, str], ...]) -> SparkSession:
    """A session of a Spark Connect server. Raises BackendError without Connect's own packages."""
    builder = SparkSession.builder.remote(remote).appName(NAME)
    for name, value in conf:
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except ImportError as error:
        raise BackendError(
            f"--remote needs Spark Connect ({error}). Type: pip install 'pyspark[connect]'"
        ) from error
    from pyspark.sql.connect.client.retries import DefaultPolicy  # needs Connect's own packages

    policy = DefaultPolicy(max_retries=CONNECT_RETRIES, max_backoff=CONNECT_BACKOFF_MS)
    session.client.set_retry_policies([policy])
    return session


def require_server(where: str) -> None:
    """Raises BackendError unless a standalone master or a Connect server listens: Spark itself
    tries for minutes."""
    scheme, _, places = where.partition("://")
    if scheme not in SERVERS:
        return
    what, port = SERVERS[scheme]
    for place in places.partition("/")[0].split(","):
        host, _, given = place.partition(":")
        with suppress(OSError, ValueError):
            socket.create_connection((host, int(given or port)), CONNECT_SECONDS).close()
            return
    raise BackendError(f"no {what} listens at {where}; start it, or name another")
