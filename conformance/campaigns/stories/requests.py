"""The requests of a client, and of brokers to each other, as verbs of stories."""

from __future__ import annotations

from typing import Any, Final

from conformance.adapters.brokers.kafka.admin import TopicPartition
from conformance.adapters.brokers.kafka.connection import WireRequest
from conformance.adapters.brokers.wire import (
    ALL_REPLICAS,
    TRANSACTION_TIMEOUT_MS,
    ClientIdentity,
    Conversation,
    GroupMembership,
    PerPartition,
    TxnMarker,
    WireCall,
    error_of,
)
from conformance.campaigns.stories.vocabulary import (
    NO,
    NOTHING_BELIEVED,
    Committed,
    Identity,
    Name,
    Yes,
    request,
)
from impl.protocol.errors import ErrorCode

OWN: Final = Name("its producer's")
"""The transactional id of a Produce, unless another is given."""


@request("InitProducerId", "coordinator", "init_producer_id_version")
def init_producer_id(
    c: Conversation,
    name: Name,
    *,
    believing: Identity = NOTHING_BELIEVED,
    timeout: int = TRANSACTION_TIMEOUT_MS,
) -> WireCall[Any]:
    """Ask for an identity; `timeout` in ms."""
    return c.init_producer_id(name, believing, timeout_ms=timeout)


@request("AddPartitionsToTxn", "coordinator", "add_partitions_version")
def add_partitions(
    c: Conversation, who: ClientIdentity, *partitions: TopicPartition, verify: Yes = NO
) -> WireCall[Any]:
    """Register partitions, or verify that they are registered."""
    return c.add_partitions(who, partitions, verify_only=verify)


@request("Produce", "leader", "produce_version")
def produce(
    c: Conversation,
    who: ClientIdentity,
    at: TopicPartition,
    sequence: int,
    value: str = "value",
    *,
    plain: Yes = NO,
    acks: int = ALL_REPLICAS,
    age: int = 0,
    named: Name | None = OWN,
) -> WireCall[Any]:
    """Write one record, made `age` ms ago; a `plain` batch is not transactional."""
    call = c.produce(who, at, sequence, value, is_transactional=not plain, acks=acks, age_ms=age)
    if named is OWN:
        return call
    body = {**call.request.body, "transactional_id": named}
    return WireCall(WireRequest(call.request.api_key, call.request.api_version, body), call.read)


@request("ProduceTogether", "leader", "produce_version")
def produce_together(
    c: Conversation,
    first: ClientIdentity,
    one: TopicPartition,
    second: ClientIdentity,
    other: TopicPartition,
) -> WireCall[Any]:
    """A batch of each of two producers, to two partitions of a topic, in one request in the name of
    the first."""
    asked = c.produce(first, one, 0, "value").request
    [topic] = asked.body["topics"]
    [more] = c.produce(second, other, 0, "value").request.body["topics"]
    both = {**topic, "partitions": topic["partitions"] + more["partitions"]}
    body = {**asked.body, "topics": [both]}
    return WireCall(WireRequest(asked.api_key, asked.api_version, body), _errors)


def _errors(body: Any) -> PerPartition:
    rows = [(topic["name"], row) for topic in body["topics"] for row in topic["partitions"]]
    found = {(name, row["index"]): error_of(row["error_code"]) for name, row in rows}
    return PerPartition(ErrorCode.NONE, found)


@request("AddOffsetsToTxn", "coordinator", "add_offsets_version")
def add_offsets(c: Conversation, who: ClientIdentity, group: str) -> WireCall[Any]:
    """Register the offsets of a group."""
    return c.add_offsets(who, group)


@request("TxnOffsetCommit", "group", "txn_offset_commit_version")
def txn_offset_commit(
    c: Conversation,
    who: ClientIdentity,
    group: str,
    at: TopicPartition,
    offset: int,
    *,
    generation: int = -1,
    member: str = "",
) -> WireCall[Any]:
    """Commit a group's offset of a partition."""
    group_id = "" if group == "empty" else group
    return c.txn_offset_commit(who, GroupMembership(group_id, generation, member), at, offset)


@request("EndTxn", "coordinator", "end_txn_version")
def end_txn(c: Conversation, who: ClientIdentity, outcome: Committed) -> WireCall[Any]:
    """Commit or abort."""
    return c.end_txn(who, outcome)


@request("WriteTxnMarkers", "leader", "write_txn_markers_version")
def write_txn_markers(
    c: Conversation,
    who: ClientIdentity,
    at: TopicPartition,
    outcome: Committed,
    *,
    coordinator: int = 0,
    transaction: int = 0,
) -> WireCall[Any]:
    """A coordinator's request to a leader, with a given coordinator epoch; `transaction` is the
    version of the transaction that it is about (KIP-1228)."""
    marker = TxnMarker(who.producer_id, who.producer_epoch, outcome, [at], coordinator, transaction)
    return c.write_txn_markers(marker)
