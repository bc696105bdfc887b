"""What an answer looks like that refuses a request, or rows of it: derived from the schemas.

A row of an answer repeats the fields of the request's row that name it. What else is in a refusal
is nothing: the schema's default, or what stands in `_FILLED`. Each row of a request has its row in
the refusal, unless the whole answer has an error; APIs that do otherwise are in `WHOLE_ANSWERS` and
`_ROWS_BESIDE_ERROR`.
Source: `AbstractRequest.getErrorResponse` of each request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from impl.broker.cluster_refusals import WHOLE_ANSWERS
from impl.protocol.errors import ErrorCode
from impl.protocol.message_form import Value
from impl.protocol.messages import encode_response
from impl.protocol.schemas import MESSAGES, REQUIRED, ApiKey, Field, Versions

_NAMES: Final = {
    "responses": ("topics", "resources", "topic_names"),
    "groups": ("group_ids",),
    "results": ("topics", "resources", "groups_names", "creations"),
    "filter_results": ("filters",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "results_by_partition": ("partitions",),
    "transaction_states": ("transactional_ids",),
    "coordinators": ("coordinator_keys",),
    "partition_index": ("partition",),
}
"""What a request calls the rows or the field of its response, where the names differ."""
_ROW_ARRAYS: Final = {"partitions": "partition_indexes"}
_FILLED: Final[Mapping[str, Any]] = MappingProxyType(
    dict.fromkeys(
        (
            *("base_offset", "log_append_time_ms", "high_watermark", "low_watermark", "offset"),
            *("timestamp", "committed_offset", "end_offset", "generation_id", "node_id", "port"),
            *("num_partitions", "replication_factor", "log_start_offset", "leader_epoch"),
        ),
        -1,
    )
    | {"records": b"", "metadata": ""}
)
"""What stands in a refusal where the schema has no default, or another, or repeats no name."""
_REPEATED_AT_TOP: Final = ("session_id",)
_ROWS_BESIDE_ERROR: Final[Mapping[int, Versions]] = MappingProxyType(
    {ApiKey.FETCH: Versions(7, 12), ApiKey.METADATA: Versions(13, 13)}
)
"""The versions whose answers repeat the error of the whole in each row."""
_NO_PRODUCER: Final = ("producer_id", "producer_epoch")
"""-1 in the refusal of a whole request, 0 in that of a row."""


def response_fields(api_key: int) -> Sequence[Field]:
    """The fields of its response, of all versions."""
    return MESSAGES[api_key, "response"].fields


def find_field(fields: Iterable[Field], name: str) -> Field:
    """The field of this name."""
    return next(field for field in fields if field.name == name)


class RefusedAnswer(NamedTuple):
    """An error as the structs of a response have it, in a version."""

    api_key: int
    version: int
    error: ErrorCode
    text: str | None

    def struct(self, fields: Iterable[Field], asked: Value, *, is_row: bool) -> Value:
        """A struct with this error: in itself, or else in all rows that were asked for."""
        mine = [field for field in fields if self.version in field.versions]
        says_all = any(field.name == "error_code" for field in mine) and (
            is_row or self.version not in _ROWS_BESIDE_ERROR.get(self.api_key, ())
        )
        return {field.name: self._value(field, asked, says_all, is_row) for field in mine}

    def _fits(self, field: Field, value: Any) -> bool:
        """Requests may have null where their answers may not."""
        return value is not None or self.version in field.nullable

    def _value(self, field: Field, asked: Value, says_all: bool, is_row: bool) -> Any:
        name = field.name
        if name in ("error_code", "partition_error_code"):
            return self.error
        if name == "error_message":
            return self.text
        if field.is_array and field.fields:
            rows = () if says_all else _asked_rows(name, asked)
            return [self.struct(field.fields, as_struct(row), is_row=True) for row in rows]
        if name in _FILLED:
            return _FILLED[name]
        source = _source(name, asked)
        repeats = is_row or name in _REPEATED_AT_TOP
        if repeats and source is not None and self._fits(field, asked[source]):
            return asked[source]
        if name in _NO_PRODUCER and not is_row:
            return -1
        is_null = field.default is REQUIRED and self.version in field.nullable
        return None if is_null else field.absent


def _source(name: str, asked: Value) -> str | None:
    """The field of a request's row that an answer's row repeats."""
    if "" in asked and name in _KEYS:
        return ""
    return next((key for key in (name, *_NAMES.get(name, ())) if key in asked), None)


_KEYS: Final = ("name", "group_id", "transactional_id", "key", "partition_index", "index")
"""What an answer's row calls a request's row that is a bare name or number."""


def as_struct(row: Any) -> Value:
    """A row as a struct; a bare name or number is its field ""."""
    return row if isinstance(row, dict) else {"": row}


def _asked_rows(name: str, asked: Value) -> Sequence[Any]:
    for key in (name, *_NAMES.get(name, ()), _ROW_ARRAYS.get(name, "")):
        if asked.get(key) and isinstance(asked[key], list):
            rows: Sequence[Any] = asked[key]
            return rows
    return ()


def refuse_request(
    api_key: int, version: int, body: Value, error: ErrorCode, text: str | None = None
) -> Value:
    """The body of the answer to a request that is refused as a whole."""
    own_form = WHOLE_ANSWERS.get(api_key)
    if own_form is not None:
        return own_form(body, error, text)
    refusal = RefusedAnswer(api_key, version, error, text)
    asked = _with_empty_names(body) if api_key == ApiKey.METADATA else body
    return refusal.struct(response_fields(api_key), asked, is_row=False)


def _with_empty_names(body: Value) -> Value:
    """QUIRK: a null name is empty where all of a Metadata request is refused."""
    return body | {"topics": [row | {"name": row["name"] or ""} for row in body["topics"] or ()]}


def encode_refusal(header: Value, body: Value, error: ErrorCode) -> bytes:
    """The answer to a request that is refused as a whole."""
    api_key, version = header["api_key"], header["api_version"]
    answer = refuse_request(api_key, version, body, error)
    return encode_response(api_key, version, header["correlation_id"], answer)
