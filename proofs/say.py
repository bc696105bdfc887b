"""Prints the lines of an answer on standard output."""

from __future__ import annotations

import os
import sys


def say(line: str = "") -> None:
    """Print a line at once.

    If a reader has closed the pipe (`| head`), the rest of the text is discarded. The work goes on,
    because its reports and its exit code are still wanted.
    """
    try:
        print(line, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def note(line: str) -> None:
    """Print a line about the work itself, not the answer, on standard error."""
    print(line, file=sys.stderr, flush=True)
