"""A client for a broker of any release; it retries requests while the broker is not ready."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from conformance.adapters.brokers.kafka.connection import BrokerConnection
from conformance.adapters.brokers.kafka.errors import RequestRefused
from conformance.adapters.brokers.wire import BUSY
from impl.protocol.errors import ErrorCode
from impl.protocol.message_form import Value
from impl.protocol.schemas import ApiKey

READY_TIMEOUT_S: Final = 30.0
_PAUSE_S: Final = 0.02

_NOT_READY: Final = BUSY | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.INVALID_REPLICATION_FACTOR,
    ErrorCode.REBALANCE_IN_PROGRESS,
}

VERSIONS: Final = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.METADATA: 11,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 7,
    ApiKey.FIND_COORDINATOR: 3,
    ApiKey.JOIN_GROUP: 5,
    ApiKey.SYNC_GROUP: 3,
    ApiKey.DESCRIBE_GROUPS: 5,
    ApiKey.LIST_GROUPS: 4,
    ApiKey.CREATE_TOPICS: 5,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.ADD_OFFSETS_TO_TXN: 3,
    ApiKey.END_TXN: 3,
    ApiKey.TXN_OFFSET_COMMIT: 3,
    ApiKey.DESCRIBE_ACLS: 2,
    ApiKey.CREATE_ACLS: 2,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.CREATE_PARTITIONS: 3,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: 1,
    ApiKey.ALTER_CLIENT_QUOTAS: 1,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.DESCRIBE_PRODUCERS: 0,
    ApiKey.DESCRIBE_TRANSACTIONS: 0,
    ApiKey.LIST_TRANSACTIONS: 0,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 0,
    ApiKey.CONSUMER_GROUP_DESCRIBE: 0,
    ApiKey.LIST_CONFIG_RESOURCES: 1,
    ApiKey.API_VERSIONS: 3,
}
"""The version of each API's requests: one that 2.8 has, if it has the API."""

NEWEST: Final = {ApiKey.LIST_OFFSETS: 6}
"""The versions for brokers older than `VERSIONS`."""


class Client:
    """Requests on one connection, one after the other. `serves` has the versions that the broker
    serves.

    Raises what `BrokerConnection` raises, and RequestRefused for an error that stays.
    """

    def __init__(self, connection: BrokerConnection) -> None:
        self._connection = connection
        request = {"client_software_name": "kafka-eos", "client_software_version": "1"}
        keys = connection.ask(ApiKey.API_VERSIONS, 3, request)["api_keys"]
        self._newest = {row["api_key"]: row["max_version"] for row in keys}

    def has(self, api_key: ApiKey, version: int = 0) -> bool:
        """Whether the broker has this version of an API."""
        return bool(self._newest.get(api_key, -1) >= version)

    def ask(self, api_key: ApiKey, body: Value, version: int | None = None) -> Value:
        """The answer, once it has no retriable error. Raises RequestRefused."""
        wanted = VERSIONS[api_key] if version is None else version
        wanted = min(wanted, self._newest[api_key])
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            answer = self._connection.ask(api_key, wanted, body)
            errors = set(error_codes(answer))
            if not errors & _NOT_READY:
                break
            if time.monotonic() > deadline:
                raise RequestRefused(f"{api_key.name} {body}: {answer}")
            time.sleep(_PAUSE_S)
        return answer

    def send(self, api_key: ApiKey, body: Value) -> None:
        """Send a request without waiting for the answer."""
        self._connection.send(api_key, min(VERSIONS[api_key], self._newest[api_key]), body)

    def receive(self) -> Value:
        """The answer to the oldest request that was sent."""
        return self._connection.receive().body

    def change(self, api_key: ApiKey, body: Value, version: int | None = None) -> Value:
        """As `ask`, for a request that must succeed."""
        answer = self.ask(api_key, body, version)
        if any(error_codes(answer)):
            raise RequestRefused(f"{api_key.name} {body}: {answer}")
        return answer


def error_codes(value: Value) -> Iterator[int]:
    """All error codes of an answer."""
    for name, field in value.items():
        if name.endswith("error_code"):
            yield field
        elif isinstance(field, list):
            for row in field:
                if isinstance(row, dict):
                    yield from error_codes(row)
