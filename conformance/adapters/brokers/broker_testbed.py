"""The brokers that traces are played at, and what each trace has there for itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from conformance.adapters.brokers.clock import MACHINE_CLOCK, BrokersClock
from conformance.adapters.brokers.exchange import Ask, Difference, Session, TraceEnd
from conformance.adapters.brokers.fault_schedule import FaultSchedule
from conformance.adapters.brokers.kafka.errors import KafkaError
from conformance.adapters.brokers.wire import CoordinatorConnection
from conformance.judging.backend import BackendFailed
from conformance.judging.guaranteed import ObservedProperties
from conformance.judging.masks import NO_MASKS, Masks
from conformance.judging.reports.report import SideCheck
from impl import DecodeError

Numbered = tuple[int, Any]
"""A trace's number, and its script."""


class BrokerTestbed(ABC):
    """What a scheduler needs to know of brokers. A testbed says what differs from one broker to
    which nothing is done.

    `in_flight` sessions share connections. So many as `asking` ask at a time, `most` with those
    that rest; `together` wait for the same faults. A waiting script stands for `wait_costs` tries
    of a shorter one. `masks` are those of the plan. `broken` are the guarantees that the brokers
    were seen to break beside traces. `topic_configs` are those of its topics.
    """

    in_flight = 1
    asking = 24
    most = together = 192
    wait_costs = 30
    broken: frozenset[str] = frozenset()
    not_applicable: Sequence[str] = ()
    masks: Masks = NO_MASKS
    topic_configs: Mapping[str, str] = MappingProxyType({})
    clock: BrokersClock = MACHINE_CLOCK

    # ---- what a report says

    @abstractmethod
    def waits_of(self, script: Any) -> int:
        """How often a script waits for brokers: that takes seconds."""

    def cost_of(self, script: Any) -> int:
        """How many tries of a shorter trace one of it stands for."""
        return 1 + self.wait_costs * self.waits_of(script)

    def observed(self, end: TraceEnd, difference: Difference) -> ObservedProperties:
        """What brokers that differed show of the guarantees; nothing if they are not followed."""
        return ObservedProperties()

    def take_note(self) -> Any:
        """What its checks need of the traces since it was asked before, as plain data; None if
        nothing."""
        return None

    def checks(self, notes: Sequence[Any] = ()) -> dict[str, SideCheck]:
        """What is checked beside the traces, with the notes of all. Raises BackendFailed."""
        return {}

    # ---- traces

    @abstractmethod
    def group_of(self, script: Any) -> Hashable | None:
        """Those with the same group share a schedule; None: no fault concerns it."""

    def begin(self, scripts: Sequence[Numbered], schedule: FaultSchedule) -> None:
        """Traces of one schedule come next."""
        return

    @abstractmethod
    def session(self, number: int, script: Any, factor: int) -> tuple[Any, Session]:
        """What a trace has for itself, and the trace, which may take `factor` times as long."""

    def producers_of(self, resources: Any) -> Sequence[int]:
        """The producer ids that a trace is given; none where it asks for its own."""
        return ()

    @abstractmethod
    def give_back(self, resources: Any, end: TraceEnd) -> None:
        """A trace has ended: what is known of its partitions serves others."""

    def end(self) -> None:
        """The traces of one schedule have ended."""
        return

    # ---- connections

    @abstractmethod
    def connect(self, route: Hashable) -> CoordinatorConnection:
        """One more connection. Raises ConnectionLost."""

    def route(self, ask: Ask, resources: Any) -> Hashable:
        """Over which of a session's connections a request goes: what is late has its own."""
        return ask.is_late

    @abstractmethod
    def ask_anything(self) -> None:
        """Ask the brokers what they answer at once if they live. Raises KafkaError."""

    def check_alive(self, failure: Exception) -> None:
        """Raises BackendFailed if the brokers answer nothing at all."""
        try:
            self.ask_anything()
        except (KafkaError, DecodeError) as error:
            raise BackendFailed(
                f"the broker does not answer any more: {failure}; then: {error}"
            ) from error

    def close(self) -> None:
        """Close the connections that are the testbed's own."""
        return

    # ---- faults

    def is_due(self, fault: str) -> bool:
        """Whether a fault happens also where nobody waits for it any more."""
        return False

    def inject(self, fault: str, sessions: int) -> None:
        """Do it; so many sessions wait for it. No connection is kept over it."""
        return

    def resume(self, resources: Any) -> Any:
        """What a session is answered that has waited for a fault."""
        return None
