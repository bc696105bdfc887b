"""The page of all known answers: the rules that no trace tells apart, and the results of
brokers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from conformance.campaigns.distinguish.product_search import NEEDED, unanswered
from conformance.campaigns.distinguish.variants import variants_of
from conformance.judging.compositions import JUDGED_COMPOSITIONS, JudgedComposition
from conformance.judging.distinguish.alternatives import alternatives
from conformance.judging.distinguish.known import (
    ACTORS,
    ONE_BROKER,
    THREE_BROKERS,
    WAYS,
    RuleVisibility,
    in_words,
    rows_about,
)
from model.releases import CHANGES
from proofs.run.files import pretty, write_whole

PLAYED: Final = Path(__file__).with_name("played.json")
"""The results of systems on the traces, by system, composition, variant and observer."""

Line = Mapping[str, Any]

TOLD, AT_ACTORS, NOT_PLAYED = "told apart at brokers", "at actors alone", "not played"
NOT_VISIBLE, NOT_SEARCHED = "not visible", "not searched"
ANSWERS: Final = (TOLD, AT_ACTORS, NOT_VISIBLE, NOT_PLAYED, NOT_SEARCHED)
"""The known answers about a rule of a variant."""

NO_BROKER: Final[Mapping[str, str]] = {
    "idempotent": "no broker: what a client does of itself",
    "processing": "no broker: what members of a group do",
    "producer_ids": "no broker: what it asks of the controller or of ZooKeeper",
}
"""The reason why no client of a broker sees a composition's rules, if only actors show them."""

INTRODUCTION: Final = """\
# Which rules a run can tell apart

A release of Kafka differs from the one before in some rules of its protocol. This page says, for
each rule of a release, the shortest trace on which a broker with the rule of another release would
answer otherwise, and what real brokers did in that trace. Where there is none, a broker that
conforms could have either rule: `run` names these rules in its report.

The traces are found by searching the product of two variants' models: pairs of states to which the
same events lead, breadth first. "Not visible" means that all pairs of the named scopes were
searched: clients that behave as the model's see no difference there. Where one broker shows a rule,
three are not asked. "Played" is what a real broker, or impl, did in the trace. The last column
names the experiment in which requests that no such client sends, or faults beyond the scope, show
the rule. Three brokers are not brought to the last epoch.

"No broker" means that clients of a broker cannot bring the difference about, or cannot see it, for
it lies elsewhere, and only actors in process are controlled there. What an idempotent client does
of itself is judged at clients, by `run --system client`. Members of groups are applications:
brokers answer them in the stories `commit_offsets` and `offsets_come_in_order`, and in
`consume-transform-produce`. Blocks of producer ids are kept by the controller or by ZooKeeper, and
a client sees single ids of them.

`kafka-eos distinguish --system kafka --missing --keep` plays what no broker has followed yet, for
each composition that brokers are judged by; `kafka-eos distinguish --page
docs/distinguishable_rules.md` writes this page.
"""


def played_of(system: str, composition: str, variant: str, observer: str) -> Mapping[str, Any]:
    """The results of a system, by rule; empty if nothing was played."""
    found: Mapping[str, Any] = kept().get(f"{system} {composition} {variant} {observer}", {})
    return found


def kept() -> dict[str, Any]:
    """All results."""
    found: dict[str, Any] = json.loads(PLAYED.read_text(encoding="utf-8"))
    return found


def keep(
    system: str, composition: str, variant: str, observer: str, date: str, lines: Sequence[Line]
) -> None:
    """Store the results of a system beside those of others."""
    said = {f"{line['rule']}={line['value']}": line["says"] for line in lines}
    key = f"{system} {composition} {variant} {observer}"
    write_whole(PLAYED, pretty(kept() | {key: {"date": date, "rules": said}}))


def format_page() -> str:
    """The page in Markdown."""
    told_of = [
        (composition, variant) for composition in told() for variant in variants_of(composition)
    ]
    tables = ["\n".join(table(*one)) for one in told_of]
    return "\n".join([INTRODUCTION, *summary(), "", *tables])


def told() -> list[JudgedComposition]:
    """The compositions with answers about rules, those with the most rules first."""
    found = [JUDGED_COMPOSITIONS[name] for name in NEEDED]
    return sorted(found, key=lambda c: -len(CHANGES[c.name]))


def summary() -> list[str]:
    """The number of rules and variants with each answer, by composition."""
    named = ("composition", "variants", "rules of variants", *ANSWERS)
    lines = ["| " + " | ".join(named) + " |", "|---" * len(named) + "|"]
    for composition in told():
        variants = variants_of(composition)
        answers = [answer for v in variants for answer in answers_of(composition, v)]
        counts = map(answers.count, ANSWERS)
        cells = (composition.name, len(variants), len(answers), *counts)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def answers_of(composition: JudgedComposition, variant: str) -> list[str]:
    """The known answer about each rule of a variant."""
    missing = {one.name for one, _ in unanswered(composition, variant)}
    found = [row for way in WAYS for row in rows_about(composition.name, variant, way)]
    return [
        NOT_SEARCHED if one.name in missing else answer_of([r for r in found if r.answers(one)])
        for one in alternatives(composition.model, variant)
    ]


def answer_of(rows: Sequence[RuleVisibility]) -> str:
    """The known answer about one rule, from all observers."""
    observers = {row.observer for row in rows if row.is_found}
    if not observers:
        return NOT_VISIBLE
    if observers == {ACTORS}:
        return AT_ACTORS
    return TOLD if any(is_told(row) for row in rows if row.observer != ACTORS) else NOT_PLAYED


def told_apart(row: RuleVisibility) -> str:
    """The text about a system that followed the trace of a rule."""
    return f"told apart: {in_words(row)}"


def is_told(row: RuleVisibility) -> bool:
    """Whether a system followed the trace in its present form."""
    return said_of(row) == told_apart(row)


def said_of(row: RuleVisibility) -> str:
    """The text about a system on the trace of a rule: a broker of its release, or impl's actors."""
    said: str = place_of(row).get("rules", {}).get(row.name, "")
    return said


def place_of(row: RuleVisibility) -> Mapping[str, Any]:
    """The results of a system on a trace."""
    system = "impl" if row.observer == ACTORS else release_of(row.variant)
    return played_of(system, row.composition, row.variant, row.observer)


def release_of(variant: str) -> str:
    """The release that a variant begins with."""
    return variant.partition("/")[0]


def unplayed(composition: JudgedComposition) -> list[tuple[str, str, str]]:
    """Each release, variant and observer, at brokers, with a trace that no broker has followed."""
    return [
        (release_of(variant), variant, observer)
        for variant in variants_of(composition)
        for observer in (ONE_BROKER, THREE_BROKERS)
        if any(
            row.is_found and not is_told(row)
            for row in rows_about(composition.name, variant, observer)
        )
    ]


def table(composition: JudgedComposition, variant: str) -> list[str]:
    """The rules of one variant, with a column for each observer that was used."""
    known = {way: rows_about(composition.name, variant, way) for way in WAYS}
    ways = [way for way, rows in known.items() if rows]
    named = ("rule", "not", "changed by", *ways, "played", "experiment")
    lines = [f"## {variant}, {composition.name}", "", "| " + " | ".join(named) + " |"]
    lines.append("|---" * len(named) + "|")
    for one in alternatives(composition.model, variant):
        by_way = [next((r for r in known[way] if r.answers(one)), None) for way in ways]
        cells = ["" if row is None else in_words(row) for row in by_way]
        played = "; ".join(outcomes([row for row in by_way if row is not None]))
        fixed = (f"`{one.rule}={one.own}`", f"`{one.value}`", one.reference)
        lines.append("| " + " | ".join((*fixed, *cells, played, one.observed)) + " |")
    return [*lines, ""]


def outcomes(rows: Sequence[RuleVisibility]) -> Iterator[str]:
    """The results of systems on the traces of a rule: brokers, or impl's actors."""
    if answer_of(rows) == AT_ACTORS:
        yield NO_BROKER[rows[0].composition]
    for row in rows:
        if row.is_found and (said := said_of(row)):
            yield f"{said.partition(':')[0]} ({row.observer}, {place_of(row)['date']})"
