"""Memoised actors: the result of a step is looked up by the actor's state and the input.

Theory of operation: `SnapshotStore` keeps an actor's states as bytes. Traces of a cover share most
of their states, and an actor has far fewer states than the world. Inputs are compared by identity,
so equal messages have to be one object (`Interner`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from conformance.adapters.impl.shared.snapshots import PicklableActor, SnapshotStore
from conformance.judging.system import Reaction, View


class MemoisedActor:
    """Wraps an actor under the names of its methods. A method that moves the actor returns a
    `Reaction` with its state and messages, or nothing."""

    def __init__(self, actor: PicklableActor) -> None:
        self._store = SnapshotStore(actor)
        self._at = self._store.first

    def __getattr__(self, name: str) -> Callable[..., Reaction | None]:
        """A method that moves the actor."""
        method = partial(self._step, name)
        setattr(self, name, method)
        return method

    def reset(self) -> None:
        """Go back to the initial state."""
        self._at = self._store.first

    def view(self) -> View:
        """Its state after this step."""
        return self._at.view

    def _step(self, name: str, *inputs: Any) -> Reaction | None:
        """The result of the actor's step. Raises what the actor raises."""
        at = self._at
        known = at.known.get((name, *inputs)) or self._store.after(at, name, *inputs)
        self._at = known[0]
        reaction: Reaction | None = known[1]
        return reaction


M = TypeVar("M")


class Interner:
    """Keeps one object for all messages with the same content.

    The limit keeps a long run small; a message that is dropped becomes another object when it
    recurs.
    """

    LIMIT: Final = 100_000

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def __call__(self, message: M) -> M:
        """The first message that had this content."""
        content = repr(message)
        if len(self._known) >= self.LIMIT:
            self._known.clear()
        known: M = self._known.setdefault(content, message)
        return known
