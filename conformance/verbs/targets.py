"""Opens the target of a plan as `run` opens it."""

from __future__ import annotations

import argparse

from conformance.judging.plan import NODES, Plan
from conformance.judging.reports.pipeline import Target
from conformance.verbs import at_brokers, at_nodes, at_served, in_process


def target_of(plan: Plan, options: argparse.Namespace) -> Target:
    """The target of a plan; `options` are those of `run`. Raises BadUse, NotApplicable."""
    if plan.system == "impl":
        return in_process.target(plan, options)
    if plan.system == NODES:
        return at_nodes.target(plan, options)
    if plan.system == "serve":
        return at_served.target(plan, options)
    return at_brokers.target(plan, options)
