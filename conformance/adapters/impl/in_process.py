"""Plays distinguishing traces with the judge of this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from conformance.adapters.impl.judges import judge_of
from conformance.judging.distinguish.known import ACTORS
from conformance.judging.distinguish.play import TraceNotApplicable
from conformance.judging.findings import finding_of
from conformance.judging.judge import Divergence, Lockstep, NotAllowed
from conformance.judging.plan import BadPlan, Plan, check_plan
from conformance.judging.signatures import Finding
from proofs.trace.shrink import Steps


@dataclass(frozen=True, slots=True)
class InProcessPlayer:
    """Plays traces with the actors of a plan, in the scope of each trace."""

    plan: Plan
    observer: str = ACTORS

    def play(
        self, scope: str, traces: Sequence[Steps]
    ) -> Iterator[Finding | TraceNotApplicable | None]:
        """See `Player`. A trace is skipped if the system cannot be brought to its scope."""
        try:
            judge = judge_of(check_plan(replace(self.plan, scope=scope)))
        except BadPlan as error:
            yield from [TraceNotApplicable(str(error))] * len(traces)
            return
        for steps in traces:
            divergence = judge_allowed(judge, steps)
            yield None if divergence is None else finding_of(0, divergence)


def judge_allowed(judge: Lockstep, steps: Steps) -> Divergence | None:
    """The first difference of a trace whose last step may be allowed by the other rule only. The
    reaction of the system before that step says whether it would take the step. Raises NotAllowed
    for another step."""
    try:
        return judge.judge(steps).divergence
    except NotAllowed as refused:
        if refused.step < len(steps):
            raise
        return judge.judge(steps[:-1]).divergence
