"""`consume-transform-produce`: checks that the output is exactly once, whenever a client
crashes."""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from conformance.adapters.brokers.testbed import KafkaTestbed
from conformance.adapters.brokers.wire import Requests
from conformance.campaigns.exactly_once.consume_transform_produce import FAULT_OF, Measured, measure
from conformance.judging.reports.pipeline import PreparationDisplay
from conformance.verbs.testbed_options import add_testbed, directory_of, open_testbed
from impl.simulator.job import Order
from proofs.run import EXIT_CODES, BadUse, one_of, positive
from proofs.say import say

SCHEMA_VERSION: Final = 1
VERB_NAME: Final = "consume-transform-produce"
REQUESTS: Final[dict[str, Requests]] = {"v1": "v1", "v2": "v2"}
RUNS: Final = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `consume-transform-produce`."""
    add_testbed(parser)
    parser.add_argument("--requests", help="v1 or v2 (default: v2 at level 2, else v1)")
    parser.add_argument("--runs", type=int, default=RUNS, metavar="N", help=f"default: {RUNS}")


def execute(options: argparse.Namespace) -> int:
    """Run; 0 if each result is stored exactly once, 1 if one is lost, duplicated or out of order, 3
    if a run did not settle, a step was left out, or the check did not fail without transactions.

    Raises BadUse for an unknown release, level or kind of requests.
    """
    runs = dict.fromkeys(FAULT_OF) | {Order.TRANSACTION: positive("--runs", options.runs)}
    started = time.monotonic()
    question = {"requests": options.requests, "runs": options.runs}
    with directory_of(options, **question) as directory, open_testbed(options) as testbed:
        requests = requests_of(options.requests, testbed)
        with PreparationDisplay() as progress:
            measured = {
                order: asyncio.run(measure(testbed, requests, order, runs[order], progress))
                for order in Order
            }
        report = report_of(testbed, requests, measured)
        run = run_of(measured, time.monotonic() - started)
        directory.write(report, run, options.json)
    for line in table(report, run):
        say(line)
    return EXIT_CODES[report["verdict"]]


def requests_of(asked: str | None, testbed: KafkaTestbed) -> Requests:
    """The requests of the clients. Raises BadUse if these cannot begin transactions."""
    requests = REQUESTS[one_of("--requests", asked or f"v{max(testbed.level, 1)}", tuple(REQUESTS))]
    if requests == "v2" and testbed.level < 2:
        raise BadUse(f"clients speak v2 at level 2, not at {testbed.name}")
    return requests


# The report


def report_of(
    testbed: KafkaTestbed, requests: str, measured: Mapping[Order, Measured]
) -> dict[str, Any]:
    """The report; numbers that depend on timing are in `run_of`."""
    rows = {order.value: row_of(one) for order, one in measured.items()}
    return {
        "schema_version": SCHEMA_VERSION,
        "verb": VERB_NAME,
        "release": testbed.release.name,
        "level": testbed.level,
        "requests": requests,
        "orders": rows,
        "verdict": verdict_of(rows),
    }


def row_of(measured: Measured) -> dict[str, Any]:
    """One order: the steps at which clients crashed, and the records that a reader saw."""
    compared = [outcome.compared for outcome in measured.outcomes]
    crashed = measured.crash_steps
    wrong = [o for o in measured.outcomes if o.is_at_rest and not o.is_exactly_once]
    return {
        "runs": sum(outcome.crashes.attempts > 0 for outcome in measured.outcomes),
        "steps": [str(step) for step in measured.steps],
        "crash_steps": len(crashed),
        "no_crash_at": [str(step) for step in measured.steps if step not in crashed],
        "lost": sum(len(row.lost) for row in compared),
        "duplicated": sum(len(row.duplicated) for row in compared),
        "out_of_order": sum(row.out_of_order for row in compared),
        "wrong_after": sorted({str(outcome.crashes.step) for outcome in wrong}),
        "restless_runs": sum(not outcome.is_at_rest for outcome in measured.outcomes),
    }


def verdict_of(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """`holds` only if the check fails without transactions, and every step was tried."""
    row = rows[Order.TRANSACTION.value]
    if row["wrong_after"]:
        return "violated"
    has_left_out = row["runs"] >= len(row["steps"]) and bool(row["no_crash_at"])
    is_blind = any(not rows[order.value][fault] for order, fault in FAULT_OF.items())
    is_restless = any(each["restless_runs"] for each in rows.values())
    return "undecided" if has_left_out or is_blind or is_restless else "holds"


def run_of(measured: Mapping[Order, Measured], seconds: float) -> dict[str, Any]:
    """The duration of this run, and the ends of its clients."""
    return {
        "seconds": round(seconds, 3),
        "load": os.getloadavg()[0],
        "orders": {order.value: clients_of(one) for order, one in measured.items()},
    }


def clients_of(measured: Measured) -> dict[str, Any]:
    """The number of clients, and how they ended."""
    attempts = [attempt for outcome in measured.outcomes for attempt in outcome.attempts]
    failures = Counter(attempt.failure.partition(":")[0] for attempt in attempts if attempt.failure)
    return {
        "clients": len(attempts),
        "crashed": sum(attempt.is_crashed for attempt in attempts),
        "failures": dict(sorted(failures.items())),
        "aborted_records": sum(outcome.aborted for outcome in measured.outcomes),
    }


def table(report: Mapping[str, Any], run: Mapping[str, Any]) -> list[str]:
    """The answer for people."""
    lines = [f"Kafka {report['release']}, level {report['level']}, {report['requests']} requests"]
    for order, row in report["orders"].items():
        clients = run["orders"][order]
        lines += [
            f"{order}: {row['runs']} runs, crashes at {row['crash_steps']} of"
            f" {len(row['steps'])} steps",
            f"  lost {row['lost']}, duplicated {row['duplicated']},"
            f" out of order {row['out_of_order']}; {clients['crashed']} of {clients['clients']}"
            f" clients crashed, {clients['aborted_records']} records were aborted",
        ]
        lines += [f"  wrong after: {step}" for step in row["wrong_after"][:5]]
        lines += [f"  {name}: {count} clients" for name, count in clients["failures"].items()]
    return [*lines, f"verdict: {report['verdict']} ({run['seconds']} s)"]
