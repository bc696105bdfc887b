"""Hunts one planted bug in a process of its own, which imports the patched impl before any
other."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import impl
from conformance.adapters.brokers.transactions.node_server import opened_nodes
from conformance.adapters.impl.in_process import InProcessPlayer
from conformance.adapters.impl.judges import judge_range, shrink_finding
from conformance.judging.distinguish.play import play_distinguishing_traces
from conformance.judging.plan import NODES, PreparedPlan
from conformance.judging.signatures import Finding

FIRST_TRACES: Final = 8
"""The number of traces to judge first; it doubles each time, because most bugs show at once."""
SHRUNK: Final = 3
"""The number of diverging traces to shrink; the shortest result is kept."""


class NotThePatchedOne(Exception):
    """The process has imported another impl than the patched one."""


class PlanJudge(Protocol):
    """Judges the traces of a plan."""

    def findings(self, first: int, last: int) -> Sequence[Finding]:
        """The findings of the traces first <= number < last."""

    def shrunk(self, finding: Finding) -> Finding:
        """The finding with a trace from which no step can be left out."""

    def told_apart(self) -> Sequence[Finding]:
        """The differences on distinguishing traces, for rules of the variant."""


@dataclass(frozen=True, slots=True)
class ActorsJudge:
    """Judges actors, without nodes."""

    prepared: PreparedPlan

    def findings(self, first: int, last: int) -> Sequence[Finding]:
        """See `PlanJudge`."""
        return judge_range(self.prepared, first, last).findings

    def shrunk(self, finding: Finding) -> Finding:
        """See `PlanJudge`."""
        return shrink_finding(self.prepared, finding)

    def told_apart(self) -> Sequence[Finding]:
        """See `PlanJudge`."""
        player = InProcessPlayer(self.prepared.plan)
        return play_distinguishing_traces(self.prepared, player).findings


class NodesJudge:
    """Judges nodes of its own."""

    def __init__(self, prepared: PreparedPlan) -> None:
        self._backend = opened_nodes(prepared)

    def findings(self, first: int, last: int) -> Sequence[Finding]:
        """See `PlanJudge`. A trace after which nodes do not settle is a finding, too, since no node
        is slow."""
        return self._backend.findings(first, last)

    def shrunk(self, finding: Finding) -> Finding:
        """See `PlanJudge`."""
        return self._backend.shrunk(finding)

    def told_apart(self) -> Sequence[Finding]:
        """None: at nodes the number of traces is limited."""
        return ()


def judge_for(prepared: PreparedPlan) -> PlanJudge:
    """The judge of a plan in this process."""
    return NodesJudge(prepared) if prepared.plan.system == NODES else ActorsJudge(prepared)


def find_first(prepared: PreparedPlan, judge: PlanJudge) -> Sequence[Finding]:
    """The findings of the first traces that diverge, if any."""
    first, count = 0, FIRST_TRACES
    while first < prepared.count:
        last = min(first + count, prepared.count)
        found = judge.findings(first, last)
        if found:
            return found[:SHRUNK]
        first, count = last, 2 * count
    return []


def hunt(prepared: PreparedPlan) -> Finding | None:
    """The shortest of the first findings, shrunk; else a difference on a trace that tells a rule of
    the variant from another release's. None if the bug does not show."""
    judge = judge_for(prepared)
    shrunk = [judge.shrunk(finding) for finding in find_first(prepared, judge)]
    if not shrunk:
        return next(iter(judge.told_apart()), None)
    return min(shrunk, key=lambda finding: finding["steps"])


def main(arguments: list[str]) -> None:
    """`PREPARED ROOT`: print the finding as JSON, `null` without one.

    Raises NotThePatchedOne unless impl comes from ROOT.
    """
    directory, root = map(Path, arguments)
    if not Path(impl.__file__ or "").is_relative_to(root):
        raise NotThePatchedOne(f"{impl.__file__} is not below {root}")
    finding: dict[str, Any] | None = hunt(PreparedPlan.load(directory))
    print(json.dumps(finding))


if __name__ == "__main__":
    main(sys.argv[1:])
