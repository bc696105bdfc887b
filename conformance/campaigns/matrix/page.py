"""The pages of the matrix: the table, and a page for each cause with the cells that show it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from conformance.adapters.clients.known_causes import known_cause
from conformance.judging.reports.document import Code, Document, FileLink, Heading, Table
from conformance.judging.reports.report import both_sides, sentence
from conformance.judging.reports.run_page import add_exchanges
from conformance.judging.reports.script import expected_of, script_of

INTRODUCTION: Final = (
    "Each cell is one `kafka-eos run`: a broker at a level of `transaction.version`, judged by the"
    " requests of clients of one version in a scope, or a client behind a proxy. A broker is held"
    " to the model of its own release; one that is not Kafka's to that of the newest, so that each"
    " cause is a difference from Kafka, not always a defect."
    " `kafka-eos matrix --keep evidence/matrix.json` runs it again, and `make docs` writes"
    " these pages."
)

Row = Mapping[str, Any]


def matrix_pages(report: Row) -> dict[str, Document]:
    """All pages by their names; `matrix` is the table."""
    cells: Sequence[Row] = report["cells"]
    causes = causes_in(cells)
    page = Document("Brokers, levels and clients").say(INTRODUCTION)
    rows = [cell_row(cell, causes) for cell in cells]
    page.add(
        Table(
            (
                "judged",
                "level",
                "requests",
                "scope",
                "verdict",
                "traces",
                "transitions",
                "causes",
                "date",
            ),
            rows,
        )
    )
    page.add(Heading("Causes"))
    listed = [
        (FileLink(title, f"{name}.md"), found[0][1]["breaks"], ", ".join(shown_by(found)))
        for name, (title, found) in causes.items()
    ]
    page.add(Table(("cause", "breaks", "shown by"), listed))
    not_run = [(cell["name"], cell["why_not"]) for cell in cells if cell["why_not"]]
    if not_run:
        page.add(Heading("Not run"), Table(("cell", "why"), not_run))
    pages = {"matrix": page}
    for name, (title, found) in causes.items():
        pages[name] = cause_page(title, found)
    return pages


Found = Sequence[tuple[Row, Row]]
"""Cells, with the cause in each."""


def causes_in(cells: Sequence[Row]) -> dict[str, tuple[str, Found]]:
    """Title and cells of each cause, by the name of its page."""
    groups: dict[str, tuple[str, list[tuple[Row, Row]]]] = {}
    for cell in cells:
        for cause in cell["causes"]:
            title = title_of(cause)
            groups.setdefault(page_name(title), (title, []))[1].append((cell, cause))
    return dict(groups)


def title_of(cause: Row) -> str:
    """A cause in one line: the deciding rule, and the fields; errors by both sides."""
    named = str(cause["cause"] or cause["rule"])
    errors = [
        f"{expected} is {observed}"
        for place, expected, observed in both_sides(cause)
        if place.endswith(".error")
    ]
    decider, _, fields = named.partition(": ")
    return f"{decider.rpartition('+')[2]}: {fields}" + (f", {errors[0]}" if errors else "")


def page_name(title: str) -> str:
    """`cause-leader.on_marker-leader.log.producer_epoch`."""
    return f"cause-{re.sub(r'[^a-z0-9.]+', '-', title.lower()).strip('-')}"


def cell_row(cell: Row, causes: Mapping[str, Any]) -> tuple[Any, ...]:
    """A cell in the table."""
    if cell["verdict"] is None:
        numbers: tuple[Any, ...] = ("not run", "", "", "")
    else:
        covered = cell["transitions"]
        total = f" of {covered['total']:,}" if covered["total"] else ""
        numbers = (cell["verdict"], cell["traces"], f"{covered['covered']:,}{total}")
        numbers += (len(cell["causes"]),)
    level = "" if cell["client"] else str(cell["level"])
    return (cell["version"], level, cell["requests"], cell["scope"], *numbers, cell["date"])


def shown_by(found: Found) -> Iterator[str]:
    """The cells of a cause, each version once."""
    yield from dict.fromkeys(cell["version"] for cell, _ in found)


def cause_page(title: str, found: Found) -> Document:
    """The page of a cause: the cells, the difference, and how to see it."""
    cell, cause = min(found, key=lambda row: row[1]["steps"])
    variant = cell["variant"]
    page = Document(title).say(f"It breaks {cause['breaks']}. {sentence(cause)}.")
    page.add(
        Table(
            ("judged", "level", "requests", "scope", "traces"),
            [
                (c["version"], str(c["level"]), c["requests"], c["scope"], one["occurrences"])
                for c, one in found
            ],
        )
    )
    page.add(Table(("where", f"expected: {expected_of(variant)}", "observed"), both_sides(cause)))
    if cause["decided_by"]:
        page.say("The rule:").add(Code(cause["decided_by"]))
    for client in dict.fromkeys(c["client"] for c, _ in found if c["client"]):
        if known := known_cause(client, cause["cause"]):
            page.say(f"{client}: {known.text}")
    if cause["exchanges"]:
        page.say("The requests that show it, and where answers differ:")
        add_exchanges(page, cause["exchanges"])
        page.say("As a script that needs Python alone: `python3 script.py HOST:PORT`.")
        page.add(Code(script_of(cause["exchanges"], sentence(cause), "script.py", variant)))
    elif cause["no_script"]:
        page.say(f"There is no script of requests: {cause['no_script']}.")
    return page
