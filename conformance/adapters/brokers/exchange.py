"""What a trace at running brokers asks for, and how it ends: between sessions and the scheduler.

A session is a generator. It yields what is asked together, and is sent the answers; so one thread
keeps many traces going. It decides nothing about connections: `Ask.to` says whom it means.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from conformance.adapters.brokers.wire import WireCall
from conformance.judging.masks import MaskedWork
from proofs.trace.format import Instance

COORDINATOR: Final = -1


class Ask(NamedTuple):
    """A request. `to` is the partition whose leader is asked, or COORDINATOR; `is_late` if it goes
    over the connection of what is late."""

    call: WireCall[Any]
    is_late: bool = False
    to: int = COORDINATOR


class Wait(NamedTuple):
    """Nothing is asked until `until`, in seconds of the testbed's clock."""

    until: float


class BrokerFault(NamedTuple):
    """Something is done to brokers, for all sessions that wait for it. A testbed knows what, and
    what its answer is."""

    name: str


class NoAnswer(Exception):
    """Thrown into a session whose request is not answered, though it is alone on its connection."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference of a trace, at a step (from 1; the last for what comes behind it).

    `instance` is a rule instance, or `settle`, `settled` or `probe_...`.
    """

    step: int
    instance: Instance
    expected: Mapping[str, Any]
    observed: Mapping[str, Any]


class DifferenceFound(Exception):
    """A difference on the way."""

    def __init__(self, difference: Difference) -> None:
        super().__init__(difference.instance[0])
        self.difference = difference


@dataclass(frozen=True, slots=True)
class TraceEnd:
    """How a trace ended after so many `steps`.

    `left` is what its partitions are like for the next trace; None if nobody knows. `answered` is
    what the brokers said of its batches. It followed the prepared trace up to the step before
    `departs_at`; 0: all the way. `masked` is what masks hid on the way; the difference is a
    `consequence` where it may follow from that.
    """

    difference: Difference | None = None
    is_undecided: bool = False
    left: Sequence[Any] | None = None
    steps: int = 0
    answered: Sequence[Any] = ()
    departs_at: int = 0
    is_consequence: bool = False
    masked: MaskedWork = field(default_factory=dict)


Asks = Generator[Sequence[Ask | Wait | BrokerFault], list[Any], Any]
"""Yields what is asked together, or one Wait or BrokerFault; is sent the answers."""
Session = Generator[Sequence[Ask | Wait | BrokerFault], list[Any], TraceEnd]
