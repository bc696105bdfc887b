"""The verbs that judge systems, one module each: `add_arguments(parser)` and `execute(options)`."""

from __future__ import annotations

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
    "note",
    "one_of",
    "write_json",
]


def write_json(path: Path | None, value: Any) -> None:
    """The machine's copy of an answer, if one is asked for."""
    if path is not None:
        write_whole(path, pretty(value))
