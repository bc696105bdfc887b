"""`run --system kafka` in scopes of transactions: a broker of the release, and its traces."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from conformance.files import pretty, write_whole
from conformance.homes import SERVED
from conformance.kafka.errors import KafkaError
from conformance.kafka.releases import find_release
from conformance.plan import Finding, Plan, Prepared, setting
from conformance.promised import Seen
from conformance.report import Check
from conformance.systems.transactions_nodes.backend import NodesBackend
from conformance.systems.transactions_nodes.leaderless import Leaderless, expected_of
from conformance.systems.transactions_nodes.nodes import ground_of
from conformance.systems.transactions_wire import TransactionsBackend
from conformance.systems.transactions_wire_script import refuse
from conformance.systems.wire_brokers import NoBroker
from conformance.systems.wire_harness import SHARE_A_DEED
from conformance.transactions.breaches import write_breaches
from conformance.transactions.ground import Ground
from conformance.verbs import BadUse
from conformance.verbs.course import AtWork, Subject
from conformance.verbs.over_wire import FAULTS, LEFT_ALONE, ON, refuse_unfit
from proofs.java import JavaError

NOT_BROUGHT_ABOUT: Final = {
    "timeouts": "transaction_times_out",
    "moves": "coordinator_moves",
    "marker_losses": "marker_is_written, unheard",
    "marker_delays": "marker_is_delayed",
    "forgotten": "transactional_id_is_forgotten",
}
"""What the harness does to no broker, by budget."""
OF_NODES: Final = frozenset({"timeouts", "moves"})
"""What is brought about where there are three brokers to stop."""
NODE_EVENTS: Final = "nodes.json"


def subject_of(plan: Plan, options: argparse.Namespace) -> Subject:
    """The coordinator and leaders of one broker, or of three. Raises BadUse, NotApplicable."""
    has_nodes = options.nodes == 3
    refuse_unfit(options, SERVED, ("nodes",) if has_nodes else LEFT_ALONE)
    if plan.system == "wire":
        raise BadUse("scopes of transactions are judged at brokers that are started here: kafka")
    if has_nodes and options.faults is None:
        raise BadUse("three brokers are there to be stopped: write --faults nodes")
    if has_nodes and options.kafka and find_release(options.kafka).has_zookeeper:
        raise BadUse("coordinators are moved by a controller of KRaft: leave out -zookeeper")
    plan = replace(plan, on=ON, actors=SERVED, faults=options.faults or FAULTS)
    refuse(setting(plan), nodes=has_nodes)
    left_out = [
        f"{name}: nobody brings {rule} about at these brokers"
        for name, rule in budgets_left_out(plan)
    ]

    @contextmanager
    def opens(prepared: Prepared, log: Path) -> Iterator[AtWork]:
        with started(options.kafka, prepared) as backend:
            yield Served(backend, left_out, SHARE_A_DEED if has_nodes else 1)
            if isinstance(backend, NodesBackend) and backend.harness.met:
                write_whole(log.parent / NODE_EVENTS, pretty(node_events(backend)))
                write_leaderless(backend.leaderless, log.parent / "promises")
        # Promises that are not given: what broke them, though the broker is as its model says.
        write_breaches(prepared, backend.agreed, log.parent / "promises", plan.system)

    traces = replace(plan, system="impl", scope=scope_played(plan))
    more = {"address": options.system, "kafka": options.kafka, "nodes": options.nodes}
    return Subject(plan, traces, opens, more)


def scope_played(plan: Plan) -> str:
    """The scope without the budgets of what is not brought about: far fewer states."""
    return "/".join((plan.scope, *(f"{name}=0" for name, _ in budgets_left_out(plan))))


def budgets_left_out(plan: Plan) -> list[tuple[str, str]]:
    """What the scope has of what is not brought about: budgets and their rules."""
    budgets = setting(plan).budgets
    brought_about = OF_NODES if plan.faults == "nodes" else frozenset()
    return [
        (name, rule)
        for name, rule in NOT_BROUGHT_ABOUT.items()
        if getattr(budgets, name) > 0 and name not in brought_about
    ]


def write_leaderless(seen: Leaderless, directory: Path) -> None:
    """What breaks promises beside traces, under the name of each."""
    for name in seen.broken:
        told = {"marker": seen.marker, "rows": seen.rows(name)}
        write_whole(directory / f"{name}.json", pretty(told))


def node_events(backend: NodesBackend) -> dict[str, Any]:
    """What was done to nodes, by kind; and what of it was not told by the traces."""
    return {
        "done": dict(sorted(backend.harness.nodes.done.items())),
        "traces_through": dict(sorted(backend.harness.met.items())),
        "late_markers_written": backend.late_markers,
        "tries_undecided": backend.harness.undecided,
    }


@contextmanager
def started(kafka: str | None, prepared: Prepared) -> Iterator[TransactionsBackend]:
    """Brokers of the plan's release and level, and who judges them. Raises NoBroker."""
    variant = setting(prepared.plan).variant
    release = kafka or variant.release
    try:
        if prepared.plan.faults == "nodes":
            with ground_of(release, variant.level) as ground:
                yield NodesBackend(prepared, ground)
            return
        with Ground(release, level=variant.level) as ground:
            yield TransactionsBackend(prepared, ground)
    except (KafkaError, JavaError) as error:
        raise NoBroker(str(error)) from error


@dataclass(frozen=True, slots=True)
class Served:
    """Brokers whose coordinator and leaders are judged together."""

    judges: TransactionsBackend
    not_applicable: Sequence[str]
    least_ranges: int

    def checks(self) -> dict[str, Check]:
        """At nodes: what becomes of a marker whose partition has no leader."""
        if not isinstance(self.judges, NodesBackend):
            return {}
        nodes = self.judges.harness.nodes
        expected = expected_of(nodes.ground.release.version)
        observed = self.judges.leaderless.marker
        return {"marker_without_leader": Check(1, expected, observed)}

    def backend(self) -> TransactionsBackend:
        """Who judges."""
        return self.judges

    def shrunk(self, finding: Finding) -> Finding:
        """By asking the broker again."""
        return self.judges.shrunk(finding)

    def shown_by(self, finding: Finding) -> Seen:
        """Nothing more than was seen on the way."""
        return Seen()
