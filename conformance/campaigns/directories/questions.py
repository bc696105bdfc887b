"""Asks a broker everything about the files that it serves; the answers are JSON.

Three rules:

1. Data that this start of the broker has written is asked without times, epochs and CRCs: a
   restarted coordinator ends prepared transactions, and no two brokers do that at the same time.
2. The answer is None if a release has no API for the question.
3. Aborted transactions behind the last stable offset are left out: Kafka's index is sparse, so it
   names some of them although the reader does not get their records.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from struct import Struct
from typing import Any, Final

from conformance.adapters.brokers.kafka.wait import poll
from conformance.campaigns.directories.client import Client
from conformance.campaigns.directories.script import BROKER, CLIENT_METRICS, GROUP, TOPIC
from impl.coordinator.placement import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from impl.log.checkpoint_files import format_id
from impl.protocol.control_records import read_marker
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import Isolation, Timestamp
from impl.protocol.message_form import Value
from impl.protocol.record_batch import CONTROL, MAGIC, decode_batch, read_header, whole_batches
from impl.protocol.schemas import ApiKey

Answers = dict[str, Any]

NEW: Final = "new"
RESOURCES: Final = ((BROKER, ""), (BROKER, "1"), (GROUP, "g"), (CLIENT_METRICS, "m"))
"""The resources, besides topics, whose settings are asked in all scenarios."""
_SETTLE_S: Final = 30.0
_FETCH_BYTES: Final = 1 << 20
_ANY: Final = 1
_DYNAMIC: Final = frozenset({1, 2, 3, 7, 8})
"""The sources of dynamic settings, in `ConfigSource`: topic, broker, all brokers, client metrics,
group."""
_MESSAGE: Final = Struct(">qi")
"""The beginning of a message of format 0 or 1: offset, and size of the rest."""
_MAGIC_AT: Final = 16
_PENDING: Final = ("PrepareCommit", "PrepareAbort", "Dead")


def ask_all(client: Client, since_ms: int) -> Answers:
    """All answers of a broker that was started at `since_ms`. Raises as `Client`."""
    topics = topics_of(client)
    await_coordinators(client, topics)
    ids = _settle_transactions(client)
    partitions = [
        (name, index) for name, topic in topics.items() for index in range(topic["partitions"])
    ]
    return {
        "topics": topics,
        "configs": _configs(client, [*((TOPIC, name) for name in topics), *RESOURCES]),
        "partitions": {
            f"{name}-{index}": _partition(client, name, index, since_ms)
            for name, index in partitions
        },
        "groups": _groups(client),
        "transactions": _transactions(client, ids),
        "acls": _acls(client),
        "scram": _scram(client),
        "quotas": _quotas(client),
        "next_producer_id": _next_producer_id(client),
    }


def await_topics(client: Client, names: Iterable[str]) -> None:
    """Wait until a restarted broker knows these topics. Raises TimeoutError."""
    wanted = set(names)
    found = poll(lambda: wanted - topics_of(client).keys(), lambda missing: not missing, _SETTLE_S)
    if found:
        raise TimeoutError(f"the broker does not know {', '.join(sorted(found))}")


def await_coordinators(client: Client, topics: Iterable[str]) -> None:
    """Wait until the coordinators of existing logs have read them."""
    if OFFSETS_TOPIC in topics:
        client.ask(ApiKey.OFFSET_FETCH, {"group_id": "g", "topics": [], "require_stable": False})
    if TRANSACTION_STATE_TOPIC in topics and client.has(ApiKey.DESCRIBE_TRANSACTIONS):
        client.ask(ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": ["T"]})


def topics_of(client: Client) -> Answers:
    """The topics with leaders; the result is complete once all topics have leaders."""
    body = {"topics": None, "allow_auto_topic_creation": False}
    rows = client.ask(ApiKey.METADATA, body)["topics"]
    return {
        row["name"]: {"id": format_id(row["topic_id"]), "partitions": len(row["partitions"])}
        for row in sorted(rows, key=lambda row: row["name"])
    }


def _configs(client: Client, resources: Iterable[tuple[int, str]]) -> Answers:
    """The settings of each resource; empty for a type of resource that the release does not
    have."""
    return {f"{kind}:{name}": _settings(client, kind, name) for kind, name in resources}


def _settings(client: Client, kind: int, name: str) -> dict[str, str]:
    row = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    [result] = client.ask(ApiKey.DESCRIBE_CONFIGS, {"resources": [row]})["results"]
    return {
        row["name"]: row["value"]
        for row in sorted(result["configs"], key=lambda row: row["name"])
        if row["config_source"] in _DYNAMIC
    }


# ---- partitions


def _partition(client: Client, name: str, index: int, since_ms: int) -> Answers:
    stable = _offset(client, name, index, Timestamp.LATEST, Isolation.READ_COMMITTED)[1]
    batches = [
        _batch(data, since_ms)
        for part in _fetch(client, name, index, Isolation.READ_UNCOMMITTED)
        for data in _split(part["records"] or b"")
    ]
    last_epoch = max((row[2] for row in batches if row[2] != NEW), default=-1)
    first_new = min((row[0] for row in batches if row[2] == NEW), default=None)
    ends = {epoch: _end_of(client, name, index, epoch) for epoch in range(last_epoch + 1)}
    return {
        "log_start_offset": _offset(client, name, index, Timestamp.EARLIEST)[1],
        "high_watermark": _offset(client, name, index, Timestamp.LATEST)[1],
        "last_stable_offset": stable,
        "max_timestamp": _max_timestamp(client, name, index, since_ms),
        "aborted": sorted(
            [row["producer_id"], row["first_offset"]]
            for part in _fetch(client, name, index, Isolation.READ_COMMITTED)
            for row in part["aborted_transactions"] or ()
            if row["first_offset"] < stable
        ),
        "batches": [row for row in batches if row[2] != NEW],
        "new_batches": sorted(row[3:] for row in batches if row[2] == NEW),
        "producers": _producers(client, name, index, since_ms),
        "epoch_ends": {
            str(epoch): [found, NEW if first_new is not None and end >= first_new else end]
            for epoch, (found, end) in ends.items()
        },
    }


def _offset(
    client: Client,
    name: str,
    index: int,
    timestamp: int,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> tuple[int, int]:
    """(timestamp, offset)."""
    row = {"partition_index": index, "timestamp": timestamp}
    topics = [{"name": name, "partitions": [row]}]
    body = {"replica_id": -1, "isolation_level": isolation, "topics": topics}
    [answer] = client.ask(ApiKey.LIST_OFFSETS, body)["topics"][0]["partitions"]
    return answer["timestamp"], answer["offset"]


def _max_timestamp(client: Client, name: str, index: int, since_ms: int) -> list[Any] | None:
    """KIP-734."""
    if not client.has(ApiKey.LIST_OFFSETS, 7):
        return None
    timestamp, offset = _offset(client, name, index, Timestamp.MAX)
    return [NEW, NEW] if timestamp >= since_ms else [timestamp, offset]


def _end_of(client: Client, name: str, index: int, epoch: int) -> list[int]:
    """The end of an epoch, in OffsetForLeaderEpoch: an epoch and an offset."""
    row = {"partition": index, "leader_epoch": epoch}
    body = {"replica_id": -2, "topics": [{"topic": name, "partitions": [row]}]}
    [answer] = client.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, body)["topics"][0]["partitions"]
    return [answer["leader_epoch"], answer["end_offset"]]


def _fetch(client: Client, name: str, index: int, isolation: Isolation) -> list[Value]:
    """All answers from the start of the log to its end."""
    offset = _offset(client, name, index, Timestamp.EARLIEST)[1]
    parts = []
    while True:
        row = {
            "partition": index,
            "fetch_offset": offset,
            "partition_max_bytes": _FETCH_BYTES,
        }
        body = {
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": _FETCH_BYTES,
            "isolation_level": isolation,
            "topics": [{"topic": name, "partitions": [row]}],
        }
        [part] = client.ask(ApiKey.FETCH, body)["responses"][0]["partitions"]
        parts.append(part)
        batches = _split(part["records"] or b"")
        if not batches:
            return parts
        last = batches[-1]
        is_old = last[_MAGIC_AT] < MAGIC
        offset = (_MESSAGE.unpack_from(last)[0] if is_old else read_header(last).last_offset) + 1


def _split(data: bytes) -> list[bytes]:
    """The whole batches of an answer, or its messages in a format before batches."""
    if len(data) > _MAGIC_AT and data[_MAGIC_AT] < MAGIC:
        return list(_messages(data))
    return [
        data[position : position + read_header(data, position).size_bytes]
        for position in whole_batches(data)
    ]


def _messages(data: bytes) -> Iterator[bytes]:
    position = 0
    while len(data) - position > _MESSAGE.size:
        end = position + _MESSAGE.size + _MESSAGE.unpack_from(data, position)[1]
        yield data[position:end]
        position = end


def _batch(data: bytes, since_ms: int) -> list[Any]:
    """Offsets, epoch, attributes, producer, its epoch and sequence, number of records, CRC.

    New batches may be in any order: a coordinator ends transactions in the order of a hash table.
    """
    if data[_MAGIC_AT] < MAGIC:
        offset, size = _MESSAGE.unpack_from(data)
        return [offset, offset, -1, f"magic {data[_MAGIC_AT]}", -1, -1, -1, 1, size]
    header = read_header(data)
    is_new = header.max_timestamp >= since_ms
    last: Any = header.crc
    if is_new and header.attributes & CONTROL:
        marker = read_marker(decode_batch(data).records[0])
        last = f"{NEW} {marker.control_type.name if marker else None}"
    elif is_new:
        last = NEW
    return [
        header.base_offset,
        header.last_offset,
        NEW if is_new else header.partition_leader_epoch,
        header.attributes,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.records_count,
        last,
    ]


def _producers(client: Client, name: str, index: int, since_ms: int) -> Answers:
    body = {"topics": [{"name": name, "partition_indexes": [index]}]}
    [answer] = client.ask(ApiKey.DESCRIBE_PRODUCERS, body)["topics"][0]["partitions"]
    return {
        str(row.pop("producer_id")): row
        | ({"last_timestamp": NEW, "coordinator_epoch": NEW} if _is_new(row, since_ms) else {})
        for row in sorted(answer["active_producers"], key=lambda row: row["producer_id"])
    }


def _is_new(producer: Value, since_ms: int) -> bool:
    return bool(producer["last_timestamp"] >= since_ms)


# ---- coordinators


def _settle_transactions(client: Client) -> list[str] | None:
    """The transactional ids, once no transaction is prepared any more."""
    if not client.has(ApiKey.LIST_TRANSACTIONS):
        return None

    def states() -> dict[str, str]:
        body: Value = {"state_filters": [], "producer_id_filters": []}
        rows = client.ask(ApiKey.LIST_TRANSACTIONS, body)["transaction_states"]
        return {row["transactional_id"]: row["transaction_state"] for row in rows}

    found = poll(states, lambda found: not set(found.values()) & set(_PENDING), _SETTLE_S)
    return sorted(found)


def _transactions(client: Client, ids: list[str] | None) -> Answers | None:
    if ids is None:
        return None
    body = {"transactional_ids": ids}
    rows = client.ask(ApiKey.DESCRIBE_TRANSACTIONS, body)["transaction_states"]
    return {
        row["transactional_id"]: {
            "state": row["transaction_state"],
            "timeout_ms": row["transaction_timeout_ms"],
            "start_time_ms": row["transaction_start_time_ms"],
            "producer_id": row["producer_id"],
            "producer_epoch": row["producer_epoch"],
            "partitions": sorted(
                f"{topic['topic']}-{index}"
                for topic in row["topics"]
                for index in topic["partitions"]
            ),
        }
        for row in rows
    }


def _groups(client: Client) -> Answers:
    rows = client.ask(ApiKey.LIST_GROUPS, {"states_filter": [], "types_filter": []}, 5)["groups"]
    return {
        row["group_id"]: {
            "protocol_type": row["protocol_type"],
            "state": row["group_state"],
            **_described(client, row),
            "offsets": _offsets(client, row["group_id"]),
        }
        for row in sorted(rows, key=lambda row: row["group_id"])
    }


def _described(client: Client, row: Value) -> Answers:
    if row.get("group_type", "").lower() == "consumer":
        return {"type": "consumer", **_consumer_group(client, row["group_id"])}
    body = {"groups": [row["group_id"]]}
    [group] = client.ask(ApiKey.DESCRIBE_GROUPS, body)["groups"]
    return {
        "protocol": group["protocol_data"],
        "members": sorted(
            [
                member["member_id"],
                member["group_instance_id"],
                member["client_id"],
                member["client_host"],
                member["member_metadata"].hex(),
                member["member_assignment"].hex(),
            ]
            for member in group["members"]
        ),
    }


def _consumer_group(client: Client, group_id: str) -> Answers:
    [group] = client.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, {"group_ids": [group_id]})["groups"]
    return {
        "epoch": group["group_epoch"],
        "assignment_epoch": group["assignment_epoch"],
        "assignor": group["assignor_name"],
        "members": [
            [
                member["member_id"],
                member["instance_id"],
                member["member_epoch"],
                member["client_id"],
                member["client_host"],
                member["subscribed_topic_names"],
                list(_assigned(member["assignment"])),
                list(_assigned(member["target_assignment"])),
            ]
            for member in sorted(group["members"], key=lambda member: member["member_id"])
        ],
    }


def _assigned(assignment: Value) -> Iterator[list[Any]]:
    for row in assignment["topic_partitions"]:
        yield [format_id(row["topic_id"]), row["topic_name"], row["partitions"]]


def _offsets(client: Client, group_id: str) -> Answers:
    """Stable offsets, and those that an open transaction would change (KIP-447)."""
    found: Answers = {}
    for name, require_stable in (("stable", True), ("all", False)):
        body = {"group_id": group_id, "topics": None, "require_stable": require_stable}
        rows = client.ask(ApiKey.OFFSET_FETCH, body)["topics"]
        found[name] = {
            f"{topic['name']}-{row['partition_index']}": [
                row["committed_offset"],
                row["committed_leader_epoch"],
                row["metadata"],
                ErrorCode(row["error_code"]).name,
            ]
            for topic in sorted(rows, key=lambda topic: topic["name"])
            for row in sorted(topic["partitions"], key=lambda row: row["partition_index"])
        }
    return found


# ---- access


def _acls(client: Client) -> list[Any]:
    body = {
        "resource_type_filter": _ANY,
        "resource_name_filter": None,
        "pattern_type_filter": _ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": _ANY,
        "permission_type": _ANY,
    }
    answer = client.ask(ApiKey.DESCRIBE_ACLS, body)
    return sorted(
        [row["resource_type"], row["resource_name"], row["pattern_type"], *acl.values()]
        for row in answer["resources"]
        for acl in row["acls"]
    )


def _scram(client: Client) -> Answers | None:
    if not client.has(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS):
        return None
    answer = client.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": None})
    return {
        row["user"]: sorted(
            [each["mechanism"], each["iterations"]] for each in row["credential_infos"]
        )
        for row in sorted(answer["results"], key=lambda row: row["user"])
    }


def _quotas(client: Client) -> Answers:
    body: Mapping[str, Any] = {"components": [], "strict": False}
    rows = client.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, dict(body))["entries"] or ()
    return {
        " ".join(
            f"{part['entity_type']}={part['entity_name']}"
            for part in sorted(row["entity"], key=lambda part: part["entity_type"])
        ): {value["key"]: value["value"] for value in sorted(row["values"], key=lambda v: v["key"])}
        for row in rows
    }


def _next_producer_id(client: Client) -> int:
    body = {"transactional_id": None, "transaction_timeout_ms": 60_000}
    return int(client.change(ApiKey.INIT_PRODUCER_ID, body)["producer_id"])


def now_ms() -> int:
    """The time at which a broker is started."""
    return time.time_ns() // 1_000_000
