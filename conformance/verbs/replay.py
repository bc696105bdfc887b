"""`replay`: one trace on the model or on a system, step by step, until the first difference."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from conformance.plan import ACTORS, FORMS, Plan, checked, finding_of, judge_of
from conformance.promised import HOLDS, VIOLATED
from conformance.report import sentence
from conformance.verbs import EXIT_CODES, Verb, one_of, write_json
from conformance.verbs.arguments import DEFAULTS, actors_of
from proofs.say import say
from proofs.trace.format import Trace, read
from proofs.trace.replay import RecordedDifferently, replay

SCHEMA_VERSION: Final = 1

MODEL: Final = "model"
SYSTEMS: Final = (MODEL, "impl")

Difference = dict[str, Any] | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """All that `replay` takes."""
    parser.add_argument("trace", type=Path, help="a trace file, as run and explore write it")
    parser.add_argument("--system", default=MODEL, help=f"{' or '.join(SYSTEMS)} (default: model)")
    parser.add_argument("--actors", help=f"of the system: {' or '.join(ACTORS)}")
    parser.add_argument("--on", default=DEFAULTS.on, help=f"{' or '.join(FORMS)} (default: bytes)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the answer as JSON")


def execute(options: argparse.Namespace) -> int:
    """Replay; 0 if nothing differs, 1 if something does.

    Raises TraceError, ReplayError, UnknownScope, UnknownVariant, BadUse for a trace that is none.
    """
    one_of("--system", options.system, SYSTEMS)
    trace = read(options.trace)
    difference = on_model(trace)
    if difference is None and options.system != MODEL:
        difference = on_system(trace, options)
    verdict = HOLDS if difference is None else VIOLATED
    for line in told(trace, difference):
        say(line)
    say(f"verdict: {verdict}")
    write_json(
        options.json,
        {
            "schema_version": SCHEMA_VERSION,
            "trace": options.trace.name,
            "system": options.system,
            "scope": trace.header.scope,
            "variant": trace.header.variant,
            "steps": len(trace.steps),
            "first_divergence": difference,
            "verdict": verdict,
        },
    )
    return EXIT_CODES[verdict]


def on_model(trace: Trace) -> Difference:
    """The first step that the trace recorded otherwise. Raises ReplayError if it is no trace."""
    try:
        replay(trace)
    except RecordedDifferently as error:
        rule = trace.steps[error.step - 1].rule
        return {"step": error.step, "rule": rule, "reason": error.reason}
    return None


def on_system(trace: Trace, options: argparse.Namespace) -> Difference:
    """The first step in which the system differs. Raises BadPlan, BadUse, NotAllowed."""
    plan = checked(
        Plan(
            scope=trace.header.scope,
            variant=trace.header.variant,
            seed=trace.header.seed,
            system=options.system,
            actors=actors_of(options.actors, trace.header.scope),
            on=one_of("--on", options.on, FORMS),
        )
    )
    divergence = judge_of(plan).judge(tuple((s.rule, s.choice) for s in trace.steps)).divergence
    if divergence is None:
        return None
    found = finding_of(0, divergence)
    return {
        "step": divergence.step,
        "rule": found["rule"],
        "expected": found["expected"],
        "observed": found["observed"],
        "reason": sentence(found),
    }


def told(trace: Trace, difference: Difference) -> list[str]:
    """The steps up to the first difference, and the difference."""
    lines = [f"{trace.header.scope}, {trace.header.variant}"]
    last = len(trace.steps) if difference is None else difference["step"]
    lines += [f"{n:4}.  {step.label}" for n, step in enumerate(trace.steps[:last], start=1)]
    if difference is None:
        return [*lines, f"{last} steps, no difference"]
    return [*lines, f"first difference: {difference['reason']}"]


VERB = Verb(
    "Play a trace on the model, and with --system impl on the implementation too.",
    add_arguments,
    execute,
)
