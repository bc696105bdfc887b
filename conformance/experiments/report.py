"""What experiments found, for programs and for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from conformance.experiments.player import Played
from conformance.experiments.session import Fact
from conformance.experiments.story import Experiment

SCHEMA_VERSION: Final = 1
STORY_SCHEMA_VERSION: Final = 2

WORST_FIRST: Final = ("violated", "undecided", "holds")
_WIDTH: Final = 52


def worst(verdicts: Iterable[str]) -> str:
    """`holds` only if all do."""
    return min(verdicts, key=WORST_FIRST.index)


def broken_by(facts: Iterable[Fact]) -> list[str]:
    """The guarantees that were seen broken, each once."""
    return list(dict.fromkeys(fact.guarantee for fact in facts if fact.is_broken))


def report_of(
    release: str,
    level: int,
    facts: Sequence[Fact],
    failed: Mapping[str, str],
    not_applicable: Mapping[str, str],
) -> dict[str, Any]:
    """What was found beside what is expected: `holds` if all is as expected."""
    verdicts = ["holds" if fact.agrees else "violated" for fact in facts]
    return {
        "schema_version": SCHEMA_VERSION,
        "release": release,
        "level": level,
        "facts": [fact_row(fact) for fact in facts],
        "failed": dict(failed),
        "not_applicable": dict(not_applicable),
        "verdict": worst([*verdicts, *("undecided" for _ in failed), "holds"]),
    }


def verdict_by_guarantees(report: Mapping[str, Any]) -> str:
    """Whether a guarantee is broken, whatever is expected."""
    is_broken = any(fact.get("is_broken") for fact in report["facts"])
    return "violated" if is_broken else "undecided" if report["failed"] else "holds"


def fact_row(fact: Fact) -> dict[str, Any]:
    """A fact for programs; one about a guarantee says which, and whether it is broken."""
    row = asdict(fact)
    about = {"guarantee": row.pop("guarantee"), "is_broken": fact.is_broken}
    del row["kept"]
    return {**row, "agrees": fact.agrees, **(about if fact.guarantee else {})}


def table(report: Mapping[str, Any], *, differing: bool) -> list[str]:
    """The answer for people: the facts of an experiment under its name."""
    lines = [f"Kafka {report['release']}, level {report['level']}"]
    last = ""
    for fact in report["facts"]:
        if differing and fact["agrees"]:
            continue
        if fact["experiment"] != last:
            last = fact["experiment"]
            lines += ["", last]
        lines += fact_lines(fact)
    lines += [f"{name} failed: {why}" for name, why in report["failed"].items()]
    reasons = Counter(report["not_applicable"].values())
    lines += [f"{count} experiments not played: {why}" for why, count in reasons.items()]
    differ = sum(not fact["agrees"] for fact in report["facts"])
    count = f"{len(report['facts'])} facts, {differ} not as expected"
    return [*lines, "", f"{count}; verdict: {report['verdict']}"]


def fact_lines(fact: Mapping[str, Any]) -> list[str]:
    """A fact, and what was expected if it is something else."""
    lines = [f"  {fact['name']:<{_WIDTH}} {fact['observed']}"]
    if not fact["agrees"]:
        lines.append(f"  {'expected there:':>{_WIDTH}} {fact['expected']}")
    return lines


def story_report(
    story: str,
    release: str,
    level: int,
    requests: str,
    played: Sequence[tuple[Experiment, Played]],
) -> dict[str, Any]:
    """One story's experiments: `violated` if one breaks a guarantee, whatever is expected."""
    shapes = [shape_row(experiment, *one) for experiment, one in played]
    return {
        "schema_version": STORY_SCHEMA_VERSION,
        "story": story,
        "release": release,
        "level": level,
        "requests": requests,
        "shapes": shapes,
        "verdict": worst(shape["verdict"] for shape in shapes),
    }


def shape_row(experiment: Experiment, facts: Sequence[Fact], failure: str) -> dict[str, Any]:
    """One experiment of a story. `failed` says what ended it early: nothing is decided then."""
    broken = broken_by(facts)
    return {
        "name": experiment.variables["shape"],
        "what": experiment.variables["what"],
        "facts": [fact_row(fact) for fact in facts],
        "broken": broken,
        "failed": failure,
        "verdict": "violated" if broken else "undecided" if failure else "holds",
    }


def story_table(report: Mapping[str, Any]) -> list[str]:
    """The answer for people."""
    lines = [f"Kafka {report['release']}, level {report['level']}, {report['requests']} requests"]
    for shape in report["shapes"]:
        lines += ["", f"{shape['name']}: {shape['what']}"]
        lines += [line for fact in shape["facts"] for line in fact_lines(fact)]
        why = ", ".join(shape["broken"]) or shape["failed"] or "all kept"
        lines += [f"  {shape['verdict']}: {why}"]
    return [*lines, "", f"verdict: {report['verdict']}"]
