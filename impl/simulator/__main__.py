"""`python -m impl.simulator consume-transform-produce`: check exactly-once in simulated worlds.

Exit codes: 0 each result was written exactly once; 1 a result was lost, duplicated or out of order;
2 invalid arguments; 3 a world did not finish in time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from impl.simulator.campaign import Campaign, CampaignProgress, count_steps, faults_for
from impl.simulator.consume_transform_produce import Program
from impl.simulator.job import Order
from impl.simulator.report import build_report, describe_run, print_report, write_json

EXIT: Final = {"holds": 0, "violated": 1, "undecided": 3}
KINDS: Final = ("none", "crashes", "zombies", "connections", "nodes")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m impl.simulator", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser(
        "consume-transform-produce",
        help="consume, transform, produce: is each result written exactly once?",
    )
    verb.add_argument("--runs", type=_positive, default=1_000, help="number of worlds (1000)")
    verb.add_argument("--seed", type=int, default=0, help="seed of the first world (0)")
    verb.add_argument(
        "--without-transaction",
        choices=[Order.PRODUCE_THEN_COMMIT.value, Order.COMMIT_THEN_PRODUCE.value],
        help="write results and commit offsets separately, in this order",
    )
    verb.add_argument(
        "--requests",
        choices=["auto", "v1", "v2"],
        default="auto",
        help="protocol of transactions (auto)",
    )
    verb.add_argument(
        "--transactional-id",
        choices=["shared", "own"],
        default="shared",
        help="one transactional id for all clients, or one each (shared)",
    )
    verb.add_argument(
        "--faults",
        type=_kinds,
        default=("crashes",),
        metavar="KINDS",
        help=f"comma-separated kinds of {','.join(KINDS)} (crashes); messages are always delayed",
    )
    verb.add_argument(
        "--json", type=Path, metavar="FILE", help="write the report and the run's times"
    )
    verb.add_argument(
        "--out", type=Path, metavar="DIR", help="write report.json, run.json, story.txt"
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, is {number}")
    return number


def _kinds(text: str) -> tuple[str, ...]:
    kinds = tuple(text.split(","))
    wrong = [kind for kind in kinds if kind not in KINDS]
    if wrong or len(set(kinds)) < len(kinds) or ("none" in kinds and len(kinds) > 1):
        raise argparse.ArgumentTypeError(
            f"must be kinds of {','.join(KINDS)}, or none by itself, is {text!r}"
        )
    return kinds


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    options = _parser().parse_args(arguments)
    program = Program(
        Order(options.without_transaction or Order.TRANSACTION.value),
        options.requests,
        options.transactional_id == "own",
    )
    began_s = time.monotonic()
    campaign = Campaign(
        program=program,
        faults=faults_for(options.faults),
        crashes="crashes" in options.faults or "zombies" in options.faults,
        seed=options.seed,
        runs=options.runs,
        steps=count_steps(options.seed, program),
    )
    results = campaign.run(CampaignProgress(sys.stderr, options.runs))
    report = build_report(campaign, options.faults, results)
    run = describe_run(options.runs, time.monotonic() - began_s)
    print_report(report, run, sys.stdout)
    try:
        _write(options.json, options.out, report, run)
    except OSError as error:
        print(error, file=sys.stderr)
        return 2
    return EXIT[str(report["verdict"])]


def _write(
    json_file: Path | None, out: Path | None, report: dict[str, object], run: dict[str, object]
) -> None:
    if json_file is not None:
        write_json(json_file, report | {"run": run})
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "report.json", report)
        write_json(out / "run.json", run)
        counterexample = report["counterexample"]
        if isinstance(counterexample, dict):
            (out / "story.txt").write_text("\n".join(counterexample["story"]) + "\n")


if __name__ == "__main__":
    sys.exit(main())
