"""A cluster whose topics, logs, producer ids, access, quotas and settings are in a directory.

Five rules:

1. A change is stored before any node sees it.
2. Whoever opens the directory leads all partitions under the next leader epoch: no epoch is used
   by two runs, so coordinators of an earlier run are fenced.
3. A block of producer ids is stored before it is used: no id is used twice.
4. A directory without metadata, such as a copy of a broker's folder of one topic, has the topics of
   its folders.
5. The nodes of one process share the directory, as they share the cluster: each log is there
   once, whichever nodes have replicas of it. Replicas on nodes that the cluster does not have any
   more are dropped.

Sources: `BrokerServer.startup`, `MetaPropertiesEnsemble`, `LogManager.loadLogs`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from impl.broker.adopted_topics import check_whole, find_topics, first_unused_id
from impl.broker.client_quotas import QuotaEntity
from impl.broker.cluster import Cluster
from impl.broker.config import NodeConfig
from impl.broker.coordinators import INTERNAL_CONFIGS
from impl.broker.durable_access import DurableAccess
from impl.broker.producer_ids import ProducerIdBlock, ProducerIdBlocks
from impl.broker.releases import TRANSACTION_VERSION
from impl.broker.replicas import ReplicaPlacement
from impl.broker.stored_configs import served_configs, stored_config
from impl.broker.topics import INTERNAL_TOPICS, Topic
from impl.coordinator.placement import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from impl.log.checkpoint_files import (
    METADATA,
    CorruptCheckpoint,
    PartitionName,
    check_properties,
    format_id,
)
from impl.log.disk import Disk, DiskSpace, StorageError
from impl.partition.log_config import LogConfig
from impl.partition.replica_log import ReplicaLog
from impl.properties import InvalidProperty, decode_properties, encode_properties
from impl.protocol.errors import DecodeError, ErrorCode
from impl.security.config import Security
from impl.storage.damaged_files import (
    DamagedFile,
    IncompleteMetadata,
    MissingPartitions,
    path_of,
)
from impl.storage.log_directory import LogDirectory
from impl.storage.metadata_log import (
    METADATA_TOPIC_ID,
    MetadataImage,
    MetadataLog,
    MetadataRecord,
    PartitionImage,
    TopicImage,
)
from impl.storage.metadata_snapshot import (
    check_continuation,
    prepare_folder,
    read_bootstrap,
    read_newest_snapshot,
)

META_PROPERTIES: Final = "meta.properties"
METADATA_CONFIG: Final = LogConfig(flush_messages=1)
FIRST_NODE: Final = 1
WITH_METADATA: Final = "1"
"""The version of `meta.properties` of brokers whose metadata is in a log: ZooKeeper's have 0."""
LAST_RESERVED_DIRECTORY: Final = bytes(15) + b"\x64"
"""Ids of directories up to this one stand for none: `DirectoryId.reserved`."""
NO_LEADER: Final = -1

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
    """See the rules above. Also: `logs`, and `node_id`, that of the first node."""

    __slots__ = ("_clock_ms", "_metadata", "_node_ids", "logs", "node_id")

    def __init__(
        self,
        disk: Disk,
        cluster_id: str,
        config: LogConfig,
        clock_ms: Callable[[], int],
        security: Security | None = None,
        node_ids: Sequence[int] = (FIRST_NODE,),
    ) -> None:
        """Recover the logs of a disk for these nodes.

        A directory that is refused stays as it is, but for what a crash has left. Raises
        `ForeignDirectory` and other `OSError`, `StorageError`, `DecodeError` for damage.
        """
        self.node_id = node_ids[0]
        properties = _read_properties(disk, self.node_id)
        self.logs = LogDirectory(disk)
        self._clock_ms = clock_ms
        self._node_ids = tuple(node_ids)
        now_ms = clock_ms()
        self._metadata = open_metadata(self.logs, now_ms)
        blocks = _DurableBlocks(self._metadata, clock_ms)
        super().__init__(properties.get("cluster.id", cluster_id), config, blocks, security)
        configured = [(image, self._configs_of(image)) for image in self._known_topics(properties)]
        topics = [self._load(image, *configs, now_ms) for image, configs in configured]
        bootstrap = () if self._metadata.end_offset else read_bootstrap(disk)
        self.logs.claim()
        self._restore(topics, bootstrap, now_ms)
        self._keep_settings()
        if not properties:
            _write_properties(disk, cluster_id, self.node_id)
        if not self.logs.was_clean:
            self.checkpoint()  # what is recovered is flushed: another crash has less to recover

    def _known_topics(self, properties: Mapping[str, str]) -> list[TopicImage]:
        """The topics of the metadata; of the folders if there never was any."""
        if self._metadata.end_offset:
            check_places(self.logs, self._metadata.image, properties)
            if self._metadata.has_brokers:
                check_replicas(self.logs, self._metadata.image, self._node_ids)
            return list(self._metadata.image.topics.values())
        found = find_topics(self.logs, self.node_id)
        if found and properties.get("version") == WITH_METADATA:
            raise IncompleteMetadata(
                path_of(self.logs.disk, str(METADATA)),
                f"the metadata of {found[0].name} and of other topics is not here",
            )
        if properties:
            check_whole(self.logs, found)
        if found:
            _log.warning(
                "%s has no metadata: its topics are those of its folders, and have no settings of"
                " their own; users, ACLs and quotas are not here",
                self.logs.disk.name,
            )
        return found

    def _restore(self, topics: Sequence[Topic], bootstrap: Sequence[bytes], now_ms: int) -> None:
        """Lead all partitions under the next epoch."""
        storage = DurableTopics(self.logs, self._metadata, self._clock_ms)
        images = map(_image_of, topics)
        if self._metadata.end_offset:
            self._metadata.store_topics(images, now_ms)
        else:
            first = first_unused_id(topics)
            self._metadata.adopt(images, self.node_id, first, now_ms, bootstrap)
        self.topics.version = self._metadata.end_offset
        self.transaction_version = self._metadata.image.features.get(TRANSACTION_VERSION)
        for topic in topics:
            self.topics.restore(topic)
        self.topics.storage = storage

    def _keep_settings(self) -> None:
        """Take access, quotas and settings from the metadata, and keep them there."""
        image = self._metadata.image
        self.access.keep_in(DurableAccess(self._metadata, self._clock_ms))
        kept = {entity: values for entity, values in image.quotas.items() if values}
        self.quotas.keep_in(_DurableQuotas(self._metadata, self._clock_ms), kept)
        self.resources.keep_in(image.resources, self._store_configs)
        self._apply_settings()

    def _configs_of(self, image: TopicImage) -> tuple[Mapping[str, str], LogConfig]:
        """A topic's own settings, and all that its logs have. Raises `UnsupportedTopic`."""
        configs = served_configs(image.name, image.configs)
        if image.name in INTERNAL_TOPICS:
            configs = {**INTERNAL_CONFIGS[image.name], **configs}
        return configs, stored_config(image.name, self.topics.config, configs)

    def _load(
        self, image: TopicImage, configs: Mapping[str, str], config: LogConfig, now_ms: int
    ) -> Topic:
        """A topic whose replicas on nodes of this cluster all have the log."""
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
        placements = tuple(
            self._adopt(image.partitions[index]) for index in sorted(image.partitions)
        )
        for leader, placement in zip(partitions, placements, strict=True):
            leader.update_replicas(len(placement.replicas), len(placement.in_sync))
        own = MappingProxyType(dict(configs))
        return Topic(image.name, image.topic_id, own, partitions, placements)

    def _adopt(self, image: PartitionImage) -> ReplicaPlacement:
        """The replicas of a partition on nodes of this cluster, or one on the first of them."""
        kept = [node_id for node_id in image.replicas if node_id in self._node_ids]
        placement = ReplicaPlacement.on(kept or self._node_ids[:1], self._node_ids)
        can_lead = image.leader_id in placement.in_sync
        return placement._replace(leader_id=image.leader_id) if can_lead else placement

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


def _read_properties(disk: Disk, own_id: int) -> dict[str, str]:
    """Those of `meta.properties`, none if there is no such file.

    Raises `OSError`, `ForeignDirectory`, `DamagedFile`. `MetaPropertiesEnsemble.verify`.
    """
    path = path_of(disk, META_PROPERTIES)
    if META_PROPERTIES not in disk.list(""):
        return {}
    try:
        properties = decode_properties(disk.read(META_PROPERTIES))
        node_id = check_properties(properties)
    except (CorruptCheckpoint, InvalidProperty) as error:
        raise DamagedFile(path, str(error)) from error
    if node_id not in (None, own_id):
        raise ForeignDirectory(
            f"{path} is of node {node_id}, and this is node {own_id}: serve it with the setting"
            f" node.id={node_id}, or choose another directory"
        )
    return properties


def _write_properties(disk: Disk, cluster_id: str, node_id: int) -> None:
    """Write `meta.properties`. Raises `OSError`."""
    properties = {"cluster.id": cluster_id, "node.id": str(node_id), "version": WITH_METADATA}
    properties["directory.id"] = format_id(os.urandom(16))
    disk.replace(META_PROPERTIES, encode_properties(properties))


def open_metadata(logs: LogDirectory, now_ms: int) -> MetadataLog:
    """The metadata of a directory: the newest snapshot, and the log behind it.

    Raises `IncompleteMetadata`, `OSError`, `StorageError`, other `DecodeError` for damage.
    """
    disk, folder = logs.disk, str(METADATA)
    prepare_folder(disk, folder)
    snapshot = read_newest_snapshot(disk, folder)
    leader = logs.load(METADATA, METADATA_TOPIC_ID, METADATA_CONFIG, 1, now_ms)
    log = leader.log
    check_continuation(disk, folder, snapshot, log.log_start_offset, log.log_end_offset)
    try:
        return MetadataLog(leader, snapshot.values, snapshot.end_offset)
    except DecodeError as error:
        raise IncompleteMetadata(path_of(disk, folder), error.problem) from error


def check_places(logs: LogDirectory, image: MetadataImage, properties: Mapping[str, str]) -> None:
    """Raises `ForeignDirectory` if a partition is in another directory of its broker (KIP-858)."""
    own_id = properties.get("directory.id", "")
    present = set(logs.disk.list(""))
    for topic in image.topics.values():
        for index in topic.partitions:
            folder = str(PartitionName(topic.name, index))
            places = image.directories.get((topic.topic_id, index), ())
            others = [format_id(place) for place in places if place > LAST_RESERVED_DIRECTORY]
            if folder not in present and others and own_id not in others:
                raise ForeignDirectory(
                    f"{path_of(logs.disk, folder)} is not here, but in the log directory"
                    f" {others[0]}: a broker is served whose partitions are in one directory"
                )


def check_replicas(logs: LogDirectory, image: MetadataImage, node_ids: Sequence[int]) -> None:
    """Raises `MissingPartitions` if a partition of a real cluster has replicas on others alone.

    Our own nodes share a directory, where a partition without records has no folder.
    """
    present = set(logs.disk.list(""))
    for topic in image.topics.values():
        for index, partition in topic.partitions.items():
            folder = str(PartitionName(topic.name, index))
            if folder not in present and not set(partition.replicas) & set(node_ids):
                brokers = ", ".join(map(str, partition.replicas))
                problem = f"the replicas of the partition are on the brokers {brokers}"
                raise MissingPartitions(path_of(logs.disk, folder), problem)


def _image_of(topic: Topic) -> TopicImage:
    partitions = enumerate(zip(topic.placements, topic.partitions, strict=True))
    return TopicImage(
        topic.name,
        topic.topic_id,
        dict(topic.configs),
        {
            index: _partition_image(placement, leader.leader_epoch)
            for index, (placement, leader) in partitions
        },
    )


def _partition_image(placement: ReplicaPlacement, leader_epoch: int) -> PartitionImage:
    """Records of version 0 know no eligible replicas: the last leader stays in sync."""
    in_sync = placement.in_sync or (placement.leader_id,)
    leader_id = placement.leader_id if placement.is_led else NO_LEADER
    return PartitionImage(leader_id, leader_epoch, placement.replicas, in_sync)
