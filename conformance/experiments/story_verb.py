"""Verbs that play all experiments of one story, and decide by the guarantees that it breaks."""

from __future__ import annotations

import argparse
from typing import Final

from conformance.experiments.story import REQUESTS, Experiment, stories
from conformance.experiments.verb import KAFKA, answer
from conformance.transactions.testbed import KafkaTestbed
from conformance.transactions.verb import add_testbed
from proofs.run import BadUse, one_of

SCHEMA_VERSION: Final = 2


class StoryVerb:
    """The verb of one story, whose experiments differ by `shape` and `requests`."""

    def __init__(self, story: str) -> None:
        self._story = story
        self._experiments = [one for one in stories().values() if one.story == story]
        self._shapes = tuple(dict.fromkeys(one.variables["shape"] for one in self._experiments))

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what the verb takes."""
        add_testbed(parser)
        parser.add_argument("--requests", default="v1", help="v1 or v2 (default: v1)")
        parser.add_argument("--only", metavar="NAMES", help=f"of {', '.join(self._shapes)}")
        parser.add_argument("--times", type=int, help="each (default: as the story has it)")
        if "watch_s" in self._experiments[0].variables:
            parser.add_argument("--watch-s", type=float, help="watch readers, in s (default: 2)")
        parser.set_defaults(system=KAFKA, guarantees=True, differing=False)

    def execute(self, options: argparse.Namespace) -> int:
        """Play; 0 if no guarantee is broken, 1 if one is, 3 if that cannot be decided.

        Raises BadUse for a release, a level, requests, shapes or times that there are not.
        """
        requests = one_of("--requests", options.requests, tuple(REQUESTS))
        words = (options.only or ",".join(self._shapes)).split(",")
        shapes = [one_of("--only", word, self._shapes) for word in words]
        watch_s = getattr(options, "watch_s", None)
        if (options.times is not None and options.times < 1) or (watch_s or 0) < 0:
            raise BadUse("--times is at least 1, and --watch-s not negative")
        return answer(
            options,
            [
                one
                for one in self._experiments
                if one.requests == (requests,) and one.variables["shape"] in shapes
            ],
            _is_served,
            {} if watch_s is None else {"watch_s": str(watch_s)},
            options.times,
            {
                "schema_version": SCHEMA_VERSION,
                "story": self._story.replace("_", "-"),
                "requests": requests,
            },
        )


def _is_served(experiment: Experiment, testbed: KafkaTestbed) -> bool:
    """Also where a broker is known to refuse. Raises BadUse for requests that it does not know."""
    [requests] = experiment.requests
    if not testbed.speaks(requests):
        raise BadUse(f"Kafka {testbed.release.name} does not serve {requests} requests")
    return True
