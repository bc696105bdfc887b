"""`run --system nodes`: impl's own broker in this process, with bytes and a clock of its own."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from conformance.adapters.brokers.backend import BrokersBackend
from conformance.adapters.brokers.transactions.node_server import opened_nodes
from conformance.generate.broker_graph import AT_NODES, AT_ONE
from conformance.generate.faults import CLIENTS
from conformance.judging.compositions import (
    IDEMPOTENT,
    SERVER_ACTORS,
    TRANSACTIONS,
    judged_composition,
)
from conformance.judging.coverage.marks import marked_statements
from conformance.judging.plan import Plan, PreparedPlan
from conformance.judging.reports.pipeline import Target
from conformance.judging.reports.pipeline import run as run_pipeline
from conformance.verbs.over_wire import ACTORS, LEFT_ALONE, fit, in_process_alone, target_at_brokers
from proofs.run import BadUse

PLAYED_AS: Final = {IDEMPOTENT.name: ACTORS, TRANSACTIONS.name: SERVER_ACTORS}
"""The actors under test at nodes."""


def run(plan: Plan, options: argparse.Namespace) -> int:
    """Judge the plan; the exit code. Raises BackendError, OtherRun, BadPlan, BadUse."""
    return run_pipeline(target(plan, options), options)


def target(plan: Plan, options: argparse.Namespace) -> Target:
    """One node, or three that are stopped. Raises BadUse."""
    composition = judged_composition(plan.scope)
    if composition.name not in PLAYED_AS:
        raise in_process_alone(plan)
    has_nodes = options.nodes == 3
    if has_nodes and composition is IDEMPOTENT:
        raise BadUse("three nodes are judged in scopes of transactions; leave --nodes out")
    plan = fit(plan, options, PLAYED_AS[composition.name], ("nodes",) if has_nodes else LEFT_ALONE)
    if has_nodes and options.faults is None:
        raise BadUse("three nodes are there to be stopped: write --faults nodes")

    @contextmanager
    def judge(prepared: PreparedPlan, log: Path) -> Iterator[BrokersBackend]:
        with (
            marked_statements(prepared.plan) as marks,
            closing(opened_nodes(prepared)) as backend,
        ):
            backend.statements = marks.reached
            if not has_nodes:
                backend.other_scopes = opened_nodes
            yield backend

    one = CLIENTS if composition is IDEMPOTENT else AT_ONE
    return target_at_brokers(plan, options, AT_NODES if has_nodes else one, judge)
