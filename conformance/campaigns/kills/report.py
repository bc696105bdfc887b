"""The actions and findings of a run, as JSON and as lines."""

from __future__ import annotations

from statistics import median
from typing import Any, Final

from conformance.campaigns.kills.killing import KillPlan, KillResult
from proofs.run import worst

SCHEMA_VERSION: Final = 1
MOST_SHOWN: Final = 20


def report_of(result: KillResult, plan: KillPlan, stopped: str | None) -> dict[str, Any]:
    """The report. `stopped` says why the run ended early, if it did."""
    told = result.told
    undecided = result.standstills or result.killed or stopped
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": worst(
            ["violated"] * bool(result.wrong) + ["undecided"] * bool(undecided) + ["holds"]
        ),
        "stopped": stopped,
        "moments": result.moments,
        "moments_asked": plan.moments,
        "seed": plan.seed,
        "clients": list(plan.libraries),
        "seconds": round(result.seconds, 1),
        "start_seconds": _spread(result.start_seconds),
        "checks": result.checks,
        "acknowledged": len(told.acks),
        "transactions": {
            "begun": len(told.begun),
            "committed": len(told.committed),
            "aborted": len(told.aborted),
            "unknown": len(told.committing - told.committed - told.aborted),
        },
        "delivered": sum(count for spans in told.reads.values() for _, _, count, _ in spans),
        "offset_commits": len(told.commits_done),
        "producer_ids": len(told.producer_ids),
        "events": dict(sorted(told.events.items())),
        "errors": dict(told.errors.most_common()),
        "standing_still": [
            {"client": one.client, "seconds": round(one.seconds), "file": one.file}
            for one in result.standstills
        ],
        "ended": result.ended,
        "killed": result.killed,
        "wrong": result.wrong,
    }


def _spread(seconds: list[float]) -> dict[str, float]:
    """The spread of the broker's start times."""
    if not seconds:
        return {}
    return {"median": round(median(seconds), 3), "most": round(max(seconds), 3)}


def lines_of(report: dict[str, Any]) -> list[str]:
    """The lines for a terminal."""
    done, events = report["transactions"], report["events"]
    starts = report["start_seconds"]
    lines = [
        f"{report['moments']} kills in {report['seconds']:.0f} s, seed {report['seed']},"
        f" by {', '.join(report['clients'])}",
        f"  acknowledged  {report['acknowledged']:,} records",
        f"  transactions  {done['committed']:,} committed, {done['aborted']:,} aborted,"
        f" {done['unknown']:,} unknown",
        f"  delivered     {report['delivered']:,} records to groups,"
        f" {report['offset_commits']:,} commits of offsets,"
        f" {events.get('assigned', 0):,} changed assignments",
        f"  producer ids  {report['producer_ids']:,} between the kills",
        f"  clients       {events.get('replaced producer', 0)} producers and"
        f" {events.get('replaced consumer', 0)} consumers replaced after errors or leaving,"
        f" {sum(report['errors'].values()):,} errors raised",
    ]
    if starts:
        lines.append(
            f"  starts        {starts['median']} s in the median, {starts['most']} s at most"
        )
    lines += [f"  {client}: {n} times" for client, n in list(report["errors"].items())[:MOST_SHOWN]]
    lines += [
        f"  stood still   {one['client']} for {one['seconds']} s: {one['file']}"
        for one in report["standing_still"]
    ]
    lines += [f"  did not end   {name}" for name in report["killed"]]
    lines += [f"  ended         {text}" for text in report["ended"]]
    lines += [f"  WRONG         {text}" for text in report["wrong"][:MOST_SHOWN]]
    if report["stopped"]:
        lines.append(f"  stopped       {report['stopped']}")
    return [*lines, f"  verdict       {report['verdict']}"]
