"""Goals: under which condition each rule, each point and each error code is met, as nodes.

The model's text is evaluated once for each rule instance, as for every other form, by an
evaluator that notes where it comes by. A goal is a rule instance with a condition: the goal is
met in a state where the condition holds, by this instance. A point inside a limit is met where the
instance is only *tried*, any other where it fires.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proofs.coverage.points import Site, errors_of, is_limit
from proofs.lift import dag
from proofs.lift.build import choices, symbolic_world
from proofs.lift.dag import Node
from proofs.lift.evaluate import Evaluator, Frame
from proofs.lift.text import Model
from proofs.lift.values import Rec, Shapes
from proofs.trace.format import Instance

ANSWER = "Response"
"""How the name of a record ends that is an answer; its error stands in the field `error`."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What must hold of a state so that the instance meets the point there."""

    instance: Instance
    condition: Node
    fires: bool


Goals = dict[str, list[Goal]]
"""By the name of the point, with all the ways to meet it that are not folded away."""


class Watcher(Evaluator):
    """An evaluator that notes each point's conditions. One for each rule instance."""

    def __init__(self, model: Model, k: Any, sites: Mapping[int, Site]) -> None:
        super().__init__(model, k)
        self.noted: list[tuple[str, Node, bool]] = []
        self._sites = sites
        self._tried = False

    def note(self, point: str, condition: Node) -> None:
        """The point is met where the evaluation is now, if the condition holds."""
        met = dag.both(self.path, condition)
        if met is not dag.FALSE:
            self.noted.append((point, met, not self._tried))

    def boolean(self, node: ast.expr, frame: Frame) -> Node:
        """The value of a condition, noted if it decides something."""
        condition = super().boolean(node, frame)
        site = self._sites.get(id(node))
        if site is not None:
            self.note(site.point(holds=True).name, condition)
            self.note(site.point(holds=False).name, dag.negate(condition))
        return condition

    def statement_expression(self, expression: ast.expr, frame: Frame) -> None:
        """What is inside a limit is met where the event is tried."""
        outside = self._tried
        self._tried = outside or is_limit(expression)
        super().statement_expression(expression, frame)
        self._tried = outside

    def construct(self, cls: type, values: Mapping[str, Any]) -> Rec:
        """A record; an answer is noted with its error."""
        made = super().construct(cls, values)
        if cls.__name__.endswith(ANSWER) and "error" in made.fields:
            for error in errors_of(self.model):
                self.note(error.name, dag.eq(made.fields["error"], dag.const(int(error))))
        return made


def instance_goals(
    model: Model, k: Any, world: Rec, instance: Instance, sites: Mapping[int, Site]
) -> dict[str, list[Goal]]:
    """The goals of one rule instance, by point: where it fires, where it is tried."""
    rule, choice = instance
    watcher = Watcher(model, k, sites)
    watcher.call(model.rules[rule], [k, world, *(dag.const(value) for _, value in choice)])
    guard = dag.conjunction(limit.condition for limit in watcher.limits)
    met: dict[tuple[str, bool], Node] = {(rule, True): guard}
    for point, condition, fires in watcher.noted:
        where = dag.both(guard, condition) if fires else condition
        met[point, fires] = dag.either(met.get((point, fires), dag.FALSE), where)
    found: dict[str, list[Goal]] = {}
    for (point, fires), where in met.items():
        if where is not dag.FALSE:
            found.setdefault(point, []).append(Goal(instance, where, fires))
    return found


def goals(model: Model, k: Any, sites: Mapping[int, Site]) -> Goals:
    """The goals of a setting, by point. What is folded away in all instances is not there."""
    shapes = Shapes(k.layout)
    world = symbolic_world(model, shapes)
    found: Goals = {}
    for rule, function in model.rules.items():
        for choice in choices(shapes, function):
            for point, ways in instance_goals(model, k, world, (rule, choice), sites).items():
                found.setdefault(point, []).extend(ways)
    return found
