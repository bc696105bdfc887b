"""`conformance mutants --random N`: draws small changes of impl's protocol core, and judges
them."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import count, takewhile
from pathlib import Path
from typing import Any, Final

from conformance.backends.processes import usable_cores
from conformance.campaigns.mutants import GROUPS, HuntScope
from conformance.campaigns.mutants.by_stories import story_files
from conformance.campaigns.mutants.drawing import RandomMutant, drawn
from conformance.campaigns.mutants.judged import (
    FATES,
    Judgement,
    Reached,
    judge_mutants,
    read_reached,
    record_reached,
    verdicts,
)
from conformance.campaigns.mutants.survivors import REASONS, by_module, is_open, share_found, short
from conformance.judging.coverage.statements import places
from conformance.judging.guaranteed import HOLDS, VIOLATED
from conformance.judging.plan import PreparedPlan
from proofs.run import EXIT_CODES
from proofs.run.directory import RunDirectory
from proofs.run.files import code_digest, pretty, write_json, write_whole
from proofs.run.progress import CountDisplay
from proofs.say import say
from proofs.verbs.systematic_mutants import origin

SCHEMA_VERSION: Final = 1
SCOPES: Final = tuple({str(m.hunted_in): m.hunted_in for g in GROUPS.values() for m in g}.values())
"""The scopes in which mutants are judged: those of all named mutants, and stories."""
Prepare = Callable[[HuntScope, Path], PreparedPlan]


def execute(options: argparse.Namespace, prepare: Prepare) -> int:
    """Draw and judge; holds if each mutant that is not found has a reader's reason. Mutants that
    the same seed has judged before, for the same code, are not judged again. Raises BadUse."""
    mutants = drawn(options.random, options.seed)
    if options.list:
        for mutant in mutants:
            say(f"{mutant.name}  {mutant.place}: {short(mutant.before)} -> {short(mutant.after)}")
        return EXIT_CODES[HOLDS]
    processes = options.processes or usable_cores()
    question = {"seed": options.seed, "scopes": options.scope}
    with RunDirectory(options.out, question, code_digest(), ("prepared",)) as run:
        prepared = judged_where(options.scope, options.out, prepare)
        reached = reached_by(prepared, run, processes)
        known = judge_all(mutants, reached, prepared, run, processes)
        fates = verdicts(mutants, reached, known)
        rows = [row_of(mutant, fates[mutant.name]) for mutant in mutants]
        report = report_of(rows, reached)
        write_whole(options.out / "random.json", pretty(report))
    write_json(options.json, report)
    write_json(options.keep, {**kept_of(rows), **origin(count=len(rows), seed=options.seed)})
    for row in rows:
        if is_open(row):
            say(format_row(row))
    say(", ".join(f"{count} {fate}" for fate, count in report["fates"].items()))
    say(share_found(report["modules"].values()))
    say(f"{len(report['unreached'])} of {len(places())} statements are executed by no scope")
    for name, found in reached.items():
        if found.divergences:
            say(f"{name} diverges without a mutant: nobody is judged there")
    say(f"verdict: {report['verdict']}; report: {options.out / 'random.json'}")
    return EXIT_CODES[report["verdict"]]


def judged_where(only: Sequence[str] | None, out: Path, prepare: Prepare) -> dict[str, Path]:
    """The named scopes and stories, or all of them: the prepared plan of a scope, the file of a
    story."""
    scopes = [scope for scope in SCOPES if only is None or str(scope) in only]
    told = {name: file for name, file in story_files().items() if only is None or name in only}
    return {str(scope): prepare(scope, out).directory for scope in scopes} | told


def reached_by(
    prepared: Mapping[str, Path], run: RunDirectory, processes: int
) -> dict[str, Reached]:
    """By scope the statements that its traces execute; they are recorded once for each text of the
    code."""
    units = {name: f"reached {name}" for name in prepared}
    left = {n: prepared[n] for n, unit in units.items() if unit not in run.journal}
    with CountDisplay("scopes", len(units), len(units) - len(left)) as progress:
        for number, (name, found) in enumerate(record_reached(left, processes), start=1):
            run.journal.add(units[name], found)
            progress(len(units) - len(left) + number)
    return {name: read_reached(run.journal[unit]) for name, unit in units.items()}


def judge_all(
    mutants: Sequence[RandomMutant],
    reached: Mapping[str, Reached],
    prepared: Mapping[str, Path],
    run: RunDirectory,
    processes: int,
) -> list[Judgement]:
    """The verdicts of all scopes; each is entered into the journal when it is known."""
    units = (f"judgement {number}" for number in count())
    known = [Judgement(**run.journal[unit]) for unit in takewhile(run.journal.__contains__, units)]
    with CountDisplay("mutants found", len(mutants), 0) as progress:
        for judgement in judge_mutants(mutants, reached, prepared, known, processes):
            run.journal.add(f"judgement {len(known)}", judgement._asdict())
            known.append(judgement)
            progress(len({name for one in known for name in one.found}))
    return known


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
        "modules": by_module(rows),
        "scopes": {name: found.seconds for name, found in reached.items()},
        "unreached": unreached,
        "verdict": VIOLATED if unexplained else HOLDS,
    }


def kept_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The part of a run that is kept for the site: the fate of each mutant. Its reason is not kept:
    the page shows the present one."""
    return {"mutants": [{k: v for k, v in row.items() if k != "reason"} for row in rows]}


def format_row(row: Mapping[str, Any]) -> str:
    """A mutant as a line of the terminal."""
    change = f"{short(row['before'])} -> {short(row['after'])}"
    return f"{row['fate']}: {row['name']} ({row['place']}): {change}: {row['reason'] or '?'}"
