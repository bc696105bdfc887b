"""The table of message schemas, and its reader.

Three rules:

1. A field stands in `TABLE` once, with every version it lives in; nothing else knows the wire form.
2. A field with `= value` may be left out by the caller; one without must be given in its versions.
3. A decoded message has every field of its API; one that its version lacks has its default.

Theory of operation: `TABLE` is text that people can hold against Kafka's message definitions. A
line is `name type [versions] [= default] [tag N]`, two blanks deeper for the fields of a struct.

    types      int8 int16 int32 int64 bool string bytes uuid {} (struct), []T and [] (of structs)
    string?    nullable in every version; `string?7+` from version 7
    3+ 0-12 8  the versions that write the field; none given means all of them
    classic    a string that keeps its int16 length in flexible versions (client_id, KIP-482)
    tag 0      a tagged field: written only where it differs from its default

`flexible 9` says that from version 9 on lengths are compact and each struct ends in tagged fields.
A uuid is 16 raw bytes, an error code a plain int. Unknown tagged fields stay in the value under
`unknown_tagged_fields` as `{tag: bytes}` and are written again.
Sources: the message definitions of Kafka 4.x (`ProduceRequest.json` and its siblings), KIP-482.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from impl.protocol.primitives import ZERO_UUID

TABLE: Final = """
header request versions 1-2 flexible 2
  api_key int16
  api_version int16
  correlation_id int32
  client_id classic? = null

header response versions 0-1 flexible 1
  correlation_id int32

api 0 PRODUCE versions 0-13 flexible 9
request
  transactional_id string? 3+ = null
  acks int16
  timeout_ms int32
  topics []
    name string 0-12
    topic_id uuid 13+
    partitions []
      index int32
      records bytes?
response
  topics []
    name string 0-12
    topic_id uuid 13+
    partitions []
      index int32
      error_code int16
      base_offset int64
      log_append_time_ms int64 2+ = -1
      log_start_offset int64 5+ = -1
      record_errors [] 8+ = []
        batch_index int32
        batch_index_error_message string? = null
      error_message string? 8+ = null
      current_leader {} 10+ tag 0
        leader_id int32 = -1
        leader_epoch int32 = -1
  throttle_time_ms int32 1+ = 0
  node_endpoints [] 10+ = [] tag 0
    node_id int32
    host string
    port int32
    rack string? = null

api 1 FETCH versions 0-18 flexible 12
request
  cluster_id string? 12+ = null tag 0
  replica_id int32 0-14 = -1
  replica_state {} 15+ tag 1
    replica_id int32 = -1
    replica_epoch int64 = -1
  max_wait_ms int32
  min_bytes int32
  max_bytes int32 3+ = 2147483647
  isolation_level int8 4+ = 0
  session_id int32 7+ = 0
  session_epoch int32 7+ = -1
  topics []
    topic string 0-12
    topic_id uuid 13+
    partitions []
      partition int32
      current_leader_epoch int32 9+ = -1
      fetch_offset int64
      last_fetched_epoch int32 12+ = -1
      log_start_offset int64 5+ = -1
      partition_max_bytes int32
      replica_directory_id uuid 17+ = zero tag 0
      high_watermark int64 18+ = 9223372036854775807 tag 1
  forgotten_topics_data [] 7+ = []
    topic string 7-12
    topic_id uuid 13+
    partitions []int32
  rack_id string 11+ = ""
response
  throttle_time_ms int32 1+ = 0
  error_code int16 7+ = 0
  session_id int32 7+ = 0
  responses []
    topic string 0-12
    topic_id uuid 13+
    partitions []
      partition_index int32
      error_code int16
      high_watermark int64
      last_stable_offset int64 4+ = -1
      log_start_offset int64 5+ = -1
      diverging_epoch {} 12+ tag 0
        epoch int32 = -1
        end_offset int64 = -1
      current_leader {} 12+ tag 1
        leader_id int32 = -1
        leader_epoch int32 = -1
      snapshot_id {} 12+ tag 2
        end_offset int64 = -1
        epoch int32 = -1
      aborted_transactions []? 4+ = null
        producer_id int64
        first_offset int64
      preferred_read_replica int32 11+ = -1
      records bytes?
  node_endpoints [] 16+ = [] tag 0
    node_id int32
    host string
    port int32
    rack string? = null

api 2 LIST_OFFSETS versions 0-11 flexible 6
request
  replica_id int32
  isolation_level int8 2+ = 0
  topics []
    name string
    partitions []
      partition_index int32
      current_leader_epoch int32 4+ = -1
      timestamp int64
      max_num_offsets int32 0 = 1
  timeout_ms int32 10+
response
  throttle_time_ms int32 2+ = 0
  topics []
    name string
    partitions []
      partition_index int32
      error_code int16
      old_style_offsets []int64 0 = []
      timestamp int64 1+ = -1
      offset int64 1+ = -1
      leader_epoch int32 4+ = -1

api 3 METADATA versions 0-13 flexible 9
request
  topics []?1+
    topic_id uuid 10+ = zero
    name string?10+
  allow_auto_topic_creation bool 4+ = true
  include_cluster_authorized_operations bool 8-10 = false
  include_topic_authorized_operations bool 8+ = false
response
  throttle_time_ms int32 3+ = 0
  brokers []
    node_id int32
    host string
    port int32
    rack string? 1+ = null
  cluster_id string? 2+ = null
  controller_id int32 1+ = -1
  topics []
    error_code int16
    name string?12+
    topic_id uuid 10+ = zero
    is_internal bool 1+ = false
    partitions []
      error_code int16
      partition_index int32
      leader_id int32
      leader_epoch int32 7+ = -1
      replica_nodes []int32
      isr_nodes []int32
      offline_replicas []int32 5+ = []
    topic_authorized_operations int32 8+ = -2147483648
  cluster_authorized_operations int32 8-10 = -2147483648
  error_code int16 13+ = 0

api 10 FIND_COORDINATOR versions 0-6 flexible 3
request
  key string 0-3
  key_type int8 1+ = 0
  coordinator_keys []string 4+
response
  throttle_time_ms int32 1+ = 0
  error_code int16 0-3
  error_message string? 1-3 = null
  node_id int32 0-3
  host string 0-3
  port int32 0-3
  coordinators [] 4+
    key string
    node_id int32
    host string
    port int32
    error_code int16
    error_message string? = null

api 18 API_VERSIONS versions 0-4 flexible 3
request
  client_software_name string 3+ = ""
  client_software_version string 3+ = ""
response
  error_code int16
  api_keys []
    api_key int16
    min_version int16
    max_version int16
  throttle_time_ms int32 1+ = 0
  supported_features [] 3+ = [] tag 0
    name string
    min_version int16
    max_version int16
  finalized_features_epoch int64 3+ = -1 tag 1
  finalized_features [] 3+ = [] tag 2
    name string
    max_version_level int16
    min_version_level int16
  zk_migration_ready bool 3+ = false tag 3

api 19 CREATE_TOPICS versions 0-7 flexible 5
request
  topics []
    name string
    num_partitions int32
    replication_factor int16
    assignments [] = []
      partition_index int32
      broker_ids []int32
    configs [] = []
      name string
      value string?
  timeout_ms int32 = 60000
  validate_only bool 1+ = false
response
  throttle_time_ms int32 2+ = 0
  topics []
    name string
    topic_id uuid 7+ = zero
    error_code int16
    error_message string? 1+ = null
    topic_config_error_code int16 5+ = 0 tag 0
    num_partitions int32 5+ = -1
    replication_factor int16 5+ = -1
    configs []?5+ 5+ = []
      name string
      value string?
      read_only bool
      config_source int8 = -1
      is_sensitive bool

api 20 DELETE_TOPICS versions 0-6 flexible 4
request
  topics [] 6+
    name string? = null
    topic_id uuid = zero
  topic_names []string 0-5
  timeout_ms int32
response
  throttle_time_ms int32 1+ = 0
  responses []
    name string?6+
    topic_id uuid 6+ = zero
    error_code int16
    error_message string? 5+ = null

api 21 DELETE_RECORDS versions 0-2 flexible 2
request
  topics []
    name string
    partitions []
      partition_index int32
      offset int64
  timeout_ms int32
response
  throttle_time_ms int32 = 0
  topics []
    name string
    partitions []
      partition_index int32
      low_watermark int64
      error_code int16

api 22 INIT_PRODUCER_ID versions 0-5 flexible 2
request
  transactional_id string? = null
  transaction_timeout_ms int32
  producer_id int64 3+ = -1
  producer_epoch int16 3+ = -1
response
  throttle_time_ms int32 = 0
  error_code int16
  producer_id int64 = -1
  producer_epoch int16 = -1

api 23 OFFSET_FOR_LEADER_EPOCH versions 0-4 flexible 4
request
  replica_id int32 3+ = -2
  topics []
    topic string
    partitions []
      partition int32
      current_leader_epoch int32 2+ = -1
      leader_epoch int32
response
  throttle_time_ms int32 2+ = 0
  topics []
    topic string
    partitions []
      error_code int16
      partition int32
      leader_epoch int32 1+ = -1
      end_offset int64 = -1

api 61 DESCRIBE_PRODUCERS versions 0-0 flexible 0
request
  topics []
    name string
    partition_indexes []int32
response
  throttle_time_ms int32 = 0
  topics []
    name string
    partitions []
      partition_index int32
      error_code int16
      error_message string? = null
      active_producers []
        producer_id int64
        producer_epoch int32
        last_sequence int32 = -1
        last_timestamp int64 = -1
        coordinator_epoch int32
        current_txn_start_offset int64 = -1

api 67 ALLOCATE_PRODUCER_IDS versions 0-0 flexible 0
request
  broker_id int32
  broker_epoch int64 = -1
response
  throttle_time_ms int32 = 0
  error_code int16
  producer_id_start int64
  producer_id_len int32
"""


class ApiKey(IntEnum):
    """The APIs of the table. Source: `ApiKeys`."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    FIND_COORDINATOR = 10
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_PRODUCERS = 61
    ALLOCATE_PRODUCER_IDS = 67


@dataclass(frozen=True, slots=True)
class Versions:
    """An inclusive range of versions; `first > last` is the empty one."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

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


@dataclass(frozen=True, slots=True)
class Field:
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
        return replace(self, is_array=False, nullable=_NEVER, tag=None)


@dataclass(frozen=True, slots=True)
class Message:
    """One direction of one API, or a header."""

    name: str
    versions: Versions
    flexible: int
    fields: tuple[Field, ...]


_CONSTANTS: Final[dict[str, Default]] = {
    "null": None,
    "true": True,
    "false": False,
    "zero": ZERO_UUID,
    '""': "",
}
_LINE: Final = re.compile(
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
    match = _LINE.fullmatch(line)
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


def _parse_table(text: str) -> dict[tuple[int | str, str], Message]:
    messages: dict[tuple[int | str, str], Message] = {}
    lines = [line for line in text.splitlines() if line]
    key: int | str = ""
    name, versions, flexible = "", _NEVER, 0
    while lines:
        word, *rest = lines.pop(0).split()
        if rest:
            key = int(rest[0]) if word == "api" else word
            name = rest[1] if word == "api" else f"{rest[0]}_header"
            first, _, last = rest[-3].partition("-")
            versions, flexible = Versions(int(first), int(last)), int(rest[-1])
            word = rest[0]
        if lines[0].startswith("  "):
            title = name if key == "header" else f"{name} {word}"
            fields = _parse_fields(lines, 2)
            messages[key, word] = Message(title, versions, flexible, fields)
    return messages


MESSAGES: Final = MappingProxyType(_parse_table(TABLE))
"""`(api_key, "request" | "response")` or `("header", ...)` to its `Message`."""

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
