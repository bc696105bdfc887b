"""`delayed-end-txn`: does a delayed EndTxn end the next transaction, on a real broker?"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any, Final

from conformance.transactions.delayed_end_txn import SHAPES, Ending, Story, Written
from conformance.transactions.evidence import plain
from conformance.transactions.ground import Ground
from conformance.transactions.verb import add_ground, ground_of, worst, write_answer
from conformance.transactions.wire import Requests
from conformance.verbs import EXIT_CODES, BadUse, Verb, one_of
from proofs.say import say

SCHEMA_VERSION: Final = 1
REQUESTS: Final[dict[str, Requests]] = {"v1": "v1", "v2": "v2"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """All that `delayed-end-txn` takes."""
    add_ground(parser)
    parser.add_argument("--requests", default="v1", help="v1 or v2 (default: v1)")


def execute(options: argparse.Namespace) -> int:
    """Tell each shape of the story; 0 if no guarantee is broken, 1 if one is, 3 if it cannot be
    told.

    Raises BadUse for a release, a level or requests that there are not.
    """
    requests = REQUESTS[one_of("--requests", options.requests, tuple(REQUESTS))]
    started = time.monotonic()
    with ground_of(options) as ground:
        if not ground.speaks(requests):
            raise BadUse(f"Kafka {ground.release.name} does not serve {requests} requests")
        endings = [Story(ground, requests, shape).play() for shape in SHAPES]
        report = report_of(ground, requests, endings)
    for line in table(report, endings):
        say(line)
    write_answer(options, report, {"seconds": round(time.monotonic() - started, 3)})
    return EXIT_CODES[report["verdict"]]


def report_of(ground: Ground, requests: str, endings: Sequence[Ending]) -> dict[str, Any]:
    """What the machine reads: the requests as they were answered, and all that was read back."""
    return {
        "schema_version": SCHEMA_VERSION,
        "story": "delayed-end-txn",
        "release": ground.release.name,
        "level": ground.level,
        "requests": requests,
        "shapes": [{**plain(ending), "verdict": ending.verdict} for ending in endings],
        "verdict": worst(ending.verdict for ending in endings),
    }


def table(report: dict[str, Any], endings: Sequence[Ending]) -> list[str]:
    """The answer for people."""
    lines = [f"Kafka {report['release']}, level {report['level']}, {report['requests']} requests"]
    for ending in endings:
        lines += ["", f"{ending.shape.name}: {ending.shape.what}"]
        lines += [
            f"  {told.connection:<7} {told.request:<40} {told.answer}" for told in ending.told
        ]
        lines += [f"  read_committed: {', '.join(map(shown, ending.written)) or 'nothing'}"]
        lines += [f"  {ending.verdict}: {', '.join(ending.broken) or ending.refused or 'all kept'}"]
    return [*lines, "", f"verdict: {report['verdict']}"]


def shown(written: Written) -> str:
    """`second is not there`."""
    return f"{written.what} {'is there' if written.is_visible else 'is not there'}"


VERB = Verb(
    "Let a delayed EndTxn arrive in the next transaction, and see what it ends (KAFKA-17754).",
    add_arguments,
    execute,
)
