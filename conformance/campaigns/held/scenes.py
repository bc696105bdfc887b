"""The valid requests from which cases are derived, with the state of the broker that each needs.

Four rules:

1. A text `$name` in a body is a symbol: a value from an earlier answer, or a name that no other
   case has.
2. A field that no scene mentions has its default, or the value of `PLAIN` for its name, or a value
   for its type. So an API that is new in the table of schemas has a scene by itself.
3. A scene names changed fields by their paths, without indices.
4. The steps that a symbol needs are taken before the request, in the order of `STEPS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from conformance.campaigns.held.preparation import HEARTBEAT, NOTHING, QUOTA, UPSERTION
from impl.protocol.schemas import ApiKey

METADATA_TOPIC: Final = "__cluster_metadata"
OFFSETS_TOPIC: Final = "__consumer_offsets"


class Scene(NamedTuple):
    """A valid request: fields that differ from `PLAIN`, and steps beyond those of its symbols."""

    changes: Mapping[str, Any] = NOTHING
    steps: tuple[str, ...] = ()


PLAIN: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "topic": "$topic",
        "topic_name": "$topic",
        "topic_names": ["$topic"],
        "topic_id": "$topic_id",
        "name": "$topic",
        "group_id": "$group",
        "groups_names": ["$group"],
        "group_ids": ["$group"],
        "coordinator_keys": ["$group"],
        "key": "$group",
        "member_id": "$member_id",
        "transactional_id": "$transactional_id",
        "transactional_ids": ["$transactional_id"],
        "producer_id": "$producer_id",
        "records": "$records",
        "max_bytes": 1_000_000,
        "partition_max_bytes": 1_000_000,
        "max_wait_ms": 1,
        "min_bytes": 1,
        "acks": -1,
        "replica_id": -1,
        "timeout_ms": 5_000,
        "transaction_timeout_ms": 60_000,
        "session_timeout_ms": 6_000,
        "rebalance_timeout_ms": 5_000,
        "committed_offset": 1,
        "committed_metadata": "m",
        "isolation_level": 0,
        "fetch_offset": 0,
    }
)
"""Values by the name of the field."""


_TRANSACTIONAL: Final = {"transactional_id": "$transactional_id"}
_OF_TRANSACTION: Final = {
    **_TRANSACTIONAL,
    "topics.partitions.records": "$transactional_records",
}
_JOINING: Final = {
    "member_id": "",
    "rebalance_timeout_ms": 500,
    "protocol_type": "consumer",
    "protocols.name": "range",
    "protocols.metadata": b"\0\1",
    "reason": "why",
}
_ACL: Final = {
    "resource_type": 2,
    "resource_type_filter": 2,
    "resource_pattern_type": 3,
    "pattern_type_filter": 3,
    "operation": 3,
    "permission_type": 3,
}
_ACL_FIELDS: Final = {
    "resource_name": "$topic",
    "resource_name_filter": "$topic",
    "principal": "User:a",
    "principal_filter": "User:a",
    "host": "*",
    "host_filter": "*",
}
_ACL_ROW: Final = {**_ACL, **_ACL_FIELDS}
_TOPIC_RESOURCE: Final = {"resources.resource_type": 2, "resources.resource_name": "$topic"}
_SETTING: Final = {
    "resources.configs.name": "retention.ms",
    "resources.configs.value": "1000",
}


def _rows(prefix: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{prefix}.{name}": value for name, value in changes.items()}


SCENES: Final[Mapping[ApiKey, Mapping[str, Scene]]] = MappingProxyType(
    {
        ApiKey.PRODUCE: {
            "plain": Scene(),
            "acks=1": Scene({"acks": 1}),
            "acks=0": Scene({"acks": 0}),
            "idempotent": Scene({"topics.partitions.records": "$idempotent_records"}),
            "transactional": Scene(_OF_TRANSACTION, ("transaction",)),
            "unannounced": Scene(_OF_TRANSACTION),
        },
        ApiKey.FETCH: {
            "plain": Scene(steps=("records",)),
            "at end": Scene({"topics.partitions.fetch_offset": 3}, ("records",)),
            "session": Scene({"session_epoch": 0}, ("records",)),
            "forgetting": Scene({"forgotten_topics_data": [{"partitions": [0]}]}, ("records",)),
            "open transaction": Scene(
                {"isolation_level": 1, "topics.partitions.fetch_offset": 0},
                ("producer", "transaction", "transactional records"),
            ),
        },
        ApiKey.LIST_OFFSETS: {
            f"timestamp={timestamp}": Scene(
                {"topics.partitions.timestamp": timestamp}, ("records",)
            )
            for timestamp in (-1, -2, -3, -4, -5, -6, 1000, 2001, 9000)
        },
        ApiKey.METADATA: {
            "plain": Scene(),
            "by id": Scene({"topics.name": None, "topics.topic_id": "$topic_id"}),
            "name and id": Scene({"topics.topic_id": "$topic_id"}),
            "operations": Scene(
                {
                    "include_cluster_authorized_operations": True,
                    "include_topic_authorized_operations": True,
                }
            ),
        },
        ApiKey.OFFSET_COMMIT: {
            "plain": Scene({"member_id": ""}),
            "member": Scene({"generation_id_or_member_epoch": 1}),
            "consumer": Scene(
                {"generation_id_or_member_epoch": 1, "member_id": "$consumer"}, ("consumer",)
            ),
        },
        ApiKey.OFFSET_FETCH: {
            "plain": Scene(steps=("offset",)),
            "all": Scene({"topics": None, "groups.topics": None}, ("offset",)),
            "consumer": Scene(
                {"groups.member_id": "$consumer", "groups.member_epoch": 1}, ("consumer",)
            ),
        },
        ApiKey.FIND_COORDINATOR: {
            "plain": Scene(),
            "transaction": Scene(
                {
                    "key_type": 1,
                    "key": "$transactional_id",
                    "coordinator_keys": ["$transactional_id"],
                }
            ),
            "share": Scene({"key_type": 2}),
        },
        ApiKey.JOIN_GROUP: {
            "plain": Scene(_JOINING),
            "static": Scene(_JOINING | {"group_instance_id": "$instance"}),
            "rejoin": Scene(_JOINING | {"member_id": "$member_id"}),
            "other protocol": Scene(
                _JOINING | {"member_id": "$member_id", "protocols.name": "roundrobin"}
            ),
        },
        ApiKey.HEARTBEAT: {"plain": Scene({"generation_id": 1})},
        ApiKey.LEAVE_GROUP: {"plain": Scene({"members.member_id": "$member_id"})},
        ApiKey.SYNC_GROUP: {
            "plain": Scene(
                {
                    "generation_id": 1,
                    "protocol_type": "consumer",
                    "protocol_name": "range",
                    "assignments.assignment": b"\0\3",
                }
            ),
            "joining": Scene(
                {
                    "generation_id": 1,
                    "protocol_type": "consumer",
                    "protocol_name": "range",
                    "assignments.assignment": b"\0\3",
                },
                ("joining",),
            ),
        },
        ApiKey.DESCRIBE_GROUPS: {
            "plain": Scene({"groups": ["$group"]}, ("topic", "offset")),
            "member": Scene({"groups": ["$group"]}, ("member",)),
            "consumer": Scene({"groups": ["$group"]}, ("topic", "consumer")),
            "operations": Scene(
                {"groups": ["$group"], "include_authorized_operations": True}, ("topic", "offset")
            ),
        },
        ApiKey.LIST_GROUPS: {
            "plain": Scene(
                {"states_filter": ["Empty"], "types_filter": ["classic"]}, ("topic", "offset")
            ),
            "all": Scene({"states_filter": [], "types_filter": []}, ("topic", "member")),
            "consumer": Scene(
                {"states_filter": [], "types_filter": ["consumer"]}, ("topic", "consumer")
            ),
            "words": Scene(
                {"states_filter": ["stable"], "types_filter": ["CLASSIC"]}, ("topic", "member")
            ),
        },
        ApiKey.SASL_HANDSHAKE: {"plain": Scene({"mechanism": "PLAIN"})},
        ApiKey.API_VERSIONS: {
            "plain": Scene({"client_software_name": "c", "client_software_version": "1"})
        },
        ApiKey.CREATE_TOPICS: {
            "plain": Scene(
                {
                    "topics.name": "$new_topic",
                    "topics.num_partitions": 2,
                    "topics.replication_factor": 1,
                }
            ),
            "defaults": Scene(
                {
                    "topics.name": "$new_topic",
                    "topics.num_partitions": -1,
                    "topics.replication_factor": -1,
                }
            ),
            "assigned": Scene(
                {
                    "topics.name": "$new_topic",
                    "topics.num_partitions": -1,
                    "topics.replication_factor": -1,
                    "topics.assignments": [{"partition_index": 0, "broker_ids": [1]}],
                }
            ),
            "configured": Scene(
                {
                    "topics.name": "$new_topic",
                    "topics.num_partitions": 1,
                    "topics.replication_factor": 1,
                    "topics.configs": [{"name": "retention.ms", "value": "1000"}],
                }
            ),
            "existing": Scene({"topics.num_partitions": 1, "topics.replication_factor": 1}),
        },
        ApiKey.DELETE_TOPICS: {
            "plain": Scene({"topics.name": "$topic"}),
            "by id": Scene({"topics.topic_id": "$topic_id"}),
            "name and id": Scene({"topics.name": "$topic", "topics.topic_id": "$topic_id"}),
        },
        ApiKey.DELETE_RECORDS: {
            "plain": Scene({"topics.partitions.offset": 1}, ("records",)),
            "all": Scene({"topics.partitions.offset": -1}, ("records",)),
        },
        ApiKey.INIT_PRODUCER_ID: {
            "plain": Scene(_TRANSACTIONAL),
            "idempotent": Scene(),
            "again": Scene(_TRANSACTIONAL | {"producer_id": "$producer_id", "producer_epoch": 0}),
            "fencing": Scene(_TRANSACTIONAL, ("topic", "producer", "transaction")),
        },
        ApiKey.OFFSET_FOR_LEADER_EPOCH: {"plain": Scene(steps=("records",))},
        ApiKey.ADD_PARTITIONS_TO_TXN: {
            "plain": Scene(),
            "verify": Scene({"transactions.verify_only": True}),
            "verify added": Scene({"transactions.verify_only": True}, ("transaction",)),
        },
        ApiKey.ADD_OFFSETS_TO_TXN: {"plain": Scene()},
        ApiKey.END_TXN: {
            "plain": Scene({"committed": True}, ("topic", "producer", "transaction")),
            "abort": Scene({"committed": False}, ("topic", "producer", "transaction")),
            "empty": Scene({"committed": True}),
        },
        ApiKey.WRITE_TXN_MARKERS: {
            "plain": Scene(
                {"markers.transaction_result": True},
                ("producer", "transaction", "transactional records"),
            ),
            "without transaction": Scene({"markers.transaction_result": True}),
        },
        ApiKey.TXN_OFFSET_COMMIT: {
            "plain": Scene(steps=("transaction of group",)),
            "unannounced": Scene(),
            "member": Scene(
                {"generation_id": 1, "member_id": "$member_id"}, ("transaction of group",)
            ),
        },
        ApiKey.DESCRIBE_ACLS: {"plain": Scene(_ACL_ROW)},
        ApiKey.CREATE_ACLS: {"plain": Scene(_rows("creations", _ACL_ROW))},
        ApiKey.DELETE_ACLS: {"plain": Scene(_rows("filters", _ACL_ROW))},
        ApiKey.DESCRIBE_CONFIGS: {
            "plain": Scene(_TOPIC_RESOURCE | {"resources.configuration_keys": ["retention.ms"]}),
            "unknown key": Scene(_TOPIC_RESOURCE | {"resources.configuration_keys": ["nope"]}),
            "broker": Scene(
                {
                    "resources.resource_type": 4,
                    "resources.resource_name": "1",
                    "resources.configuration_keys": ["num.partitions"],
                }
            ),
        },
        ApiKey.ALTER_CONFIGS: {"plain": Scene(_TOPIC_RESOURCE | _SETTING)},
        ApiKey.INCREMENTAL_ALTER_CONFIGS: {"plain": Scene(_TOPIC_RESOURCE | _SETTING)},
        ApiKey.ALTER_REPLICA_LOG_DIRS: {
            "plain": Scene({"dirs.path": "$directory"}),
            "unknown": Scene({"dirs.path": "/nowhere"}),
        },
        ApiKey.DESCRIBE_LOG_DIRS: {"plain": Scene(steps=("records",))},
        ApiKey.SASL_AUTHENTICATE: {"plain": Scene({"auth_bytes": b"\0a\0b"})},
        ApiKey.CREATE_PARTITIONS: {
            "plain": Scene({"topics.count": 3, "topics.assignments": None}),
            "assigned": Scene({"topics.count": 3, "topics.assignments": [{"broker_ids": [1]}]}),
        },
        ApiKey.CREATE_DELEGATION_TOKEN: {
            "plain": Scene(
                {
                    "owner_principal_type": "User",
                    "owner_principal_name": "a",
                    "renewers.principal_type": "User",
                    "renewers.principal_name": "b",
                }
            )
        },
        ApiKey.DESCRIBE_DELEGATION_TOKEN: {
            "plain": Scene({"owners.principal_type": "User", "owners.principal_name": "a"})
        },
        ApiKey.DELETE_GROUPS: {
            "plain": Scene(steps=("topic", "offset")),
            "member": Scene(steps=("member",)),
            "consumer": Scene(steps=("topic", "consumer")),
        },
        ApiKey.OFFSET_DELETE: {
            "plain": Scene(steps=("offset",)),
            "member": Scene(steps=("member",)),
            "consumer": Scene(steps=("consumer",)),
        },
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: {
            "plain": Scene({"topics.partitions.replicas": [1]}),
            "cancel": Scene({"topics.partitions.replicas": None}),
        },
        ApiKey.LIST_PARTITION_REASSIGNMENTS: {
            "plain": Scene({"topics": [{"name": "$topic", "partition_indexes": [0]}]})
        },
        ApiKey.DESCRIBE_CLIENT_QUOTAS: {
            "plain": Scene(
                {
                    "components.entity_type": "user",
                    "components.match_type": 0,
                    "components.match": "$user",
                },
                ("quota",),
            ),
            "specified": Scene(
                {
                    "components.entity_type": "user",
                    "components.match_type": 2,
                    "components.match": None,
                },
                ("quota",),
            ),
            "default": Scene(
                {
                    "components.entity_type": "user",
                    "components.match_type": 1,
                    "components.match": None,
                },
                ("quota",),
            ),
        },
        ApiKey.ALTER_CLIENT_QUOTAS: {
            "plain": Scene({"entries": [QUOTA]}),
            "client": Scene(
                {
                    "entries": [
                        {
                            "entity": [
                                {"entity_type": "user", "entity_name": "$user"},
                                {"entity_type": "client-id", "entity_name": "$client"},
                            ],
                            "ops": [{"key": "request_percentage", "value": 2.5, "remove": False}],
                        }
                    ]
                }
            ),
            "removed": Scene(
                {
                    "entries.entity.entity_type": "user",
                    "entries.entity.entity_name": "$user",
                    "entries.ops.key": "producer_byte_rate",
                    "entries.ops.value": 0.0,
                    "entries.ops.remove": True,
                },
                ("quota",),
            ),
        },
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: {
            "plain": Scene({"users.name": "$user"}, ("user",))
        },
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {
            "plain": Scene({"deletions": [], "upsertions": [UPSERTION]}),
            "deletion": Scene(
                {"deletions": [{"name": "$user", "mechanism": 1}], "upsertions": []}, ("user",)
            ),
        },
        ApiKey.DESCRIBE_QUORUM: {"plain": Scene({"topics.topic_name": METADATA_TOPIC})},
        ApiKey.UPDATE_FEATURES: {
            "plain": Scene(
                {
                    "feature_updates.feature": "transaction.version",
                    "feature_updates.max_version_level": 2,
                }
            ),
            "group": Scene(
                {
                    "feature_updates.feature": "group.version",
                    "feature_updates.max_version_level": 1,
                }
            ),
            "unknown": Scene(
                {"feature_updates.feature": "nope", "feature_updates.max_version_level": 1}
            ),
        },
        ApiKey.DESCRIBE_CLUSTER: {
            "plain": Scene(),
            "operations": Scene({"include_cluster_authorized_operations": True}),
        },
        ApiKey.DESCRIBE_PRODUCERS: {
            "plain": Scene(steps=("records",)),
            "transaction": Scene(steps=("producer", "transaction", "transactional records")),
        },
        ApiKey.UNREGISTER_BROKER: {"plain": Scene({"broker_id": 99})},
        ApiKey.DESCRIBE_TRANSACTIONS: {
            "plain": Scene(steps=("topic", "producer", "transaction")),
            "empty": Scene(steps=("producer",)),
        },
        ApiKey.LIST_TRANSACTIONS: {
            "plain": Scene(
                {
                    "state_filters": ["Ongoing"],
                    "producer_id_filters": ["$producer_id"],
                },
                ("topic", "producer", "transaction"),
            ),
            "pattern": Scene(
                {
                    "state_filters": [],
                    "producer_id_filters": ["$producer_id"],
                    "transactional_id_pattern": ".*",
                },
                ("topic", "producer", "transaction"),
            ),
        },
        ApiKey.CONSUMER_GROUP_HEARTBEAT: {
            "plain": Scene(HEARTBEAT),
            "member": Scene(HEARTBEAT | {"member_epoch": 1}, ("topic", "consumer")),
            "leaving": Scene(
                {"group_id": "$group", "member_id": "$consumer", "member_epoch": -1},
                ("topic", "consumer"),
            ),
            "static": Scene(HEARTBEAT | {"instance_id": "$instance"}),
            "owning": Scene(
                HEARTBEAT
                | {
                    "member_epoch": 1,
                    "topic_partitions": [{"topic_id": "$topic_id", "partitions": [0]}],
                },
                ("topic", "consumer"),
            ),
            "regex": Scene(
                HEARTBEAT | {"subscribed_topic_names": None, "subscribed_topic_regex": "nope.*"}
            ),
            "classic": Scene(HEARTBEAT, ("member",)),
        },
        ApiKey.CONSUMER_GROUP_DESCRIBE: {
            "plain": Scene(steps=("topic", "consumer")),
            "classic": Scene(steps=("member",)),
            "operations": Scene({"include_authorized_operations": True}, ("topic", "consumer")),
        },
        ApiKey.LIST_CONFIG_RESOURCES: {"plain": Scene({"resource_types": [2]})},
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: {
            "plain": Scene(),
            "cursor": Scene({"cursor": {"topic_name": "$topic", "partition_index": 1}}),
            "limit": Scene({"response_partition_limit": 1}),
        },
    }
)
"""The valid requests of each API, the plainest first."""
PLAINEST: Final[Mapping[str, Scene]] = MappingProxyType({"plain": Scene()})

HURRIED: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DELETE_RECORDS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.UPDATE_FEATURES,
    }
)
"""APIs that are not tried with a time-out of 1 ms: whether they finish within it is chance."""

READING: Final = frozenset(
    {
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.OFFSET_FETCH,
        ApiKey.FIND_COORDINATOR,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.API_VERSIONS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.FETCH,
    }
)
"""APIs that change nothing: the cases of a scene share their symbols."""
