"""Checks that each event can happen: some scope of some Kafka release meets its guard.

An event that no scope allows is never explored, so what a proof says about it cannot be compared
with any transition.
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
    """No scope meets the guard of an event."""


def demand_possible_events(model: Model) -> None:
    """Raise ImpossibleEvent, naming each event that no scope allows, if there is one."""
    lost = [event for event in model.rules if not is_possible(model, event)]
    if lost:
        raise ImpossibleEvent(
            f"no scope of any Kafka meets what these events of {model.name} require:"
            f" {', '.join(lost)}\n"
            "Add a scope (scopes.py) in which each can happen, or correct what it requires."
        )


def is_possible(model: Model, event: str) -> bool:
    """Whether some scope does not make the event's guard false."""
    return any(may_happen(model, k, event) for k in configurations(model))


def configurations(model: Model) -> Iterator[Any]:
    """Yield the scopes, for the newest Kafka first; within a release, scopes with the most kinds of
    faults first."""
    scopes = sorted(model.scopes.SCOPES.values(), key=lambda s: -sum(map(bool, values_of(s))))
    for variant in model.variants.RELEASES.values():
        for scope in scopes:
            yield scope.configuration(variant)


def values_of(scope: Any) -> tuple[Any, ...]:
    """The budgets of a scope."""
    return astuple(scope.budgets)


def may_happen(model: Model, k: Any, event: str) -> bool:
    """Whether some choice does not make the event's guard false."""
    function, world = model.rules[event], world_of(model, k)
    for choice in choices(shapes_of(k.bounds), function):
        evaluator = Evaluator(model, k)
        try:
            evaluator.call(function, [k, world, *(evaluator.lift(v) for _, v in choice)])
        except IndexError:  # it reads a place that this scope has no room for
            continue
        if conjunction(limit.condition for limit in evaluator.limits) is not FALSE:
            return True
    return False
