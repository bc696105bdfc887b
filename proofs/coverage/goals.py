"""Goals: the conditions, as nodes, under which each rule, point and error code is met.

The model's text is evaluated once for each rule instance, as for every other form, by an evaluator
that notes each point that it reaches. A goal is a rule instance with a condition: a state in which
the condition holds meets the goal when the instance is tried there. After a rule's last limit this
means that the rule fires; rules and error codes are met only if it does.
"""

from __future__ import annotations

import ast
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proofs.coverage.points import Site, errors_of
from proofs.lift import dag
from proofs.lift.build import choices, symbolic_world
from proofs.lift.dag import Node
from proofs.lift.evaluate import Evaluator, Frame
from proofs.lift.source import Model
from proofs.lift.values import Rec, Shapes
from proofs.trace.format import Instance

ANSWERS = ("Response", "Answer")
"""The endings of the names of records that are answers; their field `error` has the error."""


@dataclass(frozen=True, slots=True)
class Goal:
    """The conditions on a state under which the instance meets the point, and under which it
    fires."""

    instance: Instance
    condition: Node
    guard: Node


Goals = dict[str, list[Goal]]
"""The goals that are not folded away, by the name of their point."""


class PointWatcher(Evaluator):
    """An evaluator that notes when it reaches each point. Each rule instance has its own."""

    def __init__(self, model: Model, k: Any, sites: Mapping[int, Site]) -> None:
        super().__init__(model, k)
        self.met: dict[str, Node] = {}
        self.answered: dict[str, Node] = {}
        self._sites = sites
        self._is_naming = False

    def note(self, met: dict[str, Node], name: str, condition: Node) -> None:
        """Note that the point is met at the current place of evaluation, if the condition holds."""
        here = dag.both(self.path, condition)
        met[name] = dag.either(met.get(name, dag.FALSE), here)

    def boolean(self, node: ast.expr, frame: Frame) -> Node:
        """Return the value of a condition, noted if it decides something."""
        condition = super().boolean(node, frame)
        site = self._sites.get(id(node))
        if site is not None:
            self.note(self.met, site.point(holds=True).name, condition)
            self.note(self.met, site.point(holds=False).name, dag.negate(condition))
        return condition

    def lift(self, value: Any) -> Any:
        """Return a constant of the text; naming an answer does not send one."""
        outer, self._is_naming = self._is_naming, True
        lifted = super().lift(value)
        self._is_naming = outer
        return lifted

    def construct(self, cls: type, values: Mapping[str, Any]) -> Rec:
        """Return a record; an answer is noted with its error."""
        made = super().construct(cls, values)
        if cls.__name__.endswith(ANSWERS) and "error" in made.fields and not self._is_naming:
            self.note_error(made.fields["error"])
        return made

    def call(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """Return the value of a call; an actor's answer that is only an error is noted too."""
        value = super().call(function, arguments)
        if is_answered_with_error(self.model, function):
            self.note_error(value if isinstance(value, Node) else value.fields["sends"].slots[0])
        return value

    def note_error(self, answered: Node) -> None:
        """Note each error code that the answer can be."""
        for error in errors_of(self.model):
            self.note(self.answered, error.name, dag.eq(answered, dag.const(int(error))))


def is_answered_with_error(model: Model, function: Callable[..., Any]) -> bool:
    """Whether an actor's rule answers with an `Error` alone, or with a step that sends one."""
    if model.actor_rules.get(function.__name__) is not function:
        return False
    hint = typing.get_type_hints(function)["return"]
    errors = getattr(model.messages, "Error", None)
    return errors is not None and (hint is errors or errors in typing.get_args(hint))


def instance_goals(
    model: Model, k: Any, world: Rec, instance: Instance, sites: Mapping[int, Site]
) -> dict[str, Goal]:
    """Return the goals of one rule instance, by point, except those that are folded away."""
    rule, choice = instance
    watcher = PointWatcher(model, k, sites)
    watcher.call(model.rules[rule], [k, world, *(dag.const(value) for _, value in choice)])
    guard = dag.conjunction(limit.condition for limit in watcher.limits)
    fired = {rule: guard} | {e: dag.both(guard, met) for e, met in watcher.answered.items()}
    return {
        name: Goal(instance, condition, guard)
        for name, condition in {**watcher.met, **fired}.items()
        if condition is not dag.FALSE
    }


def goals(model: Model, k: Any, sites: Mapping[int, Site]) -> Goals:
    """Return the goals of a configuration, by point, except points that are folded away in all
    instances."""
    shapes = Shapes(k.bounds)
    world = symbolic_world(model, shapes)
    found: Goals = {}
    for rule, function in model.rules.items():
        for choice in choices(shapes, function):
            for point, goal in instance_goals(model, k, world, (rule, choice), sites).items():
                found.setdefault(point, []).append(goal)
    return found
