"""`experiments`: plays stories on a broker, and shows each finding beside the expected one."""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from conformance.adapters.brokers.kafka.releases import NEWEST, RELEASES
from conformance.adapters.brokers.testbed import KafkaTestbed
from conformance.campaigns.stories import remote
from conformance.campaigns.stories.player import ExperimentResult, check, play
from conformance.campaigns.stories.remote import RemoteTestbed, implementation
from conformance.campaigns.stories.report import report_of, table, verdict_by_guarantees
from conformance.campaigns.stories.session import Fact
from conformance.campaigns.stories.story import (
    FOLDER,
    REQUESTS,
    RESTARTED,
    Brokers,
    Experiment,
    stories,
)
from conformance.verbs.testbed_options import KAFKAS, add_testbed, directory_of, open_testbed
from proofs.run import EXIT_CODES, BadUse, one_of
from proofs.run.files import digest
from proofs.run.journal import Journal
from proofs.say import note, say

KAFKA, IMPL, WIRE = "kafka", "impl", "wire"
Fits = Callable[[Experiment, KafkaTestbed], bool]
Play = Callable[[Experiment, Any], ExperimentResult]
SYSTEMS = (KAFKA, IMPL, "wire://HOST:PORT")
STORY_SCHEMA_VERSION: Final = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `experiments`."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments (default: all)")
    parser.add_argument("--only", metavar="NAMES", help="the same, with commas between them")
    parser.add_argument("--system", default=KAFKA, help=f"{', '.join(SYSTEMS)} (default: {KAFKA})")
    add_testbed(parser)
    parser.add_argument("--client", default=NEWEST, help=f"RELEASE, or PRODUCT:RELEASE ({NEWEST})")
    parser.add_argument("--stories", type=Path, default=FOLDER, metavar="DIR", help="other stories")
    parser.add_argument("--list", action="store_true", help="name the experiments, play none")
    parser.add_argument("--guarantees", action="store_true", help="decide by guarantees alone")
    parser.add_argument("--differing", action="store_true", help="show only what is not expected")


def execute(options: argparse.Namespace) -> int:
    """Play; 0 if everything is as expected, 1 if something is not, 3 if a story failed.

    Raises BadUse for an unknown system, release, level or experiment; StoryError.
    """
    there_are = stories(options.stories)
    for experiment in there_are.values():
        check(experiment)
    experiments = find_experiments(there_are, [*options.names, *(options.only or "").split(",")])
    if options.list:
        for experiment in experiments:
            say(f"{experiment.name:<44} {experiment.summary}")
        return 0
    return play_and_report(options, experiments, _fits, {"client": options.client})


def play_and_report(
    options: argparse.Namespace,
    experiments: Sequence[Experiment],
    fits: Fits,
    variables: Mapping[str, str],
    times: int | None = None,
    heading: Mapping[str, Any] | None = None,
) -> int:
    """Play the experiments that fit, with other `variables` and as often as requested; report, and
    decide.

    Returns the exit code. `heading` is added to the report. Raises BadUse.
    """
    started = time.monotonic()
    question = {
        "system": options.system,
        "names": [one.name for one in experiments],
        "stories": digest("".join(path.read_text("utf-8") for path in story_files(options))),
        "variables": variables,
        "times": times,
    }

    def play_fitting(experiment: Experiment, testbed: KafkaTestbed) -> ExperimentResult:
        if not fits(experiment, testbed):
            return ExperimentResult([], "")
        note(f"experiments: {testbed.name}: {experiment.name}")
        return play(experiment, testbed, times, variables)

    with directory_of(options, **question) as directory:
        found = play_all(options, experiments, play_fitting, directory.journal)
        report = {**found, **(heading or {})}
        if options.guarantees:
            report["verdict"] = verdict_by_guarantees(report)
        run = {"seconds": round(time.monotonic() - started, 3)}
        directory.write(report, run, options.json)
    for line in table(report, differing=options.differing):
        say(line)
    return EXIT_CODES[report["verdict"]]


def story_files(options: argparse.Namespace) -> list[Path]:
    """The files with the experiments."""
    folder: Path = getattr(options, "stories", FOLDER)
    return sorted(folder.glob("*.story"))


def _fits(experiment: Experiment, testbed: KafkaTestbed) -> bool:
    return experiment.fits(testbed.release.version, testbed.level, testbed.can_use)


def find_experiments(there_are: dict[str, Experiment], names: Iterable[str]) -> list[Experiment]:
    """The experiments with these names; without names all of them. Raises BadUse."""
    named = [one_of("experiment", name, tuple(there_are)) for name in names if name]
    return [there_are[name] for name in named] or list(there_are.values())


def play_all(
    options: argparse.Namespace, experiments: Sequence[Experiment], play: Play, journal: Journal
) -> dict[str, Any]:
    """The report of all experiments that could be played; those in the journal are not played
    again.

    Raises BadUse.
    """
    if options.system == KAFKA:
        has_client = any(one.has_client for one in experiments)
        one_of("--kafka", options.kafka, RELEASES if has_client else KAFKAS)
    problems = {one.name: why_not(one, options) for one in experiments}
    rows: dict[str, dict[str, Any]] = {}
    for wants, group in group_by_brokers(one for one in experiments if not problems[one.name]):
        rows |= rows_of(options, wants, group, play, journal)
    *_, (release, level) = [
        (options.kafka, options.level),
        *((row["release"], row["level"]) for row in rows.values()),
    ]
    facts = [Fact(**fact) for row in rows.values() for fact in row["facts"]]
    failed = {name: row["failure"] for name, row in rows.items() if row["failure"]}
    not_applicable = {name: problem for name, problem in problems.items() if problem}
    return report_of(release, level, facts, failed, not_applicable)


def rows_of(
    options: argparse.Namespace,
    wants: Brokers,
    group: Sequence[Experiment],
    play: Play,
    journal: Journal,
) -> dict[str, dict[str, Any]]:
    """The findings of a group of experiments that share brokers. Raises BadUse."""
    rows = {one.name: journal[one.name] for one in group if one.name in journal}
    if len(rows) == len(group):
        return rows
    with open_brokers(options, wants) as testbed:
        for one in (one for one in group if one.name not in journal):
            facts, failure = play(one, testbed)
            rows[one.name] = {
                "release": testbed.release.name,
                "level": testbed.level,
                "facts": [asdict(fact) for fact in facts],
                "failure": failure,
            }
            if not failure:
                journal.add(one.name, rows[one.name])
            elif wants.layout:
                break  # leaders are unknown after a failure
    return {one.name: rows[one.name] for one in group if one.name in rows}


def why_not(experiment: Experiment, options: argparse.Namespace) -> str:
    """The reason why an experiment cannot be played at this system; empty if it can."""
    if options.system != KAFKA:
        return remote.why_not(experiment, is_ours=options.system == IMPL)
    if options.kafka in KAFKAS or experiment.has_client:
        return ""
    return "they want a release that describes its transactions"


def group_by_brokers(experiments: Iterable[Experiment]) -> list[tuple[Brokers, list[Experiment]]]:
    """Groups of experiments that can share brokers; those that restart the brokers come last."""
    groups: dict[tuple[Brokers, str], list[Experiment]] = defaultdict(list)
    for one in experiments:
        groups[one.brokers, "" if one.shares_brokers else one.name].append(one)
    return [
        (brokers, sorted(rows, key=lambda one: one.broker == RESTARTED))
        for (brokers, _), rows in groups.items()
    ]


@contextmanager
def open_brokers(options: argparse.Namespace, wants: Brokers) -> Iterator[Any]:
    """The brokers of a system. Raises BadUse."""
    match options.system.partition("://")[0]:
        case "kafka":
            properties = dict(wants.properties)
            with open_testbed(
                options,
                tuple(RELEASES),
                nodes=wants.count,
                properties=properties,
                layout=wants.layout,
            ) as testbed:
                yield testbed
        case "impl":
            with implementation(2 if options.level is None else options.level, wants) as testbed:
                yield testbed
        case "wire":
            with closing(RemoteTestbed(options.system)) as testbed:
                yield testbed
        case _:
            raise BadUse(f"--system {options.system!r} is none of {', '.join(SYSTEMS)}")


# Verbs of one story


class StoryVerb:
    """The verb of one story, whose experiments differ by `shape` and `requests`; the guarantees
    that they break decide."""

    def __init__(self, story: str) -> None:
        self._story = story

    @cached_property
    def _experiments(self) -> list[Experiment]:
        return [one for one in stories().values() if one.story == self._story]

    @cached_property
    def _shapes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.variables["shape"] for one in self._experiments))

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the verb's arguments."""
        add_testbed(parser)
        parser.add_argument("--requests", default="v1", help="v1 or v2 (default: v1)")
        parser.add_argument("--only", metavar="NAMES", help=f"of {', '.join(self._shapes)}")
        parser.add_argument("--times", type=int, help="each (default: as the story has it)")
        if "watch_s" in self._experiments[0].variables:
            parser.add_argument("--watch-s", type=float, help="watch readers, in s (default: 2)")
        parser.set_defaults(system=KAFKA, guarantees=True, differing=False)

    def execute(self, options: argparse.Namespace) -> int:
        """Play; 0 if no guarantee is broken, 1 if one is, 3 if that cannot be decided.

        Raises BadUse for unknown releases, levels, requests, shapes or times.
        """
        requests = one_of("--requests", options.requests, tuple(REQUESTS))
        words = (options.only or ",".join(self._shapes)).split(",")
        shapes = [one_of("--only", word, self._shapes) for word in words]
        watch_s = getattr(options, "watch_s", None)
        if (options.times is not None and options.times < 1) or (watch_s or 0) < 0:
            raise BadUse("--times is at least 1, and --watch-s not negative")
        return play_and_report(
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
                "schema_version": STORY_SCHEMA_VERSION,
                "story": self._story.replace("_", "-"),
                "requests": requests,
            },
        )


def _is_served(experiment: Experiment, testbed: KafkaTestbed) -> bool:
    """Whether the brokers serve the experiment's requests, also if they are known to refuse them.
    Raises BadUse for requests that they do not know."""
    [requests] = experiment.requests
    if not testbed.speaks(requests):
        raise BadUse(f"Kafka {testbed.release.name} does not serve {requests} requests")
    return True


DELAYED_END_TXN: Final = StoryVerb("delayed_end_txn")
STALE_COORDINATOR: Final = StoryVerb("stale_coordinator")
