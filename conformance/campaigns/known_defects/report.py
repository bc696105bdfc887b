"""Observations of known defects, for programs, for a terminal and as a page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from conformance.campaigns.known_defects.defects import KnownDefect, MissingDefect, missing_defects
from conformance.campaigns.known_defects.evidence import Observation
from conformance.judging.reports.document import Document, Heading, Table

INTRODUCTION: Final = (
    "Old releases of brokers and clients, from their registries, with defects that are public: each"
    " is shown by one fact of a story (docs/experiments.md) in the last release that has it, and"
    " the same fact is right in the first release that does not."
    " `kafka-eos known-defects --keep evidence/known_defects.json` runs it again, and `make docs`"
    " writes this page."
)
RELEASES: Final = ("issue", "of", "has it", "first without", "what goes wrong", "result", "date")
DIFFERENCE: Final = ("issue", "story", "fact", "release with it", "release without it")

Row = dict[str, Any]


def row_of(
    defect: KnownDefect, right: str, had: Observation, has_not: Observation, date: str
) -> Row:
    """One defect with the answers of both releases."""
    row: Row = {
        **defect._asdict(),
        "right": right,
        "has_it": had._asdict(),
        "fixed": has_not._asdict(),
        "date": date,
    }
    return row | {"verdict": verdict_of(row), "result": result_of(row)}


def verdict_of(row: Row) -> str:
    """`holds` if the defect is in the one release and not in the other."""
    had, has_not = row["has_it"], row["fixed"]
    if had["problem"] or has_not["problem"]:
        return "undecided"
    return "holds" if has_not["answer"] == row["right"] != had["answer"] else "violated"


def result_of(row: Row) -> str:
    """`found in 3.5.2, absent from 3.6.0`."""
    return ", ".join(_word(row[side], row["right"]) for side in ("has_it", "fixed"))


def _word(seen: Mapping[str, str], right: str) -> str:
    if seen["problem"]:
        return f"undecided in {seen['release']} ({seen['problem']})"
    return f"{'absent from' if seen['answer'] == right else 'found in'} {seen['release']}"


def lines_of(rows: Sequence[Row]) -> list[str]:
    """The table for people: two lines for each defect, and more if an answer is unexpected."""
    found: list[str] = []
    for row in rows:
        found.append(f"{row['issue']:<24} {row['product']}: {row['result']}")
        found.append(f"{'':<24} {row['says']}")
        if row["verdict"] == "violated":
            sides = (
                f"{row[side]['release']}: {row[side]['answer']}" for side in ("has_it", "fixed")
            )
            found += [f"{'':<24} {text}" for text in (f"right: {row['right']}", *sides)]
    held = sum(row["verdict"] == "holds" for row in rows)
    return [*found, f"{held} of {len(rows)} defects found in one release and absent from the next"]


def page_of(rows: Sequence[Row], without: Sequence[MissingDefect]) -> Document:
    """All defects, each release's answer, and the defects without a row."""
    page = Document("Known defects of old releases").say(INTRODUCTION)
    page.add(Table(RELEASES, [_releases(row) for row in rows]))
    page.add(Heading("The first difference"))
    page.add(Table(DIFFERENCE, [_difference(row) for row in rows]))
    page.add(Heading("Not shown"))
    page.add(Table(("issue", "what goes wrong", "why there is no row"), list(without)))
    return page


def _releases(row: Row) -> tuple[str, ...]:
    releases = (row["has_it"]["release"], row["fixed"]["release"])
    return (row["issue"], row["product"], *releases, row["says"], row["result"], row["date"])


def _difference(row: Row) -> tuple[str, ...]:
    answers = (row["has_it"]["answer"], row["fixed"]["answer"])
    return (row["issue"], row["story"].format(requests="*"), row["fact"], *answers)


def kept_page(file: Path) -> Document:
    """The page of results that were kept."""
    return page_of(json.loads(file.read_text(encoding="utf-8"))["defects"], missing_defects())
