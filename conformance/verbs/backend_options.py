"""The options of all verbs that take --backend."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from conformance.backends.by_name import BACKENDS
from conformance.judging.backend import BackendError, Options
from proofs.run import BadUse, one_of, positive
from proofs.run.directory import Remote
from proofs.say import note

BEST_BACKEND: Final = None
"""The default of --backend, which `best_backend` replaces."""


def add_backend(where: Any, default: str | None, backends: Sequence[str] = BACKENDS) -> None:
    """Add --backend and Spark's options; `where` is a parser, or a group of one."""
    said = default or "spark where it is installed, else processes"
    where.add_argument(
        "--backend", default=default, help=f"{' or '.join(backends)} (default: {said})"
    )
    where.add_argument(
        "--master",
        metavar="M",
        help="Spark's master (default: that of the session there is, of spark-submit or of"
        " spark-defaults.conf, else local[*])",
    )
    where.add_argument("--remote", metavar="R", help="a Spark Connect server: sc://HOST:PORT")
    where.add_argument(
        "--conf",
        action="append",
        type=setting,
        metavar="NAME=VALUE",
        help="a setting of Spark, as spark-submit takes it; again for each",
    )
    where.add_argument("--partitions", type=int, metavar="N", help="tasks of a wave, or processes")


def best_backend(options: argparse.Namespace) -> str:
    """The requested backend; by default Spark, or processes if Spark cannot run here.

    An option of Spark's (--master, --remote, --conf) counts as a request for Spark.
    """
    if options.backend is not BEST_BACKEND or options.master or options.remote or options.conf:
        return options.backend or "spark"
    why = missing_for_spark()
    if why is not None:
        note(f"judging on processes of this machine: {why}")
    return "spark" if why is None else "processes"


def missing_for_spark() -> str | None:
    """The reason why Spark cannot run here; None if it can."""
    for module in ("pyspark", "py4j", "pyarrow", "pandas"):
        if find_spec(module) is None:
            return f"{module} is not installed (pip install 'kafka-eos[conformance]')"
    from conformance.backends.spark_session import require_java  # only where pyspark is

    try:
        require_java()
    except BackendError:
        return "Java is not installed"
    return None


def setting(text: str) -> tuple[str, str]:
    """A setting of Spark; argparse reports any other text."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=VALUE")
    return name, value


def run_place(text: str) -> Path | Remote:
    """The folder of a run, local or at a URI."""
    if "://" not in text:
        return Path(text)
    from conformance.judging.file_systems import find_folder  # Arrow takes long to import
    from conformance.judging.remote import RemoteDirectory

    try:
        return RemoteDirectory(text, *find_folder("--out", text))
    except BadUse as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def backend_options(
    given: argparse.Namespace, log: Path, backends: Sequence[str] = BACKENDS
) -> Options:
    """The backend's settings; its own messages go to `log`. Raises BadUse."""
    one_of("--backend", given.backend, backends)
    width = positive("--partitions", given.partitions)
    return Options(log, given.master, given.remote, width, tuple(given.conf or ()))
