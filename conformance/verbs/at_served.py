"""`run --system serve`: `kafka-eos serve --dir` in a process, over its sockets."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from conformance.adapters.brokers.backend import BrokersBackend
from conformance.adapters.brokers.idempotent.started_brokers import OneBroker
from conformance.adapters.brokers.idempotent.testbed_of_leaders import leaders_backend
from conformance.adapters.brokers.kafka.errors import KafkaError
from conformance.adapters.brokers.kafka.releases import Release, find_release
from conformance.adapters.brokers.listening_broker import NoBroker
from conformance.adapters.brokers.served.served_broker import ServedBroker
from conformance.adapters.brokers.served.served_nodes import (
    NODES,
    ServedNodes,
    ServedNodesTestbed,
    ServedServer,
)
from conformance.adapters.brokers.transactions.nodes_script import NodesWriter
from conformance.adapters.brokers.transactions.transaction_probes import with_room
from conformance.adapters.brokers.transactions.transaction_script import refuse
from conformance.adapters.impl.transactions.tables import tables_of
from conformance.generate.broker_graph import AT_NODES, AT_ONE
from conformance.generate.faults import CLIENTS
from conformance.judging.compositions import IDEMPOTENT, TRANSACTIONS, judged_composition
from conformance.judging.plan import FAULTS, Plan, PreparedPlan, configuration
from conformance.judging.reports.pipeline import Target
from conformance.judging.reports.pipeline import run as run_pipeline
from conformance.verbs.at_nodes import PLAYED_AS
from conformance.verbs.at_servers import FORGETFUL, ID_EXPIRES_S, at_server, write_node_events
from conformance.verbs.over_wire import LEFT_ALONE, fit, in_process_alone, target_at_brokers
from model.language import Wire
from proofs.run import BadUse

STOPPED: Final = CLIENTS | {Wire.RESTARTS, Wire.DELETE_RECORDS}
"""The means of a test at one node whose leaders are judged."""


def run(plan: Plan, options: argparse.Namespace) -> int:
    """Judge the plan; the exit code. Raises BackendError, OtherRun, BadPlan, BadUse."""
    return run_pipeline(target(plan, options), options)


def target(plan: Plan, options: argparse.Namespace) -> Target:
    """One node, or three; the process of one node is killed if leaders are judged. Raises BadUse,
    NotApplicable."""
    composition = judged_composition(plan.scope)
    if composition.name not in PLAYED_AS:
        raise in_process_alone(plan)
    has_nodes = options.nodes == NODES
    if has_nodes and composition is IDEMPOTENT:
        raise BadUse("three nodes are judged in scopes of transactions; leave --nodes out")
    one = LEFT_ALONE if composition is TRANSACTIONS else FAULTS
    plan = fit(plan, options, PLAYED_AS[composition.name], ("nodes",) if has_nodes else one)
    if has_nodes and options.faults is None:
        raise BadUse("three nodes are there to be stopped: write --faults nodes")
    if composition is TRANSACTIONS:
        refuse(configuration(plan), nodes=has_nodes)

    @contextmanager
    def judge(prepared: PreparedPlan, log: Path) -> Iterator[BrokersBackend]:
        release = find_release(options.kafka or configuration(plan).variant.release)
        try:
            with opened(prepared, release) as backend:
                yield backend
                write_node_events(backend, log.parent)
        except KafkaError as error:
            raise NoBroker(str(error)) from error

    means = AT_NODES if has_nodes else AT_ONE if composition is TRANSACTIONS else STOPPED
    return target_at_brokers(plan, options, means, judge)


@contextmanager
def opened(prepared: PreparedPlan, release: Release) -> Iterator[BrokersBackend]:
    """A broker that is started for a plan, and the backend that judges it. Raises KafkaError."""
    k = configuration(prepared.plan)
    if judged_composition(prepared.plan.scope) is IDEMPOTENT:
        is_killed = prepared.plan.faults == "nodes"
        with (
            ServedBroker(release, k.variant.level, is_killed=is_killed) as broker,
            closing(leaders_backend(prepared, OneBroker(broker, STOPPED))) as backend,
        ):
            yield backend
    elif prepared.plan.faults == "nodes":
        with served(release, k.variant.level, NODES) as server:
            yield nodes_backend(prepared, ServedNodes(server))
    else:
        id_s = ID_EXPIRES_S if k.budgets.forgotten else 0.0
        with served(release, k.variant.level, 1, FORGETFUL if id_s else {}) as server:
            yield at_server(prepared, server, id_s)


@contextmanager
def served(
    release: Release, level: int, nodes: int, settings: Mapping[str, str] | None = None
) -> Iterator[ServedServer]:
    """A broker while it serves, with the interface that clients see. Raises KafkaError."""
    with (
        ServedBroker(release, level, nodes, settings, is_killed=nodes > 1) as broker,
        closing(ServedServer(broker)) as server,
    ):
        yield server


def nodes_backend(prepared: PreparedPlan, nodes: ServedNodes) -> BrokersBackend:
    """The backend for three nodes that are stopped, moved and killed. Raises NotApplicable,
    KafkaError."""
    k = configuration(prepared.plan)
    tables = tables_of(with_room(k))
    speaks = nodes.kafka.conversation("v2" if tables.is_v2 else "v1")
    testbed = ServedNodesTestbed(nodes, speaks, k)
    backend = BrokersBackend(prepared, NodesWriter(tables), testbed)
    backend.afresh = lambda same: nodes_backend(same, nodes)
    backend.other_scopes = backend.afresh
    return backend
