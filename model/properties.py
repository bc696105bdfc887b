"""The kinds of properties: invariants, reachability witnesses, liveness properties.

Each composition declares its own properties in these forms. `K` is its configuration, `W` its
world.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

K = TypeVar("K")
W = TypeVar("W")


def always(k: Any) -> bool:
    """True: the condition of a property that holds in every configuration."""
    return True


class WorldPart(Enum):
    """A part of a world in which a guarantee is seen to be broken."""

    LOGS = "the records in logs"
    ACKNOWLEDGEMENTS = "the records that applications were told are stored"
    FAILURES = "the records that applications were told have failed"
    BUMPS = "the clients that want another epoch"
    INSIDE = "the state of clients and brokers that shows in none of these, and what is on its way"
    FAULTS = "the faults that have happened"


@dataclass(frozen=True, slots=True)
class Guarantee(Generic[K, W]):
    """An invariant: it holds in every reachable world of the configurations for which `guaranteed`
    is true.

    `witness` is a predicate of worlds in which the guarantee's "if" happens. A run that never meets
    the witness has not put the guarantee to the test. Without a witness, a run can only break the
    guarantee. `about` names the parts of a world that the check reads: a system is judged by the
    guarantee only if it shows all of them. In configurations for which `needs` is false, the check
    has nothing to look at.
    """

    name: str
    check: Callable[[K, W], bool]
    guaranteed: Callable[[K], bool]
    witness: Callable[[K, W], bool] | None = None
    about: tuple[WorldPart, ...] = (WorldPart.INSIDE,)
    needs: Callable[[K], bool] = always


@dataclass(frozen=True, slots=True)
class Witness(Generic[K, W]):
    """A predicate that some world satisfies: it shows that the "if" of a guarantee happens."""

    name: str
    check: Callable[[K, W], bool]


# Liveness: each such property is about one instance of a client and one partition.


@dataclass(frozen=True, slots=True)
class EventPattern(Generic[K, W]):
    """Events of these `rules` with this `choice`, in worlds in which `when` holds for the instance
    and the partition."""

    rules: tuple[str, ...]
    when: Callable[[K, W, int, int], bool] | None = None
    choice: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Happens(Generic[K, W]):
    """If the event stays possible, it happens."""

    event: EventPattern[K, W]


@dataclass(frozen=True, slots=True)
class Repeats(Generic[K, W]):
    """If `often` happens for ever, so does `then`."""

    often: EventPattern[K, W]
    then: EventPattern[K, W]


@dataclass(frozen=True, slots=True)
class Assumption(Generic[K, W]):
    """A fairness assumption that a liveness property rests on."""

    name: str
    says: str
    fairness: Happens[K, W] | Repeats[K, W]


@dataclass(frozen=True, slots=True)
class Eventually(Generic[K, W]):
    """Whatever is pending does not stay pending for ever. `pending` is 0 if nothing is, else a
    number that names the pending thing. The property is checked in the configurations where `asked`
    holds, and guaranteed in those where `guaranteed` holds."""

    name: str
    says: str
    pending: Callable[[K, W, int, int], int]
    under: tuple[str, ...]
    asked: Callable[[K], bool] = always
    guaranteed: Callable[[K], bool] = always


@dataclass(frozen=True, slots=True)
class Ceases(Generic[K, W]):
    """The event does not happen for ever."""

    name: str
    says: str
    event: EventPattern[K, W]
    under: tuple[str, ...]
    asked: Callable[[K], bool] = always
    guaranteed: Callable[[K], bool] = always
