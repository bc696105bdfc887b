"""Change a feature's level on a running cluster: UpdateFeatures, which no client here needs.

Written by hand, in version 1 (KIP-584, KIP-778), as the table of messages is that of clients.
"""

from __future__ import annotations

import struct
from typing import Final

from conformance.kafka.connection import UNNUMBERED, Connection
from conformance.kafka.errors import RequestRefused

_API_KEY: Final = 57
_API_VERSION: Final = 1
_TIMEOUT_MS: Final = 10_000
_UPGRADE: Final = 1
_SAFE_DOWNGRADE: Final = 2

_HEADER: Final = struct.Struct(">hhih")  # without a client id
_NO_CLIENT_ID: Final = -1
_NO_TAGS: Final = bytes([0])
_ONE: Final = bytes([2])  # the length of a compact array of one
_ERROR: Final = struct.Struct(">4xx4xh")  # behind correlation id, tags and throttle time


def set_level(connection: Connection, feature: str, level: int, *, is_upgrade: bool) -> None:
    """Finalize a feature's level. Raises RequestRefused, and as `Connection.ask`.

    The controller answers before each broker goes by the new level.
    """
    header = _HEADER.pack(_API_KEY, _API_VERSION, UNNUMBERED, _NO_CLIENT_ID) + _NO_TAGS
    kind = _UPGRADE if is_upgrade else _SAFE_DOWNGRADE
    update = _text(feature) + struct.pack(">hb", level, kind) + _NO_TAGS
    body = struct.pack(">i", _TIMEOUT_MS) + _ONE + update + struct.pack(">?", False) + _NO_TAGS
    answer = connection.ask_bytes(header + body)
    (error,) = _ERROR.unpack_from(answer)
    if error:
        raise RequestRefused(f"{feature}={level}: error {error}, {answer!r}")


def _text(value: str) -> bytes:
    data = value.encode()
    return bytes([len(data) + 1]) + data
