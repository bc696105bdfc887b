"""What consumers of a classic group tell each other: subscriptions, and assignments.

Brokers hand these bytes on unread, but where a group is converted (KIP-848). A version that is
newer than the newest one known is read as that; what comes after its fields is left out.
Source: `ConsumerProtocol`; release 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from impl.protocol.errors import TrailingBytes
from impl.protocol.fields import TopicPartition, topic_rows
from impl.protocol.message_form import Value
from impl.protocol.schemas import MESSAGES
from impl.protocol.state_records import decode_record, encode_record

CONSUMER_PROTOCOL: Final = "consumer"
"""The protocol type of consumers."""

_SUBSCRIPTION: Final = "CONSUMER_PROTOCOL_SUBSCRIPTION"
_ASSIGNMENT: Final = "CONSUMER_PROTOCOL_ASSIGNMENT"
_VERSION_SIZE: Final = 2
_NEWEST: Final = MESSAGES[_SUBSCRIPTION, "record"].versions.last

GroupProtocol = tuple[str, bytes]
"""The name of an assignor, and a member's metadata for it."""


class MemberSubscription(NamedTuple):
    """The topics that a member reads, the partitions that it has, and its rack."""

    topics: frozenset[str]
    owned: tuple[TopicPartition, ...] = ()
    rack_id: str | None = None


def read_version(data: bytes) -> int:
    """The version of a subscription or assignment, 0 to the newest one known."""
    return min(int.from_bytes(data[:_VERSION_SIZE], "big", signed=True), _NEWEST)


def decode_subscription(metadata: bytes) -> MemberSubscription:
    """What a member's metadata says. Raises `DecodeError`."""
    body = _decode(_SUBSCRIPTION, metadata)
    owned = tuple(_places(body["owned_partitions"]))
    return MemberSubscription(frozenset(body["topics"]), owned, body["rack_id"])


def decode_assignment(data: bytes) -> tuple[list[TopicPartition], bytes]:
    """A member's partitions, and what its assignor adds. Raises `DecodeError`."""
    body = _decode(_ASSIGNMENT, data)
    return list(_places(body["assigned_partitions"])), body["user_data"] or b""


def encode_assignment(places: Iterable[TopicPartition], version: int) -> bytes:
    """A member's partitions. Raises `EncodeError`."""
    rows = topic_rows(sorted(places), name="topic")
    return encode_record(_ASSIGNMENT, version, {"assigned_partitions": rows})


def _decode(name: str, data: bytes) -> Value:
    if len(data) >= _VERSION_SIZE:
        version = read_version(data).to_bytes(_VERSION_SIZE, "big", signed=True)
        data = version + data[_VERSION_SIZE:]
    try:
        return decode_record(name, data)[1]
    except TrailingBytes as error:
        return decode_record(name, data[: error.offset])[1]


def _places(rows: Iterable[Value]) -> Iterable[TopicPartition]:
    return ((row["topic"], index) for row in rows for index in row["partitions"])
