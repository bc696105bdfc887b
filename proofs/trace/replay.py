"""Replay: runs a trace on the model's own functions, step by step.

This is the judge of every other form: a counterexample that some engine found counts only if it
replays here.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from model.faults import fit
from model.language import Disabled
from proofs.lift.build import is_unbounded
from proofs.lift.patch import Patch
from proofs.lift.source import Model, model_for, scope_names
from proofs.lift.values import Shapes
from proofs.run import nearest
from proofs.trace.format import Choice, Header, Instance, Trace, TraceStep
from proofs.trace.project import actors, digests, project

World = Any


class UnknownScope(ValueError):
    """No scope has this name; the message has the most similar names."""


class ReplayError(ValueError):
    """The trace does not run; `step` counts from 1."""

    def __init__(self, step: int, text: str, reason: str) -> None:
        super().__init__(f"step {step}, {text}: {reason}")
        self.step = step
        self.reason = reason


class StepNotEnabled(ReplayError):
    """The event cannot happen at this step; `by_scope` says that only a limit of the scope forbids
    it."""

    def __init__(self, step: int, text: str, *, by_scope: bool) -> None:
        why = "the scope's limits forbid it" if by_scope else "the protocol does not allow it"
        super().__init__(step, text, f"not enabled: {why}")
        self.by_scope = by_scope


class RecordedDifferently(ReplayError):
    """The step runs, but the trace recorded other answers or other states."""


def unbounded_scopes(model: Model) -> dict[str, Any]:
    """Return the scopes of liveness, if a model has any."""
    return getattr(model.modules.get("liveness"), "SCOPES", {})


def scope_of(model: Model, text: str) -> Any:
    """Return the scope that `NAME[/BUDGET=N...]` names, with some of its budgets, or the number of
    requests `in_flight`, replaced by hand.

    Raises UnknownScope.
    """
    name, *parts = text.split("/")
    scopes: dict[str, Any] = {**model.scopes.SCOPES, **unbounded_scopes(model)}
    if name not in scopes:
        near = nearest(name, (*scopes, *scope_names()), "list scopes")
        raise UnknownScope(f"no scope is called {name!r}; {near}")
    scope = scopes[name]
    for part in parts:
        scope = replace(with_part(scope, part), name=f"{scope.name}/{part}")
    return scope


def with_part(scope: Any, part: str) -> Any:
    """Return the scope with one `NAME=N` applied. Raises UnknownScope."""
    name, _, value = part.partition("=")
    if name != "in_flight":
        return replace(scope, budgets=with_budget(scope, part))
    most = scope.bounds.in_flight
    if not value.isdecimal() or not 1 <= int(value) <= most:
        raise UnknownScope(f"{part!r}: in {scope.name} write a number from 1 to {most}")
    return replace(scope, bounds=replace(scope.bounds, in_flight=int(value)))


def with_budget(scope: Any, part: str) -> Any:
    """Return the scope's budgets with one `BUDGET=N` applied. Raises UnknownScope."""
    name, _, value = part.partition("=")
    known = [f.name for f in fields(scope.budgets)]
    if name not in known:
        raise UnknownScope(f"{part!r}: no budget is called {name!r}; choose one of {known}")
    room = fit(scope.bounds, scope.budgets)
    last = getattr(room.faults if hasattr(room.faults, name) else room, name)
    if not value.isdecimal() or int(value) > last:
        raise UnknownScope(f"{part!r}: in {scope.name} write a number from 0 to {last}")
    return replace(scope.budgets, **{name: int(value)})


def configuration_of(model: Model, scope: str, variant: str) -> Any:
    """Return the configuration of a named scope and variant, in the classes of `model`.

    Raises UnknownScope and the model's UnknownVariant (a ValueError).
    """
    return scope_of(model, scope).configuration(model.variants.parse(variant))


def model_of(header: Header) -> Model:
    """Return the model that a trace runs on. Raises PatchError."""
    return model_for(header.scope, [Patch(*patch) for patch in header.patches])


@functools.lru_cache(maxsize=4096)
def domains(model: Model, k: Any, rule: str) -> dict[str, range]:
    """Return the possible values of each choice of a rule, by the choice's name, in their order."""
    shapes = Shapes(k.bounds)
    hints = typing.get_type_hints(model.rules[rule], include_extras=True)
    bounds = {n: shapes.bounds(h) for n, h in hints.items() if n not in ("k", "w", "return")}
    return {name: range(lo, hi + 1) for name, (lo, hi) in bounds.items()}


@dataclass(frozen=True, slots=True)
class Stepper:
    """The rules of one model in one configuration. A patched model has a `Disabled` class of its
    own."""

    model: Model
    k: Any

    def initial(self) -> World:
        """Return the world in which the scope begins."""
        return self.model.scopes.initial(self.k)

    def apply(self, rule: str, choice: Choice, world: World) -> World:
        """Return the world after one rule instance. Raises the model's Disabled."""
        after = self.model.rules[rule](self.k, world, *(value for _, value in choice))
        return self.model.canonical_form.normal(self.k, after) if is_unbounded(self.k) else after

    def after(self, rule: str, choice: Choice, world: World) -> World | None:
        """Return the world after one rule instance; None if it is not enabled."""
        try:
            return self.apply(rule, choice, world)
        except Disabled:
            return None

    def check(self, step: TraceStep, number: int) -> None:
        """Check that the rule and its choices exist. Raises ReplayError."""
        if step.rule not in self.model.rules:
            known = ", ".join(self.model.rules)
            raise ReplayError(number, step.label, f"no such rule; the rules are {known}")
        allowed = domains(self.model, self.k, step.rule)
        given = dict(step.choice)
        if given.keys() != allowed.keys():
            wanted = ", ".join(allowed) or "nothing"
            raise ReplayError(number, step.label, f"its choices are {wanted}")
        for name, value in given.items():
            if value not in allowed[name]:
                least, last = allowed[name].start, allowed[name].stop - 1
                raise ReplayError(number, step.label, f"{name} is from {least} to {last}")

    def in_order(self, step: TraceStep) -> Choice:
        """Return the step's choices in the order of the rule's parameters."""
        given = dict(step.choice)
        return tuple((name, given[name]) for name in domains(self.model, self.k, step.rule))

    def run(self, steps: Iterable[TraceStep]) -> Iterator[World]:
        """Yield the first world and the one after each step. Raises ReplayError."""
        world = self.initial()
        yield world
        for number, step in enumerate(steps, start=1):
            self.check(step, number)
            try:
                world = self.apply(step.rule, self.in_order(step), world)
            except Disabled as disabled:
                raise StepNotEnabled(number, step.label, by_scope=disabled.by_scope) from disabled
            yield world


def grown(before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what was appended to a tuple in one step, which removed at most the first element."""
    kept = before if after[: len(before)] == before else before[1:]
    return after[len(kept) :]


def answers(before: World, after: World) -> tuple[Any, ...]:
    """Return the messages that set out from leaders in one step, in the order of their links."""
    earlier = actors(before)
    return tuple(
        message
        for place, link in actors(after).items()
        if hasattr(link, "answers")
        for message in grown(earlier[place].answers, link.answers)
    )


def record(
    stepper: Stepper, header: Header, instances: Iterable[Instance]
) -> tuple[Trace, tuple[World, ...]]:
    """Return a trace with its answers and digests, and its worlds. Raises ReplayError."""
    bare = tuple(TraceStep(rule, choice) for rule, choice in instances)
    worlds = tuple(stepper.run(bare))
    steps = tuple(
        TraceStep(
            step.rule,
            stepper.in_order(step),
            tuple(project(a) for a in answers(before, after)),
            digests(after),
        )
        for step, before, after in zip(bare, worlds, worlds[1:], strict=False)
    )
    return Trace(header, steps), worlds


def compare(number: int, step: TraceStep, before: World, after: World) -> None:
    """Check that what the trace recorded is what happened. Raises RecordedDifferently."""
    sent = [project(a) for a in answers(before, after)]
    if step.answers is not None and list(step.answers) != sent:
        raise RecordedDifferently(
            number, step.label, f"recorded answers {list(step.answers)}, the model's are {sent}"
        )
    if step.digests is not None:
        now = digests(after)
        for place in sorted(now.keys() | step.digests.keys()):
            recorded, digest = step.digests.get(place), now.get(place)
            if recorded != digest:
                reason = f"{place} has digest {digest}, the trace says {recorded}"
                raise RecordedDifferently(number, step.label, reason)


def replay(trace: Trace, model: Model | None = None) -> tuple[World, ...]:
    """Return the worlds of a trace, including the first, after comparing everything that it
    recorded.

    Raises ReplayError, UnknownScope, the model's UnknownVariant, PatchError.
    """
    chosen = model_of(trace.header) if model is None else model
    stepper = Stepper(chosen, configuration_of(chosen, trace.header.scope, trace.header.variant))
    worlds = tuple(stepper.run(trace.steps))
    for number, step in enumerate(trace.steps, start=1):
        compare(number, step, worlds[number - 1], worlds[number])
    return worlds
