"""`mutants`: each planted defect is found by a short trace, and its twin is clean."""

from __future__ import annotations

import argparse
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import model
from proofs.lift.source import model_for
from proofs.mutants import find
from proofs.mutants.check import MAX_EVENTS, Checked, check
from proofs.mutants.survivors import CONFIGURATIONS, FATES, FOUND, IN_THE_END, MutantFate, fate_of
from proofs.mutants.systematic import SystematicMutant, every_point, explanation, sample
from proofs.mutants.table import MUTANTS, NOT_EXPRESSIBLE, ModelMutant
from proofs.run.journal import Journal
from proofs.run.progress import CountDisplay
from proofs.say import say
from proofs.verbs.options import add_engine, add_output, parse_positive
from proofs.verbs.output import Output, trace_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's options."""
    parser.add_argument("--only", metavar="NAME", help="this mutant only")
    parser.add_argument(
        "--systematic",
        action="store_true",
        help="small changes of all the text that acts, instead of those named; --only: those of"
        " idempotent, of transactions, or of a function (idempotent.leader.append)",
    )
    parser.add_argument(
        "--count", type=parse_positive, metavar="N", help="so many small changes, drawn"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="what is drawn by --count")
    add_engine(parser)
    add_output(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Check all mutants or one; holds if all are found and all twins are clean.

    Raises UnknownMutant, and UnknownFunction for --systematic.
    """
    if arguments.systematic:
        return try_small_changes(arguments)
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
    """One mutant in the report: checked now, or by the same command before."""
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
    """Found in few events, and not found in the twin."""
    return bool(row["found"] and row["events"] <= MAX_EVENTS and row["twin_clean"])


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


def format_row(row: Mapping[str, Any]) -> str:
    """One mutant for the reader."""
    if not row["found"]:
        shown = f"NOT FOUND: {row['property']} holds in {row['scope']}"
    else:
        shown = f"breaks {row['property']} in {row['steps']} steps, {row['events']} events"
        if row["events"] > MAX_EVENTS:
            shown += f", MORE THAN {MAX_EVENTS}"
    twin = "twin clean" if row["twin_clean"] else f"TWIN NOT CLEAN: {row['twin']}"
    return f"{row['name']} ({row['kind']}, {row['reference']}): {shown}; {twin}"


# Systematic mutants


def try_small_changes(arguments: argparse.Namespace) -> int:
    """Try small changes, all or some; holds if each is noticed or explained.

    What the same command has tried before, on the same text, is not tried again. Raises
    UnknownFunction.
    """
    every = every_point(arguments.only)
    points = sample(every, arguments.count, arguments.seed)
    names = ("only", "systematic", "count", "seed")
    # What is explained may change, so that `text` stands for the code on which fates depend.
    with Output(arguments, *names, code="", text=text_tried()) as output:
        rows = list(fates_of(points, output.journal))
        counts = {**figures(rows), "points": len(every)}
        fates = ", ".join(f"{counts[fate]} {fate}" for fate in FATES)
        say(f"{counts['tried']} of {counts['points']} tried: {fates}")
        say(f"{counts['explained']} explained, {counts['open']} open")
        verdict = "violated" if counts["open"] else "holds"
        return output.finish({"mutants": rows, "figures": counts, "verdict": verdict})


def fates_of(points: Sequence[SystematicMutant], journal: Journal) -> Iterator[dict[str, Any]]:
    """Each small change in the report: tried now, or by the same command before."""
    with CountDisplay("small changes", len(points), len(journal)) as progress:
        for point in points:
            unit = f"{point.group}.{point.says}"
            if unit not in journal:
                found = fate_of(point)
                journal.add(unit, [found.fate, found.scope, found.variant, found.how])
                progress(len(journal))
            row = fate_json(MutantFate(point, *journal[unit]))
            say_fate(row)
            yield row


def text_tried() -> str:
    """A digest of the model, and of the configurations: what was tried with others is no answer."""
    digest = hashlib.sha256(repr((CONFIGURATIONS, IN_THE_END)).encode())
    for path in sorted(Path(model.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many had each fate, how many of them are explained, and how many are open."""
    fates = Counter(row["fate"] for row in rows)
    return {
        "tried": len(rows),
        **{fate: fates[fate] for fate in FATES},
        "explained": sum(row["why"] is not None and not row["open"] for row in rows),
        "open": sum(row["open"] for row in rows),
    }


def say_fate(row: Mapping[str, Any]) -> None:
    """Say what became of one small change."""
    where = f" in {row['scope']} of {row['variant']}" if row["scope"] else ""
    how = f" ({row['how']})" if row["how"] else ""
    mark = "NOT EXPLAINED: " if row["open"] else ""
    say(f"{mark}{row['fate']}{where}{how}: {row['group']}.{row['says']}")
    if row["why"]:
        say(f"    {row['why']}")


def fate_json(fate: MutantFate) -> dict[str, Any]:
    """One systematic mutant in the report. `open`: it breaks nothing and no row explains why,
    or it breaks something and a row says that it does not."""
    found = fate.fate in FOUND
    why = explanation(fate.point)
    return {
        "group": fate.point.group,
        "says": fate.point.says,
        "function": fate.point.patch.function,
        "before": fate.point.patch.before,
        "after": fate.point.patch.after,
        "found": found,
        "fate": fate.fate,
        "scope": fate.scope,
        "variant": fate.variant,
        "how": fate.how,
        "why": why,
        "open": found == (why is not None),
    }
