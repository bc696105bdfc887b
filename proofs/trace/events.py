"""Counts the protocol events of a trace, which give the length of a counterexample.

1. A *request* is a message that one actor sends and another one answers: some actor's rule sends
   it, and some other rule takes it and sends something. Records inside a request are no requests.
2. A request counts once with its delivery, and an answer with its receipt. An answer sets out in
   the step that delivers its request. A step therefore counts as no event if it only delivers a
   request that another step has sent, and as one event otherwise.
3. An event may run an actor's rule by way of other functions of the world.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from types import FunctionType
from typing import Any

from model.language import Step
from proofs.lift.call_graph import named_in
from proofs.lift.source import Model
from proofs.trace.format import TraceStep


def actor_rules_of(model: Model, rule: str) -> frozenset[str]:
    """Return the actors' rules that an event runs, also by way of other functions of the world."""
    found: set[str] = set()
    seen: set[FunctionType] = set()
    frontier = {typing.cast(FunctionType, model.rules[rule])}
    while frontier:
        seen |= frontier
        named = {f for function in frontier for f in named_in(model, function)}
        of_actors = {f for f in named if model.actor_rules.get(f.__name__) is f}
        found |= {f.__name__ for f in of_actors}
        frontier = named - of_actors - seen
    return frozenset(found)


def taken(hints: Mapping[str, Any]) -> set[Any]:
    """Return the types that a rule takes."""
    return {hint for part, hint in hints.items() if part != "return"}


def sent(model: Model, hints: Mapping[str, Any]) -> set[Any]:
    """Return the types of the messages that a rule sends."""
    step = hints["return"]
    return set(typing.get_args(step)[1:]) if typing.get_origin(step) is Step else set()


@functools.lru_cache(maxsize=16)
def messages(model: Model) -> Mapping[str, tuple[set[Any], set[Any]]]:
    """Return the types that each rule of an actor takes, and those that it sends."""
    hints = {name: typing.get_type_hints(r) for name, r in model.actor_rules.items()}
    return {name: (taken(h), sent(model, h)) for name, h in hints.items()}


@functools.lru_cache(maxsize=16)
def requests(model: Model) -> frozenset[Any]:
    """Return the messages that are sent and answered; an error alone is an answer."""
    rules = messages(model).values()
    all_sent = {message for _, sends in rules for message in sends if is_dataclass(message)}
    return frozenset(all_sent & {message for takes, sends in rules if sends for message in takes})


@functools.lru_cache(maxsize=4096)
def only_delivers(model: Model, rule: str) -> bool:
    """Whether the event delivers a request, and sends none of its kind."""
    run = [messages(model)[name] for name in actor_rules_of(model, rule)]
    delivered = {message for takes, _ in run for message in takes} & requests(model)
    return bool(delivered) and not delivered & {message for _, sends in run for message in sends}


def events(model: Model, steps: Sequence[TraceStep]) -> int:
    """Count protocol events: a request counts once with its delivery, an answer with its
    receipt."""
    return sum(1 for step in steps if not only_delivers(model, step.rule))
