"""Describes a failure of Spark in one sentence, instead of up to 200 lines of Java's traceback."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

SAYINGS: Final = (
    (
        r"Python in worker has different version[^0-9]*(?P<it>[0-9.]+)"
        r"|PYTHON_VERSION_MISMATCH[^0-9]*(?P<it2>[0-9.]+)",
        "the executors run Python {it}, this is another: set PYSPARK_PYTHON, or --conf"
        " spark.pyspark.python=PATH, to the same version there",
    ),
    (
        r"Cannot run program \"(?P<it>[^\"]+)\"",
        "the executors cannot start {it}: set PYSPARK_PYTHON, or --conf spark.pyspark.python=PATH,"
        " to a Python that is there",
    ),
    (
        r"ModuleNotFoundError: No module named '(?P<it>[^']+)'",
        "the executors' Python lacks {it}: install it there, or name another Python by"
        " PYSPARK_PYTHON",
    ),
    (
        r"OutOfMemoryError|GC overhead limit exceeded",
        "out of memory: give more by --conf spark.driver.memory=4g or spark.executor.memory=4g",
    ),
    (
        r"No space left on device",
        "a disk is full: free it, or name another by --conf spark.local.dir=PATH",
    ),
    (
        r"ExecutorLostFailure|Executor heartbeat timed out|[Ww]orker lost|Lost executor"
        r"|executor decommission|FetchFailed",
        "executors were lost, with a task or its results, more often than Spark allows",
    ),
    (
        r"Python worker exited unexpectedly|Python worker .*crashed"
        r"|daemon failed to launch worker|from pyspark.daemon's stdout"
        r"|Lost task .*java\.(io|net)\.\w+(: (Stream closed|Broken pipe|Connection reset|Socket"
        r" closed))?$",
        "a Python worker ended unexpectedly (out of memory?)",
    ),
    (
        r"All masters are unresponsive|Master removed our application|SparkContext was shut down"
        r"|stopped SparkContext|Connection refused|Connection reset|Answer from Java side is empty"
        r"|StatusCode.UNAVAILABLE|SESSION_CLOSED|SESSION_NOT_FOUND|INVALID_HANDLE",
        "Spark is gone: its master, its driver or its server has stopped",
    ),
)
"""Phrases of Spark, the most reliable first, each with its meaning."""

RAISED: Final = re.compile(r"^(?:: )?(?:[\w.]+\.)?(\w+(?:Error|Exception)): (.*)$", re.MULTILINE)
"""The last line of a Python traceback, or Java's text after a colon."""


def describe_failure(error: BaseException, log: Path) -> str:
    """One sentence; Spark's whole message goes to the log."""
    text = str(error)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(f"{type(error).__name__}: {text}\n")
    return f"{meaning_of(text)}; see {log}"


def meaning_of(text: str) -> str:
    """The meaning of Spark's message. If the message is not known, the exception of a worker, or
    the first line."""
    for pattern, meaning in SAYINGS:
        found = re.search(pattern, text, re.MULTILINE)
        if found is not None:
            named = [value for value in found.groupdict().values() if value]
            return meaning.format(it=named[0] if named else "another")
    raised = [f"{name}: {said}" for name, said in RAISED.findall(text) if said]
    python = [line for line in raised if not line.startswith(("Py4J", "PythonException"))]
    return (python or raised or text.strip().splitlines() or ["Spark says nothing"])[0]
