"""What the verbs share: how they end, what they refuse, and how they say it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from conformance.files import pretty, write_whole

EXIT_CODES: Final = {"holds": 0, "violated": 1, "undecided": 3}
"""How a verb ends, by its verdict."""
EXIT_BAD_USE: Final = 2
EXIT_NOT_DECIDED: Final = EXIT_CODES["undecided"]


class BadUse(ValueError):
    """Arguments that ask for what there is not; the message says what there is."""


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb of the command line: its parser's part, and what it does. `execute` gives the exit
    code."""

    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    execute: Callable[[argparse.Namespace], int]


def note(text: str) -> None:
    """A line about how it goes, beside the answer."""
    print(text, file=sys.stderr, flush=True)


def one_of(what: str, value: str, there_are: dict[str, str] | tuple[str, ...]) -> str:
    """`value`, if it is among those that there are. Raises BadUse."""
    if value not in there_are:
        raise BadUse(f"{what} {value!r} is not built; there are: {', '.join(there_are)}")
    return value


def write_json(path: Path | None, value: Any) -> None:
    """The machine's copy of an answer, if one is asked for."""
    if path is not None:
        write_whole(path, pretty(value))
