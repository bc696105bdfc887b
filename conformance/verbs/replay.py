"""`replay`: plays one trace on the model or on a system, step by step, until the first
difference."""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from conformance.adapters.brokers.backend import BrokersBackend, Replayed
from conformance.adapters.clients.recorded_run import is_client_trace, judge_file
from conformance.adapters.impl.judges import judge_of
from conformance.judging.compositions import IDEMPOTENT, judged_composition
from conformance.judging.findings import finding_of
from conformance.judging.guaranteed import HOLDS, VIOLATED
from conformance.judging.judge import Steps
from conformance.judging.plan import ACTORS, FORMS, NODES, Plan, check_plan, prepare_one
from conformance.judging.reports.pages import differing
from conformance.judging.reports.report import AT_FAULT, UNDECIDED, sentence
from conformance.judging.signatures import Finding
from conformance.verbs import run
from conformance.verbs.over_wire import check_listening
from conformance.verbs.run import DEFAULTS, actors_of, add_codec
from conformance.verbs.targets import target_of
from proofs.run import EXIT_CODES, BadUse, one_of
from proofs.run.files import write_json
from proofs.say import say
from proofs.trace.breach import breaches
from proofs.trace.format import Trace, read
from proofs.trace.replay import RecordedDifferently, Stepper, configuration_of, model_of, replay

SCHEMA_VERSION: Final = 2

MODEL: Final = "model"
SYSTEMS: Final = (MODEL, "impl", NODES, "serve", "kafka", "wire")
ADDRESS: Final = "wire://HOST:PORT"
STOPPED: Final = ("serve", "kafka")
"""Systems whose single broker is stopped in traces of leaders."""
AT_BROKERS: Final = (NODES, "serve", "kafka", "wire")

Difference = dict[str, Any] | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `replay`."""
    parser.add_argument("trace", type=Path, help="a trace file, as run and explore write it")
    there_are = ", ".join((*SYSTEMS[:-1], ADDRESS))
    parser.add_argument("--system", default=MODEL, help=f"{there_are} (default: {MODEL})")
    parser.add_argument("--kafka", metavar="RELEASE", help="of kafka (default: the trace's)")
    parser.add_argument(
        "--nodes", type=int, metavar="N", help=f"of {', '.join(run.WITH_NODES)}: 1 or 3"
    )
    parser.add_argument("--actors", help=f"of impl: {' or '.join(ACTORS)}")
    add_codec(parser, f"(of impl; default: {DEFAULTS.on})")
    parser.add_argument("--ignore", action="append", metavar="MASK", help="as of `run`")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the answer as JSON")


def execute(options: argparse.Namespace) -> int:
    """Replay; 0 if nothing differs, 1 if something does.

    Raises TraceError, ReplayError, UnknownScope, UnknownVariant, BadUse for a file that is no
    trace.
    """
    system = one_of("--system", options.system.partition("://")[0], SYSTEMS)
    if is_client_trace(options.trace):
        return replay_client(options)
    trace = read(options.trace)
    if system != MODEL and trace.header.patches:
        raise BadUse(patched_text(trace))
    difference, left_out = replay_on_model(trace), ""
    if difference is None and system in AT_BROKERS:
        difference, left_out = replay_on_brokers(trace, options)
    elif difference is None and system != MODEL:
        difference = replay_on_system(trace, options)
    verdict = VIOLATED if difference else UNDECIDED if left_out else HOLDS
    broken = {} if difference else broken_at_end(trace)
    for line in format_replay(trace, difference, left_out, [*broken.values()]):
        say(line)
    if system == MODEL and difference is None:
        for line in differed_elsewhere(trace, options.trace):
            say(line)
    agreed = f" ({options.system} does what the trace says, and that breaks: {', '.join(broken)})"
    say(f"verdict: {verdict}{agreed if broken else ''}")
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
            "left_out": left_out,
            "patches": [list(patch) for patch in trace.header.patches],
            "broken_at_end": [*broken],
            "verdict": verdict,
        },
    )
    return EXIT_CODES[verdict]


def differed_elsewhere(trace: Trace, file: Path) -> list[str]:
    """The difference that a system showed after the trace, and the command that shows it again. A
    model that agrees with its own trace says nothing about the system."""
    header = trace.header
    if not header.differs:
        return []
    system = ADDRESS if header.system == "wire" else header.system
    return [
        f"that is the model; {header.system} differs behind the last step:"
        f" {'; '.join(differing(header))}",
        f"to judge it again: kafka-eos replay {file} --system {system}",
    ]


def replay_client(options: argparse.Namespace) -> int:
    """Judge a client's run again: it cannot be replayed, because a client decides which requests it
    sends. Raises BadUse, BadClientTrace."""
    if options.system != MODEL:
        raise BadUse(f"{options.trace} is a client's run; leave --system out to judge it again")
    judged = judge_file(options.trace)
    found = judged.finding
    at_fault = found is not None and found["breaks"] in AT_FAULT
    verdict = VIOLATED if at_fault else UNDECIDED if judged.outcome.shows_nothing else HOLDS
    say(f"{judged.trace.client}, run {judged.trace.plan.number}, judged again")
    if found is not None:
        say(f"{sentence(found)}; breaks {found['breaks']}")
    say(f"verdict: {verdict}")
    write_json(
        options.json,
        {
            "schema_version": SCHEMA_VERSION,
            "trace": options.trace.name,
            "system": f"client {judged.trace.client}",
            "first_divergence": found,
            "verdict": verdict,
        },
    )
    return EXIT_CODES[verdict]


def replay_on_model(trace: Trace) -> Difference:
    """The first step at which the model differs from the recorded trace. Raises ReplayError if the
    file is no trace."""
    try:
        replay(trace)
    except RecordedDifferently as error:
        rule = trace.steps[error.step - 1].rule
        return {"step": error.step, "rule": rule, "reason": error.reason}
    return None


def patched_text(trace: Trace) -> str:
    """The reason why a trace of a patched model is not played on a system."""
    names = ", ".join(dict.fromkeys(function for function, _, _ in trace.header.patches))
    return (
        f"the trace is of a model with a patch in {names}; systems are judged by the model as it"
        " is; leave --system out to replay it on the patched model"
    )


def broken_at_end(trace: Trace) -> dict[str, str]:
    """The guarantees that the trace's last world breaks, by the trace's own model, each with a
    sentence. If there are any, the trace is a counterexample."""
    model = model_of(trace.header)
    k = configuration_of(model, trace.header.scope, trace.header.variant)
    worlds = [*Stepper(model, k).run(trace.steps)]
    return {each.name: each.sentence for each in breaches(model, k, trace.steps, worlds)}


def replay_on_system(trace: Trace, options: argparse.Namespace) -> Difference:
    """The first step at which the system differs. Raises BadPlan, BadUse, NotAllowed."""
    plan = check_plan(
        Plan(
            scope=trace.header.scope,
            variant=trace.header.variant,
            seed=trace.header.seed,
            system=options.system,
            actors=actors_of(options.actors, trace.header.scope),
            on=one_of("--codec", options.on or DEFAULTS.on, FORMS),
            ignored=tuple(options.ignore or ()),
        )
    )
    divergence = judge_of(plan).judge(steps_in(trace)).divergence
    if divergence is None:
        return None
    return difference_of(finding_of(0, divergence))


def steps_in(trace: Trace) -> Steps:
    """The rules of a trace that the model has replayed, with their choices in the order of the
    rules: judges read them by position, and JSON keeps no order."""
    header = trace.header
    model = judged_composition(header.scope).model
    stepper = Stepper(model, configuration_of(model, header.scope, header.variant))
    return tuple((step.rule, stepper.in_order(step)) for step in trace.steps)


def difference_of(found: Finding) -> dict[str, Any]:
    """A finding in the form that `replay` prints."""
    named = {name: found[name] for name in ("rule", "expected", "observed")}
    return {"step": found["steps"], **named, "reason": sentence(found)}


# At brokers


def replay_on_brokers(trace: Trace, options: argparse.Namespace) -> tuple[Difference, str]:
    """The first step, or probe, at which brokers differ; and the reason if the replay is undecided.

    Raises BadUse, NotApplicable, CannotPlay, BackendError.
    """
    as_run, steps = arguments_of_run(trace, options), steps_in(trace)
    if options.system.startswith("wire:"):
        check_listening(trace.header.scope, options.system)
    subject = target_of(run.plan_of(as_run), as_run)
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepare_one(check_plan(subject.traces), Path(folder), 1, len(steps))
        with subject.opens(prepared, Path(folder) / "backend.log") as system:
            backend = system.backend()
            assert isinstance(backend, BrokersBackend), "brokers are driven by scripts"
            replayed = backend.replayed(steps)
    found = None if replayed.finding is None else difference_of(replayed.finding)
    return found, "" if found else left_out_of(steps, replayed)


def arguments_of_run(trace: Trace, options: argparse.Namespace) -> argparse.Namespace:
    """The arguments of the `run` that judges such traces at this system. Raises BadUse."""
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    header, with_nodes = trace.header, options.nodes == 3
    given = ["--system", options.system, "--scope", header.scope, "--variant", header.variant]
    is_idempotent = judged_composition(header.scope) is IDEMPOTENT
    if with_nodes or (options.system in STOPPED and is_idempotent):
        given += ["--faults", "nodes"]
    for name in ("kafka", "nodes", "actors", "on"):
        value = getattr(options, name)
        given += [] if value is None else [f"--{name}", str(value)]
    given += [word for mask in options.ignore or () for word in ("--ignore", mask)]
    return parser.parse_args(given)


def left_out_of(steps: Steps, replayed: Replayed) -> str:
    """The reason why the replay is undecided; "" if the trace was played to its end."""
    if replayed.is_undecided:
        return "the broker did not come to rest in time"
    missing = sorted({rule for rule, _ in Counter(steps) - Counter(replayed.steps)})
    return f"not played there: {', '.join(missing)}" if missing else ""


def format_replay(
    trace: Trace, difference: Difference, left_out: str, broken: Sequence[str]
) -> list[str]:
    """The steps up to the first difference, and the difference; else the state at the end."""
    lines = [f"{trace.header.scope}, {trace.header.variant}"]
    lines += [f"patched in {f}: {before}  =>  {after}" for f, before, after in trace.header.patches]
    last = len(trace.steps) if difference is None else difference["step"]
    lines += [f"{n:4}.  {step.label}" for n, step in enumerate(trace.steps[:last], start=1)]
    if difference is None:
        return [*lines, left_out or f"{last} steps, no difference", *broken]
    return [*lines, f"first difference: {difference['reason']}"]
