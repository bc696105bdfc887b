"""The requests that bring a broker into the state for a case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from impl.protocol.schemas import ApiKey

Body = dict[str, Any]
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class PreparationRequest(NamedTuple):
    """A request that prepares a case. `brings` has the paths of values in its answer, by symbol."""

    api_key: ApiKey
    version: int
    body: Body
    brings: Mapping[str, tuple[str | int, ...]] = NOTHING


def create_topics(names: Iterable[str]) -> Body:
    """The body of a request that creates topics of one partition, which keep old records."""
    rows = [
        {
            "name": name,
            "num_partitions": 1,
            "replication_factor": 1,
            "configs": [{"name": "retention.ms", "value": "-1"}],
        }
        for name in names
    ]
    return {"topics": rows, "timeout_ms": 30_000}


def _produce(name: str, records: str, transactional_id: str | None = None) -> Body:
    rows = [{"index": 0, "records": records}]
    return {
        "transactional_id": transactional_id,
        "acks": -1,
        "timeout_ms": 5_000,
        "topics": [{"name": name, "partitions": rows}],
    }


def _find(key: str, key_type: int) -> Body:
    return {"key": key, "key_type": key_type}


_COMMITTED: Final = [
    {
        "name": "$topic",
        "partitions": [
            {"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"},
        ],
    }
]
_JOIN: Final[Body] = {
    "group_id": "$group",
    "session_timeout_ms": 30_000,
    "rebalance_timeout_ms": 500,
    "member_id": "",
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b"\0\1"}],
}
_SYNC: Final[Body] = {
    "group_id": "$group",
    "generation_id": 1,
    "member_id": "$member_id",
    "assignments": [{"member_id": "$member_id", "assignment": b"\0\2"}],
}
HEARTBEAT: Final[Body] = {
    "group_id": "$group",
    "member_id": "$consumer",
    "member_epoch": 0,
    "rebalance_timeout_ms": 5_000,
    "subscribed_topic_names": ["$topic"],
    "topic_partitions": [],
}
QUOTA: Final = {
    "entity": [{"entity_type": "user", "entity_name": "$user"}],
    "ops": [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}],
}
UPSERTION: Final = {
    "name": "$user",
    "mechanism": 1,
    "iterations": 4096,
    "salt": b"salt",
    "salted_password": b"password",
}

STEPS: Final[Mapping[str, tuple[PreparationRequest, ...]]] = MappingProxyType(
    {
        "topic": (
            PreparationRequest(
                ApiKey.CREATE_TOPICS,
                7,
                create_topics(["$topic"]),
                {"topic_id": ("topics", 0, "topic_id")},
            ),
        ),
        "records": (PreparationRequest(ApiKey.PRODUCE, 9, _produce("$topic", "$records")),),
        "offset": (
            PreparationRequest(ApiKey.FIND_COORDINATOR, 1, _find("$group", 0)),
            PreparationRequest(
                ApiKey.OFFSET_COMMIT,
                2,
                {"group_id": "$group", "member_id": "", "topics": _COMMITTED},
            ),
        ),
        "member": (
            PreparationRequest(ApiKey.FIND_COORDINATOR, 1, _find("$group", 0)),
            PreparationRequest(ApiKey.JOIN_GROUP, 3, _JOIN, {"member_id": ("member_id",)}),
            PreparationRequest(ApiKey.SYNC_GROUP, 2, _SYNC),
        ),
        "joining": (
            PreparationRequest(ApiKey.FIND_COORDINATOR, 1, _find("$group", 0)),
            PreparationRequest(ApiKey.JOIN_GROUP, 3, _JOIN, {"member_id": ("member_id",)}),
        ),
        "consumer": (
            PreparationRequest(ApiKey.FIND_COORDINATOR, 1, _find("$group", 0)),
            PreparationRequest(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, HEARTBEAT),
        ),
        "producer": (
            PreparationRequest(ApiKey.FIND_COORDINATOR, 1, _find("$transactional_id", 1)),
            PreparationRequest(
                ApiKey.INIT_PRODUCER_ID,
                2,
                {"transactional_id": "$transactional_id", "transaction_timeout_ms": 60_000},
                {"producer_id": ("producer_id",)},
            ),
        ),
        "transaction": (
            PreparationRequest(
                ApiKey.ADD_PARTITIONS_TO_TXN,
                3,
                {
                    "v3_and_below_transactional_id": "$transactional_id",
                    "v3_and_below_producer_id": "$producer_id",
                    "v3_and_below_producer_epoch": 0,
                    "v3_and_below_topics": [{"name": "$topic", "partitions": [0]}],
                },
            ),
        ),
        "transactional records": (
            PreparationRequest(
                ApiKey.PRODUCE,
                9,
                _produce("$topic", "$transactional_records", "$transactional_id"),
            ),
        ),
        "transaction of group": (
            PreparationRequest(
                ApiKey.ADD_OFFSETS_TO_TXN,
                3,
                {
                    "transactional_id": "$transactional_id",
                    "producer_id": "$producer_id",
                    "producer_epoch": 0,
                    "group_id": "$group",
                },
            ),
        ),
        "quota": (
            PreparationRequest(
                ApiKey.ALTER_CLIENT_QUOTAS, 1, {"entries": [QUOTA], "validate_only": False}
            ),
        ),
        "user": (
            PreparationRequest(
                ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
                0,
                {"deletions": [], "upsertions": [UPSERTION]},
            ),
        ),
        "directory": (
            PreparationRequest(
                ApiKey.DESCRIBE_LOG_DIRS,
                4,
                {"topics": []},
                {"directory": ("results", 0, "log_dir")},
            ),
        ),
    }
)
"""The steps that bring the broker into the state that a request needs."""

NEEDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "$topic": "topic",
        "$topic_id": "topic",
        "$member_id": "member",
        "$producer_id": "producer",
        "$transactional_records": "producer",
        "$directory": "directory",
    }
)
"""The step that each symbol needs; other symbols are only names."""
