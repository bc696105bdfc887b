"""Removes from an answer everything that varies from run to run.

Four rules:

1. Names and ids that a case was given become its symbols again, also in error messages.
2. Other ids, times, sizes, ports and addresses become a word for their kind.
3. Rows about names of other cases are left out; the remaining rows are sorted.
4. Bytes become hexadecimal text, so that an answer is JSON.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from struct import Struct
from typing import Any, Final

from conformance.campaigns.held.symbols import NAME, Symbols
from impl.protocol.message_form import UNKNOWN_TAGS
from impl.protocol.primitives import ZERO_UUID
from impl.protocol.schemas import ApiKey

Json = Any
"""A value that `json` reads and writes."""

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OTHER: Final = "$other"
_EARLIEST_MS, _LATEST_MS = 1_500_000_000_000, 4_000_000_000_000
"""Numbers between these are times of the run; records of cases are much older."""
_WORDS: Final = {
    "cluster_id": "$cluster_id",
    "log_dir": "$directory",
    "total_bytes": "$bytes",
    "usable_bytes": "$bytes",
    "finalized_features_epoch": "$epoch",
    "replica_directory_id": "$id",
}
_WORDS_OF_API: Final = {
    ApiKey.DESCRIBE_QUORUM: dict.fromkeys(
        (
            "leader_epoch",
            "high_watermark",
            "log_end_offset",
            "last_fetch_timestamp",
            "last_caught_up_timestamp",
        ),
        "$number",
    ),
    ApiKey.DESCRIBE_LOG_DIRS: {"partition_size": "$bytes"},
}
_BATCH_HEAD: Final = Struct(">8xi5xI22xq")
"""Length, checksum and producer id of a batch. `DefaultRecordBatch`."""
_NOBODY: Final = -2
_LENGTH_COUNTS_FROM, _CHECKSUM_AT, _ID_AT = 12, 17, 43
_ABSENT: Final = (-1, "", None, ZERO_UUID)
_WHOLE: Final = ("entity",)
"""Arrays whose rows have one subject together."""


class Normalizer:
    """Normalizes the answers to one case. `port` is the broker's."""

    def __init__(self, api_key: ApiKey, symbols: Symbols, port: int) -> None:
        self._words = {**_WORDS, **_WORDS_OF_API.get(api_key, {})}
        self._symbols = symbols
        self._port = port
        self._texts = dict(self._learnt())
        self._producer_id = re.compile(rf"\b{symbols.learnt.get('producer_id', 'none')}\b")

    def _learnt(self) -> Iterator[tuple[str, str]]:
        """The values that a case has learnt, as they occur in error messages."""
        for symbol, value in self._symbols.learnt.items():
            if isinstance(value, bytes):
                yield urlsafe_b64encode(value).decode().rstrip("="), f"${symbol}"
            elif isinstance(value, str):
                yield value, f"${symbol}"

    def body(self, value: Any, field: str = "") -> Json:
        """A message, struct, array or value of a field."""
        if isinstance(value, dict):
            return {k: self.body(v, k) for k, v in value.items() if k != UNKNOWN_TAGS}
        if isinstance(value, list):
            return self._rows(value, field)
        if field in self._words and value not in _ABSENT:
            return self._words[field]
        return self._value(value, field)

    def _rows(self, rows: list[Any], field: str) -> Json:
        found = [self.body(row, field) for row in rows]
        mine = [row for row in found if field in _WHOLE or _OTHER not in repr(row)]
        return sorted(mine, key=repr) if any(isinstance(row, dict) for row in mine) else mine

    def _value(self, value: Any, field: str) -> Json:
        if isinstance(value, bytes):
            return self._bytes(value, field)
        if isinstance(value, str):
            return self._text(value, field)
        if isinstance(value, int) and not isinstance(value, bool):
            return self._number(value, field)
        return value

    def _bytes(self, value: bytes, field: str) -> str:
        if field == "records":
            return (
                "0x" + _with_id_zero(value, self._symbols.learnt.get("producer_id", _NOBODY)).hex()
            )
        if not field.endswith("_id") or value in (ZERO_UUID, b"\7" * 16):
            return "0x" + value.hex()
        known = {id_: symbol for symbol, id_ in self._symbols.learnt.items()}
        return f"${known.get(value, 'id')}"

    def _text(self, value: str, field: str) -> str:
        for text, symbol in self._texts.items():
            value = value.replace(text, symbol)
        value = self._producer_id.sub("$producer_id", NAME.sub(self._name, value))
        value = _UUID.sub("$uuid", value.replace(str(self._port), "$port"))
        return "$made" if field == "member_id" and len(value) == 22 else value

    def _name(self, match: re.Match[str]) -> str:
        return f"${match[1]}" if int(match[2]) == self._symbols.number else _OTHER

    def _number(self, value: int, field: str) -> Json:
        if field == "port" and value > 0:
            return "$port"
        if field == "session_id" and value > 1:
            return "$session"
        if _EARLIEST_MS < value < _LATEST_MS:
            return "$now"
        if field == "producer_id" and 0 <= value < 2**63 - 1 and value != 987_654_321:
            mine = value == self._symbols.learnt.get("producer_id")
            return "$producer_id" if mine else "$new_producer_id"
        return value


def _with_id_zero(records: bytes, producer_id: int) -> bytes:
    """Batches with producer id 0, and without checksum."""
    found = bytearray(records)
    start = 0
    while start + _BATCH_HEAD.size <= len(found):
        length, _, its_id = _BATCH_HEAD.unpack_from(found, start)
        if its_id == producer_id:
            found[start + _ID_AT : start + _ID_AT + 8] = bytes(8)
            found[start + _CHECKSUM_AT : start + _CHECKSUM_AT + 4] = bytes(4)
        start += _LENGTH_COUNTS_FROM + length
    return bytes(found)
