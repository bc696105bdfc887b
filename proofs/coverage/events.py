"""The events of the environment: each is a rule with a condition.

Events of the world declare them as incidents; a condition is a function of the model, lifted like
the rule itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from model.language import declaration_of
from proofs.coverage.pairs import Happens
from proofs.lift import dag
from proofs.lift.evaluate import Evaluator
from proofs.lift.source import Model
from proofs.lift.values import Rec
from proofs.trace.format import Instance


@dataclass(frozen=True, slots=True)
class CoverageEvent:
    """Something that the environment does: a rule, if the condition holds before it."""

    name: str
    rule: str
    condition: Callable[..., bool] | None


def events_of(model: Model) -> tuple[CoverageEvent, ...]:
    """Return a model's events. An event of several rules is listed for each."""
    return tuple(
        CoverageEvent(incident.name, name, incident.condition)
        for name, rule in model.rules.items()
        for incident in declaration_of(rule).incidents
    )


def condition_of(
    model: Model, k: Any, world: Rec, event: CoverageEvent, choice: Iterable[tuple[str, int]]
) -> dag.Node:
    """Return the condition under which a rule with its choices made is the event."""
    if event.condition is None:
        return dag.TRUE
    tree = model.tree_of(event.condition)
    assert tree is not None
    known = {"k": k, "w": world, **{name: dag.const(value) for name, value in choice}}
    arguments = [known[a.arg] for a in tree.args.args]
    condition: dag.Node = Evaluator(model, k).call(event.condition, arguments)
    return condition


def conditions(
    model: Model, k: Any, world: Rec, event: CoverageEvent, of: Iterable[Instance]
) -> Iterator[tuple[Instance, dag.Node]]:
    """Yield the rule instances that can be an event, with the condition for this."""
    for rule, choice in of:
        if rule == event.rule:
            condition = condition_of(model, k, world, event, choice)
            if condition is not dag.FALSE:
                yield (rule, choice), condition


def happening(
    model: Model, k: Any, world: Rec, events: Iterable[CoverageEvent], of: Sequence[Instance]
) -> dict[str, Happens]:
    """Return the events that can happen in a lifted configuration, by name."""
    found: dict[str, dict[Instance, dag.Node]] = {}
    for event in events:
        for instance, condition in conditions(model, k, world, event, of):
            can_be = found.setdefault(event.name, {})
            can_be[instance] = dag.either(can_be.get(instance, dag.FALSE), condition)
    return dict(found)
