"""Requests and responses: bytes to `(header, body)` and back.

Four rules:

1. A message is a plain dict; its keys and types are in the table of `schemas.py`.
2. Payloads come and go without their 4-byte size: `frame` and `take_frames` add and remove it.
3. What cannot be read or written raises a `ProtocolError`; nothing else is raised.
4. Bytes after the last field of a request are ignored, as by Kafka: librdkafka sends three after a
   Metadata request for all topics.

Theory of operation: the first use of an (api, version, direction) compiles its function from the
table; later uses find it in a cache. The two oddities of ApiVersions live here and nowhere else:
its response header is always version 0, and a broker that does not know the requested version
answers UNSUPPORTED_VERSION in the form of version 0: `encode_unsupported_version` writes it,
`decode_response` recognises it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from struct import Struct
from typing import Any, Final

from impl.form import IS_COMPILED
from impl.protocol.codegen import compile_decoder, compile_encoder
from impl.protocol.errors import ErrorCode, TruncatedFrame, UnknownApi, UnsupportedVersion
from impl.protocol.message_form import Value, form_of
from impl.protocol.schemas import MESSAGES, ApiKey

_HEAD: Final = Struct(">hh")
_CORRELATION_ID: Final = Struct(">i")
_SHORTEST_HEADER: Final = 8
"""Bytes up to the end of the correlation id."""
_UNSUPPORTED: Final = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


def _check(api_key: int, api_version: int, correlation_id: int = -1) -> None:
    message = MESSAGES.get((api_key, "request"))
    if message is None:
        raise UnknownApi(api_key)
    if api_version not in message.versions:
        raise UnsupportedVersion(api_key, api_version, str(message.versions), correlation_id)


_Decoder = Callable[[bytes], tuple[Value, Value]]

_NATIVE: Final[Mapping[tuple[str, str, int], Callable[..., Any]]] = (
    import_module("impl.protocol.native_codecs").CODECS if IS_COMPILED else {}
)
"""Compiled functions of hot messages, by what they do, message and version (`native_codegen`)."""


@cache
def _encoder(direction: str, api_key: int, api_version: int) -> Callable[..., bytes]:
    _check(api_key, api_version)
    form = form_of(direction, api_key, api_version)
    native = _NATIVE.get(("encode", form.body.name, api_version))
    return compile_encoder(form) if native is None else partial(native, form)


@cache
def _decoder(direction: str, api_key: int, api_version: int) -> _Decoder:
    _check(api_key, api_version)
    form = form_of(direction, api_key, api_version)
    native = _NATIVE.get(("decode", form.body.name, api_version))
    return compile_decoder(form) if native is None else partial(native, form)


_KNOWN_DECODERS: Final[dict[bytes, _Decoder]] = {}
"""Of requests, by api key and version as they come."""


def _find_decoder(payload: bytes) -> _Decoder:
    if len(payload) < _SHORTEST_HEADER:
        raise TruncatedFrame("a request header has at least 8 bytes", len(payload))
    api_key, api_version = _HEAD.unpack_from(payload)
    _check(api_key, api_version, _CORRELATION_ID.unpack_from(payload, 4)[0])
    decode = _decoder("request", api_key, api_version)
    _KNOWN_DECODERS[payload[: _HEAD.size]] = decode
    return decode


def encode_request(
    api_key: int, api_version: int, correlation_id: int, client_id: Any, body: Any
) -> bytes:
    """The payload of a request, header included, size excluded.

    `client_id` is text or None, `body` a `Value`; both are checked by the encoder, not by compiled
    code before it. Fields that `api_version` lacks are not written. Raises `EncodeError`,
    `UnknownApi`, `UnsupportedVersion`.
    """
    encode = _encoder("request", api_key, api_version)
    return encode(api_key, api_version, correlation_id, client_id, body)


def decode_request(payload: bytes) -> tuple[Value, Value]:
    """`(header, body)` of a request; header: api_key, api_version, correlation_id, client_id.

    Raises `DecodeError`; an `UnsupportedVersion` carries the correlation id, so that ApiVersions
    can be answered.
    """
    decode = _KNOWN_DECODERS.get(payload[: _HEAD.size])
    if decode is None or len(payload) < _SHORTEST_HEADER:
        decode = _find_decoder(payload)
    return decode(payload)


def encode_response(api_key: int, api_version: int, correlation_id: int, body: Any) -> bytes:
    """The payload of a response, header included, size excluded. Raises as `encode_request`."""
    return _encoder("response", api_key, api_version)(correlation_id, body)


def encode_unsupported_version(correlation_id: int, oldest: int, newest: int) -> bytes:
    """The answer to an ApiVersions request of an unsupported version.

    It has the form of version 0, which all clients read, and lists the supported versions; the
    request's correlation id is in `UnsupportedVersion`. Raises `EncodeError`.
    `ApiVersionsRequest.getErrorResponse`, KIP-511.
    """
    row = {"api_key": ApiKey.API_VERSIONS, "min_version": oldest, "max_version": newest}
    answer = {"error_code": ErrorCode.UNSUPPORTED_VERSION, "api_keys": [row]}
    return encode_response(ApiKey.API_VERSIONS, 0, correlation_id, answer)


def decode_response(api_key: int, api_version: int, payload: bytes) -> tuple[Value, Value]:
    """`(header, body)` of the response to a request of `api_version`; header has correlation_id.

    An ApiVersions response with UNSUPPORTED_VERSION has the form of version 0, whatever version was
    requested (`ApiVersionsResponse.parse`, KIP-511). Raises `DecodeError`.
    """
    if api_key == ApiKey.API_VERSIONS and payload[4:6] == _UNSUPPORTED:
        api_version = 0
    return _decoder("response", api_key, api_version)(payload)
