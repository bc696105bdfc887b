"""The answer of `run`, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.judging.reports.report import not_told_apart, sentence

MOST_SHOWN = 5
"""The number of divergences that the terminal shows; the report has all."""


def answer(report: Mapping[str, Any], run: Mapping[str, Any], out: str, there: str) -> str:
    """Print coverage, cover, guarantees, divergences, verdict, and the place of the report. `there`
    has the options with which `replay` plays a trace at the system."""
    lines = [
        f"{report['system']} against {report['variant']}, scope {report['scope']}, seed"
        f" {report['seed']}",
        f"  traces       {report['traces']:,} with {report['steps']:,} steps{speed(run)}",
        f"  coverage     {coverage(report['coverage'])}",
        *never_met(report["coverage"], out),
        *cover(report),
        *pct(report["pct"]),
        f"  guarantees   {guarantees(report)}",
        *masked(report),
        *divergences(report, out, there),
        *undecided(report),
        *checks(report),
        *rules(report),
        *traces_left_out(report),
        f"  verdict      {report['verdict']}",
        f"  report       {out}/report.json",
    ]
    return "\n".join(lines)


def checks(report: Mapping[str, Any]) -> list[str]:
    """One line for each side check."""
    return [
        f"  {name.replace('_', ' ')}  {check['compared']} compared, "
        + (
            "none differs"
            if check["holds"]
            else f"{check['observed']} seen, the model says {check['expected']}"
        )
        for name, check in report.get("checks", {}).items()
    ]


def rules(report: Mapping[str, Any]) -> list[str]:
    """The rules that the run could not have told from those of other releases, grouped by
    reason."""
    row = report.get("rules")
    if row is None:
        return []
    lines = [f"  rules        told from those of other releases: {len(row['distinguished'])}"]
    by_reason: dict[str, list[str]] = {}
    for name, why in row["not_distinguished"].items():
        by_reason.setdefault(why, []).append(name)
    if by_reason:
        release = report["variant"].partition("/")[0]
        lines.append(f"    this run could not have told {release} from")
    lines += [f"      {', '.join(names)}: {why}" for why, names in by_reason.items()]
    return lines


def traces_left_out(report: Mapping[str, Any]) -> list[str]:
    """Say that a run with --traces plays no traces that tell releases apart."""
    text = not_told_apart(report)
    return [f"  left out     {text}"] if text else []


def speed(run: Mapping[str, Any]) -> str:
    """The number of steps per second."""
    if not run["steps_per_second_in_all"]:
        return ""
    cores = f"{run['steps_per_second']:,} on each of {run['cores']} cores, "
    each = cores if run["cores"] else ""
    return f", {run['steps_per_second_in_all']:,} steps/s ({each}{'+'.join(run['backend'])})"


def coverage(covered: Mapping[str, Any]) -> str:
    """`transitions 6,955 of 6,955, rules 8 of 8, ...`; kinds without a total are left out."""
    return ", ".join(
        f"{name.replace('_', ' ')} {row['covered']:,} of {row['total']:,}"
        for name, row in covered.items()
        if row["total"]
    )


def never_met(covered: Mapping[str, Any], out: str) -> list[str]:
    """How many points no trace met, by kind, and the page that names them; empty if all were
    met."""
    counts = [
        f"{name.replace('_', ' ')} {row['total'] - row['covered']:,}"
        for name, row in covered.items()
        if row.get("missing")
    ]
    return [f"  never met    {', '.join(counts)}: named in {out}/report.md"] if counts else []


def cover(report: Mapping[str, Any]) -> list[str]:
    """The steps of the cover beside the least that any cover needs; empty without a cover."""
    row = report["cover"]
    if row["steps"] is None:
        return []
    bound = "not computed" if row["bound"] is None else f"{row['bound']:,}"
    return [f"  cover        {row['steps']:,} steps; the least that any cover needs is {bound}"]


def undecided(report: Mapping[str, Any]) -> list[str]:
    """How many traces could not be judged, and why; and the runs in which a client sent nothing."""
    if not report["undecided"]:
        idle = report.get("idle")
        return [f"  idle         {idle:,} runs: the client sent nothing"] if idle else []
    because = report.get("undecided_because", {}).items()
    reasons = [f"    {count:,} runs: {why}" for why, count in because]
    return [f"  undecided    {report['undecided']:,} traces", *reasons]


def pct(row: Mapping[str, int] | None) -> list[str]:
    """The probability with which a trace of PCT shows a bug."""
    if row is None:
        return []
    depth, threads, steps = row["depth"], row["threads"], row["steps"]
    return [
        f"  pct          {threads} threads: a trace shows a bug of depth {depth} within {steps}"
        f" steps once in {threads * steps ** (depth - 1):,} or oftener"
    ]


def guarantees(report: Mapping[str, Any]) -> str:
    """The names of guarantees by their status."""
    by_state: dict[str, list[str]] = {}
    for name, state in report["guarantees"].items():
        given = "" if name not in report["not_guaranteed"] else ", not guaranteed here"
        by_state.setdefault(state.replace("_", " ") + given, []).append(name)
    return "; ".join(f"{state}: {', '.join(names)}" for state, names in sorted(by_state.items()))


def masked(report: Mapping[str, Any]) -> list[str]:
    """How many steps were judged behind each mask, and which masks hide nothing."""
    used = {row["mask"]: row for row in report["masked"]}
    lines = [
        f"    {row['mask']}: {row['traces']:,} traces go on behind it, {row['steps']:,} steps"
        f"{', put on by the run itself' if row['automatic'] else ''}"
        for row in used.values()
    ]
    warnings = [
        f"  warning      the mask {mask} hides nothing: no trace differs there"
        for mask in report["ignored"]
        if mask not in used
    ]
    return [*(["  masked", *lines] if lines else []), *warnings]


def divergences(report: Mapping[str, Any], out: str, there: str) -> list[str]:
    """The first divergences, each with its script and the command that plays it again, and the
    number of further ones."""
    found = report["divergences"]
    if not found:
        return ["  divergences  none"]
    causes = "1 cause" if len(found) == 1 else f"{len(found)} causes"
    lines = [f"  divergences  {report['diverging_traces']:,} traces end in one, {causes}"]
    for number, row in enumerate(found[:MOST_SHOWN], start=1):
        known = f" (explained: {row['explained_by']})" if row["explained_by"] else ""
        about = f"{row['cause']}; " if row["cause"] else ""
        lines.append(f"    {number}. {about}{row['occurrences']:,} traces, breaks {row['breaks']}")
        lines.append(f"       {sentence(row)}{known}")
        lines.append(f"       kafka-eos replay {out}/{row['trace']}{there}")
        if row["script"]:
            lines.append(f"       python3 {out}/{row['script']} HOST:PORT")
    if len(found) > MOST_SHOWN:
        lines.append(f"    and {len(found) - MOST_SHOWN} more in the report")
    return lines
