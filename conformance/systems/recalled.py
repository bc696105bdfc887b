"""Actors that are asked once: what one did after the same inputs, in the same order, is recalled.

1. What an actor does is a function of all that it was told since it began. Nothing else is assumed,
   and nothing of an actor is looked at or copied: its clock, its counters, what it forgot.
2. Where a past is new, the actor lives through it from its beginning, and must do the same again.
3. An actor that fails is not remembered: it fails anew each time.

Theory of operation: pasts are a tree. Traces of a cover share most of their beginnings, and an
actor has far fewer pasts than the world. Inputs are compared as keys of a dict, so messages have to
be one object where they say the same (`Alike`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from conformance.systems.base import Reaction, View

MAX_MOMENTS: Final = 100_000
"""Of one actor: what it did before is forgotten then."""


class NotTheSame(Exception):
    """An actor did something else than before, after the same inputs."""


class Living(Protocol):
    """An actor, with whatever methods it has. What moves it gives its state and what it sent, as a
    `Reaction`, or nothing."""

    def reset(self) -> None:
        """It begins again."""

    def view(self) -> View:
        """Its state."""


class RecordedStep:
    """What was `told` to an actor last, what it `gave`, and what came `later`, by what it was told
    then. `view` is its state, None while nobody has asked."""

    __slots__ = ("before", "gave", "later", "told", "view")

    def __init__(
        self, before: RecordedStep | None, told: tuple[Any, ...], gave: Reaction | None
    ) -> None:
        self.before = before
        self.told = told
        self.gave = gave
        self.later: dict[tuple[Any, ...], RecordedStep] = {}
        self.view: View = None if gave is None else gave[0]


class Recalled:
    """An actor under the names of its methods: see the rules above."""

    def __init__(self, actor: Living) -> None:
        self._actor = actor
        self._first = self._at = RecordedStep(None, (), None)
        self._lived: RecordedStep | None = None
        self._moments = 0

    def __getattr__(self, name: str) -> Callable[..., Reaction | None]:
        """A method of the actor that moves it."""
        method = partial(self._does, name)
        setattr(self, name, method)
        return method

    def reset(self) -> None:
        """It begins again; the actor itself does when it is needed."""
        self._at = self._first

    def view(self) -> View:
        """Its state: as it was seen in this moment."""
        at = self._at
        if at.view is None:
            self._be_at(at)
            at.view = self._actor.view()
        return at.view

    def _does(self, name: str, *given: Any) -> Reaction | None:
        """What the actor gives. Raises what it raises, and NotTheSame."""
        told = (name, *given)
        at = self._at
        after = at.later.get(told)
        if after is None:
            after = self._live(at, told)
        self._at = after
        return after.gave

    def _live(self, at: RecordedStep, told: tuple[Any, ...]) -> RecordedStep:
        """The actor does what it has not done before in this past."""
        self._be_at(at)
        gave = self._tell(told)
        if self._moments >= MAX_MOMENTS:
            self._first.later.clear()
            self._moments = 0
        self._moments += 1
        self._lived = at.later[told] = RecordedStep(at, told, gave)
        return self._lived

    def _be_at(self, at: RecordedStep) -> None:
        """The actor begins again, and is told the same. Raises NotTheSame."""
        if self._lived is at:
            return
        past: list[RecordedStep] = []
        moment = at
        while moment.before is not None:
            past.append(moment)
            moment = moment.before
        self._actor.reset()
        for moment in reversed(past):
            gave = self._tell(moment.told)
            if gave != moment.gave:
                raise NotTheSame(f"{moment.told} gave {moment.gave} before, and now {gave}")
        self._lived = at

    def _tell(self, told: tuple[Any, ...]) -> Reaction | None:
        """What the actor gives; it is nowhere while it moves, and where it fails."""
        self._lived = None
        gave: Reaction | None = getattr(self._actor, told[0])(*told[1:])
        return gave


Letter = TypeVar("Letter")


class Alike:
    """Messages by what they say, so that those that say the same are one object.

    The limit keeps a long run small; what is dropped is another object when it comes again.
    """

    LIMIT: Final = 100_000

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def __call__(self, letter: Letter) -> Letter:
        """The message that says the same, and came first."""
        said = repr(letter)
        if len(self._known) >= self.LIMIT:
            self._known.clear()
        known: Letter = self._known.setdefault(said, letter)
        return known
