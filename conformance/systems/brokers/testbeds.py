"""The judge of each kind of brokers: one that leads, one that coordinates too, three of these.

Each is the same backend and scheduler, with another writer of scripts and another testbed.
"""

from __future__ import annotations

from conformance.plan import PreparedPlan, configuration
from conformance.systems.brokers.backend import BrokersBackend
from conformance.systems.brokers.idempotent.deliveries import LeaderScriptWriter
from conformance.systems.brokers.idempotent.observer import Observer
from conformance.systems.brokers.idempotent.testbed_of_leaders import Broker, LeadersTestbed
from conformance.systems.brokers.transactions.cluster_nodes import ClusterNodes
from conformance.systems.brokers.transactions.marker_without_leader import leaderless
from conformance.systems.brokers.transactions.nodes_script import NodesWriter
from conformance.systems.brokers.transactions.servers import Servers
from conformance.systems.brokers.transactions.testbed_of_nodes import NodesTestbed
from conformance.systems.brokers.transactions.testbed_of_servers import (
    ServersTestbed,
    exhausted_ids,
)
from conformance.systems.brokers.transactions.transaction_probes import with_room
from conformance.systems.brokers.transactions.transaction_script import TransactionScriptWriter
from conformance.systems.transactions.tables import tables_of
from conformance.transactions.testbed import KafkaTestbed


def leaders_backend(prepared: PreparedPlan, broker: Broker) -> BrokersBackend:
    """A broker's leaders, judged by a plan from `traces_plan`.

    Raises CannotPlay for a scope that it cannot have, BackendFailed.
    """
    k = configuration(prepared.plan)
    observer = Observer(k, tells_log_start=broker.tells_log_start)
    writer = LeaderScriptWriter(k, observer, broker.nodes.means)
    return BrokersBackend(prepared, writer, LeadersTestbed(observer, broker, prepared.count))


def servers_backend(
    prepared: PreparedPlan, servers: Servers, *, id_s: float = 0.0
) -> BrokersBackend:
    """The coordinator and leaders of one broker. Raises NotApplicable, KafkaError."""
    k = configuration(prepared.plan)
    tables = tables_of(with_room(k))
    speaks = servers.conversation("v2" if tables.is_v2 else "v1")
    ids = exhausted_ids(servers, k, prepared.count)
    testbed = ServersTestbed(servers, speaks, k, ids=ids, id_s=id_s)
    return BrokersBackend(prepared, TransactionScriptWriter(tables), testbed)


def nodes_backend(prepared: PreparedPlan, ground: KafkaTestbed) -> BrokersBackend:
    """Three brokers that are stopped and moved. Raises NotApplicable, KafkaError, JavaError."""
    k = configuration(prepared.plan)
    tables = tables_of(with_room(k))
    speaks = ground.conversation("v2" if tables.is_v2 else "v1")
    nodes = ClusterNodes(ground, speaks)
    testbed = NodesTestbed(nodes, speaks, k.bounds.partitions, leaderless(nodes, speaks))
    return BrokersBackend(prepared, NodesWriter(tables), testbed)
