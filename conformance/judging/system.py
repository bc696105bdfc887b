"""The interface of a system under test: actors that take one input and show their new state.

1. A system consists of its actors alone. The judge is the network between them, and plays the
   actors that the system does not have.
2. An actor has one method for each rule of the model's actor, under the same name. The method
   returns a `Reaction`: the messages that the actor sent, and its whole state.
3. States and messages are compared as views: nested tuples of plain values, in the shapes that each
   composition defines. Both sides make views.
4. A payload is the system's own form of a message. The judge carries it and does not look inside.

Theory of operation: `reset` puts all actors into the initial state of the scope. The judge calls an
actor's method for each step that moves the actor, and compares the reaction with the model's;
`view` shows an actor between steps. `differences` names the fields in which two views differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

View = Any
"""Nested tuples of ints and bools; compared with ==."""
Payload = Any


class NotApplicable(ValueError):
    """A scope or variant into which a system cannot be brought; the message says why."""


class EndOfComparison(Exception):
    """From here on the system does something that the model does not describe, so the trace ends.
    That is right if `is_due` says so of the model's actor, from its view after the step."""

    def __init__(self, is_due: Callable[[View], bool] = lambda _: True) -> None:
        super().__init__("the system ends what is compared")
        self.is_due = is_due


Reaction = tuple[View, tuple[tuple[View, Payload], ...]]
"""The result of an actor's step: its state, and its messages as (view, payload), in order."""


class Actor(Protocol):
    """The interface common to all actors."""

    def view(self) -> View:
        """The state of the actor, in the shape that SHAPES gives."""


# The shapes of views


@dataclass(frozen=True, slots=True)
class Many:
    """A tuple of any length, each element of one shape."""

    element: Shape


Shape = Many | Mapping[str, Any] | None
"""A tuple with named fields, a tuple of elements of one shape, or a value that is compared as a
whole."""


def named(shape: Shape, value: View) -> Any:
    """A view as data for JSON, with named fields."""
    if value is None or shape is None:
        return value
    if isinstance(shape, Many):
        return [named(shape.element, element) for element in value]
    return {name: named(shape[name], part) for name, part in zip(shape, value, strict=True)}


def differences(
    path: str, shape: Shape, expected: View, observed: View
) -> Iterator[tuple[str, Any, Any]]:
    """(field path, expected, observed) for each part that differs; None stands for a missing
    part."""
    if expected == observed:
        return
    if shape is None or expected is None or observed is None:
        yield path, named(shape, expected), named(shape, observed)
    elif isinstance(shape, Many):
        for i in range(max(len(expected), len(observed))):
            parts = (view[i] if i < len(view) else None for view in (expected, observed))
            yield from differences(f"{path}[{i}]", shape.element, *parts)
    else:
        for (name, inner), a, b in zip(shape.items(), expected, observed, strict=True):
            yield from differences(f"{path}.{name}", inner, a, b)
