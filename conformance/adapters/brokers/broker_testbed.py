"""The interface of the brokers at which traces are played, and the resources that each trace has
there."""

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
"""The number of a trace, and its script."""


class BrokerTestbed(ABC):
    """The scheduler's view of brokers. Subclasses override what differs from one broker without
    faults.

    `in_flight` sessions share connections. At most `asking` of them send requests at a time, at
    most `most` together with resting ones; `together` of them wait for the same faults. A script
    with a wait costs as much as `wait_costs` tries of a shorter one. `masks` are those of the plan.
    `broken` are the guarantees that the brokers were seen to break outside of traces.
    `topic_configs` are those of the topics.
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

    # ---- parts of a report

    @abstractmethod
    def waits_of(self, script: Any) -> int:
        """How often a script waits for brokers; each wait takes seconds."""

    def cost_of(self, script: Any) -> int:
        """The cost of a script, in tries of a shorter trace."""
        return 1 + self.wait_costs * self.waits_of(script)

    def observed(self, end: TraceEnd, difference: Difference) -> ObservedProperties:
        """The guarantees that brokers break in a trace that differed; empty if they are not
        followed."""
        return ObservedProperties()

    def take_note(self) -> Any:
        """The data that the side checks need of the traces since the previous call, as plain data;
        None if they need nothing."""
        return None

    def checks(self, notes: Sequence[Any] = ()) -> dict[str, SideCheck]:
        """The side checks, with the notes of all waves. Raises BackendFailed."""
        return {}

    # ---- traces

    @abstractmethod
    def group_of(self, script: Any) -> Hashable | None:
        """Scripts of the same group share a schedule; None for a script without faults."""

    def begin(self, scripts: Sequence[Numbered], schedule: FaultSchedule) -> None:
        """Begin the traces of one schedule."""
        return

    @abstractmethod
    def session(self, number: int, script: Any, factor: int) -> tuple[Any, Session]:
        """The resources of a trace, and its session, which may take `factor` times as long as
        usual."""

    def producers_of(self, resources: Any) -> Sequence[int]:
        """The producer ids that a trace is given; empty if it asks for its own."""
        return ()

    @abstractmethod
    def give_back(self, resources: Any, end: TraceEnd) -> None:
        """A trace has ended: partitions whose state is known are used again."""

    def end(self) -> None:
        """The traces of one schedule have ended."""
        return

    # ---- connections

    @abstractmethod
    def connect(self, route: Hashable) -> CoordinatorConnection:
        """Open one more connection. Raises ConnectionLost."""

    def route(self, ask: Ask, resources: Any) -> Hashable:
        """The connection of a session that a request uses; late requests have one of their own."""
        return ask.is_late

    @abstractmethod
    def ask_anything(self) -> None:
        """Send a request that living brokers answer at once. Raises KafkaError."""

    def check_alive(self, failure: Exception) -> None:
        """Raises BackendFailed if the brokers answer nothing at all."""
        try:
            self.ask_anything()
        except (KafkaError, DecodeError) as error:
            raise BackendFailed(
                f"the broker does not answer any more: {failure}; then: {error}"
            ) from error

    def close(self) -> None:
        """Close the testbed's own connections."""
        return

    # ---- faults

    def is_due(self, fault: str) -> bool:
        """Whether a fault is injected even if no session waits for it any more."""
        return False

    def inject(self, fault: str, sessions: int) -> None:
        """Inject a fault for which this many sessions wait. No connection is kept across it."""
        return

    def resume(self, resources: Any) -> Any:
        """The value that a session which waited for a fault receives."""
        return None
