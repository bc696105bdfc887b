"""Requests of every API and version that a broker serves, filled with values that are often right.

A request is a function of its random source: the same source gives the same bytes. Values come from
the table of schemas by type, but for fields that `LIKELY` names: a request whose names, ids and
epochs are all wrong meets nothing behind the first check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf, nan
from random import Random
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from benchmarks.hostile.batches import draw_records
from impl import encode_request
from impl.broker.releases import NEWEST_RELEASE, served_versions
from impl.broker.topic_settings import TOPIC_SETTINGS
from impl.protocol.message_form import Value
from impl.protocol.schemas import MESSAGES, ApiKey, Field

TOPIC: Final = "t"
"""A topic of two partitions that the broker has."""
TRANSACTIONAL_ID: Final = "x"
GROUP: Final = "x"
UNKNOWN_TAGS: Final = "unknown_tagged_fields"
FORMS: Final = [
    (ApiKey(key), version)
    for key, versions in served_versions(NEWEST_RELEASE).items()
    for version in versions
]
"""Every API and version that is served."""

Draw = Callable[[Random], Any]


class Form(NamedTuple):
    """A request before it is bytes."""

    api_key: ApiKey
    version: int
    body: Value

    def encode(self, client_id: str | None = "hostile") -> bytes:
        """Its payload. The correlation id is always 7."""
        return encode_request(self.api_key, self.version, 7, client_id, self.body)


def _one_of(*values: Any) -> Draw:
    return lambda random: random.choice(values)


def _rows(draw: Draw) -> Draw:
    return lambda random: [draw(random) for _ in range(random.randrange(3))]


def _config(random: Random) -> Value:
    return {
        "name": random.choice(_SETTINGS),
        "value": random.choice((None, "0", "9", "x", "delete", "9" * 40)),
        "config_operation": random.randrange(-1, 5),
    }


_SETTINGS: Final = sorted(TOPIC_SETTINGS)
_NAMES: Final = _one_of(TOPIC, TOPIC, "new", "__consumer_offsets", "__transaction_state", "", "\0")
_IDS: Final = _one_of("x", "x", "y", "", "x" * 40)
_INDEX: Final = _one_of(0, 0, 0, 1, 2, -1, 2**31 - 1)
_BYTES: Final = _one_of(b"", b"\0\0\0\0\0\1\0\1t\0\0\0\0", b"\xff" * 9, b"\0\3\0\0\0\1\0\1t")
_LARGE: Final = _one_of(-(2**63), -1, 0, 1, 2**63 - 1)
_PATTERNS: Final = _one_of(None, "x", "(", "x{99999999999}", "(" * 5000, "(x+)+y", "[", "t|new")

LIKELY: Final[Mapping[str, Draw]] = MappingProxyType(
    {
        **dict.fromkeys(("name", "topic", "resource_name", "topic_name"), _NAMES),
        **dict.fromkeys(("transactional_id", "v3_and_below_transactional_id"), _IDS),
        **dict.fromkeys(("group_id", "key", "member_id", "group_instance_id"), _IDS),
        **dict.fromkeys(("coordinator_keys", "groups_names", "transactional_ids"), _rows(_IDS)),
        **dict.fromkeys(("index", "partition", "partition_index"), _INDEX),
        **dict.fromkeys(("partition_indexes", "partitions_indexes"), _rows(_INDEX)),
        **dict.fromkeys(("metadata", "assignment", "user_data"), _BYTES),
        **dict.fromkeys(("transactional_id_pattern", "subscribed_topic_regex"), _PATTERNS),
        "records": draw_records,
        "key_type": _one_of(0, 1, -1, 2),
        "num_partitions": _one_of(1, 2, 0, -1, -2, 2**31 - 1),
        "count": _one_of(1, 3, 0, -1, 2**31 - 1),
        "replication_factor": _one_of(1, -1, 0, 2),
        "retention_time_ms": _LARGE,
        "timeout_ms": _one_of(10_000),
        "configs": _rows(_config),
        "assignments": _one_of([]),
        "resource_type": _one_of(2, 4, 8, 0),
        "feature": _one_of("transaction.version", "x"),
        "max_version_level": _one_of(2, 1, 0, -1, 3),
        "acks": _one_of(-1, 1, 0, 2),
        "producer_id": _one_of(-1, 0, 1, 1000, 2**63 - 1, -(2**63)),
        "producer_epoch": _one_of(-1, 0, 0, 1, 2**15 - 1, -(2**15)),
        "session_timeout_ms": _one_of(10_000, 6_000, 0, -1, 2**31 - 1),
        "rebalance_timeout_ms": _one_of(10_000, 0, -1, 2**31 - 1),
        "transaction_timeout_ms": _one_of(1_000, 0, -1, 2**31 - 1),
        "generation_id": _one_of(-1, 0, 1, 2),
        "member_epoch": _one_of(0, -1, -2, 1),
        "protocol_type": _one_of("consumer", "consumer", "", "connect"),
    }
)
"""Values by field name."""

_SCALARS: Final[Mapping[str, Draw]] = MappingProxyType(
    {
        "bool": _one_of(False, True),
        "string": _one_of("", "a", "\u00e9\u20ac", "x" * 200),
        "bytes": _one_of(b"", b"\0", b"\xff" * 8, bytes(200)),
        "uuid": _one_of(bytes(16), b"\1" * 16),
        "uint16": _one_of(0, 1, (1 << 16) - 1),
        "float64": _one_of(0.0, 1.0, -0.5, 1e308, inf, nan),
        **{
            kind: _one_of(0, 1, -1, (1 << bits - 1) - 1, -(1 << bits - 1))
            for kind, bits in (("int8", 8), ("int16", 16), ("int32", 32), ("int64", 64))
        },
    }
)


def draw_form(random: Random) -> Form:
    """A request of any API and version."""
    api_key, version = random.choice(FORMS)
    body = _struct(random, MESSAGES[api_key, "request"].fields, version)
    if api_key == ApiKey.PRODUCE and random.random() < 0.3:
        body["transactional_id"] = None
    return Form(api_key, version, body)


def draw_value(random: Random, field: Field, version: int) -> Any:
    """A value of a field."""
    if field.name in LIKELY:
        value = LIKELY[field.name](random)
        return (
            ""
            if value is None and version not in field.nullable and field.kind != "bytes"
            else value
        )
    if version in field.nullable and random.random() < 0.2:
        return None
    if field.is_array:
        return [_one(random, field, version) for _ in range(random.choice((0, 1, 1, 1, 2, 3)))]
    return _one(random, field, version)


def _one(random: Random, field: Field, version: int) -> Any:
    if field.kind == "struct":
        return _struct(random, field.fields, version)
    return _SCALARS[field.kind](random)


def _struct(random: Random, fields: tuple[Field, ...], version: int) -> Value:
    return {
        field.name: draw_value(random, field, version)
        for field in fields
        if version in field.versions
    }
