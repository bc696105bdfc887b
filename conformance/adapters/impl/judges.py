"""The judges of `impl` in process, and what they do with a plan's traces.

Each composition has its own: tables of the model's actors or worlds, a judge of them and of the
system's, and a world of the model made of what the system shows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from conformance.adapters.impl.idempotent import system as idempotent
from conformance.adapters.impl.processing import world_judge as processing
from conformance.adapters.impl.processing import worlds
from conformance.adapters.impl.producer_ids import producer_blocks
from conformance.adapters.impl.transactions import judge as transactions
from conformance.adapters.impl.transactions import tables as transaction_tables
from conformance.generate.models import composition_of_configuration
from conformance.judging.compositions import (
    IDEMPOTENT,
    PROCESSING,
    PRODUCER_IDS,
    TRANSACTIONS,
    judged_composition,
)
from conformance.judging.findings import (
    JudgedRange,
    judge_traces,
    plan_of,
    shrink_with_judge,
    steps_of,
)
from conformance.judging.guaranteed import ObservedProperties, observe_world, without_unshown
from conformance.judging.idempotent.observed_world import observed_world
from conformance.judging.idempotent.tables import Tables
from conformance.judging.judge import Lockstep
from conformance.judging.masks import Masks
from conformance.judging.plan import BadPlan, Plan, PreparedPlan, configuration
from conformance.judging.signatures import Finding
from conformance.judging.system import NotApplicable


class CompositionAdapter(NamedTuple):
    """What judges a composition. `judge` takes tables, the actors under test, and the form of
    messages; it raises NotApplicable."""

    tables: Callable[[Any], Any]
    judge: Callable[[Any, str, str], Lockstep]
    observed_world: Callable[[Any], Any]


ADAPTERS: Final[Mapping[str, CompositionAdapter]] = {
    IDEMPOTENT.name: CompositionAdapter(Tables, idempotent.judge_of_impl, observed_world),
    TRANSACTIONS.name: CompositionAdapter(
        transaction_tables.tables_of, transactions.judge_of_impl, transactions.observed_world
    ),
    PROCESSING.name: CompositionAdapter(
        worlds.tables_of, processing.judge_of_impl, processing.observed_world
    ),
    PRODUCER_IDS.name: CompositionAdapter(
        producer_blocks.tables_of, producer_blocks.judge_of_impl, producer_blocks.observed_world
    ),
}


@functools.lru_cache(maxsize=8)
def tables_of(k: Any) -> Any:
    """The judge's tables of a configuration: one set serves all that this process does with it."""
    return ADAPTERS[composition_of_configuration(k)].tables(k)


@functools.lru_cache(maxsize=8)
def judge_of(plan: Plan) -> Any:
    """The judge of a plan, a `Lockstep`: its tables serve all ranges that this process judges.

    Raises BadPlan where the system cannot be brought to the scope.
    """
    adapter = ADAPTERS[judged_composition(plan.scope).name]
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
    """What the system shows once it took the step that differs. Raises BadPlan."""
    plan = plan_of(prepared, finding)
    judge = judge_of(plan)
    judge.judge(steps_of(finding))
    composition = judged_composition(plan.scope)
    world = ADAPTERS[composition.name].observed_world(judge)
    return without_unshown(observe_world(judge.tables.k, world), composition)
