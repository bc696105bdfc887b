"""Administration of a broker under test: versions, topics, producer ids, producer states.

Each request has the oldest version that every release in the table serves. Only requests answered
with "not yet" are retried, for a bounded time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby, islice
from typing import Final

from conformance.adapters.brokers.kafka.connection import BrokerConnection, WireRequest
from conformance.adapters.brokers.kafka.errors import RequestRefused
from impl.protocol.errors import ErrorCode
from impl.protocol.message_form import Value
from impl.protocol.record_batch import Record, client_batch, encode_batch
from impl.protocol.schemas import ApiKey

READY_TIMEOUT_S: Final = 30.0
PARTITIONS_PER_REQUEST: Final = 500

_CREATE_TIMEOUT_MS: Final = 60_000  # hundreds of partitions on a busy machine
_PAUSE_S: Final = 0.02
_API_VERSIONS_VERSIONS: Final = (3, 0)  # 3 has the features; a broker before 2.4 knows only 0
_CREATE_TOPICS_VERSION: Final = 2
_DELETE_TOPICS_VERSION: Final = 1
_BY_ASSIGNMENTS: Final = -1
_DESCRIBE_PRODUCERS_VERSION: Final = 0
_PRODUCE_VERSION: Final = 3
_LIST_OFFSETS_VERSION: Final = 1
_METADATA_VERSION: Final = 1
_EARLIEST: Final = -2

# Since version 3 an empty name is an INVALID_REQUEST (KIP-511).
_CLIENT_SOFTWARE: Final = {"client_software_name": "kafka-eos", "client_software_version": "1"}

INIT_PRODUCER_ID_REQUEST: Final = WireRequest(
    ApiKey.INIT_PRODUCER_ID, 1, {"transactional_id": None, "transaction_timeout_ms": 60_000}
)
"""Asks for a producer id without a transactional id."""
_NOT_CONTROLLER: Final = 41
_TOO_EARLY: Final = (ErrorCode.INVALID_REPLICATION_FACTOR, _NOT_CONTROLLER)
_NOT_YET: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,  # also when a block of producer ids runs out
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Supported:
    """A broker's versions (oldest, newest) by API key, and the finalized levels by feature."""

    versions: Mapping[int, tuple[int, int]]
    levels: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """A producer id and its epoch."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A leader's state of one producer; -1 where it has none."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


@dataclass(frozen=True, slots=True)
class PartitionProducers:
    """The answer for one partition: an error code, or its producers by producer id."""

    error_code: int
    producers: Mapping[int, ActiveProducer]


@dataclass(frozen=True, slots=True)
class PartitionLeadership:
    """The leader of a partition (-1: none), its in-sync replicas and all its replicas."""

    leader: int
    in_sync: frozenset[int]
    replicas: frozenset[int]


def api_versions(connection: BrokerConnection) -> Supported:
    """Fetch what the broker supports. Raises RequestRefused, and as `BrokerConnection.ask`."""
    for version in _API_VERSIONS_VERSIONS:
        body = connection.ask(ApiKey.API_VERSIONS, version, _CLIENT_SOFTWARE)
        if body["error_code"] != ErrorCode.UNSUPPORTED_VERSION:
            break
    check_error(body["error_code"], "ApiVersions")
    return Supported(
        {api["api_key"]: (api["min_version"], api["max_version"]) for api in body["api_keys"]},
        {feature["name"]: feature["max_version_level"] for feature in body["finalized_features"]},
    )


def create_topic(
    connection: BrokerConnection,
    name: str,
    partitions: int,
    *,
    replicas: Sequence[int] = (),
    configs: Mapping[str, str] | None = None,
) -> None:
    """Create a topic and wait until the broker leads each of its partitions.

    As `ask_for_topic`. Raises RequestRefused, also when that takes longer than READY_TIMEOUT_S.
    """
    ask_for_topic(connection, name, partitions, replicas=replicas, configs=configs)
    await_leader(connection, [(name, partition) for partition in range(partitions)])


def ask_for_topic(
    connection: BrokerConnection,
    name: str,
    partitions: int,
    *,
    replicas: Sequence[int],
    configs: Mapping[str, str] | None,
) -> None:
    """Create a topic, or one of Kafka's internal topics, without waiting for its leaders.

    `replicas` are the brokers of each partition, its leader first. If `replicas` is empty, each
    partition has one replica, which the cluster places. Raises RequestRefused.
    """
    _create(connection, topic_request(name, partitions, replicas=replicas, configs=configs))


def topic_request(
    name: str,
    partitions: int,
    *,
    replicas: Sequence[int] = (),
    configs: Mapping[str, str] | None = None,
) -> WireRequest:
    """CreateTopics of one topic; as `ask_for_topic`."""
    topic = {
        "name": name,
        "num_partitions": _BY_ASSIGNMENTS if replicas else partitions,
        "replication_factor": _BY_ASSIGNMENTS if replicas else 1,
        "assignments": [
            {"partition_index": index, "broker_ids": list(replicas)}
            for index in range(partitions if replicas else 0)
        ],
        "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
    }
    return WireRequest(ApiKey.CREATE_TOPICS, _CREATE_TOPICS_VERSION, {"topics": [topic]})


def delete_topics(connection: BrokerConnection, names: Sequence[str]) -> None:
    """Delete topics. Raises RequestRefused for the first topic that the broker keeps."""
    if not names:
        return
    body = {"topic_names": list(names), "timeout_ms": _CREATE_TIMEOUT_MS}
    request = (ApiKey.DELETE_TOPICS, _DELETE_TOPICS_VERSION, body)
    for topic in connection.ask(*request)["responses"]:
        check_error(topic["error_code"], f"DeleteTopics {topic['name']}")


def _create(connection: BrokerConnection, wanted: WireRequest) -> None:
    """Create a topic at the controller; retry while the cluster is not ready.

    A broker serves requests before its cluster counts it. It forwards requests to the controller
    only in KRaft mode.
    """
    name = wanted.body["topics"][0]["name"]
    request = (wanted.api_key, wanted.api_version, wanted.body)
    deadline = time.monotonic() + READY_TIMEOUT_S
    error, message = _created(connection.ask(*request, timeout_ms=_CREATE_TIMEOUT_MS))
    while error in _TOO_EARLY and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)
        with BrokerConnection(*_controller(connection)) as controller:
            error, message = _created(controller.ask(*request, timeout_ms=_CREATE_TIMEOUT_MS))
    check_error(error, f"CreateTopics {name}: {message}")


def _created(body: Value) -> tuple[int, str | None]:
    [created] = body["topics"]
    return created["error_code"], created["error_message"]


def _controller(connection: BrokerConnection) -> tuple[str, int]:
    """The address of the controller in a broker's metadata; in KRaft mode that of any broker."""
    body = connection.ask(ApiKey.METADATA, _METADATA_VERSION, {"topics": []})
    addresses = {broker["node_id"]: (broker["host"], broker["port"]) for broker in body["brokers"]}
    return addresses.get(body["controller_id"]) or connection.address


def broker_ids(connection: BrokerConnection) -> list[int]:
    """The live brokers of the cluster, according to one of them. Raises as
    `BrokerConnection.ask`."""
    body = connection.ask(ApiKey.METADATA, _METADATA_VERSION, {"topics": []})
    return sorted(broker["node_id"] for broker in body["brokers"])


def acts_as_leader(connection: BrokerConnection, partition: TopicPartition) -> bool:
    """Whether the broker accepts batches of a partition now; nothing is appended, see
    `await_leader`."""
    [answer] = connection.pipeline(map(_probe_request, _chunks([partition])))
    [row] = answer.body["topics"][0]["partitions"]
    return bool(row["error_code"] == ErrorCode.CORRUPT_MESSAGE)


def await_leader(connection: BrokerConnection, partitions: Iterable[TopicPartition]) -> None:
    """Wait until the broker acts as the leader of each of `partitions`; nothing is appended.

    The probe is a batch with a wrong checksum: a leader refuses it as corrupt, and any other broker
    because it does not lead the partition. Metadata names the leader some 50 ms before it acts as
    one, and brokers that do not lead answer DescribeProducers, too. Raises RequestRefused, with the
    last error code, if this takes longer than READY_TIMEOUT_S.
    """
    deadline = time.monotonic() + READY_TIMEOUT_S
    waiting = set(partitions)
    while waiting:
        requests = [_probe_request(chunk) for chunk in _chunks(waiting)]
        for answer in list(connection.pipeline(requests)):
            for topic in answer.body["topics"]:
                for partition in topic["partitions"]:
                    if partition["error_code"] == ErrorCode.CORRUPT_MESSAGE:
                        waiting.remove((topic["name"], partition["index"]))
                    elif time.monotonic() > deadline:
                        check_error(partition["error_code"], f"leader of {topic['name']}")
        time.sleep(_PAUSE_S if waiting else 0)


def init_producer_id(connection: BrokerConnection) -> ProducerIdentity:
    """Ask for one producer id; as `init_producer_ids`."""
    [identity] = init_producer_ids(connection, 1)
    return identity


def init_producer_ids(connection: BrokerConnection, count: int) -> list[ProducerIdentity]:
    """Ask for `count` producer ids without transactional id, many in flight.

    A broker that is between two blocks of ids is asked again. Raises RequestRefused, also if that
    takes longer than READY_TIMEOUT_S, and what `BrokerConnection.pipeline` raises.
    """
    deadline = time.monotonic() + READY_TIMEOUT_S
    identities: list[ProducerIdentity] = []
    while len(identities) < count:
        requests = [INIT_PRODUCER_ID_REQUEST] * (count - len(identities))
        # Read all answers before the first is checked, so that a refusal leaves none unread.
        for body in [answer.body for answer in connection.pipeline(requests)]:
            if body["error_code"] not in _NOT_YET or time.monotonic() > deadline:
                check_error(body["error_code"], "InitProducerId")
                identities.append(ProducerIdentity(body["producer_id"], body["producer_epoch"]))
        time.sleep(_PAUSE_S if len(identities) < count else 0)
    return identities


def describe_producers(
    connection: BrokerConnection, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, PartitionProducers]:
    """Fetch the producer states of `partitions`, many in one request and many in flight.

    Needs a broker of 2.8 or later (KIP-664), which need not be the leader: see `await_leader`.
    Raises what `BrokerConnection.pipeline` raises.
    """
    requests = [producers_request(chunk) for chunk in _chunks(partitions)]
    answers = [producers_in(answer.body) for answer in connection.pipeline(requests)]
    return {partition: state for answer in answers for partition, state in answer.items()}


def producers_request(indexes_of: Mapping[str, Sequence[int]]) -> WireRequest:
    """A DescribeProducers request for partitions, given by the name of their topic."""
    topics = [{"name": name, "partition_indexes": indexes} for name, indexes in indexes_of.items()]
    return WireRequest(ApiKey.DESCRIBE_PRODUCERS, _DESCRIBE_PRODUCERS_VERSION, {"topics": topics})


def producers_in(body: Value) -> dict[TopicPartition, PartitionProducers]:
    """The producer states in a response to `producers_request`."""
    return {
        (topic["name"], partition["partition_index"]): _producers(partition)
        for topic in body["topics"]
        for partition in topic["partitions"]
    }


def leaders(connection: BrokerConnection) -> dict[TopicPartition, PartitionLeadership]:
    """Fetch the leader and the replicas of each partition of the cluster.

    Raises what `BrokerConnection.ask` raises.
    """
    body = connection.ask(ApiKey.METADATA, _METADATA_VERSION, {"topics": None})
    return {
        (topic["name"], partition["partition_index"]): PartitionLeadership(
            partition["leader_id"],
            frozenset(partition["isr_nodes"]),
            frozenset(partition["replica_nodes"]),
        )
        for topic in body["topics"]
        for partition in topic["partitions"]
        if not topic["is_internal"]
    }


def log_start_offsets(
    connection: BrokerConnection, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Fetch the log start offsets of `partitions` from the broker that leads them.

    Raises RequestRefused and what `BrokerConnection.pipeline` raises.
    """
    found: dict[TopicPartition, int] = {}
    requests = [_start_request(chunk) for chunk in _chunks(partitions)]
    for body in [answer.body for answer in connection.pipeline(requests)]:
        for topic in body["topics"]:
            for partition in topic["partitions"]:
                check_error(partition["error_code"], f"ListOffsets of {topic['name']}")
                found[topic["name"], partition["partition_index"]] = partition["offset"]
    return found


def _chunks(partitions: Iterable[TopicPartition]) -> Iterator[dict[str, list[int]]]:
    """Cut `partitions` into pieces of at most PARTITIONS_PER_REQUEST, each grouped by topic."""
    rest = iter(sorted(partitions))
    while chunk := list(islice(rest, PARTITIONS_PER_REQUEST)):
        by_topic = groupby(chunk, key=lambda pair: pair[0])
        yield {name: [partition for _, partition in group] for name, group in by_topic}


def _start_request(chunk: Mapping[str, Sequence[int]]) -> WireRequest:
    topics = [
        {
            "name": name,
            "partitions": [{"partition_index": i, "timestamp": _EARLIEST} for i in indexes],
        }
        for name, indexes in chunk.items()
    ]
    return WireRequest(
        ApiKey.LIST_OFFSETS, _LIST_OFFSETS_VERSION, {"replica_id": -1, "topics": topics}
    )


def _probe_request(chunk: Mapping[str, Sequence[int]]) -> WireRequest:
    topics = [
        {"name": name, "partitions": [{"index": index, "records": _CORRUPT} for index in indexes]}
        for name, indexes in chunk.items()
    ]
    body = {"acks": 1, "timeout_ms": 1_000, "topics": topics}
    return WireRequest(ApiKey.PRODUCE, _PRODUCE_VERSION, body)


def _corrupt_batch() -> bytes:
    batch = bytearray(encode_batch(client_batch([Record(0, 0, None, None)])))
    batch[-1] ^= 1
    return bytes(batch)


_CORRUPT: Final = _corrupt_batch()


def _producers(partition: Value) -> PartitionProducers:
    return PartitionProducers(
        partition["error_code"],
        {
            producer["producer_id"]: ActiveProducer(
                *(producer[f.name] for f in fields(ActiveProducer))
            )
            for producer in partition["active_producers"]
        },
    )


def check_error(error_code: int, what: str) -> None:
    """Raise RequestRefused for an error code other than NONE."""
    if error_code != ErrorCode.NONE:
        known = error_code in ErrorCode.__members__.values()
        name = ErrorCode(error_code).name if known else "not in the table of errors"
        raise RequestRefused(f"{what}: error {error_code}, {name}")
