"""`witness NAME`: a shortest trace to a witness, an error code, a state, an edge, a rule, a branch
or a pair."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from proofs.coverage.events import events_of
from proofs.coverage.search import UnknownGoal, resolved, shortest
from proofs.coverage.space import WitnessPath
from proofs.coverage.states import of_model
from proofs.coverage.stored import file_name, stored
from proofs.coverage.survey import SurveyCase
from proofs.coverage.survey_cache import surveyed
from proofs.coverage.survey_cases import small_scopes, survey_cases
from proofs.explore.scope import DEFAULT_VARIANT
from proofs.lift.source import COMPOSITIONS, Model, composition_of, load_model
from proofs.say import say
from proofs.trace.events import events
from proofs.trace.format import Header, label, write
from proofs.trace.pictures import text
from proofs.trace.replay import Stepper, configuration_of, record
from proofs.trace.story import tell
from proofs.verbs.options import add_output
from proofs.verbs.output import ExplorationDisplay, Output, trace_json


class NothingToWitness(ValueError):
    """Neither a name nor a folder is given."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        help="a witness, an error code, a rule, a point of the text (leader.in_sequence#2:false, or"
        " leader.in_sequence:104:false where that is one), a pair (refusal+restart), a state of a"
        " transaction, or an edge between states (ONGOING->PREPARE_COMMIT); see `list`",
    )
    parser.add_argument(
        "--store",
        type=Path,
        metavar="DIR",
        help="write a shortest trace for each error code, state and edge of transactions",
    )
    parser.add_argument("--scope", metavar="SCOPE", help="search this scope only")
    parser.add_argument(
        "--variant",
        metavar="V",
        help=f"search this variant only (default: {DEFAULT_VARIANT}, then the others)",
    )
    parser.add_argument("--engine", choices=("c", "ints"), default="c")
    add_output(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Search, print and write: 0 if there is a trace, 1 if no scope has one. Raises ValueError."""
    if arguments.store:
        return store(arguments)
    if not arguments.name:
        raise NothingToWitness("name what to reach, or a folder: --store DIR")
    known = resolve_name(arguments.name, arguments.scope)
    name = known[0][1]
    asked = {"name": name, "scope": arguments.scope, "variant": arguments.variant}
    searched: list[str] = []
    with Output(arguments, "scope", "variant", name=name) as output:
        for composition, meant in known:
            model = load_model(composition)
            for look in search_cases(composition, arguments):
                searched.append(look.scope)
                way = search(model, look, meant)
                if way is not None:
                    found = {**asked, "name": meant, "searched": searched}
                    return report_way(model, look, way, found, output)
        say(f"{name}: not reached in {', '.join(dict.fromkeys(searched))}")
        return output.finish({**asked, "searched": searched, "trace": None, "verdict": "violated"})


def resolve_name(name: str, scope: str | None) -> list[tuple[str, str]]:
    """Return the compositions that have a name, with what each calls it. Raises UnknownGoal."""
    compositions = [composition_of(scope)] if scope else COMPOSITIONS
    known: list[tuple[str, str]] = []
    refusals: list[UnknownGoal] = []
    for composition in compositions:
        model = load_model(composition)
        try:
            known.append((composition, resolved(model, events_of(model), name)))
        except UnknownGoal as refusal:
            refusals.append(refusal)
    if not known:
        choices = [choice for refusal in refusals for choice in refusal.choices]
        raise UnknownGoal(name, choices, [n for refusal in refusals for n in refusal.names])
    return known


def search_cases(composition: str, arguments: argparse.Namespace) -> Iterator[SurveyCase]:
    """Yield the configurations to search, the smallest scopes first; then configurations for what
    the default variant never does, and budgets by hand."""
    if arguments.scope:
        yield SurveyCase(arguments.scope, arguments.variant or DEFAULT_VARIANT, arguments.engine)
        return
    small = [scope for scope in small_scopes() if composition_of(scope) == composition]
    planned = survey_cases(small, arguments.engine)
    if arguments.variant:
        planned = [SurveyCase(look.scope, arguments.variant, look.engine) for look in planned]
    yield from dict.fromkeys(planned)


def search(model: Model, look: SurveyCase, name: str) -> WitnessPath | None:
    """Return a shortest path in one configuration."""
    k = configuration_of(model, look.scope, look.variant)
    with ExplorationDisplay(f"{look.scope}, {look.variant}") as progress:
        return shortest(
            model,
            k,
            look.scope,
            events_of(model),
            name,
            engine=look.engine,
            progress=progress,
        )


def report_way(
    model: Model, look: SurveyCase, way: WitnessPath, asked: dict[str, Any], output: Output
) -> int:
    """Print and write what was found."""
    stepper = Stepper(model, configuration_of(model, look.scope, look.variant))
    trace, worlds = record(stepper, Header(look.scope, stepper.k.variant.name), way.steps)
    say(text(tell(model, trace.header, trace.steps, worlds)))
    say(f"{asked['name']}: {format_ending(way)}; {look.scope}, {stepper.k.variant.name}")
    content: dict[str, Any] = {
        **asked,
        "found_in": look.scope,
        "found_with": stepper.k.variant.name,
        "steps": len(trace.steps),
        "events": events(model, trace.steps),
        "tried": label(*way.tried) if way.tried else None,
        "trace": trace_json(trace),
        "verdict": "holds",
    }
    output.pictures(model, file_name(asked["name"]), trace)
    return output.finish(content)


def format_ending(way: WitnessPath) -> str:
    """Return how the path ends."""
    if way.tried:
        return f"reached behind step {len(way.steps)}, where {label(*way.tried)} is tried"
    if not way.steps:
        return "it is so from the beginning"
    return f"reached by step {len(way.steps)}, {label(*way.steps[-1])}"


# Stored traces


def store(arguments: argparse.Namespace) -> int:
    """Write a trace for each error code, state and edge: the shortest of the first configuration
    that has one."""
    compositions = [c for c in COMPOSITIONS if any(of_model(load_model(c)))]
    small = [scope for scope in small_scopes() if composition_of(scope) in compositions]
    with Output(arguments, store=str(arguments.store)) as output:
        every, _ = surveyed(survey_cases(small, arguments.engine), (), ExplorationDisplay)
        traces = [row for survey in every for row in stored(survey).items()]
        for name, trace in traces:
            write(trace, arguments.store / f"{file_name(name)}.jsonl")
        say(f"{len(traces)} traces in {arguments.store}")
        return output.finish({"stored": [name for name, _ in traces], "verdict": "holds"})
