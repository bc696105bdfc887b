"""`mutants`: the judge alone must find each bug planted in impl; the trace that shows it is shrunk.

The unchanged impl is judged on the same traces first: a difference that it shows does not show a
bug.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import mean, median
from typing import Any, Final

from conformance.backends.processes import usable_cores
from conformance.campaigns.mutants import GROUPS, MUTANTS, HuntScope, Mutant
from conformance.campaigns.mutants.patched_impl import hunt, hunt_unpatched
from conformance.judging.compositions import (
    IDEMPOTENT,
    PROCESSING,
    SERVER_ACTORS,
    TRANSACTIONS,
    judged_composition,
)
from conformance.judging.guaranteed import HOLDS, VIOLATED
from conformance.judging.plan import NODES, Plan, PreparedPlan, prepare
from conformance.judging.reports import pages
from conformance.judging.reports.report import sentence
from conformance.judging.signatures import Finding
from conformance.verbs import random_mutants
from conformance.verbs.run import with_own_rules
from model.releases import NEWEST
from proofs.run import EXIT_CODES, one_of
from proofs.run.directory import RunDirectory
from proofs.run.files import code_digest, pretty, write_json, write_whole
from proofs.say import note, say
from proofs.verbs.options import parse_positive

SCHEMA_VERSION: Final = 1
DEFAULT_OUT: Final = Path("out") / "mutants"
TRACES_AT_NODES: Final = 150
"""Each trace takes some 30 ms at nodes."""
TRACES_OF_GROUPS: Final = 1_500
"""Each trace takes some 10 ms: whole nodes are not memoised."""
ACTORS_AT_NODES: Final = {IDEMPOTENT.name: "leader", TRANSACTIONS.name: SERVER_ACTORS}
"""The actors under test at nodes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `mutants`."""
    parser.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        help=f"this bug, or all of {' or '.join(GROUPS)}, and those of further --only;"
        " `list planted_bugs` names all",
    )
    parser.add_argument(
        "--random",
        type=parse_positive,
        metavar="N",
        help="so many small changes of impl's protocol core instead, drawn by --seed; each is"
        " judged in the scopes whose traces execute the changed statement",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="what --random draws")
    parser.add_argument("--list", action="store_true", help="only name what --random draws")
    parser.add_argument(
        "--scope",
        metavar="SCOPE",
        action="append",
        help="judge --random in this scope only, and in those of further --scope",
    )
    parser.add_argument(
        "--processes", type=parse_positive, metavar="N", help="of --random (default: all cores)"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FILE",
        help="keep the figures of --random, with commit and date",
    )
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, metavar="DIR")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the answer as JSON")


def execute(options: argparse.Namespace) -> int:
    """Hunt; 0 if all bugs are found, 1 if one is not. Raises BadUse, PatchError, HuntFailed."""
    if options.random is not None:
        return random_mutants.execute(options, prepared_of)
    chosen = chosen_by(options.only or tuple(GROUPS))
    # The question is the code alone: a bug that was hunted before is not hunted again.
    with RunDirectory(options.out, {}, code_digest(), ("prepared",)) as directory:
        rows = hunt_all(chosen, directory)
        verdict = HOLDS if all(row["found"] for row in rows) else VIOLATED
        report = {"schema_version": SCHEMA_VERSION, "mutants": rows, "verdict": verdict}
        write_whole(options.out / "report.json", pretty(report))
    write_json(options.json, report)
    steps = [row["steps"] for row in rows if row["steps"] is not None] or [0]
    found = f"{sum(row['found'] for row in rows)} of {len(rows)} found"
    say(f"{found}, median {median(steps):g} steps, mean {mean(steps):.1f}")
    say(f"verdict: {verdict}; report: {options.out / 'report.json'}")
    return EXIT_CODES[verdict]


def chosen_by(names: Sequence[str]) -> list[Mutant]:
    """The bugs with these names, and of groups with these names, each once. Raises BadUse."""
    known = GROUPS | {name: (mutant,) for name, mutant in MUTANTS.items()}
    named = [known[one_of("--only", name, tuple(known))] for name in names]
    return list(dict.fromkeys(mutant for mutants in named for mutant in mutants))


def hunt_all(mutants: Sequence[Mutant], directory: RunDirectory) -> list[dict[str, Any]]:
    """The rows of all bugs in the report. The remaining bugs are hunted, as many at a time as there
    are cores; rows are printed in order."""
    assert directory.path is not None
    out, journal = directory.path, directory.journal
    left = [mutant for mutant in mutants if mutant.name not in journal]
    prepared = {scope: prepared_of(scope, out) for scope in {m.hunted_in: None for m in left}}
    with ThreadPoolExecutor(usable_cores()) as pool:
        twins = {scope: pool.submit(hunt_unpatched, p.directory) for scope, p in prepared.items()}
        hunts = {m.name: pool.submit(hunt, m, prepared[m.hunted_in].directory) for m in left}
        try:
            for mutant in mutants:
                if mutant.name in hunts:
                    finding, twin = hunts[mutant.name].result(), twins[mutant.hunted_in].result()
                    if finding is not None:
                        pages.write(prepared[mutant.hunted_in], finding, out / mutant.name)
                    journal.add(mutant.name, row_of(mutant, finding, twin))
                say(format_row(journal[mutant.name]))
        finally:
            pool.shutdown(cancel_futures=True)
    return [journal[mutant.name] for mutant in mutants]


def prepared_of(scope: HuntScope, out: Path) -> PreparedPlan:
    """The scope's traces, prepared once for all bugs that are hunted in it."""
    note(f"preparing {scope}")
    composition = judged_composition(scope.scope)
    text = with_own_rules(scope.variant or NEWEST, "impl", scope.scope)
    variant = composition.model.variants.parse(text).name
    plan = Plan(scope=scope.scope, variant=variant, actors=scope.actors or composition.actors[0])
    if scope.nodes:
        faults = "nodes" if scope.nodes > 1 else "connections"
        actors = ACTORS_AT_NODES[composition.name]
        plan = replace(plan, system=NODES, actors=actors, faults=faults, traces=TRACES_AT_NODES)
    elif composition is PROCESSING:
        plan = replace(plan, traces=TRACES_OF_GROUPS)
    return prepare(plan, (out / "prepared" / str(scope).replace("/", "-")).resolve())


def row_of(mutant: Mutant, finding: Finding | None, twin: Finding | None) -> dict[str, Any]:
    """One bug in the report. `twin` is the difference that the unchanged impl shows on the same
    traces: if there is one, the trace does not show the bug alone."""
    shown = finding or {}
    return {
        "name": mutant.name,
        "what": mutant.what,
        "scope": mutant.hunted_in.scope,
        "variant": mutant.hunted_in.variant,
        "actors": mutant.hunted_in.actors,
        "found": finding is not None and twin is None,
        "steps": shown.get("steps"),
        "one_minimal": shown.get("one_minimal"),
        "rule": shown.get("rule"),
        "expected": shown.get("expected"),
        "observed": shown.get("observed"),
        "twin_clean": twin is None,
        "trace": finding and f"{mutant.name}.jsonl",
    }


def format_row(row: Mapping[str, Any]) -> str:
    """One line for a bug."""
    name = f"{row['name']:<37}"
    if row["steps"] is None:
        return f"{name} not found: {row['what']}"
    if not row["twin_clean"]:
        scope = HuntScope(row["scope"], row["variant"], row["actors"])
        return f"{name} {scope} shows a difference without the bug, too"
    return f"{name} {row['steps']:>3} steps  {sentence(row)}"
