"""Which module handles which API.

A module is imported with the first request that it handles: most brokers are asked for few APIs,
and a broker that has just started answers before it has read what it may never need.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import Final

from impl.broker.handler import Handler
from impl.protocol.schemas import ApiKey

MODULES: Final = MappingProxyType(
    {
        "api_versions": (ApiKey.API_VERSIONS,),
        "cluster_requests": (
            ApiKey.ALLOCATE_PRODUCER_IDS,
            ApiKey.DESCRIBE_CLUSTER,
            ApiKey.DESCRIBE_QUORUM,
            ApiKey.UNREGISTER_BROKER,
            ApiKey.UPDATE_FEATURES,
        ),
        "config_requests": (
            ApiKey.ALTER_CONFIGS,
            ApiKey.DESCRIBE_CONFIGS,
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            ApiKey.LIST_CONFIG_RESOURCES,
        ),
        "consumer_group_requests": (
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ),
        "group_requests": (
            ApiKey.OFFSET_COMMIT,
            ApiKey.OFFSET_FETCH,
            ApiKey.TXN_OFFSET_COMMIT,
        ),
        "membership_requests": (
            ApiKey.DELETE_GROUPS,
            ApiKey.DESCRIBE_GROUPS,
            ApiKey.HEARTBEAT,
            ApiKey.JOIN_GROUP,
            ApiKey.LEAVE_GROUP,
            ApiKey.LIST_GROUPS,
            ApiKey.OFFSET_DELETE,
            ApiKey.SYNC_GROUP,
        ),
        "metadata_requests": (
            ApiKey.CREATE_TOPICS,
            ApiKey.DELETE_TOPICS,
            ApiKey.DESCRIBE_PRODUCERS,
            ApiKey.METADATA,
        ),
        "partition_requests": (
            ApiKey.CREATE_PARTITIONS,
            ApiKey.DESCRIBE_LOG_DIRS,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ),
        "produce_requests": (ApiKey.PRODUCE,),
        "quota_requests": (
            ApiKey.ALTER_CLIENT_QUOTAS,
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ),
        "reads": (
            ApiKey.DELETE_RECORDS,
            ApiKey.FETCH,
            ApiKey.LIST_OFFSETS,
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ),
        "replica_requests": (
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            ApiKey.ALTER_REPLICA_LOG_DIRS,
            ApiKey.ELECT_LEADERS,
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ),
        "security_requests": (
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            ApiKey.CREATE_ACLS,
            ApiKey.CREATE_DELEGATION_TOKEN,
            ApiKey.DELETE_ACLS,
            ApiKey.DESCRIBE_ACLS,
            ApiKey.DESCRIBE_DELEGATION_TOKEN,
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            ApiKey.EXPIRE_DELEGATION_TOKEN,
            ApiKey.RENEW_DELEGATION_TOKEN,
            ApiKey.SASL_AUTHENTICATE,
            ApiKey.SASL_HANDSHAKE,
        ),
        "transaction_requests": (
            ApiKey.ADD_OFFSETS_TO_TXN,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            ApiKey.DESCRIBE_TRANSACTIONS,
            ApiKey.END_TXN,
            ApiKey.FIND_COORDINATOR,
            ApiKey.INIT_PRODUCER_ID,
            ApiKey.LIST_TRANSACTIONS,
            ApiKey.WRITE_TXN_MARKERS,
        ),
    }
)
"""The APIs of each module's `HANDLERS`."""

_MODULE_OF: Final = {api: module for module, apis in MODULES.items() for api in apis}

SERVED_APIS: Final = frozenset(_MODULE_OF)
"""What nodes are asked for."""


API_NAMES: Final = {key: key.name.title().replace("_", "") for key in ApiKey}
"""Kafka's names: Produce, InitProducerId, AddPartitionsToTxn."""


class _Handlers(dict[ApiKey, Handler]):
    """Those of the modules that were imported so far; a missing one imports its module."""

    def __missing__(self, api_key: ApiKey) -> Handler:
        self.update(import_module(f"impl.broker.{_MODULE_OF[api_key]}").HANDLERS)
        return self[api_key]


HANDLERS: Final[dict[ApiKey, Handler]] = _Handlers()
"""What handles a request to each of `SERVED_APIS`."""
