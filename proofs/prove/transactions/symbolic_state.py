"""What the clauses of transactions speak of: any coordinator, any leader of one partition, any
instance of the application, and the ghosts that remember what was said.

Theory of operation. The same clause is lifted over a state of unknowns (`UnknownState`) and
evaluated, as plain Python, on each state of small scopes (`scope_states`).

Ghosts are nobody's state: no rule reads them. They remember, of a run that may be of any length,
which pairs (producer id, epoch) were told to somebody (`given`), to whom the transactional id
belongs (`reign`: what InitProducerId told last), what each pair was decided (`decision`, written
when PREPARE is known to be in the log: by who has its append confirmed, or who reads it there),
which markers were ever `sent`, and which marker `ended` what stands at an offset. For V1, whose
pairs do not tell transactions apart, transactions are numbered as they complete: `turn` is the
present one, `turn_of` a record's, `outcome_of` what was prepared of it. What must never happen is
remembered too: `repeated`, `went_back`, `disturbed`, `contradicted`, `trespassed` stay false.
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
"""The partition whose leader is looked at: any."""
ME = number("me")
"""The instance that is looked at: any."""
SENDERS = number("senders")
"""Which transaction the sender of a request is in, as the coordinator counts them: any."""
PARTITIONS = leaf("partitions", 1, INFINITE)
PRODUCER_IDS = leaf("producer_ids", 1, INFINITE)
TRANSACTIONS = leaf("transactions", 1, INFINITE)
NONE = -1

NOBODY_WAITS, AGAIN, ANEW = range(3)
"""What an append is for: nothing that gives a producer id; InitProducerId that may be told again
what was told before; one that must be told something new."""


class ProducerIdPair(Protocol):
    """What has a producer id and an epoch."""

    @property
    def producer_id(self) -> int:
        """The producer id."""

    @property
    def producer_epoch(self) -> int:
        """The epoch."""


def pair(of: ProducerIdPair) -> Pair:
    """Producer id and epoch."""
    return (of.producer_id, of.producer_epoch)


@dataclass(frozen=True, slots=True)
class Image:
    """What a coordinator knows, logs or appends of a transaction: a `Known`, with its metadata."""

    state: TransactionState
    producer_id: int
    producer_epoch: int
    partitions: Map[int, bool]
    last_producer_epoch: int
    previous_producer_id: int
    next_producer_id: int

    @staticmethod
    def of(known: Known) -> Image:
        """The image with its metadata's fields."""
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
    """One state of a run, with what its past left in the ghosts. Where it is a state of unknowns,
    these are in place of the values."""

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
    """What the application wants of each transaction: 1 is to commit it."""
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
    """All that there are; in a state of unknowns any."""

    @property
    def log(self) -> Sequence[Stored]:
        """The log here."""
        return self.leader.log

    @property
    def known(self) -> Image:
        """What the coordinator knows."""
        return Image.of(self.coordinator.known)

    @property
    def logged(self) -> Image:
        """What is in the transaction log."""
        return Image.of(self.coordinator.log)

    @property
    def appended(self) -> Image:
        """What is on its way to the log: it means something only while the coordinator appends."""
        return Image.of(self.coordinator.image)

    @property
    def on_its_way(self) -> Sequence[Image]:
        """What is on its way to the log, if anything is."""
        return present((self.coordinator.is_appending, self.appended))

    @property
    def to_be_known(self) -> Sequence[Image]:
        """What is in the log, or on its way there."""
        return present((True, self.logged), (self.coordinator.is_appending, self.appended))

    @property
    def images(self) -> Sequence[Image]:
        """What is known, in the log, or on its way there."""
        return present(
            (True, self.known),
            (True, self.logged),
            (self.coordinator.is_appending, self.appended),
        )


class InstanceState(TransactionsState):
    """A state with one instance in it: see `proofs.prove.transactions.client`."""

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
    """All that there are; in a state of unknowns any."""


def everything(*names: str) -> RecordSet:
    """All tuples of numbers; all numbers, if there is one name."""
    if len(names) == 1:
        return RecordSet(lambda _: TRUE, names, lambda one: one)
    return RecordSet(lambda *_: TRUE, names)


class UnknownState(InstanceState):
    """A state of unknowns; of an instance, if it has these parts."""

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
        """The state with some of its parts replaced, or with more."""
        return UnknownState({**self.parts, **parts})


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


@dataclass(frozen=True, slots=True)
class Ghosts:
    """Ghosts: relations, with the names of their numbers, functions and values, with what they are
    before anything has happened: a number, or a pair of them."""

    relations: Mapping[str, tuple[str, ...]]
    functions: Mapping[str, Any]
    values: Mapping[str, Any]

    def unknown(self) -> dict[str, Any]:
        """The ghosts of any state."""
        relations = {n: (function(n, is_bool=True), names) for n, names in self.relations.items()}
        return {
            **{n: RecordSet(*relation) for n, relation in relations.items()},
            **{n: unknown_function(n, value) for n, value in self.functions.items()},
            **{n: unknown_value(n, value) for n, value in self.values.items()},
        }

    def first(self) -> dict[str, Any]:
        """The ghosts of the state that a run begins in."""
        return {
            **{n: RecordSet(never(FALSE), names) for n, names in self.relations.items()},
            **{n: never(value) for n, value in self.functions.items()},
            **self.values,
        }


def unknown_function(name: str, value: Any) -> Callable[..., Any]:
    """An unknown function, of numbers like this value."""
    if not isinstance(value, tuple):
        return function(name)
    parts = [function(f"{name}[{i}]") for i in range(len(value))]
    return lambda *arguments: tuple(part(*arguments) for part in parts)


def unknown_value(name: str, value: Any) -> Any:
    """An unknown like this value."""
    if isinstance(value, tuple):
        return tuple(number(f"{name}[{i}]") for i in range(len(value)))
    return truth(name) if value.is_bool else number(name)


def choose(condition: Node, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Node, ...]:
    """a if condition else b, of unknowns."""
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
    """A state of which nothing is known."""
    client = unknowns.record(model.client.Client, "w.clients", (ME,))
    coordinator, leader = any_coordinator(model, unknowns), any_leader(model, unknowns)
    actors = {"client": client, "coordinator": coordinator, "leader": leader}
    return UnknownState({"here": HERE, **actors, **GHOSTS.unknown()})


OF_A_PARTITION = ("ended", "last_marker", "turn_of", "copy_at", "placed")
"""The ghosts that each partition has."""


def at_partition(state: Any, model: Model, unknowns: Unknowns, place: Node) -> Any:
    """The state as another partition has it."""
    own = {name: function(f"{name} at {place.name}") for name in OF_A_PARTITION}
    return state.changed(here=place, leader=any_leader(model, unknowns, place), **own)


def first_state(model: Model, unknowns: Unknowns, world: Rec) -> UnknownState:
    """The state that a run begins in, out of the world that every scope begins in."""
    stored = unknowns.record(model.leader.Stored, "nothing", (HERE,))
    leader = world.leaders.at(HERE).changed(log=FunctionSeq(ZERO, lambda _i: stored))
    client = world.clients.at(ME)
    actors = {"client": client, "coordinator": world.coordinator, "leader": leader}
    return UnknownState({"here": HERE, **actors, **GHOSTS.first()})


def both_are(a: tuple[Any, Any], b: tuple[Any, Any]) -> Node:
    """The same pair, of unknowns."""
    result: Node = a[0].eq(b[0]) & a[1].eq(b[1])
    return result


def is_older(a: tuple[Any, Any], b: tuple[Any, Any]) -> Node:
    """`is_before`, of unknowns."""
    result: Node = (a[0] < b[0]) | a[0].eq(b[0]) & (a[1] < b[1])
    return result
