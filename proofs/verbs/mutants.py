"""`mutants`: each planted defect is found by a short trace, and its twin is clean."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping
from typing import Any

from proofs.lift.text import model_for
from proofs.mutants import find
from proofs.mutants.check import MAX_EVENTS, Checked, check_all
from proofs.mutants.explained import explanation
from proofs.mutants.survivors import Fate, fate_of
from proofs.mutants.systematic import Point, every_point, sample
from proofs.mutants.table import MUTANTS
from proofs.mutants.transactional import UNEXPRESSED
from proofs.say import say
from proofs.verbs import EXIT_CODES
from proofs.verbs.options import add_engine, add_output, positive
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
    parser.add_argument("--count", type=positive, metavar="N", help="so many small changes, drawn")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="what is drawn by --count")
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
    """Try small changes, all or some; holds if each breaks something or is explained.

    What the same command has tried before is not tried again. Raises UnknownFunction.
    """
    names = ("only", "systematic", "count", "seed")
    output = Output(
        "mutants", {n: getattr(arguments, n) for n in names}, arguments.out, arguments.json
    )
    tried = {(row["group"], row["says"]): row for row in (output.earlier or {}).get("mutants", ())}
    points = sample(every_point(arguments.only), arguments.count, arguments.seed)
    rows: list[dict[str, Any]] = []
    for point in points:
        known = tried.get((point.group, point.says))
        fate = fate_of(point) if known is None else fate_of_json(point, known)
        rows.append(fate_json(fate))
        tell_fate(rows[-1])
        output.keep({"mutants": rows, "verdict": "undecided"})
    counts = Counter(row["fate"] for row in rows)
    still_open = sum(row["open"] for row in rows)
    say(", ".join(f"{count} {fate}" for fate, count in sorted(counts.items())))
    say(f"{len(rows)} of {len(every_point(arguments.only))} tried; {still_open} not explained")
    verdict = "violated" if still_open else "holds"
    output.finish({"mutants": rows, "verdict": verdict}, {})
    return EXIT_CODES[verdict]


def tell_fate(row: Mapping[str, Any]) -> None:
    """One systematic mutant for the reader."""
    where = f" in {row['scope']} of {row['variant']}" if row["scope"] else ""
    how = f" ({row['how']})" if row["how"] else ""
    mark = "NOT EXPLAINED: " if row["open"] else ""
    say(f"{mark}{row['fate']}{where}{how}: {row['group']}.{row['says']}")
    if row["why"]:
        say(f"    {row['why']}")


def fate_of_json(point: Point, row: Mapping[str, Any]) -> Fate:
    """What an earlier report says of a mutant."""
    return Fate(point, row["fate"], row["scope"], row["variant"], row["how"])


def fate_json(fate: Fate) -> dict[str, Any]:
    """One systematic mutant in the report. `open`: it breaks nothing and nobody has said why, or
    it breaks something and a row says that it does not."""
    found = fate.fate in ("breaks", "refused")
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
