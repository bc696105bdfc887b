"""The interface of a system under test: actors that take one input and show what they became.

1. A system is its actors, nothing between them. The judge is the network, and plays those actors
   that the system does not have.
2. An actor has one method for each rule that the model's actor has, under the same name. It
   returns a `Reaction`: what it sent, and its whole state.
3. States and messages are compared as views: nested tuples of plain values, in the shapes
   that each composition says. Both sides make them.
4. A payload is what the system made of a message. The judge carries it and does not look inside.

Theory of operation: `reset` puts all actors where the scope begins. The judge calls an actor's
method for each step that moves it and compares the reaction with the model's; `view` shows an
actor between steps. `difference` names the fields in which two views differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

View = Any
"""Nested tuples of ints and bools; compared with ==."""
Payload = Any


class NotApplicable(ValueError):
    """A scope, or a variant, that a system cannot be brought to; the message says why."""


class EndOfComparison(Exception):
    """From here on the system does what the model does not speak of, and the trace ends; rightly
    so if `is_due` after the model's step, from the view of the model's actor."""

    def __init__(self, is_due: Callable[[View], bool] = lambda _: True) -> None:
        super().__init__("the system ends what is compared")
        self.is_due = is_due


Reaction = tuple[View, tuple[tuple[View, Payload], ...]]
"""What an actor did: its state, and what it sent as (view, payload), in order."""


class Actor(Protocol):
    """What all actors can."""

    def view(self) -> View:
        """Its state, in its SHAPES."""


# The shapes of views


@dataclass(frozen=True, slots=True)
class Many:
    """A tuple of any length, each element of one shape."""

    element: Shape


Shape = Many | Mapping[str, Any] | None
"""A tuple with named fields, a tuple of equals, or a value that is compared as a whole."""


def named(shape: Shape, value: View) -> Any:
    """A view as JSON-able data with names."""
    if value is None or shape is None:
        return value
    if isinstance(shape, Many):
        return [named(shape.element, element) for element in value]
    return {name: named(shape[name], part) for name, part in zip(shape, value, strict=True)}


def differences(
    path: str, shape: Shape, expected: View, observed: View
) -> Iterator[tuple[str, Any, Any]]:
    """(field path, expected, observed) for each part that differs; None is what is missing."""
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
