"""Stored witnesses: a shortest trace for each error code, each state and each edge between states.

The files are traces like any other, without answers and digests. Their last step must do what their
name says; this is checked against the model's own text each time (`shown`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from enum import IntEnum
from pathlib import Path
from types import FrameType
from typing import Any

from proofs.coverage.goals import ANSWERS, is_answered_with_error
from proofs.coverage.report import every_point
from proofs.coverage.states import of_model
from proofs.coverage.survey import Survey
from proofs.lift.source import Model
from proofs.trace.format import Header, Trace, TraceStep
from proofs.trace.replay import Stepper, configuration_of

STORED = ("error_codes", "states", "edges")
"""The kinds of points for which traces are stored."""

NO_PUNCTUATION = str.maketrans("#:>", "---")


def file_name(name: str) -> str:
    """Return a file name for a point."""
    return name.translate(NO_PUNCTUATION)


def name_of(path: Path) -> str:
    """Return the point that a stored file is about."""
    return path.stem.replace("--", "->")


def stored(survey: Survey) -> dict[str, Trace]:
    """Return the traces to store, by name."""
    found = {}
    for point in every_point(survey):
        if point.kind in STORED and point.name in survey.points:
            seen = survey.points[point.name]
            k = configuration_of(survey.model, seen.look.scope, seen.look.variant)
            steps = tuple(TraceStep(rule, choice) for rule, choice in seen.way.steps)
            found[point.name] = Trace(Header(seen.look.scope, k.variant.name), steps)
    return found


# What the last step of a trace shows, on the source


def points_of_last_step(model: Model, trace: Trace) -> set[str]:
    """Return the error codes that the last step answers, the states that actors have after it, and
    the edges that they took. Raises ReplayError."""
    stepper = Stepper(model, configuration_of(model, trace.header.scope, trace.header.variant))
    *_, before, after = [None, *stepper.run(trace.steps)]
    found: set[str] = set()
    if before is not None:
        last = trace.steps[-1]
        choice = stepper.in_order(last)
        found |= answered_errors(model, lambda: stepper.apply(last.rule, choice, before))
    for _, enum in of_model(model):
        now = states_of(after, enum)
        found |= {state.name for state, _ in now}
        then = states_of(before, enum) if before is not None else now
        moved = (pair for pair in zip(then, now, strict=True) if pair[0] != pair[1])
        found |= {f"{begin.name}->{end.name}" for (begin, _), (end, _) in moved}
    return found


def states_of(world: Any, enum: type[IntEnum]) -> list[tuple[IntEnum, Any]]:
    """Return the states of all actors, each with the record that contains it."""
    return [
        state
        for field in fields(world)
        for actor in each(getattr(world, field.name))
        for state in first_state(actor, enum)
    ]


def each(value: Any) -> Iterable[Any]:
    """Return the actors of a field: the values of a map, or the single one."""
    return value.values() if hasattr(value, "values") else (value,)


def first_state(value: Any, enum: type[IntEnum]) -> list[tuple[IntEnum, Any]]:
    """Return an actor's state, if it has one: the one that it knows comes before copies on their
    way."""
    if not is_dataclass(value):
        return []
    inner = [getattr(value, field.name) for field in fields(value)]
    own = [(part, value) for part in inner if isinstance(part, enum)]
    return own[:1] or next((found for part in inner if (found := first_state(part, enum))), [])


def answered_errors(model: Model, step: Callable[[], Any]) -> set[str]:
    """Return the errors that are answered in a step: in records, or alone."""
    rules = model.actor_rules.values()
    bare = {rule.__code__ for rule in rules if is_answered_with_error(model, rule)}
    errors: set[str] = set()

    def watch(frame: FrameType, event: str, value: Any) -> None:
        made = frame.f_locals.get("self") if frame.f_code.co_name == "__init__" else None
        if event == "return" and type(made).__name__.endswith(ANSWERS):
            errors.add(made.error.name)  # type: ignore[union-attr]
        if event == "return" and frame.f_code in bare and value is not None:
            errors.update(error.name for error in getattr(value, "sends", (value,)))

    earlier = sys.getprofile()
    sys.setprofile(watch)
    try:
        step()
    finally:
        sys.setprofile(earlier)
    return errors
