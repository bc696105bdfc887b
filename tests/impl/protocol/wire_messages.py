"""Messages of every API and version, drawn from the table of schemas."""

from functools import cache
from typing import Any

from hypothesis import strategies as st

from impl.protocol.errors import ErrorCode
from impl.protocol.messages import decode_request, decode_response, encode_request, encode_response
from impl.protocol.schemas import (
    MESSAGES,
    SUPPORTED_VERSIONS,
    ApiKey,
    Field,
    request_header_version,
    response_header_version,
)

Form = tuple[ApiKey, int, str]
"""An api, a version, and "request" or "response"."""

FORMS = [
    (api_key, version, direction)
    for api_key in ApiKey
    for version in range(SUPPORTED_VERSIONS[api_key].first, SUPPORTED_VERSIONS[api_key].last + 1)
    for direction in ("request", "response")
]

OLDEST_IN_KAFKA_4 = {
    ApiKey.PRODUCE: 3,
    ApiKey.FETCH: 4,
    ApiKey.LIST_OFFSETS: 1,
    ApiKey.CREATE_TOPICS: 2,
    ApiKey.DELETE_TOPICS: 1,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 2,
    ApiKey.OFFSET_COMMIT: 2,
    ApiKey.OFFSET_FETCH: 1,
    ApiKey.WRITE_TXN_MARKERS: 1,
    ApiKey.DESCRIBE_ACLS: 1,
    ApiKey.CREATE_ACLS: 1,
    ApiKey.DELETE_ACLS: 1,
    ApiKey.DESCRIBE_CONFIGS: 1,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 1,
    ApiKey.DESCRIBE_LOG_DIRS: 1,
    ApiKey.CREATE_DELEGATION_TOKEN: 1,
    ApiKey.RENEW_DELEGATION_TOKEN: 1,
    ApiKey.EXPIRE_DELEGATION_TOKEN: 1,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: 1,
}
"""The oldest version that Kafka 4 still has, where it is not 0."""


def name_of(form: Form) -> str:
    return f"{form[0].name}-{form[1]}-{form[2]}"


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "int8": integers(8),
    "int16": integers(16),
    "int32": integers(32),
    "int64": integers(64),
    "uint16": st.integers(0, (1 << 16) - 1),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "bool": st.booleans(),
    "string": st.text(max_size=8) | st.just("x" * 200),
    "bytes": st.binary(max_size=8) | st.just(bytes(200)),
    "uuid": st.binary(min_size=16, max_size=16),
}
"""Also with lengths beyond 127, where a compact length has two bytes."""


def value_of(field: Field, version: int, special: dict[str, Any]) -> st.SearchStrategy[Any]:
    if field.name in special:
        return special[field.name]
    one = body_of(field.fields, version, special) if field.kind == "struct" else SCALARS[field.kind]
    whole = st.lists(one, max_size=3) if field.is_array else one
    return st.none() | whole if version in field.nullable else whole


def body_of(
    fields: tuple[Field, ...], version: int, special: dict[str, Any]
) -> st.SearchStrategy[dict[str, Any]]:
    present = [field for field in fields if version in field.versions]
    return st.fixed_dictionaries({f.name: value_of(f, version, special) for f in present})


@cache
def bodies(form: Form, **special: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Bodies of one message with every field of its version; `special` values by field name."""
    api_key, version, direction = form
    if (api_key, direction) == (ApiKey.API_VERSIONS, "response"):
        # With error 35 it has the form of version 0, whatever was asked.
        anything_else = integers(16).filter(lambda code: code != ErrorCode.UNSUPPORTED_VERSION)
        special.setdefault("error_code", anything_else)
    return body_of(MESSAGES[api_key, direction].fields, version, special)


def encode(form: Form, body: dict[str, Any]) -> bytes:
    api_key, version, direction = form
    if direction == "request":
        return encode_request(api_key, version, 7, "client", body)
    return encode_response(api_key, version, 7, body)


def decode(form: Form, payload: bytes) -> tuple[dict, dict]:
    api_key, version, direction = form
    if direction == "request":
        return decode_request(payload)
    return decode_response(api_key, version, payload)


def header_size(form: Form) -> int:
    api_key, version, direction = form
    if direction == "request":
        return 8 + 2 + len("client") + (request_header_version(api_key, version) == 2)
    return 4 + (response_header_version(api_key, version) == 1)


def is_subset(part: Any, whole: Any) -> bool:
    """`part` stands in `whole`, which may have more keys (fields of other versions)."""
    if isinstance(part, dict):
        return all(is_subset(value, whole[key]) for key, value in part.items())
    if isinstance(part, list):
        return len(part) == len(whole) and all(map(is_subset, part, whole))
    return bool(part == whole)
