"""Verbs that play all experiments of one story, and decide by the guarantees that it breaks."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any, Final

from conformance.experiments.player import Played, play
from conformance.experiments.report import story_report, story_table
from conformance.experiments.story import Experiment, stories
from conformance.transactions.testbed import KafkaTestbed
from conformance.transactions.verb import add_testbed, open_testbed, write_answer
from conformance.transactions.wire import Requests
from conformance.verbs import EXIT_CODES, BadUse, note, one_of
from proofs.say import say

REQUESTS: Final[dict[str, Requests]] = {"v1": "v1", "v2": "v2"}


class StoryVerb:
    """The verb of one story."""

    def __init__(self, story: str) -> None:
        self._story = story

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what the verb takes."""
        add_testbed(parser)
        parser.add_argument("--requests", default="v1", help="v1 or v2 (default: v1)")
        parser.add_argument("--only", metavar="NAMES", help=f"of {', '.join(_shapes(self._story))}")
        parser.add_argument("--times", type=int, help="each (default: as the story has it)")
        if any("watch_s" in one.variables for one in _experiments(self._story)):
            parser.add_argument("--watch-s", type=float, help="watch readers, in s (default: 2)")

    def execute(self, options: argparse.Namespace) -> int:
        """Play; 0 if no guarantee is broken, 1 if one is, 3 if that cannot be decided.

        Raises BadUse for a release, a level, requests, shapes or times that there are not.
        """
        return _execute(options, self._story)


def _experiments(story: str) -> list[Experiment]:
    return [one for one in stories().values() if one.story == story]


def _shapes(story: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.variables["shape"] for one in _experiments(story)))


def _execute(options: argparse.Namespace, story: str) -> int:
    shapes = _shapes(story)
    requests = REQUESTS[one_of("--requests", options.requests, tuple(REQUESTS))]
    names = [
        one_of("--only", name, shapes) for name in (options.only or ",".join(shapes)).split(",")
    ]
    variables = _variables(options)
    experiments = [
        one
        for one in _experiments(story)
        if one.requests == (requests,) and one.variables["shape"] in names
    ]
    started = time.monotonic()
    wants = experiments[0].brokers
    properties = dict(wants.properties)
    with open_testbed(
        options, nodes=wants.count, properties=properties, layout=wants.layout
    ) as testbed:
        if not testbed.speaks(requests):
            raise BadUse(f"Kafka {testbed.release.name} does not serve {requests} requests")
        rows = _played(experiments, testbed, options.times, variables)
        report = story_report(
            story.replace("_", "-"), testbed.release.name, testbed.level, requests, rows
        )
    for line in story_table(report):
        say(line)
    write_answer(options, report, {"seconds": round(time.monotonic() - started, 3)})
    return EXIT_CODES[report["verdict"]]


def _variables(options: argparse.Namespace) -> dict[str, str]:
    """What replaces the story's own variables. Raises BadUse."""
    watch_s = getattr(options, "watch_s", None)
    if (options.times is not None and options.times < 1) or (watch_s is not None and watch_s < 0):
        raise BadUse("--times is at least 1, and --watch-s not negative")
    return {} if watch_s is None else {"watch_s": str(watch_s)}


def _played(
    experiments: Sequence[Experiment],
    testbed: KafkaTestbed,
    times: int | None,
    variables: dict[str, Any],
) -> list[tuple[Experiment, Played]]:
    """Up to the first one that fails: it leaves the brokers in an unknown state."""
    rows: list[tuple[Experiment, Played]] = []
    for experiment in experiments:
        note(f"{testbed.name}: {experiment.name}")
        rows.append((experiment, play(experiment, testbed, times, variables)))
        if rows[-1][1].failure:
            break
    return rows
