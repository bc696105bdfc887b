"""One broker, or two replicas, whose leaders are judged: the resources that traces share there.

A leader gets a trace's requests in the model's order: they use one connection. A leader does not
ask to which of the model's connections they belong, so many traces share one. Each trace has
producer ids of its own: the model's producer 0 is the first id that InitProducerId returned, and
its epoch 0 is the epoch that came with it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

from conformance.adapters.brokers.backend import BrokersBackend
from conformance.adapters.brokers.broker_testbed import BrokerTestbed
from conformance.adapters.brokers.exchange import Difference, Session, TraceEnd
from conformance.adapters.brokers.idempotent.answered_log import observed_properties
from conformance.adapters.brokers.idempotent.deliveries import LeaderScript, LeaderScriptWriter
from conformance.adapters.brokers.idempotent.leader_session import leader_session
from conformance.adapters.brokers.idempotent.observer import Observer
from conformance.adapters.brokers.idempotent.producer_id_blocks import check_blocks
from conformance.adapters.brokers.idempotent.started_brokers import OneBroker
from conformance.adapters.brokers.idempotent.wire_messages import Binding, topic_configs
from conformance.adapters.brokers.kafka.admin import (
    ProducerIdentity,
    TopicPartition,
    api_versions,
    await_leader,
    init_producer_ids,
    log_start_offsets,
)
from conformance.adapters.brokers.kafka.broker import KafkaBroker
from conformance.adapters.brokers.kafka.errors import KafkaError
from conformance.adapters.brokers.listening_broker import NO_PRODUCERS, ListeningBroker
from conformance.adapters.brokers.partition_pool import PartitionOffsets, PartitionPool, restarted
from conformance.adapters.brokers.wire import CoordinatorConnection
from conformance.judging.backend import BackendFailed
from conformance.judging.guaranteed import ObservedProperties
from conformance.judging.plan import PreparedPlan, configuration
from conformance.judging.reports.report import SideCheck
from model.language import Wire

CONNECTIONS: Final = 4
SHARE_A_FAULT: Final = 400
"""The most traces under way together when a fault is injected."""
MOST_TRACES: Final = 32
"""The number of traces that a partition serves."""
MAX_PARTITIONS: Final = 1_000
"""The most partitions of one topic."""
IDS_AT_A_TIME: Final = 100
ONCE: Final = "each id once"
TWICE: Final = "an id twice"


class LeadersTestbed(BrokerTestbed):
    """A broker, and the resources of each trace. `traces` is the expected number of traces, as far
    as it is known. Raises BackendFailed."""

    in_flight = 25
    asking = most = CONNECTIONS * in_flight
    together = SHARE_A_FAULT

    def __init__(self, observer: Observer, broker: ListeningBroker, traces: int) -> None:
        self._observer = observer
        self._broker = broker
        self.not_applicable = [] if broker.shows_producers else [NO_PRODUCERS]
        self.topic_configs = topic_configs(observer.k)
        self._width = min(max(self.most, -(-traces // MOST_TRACES)), MAX_PARTITIONS)
        self._pool = PartitionPool(self._topic, MOST_TRACES)
        self._producers: deque[ProducerIdentity] = deque()
        self._given, self._seen_ids = 0, set[int]()
        self._starts: Mapping[TopicPartition, int] = {}

    def take_note(self) -> bool | None:
        """Whether a producer id came twice. The ids themselves mean nothing to another process: its
        broker may be a new one that begins again."""
        return self._given > len(self._seen_ids) or None

    def checks(self, notes: Sequence[Any] = ()) -> dict[str, SideCheck]:
        """Checks that no producer id came twice, across all faults of the broker; and if a
        ZooKeeper that can be read allocates them, its blocks. Raises BackendFailed."""
        checks = {"producer_ids": self._check_ids(notes)}
        kafka = self._broker.kafka if isinstance(self._broker, OneBroker) else None
        if isinstance(kafka, KafkaBroker) and kafka.zookeeper_address is not None:
            checks["producer_id_blocks"] = check_blocks(kafka)
        return checks

    def _check_ids(self, notes: Sequence[bool]) -> SideCheck:
        """Ids that are given at the end are compared with all earlier ones. Their numbers depend on
        time, and so are not reported."""
        try:
            self._ask_for_producers(IDS_AT_A_TIME)
        except KafkaError as error:
            raise BackendFailed(str(error)) from error
        return SideCheck(IDS_AT_A_TIME, ONCE, TWICE if any((*notes, self.take_note())) else ONCE)

    def waits_of(self, script: LeaderScript) -> int:
        """The number of faults: each is a wait."""
        return len(script.faults)

    def observed(self, end: TraceEnd, difference: Difference) -> ObservedProperties:
        """The guarantees that the broker's answers break."""
        return observed_properties(self._observer.k, end.answered, difference)

    def group_of(self, script: LeaderScript) -> Hashable | None:
        """Scripts with the same faults."""
        return script.faults or None

    def session(self, number: int, script: LeaderScript, factor: int) -> tuple[Binding, Session]:
        """The producer ids and partitions of a trace, and its session."""
        bounds = self._observer.k.bounds
        try:
            producers = self._take_producers(bounds.producer_ids)
            logs = self._pool.take(bounds.partitions)
        except KafkaError as error:
            raise BackendFailed(str(error)) from error
        now_ms = time.time_ns() // 1_000_000
        binding = Binding(producers, logs, self._broker.produce_version, now_ms)
        shows = self._broker.shows_producers
        return binding, leader_session(
            self._observer, script, binding, describes=shows, masks=self.masks
        )

    def _take_producers(self, count: int) -> Sequence[ProducerIdentity]:
        if len(self._producers) < count:
            self._ask_for_producers(max(count, IDS_AT_A_TIME))
        return [self._producers.popleft() for _ in range(count)]

    def _ask_for_producers(self, count: int) -> None:
        with self._broker.open_connection() as connection:
            given = init_producer_ids(connection, count)
        self._given += len(given)
        self._seen_ids |= {one.producer_id for one in given}
        self._producers += given

    def _topic(self) -> Sequence[TopicPartition]:
        return self._broker.topic(self._width, configs=self.topic_configs)

    def producers_of(self, resources: Binding) -> Sequence[int]:
        """The producers of the binding."""
        return [producer.producer_id for producer in resources.producers]

    def give_back(self, resources: Binding, end: TraceEnd) -> None:
        """Reuse the partitions for other traces if their content is known."""
        for log, left in zip(resources.logs, end.left or (), strict=False):
            start = log.end + left.start if left.start else log.start
            self._pool.give_back(PartitionOffsets(log.partition, start, log.end + left.end))

    def connect(self, route: Hashable) -> CoordinatorConnection:
        """Open a connection to the leader. Raises ConnectionLost."""
        return CoordinatorConnection(self._broker.open_connection())

    def inject(self, fault: str, sessions: int) -> None:
        """Inject a fault, and wait until the brokers lead all partitions again."""
        self._broker.inject(fault)
        with self._broker.open_connection() as connection:
            await_leader(connection, self._pool.created)
            self._starts = log_start_offsets(connection, self._pool.created)
        self._pool.restart(self._starts)

    def resume(self, resources: Binding) -> None:
        """Logs may have other start offsets after a fault."""
        resources.logs = [restarted(log, self._starts) for log in resources.logs]

    def ask_anything(self) -> None:
        """ApiVersions. Raises KafkaError, DecodeError."""
        with self._broker.open_connection() as connection:
            api_versions(connection)


def leaders_backend(prepared: PreparedPlan, broker: ListeningBroker) -> BrokersBackend:
    """The backend for a broker's leaders. Raises CannotPlay for a scope that it cannot have,
    BackendFailed."""
    k = configuration(prepared.plan)
    observer = Observer(k, tells_log_start=broker.tells_log_start)
    writer = LeaderScriptWriter(k, observer, broker.means)
    backend = BrokersBackend(prepared, writer, LeadersTestbed(observer, broker, prepared.count))
    backend.afresh = lambda same: leaders_backend(same, broker)
    if Wire.CLUSTER not in broker.means:  # distinguishing traces have one replica
        backend.other_scopes = backend.afresh
    return backend
