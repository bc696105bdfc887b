"""The topics of a cluster: names, ids, settings, and a leader for each partition.

Three rules:

1. A setting is applied or refused; none is ignored.
2. A topic id is a function of cluster, name and version: the same calls give the same ids.
3. Beyond the limit on partitions a topic is refused with POLICY_VIOLATION.

Theory of operation: `Topics` keeps each topic under its name and its id. `create` adds a topic or
raises `TopicRefused`, whose code and message are the answer.
Sources: `ReplicationControlManager.createTopics`, `Topic.validate`, `LogConfig`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from impl.broker.replicas import ReplicaPlacement, spread
from impl.broker.topic_refused import TopicRefused
from impl.coordinator.placement import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from impl.log.checkpoint_files import METADATA
from impl.log.disk import StorageError
from impl.partition.log_config import LogConfig
from impl.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from impl.partition.leader import PartitionLeader
    from impl.partition.replica_log import ReplicaLog

INTERNAL_TOPICS: Final = frozenset({TRANSACTION_STATE_TOPIC, OFFSETS_TOPIC})

MAX_NAME_CHARS: Final = 249
MAX_PARTITIONS: Final = 100_000
_UNKNOWN_TOPIC: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_UNKNOWN_TOPIC_ID: Final = ErrorCode.UNKNOWN_TOPIC_ID
_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic. `topic_id` has 16 bytes; `partitions` are leaders, `placements` where they are."""

    name: str
    topic_id: bytes
    configs: Mapping[str, str]
    partitions: tuple[PartitionLeader, ...]
    placements: tuple[ReplicaPlacement, ...]

    @property
    def leader_ids(self) -> tuple[int, ...]:
        """The nodes that lead the partitions, or led them last."""
        return tuple(placement.leader_id for placement in self.placements)

    @property
    def replication_factor(self) -> int:
        """How many replicas the first partition has."""
        return len(self.placements[0].replicas)

    @property
    def is_internal(self) -> bool:
        """Whether only brokers write to it. `Topic.isInternal`."""
        return self.name in INTERNAL_TOPICS

    def partition(self, index: int) -> PartitionLeader | None:
        """The leader of a partition, None if there is no such partition."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


class TopicStorage(Protocol):
    """Where topics are kept besides memory. All of it may raise `StorageError`."""

    def new_log(self, name: str, topic_id: bytes, partition: int, config: LogConfig) -> ReplicaLog:
        """The empty log of a new partition."""

    def store_topic(self, topic: Topic) -> None:
        """Store a topic that is new or has changed."""

    def delete_topic(self, topic: Topic) -> None:
        """Delete a topic and its logs."""


class _Memory:
    """Nothing is stored."""

    def new_log(self, name: str, topic_id: bytes, partition: int, config: LogConfig) -> ReplicaLog:
        """A log in memory."""
        from impl.partition.replica_log import ReplicaLog

        return ReplicaLog(config=config)

    def store_topic(self, topic: Topic) -> None:
        """Nothing to do."""

    def delete_topic(self, topic: Topic) -> None:
        """Nothing to do."""


def is_legal_name(name: str) -> bool:
    """`Topic.isValid`."""
    return not explain_name(name)


def check_new_name(name: str) -> None:
    """Raise `TopicRefused` for a name that no topic may get.

    `ControllerApis.createTopics`, `Topic.validate`.
    """
    if name == METADATA.topic:
        problem = f"Creation of internal topic {name} is prohibited."
        raise TopicRefused(ErrorCode.INVALID_REQUEST, problem)
    problem = explain_name(name)
    if problem:
        raise TopicRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)


def explain_name(name: str) -> str:
    """Why no topic may have this name, in Kafka's words; "" if one may."""
    problem = _explain_name(name)
    return f"Topic name is invalid: {problem}" if problem else ""


def _explain_name(name: str) -> str:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_NAME_CHARS:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME_CHARS}"
    if _LEGAL_NAME.fullmatch(name) is None:
        return (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_'"
            " and '-'"
        )
    return ""


def _metric_name(name: str) -> str:
    """What metrics call a topic: no two may share it. `Topic.unifyCollisionChars`."""
    return name.replace(".", "_")


class Topics:
    """All topics of a cluster; iterates in order of creation.

    Public state: `node_ids`, on which new partitions are placed in turn, and `down_ids` of nodes
    that do not run, which get replicas where there are too few; `version`, incremented by each
    change; `storage`, which gets each change first. Read-only: `config`, the settings of topics
    without their own, but for partitions that a node with other ones leads.
    """

    __slots__ = (
        "_by_id",
        "_by_metric_name",
        "_by_name",
        "_cluster_id",
        "_configs_of_nodes",
        "_partitions",
        "config",
        "down_ids",
        "node_ids",
        "storage",
        "version",
    )

    def __init__(self, cluster_id: str, config: LogConfig) -> None:
        self._cluster_id = cluster_id
        self.config = config
        self._configs_of_nodes: Mapping[int, LogConfig] = {}
        self.node_ids: tuple[int, ...] = ()
        self.down_ids: tuple[int, ...] = ()
        self.storage: TopicStorage = _Memory()
        self.version = 0
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._by_metric_name: dict[str, str] = {}
        self._partitions = 0

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_name.values())

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def get(self, name: str | None) -> Topic | None:
        """The topic of this name, or None."""
        return None if name is None else self._by_name.get(name)

    def find(self, name_or_id: str | bytes) -> Topic | ErrorCode:
        """The topic of this name or id, or the error for a client."""
        if isinstance(name_or_id, bytes):
            return self._by_id.get(name_or_id, _UNKNOWN_TOPIC_ID)
        return self._by_name.get(name_or_id, _UNKNOWN_TOPIC)

    def check_name(self, name: str) -> None:
        """Raise `TopicRefused` for a name that no topic may get, or that one has.

        One that differs by `.` and `_` alone is no other name.

        `ReplicationControlManager.validateNewTopicNames`.
        """
        check_new_name(name)
        if name in self._by_name:
            raise TopicRefused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        other = self._by_metric_name.get(_metric_name(name))
        if other is not None:
            problem = f"Topic '{name}' collides with existing topic: {other}"
            raise TopicRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)

    def create(
        self,
        name: str,
        num_partitions: int,
        configs: Mapping[str, str],
        *,
        replication_factor: int = 1,
        replicas: Sequence[Sequence[int]] = (),
        validate_only: bool = False,
    ) -> Topic:
        """Add a topic; with `validate_only` only return it. Raises `TopicRefused`.

        `replicas` places each partition; by default the nodes get so many replicas in turn.
        """
        self.check_name(name)
        _log_config(self.config, configs)  # settings are refused before numbers
        total = self._total_with(num_partitions)
        new = range(num_partitions)
        placements = self._place(new, replicas, replication_factor)
        topic_id = self._new_id(name)
        topic = Topic(name, topic_id, MappingProxyType(dict(configs)), (), placements)
        if not validate_only:
            topic = replace(topic, partitions=self._new_leaders(topic, new, placements))
            self.replace(topic)
            self._partitions = total
        return topic

    def _place(
        self, partitions: range, replicas: Sequence[Sequence[int]], replication_factor: int
    ) -> tuple[ReplicaPlacement, ...]:
        """Raises `TopicRefused` if there are fewer nodes than replicas."""
        chosen = replicas or spread(self.node_ids, self.down_ids, partitions, replication_factor)
        return tuple(ReplicaPlacement.on(nodes, self.node_ids) for nodes in chosen)

    def _new_leaders(
        self,
        topic: Topic,
        partitions: range,
        placements: Sequence[ReplicaPlacement],
    ) -> tuple[PartitionLeader, ...]:
        from impl.partition.leader import PartitionLeader  # a broker may start without any

        configs = self._log_configs(topic, placements)
        with _refuse_storage_errors():
            leaders = tuple(
                PartitionLeader(log=self.storage.new_log(topic.name, topic.topic_id, index, config))
                for index, config in zip(partitions, configs, strict=True)
            )
        for leader, placement in zip(leaders, placements, strict=True):
            leader.update_replicas(len(placement.replicas), len(placement.in_sync))
        return leaders

    def _total_with(self, more: int) -> int:
        """How many partitions there are with so many more. Raises `TopicRefused`."""
        total = self._partitions + more
        if total > MAX_PARTITIONS:
            problem = f"{total} partitions exceed the limit of {MAX_PARTITIONS}"
            raise TopicRefused(ErrorCode.POLICY_VIOLATION, problem)
        return total

    def add_partitions(
        self,
        topic: Topic,
        more: int,
        *,
        replicas: Sequence[Sequence[int]] = (),
        validate_only: bool = False,
    ) -> None:
        """Add partitions to a topic, by default on the nodes in turn. Raises `TopicRefused`."""
        first = len(topic.partitions)
        new = range(first, first + more)
        total = self._total_with(more)
        placements = self._place(new, replicas, topic.replication_factor)
        if validate_only:
            return
        self.replace(
            replace(
                topic,
                partitions=topic.partitions + self._new_leaders(topic, new, placements),
                placements=topic.placements + placements,
            )
        )
        self._partitions = total

    def configure(
        self, topic: Topic, configs: Mapping[str, str], *, validate_only: bool = False
    ) -> None:
        """Give a topic other settings, which its leaders apply at once. Raises `TopicRefused`."""
        _log_config(self.config, configs)
        if validate_only:
            return
        changed = replace(topic, configs=MappingProxyType(dict(configs)))
        self.replace(changed)
        self.configure_logs(changed)

    def configure_logs(self, topic: Topic) -> None:
        """Give the logs of a topic the settings that they have now."""
        configs = self._log_configs(topic, topic.placements)
        for leader, config in zip(topic.partitions, configs, strict=True):
            leader.log.configure(config)

    def change_defaults(self, config: LogConfig, of_nodes: Mapping[int, LogConfig]) -> None:
        """Topics without their own settings have others, also those that some nodes lead."""
        self.config, self._configs_of_nodes = config, of_nodes
        for topic in self:
            self.configure_logs(topic)

    def config_at(self, node_id: int) -> LogConfig:
        """The settings of topics without their own where this node leads."""
        return self._configs_of_nodes.get(node_id, self.config)

    def _log_configs(self, topic: Topic, placements: Sequence[ReplicaPlacement]) -> list[LogConfig]:
        """The settings of a topic's logs, wherever they are led."""
        bases = [self.config_at(placement.leader_id) for placement in placements]
        from impl.broker.topic_settings import with_topic_settings

        by_base = {id(base): with_topic_settings(base, topic.configs) for base in bases}
        return [by_base[id(base)] for base in bases]

    def restore(self, topic: Topic) -> None:
        """Add a topic that is stored already."""
        self._remember(topic)
        self._partitions += len(topic.partitions)

    def replace(self, topic: Topic) -> None:
        """Store a topic under its name and id. Raises `TopicRefused` if that fails."""
        with _refuse_storage_errors():
            self.storage.store_topic(topic)
        self._remember(topic)
        self.version += 1

    def _remember(self, topic: Topic) -> None:
        self._by_name[topic.name] = self._by_id[topic.topic_id] = topic
        self._by_metric_name[_metric_name(topic.name)] = topic.name

    def delete(self, topic: Topic) -> None:
        """Delete a topic with its partitions, if it exists. Raises `TopicRefused`."""
        if topic.topic_id in self._by_id:
            with _refuse_storage_errors():
                self.storage.delete_topic(topic)
            del self._by_id[topic.topic_id]
            del self._by_name[topic.name]
            self._by_metric_name.pop(_metric_name(topic.name), None)
            self._partitions -= len(topic.partitions)
            self.version += 1

    def _new_id(self, name: str) -> bytes:
        from hashlib import blake2b

        text = f"{self._cluster_id}/{self.version}/{name}"
        return blake2b(text.encode(), digest_size=16).digest()


def _log_config(base: LogConfig, configs: Mapping[str, str]) -> LogConfig:
    """Raises `TopicRefused`."""
    from impl.broker.topic_settings import log_config  # a broker may start without topics

    return log_config(base, configs)


@contextmanager
def _refuse_storage_errors() -> Iterator[None]:
    """A change that cannot be stored is refused."""
    try:
        yield
    except StorageError as error:
        raise TopicRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
