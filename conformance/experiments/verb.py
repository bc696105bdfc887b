"""`experiments`: stories that are played on a broker, each finding beside what is expected."""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from conformance.experiments.player import check, play
from conformance.experiments.remote import Remote, implementation, why_not
from conformance.experiments.report import report_of, table
from conformance.experiments.session import Fact
from conformance.experiments.story import FOLDER, RESTARTED, Brokers, Experiment, stories
from conformance.transactions.verb import add_testbed, testbed_of, write_answer
from conformance.verbs import EXIT_CODES, BadUse, Verb, note, one_of
from proofs.say import say

KAFKA, IMPL, WIRE = "kafka", "impl", "wire"
SYSTEMS = (KAFKA, IMPL, "wire://HOST:PORT")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """All that `experiments` takes."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments (default: all)")
    parser.add_argument("--only", metavar="NAMES", help="the same, with commas between them")
    parser.add_argument("--system", default=KAFKA, help=f"{', '.join(SYSTEMS)} (default: {KAFKA})")
    add_testbed(parser)
    parser.add_argument("--stories", type=Path, default=FOLDER, metavar="DIR", help="other stories")
    parser.add_argument("--list", action="store_true", help="name the experiments, play none")
    parser.add_argument("--differing", action="store_true", help="show only what is not expected")


def execute(options: argparse.Namespace) -> int:
    """Play; 0 if all is as expected, 1 if something is not, 3 if something failed.

    Raises BadUse for a system, a release, a level or an experiment that there is not; StoryError.
    """
    there_are = stories(options.stories)
    for experiment in there_are.values():
        check(experiment)
    experiments = wanted(there_are, [*options.names, *(options.only or "").split(",")])
    if options.list:
        for experiment in experiments:
            say(f"{experiment.name:<44} {experiment.summary}")
        return 0
    started = time.monotonic()
    report = played(options, experiments)
    for line in table(report, differing=options.differing):
        say(line)
    write_answer(options, report, {"seconds": round(time.monotonic() - started, 3)})
    return EXIT_CODES[report["verdict"]]


def wanted(there_are: dict[str, Experiment], names: Iterable[str]) -> list[Experiment]:
    """The experiments of some names, all without a name. Raises BadUse."""
    named = [one_of("experiment", name, tuple(there_are)) for name in names if name]
    return [there_are[name] for name in named] or list(there_are.values())


def played(options: argparse.Namespace, experiments: Iterable[Experiment]) -> dict[str, Any]:
    """The report of all that could be played. Raises BadUse."""
    facts: list[Fact] = []
    failed: dict[str, str] = {}
    not_applicable: dict[str, str] = {}
    release, level = options.kafka, options.level
    playable = []
    for experiment in experiments:
        problem = ""
        if options.system != KAFKA:
            problem = why_not(experiment, is_ours=options.system == IMPL)
        if problem:
            not_applicable[experiment.name] = problem
        else:
            playable.append(experiment)
    for wants, group in grouped(playable):
        with opened(options, wants) as testbed:
            release, level = testbed.release.name, testbed.level
            for experiment in group:
                if not experiment.fits(testbed.release.version, level, testbed.can_use):
                    continue
                note(f"experiments: {testbed.name}: {experiment.name}")
                found, failure = play(experiment, testbed)
                facts += found
                failed |= {experiment.name: failure} if failure else {}
    return report_of(release, level, facts, failed, not_applicable)


def grouped(experiments: Iterable[Experiment]) -> list[tuple[Brokers, list[Experiment]]]:
    """Those that can share brokers; what restarts them comes last."""
    groups: dict[tuple[Brokers, str], list[Experiment]] = defaultdict(list)
    for one in experiments:
        groups[one.brokers, "" if one.shares_brokers else one.name].append(one)
    return [
        (brokers, sorted(rows, key=lambda one: one.broker == RESTARTED))
        for (brokers, _), rows in groups.items()
    ]


@contextmanager
def opened(options: argparse.Namespace, wants: Brokers) -> Iterator[Any]:
    """The brokers of a system. Raises BadUse."""
    match options.system.partition("://")[0]:
        case "kafka":
            properties = dict(wants.properties)
            with testbed_of(
                options, nodes=wants.count, properties=properties, layout=wants.layout
            ) as testbed:
                yield testbed
        case "impl":
            with implementation(2 if options.level is None else options.level, wants) as testbed:
                yield testbed
        case "wire":
            with closing(Remote(options.system)) as testbed:
                yield testbed
        case _:
            raise BadUse(f"--system {options.system!r} is none of {', '.join(SYSTEMS)}")


VERB = Verb(
    "Play stories on a broker: small experiments with transactions, beside what is expected.",
    add_arguments,
    execute,
)
