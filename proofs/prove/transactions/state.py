"""Any coordinator, any leader of one partition, and the ghosts that remember what was said.

Theory of operation. Ghosts are nobody's state: no rule reads them. They remember, of a run that may
be of any length, which pairs (producer id, epoch) were told to somebody (`given`), to whom the
transactional id belongs (`reign_id`, `reign_epoch`: what InitProducerId told last), what each pair
was decided (`decision`, written when PREPARE is known to be in the log: by who has its append
confirmed, or who reads it there), which markers were ever sent
(`sent`), and which marker ended what stands at an offset (`ended`). For V1, whose pairs do not tell
transactions apart, transactions are numbered as they complete: `turn` is the present one, `turn_of`
a record's, `outcome_of` what was prepared of it. What must never happen is
remembered too: `repeated`, `went_back`, `disturbed`, `contradicted`, `trespassed` stay false.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, TypeVar

from proofs.lift.containers import FunctionMap, FunctionSeq
from proofs.lift.dag import FALSE, INFINITE, ZERO, Node, const, leaf, uninterpreted
from proofs.lift.source import Model
from proofs.lift.values import Rec, Scalars
from proofs.prove.unknowns import Predicate, Unknowns, function, never, number, truth

HERE = number("here")
"""The partition whose leader is looked at: any."""
PARTITIONS = leaf("partitions", 1, INFINITE)
PRODUCER_IDS = leaf("producer_ids", 1, INFINITE)
TRANSACTIONS = leaf("transactions", 1, INFINITE)
NONE = const(-1)

NOBODY_WAITS, AGAIN, ANEW = const(0), const(1), const(2)
"""What an append is for: nothing that gives a producer id; InitProducerId that may be told again
what was told before; one that must be told something new."""


class Image(Scalars, Protocol):
    """What a coordinator knows, logs or appends of a transaction."""

    partitions: Any

    def changed(self, **changes: Any) -> Image:
        """The image with some fields replaced."""


@dataclass(frozen=True, slots=True)
class TransactionsState:
    """One state of a run, with what its past left in the ghosts."""

    coordinator: Rec
    leader: Rec
    given: Predicate
    sent: Predicate
    decision: Predicate
    ended: Predicate
    last_marker: Predicate
    turn_of: Predicate
    outcome_of: Predicate
    turn: Node
    awaited: Node
    reign_id: Node
    reign_epoch: Node
    repeated: Node
    went_back: Node
    disturbed: Node
    contradicted: Node
    trespassed: Node

    def known(self, which: str) -> Image:
        """What is `known`, in the `log`, or on its way there as the `image`, and its metadata."""
        image: Rec = self.coordinator.fields[which]
        return image.changed(**image.metadata.fields)


@dataclass(frozen=True, slots=True)
class WithClient(TransactionsState):
    """A state with one client in it."""

    client: Rec


class MapsOfAnySize(Unknowns):
    """Unknowns whose maps are over partitions, transactions, or producer ids."""

    def function_map(self, inner: Any, name: str, arguments: tuple[Node, ...]) -> FunctionMap:
        """A map of any number of keys, the same for all that have the same keys."""
        sizes = {"partitions": PARTITIONS, "outcomes": TRANSACTIONS, "sent": TRANSACTIONS}
        size = sizes.get(name.rpartition(".")[2], PRODUCER_IDS)
        return FunctionMap(size, lambda i: self.value(inner, name, (*arguments, i)))


def any_leader(model: Model, unknowns: Unknowns, place: Node = HERE) -> Rec:
    """The leader of a partition, whose log has any length."""
    cls = model.leader.Leader
    bare = unknowns.record(cls, "w.leaders", (place,))
    length = uninterpreted("len(w.leaders.log)", (place,))
    log = FunctionSeq(
        length, lambda i: unknowns.record(model.leader.Stored, "w.leaders.log", (place, i))
    )
    return Rec(cls, {**bare.fields, "log": log})


def any_coordinator(model: Model, unknowns: Unknowns) -> Rec:
    """A coordinator that has read its log."""
    bare = unknowns.record(model.coordinator.Coordinator, "w.coordinator")
    return bare.changed(leadership=const(model.coordinator.CoordinatorLeadership.LEADS))


FUNCTIONS = {
    "given": FALSE,
    "sent": FALSE,
    "decision": NONE,
    "ended": NONE,
    "last_marker": NONE,
    "turn_of": NONE,
    "outcome_of": NONE,
}
VALUES: dict[str, Any] = {
    "turn": ZERO,
    "awaited": NOBODY_WAITS,
    "reign_id": NONE,
    "reign_epoch": NONE,
    "repeated": FALSE,
    "went_back": FALSE,
    "disturbed": FALSE,
    "contradicted": FALSE,
    "trespassed": FALSE,
}
"""The ghosts, and what they are before anything has happened."""


def any_state(model: Model, unknowns: Unknowns) -> TransactionsState:
    """A state of which nothing is known."""
    coordinator, leader = any_coordinator(model, unknowns), any_leader(model, unknowns)
    ghosts: dict[str, Any] = {n: function(n, is_bool=v.is_bool) for n, v in FUNCTIONS.items()}
    ghosts |= {n: truth(n) if v.is_bool else number(n) for n, v in VALUES.items()}
    return TransactionsState(coordinator, leader, **ghosts)


def first_state(model: Model, unknowns: Unknowns, world: Rec) -> TransactionsState:
    """The state that a run begins in, out of the world that every scope begins in."""
    stored = unknowns.record(model.leader.Stored, "nothing", (HERE,))
    leader = world.leaders.at(HERE).changed(log=FunctionSeq(ZERO, lambda _i: stored))
    ghosts: dict[str, Any] = {n: never(value) for n, value in FUNCTIONS.items()}
    return TransactionsState(world.coordinator, leader, **ghosts, **VALUES)


def both_are(a: tuple[Node, Node], b: tuple[Node, Node]) -> Node:
    """The same pair."""
    return a[0].eq(b[0]) & a[1].eq(b[1])


def pair(of: Scalars) -> tuple[Node, Node]:
    """Producer id and epoch."""
    return of.producer_id, of.producer_epoch


def is_before(a: tuple[Node, Node], b: tuple[Node, Node]) -> Node:
    """Producer ids are given in their order; under one id, epochs are."""
    same = a[0].eq(b[0]) & (a[1] < b[1])
    return (a[0] < b[0]) | same


S = TypeVar("S", bound=TransactionsState)


def extend(cls: type[S], state: TransactionsState, **more: Any) -> S:
    """A state of a class: what `state` has, and more."""
    known: dict[str, Any] = {f.name: getattr(state, f.name) for f in fields(state)}
    return cls(**{**known, **more})


def with_ghosts(state: S, **changes: Any) -> S:
    """The state with some of its fields replaced."""
    return replace(state, **changes)
