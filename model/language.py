"""The language of the model: plain, typed, total Python.

Five rules allow a program to derive every form of the model from its text:

1. A value is a bool, a ranged int, an enum, a record, a bounded tuple, a `Map` or a `Set` over a
   named index type. All are immutable and hashable. An absent value is Kafka's own sentinel (-1).
2. A function is first order and total. It takes the `Configuration` first where it needs it,
   assigns a name once, and returns on every path. It has no loops, exceptions, strings or floats.
3. A rule of an actor (`receives`, `acts`) sees that actor and one input, never the world.
4. A rule of the world (`event`) defines one event. Its parameters are the event's choices, each of
   a finite type; its decorator declares everything else that is known of the event. `require`
   refuses an event that the protocol does not allow; `within_scope` refuses one that only the
   scope's limits forbid. Reports keep the two apart.
5. Beside Python's own operations, the model uses only what this module defines (`fold`, `span`,
   `Map`, `Set`, ...).

`proofs.lift` reads the same text. It refuses code outside this subset and names a remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar, dataclass_transform
from weakref import WeakSet

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
M = TypeVar("M")
T = TypeVar("T")
S = TypeVar("S")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Range:
    """An int from `lo` to `hi`, both included; a string names a size of the scope's bounds."""

    lo: int | str
    hi: int | str


@dataclass(frozen=True, slots=True)
class Index:
    """An index type: the integers from 0 up to, but not including, the size that `size` names."""

    size: str


@dataclass(frozen=True, slots=True)
class AtMost:
    """A tuple of at most `capacity` elements; a string names a size of the scope's bounds."""

    capacity: int | str


RECORDS: WeakSet[type] = WeakSet()
"""All record classes of the program."""


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """A record: a frozen, slotted, hashable data class."""
    made = dataclass(frozen=True, slots=True)(cls)
    RECORDS.add(made)
    return made


def is_record(value: object) -> bool:
    """Whether the value is an instance of a record class."""
    return type(value) in RECORDS


class Map(Generic[K, V]):
    """A total map from an index type to values."""

    __slots__ = ("_hash", "_values")

    def __init__(self, values: tuple[V, ...]) -> None:
        self._values = values
        self._hash = -1

    @staticmethod
    def filled(size: int, value: S) -> Map[Any, S]:
        """The map that gives `value` for each of the `size` keys."""
        return Map((value,) * size)

    def __getitem__(self, key: K) -> V:
        if key < 0:  # type: ignore[operator]
            raise IndexError(f"a map of {len(self._values)} keys has no key {key}")
        return self._values[key]  # type: ignore[call-overload, no-any-return]

    def put(self, key: K, value: V) -> Map[K, V]:
        """The map with one key's value replaced. Raises IndexError for a key that the map does not
        have."""
        position: int = key  # type: ignore[assignment]
        if not 0 <= position < len(self._values):
            raise IndexError(f"a map of {len(self._values)} keys has no key {key}")
        return Map((*self._values[:position], value, *self._values[position + 1 :]))

    def values(self) -> tuple[V, ...]:
        """The values, in the order of the keys."""
        return self._values

    def items(self) -> Iterator[tuple[K, V]]:
        """Keys with their values, in the order of the keys."""
        return enumerate(self._values)  # type: ignore[return-value]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Map) and self._values == other._values

    def __hash__(self) -> int:
        if self._hash == -1:
            self._hash = hash(self._values)
        return self._hash

    def __repr__(self) -> str:
        return f"Map{self._values!r}"

    def __reduce__(self) -> tuple[Any, ...]:
        return Map, (self._values,)


class Set(Generic[K]):
    """A set over an index type."""

    __slots__ = ("_bits",)

    def __init__(self, bits: int = 0) -> None:
        self._bits = bits

    def plus(self, key: K) -> Set[K]:
        """The set with one more element."""
        position: int = key  # type: ignore[assignment]
        return Set(self._bits | 1 << position)

    def union(self, other: Set[K]) -> Set[K]:
        """The elements of either set."""
        return Set(self._bits | other._bits)

    def is_empty(self) -> bool:
        """Whether the set has no element."""
        return self._bits == 0

    def __contains__(self, key: K) -> bool:
        position: int = key  # type: ignore[assignment]
        return bool(self._bits >> position & 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Set) and self._bits == other._bits

    def __hash__(self) -> int:
        return hash(("Set", self._bits))

    def __repr__(self) -> str:
        return f"Set({[i for i in range(self._bits.bit_length()) if i in self]})"  # type: ignore[operator]

    def __reduce__(self) -> tuple[Any, ...]:
        return Set, (self._bits,)


EMPTY_SET: Set[Any] = Set()


def span(first: int, count: int) -> Set[Any]:
    """The set first, first + 1, ... of `count` elements."""
    return Set(((1 << count) - 1) << first)


def fold(k: S, step: Callable[[S, V, K], V], items: tuple[K, ...], start: V) -> V:
    """step(k, ... step(k, step(k, start, items[0]), items[1]) ..., items[-1])."""
    value = start
    for item in items:
        value = step(k, value, item)
    return value


def map_values(k: S, function: Callable[[S, V], A], mapping: Map[K, V]) -> Map[K, A]:
    """The map that gives function(k, value) where `mapping` gives value."""
    return Map(tuple(function(k, value) for value in mapping.values()))


@record
class Step(Generic[A, M]):
    """The result of an actor's rule: the actor's new state and the messages that it sends."""

    actor: A
    sends: tuple[M, ...]


class Disabled(Exception):
    """The event cannot happen in this state. `by_scope` is true if only a limit of the scope
    forbids it."""

    def __init__(self, *, by_scope: bool) -> None:
        super().__init__("not within the scope" if by_scope else "not enabled")
        self.by_scope = by_scope


def require(condition: bool) -> None:
    """Let the event happen only if `condition` holds."""
    if not condition:
        raise Disabled(by_scope=False)


def within_scope(condition: bool) -> None:
    """Explore the event only if `condition` holds: a limit of the scope, not of the protocol."""
    if not condition:
        raise Disabled(by_scope=True)


@dataclass(frozen=True, slots=True)
class Thread:
    """Events that a random schedule keeps in order: those of one actor, of one channel that keeps
    its messages in order, or of one fault. `by` names the choices that tell threads with the same
    name apart."""

    name: str
    by: tuple[str, ...]


class Wire(Enum):
    """The means by which a test makes running brokers take an event."""

    BROKERS = "brokers that do it unasked"
    """Brokers do it by themselves; a test can neither cause nor prevent it."""
    REQUESTS = "requests of clients"
    """Clients send requests, leave them out, or wait."""
    CONNECTIONS = "connections to clients that break"
    """Requests or answers are lost or delayed, or the network answers in a broker's place."""
    BROKER_CONNECTIONS = "connections between brokers that break"
    MARKERS = "markers that a test sends in a coordinator's name"
    RESTARTS = "a broker that is stopped and started again"
    CLUSTER = "a broker of several that is stopped"
    DELETE_RECORDS = "records that are deleted"
    STATIC_CONFIGS = "an expiration time that a broker is started with"
    DYNAMIC_CONFIGS = "an expiration time that is changed while a broker runs"


@dataclass(frozen=True, slots=True)
class Incident:
    """An act of the environment, as coverage counts it: an event that happens in a world in which
    the condition holds. The condition's parameters are some of the event's. If the incident needs
    other means than its event, `wire` names them."""

    name: str
    condition: Callable[..., bool] | None = None
    wire: Wire | None = None


@dataclass(frozen=True, slots=True)
class Declaration:
    """The facts of an event beside its effect. Without `wire`, no test can make running brokers
    take the event. `excluded_by` names the assumption that leaves the event out of theorems, if
    there is one."""

    thread: Thread
    incidents: tuple[Incident, ...]
    wire: Wire | None
    excluded_by: str = ""


def event(
    thread: Thread, *incidents: Incident, wire: Wire | None = None, excluded_by: str = ""
) -> Callable[[F], F]:
    """Declare a rule of the world: a function (configuration, world, choices...) -> world."""

    def declare(function: F) -> F:
        declaration = Declaration(thread, incidents, wire, excluded_by)
        vars(function).update(kind="event", declaration=declaration)
        return function

    return declare


def receives(function: F) -> F:
    """Declare a rule of an actor that handles one input."""
    vars(function)["kind"] = "receives"
    return function


def acts(function: F) -> F:
    """Declare a rule by which an actor moves without an input."""
    vars(function)["kind"] = "acts"
    return function


def is_event(value: object) -> bool:
    """Whether the value is an event of the world."""
    return getattr(value, "kind", None) == "event"


def declaration_of(value: Callable[..., object]) -> Declaration:
    """The declaration of an event."""
    found: Declaration = vars(value)["declaration"]
    return found


def is_input(value: object) -> bool:
    """Whether the value is a rule by which an actor handles an input."""
    return getattr(value, "kind", None) == "receives"


def is_actor_rule(value: object) -> bool:
    """Whether the value is a rule of an actor."""
    return getattr(value, "kind", None) in ("receives", "acts")
