"""A broker whose coordinator and leaders are judged together: the resources that each trace has
there.

1. A broker serves the requests of one connection one after the other, and a request may wait for
   replicas or coordinators. So each trace under way has a connection, and one for late requests.
2. A trace has a transactional id that was never used. Its partitions served other traces before,
   whose transactions are all over: offsets count from the end of the log that the trace found.
3. Before 4.3 a transaction at the last epoch can get stuck. Once it has timed out, the coordinator
   throws an exception at it in each search for time-outs, and never reaches other transactions:
   KAFKA-20090. So traces that end stuck are played last, together. When one of them times out, it
   waits until all have; then their ids are buried (`exhausted_ids`).
4. If the last epochs are judged, ids are brought near them before the first trace.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any, Final

from conformance.adapters.brokers.backend import MAX_TRIED, BrokersBackend
from conformance.adapters.brokers.broker_testbed import BrokerTestbed
from conformance.adapters.brokers.exchange import Session, TraceEnd
from conformance.adapters.brokers.listening_broker import NO_PRODUCERS
from conformance.adapters.brokers.partition_pool import PartitionOffsets, PartitionPool
from conformance.adapters.brokers.reading import describe_transactions
from conformance.adapters.brokers.testbed import KafkaTestbed
from conformance.adapters.brokers.transactions.exhausted_ids import LAST_EPOCH, ExhaustedIds
from conformance.adapters.brokers.transactions.servers import TransactionServer
from conformance.adapters.brokers.transactions.transaction_probes import with_room
from conformance.adapters.brokers.transactions.transaction_script import (
    TransactionScript,
    TransactionScriptWriter,
)
from conformance.adapters.brokers.transactions.transaction_session import (
    Times,
    TraceResources,
    TransactionSession,
)
from conformance.adapters.brokers.wire import Conversation, CoordinatorConnection
from conformance.adapters.impl.transactions.tables import tables_of
from conformance.judging.plan import PreparedPlan, configuration
from conformance.judging.system import NotApplicable

TRANSACTION_S: Final = 3.0
"""The transaction time-out in traces in which a transaction times out."""
TOPIC_PARTITIONS: Final = 48
"""The number of partitions that are created at a time."""
MOST_TRACES: Final = 16
"""The number of traces that a partition serves: its leader remembers the producers of all of
them."""
SPARE_IDS: Final = MAX_TRIED
"""Ids beyond those of traces, for traces that are played again."""


class ServersTestbed(BrokerTestbed):
    """One broker. In a scope with offsets the last partition is that of a group.

    `ids` are those whose epochs are used up except for the scope's; without `ids` each trace has an
    id that was never used. `id_s`: unused ids expire after this time.
    """

    session_kind: type[TransactionSession] = TransactionSession

    def __init__(
        self,
        server: TransactionServer,
        conversation: Conversation,
        k: Any,
        *,
        ids: ExhaustedIds | None = None,
        id_s: float = 0.0,
    ) -> None:
        self._server = server
        self.not_applicable = [] if server.shows_producers else [NO_PRODUCERS]
        self._speaks = conversation
        self._has_group = k.bounds.offsets
        self._ids = ids
        self._first_epoch = LAST_EPOCH - k.bounds.max_epoch if ids else 0
        self._id_s = id_s
        self._pools = self.pools(k.bounds.partitions - self._has_group)

    def pools(self, partitions: int) -> Sequence[PartitionPool]:
        """The pool from which each partition of a trace is taken."""
        return [self.pool(on=None)] * partitions

    def pool(self, on: int | None) -> PartitionPool:
        """The pool of partitions that a broker leads."""
        return PartitionPool(partial(self._server.topic, TOPIC_PARTITIONS, on=on), MOST_TRACES)

    def waits_of(self, script: Any) -> int:
        """The waits for steps that a server takes by itself; a burial takes as long."""
        return bool(script.times_out or script.forgotten or script.is_stuck)

    def group_of(self, script: Any) -> Hashable | None:
        """The traces that end stuck form a group."""
        return "stuck" if script.is_stuck else None

    def session(
        self, number: int, script: TransactionScript, factor: int
    ) -> tuple[TraceResources, Session]:
        """The id and partitions of a trace, and its session."""
        own = self._resources()
        times = Times(factor * self.transaction_s(number, script), self._id_s)
        shows = self._server.shows_producers
        trace = self.session_kind(
            script,
            own,
            self._speaks,
            times=times,
            shows_producers=shows,
            masks=self.masks,
            clock=self.clock,
        )
        return own, trace.run()

    def transaction_s(self, number: int, script: TransactionScript) -> float:
        """The time-out of the trace's transactions; 0 if they never time out."""
        return TRANSACTION_S if script.times_out else 0.0

    def _resources(self) -> TraceResources:
        logs = [pool.take(1)[0] for pool in self._pools]
        partitions = [log.partition for log in logs]
        server = self._server
        name = self._ids.take() if self._ids else server.fresh("judged")
        group = server.fresh("group") if self._has_group else ""
        if group:
            partitions.append(server.offsets_log(group))
        ends = tuple(log.end for log in logs)
        epoch = self.coordinator_epoch(name)
        return TraceResources(name, tuple(partitions), ends, epoch, group, self._first_epoch)

    def coordinator_epoch(self, transactional_id: str) -> int:
        """How often coordination of an id began."""
        return self._server.coordinator_epoch(transactional_id)

    def give_back(self, resources: TraceResources, end: TraceEnd) -> None:
        """Reuse partitions without open transactions for other traces."""
        for pool, partition, log_end in zip(
            self._pools, resources.partitions, end.left or (), strict=False
        ):
            pool.give_back(PartitionOffsets(partition, end=log_end))

    def connect(self, route: Hashable) -> CoordinatorConnection:
        """One more connection. Raises ConnectionLost."""
        return self._server.connect()

    def end(self) -> None:
        """Bury the ids of stuck traces: the broker is as before."""
        assert self._ids is not None, "an epoch is the last where ids are exhausted"
        self._ids.bury()

    def ask_anything(self) -> None:
        """DescribeTransactions. Raises KafkaError, DecodeError."""
        wire = self._server.connect()
        wire.ask(describe_transactions(["nobody"]))
        wire.close()


def exhausted_ids(server: TransactionServer, k: Any, traces: int) -> ExhaustedIds | None:
    """Ids near their last epoch, if the scope needs them. Raises NotApplicable, KafkaError."""
    if not k.bounds.epochs_end:
        return None
    if not isinstance(server, KafkaTestbed):
        raise NotApplicable("the last epoch is judged at brokers that are started here")
    epoch, count = LAST_EPOCH - k.bounds.max_epoch - 1, 2 * traces + SPARE_IDS
    return ExhaustedIds(server, epoch, count)


def servers_backend(
    prepared: PreparedPlan, server: TransactionServer, *, id_s: float = 0.0
) -> BrokersBackend:
    """The backend for coordinator and leaders of one broker. Raises NotApplicable, KafkaError."""
    k = configuration(prepared.plan)
    tables = tables_of(with_room(k))
    speaks = server.conversation("v2" if tables.is_v2 else "v1")
    ids = exhausted_ids(server, k, prepared.count)
    testbed = ServersTestbed(server, speaks, k, ids=ids, id_s=id_s)
    return BrokersBackend(prepared, TransactionScriptWriter(tables), testbed)
