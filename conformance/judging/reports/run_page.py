"""`report.md` and `index.html` of a run: each cause is written as an issue, ready to be filed."""

from __future__ import annotations

import linecache
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from conformance.judging.reports.document import Code, Document, FileLink, Heading, Table
from conformance.judging.reports.report import both_sides, not_told_apart, sentence
from conformance.judging.reports.script import expected_of
from impl.protocol.errors import ErrorCode
from proofs.run.files import REPOSITORY
from proofs.trace.format import read

LISTED: Final = 40
"""The number of a script's requests that a page lists."""

OF_TEXT: Final = ("where", "what no trace met", "text")
OF_IMPL: Final = ("function", "what no trace executed")
UNMET: Final = {
    "rules": ("Rules of the model", ()),
    "branches": ("Branches of the model's rules", OF_TEXT),
    "error_codes": ("Error codes that no answer had", ()),
    "table_entries": (
        "Entries of error tables: places where this error never was",
        OF_TEXT,
    ),
    "statements_of_impl": ("Statements of impl's protocol", OF_IMPL),
}
"""By kind of point: its title, and the columns if its points are places."""

Report = Mapping[str, Any]


def run_page(report: Report, out: Path) -> Document:
    """The page of a run whose files are in `out`."""
    page = Document(f"{report['system']} against {expected_of(report['variant'])}")
    page.say(f"Verdict: {report['verdict']}. Scope {report['scope']}, seed {report['seed']}.")
    page.add(Table(("what", "how much"), tuple(amounts(report))))
    if left_out := not_told_apart(report):
        page.say(f"{left_out}.")
    if report["masked"]:
        page.add(Heading("Masks"), masks_table(report["masked"]))
    if report["divergences"]:
        page.add(Heading("Causes"), causes_table(report["divergences"]))
    for number, row in enumerate(report["divergences"], start=1):
        add_cause(page, row, out, f"{number}. {title_of(row)}", report["variant"])
    add_unmet(page, report["coverage"])
    return page


def title_of(row: Report) -> str:
    """A cause in one line."""
    return str(row["cause"] or row["rule"])


def amounts(report: Report) -> list[tuple[str, str]]:
    """How much was judged."""
    covered = [
        (name.replace("_", " "), f"{one['covered']:,} of {one['total']:,}")
        for name, one in report["coverage"].items()
        if one["total"]
    ]
    return [
        ("traces", f"{report['traces']:,}"),
        ("steps", f"{report['steps']:,}"),
        *covered,
        ("diverging traces", f"{report['diverging_traces']:,}"),
        ("undecided traces", f"{report['undecided']:,}"),
    ]


def add_unmet(page: Document, coverage: Report) -> None:
    """Add all points that no trace met, by kind."""
    unmet = {kind: row["missing"] for kind, row in coverage.items() if row.get("missing")}
    if not unmet:
        return
    page.add(Heading("What no trace met"))
    for kind, names in unmet.items():
        title, columns = UNMET[kind]
        page.add(Heading(title, 3))
        if columns:
            page.add(Table(columns, [unmet_row(name)[: len(columns)] for name in names]))
        else:
            page.say(f"{', '.join(names)}.")


def unmet_row(name: str) -> tuple[str, str, str]:
    """A place and its content; for a place in the model's text, the line too."""
    place, _, what = name.partition(": ")
    file, _, rest = place.partition(":")
    line = rest.partition(":")[0]
    text = linecache.getline(str(REPOSITORY / file), int(line)).strip() if line else ""
    return place, what, text


def masks_table(masked: Sequence[Report]) -> Table:
    """How many traces and steps were judged behind each mask."""
    rows = [
        (row["mask"], row["traces"], row["steps"], "the run" if row["automatic"] else "the user")
        for row in masked
    ]
    return Table(("mask", "traces that go on behind it", "steps there", "put on by"), rows)


def causes_table(rows: Sequence[Report]) -> Table:
    """All causes, the worst first."""
    return Table(
        ("", "cause", "breaks", "traces", "known as"),
        [
            (n, title_of(row), row["breaks"], row["occurrences"], row["explained_by"] or "")
            for n, row in enumerate(rows, start=1)
        ],
    )


def add_cause(page: Document, row: Report, out: Path, title: str, variant: str) -> None:
    """Add a cause: the difference, how to show it, and the rule behind it."""
    page.add(Heading(title))
    page.say(f"{sentence(row)}. It breaks {row['breaks']}; {row['occurrences']:,} traces show it.")
    expected = f"expected: {expected_of(variant)}"
    page.add(Table(("where", expected, "observed"), both_sides(row)))
    trace = Path(row["trace"])
    if row.get("script"):
        add_requests(page, read(out / trace).header.exchanges, row["script"])
    elif row.get("no_script"):
        page.say(f"There is no script of requests: {row['no_script']}.")
    page.say(
        "Files: ", FileLink("trace", str(trace)), ", ", FileLink("page", page_of(out, trace)), "."
    )
    for variation in row["variations"]:
        page.say(f"Also: {variation}.")
    if row.get("decided_by"):
        page.say("The rule:")
        page.add(Code(row["decided_by"]))


def page_of(out: Path, trace: Path) -> str:
    """The page of a trace; for a client's run, a text file."""
    page = trace.with_suffix(".html")
    return str(page if (out / page).exists() else trace.with_suffix(".txt"))


def named_value(place: str, value: Any) -> str:
    """A value of an answer; an error code becomes a name."""
    if value is None:
        return "nothing"
    is_error = place.endswith("error_code") and isinstance(value, int)
    return f"{value} ({ErrorCode(value).name})" if is_error else str(value)


def add_requests(page: Document, exchanges: Sequence[Report], script: str) -> None:
    """Add the requests that show a cause, and mark where answers differ."""
    page.say(
        "Shown by raw requests, without this project: ", FileLink(Path(script).name, script), "."
    )
    page.add(Code(f"python3 {script} HOST:PORT   # exits with 1 if an answer is not the expected"))
    add_exchanges(page, exchanges)


def add_exchanges(page: Document, exchanges: Sequence[Report]) -> None:
    """Add the requests in their order, with the differences in their answers."""
    lines = []
    for number, one in enumerate(exchanges[:LISTED], start=1):
        lines.append(f"{number:2}. {one['says']}")
        for place, seen in one["observed"].items():
            expected = named_value(place, one["expect"][place])
            lines.append(f"      {place}: expected {expected}, observed {named_value(place, seen)}")
    if len(exchanges) > LISTED:
        lines.append(f"and {len(exchanges) - LISTED} more")
    page.add(Code("\n".join(lines)))
