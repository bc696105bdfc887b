"""`releases`: judges all releases and levels that a model has, one broker after the other.

Each is a `run` of its own in a folder of its own, so that the same command continues an interrupted
run. The table has a row for each.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from conformance.adapters.brokers.kafka.releases import find_release
from conformance.judging.plan import Plan, configuration
from conformance.verbs import run
from conformance.verbs.run_table import figures_of, table, verdict_of
from conformance.verbs.testbed_options import KAFKAS
from proofs.run import EXIT_CODES, one_of, positive
from proofs.run.files import pretty, write_json, write_whole
from proofs.say import note, say

SCHEMA_VERSION: Final = 1
SCOPES: Final = "transactions-default"
TRACES: Final = 5_000
OUT: Final = Path("out/releases")
COLUMNS: Final = (
    "release",
    "level",
    "requests",
    "scope",
    "traces",
    "steps",
    "transitions",
    "divergences",
    "undecided",
    "seconds",
    "steps_per_second",
)


class ReleaseRun(NamedTuple):
    """The subject of one run."""

    release: str
    level: int
    requests: str
    scope: str

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.release}-level{self.level}-{self.requests}-{self.scope.replace('/', '-')}"

    def arguments(self, traces: int | None, traces_from: str, out: Path) -> list[str]:
        """The arguments of its `run`."""
        variant = f"{self.release}/level={self.level}/requests={self.requests}"
        return [
            *("--system", "kafka", "--kafka", self.release, "--variant", variant),
            *("--scope", self.scope, "--faults", "connections", "--traces", str(traces)),
            *("--traces-from", traces_from, "--out", str(out)),
        ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `releases`."""
    parser.add_argument("--scope", default=SCOPES, metavar="SCOPES", help=f"default: {SCOPES}")
    parser.add_argument("--kafka", metavar="RELEASES", help="default: all that the model has")
    parser.add_argument(
        "--traces", type=int, default=TRACES, metavar="N", help=f"of each run (default: {TRACES})"
    )
    sources = ",".join(Plan().traces_from)
    parser.add_argument("--traces-from", default=sources, help=f"default: {sources}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the table")
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help=f"default: {OUT}")


def execute(options: argparse.Namespace) -> int:
    """Judge one after the other; returns the worst exit code. Raises what `run` raises."""
    traces = positive("--traces", options.traces)
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    rows: list[dict[str, Any]] = []
    for judged in plan_runs(options.scope.split(","), options.kafka):
        note(f"releases: {judged.name}")
        out = options.out / judged.name
        arguments = judged.arguments(traces, options.traces_from, out)
        run.execute(parser.parse_args(arguments))
        rows.append({**judged._asdict(), **figures_of(out)})
        # After each run, so that an interrupted command keeps its rows.
        report = {"schema_version": SCHEMA_VERSION, "runs": rows, "verdict": verdict_of(rows)}
        write_whole(options.out / "releases.json", pretty(report))
        write_json(options.json, report)
    for line in table(COLUMNS, rows):
        say(line)
    return EXIT_CODES[verdict_of(rows)]


def plan_runs(scopes: Sequence[str], kafka: str | None) -> list[ReleaseRun]:
    """Each level of each release, with each kind of requests for which the level has transactions.

    Checks all arguments before the first run. Raises BadUse, BadPlan.
    """
    for scope in scopes:
        configuration(Plan(scope=scope))
    asked = KAFKAS if kafka is None else kafka.split(",")
    kafkas = [one_of("--kafka", release, KAFKAS) for release in asked]
    return [
        ReleaseRun(release, level, requests, scope)
        for scope in scopes
        for release in kafkas
        for level in reversed(find_release(release).stable_levels)
        for requests in (("v2", "v1") if level else ("v1",))
    ]
