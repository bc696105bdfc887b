"""`mutants`: each planted defect is found by a short trace, and its twin is clean."""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import model
from proofs.lift.source import model_for
from proofs.mutants import find
from proofs.mutants.check import MAX_EVENTS, Checked, check_all
from proofs.mutants.survivors import CONFIGURATIONS, FATES, FOUND, IN_THE_END, MutantFate, fate_of
from proofs.mutants.systematic import SystematicMutant, every_point, explanation, sample
from proofs.mutants.table import MUTANTS, NOT_EXPRESSIBLE
from proofs.say import say
from proofs.verbs.options import add_engine, add_output, positive
from proofs.verbs.output import LINE_SECONDS, Output, trace_json


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


def execute(arguments: argparse.Namespace) -> int:
    """Check all mutants or one; holds if all are found and all twins are clean."""
    if arguments.systematic:
        return systematic(arguments)
    chosen = (find(arguments.only),) if arguments.only else MUTANTS
    output = Output(arguments, "only", "engine")

    def seen(result: Checked) -> None:
        tell(result)
        if result.finding:
            changed = model_for(result.mutant.scope, result.mutant.patches)
            output.pictures(changed, result.mutant.name, result.finding.trace)

    results = check_all(chosen, seen, engine=arguments.engine, workers=arguments.workers)
    unexpressed = {} if arguments.only else dict(NOT_EXPRESSIBLE)
    for name, lacking in unexpressed.items():
        say(f"{name}: not expressed: the model lacks {lacking}")
    verdict = "holds" if all(result.passed for result in results) else "violated"
    content = {
        "mutants": [mutant_json(result) for result in results],
        "unexpressed": unexpressed,
        "verdict": verdict,
    }
    return output.finish(content, workers=arguments.workers)


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
    """Try small changes, all or some; holds if each is noticed or explained.

    What the same command has tried before, on the same text, is not tried again. Raises
    UnknownFunction, OtherArguments, and KeyboardInterrupt at Ctrl-C: what was tried is kept.
    """
    output = Output(arguments, "only", "systematic", "count", "seed", text=text_tried())
    tried = {(row["group"], row["says"]): row for row in (output.earlier or {}).get("mutants", ())}
    every = every_point(arguments.only)
    points = sample(every, arguments.count, arguments.seed)
    told = MutantsProgress(len(points))
    rows: list[dict[str, Any]] = []
    for point in points:
        known = tried.get((point.group, point.says))
        rows.append(fate_json(fate_of(point) if known is None else fate_of_json(point, known)))
        tell_fate(rows[-1])
        told(len(rows), is_new=known is None)
        output.keep({"mutants": rows, "verdict": "undecided"})
    counts = {**figures(rows), "points": len(every)}
    fates = ", ".join(f"{counts[fate]} {fate}" for fate in FATES)
    say(f"{counts['tried']} of {counts['points']} tried: {fates}")
    say(f"{counts['explained']} explained, {counts['open']} open")
    verdict = "violated" if counts["open"] else "holds"
    return output.finish({"mutants": rows, "figures": counts, "verdict": verdict})


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


class MutantsProgress:
    """How far it is: a line every 10 s."""

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.total = total
        self.clock = clock
        self.begun = self.last = clock()
        self.new = 0

    def __call__(self, done: int, *, is_new: bool) -> None:
        """So many are done; one that was tried before took no time."""
        now = self.clock()
        self.new += is_new
        if now - self.last < LINE_SECONDS or not self.new:
            return
        self.last = now
        each = (now - self.begun) / self.new
        left = each * (self.total - done) / 60
        line = f"{done} of {self.total} tried, {each:.1f} s each, about {left:.0f} min left"
        print(line, file=sys.stderr, flush=True)


def tell_fate(row: Mapping[str, Any]) -> None:
    """One systematic mutant for the reader."""
    where = f" in {row['scope']} of {row['variant']}" if row["scope"] else ""
    how = f" ({row['how']})" if row["how"] else ""
    mark = "NOT EXPLAINED: " if row["open"] else ""
    say(f"{mark}{row['fate']}{where}{how}: {row['group']}.{row['says']}")
    if row["why"]:
        say(f"    {row['why']}")


def fate_of_json(point: SystematicMutant, row: Mapping[str, Any]) -> MutantFate:
    """What an earlier report says of a mutant."""
    return MutantFate(point, row["fate"], row["scope"], row["variant"], row["how"])


def fate_json(fate: MutantFate) -> dict[str, Any]:
    """One systematic mutant in the report. `open`: it breaks nothing and nobody has said why, or
    it breaks something and a row says that it does not."""
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
