"""The states that the clauses of transactions are about: any coordinator, any leader of one
partition, any instance of the application, and the ghosts, which remember the run.

Theory of operation. The same clause is lifted over a state of unknowns (`UnknownState`), and
evaluated as plain Python on each state of small scopes (`scope_states`).

Ghosts belong to no actor, and no rule reads them. They remember, of a run of any length: the pairs
(producer id, epoch) that clients were told (`given`); the pair that InitProducerId told last
(`reign`), which says to whom the transactional id belongs; the decision of each pair (`decision`),
written when PREPARE is known to be in the log, by the coordinator whose append is confirmed or that
reads the log; the markers ever `sent`; and the marker that `ended` the entry at an offset. With V1,
pairs do not tell transactions apart, so transactions are numbered as they complete: `turn` is the
present one, `turn_of` a record's, and `outcome_of` the prepared outcome of one. Violations are
remembered too: `repeated`, `went_back`, `disturbed`, `contradicted` and `trespassed` must stay
false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Protocol

from model.language import Map
from model.transactions.client_state import Client
from model.transactions.coordinator import Coordinator, Known, TransactionState
from model.transactions.leader import Leader, Stored
from proofs.lift.containers import FunctionMap, FunctionSeq
from proofs.lift.dag import FALSE, INFINITE, TRUE, ZERO, Node, const, ite, leaf, uninterpreted
from proofs.lift.source import Model
from proofs.lift.values import Rec
from proofs.prove.engine.formulas import RecordSet, present
from proofs.prove.engine.unknowns import Unknowns, function, never, number, truth

Pair = tuple[int, int]
"""A producer id and an epoch."""

HERE = number("here")
"""The partition whose leader is watched: any partition."""
ME = number("me")
"""The instance that is watched: any instance."""
SENDERS = number("senders")
"""The transaction of a request's sender, as the coordinator counts transactions: any number."""
PARTITIONS = leaf("partitions", 1, INFINITE)
PRODUCER_IDS = leaf("producer_ids", 1, INFINITE)
TRANSACTIONS = leaf("transactions", 1, INFINITE)
NONE = -1

NOBODY_WAITS, AGAIN, ANEW = range(3)
"""The purpose of an append: no client waits for a producer id; InitProducerId may return a pair
that was told before; or it must return a new pair."""


class ProducerIdPair(Protocol):
    """Has a producer id and an epoch."""

    @property
    def producer_id(self) -> int:
        """The producer id."""

    @property
    def producer_epoch(self) -> int:
        """The epoch."""


def pair(of: ProducerIdPair) -> Pair:
    """Return producer id and epoch."""
    return (of.producer_id, of.producer_epoch)


@dataclass(frozen=True, slots=True)
class Image:
    """A transaction as a coordinator knows, logs or appends it: a `Known`, together with its
    metadata."""

    state: TransactionState
    producer_id: int
    producer_epoch: int
    partitions: Map[int, bool]
    last_producer_epoch: int
    previous_producer_id: int
    next_producer_id: int

    @staticmethod
    def of(known: Known) -> Image:
        """Return the image with its metadata's fields."""
        metadata = known.metadata
        return Image(
            metadata.state,
            metadata.producer_id,
            metadata.producer_epoch,
            metadata.partitions,
            known.last_producer_epoch,
            known.previous_producer_id,
            known.next_producer_id,
        )


class TransactionsState:
    """One state of a run, with the ghosts of its past. In a state of unknowns, unknowns replace the
    values."""

    coordinator: Coordinator
    here: int
    leader: Leader
    given: AbstractSet[Pair]
    sent: AbstractSet[tuple[int, int, int, int]]
    """Producer id, epoch, outcome and coordinator epoch of each marker."""
    decision: Callable[[int, int], int]
    ended: Callable[[int], int]
    last_marker: Callable[[int], int]
    turn: int
    turn_of: Callable[[int], int]
    outcome_of: Callable[[int], int]
    wanted: Callable[[int], int]
    """The outcome that the application wants for each transaction: 1 is to commit."""
    senders: int
    awaited: int
    reign: Pair
    repeated: bool
    went_back: bool
    disturbed: bool
    contradicted: bool
    trespassed: bool

    pairs: Iterable[Pair]
    producer_ids: Iterable[int]
    turns: Iterable[int]
    offsets: Iterable[int]
    """All offsets of the scope; in a state of unknowns any number."""

    @property
    def log(self) -> Sequence[Stored]:
        """The log here."""
        return self.leader.log

    @property
    def known(self) -> Image:
        """The image that the coordinator knows."""
        return Image.of(self.coordinator.known)

    @property
    def logged(self) -> Image:
        """The image in the transaction log."""
        return Image.of(self.coordinator.log)

    @property
    def appended(self) -> Image:
        """The image on its way to the log, which is meaningful only while the coordinator
        appends."""
        return Image.of(self.coordinator.image)

    @property
    def on_its_way(self) -> Sequence[Image]:
        """The image on its way to the log, if there is one."""
        return present((self.coordinator.is_appending, self.appended))

    @property
    def to_be_known(self) -> Sequence[Image]:
        """The images in the log or on their way there."""
        return present((True, self.logged), (self.coordinator.is_appending, self.appended))

    @property
    def images(self) -> Sequence[Image]:
        """The images that are known, in the log, or on their way there."""
        return present(
            (True, self.known),
            (True, self.logged),
            (self.coordinator.is_appending, self.appended),
        )


class InstanceState(TransactionsState):
    """A state with one instance in it; see `proofs.prove.transactions.client`."""

    me: int
    client: Client
    holds_pair: AbstractSet[Pair]
    others_hold: AbstractSet[Pair]
    its_pair: Callable[[int], Pair]
    sent_end: AbstractSet[Pair]
    """Transaction and outcome of each EndTxn."""
    sent_batch: AbstractSet[Pair]
    """Transaction and number of each batch."""
    copy_at: Callable[[int, int], int]
    placed: Callable[[int, int, int], int]
    its_turn: Callable[[int], int]
    works_at: int
    asked_at: int
    batch_pair: Callable[[int, int], Pair]
    batch_sequence: Callable[[int, int], int]
    acked: AbstractSet[Pair]

    transactions: Iterable[int]
    numbers: Iterable[int]
    sequences: Iterable[int]
    """All sequences of the scope; in a state of unknowns any number."""


def everything(*names: str) -> RecordSet:
    """Return the set of all tuples of numbers; for one name, of all numbers."""
    if len(names) == 1:
        return RecordSet(lambda _: TRUE, names, lambda one: one)
    return RecordSet(lambda *_: TRUE, names)


class UnknownState(InstanceState):
    """A state of unknowns; it has an instance if it has an instance's parts."""

    me, senders = ME, SENDERS  # type: ignore[assignment]
    wanted = staticmethod(function("wanted"))  # type: ignore[assignment]
    pairs = everything("p", "e")  # type: ignore[assignment]
    producer_ids, turns = everything("p"), everything("n")  # type: ignore[assignment]
    offsets = everything("i")  # type: ignore[assignment]
    transactions, numbers = everything("t"), everything("number")  # type: ignore[assignment]
    sequences = everything("sequence")  # type: ignore[assignment]

    def __init__(self, parts: Mapping[str, Any]) -> None:
        self.parts = parts
        vars(self).update(parts)

    def changed(self, **parts: Any) -> Any:
        """Return the state with some of its parts replaced or added."""
        return UnknownState({**self.parts, **parts})


class MapsOfAnySize(Unknowns):
    """Unknowns whose maps are over partitions, transactions, or producer ids."""

    def function_map(self, inner: Any, name: str, arguments: tuple[Node, ...]) -> FunctionMap:
        """Return a map of any number of keys; maps with the same keys have the same size."""
        sizes = {"partitions": PARTITIONS, "outcomes": TRANSACTIONS, "sent": TRANSACTIONS}
        size = sizes.get(name.rpartition(".")[2], PRODUCER_IDS)
        return FunctionMap(size, lambda i: self.value(inner, name, (*arguments, i)))


def any_leader(model: Model, unknowns: Unknowns, place: Node = HERE) -> Rec:
    """Return the leader of a partition, with a log of any length."""
    cls = model.leader.Leader
    bare = unknowns.record(cls, "w.leaders", (place,))
    length = uninterpreted("len(w.leaders.log)", (place,))
    log = FunctionSeq(
        length, lambda i: unknowns.record(model.leader.Stored, "w.leaders.log", (place, i))
    )
    return Rec(cls, {**bare.fields, "log": log})


def any_coordinator(model: Model, unknowns: Unknowns) -> Rec:
    """Return a coordinator that has read its log."""
    bare = unknowns.record(model.coordinator.Coordinator, "w.coordinator")
    return bare.changed(leadership=const(model.coordinator.CoordinatorLeadership.LEADS))


@dataclass(frozen=True, slots=True)
class Ghosts:
    """Ghosts: relations with the names of their numbers, functions, and values. Functions and
    values come with their initial value: a number, or a pair of numbers."""

    relations: Mapping[str, tuple[str, ...]]
    functions: Mapping[str, Any]
    values: Mapping[str, Any]

    def unknown(self) -> dict[str, Any]:
        """Return the ghosts of any state."""
        relations = {n: (function(n, is_bool=True), names) for n, names in self.relations.items()}
        return {
            **{n: RecordSet(*relation) for n, relation in relations.items()},
            **{n: unknown_function(n, value) for n, value in self.functions.items()},
            **{n: unknown_value(n, value) for n, value in self.values.items()},
        }

    def first(self) -> dict[str, Any]:
        """Return the ghosts of the initial state."""
        return {
            **{n: RecordSet(never(FALSE), names) for n, names in self.relations.items()},
            **{n: never(value) for n, value in self.functions.items()},
            **self.values,
        }


def unknown_function(name: str, value: Any) -> Callable[..., Any]:
    """Return an unknown function with results of the same kind as this value."""
    if not isinstance(value, tuple):
        return function(name)
    parts = [function(f"{name}[{i}]") for i in range(len(value))]
    return lambda *arguments: tuple(part(*arguments) for part in parts)


def unknown_value(name: str, value: Any) -> Any:
    """Return an unknown of the same kind as this value."""
    if isinstance(value, tuple):
        return tuple(number(f"{name}[{i}]") for i in range(len(value)))
    return truth(name) if value.is_bool else number(name)


def choose(condition: Node, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Node, ...]:
    """Return a if condition else b, of unknowns."""
    return tuple(ite(condition, x, y) for x, y in zip(a, b, strict=True))


NOTHING = const(NONE)
NOBODY = (NOTHING, NOTHING)
GHOSTS = Ghosts(
    {
        "given": ("p", "e"),
        "sent": ("p", "e", "outcome", "term"),
        "holds_pair": ("p", "e"),
        "others_hold": ("p", "e"),
        "sent_end": ("t", "outcome"),
        "sent_batch": ("t", "number"),
        "acked": ("t", "number"),
    },
    {
        **dict.fromkeys(("decision", "ended", "last_marker", "turn_of", "outcome_of"), NOTHING),
        **dict.fromkeys(("its_turn", "copy_at", "placed", "batch_sequence"), NOTHING),
        **dict.fromkeys(("its_pair", "batch_pair"), NOBODY),
    },
    {
        "turn": ZERO,
        "awaited": const(NOBODY_WAITS),
        "reign": NOBODY,
        **dict.fromkeys(("repeated", "went_back", "disturbed"), FALSE),
        **dict.fromkeys(("contradicted", "trespassed"), FALSE),
        **dict.fromkeys(("works_at", "asked_at"), NOTHING),
    },
)


def any_state(model: Model, unknowns: Unknowns) -> UnknownState:
    """Return a state of which nothing is known."""
    client = unknowns.record(model.client.Client, "w.clients", (ME,))
    coordinator, leader = any_coordinator(model, unknowns), any_leader(model, unknowns)
    actors = {"client": client, "coordinator": coordinator, "leader": leader}
    return UnknownState({"here": HERE, **actors, **GHOSTS.unknown()})


OF_A_PARTITION = ("ended", "last_marker", "turn_of", "copy_at", "placed")
"""The ghosts that each partition has."""


def at_partition(state: Any, model: Model, unknowns: Unknowns, place: Node) -> Any:
    """Return the state as another partition has it."""
    own = {name: function(f"{name} at {place.name}") for name in OF_A_PARTITION}
    return state.changed(here=place, leader=any_leader(model, unknowns, place), **own)


def first_state(model: Model, unknowns: Unknowns, world: Rec) -> UnknownState:
    """Return the initial state of a run, made of the world in which every scope begins."""
    stored = unknowns.record(model.leader.Stored, "nothing", (HERE,))
    leader = world.leaders.at(HERE).changed(log=FunctionSeq(ZERO, lambda _i: stored))
    client = world.clients.at(ME)
    actors = {"client": client, "coordinator": world.coordinator, "leader": leader}
    return UnknownState({"here": HERE, **actors, **GHOSTS.first()})


def both_are(a: tuple[Any, Any], b: tuple[Any, Any]) -> Node:
    """Return whether two pairs of unknowns are equal."""
    result: Node = a[0].eq(b[0]) & a[1].eq(b[1])
    return result


def is_older(a: tuple[Any, Any], b: tuple[Any, Any]) -> Node:
    """Return `is_before`, of unknowns."""
    result: Node = (a[0] < b[0]) | a[0].eq(b[0]) & (a[1] < b[1])
    return result
