"""`mutants --systematic`: the verdict on every small change of the rules' text."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import date
from typing import Any

from proofs.pages.markdown import page
from proofs.run.files import REPOSITORY, code_digest, write_json, write_whole
from proofs.run.interrupts import without_interrupts
from proofs.run.journal import Journal
from proofs.run.progress import CountDisplay
from proofs.say import say
from proofs.systematic_mutants.changes import SystematicMutant, diff, selected
from proofs.systematic_mutants.summary import REASONS, Figures, page_lines
from proofs.systematic_mutants.verdicts import EQUAL, FATES, MutantVerdict, verdict_on
from proofs.verbs.output import Output

Row = Mapping[str, Any]


def show(arguments: argparse.Namespace) -> int:
    """Print mutants as diffs. Raises UnknownSystematicMutant."""
    for mutant in selected(arguments.show):
        say(diff(mutant))
    return 0


def execute(arguments: argparse.Namespace) -> int:
    """Try mutants, all or some; holds if a reader has given a reason for each that is alive.

    Mutants that the same command has tried on the same text are not tried again. Raises
    UnknownSystematicMutant.
    """
    mutants = selected(arguments.only, arguments.sample, arguments.seed)
    if arguments.list:
        for mutant in mutants:
            say(mutant.name)
        return 0
    names = ("only", "systematic", "sample", "seed")
    with Output(arguments, *names, code="", text=tried_text()) as output:
        try_mutants(mutants, output.journal, arguments.processes or os.cpu_count() or 1)
        rows = [row_of(mutant, output.journal) for mutant in mutants]
        for row in rows:
            if row["fate"] == "alive":
                say(format_row(row))
        counts = figures(rows)
        say(", ".join(f"{count} {fate}" for fate, count in counts["fates"].items()))
        say(", ".join(f"{count} by {verb}" for verb, count in counts["verbs"].items()))
        say(", ".join(f"{count} with {how}" for how, count in counts["equal"].items()))
        unexplained = [row for row in rows if row["fate"] == "alive" and not row["reason"]]
        verdict = "violated" if unexplained else "holds"
        content = {"mutants": rows, "figures": counts, "functions": by_function(rows)}
        if output.path is not None:
            write_whole(output.path / "mutants.md", page(page_lines(summary_of(content))))
        if arguments.keep is not None:
            drawn = {name: getattr(arguments, name) for name in ("only", "sample", "seed")}
            write_json(arguments.keep, {**summary_of(content), **origin(**drawn)})
        return output.finish({**content, "verdict": verdict})


def tried_text() -> str:
    """Return a digest of the model and of the text that judges it, because verdicts of other texts
    do not count."""
    return code_digest(["model", "proofs"])[:16]


# Trying


def try_mutants(mutants: Sequence[SystematicMutant], journal: Journal, processes: int) -> None:
    """Enter each verdict that the journal lacks."""
    open_mutants = [mutant for mutant in mutants if mutant.name not in journal]
    done = len(mutants) - len(open_mutants)
    with CountDisplay("mutants", len(mutants), done) as progress:
        for name, verdict in verdicts_on(open_mutants, processes):
            journal.add(name, verdict)
            done += 1
            progress(done)


def verdicts_on(
    mutants: Sequence[SystematicMutant], processes: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield verdicts as they come, with the mutants' names."""
    if processes == 1 or len(mutants) == 1:
        yield from map(named_verdict, mutants)
        return
    with without_interrupts():
        workers = multiprocessing.get_context("spawn").Pool(processes)
    with workers as pool:
        yield from pool.imap_unordered(named_verdict, mutants)


def named_verdict(mutant: SystematicMutant) -> tuple[str, dict[str, Any]]:
    """Return a mutant's name and its verdict, as the journal stores it. A verb that fails on a
    changed text has not noticed the change, and must not end the run."""
    try:
        verdict = verdict_on(mutant)
    except Exception as error:
        verdict = MutantVerdict("alive", how=f"not decided: {error!r}")
    return mutant.name, asdict(verdict)


# The report


def row_of(mutant: SystematicMutant, journal: Journal) -> Row:
    """Return a mutant in the report."""
    verdict = journal[mutant.name]
    return {
        "name": mutant.name,
        "function": mutant.function,
        "kind": mutant.kind,
        "patch": [mutant.patch.function, mutant.patch.before, mutant.patch.after],
        "reason": REASONS.get(mutant.name, "") if verdict["fate"] == "alive" else "",
        **verdict,
    }


def figures(rows: Sequence[Row]) -> Figures:
    """Count the mutants of each fate, those killed by each verb, and the equal ones among those
    that no verb tells apart."""
    fates = Counter(row["fate"] for row in rows)
    verbs = Counter(row["verb"] for row in rows if row["fate"] == "killed")
    equal = Counter(row["how"] for row in rows if row["fate"] in ("equivalent", "unseen"))
    return {
        "fates": {fate: fates[fate] for fate in FATES},
        "verbs": dict(verbs.most_common()),
        "equal": {how: equal[how] for how in EQUAL},
    }


def by_function(rows: Sequence[Row]) -> dict[str, Figures]:
    """Return the figures by function."""
    functions = dict.fromkeys(row["function"] for row in rows)
    return {name: figures([row for row in rows if row["function"] == name]) for name in functions}


def summary_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page of a run needs: the figures, and the rows of mutants that are alive."""
    alive = [row for row in content["mutants"] if row["fate"] == "alive"]
    return {"figures": content["figures"], "functions": content["functions"], "alive": alive}


def origin(**drawn: Any) -> dict[str, Any]:
    """Return the text, the sample and the date of a summary."""
    git = ["git", "-C", str(REPOSITORY), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    return {"commit": commit, "date": date.today().isoformat(), "drawn": drawn}


def format_row(row: Row) -> str:
    """Return a mutant for the reader."""
    _, before, after = row["patch"]
    return f"{row['fate']}: {row['name']}: {before} -> {after} ({row['reason'] or row['how']})"
