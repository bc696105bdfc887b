"""`liveness [SCOPE]`: what eventually happens, and a fair lasso for each property that fails."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from proofs.lift.source import COMPOSITIONS, load_model, model_for
from proofs.live.check import LiveReport, PropertyOutcome, explore_live
from proofs.live.graph import ENGINES
from proofs.live.lasso import Lasso
from proofs.run import HOLDS
from proofs.say import say
from proofs.trace.pictures import text
from proofs.verbs.options import add_output, add_patch, add_variant, patches_of, rows_of
from proofs.verbs.output import (
    ExplorationDisplay,
    Output,
    sometimes_json,
    sometimes_lines,
    trace_json,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument(
        "scope", nargs="?", metavar="SCOPE", help="an unbounded one (none: all names)"
    )
    add_variant(parser)
    parser.add_argument("--drop", metavar="ASSUMPTION", help="show what happens without it")
    parser.add_argument("--engine", choices=ENGINES, default="c")
    add_patch(parser)
    add_output(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Check, print and write; without a scope print the names. Raises ValueError."""
    if arguments.scope is None:
        for line in listing():
            say(line)
        return HOLDS
    patches = patches_of(arguments)
    names = ("scope", "variant", "drop", "engine")
    with Output(arguments, *names, patches=rows_of(patches)) as output:
        with ExplorationDisplay(arguments.scope) as progress:
            live = explore_live(
                arguments.scope,
                arguments.variant,
                patches=patches,
                engine=arguments.engine,
                progress=progress,
            )
        report = live.report(arguments.drop)
        for line in lines(report):
            say(line)
        for outcome in report.outcomes:
            if outcome.lasso is not None:
                output.story(outcome.name, outcome.lasso.trace, outcome.lasso.story)
        return output.finish(report_json(report))


# For people


def listing() -> Iterator[str]:
    """Yield scopes, properties and assumptions, each kind under its heading."""
    for title, table in tables():
        yield f"scopes{title}:"
        for scope in table.SCOPES.values():
            yield f"  {scope.name:<28} {scope.why}"
        yield f"properties{title}:"
        for guarantee in table.EVENTUALLY:
            yield f"  {guarantee.name:<28} {guarantee.says}, under {', '.join(guarantee.under)}"
        yield f"assumptions{title}:"
        for assumption in table.ASSUMPTIONS.values():
            yield f"  {assumption.name:<28} {assumption.says}"


def tables() -> Iterator[tuple[str, Any]]:
    """Yield the liveness module of each composition, with the name of the composition."""
    for name in COMPOSITIONS:
        table = load_model(name).modules.get("liveness")
        if table is not None:
            yield ("" if name == "idempotent" else f" of {name}"), table


def lines(report: LiveReport) -> Iterator[str]:
    """Yield the whole answer: each property, with its lasso below it."""
    for outcome in report.outcomes:
        yield f"{outcome.name}: {answer(outcome)}"
        if outcome.lasso is not None:
            yield text(outcome.lasso.story, with_changes=False)
    dropped = f" without {report.dropped}" if report.dropped else ""
    yield (
        f"{report.scope}, {report.variant}{dropped}: {report.distinct:,} states,"
        f" {report.transitions:,} transitions: {report.verdict}"
    )
    yield from sometimes_lines(report.sometimes)
    if report.cut:
        yield f"the scope is too small for {', '.join(report.cut)}: nothing is decided"


def answer(outcome: PropertyOutcome) -> str:
    """Return the outcome of a property in a line."""
    under = f"under {', '.join(outcome.fairness)}" if outcome.fairness else "under nothing"
    if not outcome.exercised:
        return "vacuous, there is nothing to wait for in this scope"
    if outcome.lasso is None:
        return f"holds, {under}"
    fails = "FAILS" if outcome.guaranteed else "is not guaranteed, and fails"
    return f"{fails}, {under}: {shape(outcome.lasso)}"


def shape(lasso: Lasso) -> str:
    """Return the length of a lasso in words."""
    loop = len(lasso.trace.steps) - lasso.stem
    after = f"after {lasso.stem} steps"
    return f"{after} {loop} more for ever" if loop else f"{after} nothing more happens"


# For programs


def report_json(report: LiveReport) -> dict[str, Any]:
    """Return the report's content."""
    says = model_for(report.scope).liveness.ASSUMPTIONS
    used = dict.fromkeys(name for o in report.outcomes for name in o.fairness)
    return {
        "scope": report.scope,
        "variant": report.variant,
        "dropped": report.dropped,
        "distinct": report.distinct,
        "transitions": report.transitions,
        "properties": [property_json(outcome) for outcome in report.outcomes],
        "assumptions": {name: says[name].says for name in used},
        "cut": list(report.cut),
        **sometimes_json(report.sometimes),
        "verdict": report.verdict,
    }


def property_json(outcome: PropertyOutcome) -> dict[str, Any]:
    """Return one property; `loop` counts the steps that repeat for ever, the last ones of the
    trace."""
    lasso = outcome.lasso
    return {
        "name": outcome.name,
        "holds": outcome.holds,
        "guaranteed": outcome.guaranteed,
        "exercised": outcome.exercised,
        "fairness": list(outcome.fairness),
        "lasso": None
        if lasso is None
        else {
            "stem": lasso.stem,
            "loop": len(lasso.trace.steps) - lasso.stem,
            "trace": trace_json(lasso.trace),
        },
    }
