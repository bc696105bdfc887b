"""The findings of experiments, for programs and for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from conformance.campaigns.stories.session import Fact
from proofs.run import worst

SCHEMA_VERSION: Final = 1

_WIDTH: Final = 52


def broken_by(facts: Iterable[Fact]) -> dict[str, list[str]]:
    """The guarantees that were seen broken, by experiment."""
    found: dict[str, list[str]] = {}
    for fact in facts:
        if fact.is_broken:
            found.setdefault(fact.experiment, []).append(fact.guarantee)
    return found


def report_of(
    release: str,
    level: int,
    facts: Sequence[Fact],
    failed: Mapping[str, str],
    not_applicable: Mapping[str, str],
) -> dict[str, Any]:
    """The facts beside the expected ones: `holds` if all agree."""
    verdicts = ["holds" if fact.agrees else "violated" for fact in facts]
    return {
        "schema_version": SCHEMA_VERSION,
        "release": release,
        "level": level,
        "facts": [fact_row(fact) for fact in facts],
        "failed": dict(failed),
        "not_applicable": dict(not_applicable),
        "broken": broken_by(facts),
        "verdict": worst([*verdicts, *("undecided" for _ in failed), "holds"]),
    }


def verdict_by_guarantees(report: Mapping[str, Any]) -> str:
    """The verdict: whether a guarantee is broken, whatever is expected."""
    return "violated" if report["broken"] else "undecided" if report["failed"] else "holds"


def fact_row(fact: Fact) -> dict[str, Any]:
    """A fact for programs; a fact about a guarantee names it, and says whether it is broken."""
    row = asdict(fact)
    about = {"guarantee": row.pop("guarantee"), "is_broken": fact.is_broken}
    del row["kept"]
    return {**row, "agrees": fact.agrees, **(about if fact.guarantee else {})}


def table(report: Mapping[str, Any], *, differing: bool) -> list[str]:
    """The table for people: the facts of an experiment under its name."""
    lines = [f"Kafka {report['release']}, level {report['level']}"]
    last = ""
    for fact in report["facts"]:
        if differing and fact["agrees"]:
            continue
        if fact["experiment"] != last:
            last = fact["experiment"]
            lines += ["", last]
        lines += fact_lines(fact)
    lines += [""] if report["broken"] else []
    lines += [f"{name} breaks {', '.join(whats)}" for name, whats in report["broken"].items()]
    lines += [f"{name} failed: {why}" for name, why in report["failed"].items()]
    reasons = Counter(report["not_applicable"].values())
    lines += [f"{count} experiments not played: {why}" for why, count in reasons.items()]
    differ = sum(not fact["agrees"] for fact in report["facts"])
    count = f"{len(report['facts'])} facts, {differ} not as expected"
    return [*lines, "", f"{count}; verdict: {report['verdict']}"]


def fact_lines(fact: Mapping[str, Any]) -> list[str]:
    """A fact, and the expected one if it differs."""
    lines = [f"  {fact['name']:<{_WIDTH}} {fact['observed']}"]
    if not fact["agrees"]:
        lines.append(f"  {'expected there:':>{_WIDTH}} {fact['expected']}")
    return lines
