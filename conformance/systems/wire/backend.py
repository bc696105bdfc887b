"""A broker over its wire, held to the model of its leader; the harness is all its clients.

1. What is judged is the leader. The model's clients and connections decide which requests reach it
   and when; a real broker gets exactly these (`script`), each with a real batch.
2. Each trace ends by settling (what the broker says of its producers) and probes (`probes`).
3. Traces need only what can be done to the brokers at hand (`nodes`): to one that merely
   listens somewhere nothing, one that was started here is stopped and killed, too.
4. What the broker's ApiVersions does not offer is not applicable: neither passed nor failed.

Theory of operation. `WireBackend` is one of the runner's backends: it gives rows for ranges of
trace ids. Work is shared by connections, not by processes: traces of all ranges of a wave are on
their way together (`harness`), and a range's rows leave once its last trace has ended.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np

from conformance.backends import ResultRow, TraceRange
from conformance.findings import MAX_FINDINGS, Finding, Summary, steps_of
from conformance.guaranteed import ObservedProperties
from conformance.homes import home_of_scope
from conformance.judging import guarantees_of
from conformance.plan import Plan, PreparedPlan, configuration
from conformance.rows import Found, rows_of
from conformance.systems.wire.harness import Broker, BrokerHarness
from conformance.systems.wire.observer import Observer
from conformance.systems.wire.script import LeaderScriptWriter
from conformance.systems.wire.shown import shown
from conformance.systems.wire.trial import Difference
from conformance.tables import Tables
from proofs.trace.replay import Stepper
from proofs.trace.shrink import NothingToShrink, Steps, shrink

MAX_TRIED: Final = 300
"""Shorter traces that a finding is tried with; then the shortest so far stays."""
DEED_COUNTS: Final = 30
"""How many of these one deed to brokers stands for: it takes seconds."""

NO_PRODUCERS: Final = "producer states: the broker does not offer DescribeProducers"


def traces_plan(plan: Plan) -> Plan:
    """The plan whose traces are judged: they do not depend on the system."""
    return replace(plan, system="impl", actors="leader", on="bytes")


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
    shown: ObservedProperties = field(default_factory=ObservedProperties)


class Replayed(NamedTuple):
    """One trace at a server: what of it was played, and the first difference if there is one."""

    steps: Steps
    finding: Finding | None
    is_undecided: bool


class ScriptBackend(ABC):
    """Judges the traces of `prepared` by scripts that a harness plays at a running server."""

    name = "wire"
    cores: int | None = 1

    def __init__(self, prepared: PreparedPlan, tables: Any, writer: Any, harness: Any) -> None:
        self._prepared = prepared
        self._tables = tables
        self._writer = writer
        self._harness = harness

    def judge(self, ranges: Sequence[TraceRange]) -> Iterator[ResultRow | None]:
        """The rows of all ranges, each once its traces have ended. Raises BackendFailed."""
        width = self._prepared.transitions_total or 0
        at: dict[int, _Range] = {}
        for part in ranges:
            one = _Range(part, np.zeros(width, dtype=bool), part.last - part.first)
            at |= dict.fromkeys(range(*part), one)
        scripts: dict[int, Any] = {}
        for ended in self._harness.run(self._scripts(at, scripts)):
            if ended is None:
                yield None
                continue
            number, outcome = ended
            one = at[number]
            self._add(one, number, scripts.pop(number), outcome)
            if one.left == 0:
                yield from rows_of(one.part, self._found(one))

    def shrunk(self, finding: Finding) -> Finding:
        """The finding with the shortest trace that was found to show it.

        A shorter trace shows it if its first difference is in the same rule and the same fields.
        The broker is tried MAX_TRIED times, less often where something is done to it. A finding
        that it does not show again stays as it is. Raises BackendFailed.
        """
        tried: dict[Steps, Finding | None] = {}
        left = MAX_TRIED

        def shows(steps: Steps) -> bool:
            nonlocal left
            if left <= 0:
                return False
            script = self._writer.script(steps)
            left -= self._costs(script)
            tried[steps] = self._finding_of(finding["id"], script)
            return is_same(finding, tried[steps])

        plan = self._prepared.plan
        stepper = Stepper(home_of_scope(plan.scope).model, configuration(plan))
        try:
            found = shrink(stepper, steps_of(finding), shows)
        except NothingToShrink:
            return finding
        last = tried[found.steps] or finding
        return last | {"one_minimal": found.one_minimal and left > 0}

    def replayed(self, steps: Steps) -> Replayed:
        """What the server does in one trace. Raises BackendFailed, NotApplicable."""
        script = self._writer.script(steps)
        [ended] = [e for e in self._harness.run([(0, script)]) if e is not None]
        difference = ended[1].difference
        finding = None if difference is None else finding_of(0, script, difference)
        return Replayed(script.steps, finding, ended[1].is_undecided)

    def _costs(self, script: Any) -> int:
        """Of MAX_TRIED, what one try of a script takes."""
        return 1

    @abstractmethod
    def _shown(self, outcome: Any, difference: Difference) -> ObservedProperties:
        """What a server that differed shows of the guarantees."""

    def _scripts(self, at: Mapping[int, _Range], scripts: dict[int, Any]) -> Iterator[Any]:
        for number in at:
            scripts[number] = self._writer.script(self._prepared.trace(number))
            yield number, scripts[number]

    def _add(self, one: _Range, number: int, script: Any, outcome: Any) -> None:
        """One more trace has ended. Undecided ones do not count as traces."""
        one.left -= 1
        if outcome.is_undecided:
            return
        difference = outcome.difference
        steps, shared = script.steps[: outcome.steps], self._shared(script, outcome)
        if difference is not None:
            one.findings.append(finding_of(number, script, difference))
            one.shown = one.shown.merge(self._shown(outcome, difference))
            steps = agreed_steps(script, difference)
        if len(steps) < len(script.steps):
            script = self._writer.script(steps)
        one.traces += 1
        one.steps += len(steps)
        one.seen |= script.seen
        one.rules |= {rule for rule, _ in steps}
        _, edges = self._prepared.walk(number)
        if edges is not None:
            one.covered[edges[: min(len(steps), shared)]] = True

    def _shared(self, script: Any, outcome: Any) -> int:
        """How many transitions of the prepared trace were taken, if it was played so far."""
        return len(script.steps)

    def _found(self, one: _Range) -> Found:
        branches, error_codes = self._tables.points(one.seen)
        findings = sorted(one.findings, key=lambda finding: finding["id"])
        summary = Summary(
            traces=one.traces,
            steps=one.steps,
            transitions=np.packbits(one.covered, bitorder="little").tobytes(),
            rules=frozenset(one.rules),
            branches=branches,
            error_codes=error_codes,
            divergences=len(findings),
            findings=tuple(findings[:MAX_FINDINGS]),
        )
        return Found(summary, guarantees_of(self._prepared, one.part, summary).merge(one.shown))

    def _finding_of(self, number: int, script: Any) -> Finding | None:
        """What the broker shows of a script, if it differs."""
        [ended] = [e for e in self._harness.run([(number, script)]) if e is not None]
        difference = ended[1].difference
        return None if difference is None else finding_of(number, script, difference)


class WireBackend(ScriptBackend):
    """Judges the traces of `prepared` (a plan from `traces_plan`) on a running broker.

    Raises CannotPlay for a scope that one broker cannot have, BackendFailed.
    """

    def __init__(self, prepared: PreparedPlan, broker: Broker) -> None:
        k = configuration(prepared.plan)
        tables, observer = Tables(k), Observer(k, tells_log_start=broker.tells_log_start)
        writer = LeaderScriptWriter(k, tables, observer, broker.nodes.plays)
        super().__init__(prepared, tables, writer, BrokerHarness(observer, broker, prepared.count))
        self._observer = observer
        self._broker = broker

    @property
    def not_applicable(self) -> list[str]:
        """What could not be judged."""
        return [] if self._broker.describes else [NO_PRODUCERS]

    def close(self) -> None:
        """Close all connections."""
        self._harness.close()

    def _costs(self, script: Any) -> int:
        """Deeds take seconds."""
        return 1 + DEED_COUNTS * len(script.deeds)

    def _shown(self, outcome: Any, difference: Difference) -> ObservedProperties:
        """The logs that its answers describe."""
        return shown(self._observer.k, outcome.told, difference)


# Findings


def agreed_steps(script: Any, difference: Difference) -> Steps:
    """The steps before the one that differs; all, if settling or a probe does."""
    differs = difference.instance == script.instance(difference.step)
    steps: Steps = script.steps
    return steps[: difference.step - 1] if differs and difference.step else steps


def finding_of(number: int, script: Any, difference: Difference) -> Finding:
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


def is_same(finding: Finding, other: Finding | None) -> bool:
    """Both show the same: the rule, and the fields that differ."""
    return (
        other is not None
        and other["rule"] == finding["rule"]
        and all(other[name].keys() == finding[name].keys() for name in ("expected", "observed"))
    )
