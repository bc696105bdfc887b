"""`witness NAME`: the shortest trace to a rule, a branch, an error code, a pair or an edge."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from proofs.coverage.events import events_of
from proofs.coverage.plan import small_scopes
from proofs.coverage.search import UnknownGoal, resolved, shortest
from proofs.coverage.space import Way
from proofs.lift.text import COMPOSITIONS, Model, composition, home_of, plain
from proofs.say import say
from proofs.trace.format import Header, label
from proofs.trace.pictures import text
from proofs.trace.replay import Stepper, events, record, setting_of
from proofs.trace.story import tell
from proofs.verbs import HOLDS, VIOLATED
from proofs.verbs.options import add_output, add_variant
from proofs.verbs.output import Output, Told, trace_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's options."""
    parser.add_argument(
        "name",
        metavar="NAME",
        help="an error code, a rule, a point of the text (leader.in_sequence#2:false, or"
        " leader.in_sequence:104:false where that is one), a pair (refusal+restart), or an edge"
        " between states (ONGOING->PREPARE_COMMIT); see `list`",
    )
    parser.add_argument("--scope", metavar="SCOPE", help="search this scope only")
    parser.add_argument("--engine", choices=("c", "ints"), default="c")
    add_variant(parser)
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Search, tell, write: 0 if there is a trace, 1 if no scope has one. Raises ValueError."""
    home, name = known_as(arguments.name, arguments.scope)
    model = composition(home) if home else plain()
    asked = {"name": name, "scope": arguments.scope, "variant": arguments.variant}
    output = Output("witness", asked, arguments.out, arguments.json)
    small = [scope for scope in small_scopes() if home_of(scope) == home]
    scopes = [arguments.scope] if arguments.scope else small
    found = search(model, home, scopes, name, arguments)
    if found is None:
        say(f"{name}: not reached in {', '.join(scopes)}")
        output.finish({**asked, "searched": scopes, "trace": None, "verdict": "violated"}, {})
        return VIOLATED
    scope, way = found
    stepper = Stepper(model, setting_of(model, scope, arguments.variant))
    trace, worlds = record(stepper, Header(scope, stepper.k.variant.name), way.steps)
    say(text(tell(model, trace.header, trace.steps, worlds)))
    say(f"{name}: {ending(way)}")
    content: dict[str, Any] = {
        **asked,
        "searched": scopes,
        "found_in": scope,
        "steps": len(trace.steps),
        "events": events(model, trace.steps),
        "tried": label(*way.tried) if way.tried else None,
        "trace": trace_json(trace),
        "verdict": "holds",
    }
    output.pictures(model, name.replace("#", "-").replace(":", "-"), trace)
    output.finish(content, {})
    return HOLDS


def known_as(name: str, scope: str | None) -> tuple[str, str]:
    """The composition that knows a name, and what it calls it. Raises UnknownGoal."""
    homes = [home_of(scope)] if scope else ["", *COMPOSITIONS]
    refusals: list[UnknownGoal] = []
    for home in homes:
        model = composition(home) if home else plain()
        try:
            return home, resolved(model, events_of(model, home), name)
        except UnknownGoal as refusal:
            refusals.append(refusal)
    raise refusals[0]


def ending(way: Way) -> str:
    """How the way ends."""
    if way.tried:
        return f"reached behind step {len(way.steps)}, where {label(*way.tried)} is tried"
    return f"reached by step {len(way.steps)}, {label(*way.steps[-1])}"


def search(
    model: Model, home: str, scopes: Sequence[str], name: str, arguments: argparse.Namespace
) -> tuple[str, Way] | None:
    """The shortest of the scopes' shortest ways; of several the first scope's."""
    best: tuple[str, Way] | None = None
    for scope in scopes:
        k = setting_of(model, scope, arguments.variant)
        with Told(scope) as told:
            way = shortest(
                model,
                k,
                scope,
                events_of(model, home),
                name,
                engine=arguments.engine,
                progress=told,
                max_depth=len(best[1].steps) - 1 if best else None,
            )
        if way is not None and (best is None or len(way.steps) < len(best[1].steps)):
            best = scope, way
    return best
