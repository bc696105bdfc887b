"""Whether each event can happen at all: some scope, of some Kafka, meets what it requires.

What no scope meets is never explored, and what a proof says of it nobody can compare with anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple
from typing import Any

from proofs.lift.build import choices, world_of
from proofs.lift.dag import FALSE, conjunction
from proofs.lift.evaluate import Evaluator
from proofs.lift.source import Model
from proofs.lift.values import shapes_of


class ImpossibleEvent(ValueError):
    """No scope meets what an event requires."""


def demand_possible_events(model: Model) -> None:
    """Raises ImpossibleEvent that names each event that can happen nowhere."""
    lost = [event for event in model.rules if not is_possible(model, event)]
    if lost:
        raise ImpossibleEvent(
            f"no scope of any Kafka meets what these events of {model.name} require:"
            f" {', '.join(lost)}\n"
            "Add a scope (scopes.py) in which each can happen, or correct what it requires."
        )


def is_possible(model: Model, event: str) -> bool:
    """Whether its guard is not false in some scope."""
    return any(may_happen(model, k, event) for k in configurations(model))


def configurations(model: Model) -> Iterator[Any]:
    """Each scope, of the newest Kafka first; those first that have most kinds of trouble."""
    scopes = sorted(model.scopes.SCOPES.values(), key=lambda s: -sum(map(bool, values_of(s))))
    for variant in model.variants.RELEASES.values():
        for scope in scopes:
            yield scope.configuration(variant)


def values_of(scope: Any) -> tuple[Any, ...]:
    """The budgets of a scope."""
    return astuple(scope.budgets)


def may_happen(model: Model, k: Any, event: str) -> bool:
    """Whether some choice does not make its guard false."""
    function, world = model.rules[event], world_of(model, k)
    for choice in choices(shapes_of(k.bounds), function):
        evaluator = Evaluator(model, k)
        try:
            evaluator.call(function, [k, world, *(evaluator.lift(v) for _, v in choice)])
        except IndexError:  # it looks at what this scope has no room for
            continue
        if conjunction(limit.condition for limit in evaluator.limits) is not FALSE:
            return True
    return False
