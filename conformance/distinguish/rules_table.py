"""The page of all that is known: which rules nothing tells apart, and what brokers did."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from conformance.compositions import JUDGED_COMPOSITIONS
from conformance.distinguish.alternatives import alternatives
from conformance.distinguish.known import (
    ONE_BROKER,
    THREE_BROKERS,
    WAYS,
    in_words,
    rows,
    rows_about,
)
from model.releases import CHANGES, numbers
from proofs.run.files import pretty, write_whole

PLAYED: Final = Path(__file__).with_name("played.json")
"""What systems did in the traces, by system, variant and way to look."""

Line = Mapping[str, Any]

INTRODUCTION: Final = """\
# Which rules a run can tell apart

A release of Kafka differs from the one before in some rules of its protocol. This page says, for
each rule of a release, the shortest trace on which a broker with the rule of another release would
answer otherwise, and what real brokers did in that trace. Where there is none, a broker that
conforms could have either rule: `run` names these rules in its report.

The traces are found by searching the product of two variants' models: pairs of states to which the
same events lead, breadth first. "Not visible" means that all pairs of the named scopes were
searched: clients that behave as the model's see no difference there. The last column names the
experiment in which requests that no such client sends, or faults beyond the scope, show the rule.

`kafka-eos distinguish --page docs/distinguishable_rules.md` writes this page.
"""


def played_of(system: str, variant: str, observer: str) -> Mapping[str, Any]:
    """What a system did, by rule; empty where nothing was played."""
    found: Mapping[str, Any] = kept().get(f"{system} {variant} {observer}", {})
    return found


def kept() -> dict[str, Any]:
    """All that was played."""
    found: dict[str, Any] = json.loads(PLAYED.read_text(encoding="utf-8"))
    return found


def keep(system: str, variant: str, observer: str, date: str, lines: Sequence[Line]) -> None:
    """Put what a system did beside what others did."""
    said = {f"{line['rule']}={line['value']}": line["says"] for line in lines}
    key = f"{system} {variant} {observer}"
    write_whole(PLAYED, pretty(kept() | {key: {"date": date, "rules": said}}))


def format_page() -> str:
    """The page in Markdown."""
    asked = {(row.composition, row.variant, row.observer) for row in rows()}
    tables = ["\n".join(table(*key)) for key in sorted(asked, key=newest_first)]
    return "\n".join([INTRODUCTION, *tables])


def newest_first(key: tuple[str, str, str]) -> tuple[Any, ...]:
    """Transactions before what has fewer rules; then by release, level and requests."""
    composition, variant, observer = key
    release, level, requests = variant.split("/")
    descending = (*(-number for number in numbers(release)), -int(level[-1]), -int(requests[-1]))
    return (-len(CHANGES[composition]), *descending, WAYS.index(observer))


def table(composition: str, variant: str, observer: str) -> list[str]:
    """The rules of one variant, looked at in one way."""
    system = variant.partition("/")[0]
    at_brokers = observer in (ONE_BROKER, THREE_BROKERS)
    played = played_of(system if at_brokers else "impl", variant, observer)
    known = {row.name: row for row in rows_about(composition, variant, observer)}
    said = played.get("rules", {})
    when = f"Played on {played['date']}." if played else "Not played."
    lines = [f"## {variant}, {composition}, {observer}", "", when, ""]
    lines += [
        "| rule | not | changed by | trace | played | experiment |",
        "|---|---|---|---|---|---|",
    ]
    for one in alternatives(JUDGED_COMPOSITIONS[composition].model, variant):
        if row := known.get(one.name):
            outcome = said.get(one.name, "").partition(":")[0] if row.is_found else ""
            cells = (f"`{one.rule}={one.own}`", f"`{one.value}`", one.reference, in_words(row))
            lines.append("| " + " | ".join((*cells, outcome, one.observed)) + " |")
    return [*lines, ""]
