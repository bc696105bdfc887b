"""What a cluster keeps, its logs apart, as records of `__cluster_metadata`.

Four rules:

1. The records are Kafka's, those of one change in one batch: a change is stored as a whole.
2. A change is flushed before it is answered.
3. Records of other kinds are skipped: a real broker's log has them. So are those of a transaction
   that was aborted (KIP-868).
4. The log is never compacted, and gets no snapshots: it grows with each change. A real broker's may
   begin behind one (`metadata_snapshot`).

Theory of operation: `image` is what the records say. `store_topics` appends what differs between it
and the topics; the same code applies records when they are written and when they are read.
Sources: `MetadataRecordSerde`, `ReplicationControlManager`, `ProducerIdControlManager`,
`ScramControlManager`, `AclControlManager`, `ClientQuotaControlManager`; KIP-631.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from impl.log.checkpoint_files import METADATA
from impl.log.disk import StorageError
from impl.partition.leader import PartitionLeader
from impl.protocol.errors import DecodeError
from impl.protocol.message_form import Value
from impl.protocol.record_batch import CONTROL, Record, RecordBatch, decode_batch, encode_batch
from impl.protocol.state_records import decode_record, encode_record
from impl.storage.access_image import AccessImage

METADATA_TOPIC_ID: Final = bytes(15) + b"\x01"

_FRAME_VERSION: Final = 1
_FRAME_BYTES: Final = 3
_REGISTER_BROKER: Final = 0
"""The kind of the records with which real brokers join their cluster; ours has none."""
_BEGIN, _END, _ABORT = 23, 24, 25
"""The kinds of the records around a transaction: it spans several batches."""
_TOPIC_RESOURCE: Final = 2
_UNCHANGED: Final = -2

_KINDS: Final[Mapping[int, str]] = MappingProxyType(
    {
        2: "TOPIC_RECORD",
        3: "PARTITION_RECORD",
        4: "CONFIG_RECORD",
        5: "PARTITION_CHANGE_RECORD",
        9: "REMOVE_TOPIC_RECORD",
        11: "USER_SCRAM_CREDENTIAL_RECORD",
        12: "FEATURE_LEVEL_RECORD",
        14: "CLIENT_QUOTA_RECORD",
        15: "PRODUCER_IDS_RECORD",
        18: "ACCESS_CONTROL_ENTRY_RECORD",
        19: "REMOVE_ACCESS_CONTROL_ENTRY_RECORD",
        22: "REMOVE_USER_SCRAM_CREDENTIAL_RECORD",
    }
)
_NUMBERS: Final = MappingProxyType({name: number for number, name in _KINDS.items()})


class MetadataRecord(NamedTuple):
    """A record of one of the kinds that are known here."""

    kind: str
    body: Value


def encode_metadata_record(record: MetadataRecord) -> bytes:
    """Frame version, kind and version, each one byte, then the fields; versions are all 0."""
    body = encode_record(record.kind, 0, record.body)
    return bytes((_FRAME_VERSION, _NUMBERS[record.kind], 0)) + body[2:]


def decode_metadata_record(data: bytes) -> MetadataRecord | None:
    """A record, None if it is of a kind that is not known here. Raises `DecodeError`."""
    kind = _KINDS.get(_number_of(data))
    if kind is None:
        return None
    return MetadataRecord(kind, decode_record(kind, b"\x00" + data[2:])[1])


def _number_of(data: bytes) -> int:
    """The number of a record's kind. Raises `DecodeError`."""
    if data[:1] != bytes((_FRAME_VERSION,)) or len(data) < _FRAME_BYTES:
        raise DecodeError(f"a metadata record begins {data[:_FRAME_BYTES]!r}", 0)
    return data[1]


class PartitionImage(NamedTuple):
    """Who leads a partition (-1: nobody), and the nodes of its replicas."""

    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(slots=True)
class TopicImage:
    """A topic; its partitions by index."""

    name: str
    topic_id: bytes
    configs: dict[str, str] = field(default_factory=dict)
    partitions: dict[int, PartitionImage] = field(default_factory=dict)


class MetadataImage:
    """What the records say: `topics` by id, `features` by name, `next_producer_id`, `access`.

    `directories` are the ids of the log directories of partitions, where they are known (KIP-858).
    Also `quotas`: values by entity (types and names) and key; and `resources`: the settings of what
    is no topic, by type and name.
    """

    def __init__(self) -> None:
        self._topic_configs: dict[str, dict[str, str]] = {}
        self.topics: dict[bytes, TopicImage] = {}
        self.directories: dict[tuple[bytes, int], tuple[bytes, ...]] = {}
        self.resources: dict[tuple[int, str], dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self.access = AccessImage()
        self.quotas: dict[tuple[tuple[str, str | None], ...], dict[str, float]] = {}

    def apply(self, record: MetadataRecord) -> None:
        """Apply a record. What concerns an unknown topic changes nothing."""
        _APPLY[record.kind](self, record.body)

    def _topic(self, body: Value) -> None:
        if body["name"] == METADATA.topic:  # earlier releases took this log's folder for a topic's
            return
        configs = self.configs_of(_TOPIC_RESOURCE, body["name"])
        self.topics[body["topic_id"]] = TopicImage(body["name"], body["topic_id"], configs)

    def _partition(self, body: Value) -> None:
        topic = self.topics.get(body["topic_id"])
        if topic is not None:
            topic.partitions[body["partition_id"]] = PartitionImage(
                body["leader"],
                body["leader_epoch"],
                tuple(body["replicas"]),
                tuple(body["isr"]),
            )
            self._place(body)

    def _place(self, body: Value) -> None:
        """Note in which directories a partition's replicas are."""
        if body.get("directories"):
            place = body["topic_id"], body["partition_id"]
            self.directories[place] = tuple(body["directories"])

    def _partition_change(self, body: Value) -> None:
        """The epoch is incremented by each change of the leader, even to the same one."""
        self._place(body)
        topic = self.topics.get(body["topic_id"])
        if topic is None:
            return
        before = topic.partitions[body["partition_id"]]
        changes: dict[str, Any] = {
            field: tuple(body[name])
            for field, name in (("replicas", "replicas"), ("in_sync", "isr"))
            if body.get(name) is not None
        }
        if body["leader"] != _UNCHANGED:
            changes |= {"leader_id": body["leader"], "leader_epoch": before.leader_epoch + 1}
        topic.partitions[body["partition_id"]] = before._replace(**changes)

    def _config(self, body: Value) -> None:
        configs = self.configs_of(body["resource_type"], body["resource_name"])
        if body["value"] is None:
            configs.pop(body["name"], None)
        else:
            configs[body["name"]] = body["value"]

    def configs_of(self, kind: int, name: str) -> dict[str, str]:
        """The settings of a resource of this type.

        Those of a topic go by its name: 3.3 writes them before the topic itself.
        """
        if kind != _TOPIC_RESOURCE:
            return self.resources.setdefault((kind, name), {})
        return self._topic_configs.setdefault(name, {})

    def _remove_topic(self, body: Value) -> None:
        topic = self.topics.pop(body["topic_id"], None)
        if topic is not None:
            self._topic_configs.pop(topic.name, None)

    def _feature(self, body: Value) -> None:
        self.features[body["name"]] = body["feature_level"]

    def _client_quota(self, body: Value) -> None:
        names = {row["entity_type"]: row["entity_name"] for row in body["entity"]}
        values = self.quotas.setdefault(tuple(sorted(names.items())), {})
        if body["remove"]:
            values.pop(body["key"], None)
        else:
            values[body["key"]] = body["value"]

    def _producer_ids(self, body: Value) -> None:
        self.next_producer_id = body["next_producer_id"]

    def _credential(self, body: Value) -> None:
        self.access.put_credential(body)

    def _remove_credential(self, body: Value) -> None:
        self.access.remove_credential(body)

    def _acl(self, body: Value) -> None:
        self.access.put_acl(body)

    def _remove_acl(self, body: Value) -> None:
        self.access.remove_acl(body)


_APPLY: Final[Mapping[str, Callable[[MetadataImage, Value], None]]] = MappingProxyType(
    {
        "TOPIC_RECORD": MetadataImage._topic,
        "PARTITION_RECORD": MetadataImage._partition,
        "CONFIG_RECORD": MetadataImage._config,
        "PARTITION_CHANGE_RECORD": MetadataImage._partition_change,
        "REMOVE_TOPIC_RECORD": MetadataImage._remove_topic,
        "FEATURE_LEVEL_RECORD": MetadataImage._feature,
        "CLIENT_QUOTA_RECORD": MetadataImage._client_quota,
        "PRODUCER_IDS_RECORD": MetadataImage._producer_ids,
        "USER_SCRAM_CREDENTIAL_RECORD": MetadataImage._credential,
        "REMOVE_USER_SCRAM_CREDENTIAL_RECORD": MetadataImage._remove_credential,
        "ACCESS_CONTROL_ENTRY_RECORD": MetadataImage._acl,
        "REMOVE_ACCESS_CONTROL_ENTRY_RECORD": MetadataImage._remove_acl,
    }
)


class MetadataLog:
    """See the rules above. Read-only: `image`; `has_brokers`: real brokers have registered."""

    def __init__(
        self, leader: PartitionLeader, snapshot: Iterable[bytes] = (), snapshot_end: int = 0
    ) -> None:
        """`leader` is that of the log's only partition, whose records before `snapshot_end` a
        snapshot has. Raises `DecodeError`."""
        self._leader = leader
        self.image = MetadataImage()
        values = [*snapshot, *_read(leader, snapshot_end)]
        self.has_brokers = _REGISTER_BROKER in map(_number_of, values)
        for record in _committed(values):
            self.image.apply(record)

    @property
    def end_offset(self) -> int:
        """The number of records so far, or more."""
        return self._leader.log_end_offset

    def store_topics(self, topics: Iterable[TopicImage], now_ms: int) -> None:
        """Store what is new or has changed of topics. Raises `StorageError`."""
        self.append([record for topic in topics for record in self._changes(topic)], now_ms)

    def adopt(
        self,
        topics: Iterable[TopicImage],
        broker_id: int,
        next_producer_id: int,
        now_ms: int,
        bootstrap: Iterable[bytes] = (),
    ) -> None:
        """Store topics that the directory had without metadata, and which ids they have not used.

        `bootstrap`: values of records that a formatted directory begins with. All of it is one
        change: a crash leaves the directory without metadata, or with all of it. Raises
        `StorageError`, `DecodeError`.
        """
        records = [*_committed(bootstrap)]
        records += [record for topic in topics for record in self._changes(topic)]
        if next_producer_id:
            records.append(_producer_ids_record(broker_id, next_producer_id))
        self.append(records, now_ms)

    def _changes(self, wanted: TopicImage) -> Iterator[MetadataRecord]:
        known = self.image.topics.get(wanted.topic_id)
        configs = self.image.configs_of(_TOPIC_RESOURCE, wanted.name)
        before = known or TopicImage(wanted.name, wanted.topic_id, configs)
        if known is None:
            yield _topic_record(wanted)
        yield from _config_changes(_TOPIC_RESOURCE, wanted.name, before.configs, wanted.configs)
        yield from _partition_changes(before, wanted)

    def store_configs(self, kind: int, name: str, configs: Mapping[str, str], now_ms: int) -> None:
        """Store what has changed of the settings of a resource. Raises `StorageError`."""
        before = self.image.configs_of(kind, name)
        self.append(list(_config_changes(kind, name, before, configs)), now_ms)

    def remove_topic(self, topic_id: bytes, now_ms: int) -> None:
        """Raises `StorageError`."""
        self.append([MetadataRecord("REMOVE_TOPIC_RECORD", {"topic_id": topic_id})], now_ms)

    def store_feature(self, name: str, level: int, now_ms: int) -> None:
        """Raises `StorageError`."""
        body = {"name": name, "feature_level": level}
        self.append([MetadataRecord("FEATURE_LEVEL_RECORD", body)], now_ms)

    def store_next_producer_id(self, broker_id: int, next_producer_id: int, now_ms: int) -> None:
        """Raises `StorageError`."""
        self.append([_producer_ids_record(broker_id, next_producer_id)], now_ms)

    def append(self, records: Iterable[MetadataRecord], now_ms: int) -> None:
        """Append the records of one change. Raises `StorageError`, and changes nothing then."""
        rows = list(records)
        if not rows:
            return
        batch = RecordBatch(
            tuple(
                Record(delta, now_ms, None, encode_metadata_record(record))
                for delta, record in enumerate(rows)
            ),
            last_offset_delta=len(rows) - 1,
            base_timestamp=now_ms,
            max_timestamp=now_ms,
        )
        outcome = self._leader.append_as_coordinator(encode_batch(batch), now_ms=now_ms)
        if outcome.error:
            raise StorageError(f"the metadata log refuses a change: {outcome.error.name}")
        self._leader.advance_high_watermark(self._leader.log_end_offset)
        for record in rows:
            self.image.apply(record)


def _read(leader: PartitionLeader, start: int) -> Iterator[bytes]:
    """The values of the log's records from an offset on."""
    for stored in leader.batches:
        if stored.attributes & CONTROL or stored.last_offset < start:
            continue
        for row in decode_batch(stored.data).records:
            if stored.base_offset + row.offset_delta >= start:
                yield row.value or b""


def _committed(values: Iterable[bytes]) -> Iterator[MetadataRecord]:
    """The known records, without those of transactions that were aborted. Raises `DecodeError`."""
    held: list[MetadataRecord] | None = None
    for value in values:
        number = _number_of(value)
        if number in (_BEGIN, _ABORT):
            held = [] if number == _BEGIN else None
        elif number == _END:
            yield from held or ()
            held = None
        elif record := decode_metadata_record(value):
            if held is None:
                yield record
            else:
                held.append(record)
    if held is not None:
        raise DecodeError("the metadata log ends inside a transaction", 0)


def _producer_ids_record(broker_id: int, next_producer_id: int) -> MetadataRecord:
    body = {"broker_id": broker_id, "next_producer_id": next_producer_id}
    return MetadataRecord("PRODUCER_IDS_RECORD", body)


def _topic_record(topic: TopicImage) -> MetadataRecord:
    return MetadataRecord("TOPIC_RECORD", {"name": topic.name, "topic_id": topic.topic_id})


def _config_changes(
    kind: int, resource: str, before: Mapping[str, str], wanted: Mapping[str, str]
) -> Iterator[MetadataRecord]:
    for name in sorted(before.keys() | wanted.keys()):
        value = wanted.get(name)
        if before.get(name) != value:
            yield MetadataRecord(
                "CONFIG_RECORD",
                {
                    "resource_type": kind,
                    "resource_name": resource,
                    "name": name,
                    "value": value,
                },
            )


def _partition_changes(before: TopicImage, wanted: TopicImage) -> Iterator[MetadataRecord]:
    """A new partition, or as many changes of the leader as its epoch was incremented.

    Replicas that change under the same leader are one change.
    """
    for index, image in wanted.partitions.items():
        leader_id, epoch = image[:2]
        place: Value = {"partition_id": index, "topic_id": wanted.topic_id}
        replicas = {"replicas": list(image.replicas), "isr": list(image.in_sync)}
        known = before.partitions.get(index)
        if known is None:
            yield MetadataRecord(
                "PARTITION_RECORD",
                place
                | replicas
                | {
                    "removing_replicas": [],
                    "adding_replicas": [],
                    "leader": leader_id,
                    "leader_epoch": epoch,
                    "partition_epoch": 0,
                },
            )
            continue
        for _ in range(known.leader_epoch, epoch):
            yield MetadataRecord(
                "PARTITION_CHANGE_RECORD", place | replicas | {"leader": leader_id}
            )
        if known.leader_epoch == epoch and known != image:
            yield MetadataRecord(
                "PARTITION_CHANGE_RECORD", place | replicas | {"leader": _UNCHANGED}
            )
