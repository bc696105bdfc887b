"""The table of verbs of which stories consist.

A verb is a function. The words after it in a story become its arguments, converted by their
annotations; `name=value` becomes the argument of that name. Requests are called with the versions
that a client speaks, all other verbs with the session.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NewType, TypeVar, get_args, get_type_hints

from conformance.campaigns.stories.text import StoryStep

F = TypeVar("F", bound=Callable[..., Any])

Committed = NewType("Committed", bool)
"""`commit` or `abort`."""
Yes = NewType("Yes", bool)
"""`yes` or `no`."""
Node = NewType("Node", int)
"""The id of a broker: a number, a role, or a partition, which stands for its leader."""
Nodes = NewType("Nodes", tuple)  # type: ignore[type-arg]
"""Brokers, separated by commas; `none`."""
Name = NewType("Name", str)
"""A transactional id: that of a producer, a text, `none` or `empty`."""
Identity = NewType("Identity", tuple)  # type: ignore[type-arg]
"""A producer id and epoch: that of a producer, `ID:EPOCH`, or `nothing`."""

NO: Final = Yes(False)
NO_NODES: Final = Nodes(())
NOTHING_BELIEVED: Final = Identity((-1, -1))

REQUEST_OPTIONS: Final[tuple[str, ...]] = ("version", "requests", "to", "on")
"""Options of each request: another version, another kind of requests, a broker, a connection."""


@dataclass(frozen=True, slots=True)
class StepVerb:
    """A verb of stories. For a request, `ask` is its receiver (coordinator, leader, group), and
    `version` the field of `Conversation` that has its version."""

    name: str
    function: Callable[..., Any]
    ask: str = ""
    version: str = ""

    def check(self, step: StoryStep, words: Sequence[str], options: Mapping[str, str]) -> None:
        """Raise StoryError for arguments that the verb does not take."""
        own = {k: v for k, v in options.items() if not (self.ask and k in REQUEST_OPTIONS)}
        try:
            inspect.signature(self.function).bind(None, *words, **own)
        except TypeError as error:
            raise step.line.error(f"{self.name}: {error}") from error

    def converted(
        self,
        words: Sequence[str],
        options: Mapping[str, str],
        convert: Callable[[Any, str], Any],
    ) -> tuple[list[Any], dict[str, Any]]:
        """Its arguments, converted to the annotated types."""
        hints = {name: _plain(hint) for name, hint in get_type_hints(self.function).items()}
        _, *parameters = inspect.signature(self.function).parameters.values()
        names = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        rest = [p.name for p in parameters if p.kind is p.VAR_POSITIONAL] * len(words)
        places = [*names[: len(words)], *rest][: len(words)]
        return (
            [convert(hints[name], word) for name, word in zip(places, words, strict=True)],
            {name: convert(hints.get(name, str), word) for name, word in options.items()},
        )


def _plain(hint: Any) -> Any:
    """`int` of `int | None`."""
    return get_args(hint)[0] if type(None) in get_args(hint) else hint


VERBS: Final[dict[str, StepVerb]] = {}


def verb(function: F) -> F:
    """Enter a function into VERBS, under its own name."""
    name = function.__name__.rstrip("_")
    VERBS[name] = StepVerb(name, function)
    return function


def request(name: str, ask: str, version: str) -> Callable[[F], F]:
    """Enter a request, under Kafka's name for it."""

    def enter(function: F) -> F:
        VERBS[name] = StepVerb(name, function, ask, version)
        return function

    return enter
