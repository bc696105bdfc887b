"""`python -m tests.foreign [SUITE ...] [--work DIR] [--keep]`: run suites of other projects.

Exit code 0 if each test ended as expected, 1 if one did not, 3 if a suite could not be run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from tests.foreign.outcomes import differences, read_known
from tests.foreign.running import run_suite
from tests.foreign.suites import SuiteUnavailable, read_suites


def main() -> int:
    """Run the suites that are named, or all."""
    suites = read_suites()
    parser = argparse.ArgumentParser(prog="python -m tests.foreign", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(suites))
    parser.add_argument("--work", type=Path, default=Path("out/foreign"), help="where suites stand")
    options = parser.parse_args()
    if unknown := set(options.suites) - suites.keys():
        parser.error(f"no suite {', '.join(sorted(unknown))}; there are {', '.join(suites)}")
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    worst = 0
    for name in options.suites or suites:
        print(f"{name}: {suites[name].about}", flush=True)
        began = time.monotonic()
        try:
            found = run_suite(suites[name], work)
        except SuiteUnavailable as error:
            print(f"  not run: {error}")
            worst = max(worst, 3)
            continue
        known = read_known(name)
        counts = Counter(found.values())
        ours = sum(row.ours for row in known.values())
        print(
            f"  {len(found)} tests in {time.monotonic() - began:.0f} s: {counts['passed']} passed,"
            f" {counts['skipped']} skipped, {counts['failed']} failed; {ours} known as ours"
        )
        for difference in differences(found, known, may_skip=bool(suites[name].skips)):
            print(f"  {difference.test}: {difference.found}, expected {difference.expected}")
            worst = max(worst, 1)
    return worst


if __name__ == "__main__":
    sys.exit(main())
