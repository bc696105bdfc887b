"""Goals: under which condition each rule, each point and each error code is met, as nodes.

The model's text is evaluated once for each rule instance, as for every other form, by an
evaluator that notes where it comes by. A goal is a rule instance with a condition: it is met in a
state where the condition holds, by this instance being tried there. Behind a rule's last limit
that means that it fires; rules and error codes are met only where it does.
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
"""How the name of a record ends that is an answer; its error stands in the field `error`."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What must hold of a state so that the instance meets the point, and so that it fires."""

    instance: Instance
    condition: Node
    guard: Node


Goals = dict[str, list[Goal]]
"""By the name of the point, with all the ways to meet it that are not folded away."""


class PointWatcher(Evaluator):
    """An evaluator that notes when it comes by each point. One for each rule instance."""

    def __init__(self, model: Model, k: Any, sites: Mapping[int, Site]) -> None:
        super().__init__(model, k)
        self.met: dict[str, Node] = {}
        self.answered: dict[str, Node] = {}
        self._sites = sites
        self._is_naming = False

    def note(self, met: dict[str, Node], name: str, condition: Node) -> None:
        """It is met where the evaluation is now, if the condition holds."""
        here = dag.both(self.path, condition)
        met[name] = dag.either(met.get(name, dag.FALSE), here)

    def boolean(self, node: ast.expr, frame: Frame) -> Node:
        """The value of a condition, noted if it decides something."""
        condition = super().boolean(node, frame)
        site = self._sites.get(id(node))
        if site is not None:
            self.note(self.met, site.point(holds=True).name, condition)
            self.note(self.met, site.point(holds=False).name, dag.negate(condition))
        return condition

    def lift(self, value: Any) -> Any:
        """A constant of the text: to name it is no answer."""
        outer, self._is_naming = self._is_naming, True
        lifted = super().lift(value)
        self._is_naming = outer
        return lifted

    def construct(self, cls: type, values: Mapping[str, Any]) -> Rec:
        """A record; an answer is noted with its error."""
        made = super().construct(cls, values)
        if cls.__name__.endswith(ANSWERS) and "error" in made.fields and not self._is_naming:
            self.note_error(made.fields["error"])
        return made

    def call(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """A call; what an actor answers with nothing but an error is noted too."""
        value = super().call(function, arguments)
        if is_answered_with_error(self.model, function):
            self.note_error(value if isinstance(value, Node) else value.fields["sends"].slots[0])
        return value

    def note_error(self, answered: Node) -> None:
        """Each error code that it can be."""
        for error in errors_of(self.model):
            self.note(self.answered, error.name, dag.eq(answered, dag.const(int(error))))


def is_answered_with_error(model: Model, function: Callable[..., Any]) -> bool:
    """An actor's rule whose answer is an `Error`, or a step that sends one."""
    if model.actor_rules.get(function.__name__) is not function:
        return False
    hint = typing.get_type_hints(function)["return"]
    errors = getattr(model.messages, "Error", None)
    return errors is not None and (hint is errors or errors in typing.get_args(hint))


def instance_goals(
    model: Model, k: Any, world: Rec, instance: Instance, sites: Mapping[int, Site]
) -> dict[str, Goal]:
    """The goals of one rule instance, by point, but for what is folded away."""
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
    """The goals of a configuration, by point. What is folded away in all instances is not there."""
    shapes = Shapes(k.bounds)
    world = symbolic_world(model, shapes)
    found: Goals = {}
    for rule, function in model.rules.items():
        for choice in choices(shapes, function):
            for point, goal in instance_goals(model, k, world, (rule, choice), sites).items():
                found.setdefault(point, []).append(goal)
    return found
