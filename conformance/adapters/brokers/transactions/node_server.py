"""Nodes of `impl` in this process, at which traces are played: one node, or three that are stopped.

The roles of three are those in `cluster_nodes`: HOME and SEAT coordinate in turn, FAR leads the far
partitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from conformance.adapters.brokers.backend import BrokersBackend
from conformance.adapters.brokers.fault_schedule import HOLD, MOVE, RELEASE
from conformance.adapters.brokers.idempotent.testbed_of_leaders import leaders_backend
from conformance.adapters.brokers.kafka.admin import TopicPartition
from conformance.adapters.brokers.layouts import FAR, HOME, SEAT
from conformance.adapters.brokers.node_network import NodeConnection, NodeNetwork
from conformance.adapters.brokers.reading import TRANSACTION_STATE
from conformance.adapters.brokers.transactions.nodes_script import NodesWriter
from conformance.adapters.brokers.transactions.pending_verifications import (
    check_waiting,
    check_without_coordinator,
)
from conformance.adapters.brokers.transactions.servers import ListeningServer
from conformance.adapters.brokers.transactions.testbed_of_nodes import NodesTestbed
from conformance.adapters.brokers.transactions.testbed_of_servers import servers_backend
from conformance.adapters.brokers.transactions.transaction_probes import with_room
from conformance.adapters.brokers.wire import CoordinatorConnection
from conformance.adapters.impl.transactions.system import of_release
from conformance.adapters.impl.transactions.tables import tables_of
from conformance.judging.compositions import IDEMPOTENT, judged_composition
from conformance.judging.plan import PreparedPlan, configuration
from impl.coordinator.config import CONFIGS
from impl.coordinator.group_config import OffsetsConfig
from impl.partition.log_config import LogConfig
from impl.partition.rules import RULES

ADDRESS: Final = "wire://node:1"
LOGS: Final = 2
"""The number of partitions of `__consumer_offsets` at a single node, which has one more of
`__transaction_state`; three nodes have one partition of each."""
SCAN_MS: Final = 100
"""The interval at which a coordinator looks for expired transactions and ids."""
ID_EXPIRES_S: Final = 8.0
"""The time after which an unused id is forgotten, in scopes whose ids expire."""
AT_A_TIME: Final = 16
"""Sessions under way together: no other process has to be kept busy."""


def settings_of(k: Any, logs: int) -> dict[str, Any]:
    """The settings of every node in a configuration."""
    release, level = k.variant.release, getattr(k.variant, "level", 0)
    transactions = replace(
        of_release(CONFIGS, release),
        transaction_version=level,
        num_partitions=logs + 1 if logs > 1 else logs,
        abort_timed_out_interval_ms=SCAN_MS,
        remove_expired_interval_ms=SCAN_MS,
    )
    if getattr(k.budgets, "forgotten", 0):
        expiration_ms = round(1_000 * ID_EXPIRES_S)
        transactions = replace(transactions, transactional_id_expiration_ms=expiration_ms)
    return {
        "log": LogConfig(rules=of_release(RULES, release)),
        "transactions": transactions,
        "offsets": OffsetsConfig(num_partitions=logs),
    }


class NodeServer(ListeningServer):
    """The nodes of a network, as a broker that listens. Raises NoBroker."""

    def __init__(self, nodes: NodeNetwork) -> None:
        self.nodes = nodes
        super().__init__(ADDRESS)

    def open_connection(self, node_id: int = 1) -> NodeConnection:
        """See `ListeningBroker`."""
        return NodeConnection(self.nodes, node_id, self._timeout_ms)

    def connect(self, node_id: int = 1) -> CoordinatorConnection:
        """See `TransactionServer`."""
        return CoordinatorConnection(self.open_connection(node_id))

    def topic(
        self,
        partitions: int = 1,
        *,
        on: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> list[TopicPartition]:
        """See `TransactionServer`."""
        if on is None:
            return super().topic(partitions, configs=configs)
        name = self.fresh("topic")
        self.nodes.create(name, [on] * partitions)
        return [(name, index) for index in range(partitions)]


class StoppedNodes:
    """Injects faults into three nodes, as `ClusterNodes`."""

    def __init__(self, server: NodeServer) -> None:
        self.kafka = server
        self.done: Counter[str] = Counter()
        self.coordinator = SEAT
        self.is_held = False
        self._nodes = server.nodes
        check_without_coordinator(self._nodes, HOME)
        self._nodes.create(TRANSACTION_STATE[0], [SEAT])
        self._nodes.settle()
        check_waiting(self._nodes, HOME, SEAT)

    @property
    def coordinator_epoch(self) -> int:
        """The number of elections of a coordinator."""
        return self._nodes.leader(TRANSACTION_STATE[0]).leader_epoch

    def inject(self, fault: str, *, gently: bool) -> str:
        """See `ClusterNodes`."""
        if fault == HOLD:
            (self._nodes.freeze if gently else self._nodes.kill)(FAR)
            self.is_held = True
        elif fault == RELEASE:
            self._nodes.thaw()
            self.is_held = False
        else:
            assert fault == MOVE, fault
            self.coordinator = SEAT if self.coordinator == HOME else HOME
            self._nodes.cluster.move(*TRANSACTION_STATE, self.coordinator)
            self._nodes.settle()
        self.done[fault] += 1
        return fault

    def rest(self) -> None:
        """Bring all leaders back."""
        if self.is_held:
            self.inject(RELEASE, gently=True)

    def complete(self) -> None:
        """Nothing: nodes always know of all changes."""


def opened_nodes(prepared: PreparedPlan) -> BrokersBackend:
    """New nodes for a plan, with the backend that judges them. Raises NotApplicable."""
    k = configuration(prepared.plan)
    has_nodes = prepared.plan.faults == "nodes"
    network = NodeNetwork(settings_of(k, 1 if has_nodes else LOGS), 3 if has_nodes else 1)
    server = NodeServer(network)
    if judged_composition(prepared.plan.scope) is IDEMPOTENT:
        backend = leaders_backend(prepared, server)
    elif has_nodes:
        tables = tables_of(with_room(k))
        speaks = server.conversation("v2" if tables.is_v2 else "v1")
        testbed = NodesTestbed(StoppedNodes(server), speaks, k)
        backend = BrokersBackend(prepared, NodesWriter(tables), testbed)
    else:
        forgets = k.budgets.forgotten
        backend = servers_backend(prepared, server, id_s=ID_EXPIRES_S if forgets else 0.0)
    backend.afresh = opened_nodes
    backend.testbed.clock = network
    backend.testbed.asking = backend.testbed.most = AT_A_TIME
    return backend
