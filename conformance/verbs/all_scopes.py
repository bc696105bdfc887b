"""`run --scope all`: every scope that `list` shows, the smallest first.

Each scope is a `run` of its own in a folder of its own, so that the same command continues an
interrupted run. The table has a row for each scope.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final, NamedTuple

from conformance.adapters.brokers.idempotent.deliveries import CannotPlay
from conformance.generate.graph import MAX_STATES
from conformance.judging.plan import BadPlan
from conformance.judging.system import NotApplicable
from conformance.verbs.run_table import figures_of, table, verdict_of
from proofs.explore.expected import EXPECTED
from proofs.run import EXIT_CODES, BadUse
from proofs.run.files import pretty, write_json, write_whole
from proofs.say import note, say

ALL: Final = "all"
SCHEMA_VERSION: Final = 1
TRACES_OF_LARGE: Final = 1_000
"""The number of hunts in a scope with more than MAX_STATES states, which cannot be covered."""
COLUMNS: Final = (
    *("scope", "traces", "steps", "transitions", "divergences", "undecided"),
    *("seconds", "steps_per_second", "verdict"),
)


class ScopeSize(NamedTuple):
    """A scope; `is_large` if it cannot be covered."""

    name: str
    transitions: int
    is_large: bool


def scopes_by_size() -> list[ScopeSize]:
    """All scopes, the smallest first."""
    found = (ScopeSize(n, e.transitions, e.distinct > MAX_STATES) for n, e in EXPECTED.items())
    return sorted(found, key=lambda scope: scope.transitions)


def judge_all_scopes(
    options: argparse.Namespace, judge: Callable[[argparse.Namespace], int]
) -> int:
    """Judge one scope after the other; the worst exit code. Raises BadUse if no scope can be
    judged, and the errors of `judge`."""
    if options.system == "client":
        raise BadUse("a client has no scope; leave --scope out")
    if options.write_baseline or not (options.out is None or isinstance(options.out, Path)):
        raise BadUse("--scope all goes without --write-baseline, and with a folder as --out")
    out = options.out or Path("out") / f"every-scope-{options.system.partition('://')[0]}"
    rows: list[Mapping[str, Any]] = []
    for row in judged_scopes(options, judge, out):
        rows.append(row)
        # After each run, so that an interrupted command keeps its rows.
        report = {"schema_version": SCHEMA_VERSION, "runs": rows, "verdict": verdict_of(rows)}
        write_whole(out / "scopes.json", pretty(report))
        write_json(options.json, report)
    if not rows:
        raise BadUse(f"--system {options.system} is judged in no scope; leave --scope all out")
    for line in table(COLUMNS, rows):
        say(line)
    return EXIT_CODES[verdict_of(rows)]


def judged_scopes(
    options: argparse.Namespace, judge: Callable[[argparse.Namespace], int], out: Path
) -> Iterator[Mapping[str, Any]]:
    """A row for each scope in which the system can be judged."""
    for scope in scopes_by_size():
        note(f"scope {scope.name}")
        given = vars(options) | {"scope": scope.name, "out": out / scope.name, "json": None}
        if scope.is_large:
            traces = {"traces_from": "hunts", "traces": options.traces or TRACES_OF_LARGE}
            given |= traces
        try:
            with redirect_stdout(io.StringIO()):
                judge(argparse.Namespace(**given))
        except (BadUse, BadPlan, NotApplicable, CannotPlay) as error:
            note(f"not judged there: {error}")
            continue
        yield {"scope": scope.name, **figures_of(out / scope.name)}
