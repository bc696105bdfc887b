"""`facts`: small experiments on a real broker, each finding beside what is expected."""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, Final

from conformance.kafka.errors import KafkaError
from conformance.transactions.evidence import plain
from conformance.transactions.facts.lab import EXPERIMENTS, Experiment, Fact, Lab
from conformance.transactions.ground import Ground
from conformance.transactions.verb import add_ground, ground_of, worst, write_answer
from conformance.verbs import EXIT_CODES, Verb, note, one_of
from proofs.say import say

SCHEMA_VERSION: Final = 1

MODULES: Final = (
    "init_producer_id",
    "registration",
    "end_txn",
    "whole_requests",
    "partitions",
    "visibility",
    "mixtures",
    "offsets",
    "timeouts",
    "expiry",
    "exhaustion",
    "loading",
    "frozen",
    "log_writes",
    "failover",
    "leaderless",
    "levels",
)
for _name in MODULES:
    import_module(f"conformance.transactions.facts.{_name}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """All that `facts` takes."""
    add_ground(parser)
    parser.add_argument("--only", metavar="NAMES", help=f"of {', '.join(EXPERIMENTS)}")
    parser.add_argument("--differing", action="store_true", help="show only what is not expected")


def execute(options: argparse.Namespace) -> int:
    """Experiment; 0 if all is as expected, 1 if something is not, 3 if something failed.

    Raises BadUse for a release, a level or an experiment that there is not.
    """
    started = time.monotonic()
    facts: list[Fact] = []
    failed: dict[str, str] = {}
    for one_ground in grouped(wanted(options.only)):
        first = one_ground[0]
        kind = {"nodes": first.nodes, "properties": first.properties, "seated": first.seated}
        with ground_of(options, **kind) as ground:
            for experiment in one_ground:
                found, failure = run(ground, experiment)
                facts += found
                failed |= {experiment.name: failure} if failure else {}
            name, level = ground.release.name, ground.level
    report = report_of(name, level, facts, failed)
    for line in table(report, facts, options.differing):
        say(line)
    write_answer(options, report, {"seconds": round(time.monotonic() - started, 3)})
    return EXIT_CODES[report["verdict"]]


def wanted(only: str | None) -> list[Experiment]:
    """The experiments that are asked for, all without a name. Raises BadUse."""
    if only is None:
        return list(EXPERIMENTS.values())
    return [EXPERIMENTS[one_of("--only", n, tuple(EXPERIMENTS))] for n in only.split(",")]


def grouped(experiments: Iterable[Experiment]) -> list[list[Experiment]]:
    """Those that can stand on the same ground together; what restarts it comes last."""
    by_ground: dict[tuple[Any, ...], list[Experiment]] = defaultdict(list)
    for one in experiments:
        place = one.name if one.alone else tuple(sorted(one.properties.items()))
        by_ground[one.nodes, one.seated, place].append(one)
    return [sorted(rows, key=lambda one: one.restarts) for rows in by_ground.values()]


def run(ground: Ground, experiment: Experiment) -> tuple[list[Fact], str]:
    """What it found out, and why it ended early if it did."""
    if not all(ground.can_use(requests) for requests in experiment.requests):
        return [], ""
    note(f"facts: {ground.name}: {experiment.name}")
    lab = Lab(ground, experiment.name)
    try:
        experiment.run(lab)
    except KafkaError as error:
        return lab.facts, f"{type(error).__name__}: {error}"
    return lab.facts, ""


def report_of(
    release: str, level: int, facts: Sequence[Fact], failed: dict[str, str]
) -> dict[str, Any]:
    """What the machine reads."""
    verdicts = ["holds" if fact.agrees else "violated" for fact in facts]
    return {
        "schema_version": SCHEMA_VERSION,
        "release": release,
        "level": level,
        "facts": [{**plain(fact), "agrees": fact.agrees} for fact in facts],
        "failed": failed,
        "verdict": worst([*verdicts, *("undecided" for _ in failed), "holds"]),
    }


def table(report: dict[str, Any], facts: Sequence[Fact], differing: bool) -> list[str]:
    """The answer for people: an experiment's facts under its name."""
    lines = [f"Kafka {report['release']}, level {report['level']}"]
    last = ""
    for fact in facts:
        if differing and fact.agrees:
            continue
        if fact.experiment != last:
            lines += ["", fact.experiment]
            last = fact.experiment
        lines.append(f"  {fact.name:<52} {fact.observed}")
        if not fact.agrees:
            lines.append(f"  {'':<36} expected there: {fact.expected}")
    lines += [f"{name} failed: {why}" for name, why in report["failed"].items()]
    differ = sum(not fact.agrees for fact in facts)
    count = f"{len(facts)} facts, {differ} not as expected"
    return [*lines, "", f"{count}; verdict: {report['verdict']}"]


VERB = Verb(
    "Small experiments with transactions on a real broker, beside what is expected.",
    add_arguments,
    execute,
)
