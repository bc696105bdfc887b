"""The result of judging some traces of a plan: a summary with findings by signature.

`judge_traces` is a function of the judge, the prepared plan and the range alone. Summaries can be
merged in any grouping, with the same result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import NamedTuple

from conformance.judging.compositions import JUDGED_COMPOSITIONS, judged_composition
from conformance.judging.judge import Divergence, Lockstep, Steps
from conformance.judging.masks import MaskedWork, add_masked
from conformance.judging.plan import Plan, PreparedPlan, configuration
from conformance.judging.signatures import (
    Finding,
    Findings,
    count_findings,
    fields_of,
    merge_findings,
)
from proofs import arrays as np
from proofs.trace.replay import Stepper
from proofs.trace.shrink import shrink

ANEW_EVERY, LATER_ANEW_EVERY = 8, 32
"""In one trace out of this many, the actors recompute steps that are looked up in other traces, and
clients are also offered records that must wait."""
LATER = 1_000_000
"""From this trace id on, fewer traces are recomputed: 125,000 have been by then."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of judging some traces. `transitions` has bit e set (byte e // 8, bit e % 8) if
    the labelled transition e was executed without a difference; it is empty if transitions are not
    known. `statements` has a bit for each statement of impl's protocol that was executed, in these
    traces or before them in the same process; it is empty if impl is not judged.

    `steps` counts executed steps; `findings` has all traces that ended in a difference.
    """

    traces: int = 0
    steps: int = 0
    transitions: bytes = b""
    rules: frozenset[str] = frozenset()
    branches: frozenset[str] = frozenset()
    error_codes: frozenset[str] = frozenset()
    table_entries: frozenset[str] = frozenset()
    statements: bytes = b""
    findings: Findings = field(default_factory=dict)
    masked: MaskedWork = field(default_factory=dict)

    def merge(self, other: Summary) -> Summary:
        """Merge two summaries. Associative and commutative; `Summary()` is neutral."""
        return Summary(
            traces=self.traces + other.traces,
            steps=self.steps + other.steps,
            transitions=either(self.transitions, other.transitions),
            rules=self.rules | other.rules,
            branches=self.branches | other.branches,
            error_codes=self.error_codes | other.error_codes,
            table_entries=self.table_entries | other.table_entries,
            statements=either(self.statements, other.statements),
            findings=merge_findings(self.findings, other.findings),
            masked=add_masked(self.masked, other.masked),
        )

    @property
    def divergences(self) -> int:
        """The number of traces that ended in a difference."""
        return sum(found.count for found in self.findings.values())

    @property
    def transitions_covered(self) -> int:
        """The number of labelled transitions that were executed."""
        return int.from_bytes(self.transitions, "little").bit_count()


def either(bits: bytes, others: bytes) -> bytes:
    """The bits that are set in one or both."""
    found = int.from_bytes(bits, "little") | int.from_bytes(others, "little")
    return found.to_bytes(max(len(bits), len(others)), "little")


class JudgedRange(NamedTuple):
    """The summary of a range, and all of its findings in the order of trace ids."""

    summary: Summary
    findings: list[Finding]

    @property
    def agreed(self) -> Mapping[int, int]:
        """The number of steps before the difference, by the id of the diverging trace."""
        return {finding["id"]: max(finding["steps"] - 1, 0) for finding in self.findings}


def judge_traces(judge: Lockstep, prepared: PreparedPlan, first: int, last: int) -> JudgedRange:
    """Judge the traces first <= id < last."""
    instances = prepared.instances
    moves = [judge.move(instance) for instance in instances]
    covered = np.zeros(prepared.transitions_total or 0, dtype=bool)
    executed: set[int] = set()
    findings: list[Finding] = []
    masked: list[MaskedWork] = []
    steps = seen = 0
    for number in range(first, last):
        walk, edges = prepared.walk(number)
        result = judge.follow([moves[instance] for instance in walk], not is_anew(number))
        agreed = result.steps
        if result.divergence is not None:
            agreed = max(agreed - 1, 0)
            findings.append(finding_of(number, result.divergence))
        executed.update(walk[:agreed])
        if edges is not None:
            covered[edges[:agreed]] = True
        if result.masked:
            masked.append(result.masked)
        steps += result.steps
        seen |= result.seen
    covers = judge.tables.points(seen)
    summary = Summary(
        traces=last - first,
        steps=steps,
        transitions=np.packbits(covered, bitorder="little").tobytes(),
        rules=frozenset(instances[instance][0] for instance in executed),
        **covers._asdict(),
        findings=count_findings(findings),
        masked=add_masked(*masked),
    )
    return JudgedRange(summary, findings)


def is_anew(number: int) -> bool:
    """Whether the actors recompute all steps in the trace of this id."""
    return number % (ANEW_EVERY if number < LATER else LATER_ANEW_EVERY) == 0


def finding_of(number: int, divergence: Divergence) -> Finding:
    """A divergence as data. `id` is that of its trace. `trace` is [[rule, {choice}], ...], cut
    behind the step that differs; `steps` is its length; `rule` and `choice` are those of the last
    step. `expected` and `observed` are by field path; `one_minimal` says that no step can be left
    out.
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


def plan_of(prepared: PreparedPlan, finding: Finding) -> Plan:
    """The plan of the trace. A distinguishing trace has a scope of its own."""
    return replace(prepared.plan, scope=finding.get("scope", prepared.plan.scope))


def steps_of(finding: Finding) -> Steps:
    """The trace of a finding, with choices in the order of their rules, because JSON keeps no
    order."""
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


def shrink_with_judge(judge: Lockstep, prepared: PreparedPlan, finding: Finding) -> Finding:
    """The finding with a trace of which no step can be left out (`one_minimal`).

    A shorter trace shows the same finding if its first difference is in the same rule and fields.
    Raises NothingToShrink if the trace does not show it.
    """

    def shows(steps: Steps) -> bool:
        divergence = judge.judge(steps).divergence
        return divergence is not None and is_same(finding, finding_of(0, divergence))

    stepper = Stepper(judged_composition(prepared.plan.scope).model, configuration(prepared.plan))
    shrunk = shrink(stepper, steps_of(finding), shows)
    divergence = judge.judge(shrunk.steps).divergence
    assert divergence is not None
    return finding_of(finding["id"], divergence) | {"one_minimal": shrunk.one_minimal}


def is_same(finding: Finding, other: Finding) -> bool:
    """Whether two findings show the same: the rule, and the fields that differ."""
    return finding["rule"] == other["rule"] and fields_of(finding) == fields_of(other)
