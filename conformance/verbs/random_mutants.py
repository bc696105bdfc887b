"""`conformance mutants --random N`: small changes of impl's protocol core, drawn and judged."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from conformance.backends.processes import usable_cores
from conformance.guaranteed import HOLDS, VIOLATED
from conformance.mutants import GROUPS, HuntScope
from conformance.mutants.drawing import RandomMutant, drawn
from conformance.mutants.judged import FATES, Reached, judge_mutants, read_reached, record_reached
from conformance.mutants.statements import core, places
from conformance.mutants.survivors import REASONS
from conformance.plan import PreparedPlan
from proofs.run import EXIT_CODES
from proofs.run.directory import RunDirectory
from proofs.run.files import code_digest, pretty, write_json, write_whole
from proofs.run.progress import CountDisplay
from proofs.say import say

SCHEMA_VERSION: Final = 1
SCOPES: Final = tuple({str(m.hunted_in): m.hunted_in for g in GROUPS.values() for m in g}.values())
"""Where mutants are judged: wherever a named one is."""


def execute(options: argparse.Namespace, prepare: Any) -> int:
    """Draw and judge; holds if each that is not found has a reader's reason. What the same seed has
    judged before, of the same code, is not judged again. Raises BadUse."""
    mutants = drawn(options.random, options.seed)
    if options.list:
        for mutant in mutants:
            say(f"{mutant.name}  {mutant.place}: {short(mutant.before)} -> {short(mutant.after)}")
        return EXIT_CODES[HOLDS]
    processes = options.processes or usable_cores()
    with RunDirectory(options.out, {"seed": options.seed}, code_digest(), ("prepared",)) as run:
        prepared = {str(s): prepare(s, options.out) for s in scopes(options.scope)}
        reached = reached_by(prepared, run, processes)
        judge_all(mutants, reached, prepared, run, processes)
        rows = [row_of(mutant, run.journal[unit_of(mutant, prepared)]) for mutant in mutants]
        report = report_of(rows, reached)
        write_whole(options.out / "random.json", pretty(report))
    write_json(options.json, report)
    for row in rows:
        if is_open(row):
            say(format_row(row))
    say(", ".join(f"{count} {fate}" for fate, count in report["fates"].items()))
    say(f"{len(report['unreached'])} of {len(places())} statements are executed by no scope")
    for name, found in reached.items():
        if found.divergences:
            say(f"{name} diverges without a mutant: nobody is judged there")
    say(f"verdict: {report['verdict']}; report: {options.out / 'random.json'}")
    return EXIT_CODES[report["verdict"]]


def scopes(only: Sequence[str] | None) -> list[HuntScope]:
    """Those that are named, or all."""
    return [scope for scope in SCOPES if only is None or str(scope) in only]


def reached_by(
    prepared: Mapping[str, PreparedPlan], run: RunDirectory, processes: int
) -> dict[str, Reached]:
    """By scope what its traces execute, recorded once for a text of the code."""
    units = {name: f"reached {name}" for name in prepared}
    left = {n: prepared[n].directory for n, unit in units.items() if unit not in run.journal}
    with CountDisplay("scopes", len(units), len(units) - len(left)) as progress:
        for number, (name, found) in enumerate(record_reached(left, processes), start=1):
            run.journal.add(units[name], found)
            progress(len(units) - len(left) + number)
    return {name: read_reached(run.journal[unit]) for name, unit in units.items()}


def unit_of(mutant: RandomMutant, prepared: Mapping[str, PreparedPlan]) -> str:
    """A mutant's name in the journal; of fewer scopes it has another verdict."""
    return f"mutant {mutant.name} in {len(prepared)} scopes"


def judge_all(
    mutants: Sequence[RandomMutant],
    reached: Mapping[str, Reached],
    prepared: Mapping[str, PreparedPlan],
    run: RunDirectory,
    processes: int,
) -> None:
    """Enter each verdict that the journal lacks."""
    left = [mutant for mutant in mutants if unit_of(mutant, prepared) not in run.journal]
    done = len(mutants) - len(left)
    folders = {name: plan.directory for name, plan in prepared.items()}
    with CountDisplay("mutants", len(mutants), done) as progress:
        for mutant, verdict in judge_mutants(left, reached, folders, processes):
            run.journal.add(unit_of(mutant, prepared), verdict)
            done += 1
            progress(done)


# The report


def row_of(mutant: RandomMutant, verdict: Mapping[str, Any]) -> dict[str, Any]:
    """A mutant in the report."""
    return {
        "name": mutant.name,
        "place": str(mutant.place),
        "before": mutant.before,
        "after": mutant.after,
        "reason": REASONS.get(mutant.name, ""),
        **verdict,
    }


def report_of(rows: Sequence[Mapping[str, Any]], reached: Mapping[str, Reached]) -> dict[str, Any]:
    """All verdicts, and the statements that no scope executes, by module."""
    fates = Counter(row["fate"] for row in rows)
    executed = frozenset[int]().union(*(found.places for found in reached.values()))
    unreached = [str(place) for n, place in enumerate(places()) if n not in executed]
    unexplained = [row for row in rows if is_open(row) and not row["reason"]]
    return {
        "schema_version": SCHEMA_VERSION,
        "mutants": list(rows),
        "fates": {fate: fates[fate] for fate in FATES},
        "modules": list(core()),
        "scopes": {name: found.seconds for name, found in reached.items()},
        "unreached": unreached,
        "verdict": VIOLATED if unexplained else HOLDS,
    }


def is_open(row: Mapping[str, Any]) -> bool:
    """Conformance does not find it."""
    return row["fate"] in ("alive", "unreached")


def format_row(row: Mapping[str, Any]) -> str:
    """A mutant for the reader."""
    change = f"{short(row['before'])} -> {short(row['after'])}"
    return f"{row['fate']}: {row['name']} ({row['place']}): {change}: {row['reason'] or '?'}"


def short(text: str) -> str:
    """Some text on one line, the end of a long one left out."""
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= 60 else f"{one_line[:57]}..."
