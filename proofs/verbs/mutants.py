"""`mutants`: each planted defect is found by a short trace, and its twin is clean."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

from proofs.lift.text import model_for, plain
from proofs.mutants import find
from proofs.mutants.check import MAX_EVENTS, Checked, check_all
from proofs.mutants.survivors import Fate, every_mutant, fate_of
from proofs.mutants.table import MUTANTS
from proofs.mutants.transactional import UNEXPRESSED
from proofs.say import say
from proofs.verbs import EXIT_CODES
from proofs.verbs.options import add_engine, add_output
from proofs.verbs.output import Output, trace_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's options."""
    parser.add_argument("--only", metavar="NAME", help="this mutant only; module.function below")
    parser.add_argument(
        "--systematic",
        action="store_true",
        help="small changes of all the text that acts, or of one function, instead of those named",
    )
    add_engine(parser)
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check all mutants or one; holds if all are found and all twins are clean."""
    if arguments.systematic:
        return systematic(arguments)
    chosen = (find(arguments.only),) if arguments.only else MUTANTS
    asked = {"only": arguments.only, "engine": arguments.engine}
    output = Output("mutants", asked, arguments.out, arguments.json)

    def seen(result: Checked) -> None:
        tell(result)
        if result.finding:
            model = model_for(result.mutant.scope, result.mutant.patches)
            output.pictures(model, result.mutant.name, result.finding.trace)

    results = check_all(chosen, seen, engine=arguments.engine, workers=arguments.workers)
    unexpressed = {} if arguments.only else dict(UNEXPRESSED)
    for name, lacking in unexpressed.items():
        say(f"{name}: not expressed: the model lacks {lacking}")
    verdict = "holds" if all(result.passed for result in results) else "violated"
    content = {
        "mutants": [mutant_json(result) for result in results],
        "unexpressed": unexpressed,
        "verdict": verdict,
    }
    output.finish(content, {"workers": arguments.workers})
    return EXIT_CODES[verdict]


def mutant_json(result: Checked) -> dict[str, Any]:
    """One mutant in the report."""
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


def tell(result: Checked) -> None:
    """One mutant for the reader."""
    mutant, found = result.mutant, result.finding
    if found is None:
        shown = f"NOT FOUND: {mutant.property} holds in {mutant.scope}"
    else:
        shown = f"breaks {mutant.property} in {found.steps} steps, {found.events} events"
        if found.events > MAX_EVENTS:
            shown += f", MORE THAN {MAX_EVENTS}"
    twin = "twin clean" if result.twin_clean else f"TWIN NOT CLEAN: {mutant.twin}"
    say(f"{mutant.name} ({mutant.kind}, {mutant.reference}): {shown}; {twin}")


# Systematic mutants


def systematic(arguments: argparse.Namespace) -> int:
    """Try every small change; holds if none survives. Raises UnknownFunction."""
    asked = {"only": arguments.only, "systematic": True}
    output = Output("mutants", asked, arguments.out, arguments.json)
    fates = []
    for patch in every_mutant(plain(), arguments.only):
        fates.append(fate_of(patch))
        tell_fate(fates[-1])
    counts = Counter(fate.fate for fate in fates)
    say(", ".join(f"{count} {fate}" for fate, count in sorted(counts.items())))
    verdict = "violated" if counts["survives"] else "holds"
    content = {"mutants": [fate_json(fate) for fate in fates], "verdict": verdict}
    output.finish(content, {})
    return EXIT_CODES[verdict]


def tell_fate(fate: Fate) -> None:
    """One systematic mutant for the reader."""
    where = f" {fate.how} in {fate.scope}" if fate.scope else ""
    say(f"{fate.fate}{where}: {fate.patch.function}: {fate.patch.before} -> {fate.patch.after}")


def fate_json(fate: Fate) -> dict[str, Any]:
    """One systematic mutant in the report."""
    return {
        "function": fate.patch.function,
        "before": fate.patch.before,
        "after": fate.patch.after,
        "found": fate.fate in ("breaks", "refused"),
        "fate": fate.fate,
        "scope": fate.scope,
        "how": fate.how,
    }
