"""A broker of one node, without sockets: request bytes in, response bytes out.

Five rules:

1. `handle` is the only way in; the time is an argument; nothing is written outside the node.
2. What the connection cannot survive is one exception, `CloseConnection`: a driver closes and goes
   on. Everything else is an answer with an error code.
3. An acks=0 request is never answered; if it fails, the connection is closed, as Kafka does.
4. ApiVersions of an unknown version is answered in the form of version 0. Produce is advertised
   from 0, because old clients break otherwise (KAFKA-18659), and refused below 3.
5. The node is its partitions' only replica: an append is replicated at once, so the high watermark
   follows the end of the log before the answer leaves.

Theory of operation: `handle` decodes, finds the API's handler in a table, and encodes what it
returns. Handlers see and return plain dicts. The controller's part (blocks of producer ids) is
served between two requests, so its answer is never there in the request that asked for it.
Sources: `KafkaApis`, `SocketServer.processCompletedReceives`; release 4.3.1, no authorizer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from impl.broker import reads
from impl.broker.producer_ids import (
    BlockSource,
    ProducerIdBlocks,
    ProducerIdController,
    ProducerIdManager,
)
from impl.broker.topics import Topic, TopicRefused, Topics
from impl.partition.leader import PartitionLeader, ProduceOutcome
from impl.partition.replica_log import DEFAULT_CONFIG
from impl.partition.validation import LogConfig
from impl.protocol.codegen import Value
from impl.protocol.compression import Compression
from impl.protocol.errors import DecodeError, ErrorCode, UnsupportedVersion
from impl.protocol.messages import (
    decode_request,
    encode_response,
    encode_unsupported_version,
)
from impl.protocol.primitives import ZERO_UUID
from impl.protocol.record_batch import (
    COMPRESSION_MASK,
    INVALID_OFFSET,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL,
)
from impl.protocol.schemas import SUPPORTED_VERSIONS, ApiKey

OLDEST_SERVED: Final[Mapping[int, int]] = MappingProxyType(
    {ApiKey.PRODUCE: 3, ApiKey.FETCH: 4, ApiKey.LIST_OFFSETS: 1, ApiKey.CREATE_TOPICS: 2}
)
"""Versions below are refused. Those of Produce are advertised all the same (KAFKA-18659)."""

TOPIC_IDS_FROM: Final = 13
"""The first version of Produce, and of Fetch, that names topics by id."""

ZSTD_FROM: Final = 7
"""The first Produce version that may carry zstd (KIP-110)."""

TOPIC_IDS_IN_METADATA_FROM: Final = 12
"""The first Metadata version whose requests may name topics by id."""

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_MAGIC_OFFSET: Final = 16
_ATTRIBUTES_OFFSET: Final = 22


class CloseConnection(Exception):
    """The connection that brought this request must be closed; nothing is to be sent on it."""


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """A node's settings; Kafka's defaults where it has any."""

    node_id: int = 1
    host: str = "localhost"
    port: int = 9092
    cluster_id: str = "kafka-eos"
    num_partitions: int = 1
    broker_epoch: int = 0
    auto_create_topics: bool = True
    producer_id_expiration_check_interval_ms: int = 600_000
    log_retention_check_interval_ms: int = 300_000
    log: LogConfig = DEFAULT_CONFIG


class Node:
    """One broker and controller.

    Public state, to be read: `config`, `topics`, `producer_ids`, `controller`.
    """

    __slots__ = ("_due_ms", "config", "controller", "producer_ids", "topics")

    def __init__(
        self, config: NodeConfig | None = None, *, blocks: BlockSource | None = None
    ) -> None:
        """`blocks` outlives the node: give the same one to a node that takes this one's place."""
        self.config = config or NodeConfig()
        self.topics = Topics(self.config.cluster_id, self.config.log)
        self.producer_ids = ProducerIdManager()
        self.controller = ProducerIdController(blocks or ProducerIdBlocks())
        self.controller.register(self.config.node_id, self.config.broker_epoch)
        self._due_ms: dict[str, int] = {}

    def handle(self, payload: bytes, now_ms: int) -> bytes | None:
        """The response to one request, both without their 4-byte size; None for acks=0.

        `now_ms` is the broker's clock, ms since the epoch. Raises `CloseConnection`.
        """
        try:
            header, body = decode_request(payload)
        except UnsupportedVersion as error:
            if error.api_key == ApiKey.API_VERSIONS:
                served = SUPPORTED_VERSIONS[ApiKey.API_VERSIONS]
                return encode_unsupported_version(error.correlation_id, served.first, served.last)
            raise CloseConnection(str(error)) from error
        except DecodeError as error:
            raise CloseConnection(str(error)) from error
        api_key, version = header["api_key"], header["api_version"]
        if api_key not in _HANDLERS:
            raise CloseConnection(f"api key {api_key} is not served")
        if version < OLDEST_SERVED.get(api_key, 0):
            raise CloseConnection(f"api key {api_key} is served from {OLDEST_SERVED[api_key]}")
        self._serve_controller(now_ms)
        self._run_periodic_checks(now_ms)
        answer = _HANDLERS[api_key](self, version, body, now_ms)
        if answer is None:
            return None
        return encode_response(api_key, version, header["correlation_id"], answer)

    def _serve_controller(self, now_ms: int) -> None:
        if self.producer_ids.take_request():
            me = self.config
            answer = self.controller.allocate(me.node_id, me.broker_epoch)
            self.producer_ids.receive(answer, now_ms)

    def _run_periodic_checks(self, now_ms: int) -> None:
        """Producers and segments that are too old go. `LogManager.startup`."""
        expire = self._is_due("producer_id_expiration_check_interval_ms", now_ms)
        delete = self._is_due("log_retention_check_interval_ms", now_ms)
        for topic in self.topics if expire or delete else ():
            for leader in topic.partitions:
                if expire:
                    leader.remove_expired_producers(now_ms)
                if delete:
                    leader.log.delete_old_segments(now_ms)

    def _is_due(self, interval: str, now_ms: int) -> bool:
        """Whether this setting's interval has passed; the first one begins with the first call."""
        interval_ms: int = getattr(self.config, interval)
        due_ms = self._due_ms.setdefault(interval, now_ms + interval_ms)
        if now_ms < due_ms:
            return False
        self._due_ms[interval] = now_ms + interval_ms
        return True

    def _api_versions(self, version: int, body: Value, now_ms: int) -> Value:
        software = (body["client_software_name"], body["client_software_version"])
        if version >= 3 and not all(_SOFTWARE.fullmatch(word) for word in software):
            return {"error_code": ErrorCode.INVALID_REQUEST, "api_keys": []}
        return {"error_code": ErrorCode.NONE, "api_keys": _ADVERTISED}

    def _init_producer_id(self, version: int, body: Value, now_ms: int) -> Value:
        """Idempotent producers only. `KafkaApis.handleInitProducerIdRequest`."""
        has_id = body["producer_id"] != NO_PRODUCER_ID
        transactional_id = body["transactional_id"]
        error, producer_id = ErrorCode.COORDINATOR_NOT_AVAILABLE, NO_PRODUCER_ID
        if has_id != (body["producer_epoch"] != NO_PRODUCER_EPOCH) or transactional_id == "":
            error = ErrorCode.INVALID_REQUEST
        elif transactional_id is None:
            error, producer_id = self.producer_ids.generate(now_ms)
        epoch = NO_PRODUCER_EPOCH if error else 0
        return {"error_code": error, "producer_id": producer_id, "producer_epoch": epoch}

    def _allocate_producer_ids(self, version: int, body: Value, now_ms: int) -> Value:
        """What another broker asks the controller. `ControllerApis`."""
        block = self.controller.allocate(body["broker_id"], body["broker_epoch"])
        if isinstance(block, ErrorCode):
            return {"error_code": block, "producer_id_start": 0, "producer_id_len": 0}
        return {
            "error_code": ErrorCode.NONE,
            "producer_id_start": block.first_producer_id,
            "producer_id_len": block.size,
        }

    def _delete_records(self, version: int, body: Value, now_ms: int) -> Value:
        """`KafkaApis.handleDeleteRecordsRequest`."""
        return self._by_topic(body, "topics", reads.delete_records)

    def _list_offsets(self, version: int, body: Value, now_ms: int) -> Value:
        """`KafkaApis.handleListOffsetRequest`."""
        return self._by_topic(
            body,
            "topics",
            lambda topic, asked: reads.list_offsets(topic, asked, version, body["replica_id"]),
        )

    def _by_topic(
        self, body: Value, key: str, answer: Callable[[Topic | None, Value], Value]
    ) -> Value:
        rows = []
        for asked in body[key]:
            topic = self.topics.named(asked["name"])
            answered = [answer(topic, partition) for partition in asked["partitions"]]
            rows.append({"name": asked["name"], "partitions": answered})
        return {"topics": rows}

    def _fetch(self, version: int, body: Value, now_ms: int) -> Value:
        """What there is now: the driver waits, if it wants to; without sessions (KIP-227).

        `KafkaApis.handleFetchRequest`.
        """
        budget = reads.Budget(body["max_bytes"], body["isolation_level"])
        by_id = version >= TOPIC_IDS_FROM
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        find = self.topics.identified if by_id else self.topics.named
        rows = []
        for asked in body["topics"]:
            topic = find(asked["topic_id" if by_id else "topic"])
            answered = [reads.fetch(topic, row, unknown, budget) for row in asked["partitions"]]
            rows.append(
                {"topic": asked["topic"], "topic_id": asked["topic_id"], "partitions": answered}
            )
        return {"error_code": ErrorCode.NONE, "responses": rows}

    def _produce(self, version: int, body: Value, now_ms: int) -> Value | None:
        """`KafkaApis.handleProduceRequest`."""
        whole = _refusal_of_whole_request(body)
        topics = [
            self._produce_topic(version, t, body["acks"], whole, now_ms) for t in body["topics"]
        ]
        if body["acks"]:
            return {"topics": topics}
        failed = [row for topic in topics for row in topic["partitions"] if row["error_code"]]
        if failed:
            raise CloseConnection(f"an acks=0 request failed: {failed[0]['error_code']!r}")
        return None

    def _produce_topic(
        self, version: int, asked: Value, acks: int, whole: ErrorCode, now_ms: int
    ) -> Value:
        by_id = version >= TOPIC_IDS_FROM
        find = self.topics.identified if by_id else self.topics.named
        topic = find(asked["topic_id" if by_id else "name"])
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if by_id and topic is None:
            unknown = ErrorCode.UNKNOWN_TOPIC_ID
        rows = []
        for partition in asked["partitions"]:
            leader = None if topic is None else topic.partition(partition["index"])
            records = partition["records"]
            if whole or leader is None:
                outcome = _refused(whole or unknown)
            elif version < ZSTD_FROM and _is_zstd(records):
                outcome = _refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
            else:
                outcome = _append(leader, records, acks, now_ms)
            rows.append(_produce_row(partition["index"], outcome))
        return {"name": asked["name"], "topic_id": asked["topic_id"], "partitions": rows}

    def _metadata(self, version: int, body: Value, now_ms: int) -> Value:
        """`KafkaApis.handleTopicMetadataRequest`."""
        asked = body["topics"]
        if asked is None or (version == 0 and not asked):
            rows = [self._described(topic) for topic in self.topics]
        else:
            may_create = self.config.auto_create_topics and body["allow_auto_topic_creation"]
            rows = [self._metadata_topic(version, topic, may_create) for topic in asked]
        node = self.config
        return {
            "brokers": [{"node_id": node.node_id, "host": node.host, "port": node.port}],
            "cluster_id": node.cluster_id,
            "controller_id": node.node_id,
            "topics": rows,
        }

    def _metadata_topic(self, version: int, asked: Value, may_create: bool) -> Value:
        name, topic_id = asked["name"], asked["topic_id"]
        if topic_id != ZERO_UUID or name is None:
            if version < TOPIC_IDS_IN_METADATA_FROM:
                return _no_topic(ErrorCode.INVALID_REQUEST, name or "", topic_id)
            topic = self.topics.identified(topic_id)
            if topic is None:
                return _no_topic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
            return self._described(topic)
        topic = self.topics.named(name)
        if topic is None and may_create:
            try:
                topic = self.topics.create(name, self.config.num_partitions, {})
            except TopicRefused as refusal:
                return _no_topic(refusal.error, name, ZERO_UUID)
        if topic is None:
            return _no_topic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name, ZERO_UUID)
        return self._described(topic)

    def _described(self, topic: Topic) -> Value:
        me = self.config.node_id
        return {
            "error_code": ErrorCode.NONE,
            "name": topic.name,
            "topic_id": topic.topic_id,
            "partitions": [
                {
                    "error_code": ErrorCode.NONE,
                    "partition_index": index,
                    "leader_id": me,
                    "leader_epoch": leader.leader_epoch,
                    "replica_nodes": [me],
                    "isr_nodes": [me],
                }
                for index, leader in enumerate(topic.partitions)
            ],
        }

    def _create_topics(self, version: int, body: Value, now_ms: int) -> Value:
        """`ReplicationControlManager.createTopics`; a name asked for twice is refused twice."""
        names = Counter(asked["name"] for asked in body["topics"])
        rows = []
        for asked in body["topics"]:
            try:
                if names[asked["name"]] > 1:
                    raise TopicRefused(ErrorCode.INVALID_REQUEST, "duplicate topic name")
                rows.append(self._create_topic(asked, body["validate_only"]))
            except TopicRefused as refusal:
                name, error, text = asked["name"], refusal.error, str(refusal)
                rows.append({"name": name, "error_code": error, "error_message": text})
        return {"topics": rows}

    def _create_topic(self, asked: Value, validate_only: bool) -> Value:
        self.topics.check_name(asked["name"])
        configs = {config["name"]: config["value"] for config in asked["configs"]}
        partitions = _partition_count(asked, self.config.node_id, self.config.num_partitions)
        topic = self.topics.create(asked["name"], partitions, configs, validate_only=validate_only)
        described = [
            {"name": name, "value": value, "read_only": False, "is_sensitive": False}
            for name, value in topic.configs.items()
        ]
        return {
            "name": topic.name,
            "topic_id": ZERO_UUID if validate_only else topic.topic_id,
            "error_code": ErrorCode.NONE,
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": described,
        }

    def _describe_producers(self, version: int, body: Value, now_ms: int) -> Value:
        """`ReplicaManager.activeProducerState`."""
        rows = []
        for asked in body["topics"]:
            topic = self.topics.named(asked["name"])
            indexes = asked["partition_indexes"]
            described = [_describe_partition(topic, index) for index in indexes]
            rows.append({"name": asked["name"], "partitions": described})
        return {"topics": rows}


def _append(
    leader: PartitionLeader, records: bytes | None, acks: int, now_ms: int
) -> ProduceOutcome:
    """Append, and replicate to nobody: the high watermark reaches any `required_offset` at once."""
    outcome = leader.produce(records, required_acks=acks, now_ms=now_ms)
    leader.advance_high_watermark(leader.log_end_offset)
    return outcome


def _refused(error: ErrorCode) -> ProduceOutcome:
    return ProduceOutcome(error, INVALID_OFFSET, NO_TIMESTAMP, INVALID_OFFSET, INVALID_OFFSET)


def _produce_row(index: int, outcome: ProduceOutcome) -> Value:
    return {
        "index": index,
        "error_code": outcome.error,
        "base_offset": outcome.base_offset,
        "log_append_time_ms": outcome.log_append_time_ms,
        "log_start_offset": outcome.log_start_offset,
    }


def _attributes(records: bytes | None) -> int:
    """The low byte of the first batch's; bytes too short for one have none."""
    if records is None or len(records) <= _ATTRIBUTES_OFFSET or records[_MAGIC_OFFSET] != MAGIC:
        return 0
    return records[_ATTRIBUTES_OFFSET]


def _is_transactional(records: bytes | None) -> bool:
    return bool(_attributes(records) & TRANSACTIONAL)


def _is_zstd(records: bytes | None) -> bool:
    return _attributes(records) & COMPRESSION_MASK == Compression.ZSTD


def _refusal_of_whole_request(body: Value) -> ErrorCode:
    """A transactional batch needs a transactional id. `KafkaApis.handleProduceRequest`."""
    if body["transactional_id"] is None and any(
        _is_transactional(partition["records"])
        for topic in body["topics"]
        for partition in topic["partitions"]
    ):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.NONE


def _no_topic(error: ErrorCode, name: str | None, topic_id: bytes) -> Value:
    return {"error_code": error, "name": name, "topic_id": topic_id, "partitions": []}


def _partition_count(asked: Value, node_id: int, default: int) -> int:
    """How many partitions a CreateTopics row wants. Raises `TopicRefused`."""
    count, factor, assignments = (
        asked["num_partitions"],
        asked["replication_factor"],
        asked["assignments"],
    )
    if assignments:
        if count != -1 or factor != -1:
            problem = "with assignments, num_partitions and replication_factor are -1"
            raise TopicRefused(ErrorCode.INVALID_REQUEST, problem)
        placed = {row["partition_index"]: row["broker_ids"] for row in assignments}
        if placed != {index: [node_id] for index in range(len(assignments))}:
            problem = f"partitions count from 0, each on broker {node_id}"
            raise TopicRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
        return len(assignments)
    if factor not in (-1, 1):
        problem = f"replication factor {factor} with one broker"
        raise TopicRefused(ErrorCode.INVALID_REPLICATION_FACTOR, problem)
    if count == 0 or count < -1:
        raise TopicRefused(ErrorCode.INVALID_PARTITIONS, f"{count} partitions")
    return default if count == -1 else int(count)


def _describe_partition(topic: Topic | None, index: int) -> Value:
    leader = None if topic is None else topic.partition(index)
    if leader is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return {"partition_index": index, "error_code": unknown, "active_producers": []}
    producers = [
        {
            "producer_id": producer_id,
            "producer_epoch": entry.producer_epoch,
            "last_sequence": entry.last_sequence,
            "last_timestamp": entry.last_timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "current_txn_start_offset": entry.current_txn_first_offset,
        }
        for producer_id, entry in leader.producers.items()
    ]
    return {"partition_index": index, "error_code": ErrorCode.NONE, "active_producers": producers}


def _version_row(api_key: ApiKey) -> Value:
    oldest = 0 if api_key == ApiKey.PRODUCE else OLDEST_SERVED.get(api_key, 0)
    newest = SUPPORTED_VERSIONS[api_key].last
    return {"api_key": api_key, "min_version": oldest, "max_version": newest}


_HANDLERS: Final[Mapping[ApiKey, Callable[[Node, int, Value, int], Value | None]]] = (
    MappingProxyType(
        {
            ApiKey.PRODUCE: Node._produce,
            ApiKey.FETCH: Node._fetch,
            ApiKey.LIST_OFFSETS: Node._list_offsets,
            ApiKey.METADATA: Node._metadata,
            ApiKey.API_VERSIONS: Node._api_versions,
            ApiKey.CREATE_TOPICS: Node._create_topics,
            ApiKey.DELETE_RECORDS: Node._delete_records,
            ApiKey.INIT_PRODUCER_ID: Node._init_producer_id,
            ApiKey.DESCRIBE_PRODUCERS: Node._describe_producers,
            ApiKey.ALLOCATE_PRODUCER_IDS: Node._allocate_producer_ids,
        }
    )
)
_ADVERTISED: Final = [
    _version_row(api_key) for api_key in _HANDLERS if api_key != ApiKey.ALLOCATE_PRODUCER_IDS
]
"""What clients are told of. The rest is between brokers and controllers."""
