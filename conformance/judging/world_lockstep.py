"""Lockstep of whole worlds, for compositions whose events combine moves of several actors.

1. A step is a whole event: all requests that it sends, and their answers.
2. After each step the whole observable world is compared, in one view.

Theory of operation: worlds are interned with their views. The rows between them are filled by the
model's own events, as `conformance.judging.tables` fills those of actors. A system has a method for
each event, with the event's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from conformance.judging.judge import Instance, JudgeStep, Lockstep
from conformance.judging.system import Shape, View, differences
from conformance.judging.tables import MAX_ROWS, ModelTables, watched_modules
from proofs.lift.source import Model

ErrorsOf = Callable[[str, Any, Sequence[int]], Iterator[str]]
"""The error codes that an event answers, from its name, the world after it, and its choices."""


def no_errors(rule: str, world: Any, choices: Sequence[int]) -> Iterator[str]:
    """The error codes in a composition that has none."""
    yield from ()


class WorldSystem(Protocol):
    """A system that takes whole events."""

    def reset(self) -> None:
        """Go back to the initial state of the scope."""

    def view(self) -> View:
        """The whole observable world."""


class WorldNode:
    """A world, its view, and the rows known so far: they lead from an event with its choices to the
    next node, and have the points that the step covers."""

    __slots__ = ("rows", "view", "world")

    def __init__(self, world: Any, view: View) -> None:
        self.world = world
        self.view = view
        self.rows: dict[tuple[Any, ...], tuple[WorldNode, int]] = {}


class WorldTables(ModelTables):
    """The worlds of one configuration; `first` is its initial world."""

    def __init__(
        self,
        k: Any,
        model: Model,
        view_of: Callable[[Any], View],
        errors_of: ErrorsOf = no_errors,
    ) -> None:
        super().__init__(k, model, watched_modules(model, with_events=True))
        self._view_of = view_of
        self._errors_of = errors_of
        self._nodes: dict[Any, WorldNode] = {}
        self._rows = 0
        self.first = self._node(model.scopes.initial(k))

    def after(self, node: WorldNode, rule: str, *choices: int) -> tuple[WorldNode, int]:
        """The world after an event, and the points that the event covers. Raises Disabled."""
        key = (rule, *choices)
        return node.rows.get(key) or self._filled(node, key)

    def _filled(self, node: WorldNode, key: tuple[Any, ...]) -> tuple[WorldNode, int]:
        rule, *choices = key
        self._watched.begin()
        world = self._watched.rules[rule](self.k, node.world, *choices)
        seen = self._noted(self._errors_of(rule, world, choices))
        if self._rows >= MAX_ROWS:
            self._forget()
        self._rows += 1
        row = node.rows[key] = self._node(world), seen
        return row

    def _forget(self) -> None:
        for known in self._nodes.values():
            known.rows.clear()
        self._nodes.clear()
        self._rows = 0

    def _node(self, world: Any) -> WorldNode:
        node = self._nodes.get(world)
        if node is None:
            node = self._nodes[world] = WorldNode(world, self._view_of(world))
        return node


class WorldJudge(Lockstep):
    """Judges traces of one configuration; `shape` is that of the view."""

    def __init__(
        self, tables: WorldTables, system: WorldSystem, shape: Mapping[str, Shape]
    ) -> None:
        super().__init__(tables)
        self.system = system
        self._shape = shape
        self.node = tables.first

    def move(self, instance: Instance) -> JudgeStep:
        """The data that `follow` needs for a step."""
        rule, choice = instance
        return JudgeStep(instance, partial(self._take, rule, *(value for _, value in choice)))

    def begin(self) -> None:
        """Put model and system into the initial state of the scope. Raises Differs."""
        self.node = self.tables.first
        self._seen = 0
        self._react(self.system.reset, ())
        self.check_all()

    def _take(self, rule: str, *choices: int) -> None:
        """Take one event on both sides. Raises Differs, and the model's Disabled."""
        self.node, seen = self.tables.after(self.node, rule, *choices)
        self._seen |= seen
        self._react(getattr(self.system, rule), choices)
        self.note(rule, choices)
        self.check_all()

    def note(self, rule: str, choices: Sequence[int]) -> None:
        """Note an event that both sides have taken."""

    def expected(self) -> View:
        """The view of the model's world."""
        return self.node.view

    def check_all(self) -> None:
        """Compare the whole world. Raises Differs."""
        observed, expected = self._react(self.system.view, ()), self.expected()
        if expected != observed:
            self.differ(differences("world", self._shape, expected, observed))

    def check_restraint(self) -> None:
        """Does nothing: each message belongs to an event, so no actor may send between events."""
