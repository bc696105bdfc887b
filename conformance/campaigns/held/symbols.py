"""The values of a case's symbols: names that no other case has, and values of earlier answers."""

from __future__ import annotations

import re
from typing import Any, Final

from impl.protocol.record_batch import Record, client_batch, encode_batch

CLIENT_ID: Final = "held"
"""The client id of those who send cases; ids of members begin with it."""
NAME: Final = re.compile(r"(\w+?)-held-(\d+)")
"""A name: its symbol, and the number of its case."""
_TIMES_MS: Final = (1000, 2000, 3000)


class Symbols:
    """The names and values of one case, or of several cases that change nothing.

    `learnt` has values from answers, by symbol; `done` has the steps that are taken.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.learnt: dict[str, Any] = {}
        self.done: set[str] = set()

    def fill(self, value: Any) -> Any:
        """`value` with symbols replaced by their values."""
        if isinstance(value, str) and value.startswith("$"):
            return self._named(value[1:])
        if isinstance(value, dict):
            return {key: self.fill(item) for key, item in value.items()}
        return [self.fill(item) for item in value] if isinstance(value, list) else value

    def _named(self, symbol: str) -> Any:
        if symbol in self.learnt:
            return self.learnt[symbol]
        match symbol:
            case "records":
                return records()
            case "several_batches":
                return records() * 2
            case "idempotent_records":
                return records(producer_id=555_555, is_transactional=False)
            case "transactional_records":
                return records(producer_id=self.learnt.get("producer_id", 555_555))
        return f"{symbol}-held-{self.number:05}"


def records(producer_id: int = -1, *, is_transactional: bool = True) -> bytes:
    """A batch of three old records."""
    rows = [Record(delta, at, b"k", b"v") for delta, at in enumerate(_TIMES_MS)]
    if producer_id < 0:
        return encode_batch(client_batch(rows))
    return encode_batch(
        client_batch(
            rows,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=is_transactional,
        )
    )
