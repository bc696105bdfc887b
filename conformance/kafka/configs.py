"""Change a config of a running broker: IncrementalAlterConfigs, which no client here needs.

Written by hand, in its first version (KIP-339), as the table of messages is that of clients.
"""

from __future__ import annotations

import struct
from typing import Final

from conformance.kafka.connection import UNNUMBERED, Connection
from conformance.kafka.errors import RequestRefused

_API_KEY: Final = 44
_API_VERSION: Final = 0
_BROKER: Final = 4
_SET: Final = 0

_HEADER: Final = struct.Struct(">hhi")
_LENGTH: Final = struct.Struct(">h")
_COUNT: Final = struct.Struct(">i")
_ERROR: Final = struct.Struct(">4x4x4xh")  # behind correlation id, throttle time and a count


def set_config(connection: Connection, node_id: int, name: str, value: str) -> None:
    """Set a dynamic config of the broker `node_id`. Raises RequestRefused, and as `Connection.ask`.

    The broker answers before it goes by the new value.
    """
    one_config = _COUNT.pack(1) + _text(name) + bytes([_SET]) + _text(value)
    resource = _COUNT.pack(1) + bytes([_BROKER]) + _text(str(node_id)) + one_config
    header = _HEADER.pack(_API_KEY, _API_VERSION, UNNUMBERED) + _text("kafka-eos")
    answer = connection.ask_bytes(header + resource + bytes([0]))
    (error,) = _ERROR.unpack_from(answer)
    if error:
        raise RequestRefused(f"{name}={value} at broker {node_id}: error {error}, {answer!r}")


def _text(value: str) -> bytes:
    data = value.encode()
    return _LENGTH.pack(len(data)) + data
