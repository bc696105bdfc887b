"""The page of all that is known: which rules nothing tells apart, and what brokers did."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from conformance.compositions import JUDGED_COMPOSITIONS, JudgedComposition
from conformance.distinguish.alternatives import alternatives, variants_of
from conformance.distinguish.known import ACTORS, WAYS, RuleVisibility, in_words, rows_about
from conformance.distinguish.product_search import NEEDED, unanswered
from model.releases import CHANGES
from proofs.run.files import pretty, write_whole

PLAYED: Final = Path(__file__).with_name("played.json")
"""What systems did in the traces, by system, composition, variant and way to look."""

Line = Mapping[str, Any]

FOUND, NOT_VISIBLE, NOT_SEARCHED = "told apart", "not visible", "not searched"

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
the rule. Three brokers are not brought to the last epoch. What an idempotent client does of itself
no broker shows: it is seen at clients, which `run --system client` judges.

`kafka-eos distinguish --page docs/distinguishable_rules.md` writes this page.
"""


def played_of(system: str, composition: str, variant: str, observer: str) -> Mapping[str, Any]:
    """What a system did, by rule; empty where nothing was played."""
    found: Mapping[str, Any] = kept().get(f"{system} {composition} {variant} {observer}", {})
    return found


def kept() -> dict[str, Any]:
    """All that was played."""
    found: dict[str, Any] = json.loads(PLAYED.read_text(encoding="utf-8"))
    return found


def keep(
    system: str, composition: str, variant: str, observer: str, date: str, lines: Sequence[Line]
) -> None:
    """Put what a system did beside what others did."""
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
    """The compositions whose rules are told apart, those with the most rules first."""
    found = [JUDGED_COMPOSITIONS[name] for name in NEEDED]
    return sorted(found, key=lambda c: -len(CHANGES[c.name]))


def summary() -> list[str]:
    """How many rules of how many variants have which answer, by composition."""
    lines = [
        "| composition | variants | rules of variants | told apart | not visible | not searched |",
        "|---|---|---|---|---|---|",
    ]
    for composition in told():
        variants = variants_of(composition)
        answers = [answer for v in variants for answer in answers_of(composition, v)]
        counts = [answers.count(answer) for answer in (FOUND, NOT_VISIBLE, NOT_SEARCHED)]
        cells = (composition.name, len(variants), len(answers), *counts)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def answers_of(composition: JudgedComposition, variant: str) -> list[str]:
    """What is known of each rule of a variant, whoever looks."""
    missing = {one.name for one, _ in unanswered(composition, variant)}
    found = {
        row.name
        for observer in WAYS
        for row in rows_about(composition.name, variant, observer)
        if row.is_found
    }
    return [
        FOUND if one.name in found else NOT_SEARCHED if one.name in missing else NOT_VISIBLE
        for one in alternatives(composition.model, variant)
    ]


def table(composition: JudgedComposition, variant: str) -> list[str]:
    """The rules of one variant, with a column for each way to look that somebody took."""
    known = {way: rows_about(composition.name, variant, way) for way in WAYS}
    ways = [way for way, rows in known.items() if rows]
    named = ("rule", "not", "changed by", *ways, "played", "experiment")
    lines = [f"## {variant}, {composition.name}", "", "| " + " | ".join(named) + " |"]
    lines.append("|---" * len(named) + "|")
    for one in alternatives(composition.model, variant):
        by_way = [next((r for r in known[way] if r.answers(one)), None) for way in ways]
        cells = ["" if row is None else in_words(row) for row in by_way]
        played = "; ".join(outcomes(variant, one.name, [r for r in by_way if r is not None]))
        fixed = (f"`{one.rule}={one.own}`", f"`{one.value}`", one.reference)
        lines.append("| " + " | ".join((*fixed, *cells, played, one.observed)) + " |")
    return [*lines, ""]


def outcomes(variant: str, name: str, rows: Sequence[RuleVisibility]) -> Iterator[str]:
    """What systems did in the traces of a rule: brokers, or impl's actors."""
    for row in rows:
        system = "impl" if row.observer == ACTORS else variant.partition("/")[0]
        played = played_of(system, row.composition, variant, row.observer)
        said = played.get("rules", {}).get(name, "")
        if row.is_found and said:
            yield f"{said.partition(':')[0]} ({row.observer}, {played['date']})"
