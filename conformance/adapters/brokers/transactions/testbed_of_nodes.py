"""Three brokers that are stopped and moved, and the resources that each trace has there.

1. Each trace under way has its own connections: to the coordinator, and to each leader.
2. Traces are played in batches; between batches all leaders are up. Of two successive batches that
   hold a leader, one freezes it and the next kills it, as far as their traces allow that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol

from conformance.adapters.brokers.backend import BrokersBackend
from conformance.adapters.brokers.broker_testbed import Numbered
from conformance.adapters.brokers.exchange import COORDINATOR, Ask
from conformance.adapters.brokers.fault_schedule import (
    HOLD,
    MOVE,
    RELEASE,
    FaultSchedule,
    transaction_times,
)
from conformance.adapters.brokers.layouts import FAR, HOME
from conformance.adapters.brokers.partition_pool import PartitionPool
from conformance.adapters.brokers.testbed import KafkaTestbed
from conformance.adapters.brokers.transactions.cluster_nodes import ClusterNodes
from conformance.adapters.brokers.transactions.nodes_script import NodeScript, NodesWriter
from conformance.adapters.brokers.transactions.nodes_session import NodesSession
from conformance.adapters.brokers.transactions.servers import TransactionServer
from conformance.adapters.brokers.transactions.testbed_of_servers import ServersTestbed
from conformance.adapters.brokers.transactions.transaction_probes import with_room
from conformance.adapters.brokers.transactions.transaction_script import TransactionScript
from conformance.adapters.brokers.transactions.transaction_session import TraceResources
from conformance.adapters.brokers.wire import Conversation, CoordinatorConnection
from conformance.adapters.impl.transactions.tables import tables_of
from conformance.judging.plan import PreparedPlan, configuration
from conformance.judging.reports.report import SideCheck


class NodesUnderTest(Protocol):
    """Three brokers with their faults; `cluster_nodes` explains their roles."""

    coordinator: int
    done: Counter[str]
    """The number of faults by kind."""

    @property
    def kafka(self) -> TransactionServer:
        """The brokers as clients see them."""

    @property
    def is_held(self) -> bool:
        """Whether the far leader is down."""

    @property
    def coordinator_epoch(self) -> int:
        """The number of elections of a coordinator; only differences mean something."""

    def inject(self, fault: str, *, gently: bool) -> str:
        """HOLD, RELEASE or MOVE; returns the kind of the fault. `gently`: a leader is frozen, not
        killed."""

    def rest(self) -> None:
        """Bring all leaders back."""

    def complete(self) -> None:
        """Wait until all brokers are up and in sync."""


class NodesTestbed(ServersTestbed):
    """`broken` are guarantees that were seen broken before. `met` counts the traces that met each
    kind of fault."""

    asking = most = together = 32
    wait_costs = 100
    session_kind: type[NodesSession] = NodesSession

    def __init__(
        self,
        nodes: NodesUnderTest,
        conversation: Conversation,
        k: Any,
        broken: frozenset[str] = frozenset(),
    ) -> None:
        self.nodes = nodes
        self.broken = broken
        self.met: Counter[str] = Counter()
        self._kills_next = False
        self._is_gentle = True
        self._transaction_s: Mapping[int, float] = {}
        self._epoch = 0
        super().__init__(nodes.kafka, conversation, k)

    def pools(self, partitions: int) -> Sequence[PartitionPool]:
        """The pool of each partition; all partitions but the last are near."""
        return [self.pool(HOME)] * (partitions - 1) + [self.pool(FAR)]

    def waits_of(self, script: NodeScript) -> int:
        """The number of faults and time-outs: each is a wait."""
        return len(script.faults) + bool(script.times_out)

    def group_of(self, script: NodeScript) -> Hashable:
        """Scripts with the same number of moves, for which a leader may be held in the same way.
        Scripts in which transactions time out wait for each other's time-outs, and must have the
        same faults, so that little time passes in between."""
        times_out = ("times out", *script.faults) if script.times_out else ()
        return MOVE in script.faults, script.is_lenient or bool(times_out), times_out

    def begin(self, scripts: Sequence[Numbered], schedule: FaultSchedule) -> None:
        """Create the partitions, make all brokers know them, and decide how a leader is held."""
        if not all(p.has(len(scripts) * self._pools.count(p)) for p in self._pools):
            self.nodes.complete()  # every broker must learn of a new topic
        times = transaction_times([script for _, script in scripts], schedule.turns)
        numbers = (number for number, _ in scripts)
        self._transaction_s = dict(zip(numbers, times, strict=True))
        self._is_gentle = self._holds_gently([script for _, script in scripts])

    def _holds_gently(self, scripts: Sequence[NodeScript]) -> bool:
        """Whether a held leader is frozen: every second time, and if a script requires it."""
        if any(script.loses_leader for script in scripts):
            return False
        holds = any(HOLD in script.faults for script in scripts)
        can_kill = not self.broken and holds and all(script.is_lenient for script in scripts)
        can_kill &= not any(script.times_out for script in scripts)  # a restart takes long
        kills = can_kill and self._kills_next
        if can_kill:
            self._kills_next = not self._kills_next
        return not kills

    def transaction_s(self, number: int, script: TransactionScript) -> float:
        """The time-out of a transaction; it must last over the faults before the time-out."""
        return self._transaction_s[number]

    def coordinator_epoch(self, transactional_id: str) -> int:
        """The coordinator epoch, read from a broker that is always up."""
        return self.nodes.coordinator_epoch

    def connect(self, route: Hashable) -> CoordinatorConnection:
        """Open a connection to a broker, by its id. Raises ConnectionLost."""
        assert isinstance(route, int)
        return self.nodes.kafka.connect(route)

    def route(self, ask: Ask, resources: TraceResources) -> Hashable:
        """The coordinator, or the leader of the partition."""
        if ask.to == COORDINATOR:
            return self.nodes.coordinator
        return FAR if ask.to == len(resources.partitions) - 1 else HOME

    def is_due(self, fault: str) -> bool:
        """A held leader is released even if the sessions that wanted that have ended."""
        return fault == RELEASE and self.nodes.is_held

    def inject(self, fault: str, sessions: int) -> None:
        """Inject a fault, and wait until all other brokers know of it."""
        self.met[self.nodes.inject(fault, gently=self._is_gentle)] += sessions
        self._epoch = self.nodes.coordinator_epoch

    def resume(self, resources: TraceResources) -> int:
        """The coordinator epoch after the fault."""
        return self._epoch

    def end(self) -> None:
        """Bring all leaders back."""
        self.nodes.rest()

    def ask_anything(self) -> None:
        """Nothing: some brokers are down for a while."""


class ObservedMarker(Protocol):
    """The fate of a marker whose partition has no leader, and the fate that is `expected` of the
    release."""

    @property
    def marker(self) -> str:
        """The observed fate of the marker."""

    @property
    def expected(self) -> str:
        """The known fate in this release."""

    @property
    def broken(self) -> frozenset[str]:
        """The guarantees that these brokers break by it."""

    def rows(self, guarantee: str) -> list[dict[str, str]]:
        """The requests and observations about a guarantee that is broken."""


ObserveMarker = Callable[[ClusterNodes, Conversation], ObservedMarker]
"""Brings about a marker for a partition without a leader. Raises KafkaError, JavaError."""


class ClusterTestbed(NodesTestbed):
    """Brokers that were started here; the fate of a marker without a leader was observed before."""

    def __init__(
        self, nodes: ClusterNodes, conversation: Conversation, k: Any, leaderless: ObservedMarker
    ) -> None:
        super().__init__(nodes, conversation, k, leaderless.broken)
        self.leaderless = leaderless

    def checks(self, notes: Sequence[Any] = ()) -> dict[str, SideCheck]:
        """The check of the fate of a marker whose partition has no leader."""
        seen = self.leaderless
        return {"marker_without_leader": SideCheck(1, seen.expected, seen.marker)}


def nodes_backend(
    prepared: PreparedPlan, kafka: KafkaTestbed, observe: ObserveMarker
) -> BrokersBackend:
    """The backend for three brokers that are stopped and moved. Raises NotApplicable, KafkaError,
    JavaError."""
    k = configuration(prepared.plan)
    tables = tables_of(with_room(k))
    speaks = kafka.conversation("v2" if tables.is_v2 else "v1")
    nodes = ClusterNodes(kafka, speaks)
    lost = observe(nodes, speaks)

    def opened(plan: PreparedPlan) -> BrokersBackend:
        return BrokersBackend(plan, NodesWriter(tables), ClusterTestbed(nodes, speaks, k, lost))

    backend = opened(prepared)
    backend.afresh = opened
    return backend
