"""Judges running brokers against a model over their wire; the scheduler plays all of their clients.

1. The subject is how brokers handle requests. The model's clients and networks decide which
   requests reach them and when; real brokers get exactly these requests (scripts), with real
   batches.
2. The answers are compared. After a trace, the brokers' descriptions of their own state and the
   answers to probes are compared, too.
3. Traces need only means that a test has at these brokers: none at a broker that merely listens
   somewhere; a broker that was started here can be stopped and killed, too.
4. Features that the brokers' ApiVersions do not offer are not applicable: neither passed nor
   failed.

Theory of operation. `BrokersBackend` is one of the runner's backends: it returns rows for ranges of
trace ids. Work is shared by connections, not by processes. Traces of all ranges of a wave are under
way together (`scheduler`), and the row of a range is returned once its last trace has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, NamedTuple, Protocol

from conformance.adapters.brokers.broker_testbed import BrokerTestbed
from conformance.adapters.brokers.exchange import Difference, TraceEnd
from conformance.adapters.brokers.scheduler import Scheduler
from conformance.judging.backend import ResultRow, TraceRange
from conformance.judging.compositions import judged_composition
from conformance.judging.findings import JudgedRange, Summary, is_same, steps_of
from conformance.judging.guaranteed import ObservedProperties, guarantees_of
from conformance.judging.masks import MaskedWork, Masks, add_masked
from conformance.judging.plan import PreparedPlan, configuration
from conformance.judging.rows import Found, row_of
from conformance.judging.signatures import Finding, count_findings
from conformance.judging.tables import ActorTables
from proofs import arrays as np
from proofs.trace.format import Instance
from proofs.trace.replay import Stepper
from proofs.trace.shrink import NothingToShrink, Steps, shrink

MAX_TRIED: Final = 300
"""The most shorter traces that are tried for a finding; then the shortest so far stays."""


class BrokerScript(Protocol):
    """A trace prepared for brokers, and the points of the model's text that it covers."""

    @property
    def steps(self) -> Steps:
        """The steps that are played."""

    @property
    def seen(self) -> int:
        """The covered points, a bit for each."""

    def instance(self, step: int) -> Instance:
        """The rule instance of a step; steps count from 1. The instance of step 0 is the
        beginning."""


class ScriptWriter(Protocol):
    """Turns traces into scripts."""

    @property
    def tables(self) -> ActorTables:
        """The tables that name the points."""

    def script(self, steps: Steps) -> Any:
        """The script of a trace. Raises NotApplicable, CannotPlay."""


@dataclass(slots=True)
class _Range:
    """The results of the traces of one range so far."""

    part: TraceRange
    covered: Any
    left: int
    rules: set[str] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)
    traces: int = 0
    steps: int = 0
    seen: int = 0
    observed: ObservedProperties = field(default_factory=ObservedProperties)
    masked: MaskedWork = field(default_factory=dict)


class Replayed(NamedTuple):
    """One trace at a server: the steps that were played, and the first difference if any."""

    steps: Steps
    finding: Finding | None
    is_undecided: bool


class BrokersBackend:
    """Judges the traces of `prepared` by scripts that are played at a testbed. `agreed` has the
    traces that the brokers followed to their ends; `departed` counts those that turned into another
    trace at some step. `other_scopes` opens the same brokers for another scope, if possible.
    `afresh` opens them with partitions that no trace has used, if requests alone make up a trace.
    `statements` gives the executed statements of impl, if the brokers are its nodes."""

    name = "wire"
    executors: Sequence[dict[str, Any]] = ()
    cores: int | None = 1
    other_scopes: Callable[[PreparedPlan], BrokersBackend] | None = None
    afresh: Callable[[PreparedPlan], BrokersBackend] | None = None
    statements: Callable[[], bytes] = bytes

    def __init__(
        self, prepared: PreparedPlan, writer: ScriptWriter, testbed: BrokerTestbed
    ) -> None:
        self.testbed = testbed
        self.look_past(prepared.plan.ignored)
        self.scheduler = Scheduler(testbed)
        self.agreed: list[int] = []
        self.departed = 0
        self._prepared = prepared
        self._writer = writer

    @property
    def not_applicable(self) -> Sequence[str]:
        """The plan's parts that could not be judged."""
        return self.testbed.not_applicable

    def look_past(self, masks: Iterable[str]) -> None:
        """From now on, judge behind these masks instead of the previous ones."""
        self.testbed.masks = Masks(masks)

    def close(self) -> None:
        """Close all connections."""
        self.scheduler.close()
        self.testbed.close()

    def judge(self, ranges: Sequence[TraceRange]) -> Iterator[ResultRow | None]:
        """A row for each range, once its traces have ended. Raises BackendFailed."""
        width = self._prepared.transitions_total or 0
        at: dict[int, _Range] = {}
        for part in ranges:
            one = _Range(part, np.zeros(width, dtype=bool), part.last - part.first)
            at |= dict.fromkeys(range(*part), one)
        scripts: dict[int, Any] = {}
        for ended in self.scheduler.run(self._scripts(at, scripts)):
            if ended is None:
                yield None
                continue
            number, end = ended
            one = at[number]
            self._add(one, number, scripts.pop(number), end)
            if one.left == 0:
                yield row_of(one.part, self._found(one))

    def findings(self, first: int, last: int) -> list[Finding]:
        """The findings of the traces first <= number < last, including traces after which brokers
        do not settle. Raises BackendFailed."""
        scripts: dict[int, Any] = {}
        at = dict.fromkeys(range(first, last))
        ends = [e for e in self.scheduler.run(self._scripts(at, scripts)) if e is not None]
        found = [(number, scripts[number], end) for number, end in sorted(ends, key=itemgetter(0))]
        return [
            finding_of(number, script, end.difference or unsettled_at(script, end))
            for number, script, end in found
            if end.difference is not None or end.is_undecided
        ]

    def shrunk(self, finding: Finding) -> Finding:
        """The finding with the shortest trace that was found to show it, behind the same masks.

        A shorter trace shows it if its first difference is in the same rule and fields. Brokers are
        tried MAX_TRIED times, or less often if the trace has faults. A finding that they do not
        show again stays as it is. Raises BackendFailed.
        """
        tried: dict[Steps, Finding | None] = {}
        left = MAX_TRIED

        def shows(steps: Steps) -> bool:
            nonlocal left
            if left <= 0:
                return False
            script = self._writer.script(steps)
            left -= self.testbed.cost_of(script)
            tried[steps] = self._finding_in(finding["id"], script, self._end_of(script))
            found = tried[steps]
            return found is not None and is_same(finding, found)

        plan = self._prepared.plan
        stepper = Stepper(judged_composition(plan.scope).model, configuration(plan))
        try:
            found = shrink(stepper, steps_of(finding), shows)
        except NothingToShrink:
            return finding
        last = tried[found.steps] or finding
        behind = {"behind": finding["behind"]} if "behind" in finding else {}
        return last | behind | {"one_minimal": found.one_minimal and left > 0}

    def replayed(self, steps: Steps) -> Replayed:
        """The server's behaviour in one trace. Raises BackendFailed, NotApplicable."""
        script = self._writer.script(steps)
        end = self._end_of(script)
        return Replayed(script.steps, self._finding_in(0, script, end), end.is_undecided)

    def script(self, steps: Steps) -> Any:
        """A trace prepared for these brokers. Raises NotApplicable, CannotPlay."""
        return self._writer.script(steps)

    def _end_of(self, script: Any) -> TraceEnd:
        [(_, end)] = [e for e in self.scheduler.run([(0, script)]) if e is not None]
        return end

    def _finding_in(self, number: int, script: Any, end: TraceEnd) -> Finding | None:
        return None if end.difference is None else finding_of(number, script, end.difference)

    def _scripts(self, at: Iterable[int], scripts: dict[int, Any]) -> Iterator[Any]:
        for number in at:
            scripts[number] = self._writer.script(self._prepared.trace(number))
            yield number, scripts[number]

    def _add(self, one: _Range, number: int, script: Any, end: TraceEnd) -> None:
        """One more trace has ended. Undecided traces do not count."""
        one.left -= 1
        if end.is_undecided:
            return
        # After a trace departs, each transition is another one, though its step is the same.
        prepared = end.departs_at - 1 if end.departs_at else len(script.steps)
        steps = script.steps[: end.steps]
        if end.difference is not None:
            if not end.is_consequence:
                one.findings.append(finding_of(number, script, end.difference))
                one.observed = one.observed.merge(self.testbed.observed(end, end.difference))
            steps = agreed_steps(script, end.difference)
        elif end.departs_at == 0:
            self.agreed.append(number)
        self.departed += end.departs_at > 0
        if len(steps) < len(script.steps):
            script = self._writer.script(steps)
        one.masked = add_masked(one.masked, end.masked)
        one.traces += 1
        one.steps += len(steps)
        one.seen |= script.seen
        one.rules |= {rule for rule, _ in steps}
        _, edges = self._prepared.walk(number)
        if edges is not None:
            one.covered[edges[: min(len(steps), prepared)]] = True

    def _found(self, one: _Range) -> Found:
        covers = self._writer.tables.points(one.seen)
        findings = sorted(one.findings, key=lambda finding: finding["id"])
        summary = Summary(
            traces=one.traces,
            steps=one.steps,
            transitions=np.packbits(one.covered, bitorder="little").tobytes(),
            rules=frozenset(one.rules),
            **covers._asdict(),
            statements=self.statements(),
            findings=count_findings(findings),
            masked=one.masked,
        )
        shown = guarantees_of(self._prepared, one.part, JudgedRange(summary, findings))
        broken = ObservedProperties(broken=self.testbed.broken)
        return Found(summary, shown.merge(one.observed).merge(broken))


# Findings


def agreed_steps(script: BrokerScript, difference: Difference) -> Steps:
    """The steps before the one that differs; all steps if settling or a probe differs."""
    differs = difference.instance == script.instance(difference.step)
    steps = script.steps
    return steps[: difference.step - 1] if differs and difference.step else steps


def unsettled_at(script: BrokerScript, end: TraceEnd) -> Difference:
    """The difference that stands for brokers that do not settle."""
    at_rest, restless = {"settled": True}, {"settled": False}
    return Difference(end.steps, script.instance(end.steps), at_rest, restless)


def finding_of(number: int, script: BrokerScript, difference: Difference) -> Finding:
    """A difference as data, with the keys of the runner's findings. `rule` is a rule of the world,
    `initial`, `settle`, or `probe_` with the name of a probe."""
    rule, choice = difference.instance
    return {
        "id": number,
        "trace": [[name, dict(values)] for name, values in script.steps[: difference.step]],
        "steps": difference.step,
        "rule": rule,
        "choice": dict(choice),
        "expected": dict(difference.expected),
        "observed": dict(difference.observed),
        "one_minimal": False,
    }
