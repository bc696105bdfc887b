"""`mutants`: each planted defect is found by a short trace, and its twin is clean."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proofs.lift.source import model_for
from proofs.mutants import find
from proofs.mutants.check import MAX_EVENTS, Checked, check
from proofs.mutants.table import MUTANTS, NOT_EXPRESSIBLE, ModelMutant
from proofs.say import say
from proofs.verbs import systematic_mutants
from proofs.verbs.options import add_engine, add_output, parse_positive
from proofs.verbs.output import Output, trace_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument("--only", metavar="NAME", help="this mutant only")
    parser.add_argument(
        "--systematic",
        action="store_true",
        help="every small change of the rules' text, instead of those named; --only: a pattern of"
        " names, or how they begin (idempotent.leader:append)",
    )
    parser.add_argument("--sample", type=parse_positive, metavar="N", help="so many of them, drawn")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="what --sample draws")
    parser.add_argument("--list", action="store_true", help="only name them")
    parser.add_argument("--show", metavar="NAME", help="a systematic mutant as a unified diff")
    parser.add_argument(
        "--processes", type=parse_positive, metavar="N", help="of --systematic (default: all cores)"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FILE",
        help="keep the figures of --systematic there, with commit and date; `make docs` makes its"
        " table of evidence/systematic_mutants.json",
    )
    add_engine(parser)
    add_output(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Check all mutants or one; holds if all are found and all twins are clean.

    Raises UnknownMutant, and UnknownSystematicMutant for --systematic and --show.
    """
    if arguments.show:
        return systematic_mutants.show(arguments)
    if arguments.systematic:
        return systematic_mutants.execute(arguments)
    chosen = (find(arguments.only),) if arguments.only else MUTANTS
    with Output(arguments, "only", "engine") as output:
        rows = [row_of(mutant, arguments, output) for mutant in chosen]
        unexpressed = {} if arguments.only else dict(NOT_EXPRESSIBLE)
        for name, lacking in unexpressed.items():
            say(f"{name}: not expressed: the model lacks {lacking}")
        verdict = "holds" if all(map(has_passed, rows)) else "violated"
        content = {"mutants": rows, "unexpressed": unexpressed, "verdict": verdict}
        return output.finish(content, workers=arguments.workers)


def row_of(mutant: ModelMutant, arguments: argparse.Namespace, output: Output) -> dict[str, Any]:
    """Return one mutant in the report: checked now, or by the same command before."""
    if mutant.name not in output.journal:
        result = check(mutant, engine=arguments.engine, workers=arguments.workers)
        if result.finding:
            changed = model_for(mutant.scope, mutant.patches)
            output.pictures(changed, mutant.name, result.finding.trace)
        output.journal.add(mutant.name, mutant_json(result))
    row: dict[str, Any] = output.journal[mutant.name]
    say(format_row(row))
    return row


def has_passed(row: Mapping[str, Any]) -> bool:
    """Whether the mutant was found in few events, and its twin is clean."""
    return bool(row["found"] and row["events"] <= MAX_EVENTS and row["twin_clean"])


def mutant_json(result: Checked) -> dict[str, Any]:
    """Return one mutant in the report."""
    mutant, found = result.mutant, result.finding
    return {
        "name": mutant.name,
        "kind": mutant.kind,
        "reference": mutant.reference,
        "scope": mutant.scope,
        "variant": mutant.variant,
        "property": mutant.property,
        "found": found is not None,
        "steps": found.steps if found else None,
        "events": found.events if found else None,
        "trace": trace_json(found.trace) if found else None,
        "twin": mutant.twin,
        "twin_clean": result.twin_clean,
    }


def format_row(row: Mapping[str, Any]) -> str:
    """Return one mutant for the reader."""
    if not row["found"]:
        shown = f"NOT FOUND: {row['property']} holds in {row['scope']}"
    else:
        shown = f"breaks {row['property']} in {row['steps']} steps, {row['events']} events"
        if row["events"] > MAX_EVENTS:
            shown += f", MORE THAN {MAX_EVENTS}"
    twin = "twin clean" if row["twin_clean"] else f"TWIN NOT CLEAN: {row['twin']}"
    return f"{row['name']} ({row['kind']}, {row['reference']}): {shown}; {twin}"
