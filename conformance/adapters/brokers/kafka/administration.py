"""Changes to a running cluster: configs, feature levels, leaders.

Messages that `impl.protocol` does not have are a table here. Sources: the message definitions of
Kafka 4.x; KIP-339, KIP-455, KIP-460, KIP-584, KIP-631.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from conformance.adapters.brokers.kafka.admin import TopicPartition, check_error
from conformance.adapters.brokers.kafka.connection import UNNUMBERED, BrokerConnection
from conformance.adapters.brokers.kafka.errors import RequestRefused
from conformance.adapters.brokers.kafka.wait import wait_until
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


_BARRIER: Final = {"entity_type": "user", "entity_name": "of a barrier"}
APPLIED_TIMEOUT_S: Final = 60.0

Ask = Callable[[ApiKey, int, dict[str, Any]], Any]
"""Sends a request to a broker: an API, a version, and the fields; returns the fields of the
answer."""


def await_applied(ask: Ask) -> None:
    """Wait until a broker applies everything that its controller has answered so far.

    A broker applies changes in order, in batches, and shows some changes of a batch before it acts
    on others. So this function makes two more changes, one after the other, without effect: a quota
    of a user that does not exist. When the broker shows the second change, it has applied the batch
    of the first. Raises RequestRefused, and as `ask`.
    """
    for is_set in (True, False):
        change = {"key": "producer_byte_rate", "value": 1e9, "remove": not is_set}
        body = {"entries": [{"entity": [_BARRIER], "ops": [change]}], "validate_only": False}
        _check(ask(ApiKey.ALTER_CLIENT_QUOTAS, 0, body), "a barrier")
        late = RequestRefused(f"a change is not applied after {APPLIED_TIMEOUT_S:.0f} s")
        wait_until(partial(_shows_barrier, ask, is_set), APPLIED_TIMEOUT_S, late)


def _shows_barrier(ask: Ask, is_set: bool) -> bool:
    match = {"entity_type": "user", "match_type": 0, "match": _BARRIER["entity_name"]}
    answer = ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, {"components": [match], "strict": True})
    _check({"error_code": answer["error_code"]}, "a barrier")
    return bool(answer["entries"]) == is_set


def set_config(connection: BrokerConnection, node_id: int, name: str, value: str) -> None:
    """Set a dynamic config of the broker `node_id`; the broker answers before it uses the new
    value.

    Raises RequestRefused, and as `BrokerConnection.ask`.
    """
    _set(connection, _BROKER, str(node_id), name, value)


def set_topic_config(connection: BrokerConnection, topic: str, name: str, value: str) -> None:
    """The same for a topic."""
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
    """Elect the preferred replica of a partition, its first; it must be in sync.

    Raises RequestRefused, also if it leads already; and as `BrokerConnection.ask`.
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
    """Remove a dead broker from the cluster (KRaft): its partitions get leaders at once.

    If the removed broker still runs, it must be restarted. Raises RequestRefused, and as
    `BrokerConnection.ask`.
    """
    _change(connection, 64, {"broker_id": node_id}, f"broker {node_id} cannot be forgotten")


def _change(connection: BrokerConnection, api_key: int, body: Value, what: str) -> None:
    """Send one request of the table, and check that its answer has no error."""
    request, response = _MESSAGES[api_key, "request"], _MESSAGES[api_key, "response"]
    version = request.versions.first
    is_flexible = version >= request.flexible
    asked = MessageForm(MESSAGES["header", "request"], 1 + is_flexible, request, version)
    answered = MessageForm(MESSAGES["header", "response"], is_flexible, response, version)
    encode, decode = compile_encoder(asked), compile_decoder(answered)
    answer = connection.ask_bytes(encode(api_key, version, UNNUMBERED, "kafka-eos", body))
    _check(decode(answer)[1], what)


def _check(answer: Value, what: str) -> None:
    """Raises RequestRefused if an answer, or a row of it, has an error."""
    for error_code in _error_codes(answer):
        check_error(error_code, what)


def _error_codes(value: Value) -> Iterator[int]:
    for name, field in value.items():
        if name == "error_code":
            yield field
        for row in field if isinstance(field, list) else ():
            yield from _error_codes(row)
