"""The interface between sessions and the scheduler: requests, waits, faults, and the end of a
trace.

A session is a generator. It yields requests that are sent together, and receives the answers; so
one thread plays many traces. A session does not choose connections: `Ask.to` names the receiver.
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
    """A request. `to` is the partition whose leader receives it, or COORDINATOR. A request that
    `is_late` uses the connection for late requests."""

    call: WireCall[Any]
    is_late: bool = False
    to: int = COORDINATOR


class Wait(NamedTuple):
    """No request is sent until `until`, in seconds of the testbed's clock."""

    until: float


class BrokerFault(NamedTuple):
    """A fault, injected for all sessions that wait for it. The testbed knows how to inject it, and
    returns a value to the session."""

    name: str


class NoAnswer(Exception):
    """Thrown into a session whose request gets no answer, although the session is alone on its
    connection."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference of a trace, at a step. Steps count from 1; the last stands for requests
    after the trace.

    `instance` is a rule instance, or `settle`, `settled` or `probe_...`.
    """

    step: int
    instance: Instance
    expected: Mapping[str, Any]
    observed: Mapping[str, Any]


class DifferenceFound(Exception):
    """A session found a difference."""

    def __init__(self, difference: Difference) -> None:
        super().__init__(difference.instance[0])
        self.difference = difference


@dataclass(frozen=True, slots=True)
class TraceEnd:
    """The end of a trace, after this many `steps`.

    `left` is the state of its partitions for the next trace; None if it is unknown. `answered` has
    the brokers' answers to its batches. The session followed the prepared trace up to the step
    before `departs_at`; 0 if to the end. `masked` has what masks hid. The difference is a
    `consequence` if it may follow from masked ones.
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
"""Yields requests that are sent together, or one Wait or BrokerFault; receives the answers."""
Session = Generator[Sequence[Ask | Wait | BrokerFault], list[Any], TraceEnd]
