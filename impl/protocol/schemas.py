"""The schemas of messages: the reader of the tables in `schemas_data`, `schemas_transactions`,
`schemas_groups`, `schemas_consumer_groups`, `schemas_admin`, `schemas_cluster`, `schemas_metadata`
and `schemas_security`.

Three rules:

1. A field is in one table once, with all its versions; nothing else defines the wire format.
2. A field with `= value` is optional for the caller; others are required in their versions.
3. A decoded message has all fields of its API; those that its version lacks have their default.

Theory of operation: a table is text that can be compared with Kafka's message definitions. A line
is `name type [versions] [= default] [tag N]`, two blanks deeper for the fields of a struct.

    types      int8 int16 int32 int64 uint16 float64 bool string bytes uuid, {} (struct), []T and []
               (of structs)
    string?    nullable in every version; `string?7+` from version 7; a struct is `{}?`
    3+ 0-12 8  the versions with the field; all of them by default
    classic    a string that keeps its int16 length in flexible versions (client_id, KIP-482)
    tag 0      a tagged field: written only where it differs from its default

A `record` is the key or value of an internal topic: its version, then these fields.
`flexible 9` says that from version 9 on lengths are compact and each struct ends in tagged fields.
A uuid is 16 raw bytes, an error code a plain int. Unknown tagged fields stay in the value under
`unknown_tagged_fields` as `{tag: bytes}` and are written again.
Sources: the message definitions of Kafka 4.x (`ProduceRequest.json` and its siblings), KIP-482.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import cached_property
from itertools import groupby
from types import MappingProxyType
from typing import Final, NamedTuple

from impl.protocol import (
    schemas_admin,
    schemas_cluster,
    schemas_consumer_groups,
    schemas_data,
    schemas_groups,
    schemas_metadata,
    schemas_security,
    schemas_transactions,
)
from impl.protocol.primitives import ZERO_UUID


class ApiKey(IntEnum):
    """The APIs of the table. Source: `ApiKeys`."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_QUORUM = 55
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75


class Versions(NamedTuple):
    """An inclusive range of versions; `first > last` is the empty one."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()
"""The default of a field that has none."""

Default = int | str | bytes | bool | None | list[object] | dict[str, object] | _Required

NEWEST: Final = 32767
_ALWAYS: Final = Versions(0, NEWEST)
_NEVER: Final = Versions(1, 0)
_ABSENT: Final[dict[str, Default]] = {
    "string": "",
    "classic": "",
    "bytes": b"",
    "uuid": ZERO_UUID,
    "bool": False,
}


class Field(NamedTuple):
    """One line of the table. `kind` is the type without its array brackets and question mark."""

    name: str
    kind: str
    is_array: bool
    versions: Versions
    nullable: Versions
    default: Default
    tag: int | None
    fields: tuple[Field, ...]

    @property
    def absent(self) -> Default:
        """What a decoded message holds where its version lacks the field."""
        if self.default is not REQUIRED:
            return self.default
        return [] if self.is_array else _ABSENT.get(self.kind, 0)

    @property
    def element(self) -> Field:
        """One item of an array: never null, without a tag of its own."""
        return self._replace(is_array=False, nullable=_NEVER, tag=None)


class MessageSchema:
    """One direction of one API, or a header; `lines` of the table are its fields.

    Read-only: `name`, `versions`, and from which of them it is `flexible`.
    """

    def __init__(
        self, name: str, versions: Versions, flexible: int, lines: tuple[str, ...]
    ) -> None:
        self.name = name
        self.versions = versions
        self.flexible = flexible
        self._lines = lines

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """Read when they are asked for: most processes use few of the messages."""
        return _parse_fields([*self._lines], 2)


_CONSTANTS: Final[dict[str, Default]] = {
    "null": None,
    "true": True,
    "false": False,
    "zero": ZERO_UUID,
    '""': "",
}
_LINE: Final = (
    r"(?P<name>\w+) (?P<array>\[\])?(?P<kind>\w+|\{\})?(?P<null>\?(?P<null_from>\d+)?\+?)?"
    r"(?: (?P<first>\d+)(?P<more>\+|-(?P<last>\d+))?)?"
    r"(?: = (?P<default>\S+))?(?: tag (?P<tag>\d+))?"
)


def _versions(first: str | None, more: str | None, last: str | None) -> Versions:
    if first is None:
        return _ALWAYS
    return Versions(int(first), int(last) if last else NEWEST if more else int(first))


def _default(text: str | None, children: tuple[Field, ...], is_struct: bool) -> Default:
    if text == "[]":
        return []
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text is not None:
        return int(text)
    return {child.name: child.default for child in children} if is_struct else REQUIRED


def _parse_field(line: str, children: tuple[Field, ...]) -> Field:
    match = re.fullmatch(_LINE, line)
    if match is None:
        raise ValueError(f"not a line of the table: {line!r}")
    part = match.groupdict()
    is_array = part["array"] is not None
    kind = "struct" if part["kind"] in (None, "{}") else part["kind"]
    return Field(
        name=part["name"],
        kind=kind,
        is_array=is_array,
        versions=_versions(part["first"], part["more"], part["last"]),
        nullable=Versions(int(part["null_from"] or 0), NEWEST) if part["null"] else _NEVER,
        default=_default(part["default"], children, kind == "struct" and not is_array),
        tag=int(part["tag"]) if part["tag"] else None,
        fields=children,
    )


def _parse_fields(lines: list[str], depth: int) -> tuple[Field, ...]:
    """Read the lines at `depth` from the front of `lines`, with the deeper ones below each."""
    fields: list[Field] = []
    while lines and len(lines[0]) - len(lines[0].lstrip()) == depth:
        line = lines.pop(0).strip()
        fields.append(_parse_field(line, _parse_fields(lines, depth + 2)))
    return tuple(fields)


def _title(word: str, rest: list[str]) -> tuple[int | str, str, str]:
    """Key, name and direction that a line opens; an api's direction stands in the next line."""
    if word == "api":
        return int(rest[0]), rest[1], word
    if word == "record":
        return rest[0], rest[0], word
    return word, f"{rest[0]}_header", rest[0]


def parse_table(text: str) -> dict[tuple[int | str, str], MessageSchema]:
    """The messages of a table, by key and direction; see the head of this file."""
    messages: dict[tuple[int | str, str], MessageSchema] = {}
    key: int | str = ""
    name, word, versions, flexible = "", "", _NEVER, 0
    for is_body, lines in groupby(filter(None, text.splitlines()), _is_field):
        if is_body:
            title = name if key == "header" else f"{name} {word}"
            messages[key, word] = MessageSchema(title, versions, flexible, tuple(lines))
            continue
        for line in lines:
            word, *rest = line.split()
            if rest:
                key, name, word = _title(word, rest)
                first, _, last = rest[-3].partition("-")
                versions, flexible = Versions(int(first), int(last)), int(rest[-1])
    return messages


def _is_field(line: str) -> bool:
    return line.startswith("  ")


MESSAGES: Final = MappingProxyType(
    parse_table(schemas_data.TABLE)
    | parse_table(schemas_transactions.TABLE)
    | parse_table(schemas_groups.TABLE)
    | parse_table(schemas_consumer_groups.TABLE)
    | parse_table(schemas_admin.TABLE)
    | parse_table(schemas_cluster.TABLE)
    | parse_table(schemas_metadata.TABLE)
    | parse_table(schemas_security.TABLE)
)
"""`(api_key, "request" | "response")`, `("header", ...)` or `(name, "record")` to its schema."""

SUPPORTED_VERSIONS: Final = MappingProxyType(
    {key: MESSAGES[key, "request"].versions for key in ApiKey}
)
"""The versions that the codec reads and writes, per API."""


def request_header_version(api_key: int, api_version: int) -> int:
    """2 for a flexible request, else 1. `ApiKeys.requestHeaderVersion`."""
    return 2 if api_version >= MESSAGES[api_key, "request"].flexible else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """1 for a flexible response, else 0; ApiVersions always 0, so that any client reads it.

    Source: `ApiKeys.responseHeaderVersion`, KIP-511.
    """
    if api_key == ApiKey.API_VERSIONS:
        return 0
    return 1 if api_version >= MESSAGES[api_key, "response"].flexible else 0
