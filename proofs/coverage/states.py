"""The states of the actors, with the states from which Kafka permits each to be entered.

The permitted edges are written here as Kafka's own classes have them, not as the model does,
because the model is checked against them. An edge that no configuration takes is missing, or
explained. An edge that some configuration takes and that is not listed here is a fault of the
model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from proofs import arrays as np
from proofs.coverage.columns import Column, field, unpacked
from proofs.coverage.edges import places, record_of
from proofs.coverage.points import Point
from proofs.coverage.space import Space, WitnessPath
from proofs.lift.build import Lifted
from proofs.lift.dag import Node
from proofs.lift.source import Model
from proofs.lift.values import Shapes

Legal = Mapping[str, tuple[str, ...]]
"""The states from which each state may be entered."""


@dataclass(frozen=True, slots=True)
class ActorStates:
    """The states of one kind of actor.

    `legal` is what Kafka permits. `passed` are edges by way of a state that the model passes within
    one step, each with that state: both halves must be legal. A state that is listed among its own
    `legal` ones is entered again when its record changes.
    """

    enum: str
    legal: Legal
    passed: Mapping[str, str]

    def edges(self) -> list[str]:
        """Return all permitted edges, as `FROM->TO`."""
        legal = [f"{begin}->{end}" for end, begins in self.legal.items() for begin in begins]
        return [*legal, *self.passed]


COORDINATORS = ActorStates(
    enum="TransactionState",
    legal={
        "EMPTY": ("EMPTY", "COMPLETE_COMMIT", "COMPLETE_ABORT", "ABSENT"),
        "ONGOING": ("ONGOING", "EMPTY", "COMPLETE_COMMIT", "COMPLETE_ABORT"),
        "PREPARE_COMMIT": ("ONGOING",),
        "PREPARE_ABORT": ("ONGOING", "EMPTY", "COMPLETE_COMMIT", "COMPLETE_ABORT"),
        "COMPLETE_COMMIT": ("PREPARE_COMMIT",),
        "COMPLETE_ABORT": ("PREPARE_ABORT",),
        "ABSENT": ("EMPTY", "COMPLETE_COMMIT", "COMPLETE_ABORT"),
    },
    passed={
        "EMPTY->COMPLETE_ABORT": "PREPARE_ABORT",
        "COMPLETE_COMMIT->COMPLETE_ABORT": "PREPARE_ABORT",
    },
)
"""TransactionState.VALID_PREVIOUS_STATES; the abort of an empty transaction is V2's. ABSENT is
Kafka's Dead, for which the log has a tombstone. An abort without partitions needs no marker, and is
complete as soon as it is prepared."""

CLIENTS = ActorStates(
    enum="ClientState",
    legal={
        "UNINITIALIZED": ("READY", "ABORTABLE_ERROR"),
        "INITIALIZING": ("UNINITIALIZED", "COMMITTING", "ABORTING"),
        "READY": ("INITIALIZING", "COMMITTING", "ABORTING"),
        "IN_TRANSACTION": ("READY",),
        "COMMITTING": ("IN_TRANSACTION",),
        "ABORTING": ("IN_TRANSACTION", "ABORTABLE_ERROR"),
        "ABORTABLE_ERROR": ("IN_TRANSACTION", "COMMITTING", "INITIALIZING"),
        "FATAL_ERROR": (
            "UNINITIALIZED",
            "INITIALIZING",
            "READY",
            "IN_TRANSACTION",
            "COMMITTING",
            "ABORTING",
            "ABORTABLE_ERROR",
        ),
    },
    passed={"IN_TRANSACTION->READY": "COMMITTING"},
)
"""TransactionManager.State.isTransitionValid. A transaction that no broker knows of ends at
once."""

STATES = (COORDINATORS, CLIENTS)

HANDED_ON = ("coordinator_is_replaced", "log_is_loaded", "former_resigns")
"""Rules by which a node begins or ceases to know an id: the id itself enters no state."""


def enum_of(model: Model, states: ActorStates) -> type[IntEnum] | None:
    """Return the enum of states in a model; None if it has no such actor."""
    found = (getattr(module, states.enum, None) for module in model.modules.values())
    return next((enum for enum in found if enum is not None), None)


def of_model(model: Model) -> Iterator[tuple[ActorStates, type[IntEnum]]]:
    """Yield the states of a model's actors."""
    for states in STATES:
        enum = enum_of(model, states)
        if enum is not None:
            yield states, enum


def enum_with(model: Model, state: str) -> type[IntEnum] | None:
    """Return the enum that has this state; None if it is not a state of an actor."""
    enums = (enum for _, enum in of_model(model))
    return next((enum for enum in enums if state in enum.__members__), None)


def state_points(model: Model) -> list[Point]:
    """Return each state, and each permitted edge, as points."""
    found: list[Point] = []
    for states, enum in of_model(model):
        found += [Point(state.name, "states", state.name) for state in enum]
        found += [Point(edge, "edges", edge) for edge in states.edges()]
    return found


# Where states are entered


def leaves_of(lifted: Lifted, k: Any, model: Model, enum: type[IntEnum]) -> list[Node]:
    """Return the leaves in which the actors keep their states."""
    shapes = Shapes(k.bounds)
    hints = shapes.hints(model.world.World)
    fields = lifted.world.fields
    return [leaf for name in hints for leaf in places(shapes, fields[name], hints[name], enum)]


def moves(
    space: Space, leaf: Node, states: ActorStates, enum: type[IntEnum]
) -> Iterator[tuple[str, int]]:
    """Yield the edges that one actor takes, each with the first transition along it. This one is a
    nearest, because transitions are in the order of their sources."""
    if leaf.name not in space.layout.places:
        return
    value = unpacked(space.layout, space.states, leaf)
    begin, end = value[space.sources], value[space.targets]
    stays = np.array([rule in HANDED_ON for rule, _ in space.instances])[space.fired]
    counted = np.flatnonzero(((begin != end) | changed(space, leaf)) & ~stays)
    codes = begin[counted] * len(enum) + end[counted]
    may_be = set(states.edges())
    for code, first in zip(*np.unique(codes, return_index=True), strict=True):
        before, after = (enum(number) for number in divmod(int(code), len(enum)))
        edge = f"{before.name}->{after.name}"
        if before != after or edge in may_be:
            yield edge, int(counted[first])


def changed(space: Space, leaf: Node) -> Column:
    """Return for each transition whether anything in the leaf's record changes."""
    found: Column = np.zeros(len(space.fired), dtype=np.bool_)
    for other in space.layout.places:
        if other.startswith(record_of(leaf.name)):
            value = field(space.layout, space.states, other)
            found |= value[space.sources] != value[space.targets]
    return found


def nearest(found: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return by name the first of its transitions."""
    first: dict[str, int] = {}
    for name, at in found:
        first[name] = min(at, first.get(name, at))
    return first


def ways(space: Space, lifted: Lifted, k: Any, model: Model) -> Iterator[tuple[str, WitnessPath]]:
    """Yield the shortest path to each state and along each edge, including edges that are not
    permitted."""
    for states, enum in of_model(model):
        leaves = leaves_of(lifted, k, model, enum)
        edges = nearest(edge for leaf in leaves for edge in moves(space, leaf, states, enum))
        ends = nearest((edge.partition("->")[2], at) for edge, at in edges.items())
        for name, at in {**edges, **ends}.items():
            yield name, WitnessPath(space.steps([*space.path(int(space.sources[at])), at]))
        for state in begun_in(lifted, k, model, enum):
            yield state, WitnessPath(())


def begun_in(lifted: Lifted, k: Any, model: Model, enum: type[IntEnum]) -> list[str]:
    """Return the states of the actors in the initial world."""
    machine = lifted.machine
    first = dict(zip((leaf.name for leaf in machine.leaves), machine.initial, strict=True))
    return [enum(first[leaf.name]).name for leaf in leaves_of(lifted, k, model, enum)]
