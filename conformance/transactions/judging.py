"""`run --system kafka` in scopes of transactions: a broker of the release, and its traces."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from conformance.compositions import SERVER_ACTORS, TRANSACTIONS
from conformance.faults import CLIENTS, faults_not_had
from conformance.findings import Finding
from conformance.generate.broker_graph import AT_NODES, AT_ONE
from conformance.guaranteed import ObservedProperties
from conformance.kafka.errors import KafkaError
from conformance.kafka.releases import find_release
from conformance.plan import Plan, PreparedPlan, configuration, scope_without
from conformance.report import SideCheck
from conformance.systems.brokers.backend import BrokersBackend
from conformance.systems.brokers.idempotent.connecting import NoBroker, running
from conformance.systems.brokers.idempotent.testbed_of_leaders import SHARE_A_FAULT
from conformance.systems.brokers.testbeds import nodes_backend, servers_backend
from conformance.systems.brokers.transactions.cluster_nodes import ground_of
from conformance.systems.brokers.transactions.marker_without_leader import Leaderless, expected_of
from conformance.systems.brokers.transactions.servers import (
    ListeningServer,
    Started,
    newest_variant,
)
from conformance.systems.brokers.transactions.testbed_of_nodes import NodesTestbed
from conformance.systems.brokers.transactions.transaction_script import refuse
from conformance.transactions.breaches import write_breaches
from conformance.transactions.testbed import KafkaTestbed
from conformance.verbs.over_wire import FAULTS, LEFT_ALONE, ON, refuse_unfit
from conformance.verbs.pipeline import OpenTarget, Target
from conformance.verbs.run import with_own_rules
from proofs.java import JavaError
from proofs.run import BadUse
from proofs.run.files import pretty, write_whole

ID_EXPIRES_S: Final = 8.0
"""How long an id is remembered that is not used, where ids expire."""
FORGETFUL: Final = {
    "transactional.id.expiration.ms": str(round(1_000 * ID_EXPIRES_S)),
    "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
}
NODE_EVENTS: Final = "nodes.json"


def subject_of(plan: Plan, options: argparse.Namespace) -> Target:
    """The coordinator and leaders of one broker, or of three. Raises BadUse, NotApplicable."""
    has_nodes = options.nodes == 3
    refuse_unfit(options, SERVER_ACTORS, ("nodes",) if has_nodes else LEFT_ALONE)
    if plan.system == "wire":
        plan = at_listening(plan, options)
    if has_nodes and options.faults is None:
        raise BadUse("three brokers are there to be stopped: write --faults nodes")
    if has_nodes and options.kafka and find_release(options.kafka).has_zookeeper:
        raise BadUse("coordinators are moved by a controller of KRaft: leave out -zookeeper")
    plan = replace(plan, on=ON, actors=SERVER_ACTORS, faults=options.faults or FAULTS)
    refuse(configuration(plan), nodes=has_nodes)
    missing = left_out(plan)

    @contextmanager
    def opens(prepared: PreparedPlan, log: Path) -> Iterator[OpenTarget]:
        with opened(plan, options, prepared) as backend:
            unseen = [*backend.not_applicable, *missing.values()]
            yield Served(backend, unseen, SHARE_A_FAULT if has_nodes else 1)
            testbed = backend.testbed
            if isinstance(testbed, NodesTestbed) and testbed.met:
                write_whole(log.parent / NODE_EVENTS, pretty(node_events(backend, testbed)))
                write_leaderless(testbed.leaderless, log.parent / "guarantees")
        # Guarantees that are not given: what broke them, though the broker is as its model says.
        write_breaches(prepared, backend.agreed, log.parent / "guarantees", plan.system)

    traces = replace(plan, system="impl", scope=scope_without(plan.scope, missing))
    more = {"address": options.system, "kafka": options.kafka, "nodes": options.nodes}
    return Target(plan, traces, opens, more)


def left_out(plan: Plan) -> dict[str, str]:
    """The faults of the scope that these brokers cannot have, and why."""
    means = AT_NODES if plan.faults == "nodes" else CLIENTS if plan.system == "wire" else AT_ONE
    return faults_not_had(configuration(plan), TRANSACTIONS.model, means)


def write_leaderless(seen: Leaderless, directory: Path) -> None:
    """What breaks guarantees beside traces, under the name of each."""
    for name in seen.broken:
        told = {"marker": seen.marker, "rows": seen.rows(name)}
        write_whole(directory / f"{name}.json", pretty(told))


def node_events(backend: BrokersBackend, testbed: NodesTestbed) -> dict[str, Any]:
    """What was done to nodes, by kind; and what of it was not told by the traces."""
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
    variant = newest_variant(running(options.system).supported)
    return replace(plan, variant=with_own_rules(variant, options.system, plan.scope))


@contextmanager
def opened(
    plan: Plan, options: argparse.Namespace, prepared: PreparedPlan
) -> Iterator[BrokersBackend]:
    """The brokers that are asked for, and who judges them. Raises NoBroker, NotApplicable."""
    k = configuration(prepared.plan)
    release, level = options.kafka or k.variant.release, k.variant.level
    id_s = ID_EXPIRES_S if k.budgets.forgotten and plan.system != "wire" else 0.0
    try:
        if plan.system == "wire":
            with closing(ListeningServer(options.system)) as listening:
                yield servers_backend(prepared, listening)
        elif plan.faults == "nodes":
            with ground_of(release, level) as ground:
                yield nodes_backend(prepared, ground)
        else:
            properties = FORGETFUL if id_s else None
            with KafkaTestbed(release, level=level, properties=properties) as ground:
                yield servers_backend(prepared, Started(ground), id_s=id_s)
    except (KafkaError, JavaError) as error:
        raise NoBroker(str(error)) from error


@dataclass(frozen=True, slots=True)
class Served:
    """Brokers whose coordinator and leaders are judged together."""

    judges: BrokersBackend
    not_applicable: Sequence[str]
    least_ranges: int

    def checks(self) -> dict[str, SideCheck]:
        """At nodes: what becomes of a marker whose partition has no leader."""
        testbed = self.judges.testbed
        if not isinstance(testbed, NodesTestbed):
            return {}
        expected = expected_of(testbed.nodes.ground.release.version)
        observed = testbed.leaderless.marker
        return {"marker_without_leader": SideCheck(1, expected, observed)}

    def backend(self) -> BrokersBackend:
        """Who judges."""
        return self.judges

    def shrunk(self, finding: Finding) -> Finding:
        """By asking the broker again."""
        return self.judges.shrunk(finding)

    def shown_by(self, finding: Finding) -> ObservedProperties:
        """Nothing more than was seen on the way."""
        return ObservedProperties()
