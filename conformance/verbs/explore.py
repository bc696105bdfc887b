"""`explore`: the verb of proofs, with Spark as a further engine for scopes too large for one
machine."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from conformance.verbs.backend_options import add_backend, backend_options, run_place
from proofs.explore.engines import EngineCounts, EngineJob
from proofs.run import BadUse, one_of
from proofs.run.directory import Remote
from proofs.verbs import explore

THREADS: Final = "threads"
SPARK: Final = "spark"
WHERE: Final = (THREADS, SPARK)

LEVELS: Final = "levels"
LOG: Final = "spark.log"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `explore` of proofs, and those of Spark."""
    explore.add_arguments(parser, run_place)
    add_backend(parser, THREADS, WHERE)


def execute(arguments: argparse.Namespace) -> int:
    """Explore; returns the exit code. Raises what `explore` of proofs raises, BadUse,
    BackendError."""
    if one_of("--backend", arguments.backend, WHERE) == SPARK:
        return on_spark(arguments)
    if arguments.master or arguments.remote or arguments.conf or arguments.partitions:
        raise BadUse("--master, --remote, --conf, --partitions belong to --backend spark")
    if not isinstance(arguments.out, Path | None):
        raise BadUse("a URI as --out belongs to --backend spark; name a folder")
    return explore.execute(arguments)


def on_spark(arguments: argparse.Namespace) -> int:
    """Explore on Spark, with separate levels for each scope."""
    if arguments.engine or arguments.symmetry or arguments.all:
        raise BadUse("--engine, --symmetry, --all belong to --backend threads; leave them out")
    from conformance.backends.exploration.engine import NAME, explore_on_spark  # pyspark takes long

    arguments.engine = (NAME,)
    with places(arguments.out) as (here, there):
        options = backend_options(arguments, here / LOG, WHERE)

        def engine(job: EngineJob) -> EngineCounts:
            return explore_on_spark(job, options, f"{there}/{LEVELS}/{job.name.replace('/', '-')}")

        return explore.execute(arguments, {NAME: engine})


@contextmanager
def places(out: Path | Remote | None) -> Iterator[tuple[Path, str]]:
    """The local folder of a run, and the folder of its levels, local or at a URI."""
    if isinstance(out, Path):
        yield out, str(out.resolve())
        return
    with TemporaryDirectory(prefix="kafka-eos-") as folder:
        yield Path(folder), folder if out is None else out.uri
