"""The verbs that judge systems, one module each: `add_arguments(parser)` and `execute(options)`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.files import pretty, write_whole
from proofs.verbs import BAD_USE as EXIT_BAD_USE
from proofs.verbs import EXIT_CODES, BadUse, note, one_of
from proofs.verbs import NOT_DECIDED as EXIT_NOT_DECIDED

__all__ = [
    "EXIT_BAD_USE",
    "EXIT_CODES",
    "EXIT_NOT_DECIDED",
    "BadUse",
    "Verb",
    "note",
    "one_of",
    "write_json",
]


@dataclass(frozen=True, slots=True)
class Verb:
    """An experiment's verb, until the command line's table alone names it."""

    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    execute: Callable[[argparse.Namespace], int]


def write_json(path: Path | None, value: Any) -> None:
    """The machine's copy of an answer, if one is asked for."""
    if path is not None:
        write_whole(path, pretty(value))
