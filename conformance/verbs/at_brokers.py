"""`run` at brokers: the parts of each composition that are judged there."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Final

from conformance.judging.compositions import IDEMPOTENT, TRANSACTIONS, judged_composition
from conformance.judging.plan import Plan
from conformance.judging.reports.pipeline import Target
from conformance.judging.reports.pipeline import run as run_pipeline
from conformance.verbs.at_servers import servers_target
from conformance.verbs.over_wire import check_ready, in_process_alone, leaders_target

TARGETS: Final[Mapping[str, Callable[[Plan, argparse.Namespace], Target]]] = {
    IDEMPOTENT.name: leaders_target,
    TRANSACTIONS.name: servers_target,
}
"""The functions that make a target, by composition. The actors of other compositions cannot be told
apart over a wire."""


def target(plan: Plan, options: argparse.Namespace) -> Target:
    """The brokers at which a plan is played. Raises BadUse, NotApplicable."""
    opens = TARGETS.get(judged_composition(plan.scope).name)
    if opens is None:
        raise in_process_alone(plan)
    return opens(plan, options)


def run(plan: Plan, options: argparse.Namespace) -> int:
    """Judge the plan; the exit code.

    Raises BackendError, OtherRun, BadPlan, BadBaseline, BadUse, CannotPlay, NotApplicable.
    """
    chosen = target(plan, options)
    check_ready(plan, options)
    return run_pipeline(chosen, options)
