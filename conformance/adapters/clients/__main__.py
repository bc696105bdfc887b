"""`python -m conformance.adapters.clients FILE`: judges one recorded run again and prints it.

Exit codes as everywhere: 0 explained, 1 not, 2 bad use or bad input, 3 not decided.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from conformance.adapters.clients.judgement import DIVERGES, EXPLAINED, UNDECIDED
from conformance.adapters.clients.recorded_run import judge_file
from conformance.adapters.clients.trace import BadClientTrace
from model.idempotent.variants import UnknownVariant
from proofs.run import BAD_USE
from proofs.say import say

CODES: Final = {EXPLAINED: 0, DIVERGES: 1, UNDECIDED: 3}


def main(argv: Sequence[str] | None = None) -> int:
    """Judge a file; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m conformance.adapters.clients", description=__doc__
    )
    parser.add_argument("trace", type=Path, help="a run, as run --system client writes it")
    parser.add_argument(
        "--variant", help="default: that of its run, the release of a Java client, the newest"
    )
    options = parser.parse_args(argv)
    try:
        judged = judge_file(options.trace, options.variant)
    except (BadClientTrace, UnknownVariant, OSError) as error:
        print(f"conformance.adapters.clients: {error}", file=sys.stderr)
        return BAD_USE
    for line in judged.lines:
        say(line)
    return CODES[judged.outcome.verdict]


if __name__ == "__main__":
    sys.exit(main())
