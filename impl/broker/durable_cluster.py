"""A cluster whose topics, logs, producer ids, access, quotas and settings are in a directory.

Five rules:

1. A change is stored before any node sees it.
2. Whoever opens the directory leads all partitions, under the next leader epoch: no epoch is used
   by two runs, so coordinators of an earlier run are fenced.
3. A block of producer ids is stored before it is used: no id is used twice.
4. A directory without metadata, such as a copy of a broker's folder of one topic, has the topics of
   its folders.
5. The nodes of one process share the directory, as they share the cluster.

Sources: `BrokerServer.startup`, `MetaPropertiesEnsemble`, `LogManager.loadLogs`.
"""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from impl.broker.client_quotas import QuotaEntity
from impl.broker.cluster import Cluster
from impl.broker.config import NodeConfig
from impl.broker.coordinators import INTERNAL_CONFIGS
from impl.broker.durable_access import DurableAccess
from impl.broker.producer_ids import ProducerIdBlock, ProducerIdBlocks
from impl.broker.releases import TRANSACTION_VERSION
from impl.broker.topic_settings import log_config
from impl.broker.topics import INTERNAL_TOPICS, Topic
from impl.coordinator.placement import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from impl.log.checkpoint_files import (
    CorruptCheckpoint,
    PartitionName,
    check_properties,
    format_id,
)
from impl.log.disk import Disk, DiskSpace, StorageError
from impl.partition.log_config import LogConfig
from impl.partition.replica_log import ReplicaLog
from impl.properties import InvalidProperty, decode_properties, encode_properties
from impl.protocol.errors import ErrorCode
from impl.security.config import Security
from impl.storage.damaged_files import DamagedFile, path_of
from impl.storage.log_directory import LogDirectory
from impl.storage.metadata_log import (
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    MetadataLog,
    MetadataRecord,
    PartitionImage,
    TopicImage,
)

META_PROPERTIES: Final = "meta.properties"
METADATA: Final = PartitionName(METADATA_TOPIC, 0)
METADATA_CONFIG: Final = LogConfig(flush_messages=1)
FIRST_NODE: Final = 1

_log = logging.getLogger(__name__)


class ForeignDirectory(OSError):
    """A directory of a node with another id: choose another one, or change the id in its file."""


class _DurableBlocks:
    """Blocks of producer ids, each stored before it is used."""

    def __init__(self, metadata: MetadataLog, clock_ms: Callable[[], int]) -> None:
        self._metadata = metadata
        self._clock_ms = clock_ms

    def allocate(self, broker_id: int) -> ProducerIdBlock | ErrorCode:
        """The next block; brokers ask again after an error."""

        def persist(next_producer_id: int) -> None:
            self._metadata.store_next_producer_id(broker_id, next_producer_id, self._clock_ms())

        blocks = ProducerIdBlocks(self._metadata.image.next_producer_id, persist=persist)
        try:
            return blocks.allocate(broker_id)
        except StorageError:
            return ErrorCode.KAFKA_STORAGE_ERROR


class _DurableQuotas:
    """The `QuotaStorage` of a log directory."""

    def __init__(self, metadata: MetadataLog, clock_ms: Callable[[], int]) -> None:
        self._metadata = metadata
        self._clock_ms = clock_ms

    def store_quotas(self, entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
        """Store values of an entity, as one change; None removes one."""
        names = [{"entity_type": kind, "entity_name": name} for kind, name in entity]
        records = [
            MetadataRecord(
                "CLIENT_QUOTA_RECORD",
                {"entity": names, "key": key, "value": value or 0.0, "remove": value is None},
            )
            for key, value in changes.items()
        ]
        self._metadata.append(records, self._clock_ms())


class DurableTopics:
    """The `TopicStorage` of a log directory."""

    def __init__(
        self, logs: LogDirectory, metadata: MetadataLog, clock_ms: Callable[[], int]
    ) -> None:
        self._logs = logs
        self._metadata = metadata
        self._clock_ms = clock_ms

    def new_log(self, name: str, topic_id: bytes, partition: int, config: LogConfig) -> ReplicaLog:
        """A log without a folder, until its first batch."""
        try:
            return self._logs.new_log(PartitionName(name, partition), topic_id, config)
        except OSError as error:
            raise StorageError(f"{name}-{partition}: {error}") from error

    def store_topic(self, topic: Topic) -> None:
        """Store what has changed of a topic."""
        self.store_topics([topic])

    def store_topics(self, topics: Iterable[Topic]) -> None:
        """Store what has changed of several topics, as one change. Raises `StorageError`."""
        self._metadata.store_topics(map(_image_of, topics), self._clock_ms())

    def delete_topic(self, topic: Topic) -> None:
        """Store that the topic is deleted, then delete its folders."""
        self._metadata.remove_topic(topic.topic_id, self._clock_ms())
        for index in range(len(topic.partitions)):
            with suppress(OSError):  # it is set aside when its name is used again
                self._logs.delete(PartitionName(topic.name, index))


class DurableCluster(Cluster):
    """See the rules above. Also: `logs`."""

    __slots__ = ("_clock_ms", "_metadata", "logs")

    def __init__(
        self,
        disk: Disk,
        cluster_id: str,
        config: LogConfig,
        clock_ms: Callable[[], int],
        security: Security | None = None,
    ) -> None:
        """Recover the logs of a disk.

        Raises `ForeignDirectory` and other `OSError`, `StorageError`, `DecodeError` for damage.
        """
        properties = _read_properties(disk, cluster_id)
        self.logs = LogDirectory(disk)
        self._clock_ms = clock_ms
        now_ms = clock_ms()
        is_new = str(METADATA) not in disk.list("")
        leader = self.logs.load(METADATA, METADATA_TOPIC_ID, METADATA_CONFIG, 1, now_ms)
        self._metadata = MetadataLog(leader)
        blocks = _DurableBlocks(self._metadata, clock_ms)
        super().__init__(properties["cluster.id"], config, blocks, security)
        self.access.keep_in(DurableAccess(self._metadata, clock_ms))
        stored = self._metadata.image.quotas
        kept = {entity: values for entity, values in stored.items() if values}
        self.quotas.keep_in(_DurableQuotas(self._metadata, clock_ms), kept)
        self.resources.keep_in(self._metadata.image.resources, self._store_configs)
        images = _found(self.logs) if is_new else list(self._metadata.image.topics.values())
        self._restore(images, now_ms, adopts=is_new)

    def _restore(self, images: Sequence[TopicImage], now_ms: int, *, adopts: bool) -> None:
        """Load all partitions, and lead them under the next epoch."""
        self.topics.version = self._metadata.end_offset
        self.transaction_version = self._metadata.image.features.get(TRANSACTION_VERSION)
        storage = DurableTopics(self.logs, self._metadata, self._clock_ms)
        topics = [self._load(image, now_ms) for image in images]
        storage.store_topics(topics)
        for topic in topics:
            self.topics.restore(topic)
        self.topics.storage = storage
        if adopts:
            self._skip_used_producer_ids(topics, now_ms)
        if not self.logs.was_clean:
            self.checkpoint()  # what is recovered is flushed: another crash has less to recover

    def _skip_used_producer_ids(self, topics: Iterable[Topic], now_ms: int) -> None:
        """Nothing says which ids were allocated, but the logs know those that wrote."""
        known = [max(log.producers, default=-1) for topic in topics for log in topic.partitions]
        following = max(known, default=-1) + 1
        if following:
            self._metadata.store_next_producer_id(FIRST_NODE, following, now_ms)

    def _load(self, image: TopicImage, now_ms: int) -> Topic:
        """Node 1 leads all partitions of a topic until they are moved."""
        configs = image.configs
        if image.name in INTERNAL_TOPICS:
            configs = {**INTERNAL_CONFIGS[image.name], **configs}
        config = log_config(self.topics.config, configs)
        partitions = tuple(
            self.logs.load(
                PartitionName(image.name, index),
                image.topic_id,
                config,
                image.partitions[index].leader_epoch + 1,
                now_ms,
            )
            for index in sorted(image.partitions)
        )
        ids = tuple(FIRST_NODE for _ in partitions)
        return Topic(image.name, image.topic_id, MappingProxyType(configs), partitions, ids)

    def _store_configs(self, kind: int, name: str, configs: Mapping[str, str]) -> None:
        """Store the settings of a resource that is no topic. Raises `StorageError`."""
        self._metadata.store_configs(kind, name, configs, self._clock_ms())

    def set_transaction_version(self, level: int) -> None:
        """Change the feature for all nodes. Raises `StorageError`."""
        self._metadata.store_feature(TRANSACTION_VERSION, level, self._clock_ms())
        super().set_transaction_version(level)

    def settings_of(self, config: NodeConfig) -> NodeConfig:
        """These settings with as many partitions of internal topics as there are."""
        state, offsets = map(self.topics.get, (TRANSACTION_STATE_TOPIC, OFFSETS_TOPIC))
        if state is not None:
            count = len(state.partitions)
            config = replace(
                config, transactions=replace(config.transactions, num_partitions=count)
            )
        if offsets is not None:
            count = len(offsets.partitions)
            config = replace(config, offsets=replace(config.offsets, num_partitions=count))
        return config

    @property
    def log_dir(self) -> str:
        """What DescribeLogDirs answers."""
        return self.logs.disk.name

    @property
    def log_dir_space(self) -> DiskSpace:
        """What DescribeLogDirs answers (KIP-827). Raises `OSError`."""
        return self.logs.disk.space

    def checkpoint(self) -> None:
        """Write the checkpoints of all logs; one that fails is tried again with the next."""
        try:
            self.logs.checkpoint()
        except (OSError, StorageError) as error:
            _log.warning("no checkpoint of %s: %s", self.log_dir, error)

    def close(self) -> None:
        """Flush all logs: the next start recovers nothing. Raises `OSError`, `StorageError`."""
        self.logs.close()


def _read_properties(disk: Disk, cluster_id: str) -> dict[str, str]:
    """Those of `meta.properties`, which is written if there is none.

    Raises `OSError`, `ForeignDirectory`, `DamagedFile`. `MetaPropertiesEnsemble.verify`.
    """
    path = path_of(disk, META_PROPERTIES)
    if META_PROPERTIES not in disk.list(""):
        properties = {"cluster.id": cluster_id, "node.id": str(FIRST_NODE), "version": "1"}
        properties["directory.id"] = format_id(os.urandom(16))
        disk.replace(META_PROPERTIES, encode_properties(properties))
        return properties
    try:
        properties = decode_properties(disk.read(META_PROPERTIES))
        node_id = check_properties(properties)
    except (CorruptCheckpoint, InvalidProperty) as error:
        raise DamagedFile(path, str(error)) from error
    if node_id not in (None, FIRST_NODE):
        raise ForeignDirectory(
            f"{path} is of node {node_id}, and this is node {FIRST_NODE}: choose another directory,"
            " or change the id in that file, and this node takes the directory over"
        )
    return properties


def _image_of(topic: Topic) -> TopicImage:
    leaders = zip(topic.leader_ids, topic.partitions, strict=True)
    return TopicImage(
        topic.name,
        topic.topic_id,
        dict(topic.configs),
        {
            index: PartitionImage(leader_id, leader.leader_epoch)
            for index, (leader_id, leader) in enumerate(leaders)
        },
    )


def _found(logs: LogDirectory) -> list[TopicImage]:
    """The topics of a directory's folders, which have no metadata."""
    epochs: dict[str, dict[int, PartitionImage]] = defaultdict(dict)
    ids = {}
    for (name, index), topic_id in logs.find_partitions().items():
        ids[name] = topic_id
        epochs[name][index] = PartitionImage(
            FIRST_NODE, logs.last_epoch(PartitionName(name, index))
        )
    return [
        TopicImage(
            name,
            ids[name],
            {},
            {
                index: found.get(index, PartitionImage(FIRST_NODE, 0))
                for index in range(max(found) + 1)
            },
        )
        for name, found in epochs.items()
    ]
