"""Keys and values of internal topics: bytes to dict and back, by the tables of schemas.

Two rules:

1. A record is its version as int16, then the fields of that version.
2. What cannot be read or written raises a `ProtocolError`; nothing else is raised.

Sources: `MessageUtil.toVersionPrefixedBytes`, `TransactionLog`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

from impl.protocol.codegen import compile_decoder, compile_encoder
from impl.protocol.errors import TruncatedFrame, UnknownRecordVersion
from impl.protocol.message_form import MessageForm, Value
from impl.protocol.schemas import MESSAGES

_VERSION_SIZE: Final = 2


def _form(name: str, version: int) -> MessageForm:
    return MessageForm(MESSAGES["header", "record"], 0, MESSAGES[name, "record"], version)


@cache
def _encoder(name: str, version: int) -> Callable[..., bytes]:
    return compile_encoder(_form(name, version))


_Decoder = Callable[[bytes], tuple[Value, Value]]

_KNOWN_DECODERS: Final[dict[tuple[str, bytes], tuple[int, _Decoder]]] = {}
"""By name and version as it comes."""


def encode_fields(name: str, version: int, body: Value) -> bytes:
    """As `encode_record`, without the version in front. Raises as it."""
    return encode_record(name, version, body)[_VERSION_SIZE:]


def decode_fields(name: str, version: int, data: bytes) -> Value:
    """The fields of a version that is not in front of them. Raises `DecodeError`."""
    prefix = version.to_bytes(_VERSION_SIZE, "big")
    return decode_record(name, prefix + data)[1]


def encode_record(name: str, version: int, body: Value) -> bytes:
    """The key or value `name` of the tables, in this version. Raises `EncodeError`."""
    return _encoder(name, version)(version, body)


def decode_record(name: str, data: bytes) -> tuple[int, Value]:
    """`(version, body)` of a key or value. Raises `DecodeError`, for a version that the table
    lacks `UnknownRecordVersion`.
    """
    found = _KNOWN_DECODERS.get((name, data[:_VERSION_SIZE]))
    version, decode = found or _find_decoder(name, data)
    return version, decode(data)[1]


def _find_decoder(name: str, data: bytes) -> tuple[int, _Decoder]:
    if len(data) < _VERSION_SIZE:
        raise TruncatedFrame("a record begins with its version", len(data))
    prefix = data[:_VERSION_SIZE]
    version = int.from_bytes(prefix, "big", signed=True)
    message = MESSAGES[name, "record"]
    if version not in message.versions:
        raise UnknownRecordVersion(f"{name} has versions {message.versions}, not {version}", 0)
    decode = compile_decoder(_form(name, version))
    _KNOWN_DECODERS[name, prefix] = version, decode
    return version, decode
