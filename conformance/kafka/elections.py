"""Who leads, decided at once: ElectLeaders, AlterPartitionReassignments and UnregisterBroker.

Written by hand, in versions 1 (KIP-460), 0 (KIP-455) and 0 (KIP-631), as the table of messages is
that of clients.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from conformance.kafka.admin import TopicPartition
from conformance.kafka.connection import UNNUMBERED, Connection
from conformance.kafka.errors import RequestRefused
from impl.protocol.errors import ErrorCode

_ELECT_LEADERS: Final = (43, 1)
_ALTER_REASSIGNMENTS: Final = (45, 0)
_UNREGISTER_BROKER: Final = (64, 0)
_PREFERRED: Final = 0
_TIMEOUT_MS: Final = 10_000
_NO_TAGS: Final = bytes([0])
_ONE_ROW: Final = bytes([2])  # the length of a compact array, and one

_HEADER: Final = struct.Struct(">hhi")
_LENGTH: Final = struct.Struct(">h")
_NUMBER: Final = struct.Struct(">i")
_ELECTED: Final = struct.Struct(">4xih")  # behind the correlation id: throttle time, error
_ONE: Final = struct.Struct(">ih")  # partition, error
_REASSIGNED: Final = struct.Struct(">4xx4xh")  # behind tags and the throttle time
_MESSAGE_AND_COUNT: Final = 2
_UNREGISTERED: Final = struct.Struct(">4xxih")  # and behind tags


def elect_preferred(connection: Connection, partition: TopicPartition) -> None:
    """Let the first of a partition's replicas lead it, which must be in sync.

    Raises RequestRefused, also where it leads already; and as `Connection.ask`.
    """
    topic, index = partition
    one_topic = _NUMBER.pack(1) + _text(topic) + _NUMBER.pack(1) + _NUMBER.pack(index)
    body = bytes([_PREFERRED]) + one_topic + _NUMBER.pack(_TIMEOUT_MS)
    answer = connection.ask_bytes(_header(*_ELECT_LEADERS) + body)
    error = _election_error(answer, topic)
    if error:
        raise RequestRefused(f"election of {topic}-{index}: error {error}")


def order_replicas(
    connection: Connection, partition: TopicPartition, replicas: Sequence[int]
) -> None:
    """Put the replicas of a partition in another order; who leads it goes on leading.

    Raises RequestRefused, and as `Connection.ask`.
    """
    topic, index = partition
    numbers = b"".join(map(_NUMBER.pack, replicas))
    ordered = _NUMBER.pack(index) + bytes([len(replicas) + 1]) + numbers
    rows = _ONE_ROW + _compact(topic) + _ONE_ROW + ordered + 3 * _NO_TAGS
    body = _NUMBER.pack(_TIMEOUT_MS) + rows
    answer = connection.ask_bytes(_header(*_ALTER_REASSIGNMENTS) + _NO_TAGS + body)
    (error,) = _REASSIGNED.unpack_from(answer)
    if not error:
        at = _REASSIGNED.size + _MESSAGE_AND_COUNT + len(_compact(topic)) + len(_ONE_ROW)
        _, error = _ONE.unpack_from(answer, at)
    if error:
        raise RequestRefused(f"order of {topic}-{index}: error {error}, {answer!r}")


def unregister(connection: Connection, node_id: int) -> None:
    """Forget a broker that is gone (KRaft): others lead at once what it led.

    One that is there all the same must be started again. Raises RequestRefused, and as
    `Connection.ask`.
    """
    header = _header(*_UNREGISTER_BROKER) + _NO_TAGS
    answer = connection.ask_bytes(header + _NUMBER.pack(node_id) + _NO_TAGS)
    _, error = _UNREGISTERED.unpack_from(answer)
    if error:
        raise RequestRefused(f"broker {node_id} cannot be forgotten: error {error}")


def _election_error(answer: bytes, topic: str) -> int:
    """That of the whole, else that of the one partition; an answer without it is one of none."""
    _, whole = _ELECTED.unpack_from(answer)
    if whole:
        return int(whole)
    at = _ELECTED.size
    (topics,) = _NUMBER.unpack_from(answer, at)
    if not topics:
        return ErrorCode.NONE
    at += _NUMBER.size + _LENGTH.size + len(topic.encode()) + _NUMBER.size
    return int(_ONE.unpack_from(answer, at)[1])


def _header(api_key: int, version: int) -> bytes:
    return _HEADER.pack(api_key, version, UNNUMBERED) + _text("kafka-eos")


def _compact(value: str) -> bytes:
    data = value.encode()
    return bytes([len(data) + 1]) + data


def _text(value: str) -> bytes:
    data = value.encode()
    return _LENGTH.pack(len(data)) + data
