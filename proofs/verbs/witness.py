"""`witness NAME`: the shortest trace that reaches a rule, a branch or an error code."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from proofs.explore.expected import EXPECTED
from proofs.explore.goals import UnknownGoal, shortest
from proofs.lift.text import Model, plain
from proofs.say import say
from proofs.trace.format import Header, Instance, Trace
from proofs.trace.pictures import text
from proofs.trace.replay import Stepper, events, record, setting_of
from proofs.trace.story import tell
from proofs.verbs import HOLDS, VIOLATED
from proofs.verbs.options import add_output, add_variant
from proofs.verbs.output import Output, Told, trace_json

LARGEST = 200_000
"""States of the largest scope that is searched when none is named."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's options."""
    parser.add_argument("name", metavar="NAME", help="error code, rule or branch; see `list`")
    parser.add_argument("--scope", metavar="SCOPE", help="search this scope only")
    parser.add_argument("--engine", choices=("c", "ints"), default="c")
    add_variant(parser)
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Search, tell, write: 0 if there is a trace, 1 if no scope has one. Raises ValueError."""
    model = plain()
    named = {"name": arguments.name, "scope": arguments.scope, "variant": arguments.variant}
    output = Output("witness", named, arguments.out, arguments.json)
    scopes = [arguments.scope] if arguments.scope else small_scopes(model)
    found = search(model, scopes, arguments)
    if found is None:
        say(f"{arguments.name}: not reached in {', '.join(scopes)}")
        output.finish({**named, "searched": scopes, "trace": None, "verdict": "violated"}, {})
        return VIOLATED
    trace, worlds = found
    say(text(tell(model, trace.header, trace.steps, worlds)))
    say(f"{arguments.name}: reached by step {len(trace.steps)}, {trace.steps[-1].label}")
    content: dict[str, Any] = {
        **named,
        "searched": scopes,
        "found_in": trace.header.scope,
        "steps": len(trace.steps),
        "events": events(model, trace.steps),
        "trace": trace_json(trace),
        "verdict": "holds",
    }
    output.pictures(model, arguments.name.replace("#", "-").replace(":", "-"), trace)
    output.finish(content, {})
    return HOLDS


def small_scopes(model: Model) -> list[str]:
    """The scopes that are searched, in their order."""
    return [s for s in model.scopes.SCOPES if EXPECTED[s].distinct <= LARGEST]


def search(
    model: Model, scopes: Sequence[str], arguments: argparse.Namespace
) -> tuple[Trace, tuple[Any, ...]] | None:
    """The shortest of the scopes' shortest traces; of several the first scope's.

    Raises UnknownGoal if no scope knows the name.
    """
    paths: list[tuple[str, tuple[Instance, ...] | None]] = []
    unknown: list[UnknownGoal] = []
    for scope in scopes:
        k = setting_of(model, scope, arguments.variant)
        try:
            with Told(scope) as told:
                path = shortest(
                    model, k, scope, arguments.name, engine=arguments.engine, progress=told
                )
        except UnknownGoal as error:
            unknown.append(error)
        else:
            paths.append((scope, path))
    if not paths:
        raise max(unknown, key=lambda error: len(str(error)))
    reached = [(scope, path) for scope, path in paths if path is not None]
    if not reached:
        return None
    scope, path = min(reached, key=lambda entry: len(entry[1]))
    stepper = Stepper(model, setting_of(model, scope, arguments.variant))
    return record(stepper, Header(scope, stepper.k.variant.name), path)
