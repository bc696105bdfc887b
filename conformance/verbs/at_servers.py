"""`run --system kafka` in scopes of transactions: a broker of the release, and its traces."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from conformance.adapters.brokers.backend import BrokersBackend
from conformance.adapters.brokers.kafka.errors import KafkaError
from conformance.adapters.brokers.kafka.releases import find_release
from conformance.adapters.brokers.layouts import ON_A_BUSY_MACHINE
from conformance.adapters.brokers.listening_broker import ListeningBroker, NoBroker, address_of
from conformance.adapters.brokers.testbed import KafkaTestbed
from conformance.adapters.brokers.transactions.cluster_nodes import seated_cluster
from conformance.adapters.brokers.transactions.servers import (
    ListeningServer,
    TransactionServer,
    newest_variant,
)
from conformance.adapters.brokers.transactions.testbed_of_nodes import (
    ClusterTestbed,
    NodesTestbed,
    ObservedMarker,
    nodes_backend,
)
from conformance.adapters.brokers.transactions.testbed_of_servers import servers_backend
from conformance.adapters.brokers.transactions.transaction_script import refuse
from conformance.campaigns.stories.marker_without_leader import leaderless
from conformance.generate.broker_graph import AT_NODES, AT_ONE
from conformance.generate.faults import CLIENTS
from conformance.judging.compositions import SERVER_ACTORS
from conformance.judging.plan import Plan, PreparedPlan, configuration
from conformance.judging.reports.breaches import write_breaches
from conformance.judging.reports.pipeline import Target
from conformance.judging.system import NotApplicable
from conformance.verbs.over_wire import LEFT_ALONE, fit, target_at_brokers
from conformance.verbs.run import with_own_rules
from impl.protocol.schemas import ApiKey
from proofs.java import JavaError
from proofs.run import BadUse
from proofs.run.files import pretty, write_whole

ID_EXPIRES_S: Final = 8.0
"""The time after which an unused id is forgotten, in scopes whose ids expire."""
FORGETFUL: Final = {
    "transactional.id.expiration.ms": str(round(1_000 * ID_EXPIRES_S)),
    "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
}
NODE_EVENTS: Final = "nodes.json"


def servers_target(plan: Plan, options: argparse.Namespace) -> Target:
    """The coordinator and leaders of one broker, or of three. Raises BadUse, NotApplicable."""
    has_nodes = options.nodes == 3
    plan = fit(plan, options, SERVER_ACTORS, ("nodes",) if has_nodes else LEFT_ALONE)
    if plan.system == "wire":
        plan = at_listening(plan, options)
    if has_nodes and options.faults is None:
        raise BadUse("three brokers are there to be stopped: write --faults nodes")
    if has_nodes and options.kafka and find_release(options.kafka).has_zookeeper:
        raise BadUse("coordinators are moved by a controller of KRaft: leave out -zookeeper")
    refuse(configuration(plan), nodes=has_nodes)

    @contextmanager
    def judge(prepared: PreparedPlan, log: Path) -> Iterator[BrokersBackend]:
        guarantees = log.parent / "guarantees"
        with opened(plan, options, prepared) as backend:
            yield backend
            write_node_events(backend, log.parent)
            if isinstance(backend.testbed, ClusterTestbed) and backend.testbed.met:
                write_leaderless(backend.testbed.leaderless, guarantees)
        # Guarantees that the variant does not give: their counterexamples, though the broker agrees
        # with its model.
        write_breaches(prepared, backend.agreed, guarantees, plan.system)

    means = AT_NODES if has_nodes else CLIENTS if plan.system == "wire" else AT_ONE
    return target_at_brokers(plan, options, means, judge)


def write_leaderless(seen: ObservedMarker, directory: Path) -> None:
    """Write what breaks guarantees outside of traces, under the name of each guarantee."""
    for name in seen.broken:
        told = {"marker": seen.marker, "rows": seen.rows(name)}
        write_whole(directory / f"{name}.json", pretty(told))


def write_node_events(backend: BrokersBackend, directory: Path) -> None:
    """Write the faults of nodes, if there were any."""
    testbed = backend.testbed
    if isinstance(testbed, NodesTestbed) and testbed.met:
        write_whole(directory / NODE_EVENTS, pretty(node_events(backend, testbed)))


def node_events(backend: BrokersBackend, testbed: NodesTestbed) -> dict[str, Any]:
    """The number of faults of nodes by kind, and those that traces do not show."""
    return {
        "done": dict(sorted(testbed.nodes.done.items())),
        "traces_through": dict(sorted(testbed.met.items())),
        "late_markers_written": backend.departed,
        "tries_undecided": backend.scheduler.undecided,
    }


def at_listening(plan: Plan, options: argparse.Namespace) -> Plan:
    """The plan for the broker at an address: the newest variant that fits it, unless one is named.

    Raises NoBroker, BackendFailed.
    """
    if options.variant or options.kafka or options.level is not None:
        return plan
    variant = newest_variant(ListeningBroker(address_of(options.system)).supported)
    return replace(plan, variant=with_own_rules(variant, options.system, plan.scope))


def at_server(
    prepared: PreparedPlan, server: TransactionServer, id_s: float = 0.0
) -> BrokersBackend:
    """The backend for one broker; it can also judge other scopes that need no more than the broker
    has. Raises NotApplicable, KafkaError."""

    def elsewhere(other: PreparedPlan) -> BrokersBackend:
        k = configuration(other.plan)
        if k.budgets.forgotten and not id_s:
            raise NotApplicable("it needs a broker at which transactional ids expire")
        if k.budgets.marker_delays and not takes_markers(server):
            raise NotApplicable("it needs a broker that takes markers from a test")
        return servers_backend(other, server, id_s=id_s)

    backend = servers_backend(prepared, server, id_s=id_s)
    backend.other_scopes = elsewhere
    backend.afresh = lambda same: servers_backend(same, server, id_s=id_s)
    return backend


def takes_markers(server: TransactionServer) -> bool:
    """Whether a broker says that it takes markers from clients; brokers that were started
    here do."""
    if not isinstance(server, ListeningServer):
        return True
    return ApiKey.WRITE_TXN_MARKERS in server.supported.versions


@contextmanager
def opened(
    plan: Plan, options: argparse.Namespace, prepared: PreparedPlan
) -> Iterator[BrokersBackend]:
    """The requested brokers, and the backend that judges them. Raises NoBroker, NotApplicable."""
    k = configuration(prepared.plan)
    release, level = options.kafka or k.variant.release, k.variant.level
    id_s = ID_EXPIRES_S if k.budgets.forgotten else 0.0
    try:
        if plan.system == "wire":
            with closing(ListeningServer(options.system)) as listening:
                yield at_server(prepared, listening)
        elif plan.faults == "nodes":
            with seated_cluster(release, level) as kafka:
                backend = nodes_backend(prepared, kafka, leaderless)
                backend.other_scopes = lambda other: nodes_backend(other, kafka, leaderless)
                yield backend
        else:
            properties = {**ON_A_BUSY_MACHINE, **(FORGETFUL if id_s else {})}
            with KafkaTestbed(release, level=level, properties=properties) as kafka:
                yield at_server(prepared, kafka, id_s)
    except (KafkaError, JavaError) as error:
        raise NoBroker(str(error)) from error
