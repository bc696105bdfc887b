"""Parts shared by the runs of all verbs: verdicts, a directory with a journal, reports, and
progress.

A verb opens a `RunDirectory` with its arguments, enters each finished unit of work into its
`Journal`, and writes its report at the end. The same command in the same directory continues.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

HOLDS: Final = 0
VIOLATED: Final = 1
BAD_USE: Final = 2
NOT_DECIDED: Final = 3

EXIT_CODES: Final = {
    "holds": HOLDS,
    "violated": VIOLATED,
    "vacuous": VIOLATED,
    "undecided": NOT_DECIDED,
}
"""The exit code of each verdict. A vacuous property holds only because what must happen sometimes
never does."""

WORST_FIRST: Final = ("violated", "vacuous", "undecided", "holds")


class BadUse(ValueError):
    """Invalid arguments; the message lists the valid ones."""


def one_of(what: str, value: str, valid: Iterable[str]) -> str:
    """Return `value`, if it is valid. Raises BadUse."""
    if value not in (names := tuple(valid)):
        raise BadUse(f"invalid {what} {value!r}; valid: {', '.join(names)}")
    return value


def nearest(name: str, names: Iterable[str], listed_by: str = "list") -> str:
    """Return advice about an unknown name: the most similar names, and the command that lists
    all."""
    found = difflib.get_close_matches(name, list(dict.fromkeys(names)))
    if found:
        return f"did you mean {' or '.join(found)}? `kafka-eos {listed_by}` shows all"
    return f"choose one of those that `kafka-eos {listed_by}` shows"


def positive(name: str, value: int | None) -> int | None:
    """Return `value`, which may be None. Raises BadUse for a number below 1."""
    if value is not None and value < 1:
        raise BadUse(f"{name} is {value}; write 1 or more")
    return value


def worst(verdicts: Iterable[str]) -> str:
    """Return the worst verdict; `holds` if there is none."""
    return min(verdicts, key=WORST_FIRST.index, default="holds")
