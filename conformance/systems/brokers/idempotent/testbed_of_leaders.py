"""One broker, or two replicas, whose leaders are judged: what traces share there.

A leader gets a trace's requests in the model's order: they go over one connection. To which of the
model's connections they belong no leader asks, so many traces share one.
"""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from conformance.backends import BackendFailed
from conformance.guaranteed import ObservedProperties
from conformance.kafka.admin import Supported, api_versions
from conformance.kafka.connection import ANSWER_TIMEOUT_MS, BrokerConnection
from conformance.kafka.errors import WireError
from conformance.systems.brokers.broker_testbed import BrokerTestbed
from conformance.systems.brokers.exchange import Difference, Session, TraceEnd
from conformance.systems.brokers.idempotent.answered_log import observed_properties
from conformance.systems.brokers.idempotent.bookings import BookingPool, TopicForm
from conformance.systems.brokers.idempotent.deliveries import LeaderScript
from conformance.systems.brokers.idempotent.judged_brokers import JudgedBrokers
from conformance.systems.brokers.idempotent.leader_session import leader_session
from conformance.systems.brokers.idempotent.observer import Observer
from conformance.systems.brokers.idempotent.wire_messages import (
    NEWEST_PRODUCE,
    OLDEST_PRODUCE,
    TELLS_LOG_START,
    Binding,
    topic_configs,
)
from conformance.transactions.wire import CoordinatorConnection
from impl import ApiKey

CONNECTIONS: Final = 4
SHARE_A_FAULT: Final = 400
"""Traces that are on their way together when something is done to brokers."""
NO_PRODUCERS: Final = "producer states: the broker does not offer DescribeProducers"


@dataclass(frozen=True, slots=True)
class Broker:
    """Where a broker listens, and what it supports of what is asked here; who does what to it."""

    nodes: JudgedBrokers
    supported: Supported
    timeout_ms: int = ANSWER_TIMEOUT_MS

    @property
    def describes(self) -> bool:
        """It tells of its producers."""
        return ApiKey.DESCRIBE_PRODUCERS in self.supported.versions

    @property
    def produce_version(self) -> int:
        """The newest that both know; below OLDEST_PRODUCE none."""
        oldest, newest = self.supported.versions.get(ApiKey.PRODUCE, (0, -1))
        version = min(newest, NEWEST_PRODUCE)
        return version if version >= max(oldest, OLDEST_PRODUCE) else -1

    @property
    def tells_log_start(self) -> bool:
        """Its answers to Produce have it."""
        return self.produce_version >= TELLS_LOG_START

    def connect(self) -> BrokerConnection:
        """One more connection, to whoever leads. Raises ConnectionLost."""
        return BrokerConnection(*self.nodes.address, timeout_ms=self.timeout_ms)


class LeadersTestbed(BrokerTestbed):
    """A broker, and what each trace has there. `traces` is how many will come, as far as that is
    known. Raises BackendFailed."""

    in_flight = 25
    asking = most = CONNECTIONS * in_flight
    together = SHARE_A_FAULT

    def __init__(self, observer: Observer, broker: Broker, traces: int) -> None:
        self._observer = observer
        self._broker = broker
        self.not_applicable = [] if broker.describes else [NO_PRODUCERS]
        form = TopicForm(broker.nodes.replicas, topic_configs(observer.k))
        try:
            self._bookings = BookingPool(broker.connect(), traces, self.most, form)
        except WireError as error:
            raise BackendFailed(str(error)) from error

    def close(self) -> None:
        """Close all connections."""
        self._bookings.close()

    def waits_of(self, script: LeaderScript) -> int:
        """At each fault."""
        return len(script.faults)

    def observed(self, end: TraceEnd, difference: Difference) -> ObservedProperties:
        """The guarantees that its answers break."""
        return observed_properties(self._observer.k, end.answered, difference)

    def group_of(self, script: LeaderScript) -> Hashable | None:
        """Those that want the same faults."""
        return script.faults or None

    def session(self, number: int, script: LeaderScript, patience: int) -> tuple[Binding, Session]:
        """Producer ids and partitions, and the trace."""
        bounds = self._observer.k.bounds
        booking = self._bookings.take(bounds.producer_ids, bounds.partitions)
        now_ms = time.time_ns() // 1_000_000
        binding = Binding(booking, self._broker.produce_version, now_ms)
        describes = self._broker.describes
        return binding, leader_session(self._observer, script, binding, describes=describes)

    def give_back(self, resources: Binding, end: TraceEnd) -> None:
        """Partitions serve other traces if it is known what is in them."""
        if end.left:
            self._bookings.give_back(resources.booking, end.left)

    def connect(self, route: Hashable) -> CoordinatorConnection:
        """To whoever leads. Raises ConnectionLost."""
        return CoordinatorConnection(self._broker.connect())

    def inject(self, fault: str, sessions: int) -> None:
        """Do it, until the brokers lead all partitions again."""
        self._broker.nodes.do(fault)
        self._bookings.reconnect(self._broker.connect())

    def resume(self, resources: Binding) -> None:
        """Logs may start elsewhere now."""
        resources.booking = self._bookings.restarted(resources.booking)

    def ask_anything(self) -> None:
        """ApiVersions. Raises KafkaError, DecodeError."""
        with self._broker.connect() as connection:
            api_versions(connection)
