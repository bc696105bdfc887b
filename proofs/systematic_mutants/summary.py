"""The kept results of systematic mutants: the figures of a run, and the reasons for those alive.

`mutants --systematic --keep evidence/systematic_mutants.json` writes the figures, from which
`make docs` makes a page. `alive.toml` has, by mutant, the reason why a reader thinks that no check
needs to notice it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from proofs.pages.markdown import Lines, page, paragraph, section, table

REASONS: Final[Mapping[str, str]] = tomllib.loads(
    Path(__file__).with_name("alive.toml").read_text(encoding="utf-8")
)

Figures = dict[str, dict[str, int]]
"""Counts of mutants, by fate, by the verb that kills them, and by what shows that they are
equal."""

BY_FOOTPRINT: Final = (
    "`explore` has found a broken guarantee, a lost witness or a value out of its declared range;"
    " `coverage` has found that something else happens in a configuration than before, which is a"
    " difference and no broken promise: see"
    " [the decision](../decisions/0014-systematic-mutants.md)."
)
EQUALITY: Final = (
    "`equal values`: two solvers show that the changed function has the value that it had, whatever"
    " its arguments: these are equivalent. `equal calls` and `equal graphs` are unseen in the"
    " configurations that were tried, which shows nothing of others."
)


def kept_page(path: Path) -> str:
    """Return the page of a kept run, as `make docs` shows it."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    drawn = kept["drawn"]
    which = f"{drawn['sample']:,} drawn with seed {drawn['seed']}" if drawn["sample"] else "All"
    tried = f"{which}, tried at commit {kept['commit']} on {kept['date']}."
    return page(page_lines(kept, tried))


def page_lines(summary: Mapping[str, Any], tried: str = "") -> Lines:
    """Return the page of a run: totals, the table by rule, and the mutants that are alive."""
    counts: Figures = summary["figures"]
    heads = [*counts["verbs"], *counts["equal"], "alive", "invalid"]
    rows = [("**all**", *row_of(counts, counts))]
    rows += [(name, *row_of(its, counts)) for name, its in summary["functions"].items()]
    return [
        "# Systematic mutants",
        "",
        *paragraph(tried, totals(counts)),
        *paragraph(BY_FOOTPRINT),
        *paragraph(EQUALITY),
        *section("By rule", table(("rule", "mutants", *heads), rows)),
        *section("Alive", alive_lines(summary)),
    ]


def totals(counts: Figures) -> str:
    """Return the counts of all mutants by fate, as a sentence."""
    fates = ", ".join(f"{count:,} {fate}" for fate, count in counts["fates"].items())
    return f"{sum(counts['fates'].values()):,} mutants: {fates}."


def row_of(its: Figures, counts: Figures) -> list[str]:
    """Return a rule's row in the table: killed by each verb, equal, then the others."""
    killed = [its["verbs"].get(verb, 0) for verb in counts["verbs"]]
    others = [its["fates"][fate] for fate in ("alive", "invalid")]
    numbers = [sum(its["fates"].values()), *killed, *its["equal"].values(), *others]
    return [str(number or "") for number in numbers]


def alive_lines(summary: Mapping[str, Any]) -> Lines:
    """Return each mutant that is alive, with its change and the reason why no check notices it."""
    rows = (
        (f"`{row['name']}`", f"`{short(row['patch'][1])}`", f"`{short(row['patch'][2])}`", why(row))
        for row in summary["alive"]
    )
    return table(("mutant", "before", "after", "why"), rows)


def why(row: Mapping[str, Any]) -> str:
    """Return the reader's reason; without one, where the mutant differs."""
    return row["reason"] or f"no reason is known: {row['how']}"


def short(text: str) -> str:
    """Return some text on one line, shortened if it is long."""
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= 80 else f"{one_line[:77]}..."
