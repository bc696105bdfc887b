"""Memoised actors: what one did after the same inputs, in the same order, is looked up.

1. What an actor does is a function of all its inputs since it began. Nothing else is assumed, and
   nothing of an actor is looked at or copied: its clock, its counters, what it forgot.
2. Where a sequence of inputs is new, the actor takes all of it from its beginning, and must do the
   same again.
3. An actor that fails is not memoised: it fails anew each time.

Theory of operation: sequences of inputs are a tree. Traces of a cover share most of their
beginnings, and an actor has far fewer sequences than the world. Inputs are compared as keys of a
dict, so equal messages have to be one object (`Interner`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from conformance.systems.base import Reaction, View

MAX_STEPS: Final = 100_000
"""Of one actor: then it begins to learn again."""


class NotTheSame(Exception):
    """An actor did something else than before, after the same inputs."""


class Resettable(Protocol):
    """An actor, with whatever methods it has. What moves it gives its state and what it sent, as a
    `Reaction`, or nothing."""

    def reset(self) -> None:
        """It begins again."""

    def view(self) -> View:
        """Its state."""


class RecordedStep:
    """The last `call` of an actor, its `reaction`, and the steps that follow, by their calls.
    `view` is its state, None while nobody has asked."""

    __slots__ = ("before", "call", "following", "reaction", "view")

    def __init__(
        self, before: RecordedStep | None, call: tuple[Any, ...], reaction: Reaction | None
    ) -> None:
        self.before = before
        self.call = call
        self.reaction = reaction
        self.following: dict[tuple[Any, ...], RecordedStep] = {}
        self.view: View = None if reaction is None else reaction[0]


class MemoisedActor:
    """An actor under the names of its methods: see the rules above."""

    def __init__(self, actor: Resettable) -> None:
        self._actor = actor
        self._first = self._at = RecordedStep(None, (), None)
        self._actor_at: RecordedStep | None = None
        self._known_steps = 0

    def __getattr__(self, name: str) -> Callable[..., Reaction | None]:
        """A method of the actor that moves it."""
        method = partial(self._step, name)
        setattr(self, name, method)
        return method

    def reset(self) -> None:
        """It begins again; the actor itself does when it is needed."""
        self._at = self._first

    def view(self) -> View:
        """Its state after this step."""
        at = self._at
        if at.view is None:
            self._bring_to(at)
            at.view = self._actor.view()
        return at.view

    def _step(self, name: str, *inputs: Any) -> Reaction | None:
        """What the actor gives. Raises what it raises, and NotTheSame."""
        call = (name, *inputs)
        at = self._at
        after = at.following.get(call)
        if after is None:
            after = self._new_step(at, call)
        self._at = after
        return after.reaction

    def _new_step(self, at: RecordedStep, call: tuple[Any, ...]) -> RecordedStep:
        """The actor does what it has not done before after these inputs."""
        self._bring_to(at)
        reaction = self._call(call)
        if self._known_steps >= MAX_STEPS:
            self._first.following.clear()
            self._known_steps = 0
        self._known_steps += 1
        self._actor_at = at.following[call] = RecordedStep(at, call, reaction)
        return self._actor_at

    def _bring_to(self, at: RecordedStep) -> None:
        """The actor begins again, and takes the same inputs. Raises NotTheSame."""
        if self._actor_at is at:
            return
        steps: list[RecordedStep] = []
        step = at
        while step.before is not None:
            steps.append(step)
            step = step.before
        self._actor.reset()
        for step in reversed(steps):
            reaction = self._call(step.call)
            if reaction != step.reaction:
                raise NotTheSame(f"{step.call} gave {step.reaction} before, and now {reaction}")
        self._actor_at = at

    def _call(self, call: tuple[Any, ...]) -> Reaction | None:
        """What the actor gives; it is nowhere while it moves, and where it fails."""
        self._actor_at = None
        reaction: Reaction | None = getattr(self._actor, call[0])(*call[1:])
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
