"""A broker whose coordinator and leaders are judged together: what each trace has there.

1. A broker serves the requests of one connection one after the other, and one of these waits for
   replicas or coordinators: so each trace on its way has a connection, and one for what is late.
2. A trace has a transactional id that nobody had. Its partitions served others before, whose
   transactions are all over: offsets count from where the trace found the log's end.
3. Before 4.3 a transaction at the last epoch can be stuck. Once it has lasted too long, the
   coordinator throws at it whenever it looks for time-outs, and comes to no other: KAFKA-20090.
   So traces that are stuck in the end come last, together. Whoever of them times out goes on only
   when all of them have; then their ids are buried (`exhausted_ids`).
4. Where the last epochs are judged, ids come to them before the first trace.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any, Final

from conformance.kafka.admin import TopicPartition
from conformance.systems.base import NotApplicable
from conformance.systems.brokers.backend import MAX_TRIED
from conformance.systems.brokers.broker_testbed import BrokerTestbed
from conformance.systems.brokers.exchange import Session, TraceEnd
from conformance.systems.brokers.transactions.exhausted_ids import LAST_EPOCH, ExhaustedIds
from conformance.systems.brokers.transactions.servers import (
    NO_PRODUCERS,
    Servers,
    Started,
    TopicSource,
)
from conformance.systems.brokers.transactions.transaction_script import TransactionScript
from conformance.systems.brokers.transactions.transaction_session import (
    Times,
    TraceResources,
    TransactionSession,
)
from conformance.transactions.reading import describe_transactions
from conformance.transactions.wire import Conversation, CoordinatorConnection

TRANSACTION_S: Final = 3.0
"""How long transactions last of traces in which one times out."""
TOPIC_PARTITIONS: Final = 48
"""Partitions that are made at a time."""
MOST_TRACES: Final = 16
"""Traces that a partition serves: its leader remembers the producers of all of them."""
SPARE_IDS: Final = MAX_TRIED
"""Ids beside those of traces, for what is played again."""


class PartitionPool:
    """Partitions, and where their logs end; led by the broker `on` where there are several."""

    def __init__(self, servers: TopicSource, on: int | None = None) -> None:
        self._servers = servers
        self._on = on
        self._free: deque[tuple[TopicPartition, int]] = deque()
        self._used: dict[TopicPartition, int] = {}

    def has(self, count: int) -> bool:
        """Whether so many are there without making any."""
        return len(self._free) >= count

    def take(self, count: int) -> list[tuple[TopicPartition, int]]:
        """Some partitions with their log ends."""
        if len(self._free) < count:
            made = self._servers.topic(TOPIC_PARTITIONS, on=self._on)
            self._free.extend((p, 0) for p in made)
        return [self._free.popleft() for _ in range(count)]

    def give_back(self, partition: TopicPartition, log_end: int) -> None:
        """A partition on which nothing is open."""
        self._used[partition] = self._used.get(partition, 0) + 1
        if self._used[partition] < MOST_TRACES:
            self._free.append((partition, log_end))


class ServersTestbed(BrokerTestbed):
    """One broker. In a scope with offsets the last partition is that of a group.

    `ids` are those whose epochs are used up but for the scope's; without them each trace has an id
    that nobody had. `id_s`: ids that are not used so long expire there.
    """

    def __init__(
        self,
        servers: Servers,
        conversation: Conversation,
        k: Any,
        *,
        ids: ExhaustedIds | None = None,
        id_s: float = 0.0,
    ) -> None:
        self._servers = servers
        self.not_applicable = [] if servers.shows_producers else [NO_PRODUCERS]
        self._speaks = conversation
        self._has_group = k.bounds.offsets
        self._partitions = k.bounds.partitions - self._has_group
        self._ids = ids
        self._first_epoch = LAST_EPOCH - k.bounds.max_epoch if ids else 0
        self._id_s = id_s
        self._pool = PartitionPool(servers)

    def waits_of(self, script: TransactionScript) -> int:
        """For what a server does of itself; a burial takes as long."""
        return bool(script.times_out or script.forgotten or script.is_stuck)

    def group_of(self, script: TransactionScript) -> Hashable | None:
        """Those that are stuck in the end."""
        return "stuck" if script.is_stuck else None

    def session(
        self, number: int, script: TransactionScript, patience: int
    ) -> tuple[TraceResources, Session]:
        """An id and partitions, and the trace."""
        own = self._resources()
        times = Times(patience * TRANSACTION_S if script.times_out else 0.0, self._id_s)
        shows = self._servers.shows_producers
        trace = TransactionSession(script, own, self._speaks, times=times, shows_producers=shows)
        return own, trace.run()

    def _resources(self) -> TraceResources:
        partitions, ends = zip(*self._pool.take(self._partitions), strict=True)
        servers = self._servers
        name = self._ids.take() if self._ids else servers.fresh("judged")
        group = servers.fresh("group") if self._has_group else ""
        if group:
            partitions = (*partitions, servers.offsets_of(group))
        epoch = servers.coordinator_epoch(name)
        return TraceResources(name, partitions, ends, epoch, group, self._first_epoch)

    def give_back(self, resources: TraceResources, end: TraceEnd) -> None:
        """Partitions on which nothing is open serve other traces."""
        for partition, log_end in zip(resources.partitions, end.left or (), strict=False):
            self._pool.give_back(partition, log_end)

    def connect(self, route: Hashable) -> CoordinatorConnection:
        """One more connection. Raises ConnectionLost."""
        return self._servers.connect()

    def end(self) -> None:
        """Who is stuck is forgotten: the broker is as before."""
        assert self._ids is not None, "an epoch is the last where ids are exhausted"
        self._ids.bury()

    def ask_anything(self) -> None:
        """DescribeTransactions. Raises KafkaError, DecodeError."""
        wire = self._servers.connect()
        wire.ask(describe_transactions(["nobody"]))
        wire.close()


def exhausted_ids(servers: Servers, k: Any, traces: int) -> ExhaustedIds | None:
    """Ids near their last epoch, where the scope has that. Raises NotApplicable, KafkaError."""
    if not k.bounds.epochs_end:
        return None
    if not isinstance(servers, Started):
        raise NotApplicable("the last epoch is judged at brokers that are started here")
    epoch, count = LAST_EPOCH - k.bounds.max_epoch - 1, 2 * traces + SPARE_IDS
    return ExhaustedIds(servers.ground, epoch, count)
