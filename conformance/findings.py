"""What judging some traces of a plan gives: a summary, and a finding for each divergence.

`judge_range` is a function of what was prepared and the range alone. Summaries merge in any
grouping to the same summary.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np

from conformance.compositions import JUDGED_COMPOSITIONS, judged_composition
from conformance.judge import Divergence, Lockstep, Steps
from conformance.plan import BadPlan, Plan, PreparedPlan, configuration, tables_of
from conformance.systems.base import NotApplicable
from proofs.trace.replay import Stepper
from proofs.trace.shrink import shrink

Finding = dict[str, Any]
"""A divergence as plain data: see `finding_of`."""

MAX_FINDINGS = 20
"""Findings that a summary keeps: those of the lowest trace ids. All are counted."""
NOT_MEMOISED_EVERY = 8
"""In one trace of so many the actors do all anew, even what is looked up in the others, and clients
are also offered what must wait."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What judging some traces gave. `transitions` has bit e set (byte e // 8, bit e % 8) if the
    labelled transition e was executed without a difference; it is empty where none is known.

    `steps` counts those that were executed, `divergences` traces that ended in a difference;
    `findings` are the first of these in the order of trace ids, at most MAX_FINDINGS.
    """

    traces: int = 0
    steps: int = 0
    transitions: bytes = b""
    rules: frozenset[str] = frozenset()
    branches: frozenset[str] = frozenset()
    error_codes: frozenset[str] = frozenset()
    divergences: int = 0
    findings: tuple[Finding, ...] = ()

    def merge(self, other: Summary) -> Summary:
        """Both together. Associative and commutative; `Summary()` is neutral."""
        width = max(len(self.transitions), len(other.transitions))
        either = int.from_bytes(self.transitions, "little") | int.from_bytes(
            other.transitions, "little"
        )
        findings = sorted((*self.findings, *other.findings), key=lambda finding: finding["id"])
        return Summary(
            traces=self.traces + other.traces,
            steps=self.steps + other.steps,
            transitions=either.to_bytes(width, "little"),
            rules=self.rules | other.rules,
            branches=self.branches | other.branches,
            error_codes=self.error_codes | other.error_codes,
            divergences=self.divergences + other.divergences,
            findings=tuple(findings[:MAX_FINDINGS]),
        )

    @property
    def transitions_covered(self) -> int:
        """How many labelled transitions were executed."""
        return int.from_bytes(self.transitions, "little").bit_count()


@functools.lru_cache(maxsize=8)
def judge_of(plan: Plan) -> Any:
    """The judge of a plan, a `Lockstep`: its tables serve all ranges that this process judges.

    Raises BadPlan where the system cannot be brought to the scope.
    """
    composition = judged_composition(plan.scope)
    try:
        judge: Lockstep = composition.called(composition.judge)(
            tables_of(configuration(plan)), plan.system, plan.actors, plan.on
        )
    except NotApplicable as error:
        raise BadPlan(f"{plan.scope}: {error}") from error
    return judge


def judge_range(prepared: PreparedPlan, first: int, last: int) -> Summary:
    """Judge the traces first <= id < last."""
    judge = judge_of(prepared.plan)
    instances = prepared.instances
    moves = [judge.move(instance) for instance in instances]
    covered = np.zeros(prepared.transitions_total or 0, dtype=bool)
    executed: set[int] = set()
    findings: list[Finding] = []
    steps = seen = divergences = 0
    for number in range(first, last):
        walk, edges = prepared.walk(number)
        memoised = number % NOT_MEMOISED_EVERY != 0
        result = judge.follow([moves[instance] for instance in walk], memoised)
        agreed = result.steps
        if result.divergence is not None:
            agreed = max(agreed - 1, 0)
            divergences += 1
            if len(findings) < MAX_FINDINGS:
                findings.append(finding_of(number, result.divergence))
        executed.update(walk[:agreed])
        if edges is not None:
            covered[edges[:agreed]] = True
        steps += result.steps
        seen |= result.seen
    branches, error_codes = judge.tables.points(seen)
    return Summary(
        traces=last - first,
        steps=steps,
        transitions=np.packbits(covered, bitorder="little").tobytes(),
        rules=frozenset(instances[instance][0] for instance in executed),
        branches=branches,
        error_codes=error_codes,
        divergences=divergences,
        findings=tuple(findings),
    )


def finding_of(number: int, divergence: Divergence) -> Finding:
    """A divergence as data: `id` of its trace; `trace` as [[rule, {choice}], ...], cut behind the
    step that differs; `steps`, how many these are; `rule` and `choice` of the last; `expected` and
    `observed` by field path; `one_minimal`, whether no step can be left out.
    """
    rule, choice = divergence.instance
    return {
        "id": number,
        "trace": [[name, dict(values)] for name, values in divergence.trace],
        "steps": divergence.step,
        "rule": rule,
        "choice": dict(choice),
        "expected": divergence.expected,
        "observed": divergence.observed,
        "one_minimal": False,
    }


def steps_of(finding: Finding) -> Steps:
    """The trace of a finding, choices in the order of their rules: JSON keeps none."""
    rules = {n: rule for c in JUDGED_COMPOSITIONS.values() for n, rule in c.model.rules.items()}
    return tuple(
        (
            rule,
            tuple(
                (name, choice[name]) for name in signature(rules[rule]).parameters if name in choice
            ),
        )
        for rule, choice in finding["trace"]
    )


def shrink_finding(prepared: PreparedPlan, finding: Finding) -> Finding:
    """The finding with a trace of which no step can be left out (`one_minimal`).

    A shorter trace shows the same finding if its first difference comes with the same rule.
    Raises NothingToShrink if the trace does not show it.
    """
    judge = judge_of(prepared.plan)

    def shows(steps: Steps) -> bool:
        divergence = judge.judge(steps).divergence
        return divergence is not None and divergence.instance[0] == finding["rule"]

    stepper = Stepper(judged_composition(prepared.plan.scope).model, configuration(prepared.plan))
    shrunk = shrink(stepper, steps_of(finding), shows)
    divergence = judge.judge(shrunk.steps).divergence
    assert divergence is not None
    return finding_of(finding["id"], divergence) | {"one_minimal": shrunk.one_minimal}
