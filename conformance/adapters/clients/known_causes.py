"""Known causes of shipped clients, each checked by hand in the client's source."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

TABLE: Final = Path(__file__).with_suffix(".toml")


class KnownCause(NamedTuple):
    """A cause of a client: the behaviour, the place in its source, the version that was `checked`,
    and the public issue, empty if none is known."""

    client: str
    cause: str
    checked: str
    says: str
    source: str
    issue: str

    @property
    def text(self) -> str:
        """The cause as sentences."""
        public = f" Public issue: {self.issue}" if self.issue else " No public issue is known."
        return f"{self.says} Checked in {self.checked}: {self.source}.{public}"


@cache
def known_causes() -> tuple[KnownCause, ...]:
    """All rows."""
    return tuple(KnownCause(**row) for row in tomllib.loads(TABLE.read_text("utf-8"))["cause"])


def known_cause(client: str, cause: str) -> KnownCause | None:
    """The row of a client whose cause begins with this text."""
    rows = (row for row in known_causes() if row.client == client)
    return next((row for row in rows if cause.startswith(row.cause)), None)
