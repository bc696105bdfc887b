"""Random mutants that conformance does not find: a reader's reason why none needs to be found, and
the resulting figures.

`conformance mutants --random N --keep evidence/random_mutants.json` writes the fate of each mutant;
`make docs` makes a page of it.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from conformance.judging.coverage.statements import core
from proofs.pages.markdown import Lines, page, paragraph, section, table

NO_CHANGE: Final = ("equivalent: ", "outside the protocol: ")
"""The beginning of reasons for mutants that change nothing of the protocol."""
LIMIT: Final = "a limit: "
"""The beginning of reasons for mutants that do, but only beyond the size of any scope."""
HOW: Final = (
    "A mutant is found when a trace of some scope diverges, or the answer of a story, or when"
    " judging does not end. One is alive when the traces of all scopes that execute its statement"
    " agree, and unreached when none does. Each that is not found was read: what changes nothing of"
    " the protocol does not count, what is larger than any scope does."
)
REASONS: Final[Mapping[str, str]] = tomllib.loads(
    Path(__file__).with_name("survivors.toml").read_text(encoding="utf-8")
)
"""The reader's reasons, by a mutant's name."""

FIGURES: Final = ("found", "no_change", "alive", "unreached")
"""The fates of a module's mutants. `no_change`: a reader says that it changes nothing of the
protocol."""


def figure_of(row: Mapping[str, Any]) -> str:
    """The figure that counts this row."""
    is_none = is_open(row) and row["reason"].startswith(NO_CHANGE)
    return "no_change" if is_none else str(row["fate"])


def by_module(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """The figures by module."""
    found: dict[str, Counter[str]] = {name: Counter() for name in core()}
    for row in rows:
        module = f"impl.{row['name'].partition(':')[0]}"
        found[module][figure_of(row)] += 1
    return {
        name: {figure: counts[figure] for figure in FIGURES}
        for name, counts in found.items()
        if counts
    }


def share_found(figures: Iterable[Mapping[str, int]]) -> str:
    """The share of the mutants that change the protocol and are found."""
    total = sum((Counter(its) for its in figures), Counter[str]())
    changing = total.total() - total["no_change"]
    share = f"{100 * total['found'] / changing:.1f} %" if changing else "none"
    return f"{total['found']} of {changing} that change the protocol are found: {share}"


def is_open(row: Mapping[str, Any]) -> bool:
    """Whether conformance does not find it."""
    return row["fate"] in ("alive", "unreached")


# The page


def kept_page(path: Path) -> str:
    """The page of a kept run, as `make docs` shows it."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    rows = [{**row, "reason": REASONS.get(row["name"], "")} for row in kept["mutants"]]
    drawn = kept["drawn"]
    which = f"{drawn['count']} small changes of `impl`'s protocol core, drawn with seed"
    tried = f"{which} {drawn['seed']}, judged at commit {kept['commit']} on {kept['date']}."
    return page(page_lines(rows, tried))


def page_lines(rows: Sequence[Mapping[str, Any]], tried: str) -> Lines:
    """The page of a run: the share that is found, the table by module, and the mutants that are not
    found."""
    figures = by_module(rows)
    heads = [figure.replace("_", " ") for figure in FIGURES]
    counts = [(f"`{name}`", *map(str, its.values())) for name, its in figures.items()]
    left = {
        figure: [r for r in rows if is_open(r) and figure_of(r) == figure] for figure in FIGURES
    }
    return [
        "# Random mutants of the implementation",
        "",
        *paragraph(tried, f"{share_found(figures.values())}."),
        *paragraph(HOW),
        *section("By module", table(("module", *heads), counts)),
        *section("Not found", mutant_table([*left["alive"], *left["unreached"]])),
        *section("No change of the protocol", mutant_table(left["no_change"])),
    ]


def mutant_table(rows: Iterable[Mapping[str, Any]]) -> Lines:
    """The change of each mutant, and its reason."""
    shown = (
        (
            f"`{row['name']}`",
            f"`{short(row['before'])}`",
            f"`{short(row['after'])}`",
            row["reason"] or f"no reason is known: {row['how']}",
        )
        for row in rows
    )
    return table(("mutant", "before", "after", "why"), shown)


def short(text: str) -> str:
    """A text on one line, with the end of a long one cut off."""
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= 60 else f"{one_line[:57]}..."
