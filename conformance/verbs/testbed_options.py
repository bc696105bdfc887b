"""Options that the verbs about transactions share: a testbed, and a directory."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from conformance.adapters.brokers.kafka.errors import UnknownRelease
from conformance.adapters.brokers.kafka.releases import NEWEST, RELEASES
from conformance.adapters.brokers.testbed import KafkaTestbed
from proofs.run import BadUse, one_of
from proofs.run.directory import RunDirectory
from proofs.run.files import code_digest

KAFKAS: Final = tuple(release.name for release in RELEASES.values() if not release.has_zookeeper)
"""The values of `--kafka`: the releases that describe their transactions (KIP-664)."""


def add_testbed(parser: argparse.ArgumentParser) -> None:
    """Add the release, the level, and the place of the answer."""
    parser.add_argument("--kafka", metavar="RELEASE", default=NEWEST, help=", ".join(KAFKAS))
    parser.add_argument("--level", type=int, help="the cluster's transaction.version")
    parser.add_argument("--json", type=Path, metavar="FILE", help="report and run in one file")
    parser.add_argument("--out", type=Path, metavar="DIR", help="report.json and run.json")


def open_testbed(
    options: argparse.Namespace, there_are: Sequence[str] = KAFKAS, **more: Any
) -> KafkaTestbed:
    """The testbed that the arguments describe. Raises BadUse."""
    release = one_of("--kafka", options.kafka, there_are)
    try:
        return KafkaTestbed(release, level=options.level, **more)
    except UnknownRelease as error:
        raise BadUse(str(error)) from error


def directory_of(options: argparse.Namespace, **question: Any) -> RunDirectory:
    """The directory of a run at a testbed; the report depends on the testbed and the question."""
    asked = {"verb": options.verb, "kafka": options.kafka, "level": options.level, **question}
    return RunDirectory(options.out, asked, code_digest() if options.out else "")
