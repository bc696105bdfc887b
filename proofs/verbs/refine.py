"""`refine SCOPE`: each step refines the abstract specification, or a trace to one that does not."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from proofs.lift.source import model_for
from proofs.live.refine import Refinement, refine
from proofs.say import say
from proofs.trace.pictures import text
from proofs.trace.replay import model_of, replay
from proofs.trace.story import tell
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
    parser.add_argument("scope", metavar="SCOPE", help="of transactions; some 100,000 states")
    add_variant(parser)
    parser.add_argument("--drop", default="", metavar="ASSUMPTION", help="what happens without it")
    add_patch(parser)
    add_output(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Check, print and write. Raises ValueError."""
    patches = patches_of(arguments)
    with Output(arguments, "scope", "variant", "drop", patches=rows_of(patches)) as output:
        with ExplorationDisplay(arguments.scope) as progress:
            found = refine(
                arguments.scope,
                arguments.variant,
                dropped=arguments.drop,
                patches=patches,
                progress=progress,
            )
        for line in lines(found):
            say(line)
        if found.trace is not None:
            name = f"{found.scope}-refinement"
            output.pictures(model_of(found.trace.header), name, found.trace)
        return output.finish(report_json(found))


def lines(found: Refinement) -> Iterator[str]:
    """Yield the answer, with the trace above it."""
    if found.trace is not None:
        model = model_of(found.trace.header)
        worlds = replay(found.trace, model)
        yield text(tell(model, found.trace.header, found.trace.steps, worlds), with_changes=False)
    without = f" without {found.dropped}" if found.dropped else ""
    seen = (
        f"{found.distinct:,} states, {found.transitions:,} transitions,"
        f" {found.changes:,} of which a user sees"
    )
    for name, times in found.steps.items():
        yield f"  {name}: {times:,}"
    yield from sometimes_lines(found.sometimes)
    if found.why:
        yield f"the last step is wrong: {found.why}"
    yield f"{found.scope}, {found.variant}{without}: {seen}: {found.verdict}"


def report_json(found: Refinement) -> dict[str, Any]:
    """Return the report's content."""
    assumptions = model_for(found.scope).spec.ASSUMPTIONS.values()
    return {
        "scope": found.scope,
        "variant": found.variant,
        "dropped": found.dropped,
        "distinct": found.distinct,
        "transitions": found.transitions,
        "steps": dict(found.steps),
        "properties": [
            {
                "name": "refines",
                "holds": found.trace is None,
                "fairness": [],
                "why": found.why,
                "trace": None if found.trace is None else trace_json(found.trace),
            }
        ],
        "assumptions": {a.name: a.says for a in assumptions},
        **sometimes_json(found.sometimes),
        "verdict": found.verdict,
    }
