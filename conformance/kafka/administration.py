"""Changes to a running cluster: configs, feature levels, leaders.

Messages that `impl.protocol` does not have are a table here. Sources: the message definitions of
Kafka 4.x; KIP-339, KIP-455, KIP-460, KIP-584, KIP-631.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from conformance.kafka.admin import TopicPartition, check_error
from conformance.kafka.connection import UNNUMBERED, BrokerConnection
from impl.protocol.codegen import compile_decoder, compile_encoder
from impl.protocol.message_form import MessageForm, Value
from impl.protocol.schemas import MESSAGES, ApiKey, parse_table

_TABLE: Final = """
api 43 ELECT_LEADERS versions 1-1 flexible 2
request
  election_type int8
  topic_partitions []
    topic string
    partitions []int32
  timeout_ms int32
response
  throttle_time_ms int32
  error_code int16
  replica_election_results []
    topic string
    partition_result []
      partition_id int32
      error_code int16
      error_message string?

api 45 ALTER_PARTITION_REASSIGNMENTS versions 0-0 flexible 0
request
  timeout_ms int32
  topics []
    name string
    partitions []
      partition_index int32
      replicas []int32
response
  throttle_time_ms int32
  error_code int16
  error_message string?
  responses []
    name string
    partitions []
      partition_index int32
      error_code int16
      error_message string?

api 64 UNREGISTER_BROKER versions 0-0 flexible 0
request
  broker_id int32
response
  throttle_time_ms int32
  error_code int16
  error_message string?
"""
_MESSAGES: Final = parse_table(_TABLE)
_TIMEOUT_MS: Final = 10_000
_PREFERRED, _TOPIC, _BROKER, _SET, _UPGRADE, _SAFE_DOWNGRADE = 0, 2, 4, 0, 1, 2


def set_config(connection: BrokerConnection, node_id: int, name: str, value: str) -> None:
    """Set a dynamic config of the broker `node_id`, which answers before it uses the new value.

    Raises RequestRefused, and as `BrokerConnection.ask`.
    """
    _set(connection, _BROKER, str(node_id), name, value)


def set_topic_config(connection: BrokerConnection, topic: str, name: str, value: str) -> None:
    """The same, of a topic."""
    _set(connection, _TOPIC, topic, name, value)


def _set(
    connection: BrokerConnection, resource_type: int, resource: str, name: str, value: str
) -> None:
    configs = [{"name": name, "config_operation": _SET, "value": value}]
    row = {"resource_type": resource_type, "resource_name": resource, "configs": configs}
    body = {"resources": [row], "validate_only": False}
    answer = connection.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, body)
    kind = "broker" if resource_type == _BROKER else "topic"
    _check(answer, f"{name}={value} at {kind} {resource}")


def set_level(connection: BrokerConnection, feature: str, level: int, *, is_upgrade: bool) -> None:
    """Finalize a feature's level; the controller answers before brokers use it.

    Raises RequestRefused, and as `BrokerConnection.ask`.
    """
    kind = _UPGRADE if is_upgrade else _SAFE_DOWNGRADE
    update = {"feature": feature, "max_version_level": level, "upgrade_type": kind}
    body = {"timeout_ms": _TIMEOUT_MS, "feature_updates": [update]}
    _check(connection.ask(ApiKey.UPDATE_FEATURES, 1, body), f"{feature}={level}")


def elect_preferred(connection: BrokerConnection, partition: TopicPartition) -> None:
    """Elect the first of a partition's replicas, which must be in sync.

    Raises RequestRefused, also where it leads already; and as `BrokerConnection.ask`.
    """
    topic, index = partition
    row = {"topic": topic, "partitions": [index]}
    body = {"election_type": _PREFERRED, "topic_partitions": [row], "timeout_ms": _TIMEOUT_MS}
    _change(connection, 43, body, f"election of {topic}-{index}")


def order_replicas(
    connection: BrokerConnection, partition: TopicPartition, replicas: Sequence[int]
) -> None:
    """Put the replicas of a partition in another order; its leader stays.

    Raises RequestRefused, and as `BrokerConnection.ask`.
    """
    topic, index = partition
    rows = [{"partition_index": index, "replicas": replicas}]
    body = {"timeout_ms": _TIMEOUT_MS, "topics": [{"name": topic, "partitions": rows}]}
    _change(connection, 45, body, f"order of {topic}-{index}")


def unregister(connection: BrokerConnection, node_id: int) -> None:
    """Remove a broker that is gone from the cluster (KRaft): its partitions get leaders at once.

    A removed broker that still runs must be restarted. Raises RequestRefused, and as
    `BrokerConnection.ask`.
    """
    _change(connection, 64, {"broker_id": node_id}, f"broker {node_id} cannot be forgotten")


def _change(connection: BrokerConnection, api_key: int, body: Value, what: str) -> None:
    """Send one request of the table; its answer must name no error."""
    request, response = _MESSAGES[api_key, "request"], _MESSAGES[api_key, "response"]
    version = request.versions.first
    is_flexible = version >= request.flexible
    asked = MessageForm(MESSAGES["header", "request"], 1 + is_flexible, request, version)
    answered = MessageForm(MESSAGES["header", "response"], is_flexible, response, version)
    encode, decode = compile_encoder(asked), compile_decoder(answered)
    answer = connection.ask_bytes(encode(api_key, version, UNNUMBERED, "kafka-eos", body))
    _check(decode(answer)[1], what)


def _check(answer: Value, what: str) -> None:
    """Raises RequestRefused where an answer names an error, of the whole or of a row."""
    for error_code in _error_codes(answer):
        check_error(error_code, what)


def _error_codes(value: Value) -> Iterator[int]:
    for name, field in value.items():
        if name == "error_code":
            yield field
        for row in field if isinstance(field, list) else ():
            yield from _error_codes(row)
