"""Lines of an answer, on standard output."""

from __future__ import annotations

import os
import sys


def say(line: str = "") -> None:
    """Print a line at once.

    A reader may have closed the pipe (`| head`): the work behind the answer goes on, its reports
    and its exit code are still wanted; only the rest of the text has nowhere to go.
    """
    try:
        print(line, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def note(line: str) -> None:
    """Print a line about the work itself, beside the answer, on standard error."""
    print(line, file=sys.stderr, flush=True)
