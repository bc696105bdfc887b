"""Running brokers, held to a model over their wire; the scheduler is all their clients.

1. What is judged is what brokers do with requests. The model's clients and networks decide which
   requests reach them and when; real brokers get exactly these (scripts), with real batches.
2. Answers are compared, and behind a trace what brokers say of themselves, and probes.
3. Traces need only what can be done to the brokers at hand: to one that merely listens somewhere
   nothing, one that was started here is stopped and killed, too.
4. What the brokers' ApiVersions do not offer is not applicable: neither passed nor failed.

Theory of operation. `BrokersBackend` is one of the runner's backends: it gives rows for ranges of
trace ids. Work is shared by connections, not by processes: traces of all ranges of a wave are on
their way together (`scheduler`), and a range's rows leave once its last trace has ended.
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
"""Shorter traces that a finding is tried with; then the shortest so far stays."""


class BrokerScript(Protocol):
    """A trace as brokers meet it, and the points of the model's text that it covers."""

    @property
    def steps(self) -> Steps:
        """The steps that are played."""

    @property
    def seen(self) -> int:
        """A bit for each point."""

    def instance(self, step: int) -> Instance:
        """The rule instance of a step that counts from 1; that of step 0 is the beginning."""


class ScriptWriter(Protocol):
    """Makes scripts of traces."""

    @property
    def tables(self) -> ActorTables:
        """What names the points."""

    def script(self, steps: Steps) -> Any:
        """The script of a trace. Raises NotApplicable, CannotPlay."""


@dataclass(slots=True)
class _Range:
    """What the traces of one range have given so far."""

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
    """One trace at a server: what of it was played, and the first difference if there is one."""

    steps: Steps
    finding: Finding | None
    is_undecided: bool


class BrokersBackend:
    """Judges the traces of `prepared` by scripts that are played at a testbed. `agreed` are those
    that the brokers followed to their ends, `departed` is how many were another trace from some
    step on. `other_scopes` opens the same brokers for another scope, where that can be done;
    `afresh` opens them with partitions that no trace had, where requests alone make a trace;
    `statements` gives those of impl that were executed, where the brokers are its nodes."""

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
        """What could not be judged."""
        return self.testbed.not_applicable

    def look_past(self, masks: Iterable[str]) -> None:
        """Judge behind these masks from now on, in place of those before."""
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
        """What the traces first <= number < last show, and those that do not come to rest. Raises
        BackendFailed."""
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

        A shorter trace shows it if its first difference is in the same rule and the same fields.
        Brokers are tried MAX_TRIED times, less often where something is done to them. A finding
        that they do not show again stays as it is. Raises BackendFailed.
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
        """What the server does in one trace. Raises BackendFailed, NotApplicable."""
        script = self._writer.script(steps)
        end = self._end_of(script)
        return Replayed(script.steps, self._finding_in(0, script, end), end.is_undecided)

    def script(self, steps: Steps) -> Any:
        """A trace as these brokers meet it. Raises NotApplicable, CannotPlay."""
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
        """One more trace has ended. Undecided ones do not count as traces."""
        one.left -= 1
        if end.is_undecided:
            return
        # Behind where it departed each transition is another, though its step is the same.
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
    """The steps before the one that differs; all, if settling or a probe does."""
    differs = difference.instance == script.instance(difference.step)
    steps = script.steps
    return steps[: difference.step - 1] if differs and difference.step else steps


def unsettled_at(script: BrokerScript, end: TraceEnd) -> Difference:
    """That brokers do not come to rest, as a difference."""
    at_rest, restless = {"settled": True}, {"settled": False}
    return Difference(end.steps, script.instance(end.steps), at_rest, restless)


def finding_of(number: int, script: BrokerScript, difference: Difference) -> Finding:
    """A difference as data, with the keys of the runner's findings. `rule` is a rule of the
    world, `initial`, `settle`, or `probe_` and the name of a probe."""
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
