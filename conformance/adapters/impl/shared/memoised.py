"""Memoised actors: what one did in the same state, with the same input, is looked up.

Theory of operation: `SnapshotStore` keeps an actor's states as bytes. Traces of a cover share most
of their states, and an actor has far fewer than the world. Inputs are compared by what they are, so
equal messages have to be one object (`Interner`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from conformance.adapters.impl.shared.snapshots import PicklableActor, SnapshotStore
from conformance.judging.system import Reaction, View


class MemoisedActor:
    """An actor under the names of its methods. What moves it gives its state and what it sent, as a
    `Reaction`, or nothing."""

    def __init__(self, actor: PicklableActor) -> None:
        self._store = SnapshotStore(actor)
        self._at = self._store.first

    def __getattr__(self, name: str) -> Callable[..., Reaction | None]:
        """A method of the actor that moves it."""
        method = partial(self._step, name)
        setattr(self, name, method)
        return method

    def reset(self) -> None:
        """It begins again."""
        self._at = self._store.first

    def view(self) -> View:
        """Its state after this step."""
        return self._at.view

    def _step(self, name: str, *inputs: Any) -> Reaction | None:
        """What the actor gives. Raises what it raises."""
        at = self._at
        known = at.known.get((name, *inputs)) or self._store.after(at, name, *inputs)
        self._at = known[0]
        reaction: Reaction | None = known[1]
        return reaction


M = TypeVar("M")


class Interner:
    """One object for all messages with the same content.

    The limit keeps a long run small; what is dropped is another object when it comes again.
    """

    LIMIT: Final = 100_000

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def __call__(self, message: M) -> M:
        """The message with this content that came first."""
        content = repr(message)
        if len(self._known) >= self.LIMIT:
            self._known.clear()
        known: M = self._known.setdefault(content, message)
        return known
