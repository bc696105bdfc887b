"""The model of processing as a table: (world, event) to world, and what of a world is compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from conformance.compositions import composition_of_configuration
from conformance.systems.base import View
from conformance.systems.processing.shapes import INPUT, UNSTABLE
from conformance.tables import MAX_ROWS, ModelTables, watched_modules
from proofs.lift.source import Model

NO_OFFSET: Final = -1
EVENTS: Final = "world"


class WorldNode:
    """A world, its view, and the rows known so far: an event with its choices to the node behind
    it, and the points that it covers."""

    __slots__ = ("rows", "view", "world")

    def __init__(self, world: Any, view: View) -> None:
        self.world = world
        self.view = view
        self.rows: dict[tuple[Any, ...], tuple[WorldNode, int]] = {}


class ProcessingTables(ModelTables):
    """Worlds of one configuration; they are filled as `conformance.tables` has it."""

    def __init__(self, k: Any, model: Model) -> None:
        super().__init__(k, model, (*watched_modules(model), EVENTS))
        self._nodes: dict[Any, WorldNode] = {}
        self._rows = 0
        self.first = self._node(model.scopes.initial(k))

    def after(self, node: WorldNode, rule: str, *choices: int) -> tuple[WorldNode, int]:
        """The world after an event, and the points that this covers. Raises Disabled."""
        key = (rule, *choices)
        return node.rows.get(key) or self._filled(node, key)

    def _filled(self, node: WorldNode, key: tuple[Any, ...]) -> tuple[WorldNode, int]:
        rule, *choices = key
        self._watched.taken = 0
        world = self._watched.rules[rule](self.k, node.world, *choices)
        seen = self._watched.taken | self._bits_of(answered(rule, world, choices))
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
            node = self._nodes[world] = WorldNode(world, view_of(world))
        return node


def tables_of(k: Any) -> ProcessingTables:
    """The tables of a configuration."""
    return ProcessingTables(k, composition_of_configuration(k).model)


def answered(rule: str, world: Any, choices: list[int]) -> Iterator[str]:
    """What the group answers to a commit of offsets: who is refused joins again."""
    if rule == "offset_is_committed":
        is_refused = world.members[choices[0]].phase.name == "UP"
        yield "ILLEGAL_GENERATION" if is_refused else "NONE"


def view_of(world: Any) -> View:
    """Shaped as WORLD, but for the identities, which the model does not have."""
    group, store = world.group, world.store
    rows = len(INPUT)
    waits = any(offset != NO_OFFSET for offset in group.pending.values())
    return (
        tuple((m.phase.name, m.position) for m in world.members.values()),
        None,
        (group.committed,) * rows,
        UNSTABLE if waits else group.committed,
        tuple(() if o == NO_OFFSET else (o,) * rows for o in group.pending.values()),
        tuple((s.input_offset, s.member, s.fate.name) for s in store.output),
        tuple(progress.name for progress in store.progress.values()),
        read_committed(store),
    )


def read_committed(store: Any) -> View:
    """What a reader of committed records gets: what is before the first record whose transaction
    has no marker yet. A transaction has one record, its member's last."""
    last = {slot.member: i for i, slot in enumerate(store.output)}
    open_ones = [i for m, i in last.items() if store.progress[m].name != "NONE"]
    visible = store.output[: min(open_ones, default=len(store.output))]
    return tuple((s.input_offset, s.member) for s in visible if s.fate.name == "COMMITTED")
