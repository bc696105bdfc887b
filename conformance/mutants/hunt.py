"""One planted bug, hunted in a process of its own: it imports the patched impl before any other."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import impl
from conformance.distinguish.in_process import InProcessPlayer
from conformance.distinguish.play import play_distinguishing_traces
from conformance.findings import judge_range, shrink_finding
from conformance.plan import PreparedPlan
from conformance.signatures import Finding

TRACES_AT_ONCE: Final = 200
SHRUNK: Final = 3
"""Diverging traces that are shrunk: the shortest result is kept."""


class NotThePatchedOne(Exception):
    """The process has imported another impl than the one that was patched."""


def find_first(prepared: PreparedPlan) -> list[Finding]:
    """Those of the first traces that diverge; none if none does."""
    for first in range(0, prepared.count, TRACES_AT_ONCE):
        last = min(first + TRACES_AT_ONCE, prepared.count)
        found = judge_range(prepared, first, last).findings
        if found:
            return found[:SHRUNK]
    return []


def hunt(prepared: PreparedPlan) -> Finding | None:
    """The shortest of the first findings, shrunk; else what a trace shows that tells a rule of the
    variant from another release's. None if the bug does not show."""
    shrunk = [shrink_finding(prepared, finding) for finding in find_first(prepared)]
    if not shrunk:
        apart = play_distinguishing_traces(prepared, InProcessPlayer(prepared.plan))
        return next(iter(apart.findings), None)
    return min(shrunk, key=lambda finding: finding["steps"])


def main(arguments: list[str]) -> None:
    """`PREPARED ROOT`: print the finding as JSON, `null` without one.

    Raises NotThePatchedOne unless impl comes from ROOT.
    """
    directory, root = map(Path, arguments)
    if not Path(impl.__file__ or "").is_relative_to(root):
        raise NotThePatchedOne(f"{impl.__file__} is not below {root}")
    finding: dict[str, Any] | None = hunt(PreparedPlan.load(directory))
    print(json.dumps(finding))


if __name__ == "__main__":
    main(sys.argv[1:])
