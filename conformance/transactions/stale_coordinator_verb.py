"""`stale-coordinator`: does a leader believe one that coordinates no more, on real brokers?"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from conformance.kafka.admin import ask_for_topic
from conformance.kafka.errors import KafkaError
from conformance.kafka.metadata_proxy import MetadataProxy, through
from conformance.kafka.ports import free_ports
from conformance.kafka.recipe import Node
from conformance.kafka.releases import find_release
from conformance.transactions.evidence import plain
from conformance.transactions.ground import HOME, Ground
from conformance.transactions.reading import CONSUMER_OFFSETS
from conformance.transactions.stale_coordinator import (
    ENDED,
    PROPERTIES,
    ROLES,
    SHAPES,
    WATCH_S,
    Ending,
    Shape,
    Story,
)
from conformance.transactions.stale_targets import LEADER
from conformance.transactions.verb import add_ground, ground_of, worst, write_answer
from conformance.transactions.wire import Requests
from conformance.verbs import EXIT_CODES, BadUse, Verb, note, one_of
from proofs.say import say

SCHEMA_VERSION: Final = 1
REQUESTS: Final[dict[str, Requests]] = {"v1": "v1", "v2": "v2"}
TIMES: Final = 3
NAMES: Final = tuple(shape.name for shape in SHAPES)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """All that `stale-coordinator` takes."""
    add_ground(parser)
    parser.add_argument("--requests", default="v1", help="v1 or v2 (default: v1)")
    parser.add_argument("--only", metavar="NAMES", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--times", type=int, default=TIMES, help=f"each (default: {TIMES})")
    parser.add_argument(
        "--watch-s", type=float, default=WATCH_S, help=f"readers, in s (default: {WATCH_S})"
    )


def execute(options: argparse.Namespace) -> int:
    """Tell each shape; 0 if no guarantee is broken, 1 if one is, 3 if one cannot be told.

    Raises BadUse for a release, a level, requests, shapes or times that there are not.
    """
    requests = REQUESTS[one_of("--requests", options.requests, tuple(REQUESTS))]
    shapes = wanted(options.only)
    if options.times < 1 or options.watch_s < 0:
        raise BadUse("--times is at least 1, and --watch-s not negative")
    started = time.monotonic()
    failed = ""
    endings: list[Ending] = []
    with seated(options) as (ground, proxy):
        if not ground.can_use(requests):
            raise BadUse(f"Kafka {ground.name} does not serve {requests} requests")
        try:
            for shape in (shape for shape in shapes for _ in range(options.times)):
                note(f"stale-coordinator: {ground.name}: {shape.name}")
                endings.append(Story(ground, proxy, requests, shape, options.watch_s).play())
        except KafkaError as error:
            failed = f"{shape.name}: {type(error).__name__}: {error}"
        report = report_of(ground, requests, endings, failed)
    for line in table(report):
        say(line)
    write_answer(options, report, {"seconds": round(time.monotonic() - started, 3)})
    return EXIT_CODES[report["verdict"]]


def wanted(only: str | None) -> list[Shape]:
    """The shapes that are asked for, all without a name. Raises BadUse."""
    names = NAMES if only is None else [one_of("--only", n, NAMES) for n in only.split(",")]
    return [shape for shape in SHAPES if shape.name in names]


@contextmanager
def seated(options: argparse.Namespace) -> Iterator[tuple[Ground, MetadataProxy]]:
    """Three brokers, and the network between two of them and the controller. Raises BadUse."""
    [port] = free_ports(1)

    def each(node: Node) -> dict[str, str]:
        return through(port, HOME, find_release(options.kafka), node)

    more = {"nodes": 3, "seated": True, "properties": PROPERTIES, "properties_of": each}
    ground = ground_of(options, **more)
    with MetadataProxy(port, ground.brokers[HOME].node.controller_port) as proxy, ground:
        name, compacted = CONSUMER_OFFSETS[0], {"cleanup.policy": "compact"}
        asked = ground.wire(HOME).connection
        ask_for_topic(asked, name, 1, replicas=(LEADER,), configs=compacted)
        yield ground, proxy


def report_of(
    ground: Ground, requests: str, endings: Sequence[Ending], failed: str
) -> dict[str, Any]:
    """What the machine reads: each shape once for each way in which it went."""
    verdicts = [ending.verdict for ending in endings]
    return {
        "schema_version": SCHEMA_VERSION,
        "story": "stale-coordinator",
        "release": ground.release.name,
        "level": ground.level,
        "requests": requests,
        "shapes": [row_of(ending, times) for ending, times in counted(endings)],
        "failed": failed,
        "verdict": worst([*verdicts, *(["undecided"] if failed else [])]),
    }


def counted(endings: Sequence[Ending]) -> list[tuple[Ending, int]]:
    """Endings that are alike count as one."""
    rows = Counter(map(repr, endings))
    return [(ending, rows.pop(repr(ending))) for ending in endings if repr(ending) in rows]


def row_of(ending: Ending, times: int) -> dict[str, Any]:
    """One way in which a shape went."""
    shape = ending.shape
    return {
        "name": shape.name,
        "what": shape.what,
        "deaf": [ROLES[node] for node in shape.deaf],
        "lost": [ROLES[node] for node in shape.lost],
        "times": times,
        "told": plain(ending.told),
        "seen": plain(ending.seen),
        "broken": list(ending.broken),
        "verdict": ending.verdict,
    }


def table(report: dict[str, Any]) -> list[str]:
    """The answer for people."""
    lines = [f"Kafka {report['release']}, level {report['level']}, {report['requests']} requests"]
    for row in report["shapes"]:
        lines += ["", f"{row['name']}: {row['what']} ({row['times']} times)"]
        lines += [f"  {t['connection']:<12} {t['request']:<33} {t['answer']}" for t in row["told"]]
        for moment, seen in row["seen"].items():
            here = seen["target"]
            log = " ".join(here["log"])
            lines += [f"  {moment:<12} {log}; {here['told']}; {seen['state']}"]
        shown = row["seen"][ENDED]["target"]["committed"]
        lines += [f"  {'committed':<12} {', '.join(shown) or 'nothing'}"]
        lines += [f"  {row['verdict']}: {', '.join(row['broken']) or 'all kept'}"]
    lines += [f"failed: {report['failed']}"] if report["failed"] else []
    return [*lines, "", f"verdict: {report['verdict']}"]


VERB = Verb(
    "Let a late Produce meet a leader that asks one who coordinates no more (KIP-890).",
    add_arguments,
    execute,
)
