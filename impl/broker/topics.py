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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import cycle, islice
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from impl.coordinator.placement import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from impl.partition.leader import PartitionLeader
from impl.partition.validation import LogConfig
from impl.protocol.errors import ErrorCode

INTERNAL_TOPICS: Final = frozenset({TRANSACTION_STATE_TOPIC, OFFSETS_TOPIC})

MAX_NAME_CHARS: Final = 249
MAX_PARTITIONS: Final = 100_000
_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


class ConfigType(NamedTuple):
    """How a setting is parsed (`ValueError` and `KeyError` refuse it), and what it may be."""

    parse: Callable[[str], Any]
    may_be: str


def _at_least(least: int) -> ConfigType:
    def parse(text: str) -> int:
        number = int(text)
        if number < least:
            raise ValueError(text)
        return number

    return ConfigType(parse, f"an integer from {least} on")


_NATURAL: Final = _at_least(0)
_UNLIMITED: Final = _at_least(-1)
_POSITIVE: Final = _at_least(1)
_TIMESTAMP_TYPE: Final = ConfigType(
    {"CreateTime": False, "LogAppendTime": True}.__getitem__, "CreateTime or LogAppendTime"
)

CONFIGS: Final[Mapping[str, tuple[str, ConfigType]]] = MappingProxyType(
    {
        "max.message.bytes": ("max_message_bytes", _NATURAL),
        "min.insync.replicas": ("min_insync_replicas", _POSITIVE),
        "retention.bytes": ("retention_bytes", _UNLIMITED),
        "retention.ms": ("retention_ms", _UNLIMITED),
        "segment.bytes": ("segment_bytes", _POSITIVE),
        "segment.ms": ("segment_ms", _POSITIVE),
        "message.timestamp.type": ("is_log_append_time", _TIMESTAMP_TYPE),
        "message.timestamp.before.max.ms": ("message_timestamp_before_max_ms", _NATURAL),
        "message.timestamp.after.max.ms": ("message_timestamp_after_max_ms", _NATURAL),
    }
)
"""The supported topic settings: name to field of `LogConfig` and type."""

FIXED_CONFIGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cleanup.policy": "delete",
        "compression.type": "producer",
    }
)
"""Settings with one supported value."""


class TopicRefused(ValueError):
    """A topic cannot be created; `error` and the message are the answer."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic. `topic_id` has 16 bytes; `partitions` are leaders, `leader_ids` their nodes."""

    name: str
    topic_id: bytes
    configs: Mapping[str, str]
    partitions: tuple[PartitionLeader, ...]
    leader_ids: tuple[int, ...]

    @property
    def is_internal(self) -> bool:
        """Whether only brokers write to it. `Topic.isInternal`."""
        return self.name in INTERNAL_TOPICS

    def partition(self, index: int) -> PartitionLeader | None:
        """The leader of a partition, None if there is no such partition."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


def is_legal_name(name: str) -> bool:
    """`Topic.isValid`."""
    if name in (".", "..") or len(name) > MAX_NAME_CHARS:
        return False
    return _LEGAL_NAME.fullmatch(name) is not None


def log_config(base: LogConfig, configs: Mapping[str, str | None]) -> LogConfig:
    """`base` with a topic's own settings. Raises `TopicRefused` (INVALID_CONFIG)."""
    changes: dict[str, Any] = {}
    for name, text in configs.items():
        if name in FIXED_CONFIGS and text == FIXED_CONFIGS[name]:
            continue
        if name not in CONFIGS or text is None:
            known = ", ".join(sorted((*CONFIGS, *FIXED_CONFIGS)))
            problem = f"{name}={text} is not supported; supported settings: {known}"
            raise TopicRefused(ErrorCode.INVALID_CONFIG, problem)
        field, config_type = CONFIGS[name]
        try:
            changes[field] = config_type.parse(text)
        except (ValueError, KeyError) as error:
            problem = f"{name} must be {config_type.may_be}, is {text!r}"
            raise TopicRefused(ErrorCode.INVALID_CONFIG, problem) from error
    return replace(base, **changes)


class Topics:
    """All topics of a cluster; iterates in order of creation.

    Public state: `node_ids`, on which new partitions are placed in turn; `version`, incremented by
    each change.
    """

    __slots__ = (
        "_by_id",
        "_by_name",
        "_cluster_id",
        "_config",
        "_partitions",
        "node_ids",
        "version",
    )

    def __init__(self, cluster_id: str, config: LogConfig) -> None:
        self._cluster_id = cluster_id
        self._config = config
        self.node_ids: tuple[int, ...] = ()
        self.version = 0
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._partitions = 0

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_name.values())

    def get(self, name: str | None) -> Topic | None:
        """The topic of this name, or None."""
        return None if name is None else self._by_name.get(name)

    def find(self, name_or_id: str | bytes) -> Topic | ErrorCode:
        """The topic of this name or id, or the error for a client."""
        if isinstance(name_or_id, bytes):
            return self._by_id.get(name_or_id, ErrorCode.UNKNOWN_TOPIC_ID)
        return self._by_name.get(name_or_id, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def check_name(self, name: str) -> None:
        """Raise `TopicRefused` for a name that is illegal or exists."""
        if not is_legal_name(name):
            raise TopicRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"illegal name {name!r}")
        if name in self._by_name:
            raise TopicRefused(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name} already exists")

    def create(
        self,
        name: str,
        num_partitions: int,
        configs: Mapping[str, str],
        *,
        leader_ids: Sequence[int] = (),
        validate_only: bool = False,
    ) -> Topic:
        """Add a topic; with `validate_only` only return it. Raises `TopicRefused`.

        `leader_ids` places the partitions, by default on the nodes in turn.
        """
        self.check_name(name)
        config = log_config(self._config, configs)
        total = self._partitions + num_partitions
        if total > MAX_PARTITIONS:
            problem = f"{total} partitions exceed the limit of {MAX_PARTITIONS}"
            raise TopicRefused(ErrorCode.POLICY_VIOLATION, problem)
        topic = Topic(
            name,
            self._new_id(name),
            MappingProxyType(dict(configs)),
            tuple(PartitionLeader(config=config) for _ in range(num_partitions)),
            tuple(leader_ids) or tuple(islice(cycle(self.node_ids), num_partitions)),
        )
        if not validate_only:
            self.replace(topic)
            self._partitions = total
        return topic

    def replace(self, topic: Topic) -> None:
        """Store a topic under its name and id."""
        self._by_name[topic.name] = self._by_id[topic.topic_id] = topic
        self.version += 1

    def delete(self, topic: Topic) -> None:
        """Delete a topic with its partitions, if it exists."""
        if self._by_id.pop(topic.topic_id, None) is not None:
            del self._by_name[topic.name]
            self._partitions -= len(topic.partitions)
            self.version += 1

    def _new_id(self, name: str) -> bytes:
        text = f"{self._cluster_id}/{self.version}/{name}"
        return blake2b(text.encode(), digest_size=16).digest()
