"""What the runs of a client gave, as the report that every run writes.

`traces` are runs, `steps` the requests that were explained. A client's timing is its own, so that
two runs of one seed need not be equal byte for byte.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from conformance.client.guaranteed import configuration_of_guarantees, states
from conformance.client.judge import UNDECIDED, judge_trace
from conformance.client.ledger import ClientJournal, ClientRunOutcome
from conformance.client.trace import parse_trace
from conformance.client.trace_text import format_run
from conformance.explained import EXPLAINED, Explained, explanation, fields_of, stale
from conformance.files import pretty, write_whole
from conformance.guaranteed import HOLDS, VIOLATED, ObservedProperties, not_guaranteed
from conformance.report import SCHEMA_VERSION, covered, per_second
from conformance.verbs.answer import divergences, guarantees
from model.idempotent.configuration import Variant
from model.idempotent.messages import Error
from proofs.lift.source import composition

ROOM: Final = (
    "model.idempotent.client",
    "model.idempotent.responses",
    "model.idempotent.recovery",
)
"""The modules that hold a client's rules."""


def rules_of_client() -> frozenset[str]:
    """The names of the rules that a client has."""
    return frozenset(
        name
        for name, rule in composition("idempotent").actor_rules.items()
        if rule.__module__ in ROOM
    )


def report_json(
    arguments: Mapping[str, Any],
    variant: Variant,
    ledger: ClientJournal,
    baseline: Sequence[Explained],
    out: Path,
) -> dict[str, Any]:
    """The content of `report.json`; the trace of each divergence goes into `out`."""
    outcomes = [ledger.outcomes[number] for number in sorted(ledger.outcomes)]
    findings = [o.finding for o in outcomes if o.finding is not None]
    rows = (*EXPLAINED, *baseline)
    found = grouped(findings, rows, variant, ledger, out)
    seen = ObservedProperties(union(o.broken for o in outcomes), union(o.met for o in outcomes))
    k = configuration_of_guarantees(variant, 1, 1)
    undecided = sum(o.verdict == UNDECIDED for o in outcomes)
    report = {
        "schema_version": SCHEMA_VERSION,
        "system": f"{arguments['system']} {arguments['client']}",
        "scope": "client",
        "variant": variant.name,
        "seed": arguments["seed"],
        "actors": "client",
        "on": "bytes",
        "faults": arguments["faults"],
        "traces_from": ["runs"],
        "judge": arguments["judge"],
        "traces": len(outcomes),
        "steps": sum(o.requests for o in outcomes),
        "coverage": coverage(outcomes),
        "cover": {"traces": 0, "steps": None, "bound": None},
        "diverging_traces": len(findings),
        "divergences": found,
        "unexamined": 0,
        "undecided": undecided,
        "unfinished": sum(o.unfinished for o in outcomes),
        "not_applicable": [],
        "stale_explanations": [r.reference for r in stale(rows, variant.release, findings)],
        "conforms": all(row["explained_by"] for row in found),
        "guarantees": states(seen, k),
        "not_guaranteed": not_guaranteed(k),
    }
    return report | {"verdict": verdict(report)}


def union(names: Iterable[Iterable[str]]) -> frozenset[str]:
    """All names in any."""
    return frozenset(name for some in names for name in some)


def coverage(outcomes: Sequence[ClientRunOutcome]) -> dict[str, Any]:
    """The client's rules that explained something, and the error codes that it was answered."""
    codes = frozenset(error.name for error in Error)
    return {
        "transitions": {"covered": 0, "total": None},
        "rules": covered(union(o.rules for o in outcomes), rules_of_client()),
        "branches": covered(frozenset(), frozenset()),
        "error_codes": covered(union(o.error_codes for o in outcomes), codes),
    }


def grouped(
    findings: Sequence[dict[str, Any]],
    rows: Sequence[Explained],
    variant: Variant,
    ledger: ClientJournal,
    out: Path,
) -> list[dict[str, Any]]:
    """One divergence for all that differ in the same fields of the same request: the first, its
    trace and its story in `out`."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for finding in findings:
        groups.setdefault(pretty([finding["rule"], fields_of(finding)]), []).append(finding)
    found = []
    for number, group in enumerate(groups.values(), start=1):
        first = group[0]
        name = f"divergences/{number:02d}-{first['rule']}.jsonl"
        text = (ledger.folder / first["trace"]).read_text(encoding="utf-8")
        write_whole(out / name, text)
        trace = parse_trace(text, name)
        told = "\n".join(format_run(trace, judge_trace(variant, trace)))
        write_whole((out / name).with_suffix(".txt"), told + "\n")
        known = explanation(rows, variant.release, first)
        shown = ("steps", "one_minimal", "rule", "expected", "observed")
        found.append(
            {key: first[key] for key in shown}
            | {
                "trace": name,
                "explained_by": None if known is None else known.reference,
                "occurrences": len(group),
            }
        )
    return found


def verdict(report: Mapping[str, Any]) -> str:
    """The answer to the question that was asked."""
    differs = not report["conforms"]
    if report["judge"] == "guarantees":
        broken = {name for name, state in report["guarantees"].items() if state == VIOLATED}
        if broken - set(report["not_guaranteed"]):
            return VIOLATED
        return UNDECIDED if differs or report["undecided"] else HOLDS
    if differs:
        return VIOLATED
    return UNDECIDED if report["undecided"] else HOLDS


def run_json(ledger: ClientJournal, seconds: float) -> dict[str, Any]:
    """The content of `run.json`: how long this start took, for all that was to be done."""
    requests = sum(o.requests for o in ledger.outcomes.values())
    return {
        "schema_version": SCHEMA_VERSION,
        "seconds": round(seconds, 3),
        "steps_per_second": per_second(requests, seconds),
        "steps_per_second_in_all": per_second(requests, seconds),
        "backend": ["client"],
        "cores": None,
        "host": {
            "name": platform.node(),
            "machine": platform.machine(),
            "system": platform.system(),
            "python": platform.python_version(),
        },
        "waves": [],
    }


def answer(report: Mapping[str, Any], run: Mapping[str, Any], out: Path) -> str:
    """What `run` says at its end."""
    rules, codes = report["coverage"]["rules"], report["coverage"]["error_codes"]
    lines = [
        f"{report['system']} against {report['variant']}, seed {report['seed']}",
        f"  runs         {report['traces']:,} with {report['steps']:,} requests explained,"
        f" {run['steps_per_second']:,} requests/s",
        f"  coverage     rules {rules['covered']} of {rules['total']}, error codes"
        f" {codes['covered']} of {codes['total']}",
        f"  guarantees   {guarantees(report)}",
        *divergences(report, out),
        f"  undecided    {report['undecided']:,} runs; {report['unfinished']:,} had no end in time",
        f"  verdict      {report['verdict']}",
        f"  report       {out / 'report.json'}",
    ]
    return "\n".join(lines)
