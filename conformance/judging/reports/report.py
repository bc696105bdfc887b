"""The result of a run as files: report.json, run.json, junit.xml, and a trace and page a
divergence.

Two rules:

1. `report.json` is a function of seed, system and arguments alone: it has no time, rate, float or
   machine. `run.json` has everything that varies from run to run.
2. `report.schema.json` has its keys; keys may be added, but removing one needs a new
   SCHEMA_VERSION.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final
from xml.etree import ElementTree

from conformance.judging.causes import NO_CAUSE, Cause, Severity
from conformance.judging.coverage.functions import count_statements
from conformance.judging.distinguish.play import LEFT_OUT, DistinguishingReport
from conformance.judging.findings import Summary
from conformance.judging.guaranteed import HOLDS, NOT_EXERCISED, VIOLATED
from conformance.judging.known_differences import KnownDifference
from conformance.judging.plan import PreparedPlan
from conformance.judging.runner import Wave
from conformance.judging.signatures import Occurrences
from impl.protocol.errors import ErrorCode

SCHEMA_VERSION: Final = 3

UNDECIDED: Final = "undecided"

JUDGES: Final = ("model", "guarantees", "protocol")
"""The criterion of the verdict: any difference from the model; broken guarantees; or broken
guarantees and differences that break the protocol."""

MOST_VARIATIONS: Final = 3

AT_FAULT: Final = (Severity.PROMISE, Severity.PROTOCOL)
"""The severities that count against a system that is judged by the protocol."""


@dataclass(frozen=True, slots=True)
class ReportedDivergence:
    """A shrunk finding, with the path of its trace relative to the report, and its explanation.

    `occurrences` counts the findings of all traces that it stands for: those of one `cause`.
    `variations` are sentences about other findings of this cause. `decided_by` is the model's text
    about the deciding rule. `script` sends the requests; if it is missing, `no_script` says why.
    """

    finding: Mapping[str, Any]
    trace: str
    explained: KnownDifference | None
    occurrences: Occurrences
    cause: Cause = NO_CAUSE
    variations: tuple[str, ...] = ()
    decided_by: str = ""
    script: str = ""
    no_script: str = ""

    @property
    def breaks(self) -> Severity:
        """The severity of the difference."""
        return Severity(self.finding.get("breaks", Severity.PROTOCOL))

    def to_json(self) -> dict[str, Any]:
        """The row of `report.json`."""
        return {
            "trace": self.trace,
            "steps": self.finding["steps"],
            "one_minimal": self.finding["one_minimal"],
            "rule": self.finding["rule"],
            "expected": self.finding["expected"],
            "observed": self.finding["observed"],
            "cause": self.cause.text,
            "decided_by": self.decided_by,
            "script": self.script or None,
            "no_script": self.no_script or None,
            "variations": list(self.variations[:MOST_VARIATIONS]),
            "breaks": self.breaks,
            "explained_by": None if self.explained is None else self.explained.reference,
            "occurrences": self.occurrences.count,
            "first_id": self.occurrences.first_id,
            "shortest_ids": [finding["id"] for finding in self.occurrences.shortest],
        }


@dataclass(frozen=True, slots=True)
class SideCheck:
    """A comparison beside traces: the number of values compared, and the first difference if
    any."""

    compared: int
    expected: Any = None
    observed: Any = None

    @property
    def holds(self) -> bool:
        """Whether nothing differs."""
        return bool(self.expected == self.observed)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a run. `guarantees` has holds, violated or not_exercised for each name;
    `not_guaranteed` are those that the variant does not give in this scope. `divergences` stand for
    all diverging traces; `undecided` counts traces that could not be judged. `distinguished` says
    which rules the run could have told from others; None if the run does not look for that. `more`
    has keys of the report that only one system has."""

    prepared: PreparedPlan
    total: Summary
    judge: str
    divergences: Sequence[ReportedDivergence]
    guarantees: Mapping[str, str]
    not_guaranteed: Sequence[str]
    undecided: int = 0
    not_applicable: Sequence[str] = ()
    automatic_masks: Sequence[str] = ()
    stale: Sequence[KnownDifference] = field(default=())
    checks: Mapping[str, SideCheck] = field(default_factory=dict)
    distinguished: DistinguishingReport | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def conforms(self) -> bool:
        """Whether each difference, if any, is explained."""
        explained = all(d.explained for d in self.divergences)
        return explained and all(check.holds for check in self.checks.values())

    @property
    def verdict(self) -> str:
        """The answer to the question that `judge` selects.

        A system is not followed beyond its first difference. So the guarantees of a system that
        differs stay undecided, unless one is broken. A client whose policy differs is judged to the
        end of its runs.
        """
        found = {d.breaks for d in self.divergences if d.explained is None}
        differs = bool(found) or not all(check.holds for check in self.checks.values())
        is_broken = any(
            state == VIOLATED and name not in self.not_guaranteed
            for name, state in self.guarantees.items()
        )
        at_fault, is_unknown = {
            "model": (differs, False),
            "guarantees": (is_broken, differs),
            "protocol": (is_broken or not found.isdisjoint(AT_FAULT), False),
        }[self.judge]
        if at_fault:
            return VIOLATED
        return UNDECIDED if is_unknown or self.undecided else HOLDS


# report.json


def coverage_row(found: frozenset[str], total: frozenset[str]) -> dict[str, Any]:
    """How many of some names were met, and which were not."""
    missing = sorted(total - found)
    return {"covered": len(total & found), "total": len(total), "missing": missing}


def coverage_json(prepared: PreparedPlan, total: Summary) -> dict[str, Any]:
    """The points that the traces covered. The total of transitions is null if the scope was not
    explored. A total of 0 says that the system is not judged by this kind of point."""
    return {
        "transitions": {
            "covered": total.transitions_covered,
            "total": prepared.transitions_total,
        },
        "rules": coverage_row(total.rules, prepared.rules_total),
        "branches": coverage_row(total.branches, prepared.branches_total),
        "error_codes": coverage_row(total.error_codes, prepared.error_codes_total),
        "table_entries": coverage_row(total.table_entries, prepared.table_entries_total),
        "statements_of_impl": statements_row(total.statements),
    }


def statements_row(bits: bytes) -> dict[str, Any]:
    """The same for impl's statements; `missing` names each function once, with its lines."""
    covered, count, missing = count_statements(bits)
    return {"covered": covered, "total": count, "missing": missing}


def report_json(result: Result) -> dict[str, Any]:
    """The content of `report.json`."""
    prepared, total = result.prepared, result.total
    plan = prepared.plan
    return {
        "schema_version": SCHEMA_VERSION,
        "system": plan.system,
        "scope": plan.scope,
        "variant": plan.variant,
        "seed": plan.seed,
        "actors": plan.actors,
        "on": plan.on,
        "faults": plan.faults,
        "traces_from": list(plan.traces_from),
        "judge": result.judge,
        "ignored": list(plan.ignored),
        "traces": total.traces,
        "steps": total.steps,
        "coverage": coverage_json(prepared, total),
        "cover": {
            "traces": prepared.cover_traces,
            "steps": prepared.cover_steps,
            "bound": prepared.cover_bound,
        },
        "pct": pct_json(prepared),
        "diverging_traces": total.divergences,
        "masked": [
            {
                "mask": mask,
                "traces": traces,
                "steps": steps,
                "automatic": mask in result.automatic_masks,
            }
            for mask, (traces, steps) in sorted(total.masked.items())
        ],
        "divergences": [divergence.to_json() for divergence in result.divergences],
        "undecided": result.undecided,
        "not_applicable": list(result.not_applicable),
        "checks": {
            name: asdict(check) | {"holds": check.holds} for name, check in result.checks.items()
        },
        "rules": None if result.distinguished is None else result.distinguished.to_json(),
        "stale_explanations": [row.reference for row in result.stale],
        "conforms": result.conforms,
        "guarantees": dict(result.guarantees),
        "not_guaranteed": list(result.not_guaranteed),
        "verdict": result.verdict,
        **result.more,
    }


def pct_json(prepared: PreparedPlan) -> dict[str, Any] | None:
    """The numbers behind PCT's guarantee: a trace shows a bug of this depth that needs no more than
    `steps` with probability at least 1 / (threads * steps ** (depth - 1)). None if no trace comes
    from PCT."""
    if prepared.threads is None:
        return None
    depth, steps = prepared.plan.depth, prepared.threads_steps
    return {"depth": depth, "threads": prepared.threads, "steps": steps}


# run.json


def run_json(waves: Sequence[Wave]) -> dict[str, Any]:
    """The content of `run.json`: how the waves ran. Seconds are those of judging alone."""
    seconds = sum(wave.seconds for wave in waves)
    core_seconds = sum(wave.seconds * (wave.cores or 1) for wave in waves)
    steps = sum(wave.steps for wave in waves)
    executors = [group for wave in waves for group in wave.executors]
    return {
        "schema_version": SCHEMA_VERSION,
        "seconds": round(seconds, 3),
        "steps_per_second": per_second(steps, core_seconds),
        "steps_per_second_in_all": per_second(steps, seconds),
        "backend": sorted({wave.backend for wave in waves}),
        "cores": waves[-1].cores if waves else None,
        "host": {
            "name": platform.node(),
            "machine": platform.machine(),
            "system": platform.system(),
            "python": platform.python_version(),
        },
        "executors": [group for n, group in enumerate(executors) if group not in executors[:n]],
        "waves": [row_of_wave(wave) for wave in waves],
    }


def row_of_wave(wave: Wave) -> dict[str, Any]:
    """The numbers of a wave; its executors are listed once, beside the waves."""
    row = asdict(wave)
    del row["executors"]
    return row


def per_second(steps: int, seconds: float) -> int:
    """A rate; 0 if no time was taken."""
    return round(steps / seconds) if seconds else 0


# junit.xml


def junit(report: Mapping[str, Any]) -> str:
    """The report for continuous integration: a case for conformance, one for each guarantee."""
    suite = ElementTree.Element("testsuite", name=f"kafka-eos {report['scope']}")
    cases = [conformance_case(report), *guarantee_cases(report)]
    suite.extend(cases)
    suite.set("tests", str(len(cases)))
    for word, mark in (("failures", "failure"), ("skipped", "skipped")):
        suite.set(word, str(sum(case.find(mark) is not None for case in cases)))
    ElementTree.indent(suite)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suite, "unicode") + "\n"
    )


def conformance_case(report: Mapping[str, Any]) -> ElementTree.Element:
    """A failure for each unexplained divergence."""
    name = f"{report['system']} behaves as {report['variant']}"
    case = ElementTree.Element("testcase", classname="conformance", name=name)
    for divergence in report["divergences"]:
        if divergence["explained_by"] is None:
            failure = ElementTree.SubElement(case, "failure", message=sentence(divergence))
            failure.text = divergence["trace"]
    for name, check in report.get("checks", {}).items():
        if not check["holds"]:
            told = f"{name}: {check['observed']} seen, the model says {check['expected']}"
            ElementTree.SubElement(case, "failure", message=told)
    return case


def guarantee_cases(report: Mapping[str, Any]) -> list[ElementTree.Element]:
    """A case for each guarantee; skipped if it was not exercised or is not guaranteed."""
    cases = []
    for name, state in report["guarantees"].items():
        case = ElementTree.Element("testcase", classname="guarantees", name=name)
        if state == NOT_EXERCISED or name in report["not_guaranteed"]:
            what = state if state == NOT_EXERCISED else f"{state}; not guaranteed by this variant"
            ElementTree.SubElement(case, "skipped", message=what)
        elif state == VIOLATED:
            ElementTree.SubElement(case, "failure", message=f"{name} is violated")
        cases.append(case)
    return cases


def not_told_apart(report: Mapping[str, Any]) -> str:
    """The note that --traces left out distinguishing traces; "" if it did not."""
    rules = (report.get("rules") or {}).get("not_distinguished", {})
    count = sum(why == LEFT_OUT for why in rules.values())
    traces = "the trace that tells" if count == 1 else f"the {count} traces that tell"
    return f"--traces left out {traces} releases apart: run without it" if count else ""


def named(path: str, values: Mapping[str, Any]) -> str:
    """A value of a difference; error codes become names."""
    value = values.get(path)
    if path.endswith(".error") and isinstance(value, int):
        return f"{value} ({ErrorCode(value).name})"
    return str(value)


def both_sides(divergence: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    """Each place that differs, with the value that the model expects, and the observed one."""
    expected, observed = divergence["expected"], divergence["observed"]
    places = sorted(expected.keys() | observed.keys())
    return tuple((place, named(place, expected), named(place, observed)) for place in places)


def sentence(divergence: Mapping[str, Any]) -> str:
    """`request_arrives, step 7: leader[0].sends[0].error is 0, the model says 45`."""
    expected, observed = divergence["expected"], divergence["observed"]
    parts = [
        f"{path} is {named(path, observed)}, the model says {named(path, expected)}"
        for path in sorted(expected.keys() | observed.keys())
    ]
    more = f", and {len(parts) - 2} more" if len(parts) > 2 else ""
    return f"{divergence['rule']}, step {divergence['steps']}: {'; '.join(parts[:2])}{more}"
