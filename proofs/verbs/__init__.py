"""The verbs that check the model, one module each: `add_arguments(parser)` and `execute(options)`.

Here is what verbs of both rooms share: exit codes, and the error for invalid arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

HOLDS: Final = 0
VIOLATED: Final = 1
BAD_USE: Final = 2
NOT_DECIDED: Final = 3

EXIT_CODES: Final = {"holds": HOLDS, "violated": VIOLATED, "undecided": NOT_DECIDED}
"""By a report's verdict."""


class BadUse(ValueError):
    """Invalid arguments; the message lists the valid ones."""


def one_of(what: str, value: str, valid: Iterable[str]) -> str:
    """`value`, if it is valid. Raises BadUse."""
    if value not in (names := tuple(valid)):
        raise BadUse(f"invalid {what} {value!r}; valid: {', '.join(names)}")
    return value


def note(text: str) -> None:
    """Print a line about the work itself, beside the answer, on standard error."""
    print(text, file=sys.stderr, flush=True)
