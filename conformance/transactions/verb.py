"""What the verbs about transactions share: a testbed, reports, verdicts."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from conformance.files import pretty, write_whole
from conformance.kafka.errors import UnknownRelease
from conformance.kafka.releases import NEWEST, RELEASES
from conformance.transactions.testbed import KafkaTestbed
from conformance.verbs import BadUse, one_of, write_json

WORST_FIRST: Final = ("violated", "undecided", "holds")

KAFKAS: Final = tuple(release.name for release in RELEASES.values() if not release.has_zookeeper)
"""What `--kafka` may be: the releases that describe their transactions (KIP-664)."""


def add_testbed(parser: argparse.ArgumentParser) -> None:
    """Release, level, and where the answer goes."""
    parser.add_argument("--kafka", metavar="RELEASE", default=NEWEST, help=", ".join(KAFKAS))
    parser.add_argument("--level", type=int, help="the cluster's transaction.version")
    parser.add_argument("--json", type=Path, metavar="FILE", help="report and run in one file")
    parser.add_argument("--out", type=Path, metavar="DIR", help="report.json and run.json")


def open_testbed(
    options: argparse.Namespace, there_are: Sequence[str] = KAFKAS, **more: Any
) -> KafkaTestbed:
    """The testbed that the arguments name. Raises BadUse."""
    release = one_of("--kafka", options.kafka, there_are)
    try:
        return KafkaTestbed(release, level=options.level, **more)
    except UnknownRelease as error:
        raise BadUse(str(error)) from error


def write_answer(
    options: argparse.Namespace, report: Mapping[str, Any], run: Mapping[str, Any]
) -> None:
    """What is the same in each run of the same work, apart from what is not."""
    if options.out is not None:
        write_whole(options.out / "report.json", pretty(report))
        write_whole(options.out / "run.json", pretty(run))
    write_json(options.json, {**report, "run": run})


def worst(verdicts: Iterable[str]) -> str:
    """`holds` only if all do."""
    return min(verdicts, key=WORST_FIRST.index)
