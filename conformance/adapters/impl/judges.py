"""The judges of `impl` in this process, and the functions that apply them to a plan's traces.

Each composition has an adapter of its own, in the folder with its name.
"""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

from conformance.adapters.impl.shared.composition_adapter import CompositionAdapter
from conformance.generate.models import composition_of_configuration
from conformance.judging.compositions import judged_composition
from conformance.judging.findings import (
    JudgedRange,
    judge_traces,
    plan_of,
    shrink_with_judge,
    steps_of,
)
from conformance.judging.guaranteed import ObservedProperties, observe_world, without_unshown
from conformance.judging.masks import Masks
from conformance.judging.plan import BadPlan, Plan, PreparedPlan, configuration
from conformance.judging.signatures import Finding
from conformance.judging.system import NotApplicable


def adapter_of(composition: str) -> CompositionAdapter:
    """The adapter of a composition, from the folder with its name. It is imported on demand,
    because the statements of `impl` that a run executes are noted from the import of its modules
    on."""
    module = import_module(f"{__package__}.{composition}.adapter")
    adapter: CompositionAdapter = module.ADAPTER
    return adapter


@functools.lru_cache(maxsize=8)
def tables_of(k: Any) -> Any:
    """The judge's tables of a configuration: all work of this process on it shares one set."""
    return adapter_of(composition_of_configuration(k)).tables(k)


@functools.lru_cache(maxsize=8)
def judge_of(plan: Plan) -> Any:
    """The judge of a plan, a `Lockstep`. Its tables serve all ranges that this process judges.

    Raises BadPlan if the system cannot be brought to the scope.
    """
    adapter = adapter_of(judged_composition(plan.scope).name)
    try:
        judge = adapter.judge(tables_of(configuration(plan)), plan.actors, plan.on)
    except NotApplicable as error:
        raise BadPlan(f"{plan.scope}: {error}") from error
    judge.masks = Masks(plan.ignored)
    return judge


def judge_range(prepared: PreparedPlan, first: int, last: int) -> JudgedRange:
    """Judge the traces first <= id < last. Raises BadPlan."""
    return judge_traces(judge_of(prepared.plan), prepared, first, last)


def shrink_finding(prepared: PreparedPlan, finding: Finding) -> Finding:
    """See `shrink_with_judge`. Raises BadPlan, NothingToShrink."""
    return shrink_with_judge(judge_of(prepared.plan), prepared, finding)


def observe_finding(prepared: PreparedPlan, finding: Finding) -> ObservedProperties:
    """The properties that the system shows after the step that differs. Raises BadPlan."""
    plan = plan_of(prepared, finding)
    judge = judge_of(plan)
    judge.judge(steps_of(finding))
    composition = judged_composition(plan.scope)
    world = adapter_of(composition.name).observed_world(judge)
    return without_unshown(observe_world(judge.tables.k, world), composition)
