"""A node's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, TypeVar

from impl.broker.releases import NEWEST_RELEASE, RELEASES, entry_of_release
from impl.broker.topics import MAX_PARTITIONS
from impl.coordinator.config import CONFIGS, TransactionConfig
from impl.coordinator.group_config import (
    CONSUMER_GROUP_CONFIGS,
    OFFSETS_CONFIGS,
    ConsumerGroupConfig,
    GroupConfig,
    OffsetsConfig,
)
from impl.partition.log_config import DEFAULT_CONFIG, LogConfig
from impl.partition.rules import RULES
from impl.protocol.primitives import MAX_FRAME_BYTES
from impl.security.config import Security
from impl.settings import INT_MAX, MAX_PORT, MAX_REPLICAS, InvalidSetting, Settings, integer

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class NodeConfig(Settings):
    """A node's settings; Kafka's defaults where it has any. Times in milliseconds.

    `host`: where it listens; `advertised_host`: where clients are told to connect to, if they reach
    it by another name. `advertised.listeners`.
    `coordinator_lag_ms`: how late coordinators learn that partitions moved. Meanwhile a deposed one
    answers from memory but cannot write, and the new one does not coordinate yet.
    `coordinator_load_ms`: how long a new one reads its log: COORDINATOR_LOAD_IN_PROGRESS.
    `marker_delay_ms`: how long a decided transaction stays in PrepareCommit or PrepareAbort before
    its markers are sent; its producer's next one meets CONCURRENT_TRANSACTIONS meanwhile.
    `max_connections` and the four after it: `connection_limits`; -1 is none.
    `release`: whose versions it serves; `of_release` sets its rules as well.
    `named`: what was given by Kafka's names, as text (`impl.broker.node_settings`); settings
    without effect are there alone.

    Raises `InvalidSetting`.
    """

    node_id: int = integer(1)
    host: str = "localhost"
    advertised_host: str | None = None
    port: int = integer(9092, greatest=MAX_PORT)
    cluster_id: str = "kafka-eos"
    release: str = NEWEST_RELEASE
    num_partitions: int = integer(1, least=1, greatest=MAX_PARTITIONS)
    default_replication_factor: int = integer(1, least=1, greatest=MAX_REPLICAS)
    broker_epoch: int = integer(0)
    auto_create_topics: bool = True
    delete_topic_enable: bool = True
    producer_id_expiration_check_interval_ms: int = integer(600_000)
    log_retention_check_interval_ms: int = integer(300_000)
    log_cleaner_backoff_ms: int = integer(15_000)
    fetch_max_bytes: int = integer(57_671_680, least=1024)
    max_incremental_fetch_session_cache_slots: int = integer(1000)
    log_flush_offset_checkpoint_interval_ms: int = integer(60_000)
    max_connections: int = integer(INT_MAX, least=1)
    max_connections_per_ip: int = integer(INT_MAX)
    connections_max_idle_ms: int = integer(600_000, least=-1)
    socket_request_max_bytes: int = integer(MAX_FRAME_BYTES, least=1, greatest=MAX_FRAME_BYTES)
    queued_max_request_bytes: int = integer(-1, least=-1)
    add_partitions_to_txn_retry_backoff_ms: int = integer(20)
    add_partitions_to_txn_retry_backoff_max_ms: int = integer(100)
    coordinator_lag_ms: int = integer(0)
    coordinator_load_ms: int = integer(0)
    marker_delay_ms: int = integer(0)
    log: LogConfig = DEFAULT_CONFIG
    transactions: TransactionConfig = field(default_factory=TransactionConfig)
    offsets: OffsetsConfig = field(default_factory=OffsetsConfig)
    groups: GroupConfig = field(default_factory=GroupConfig)
    consumer_groups: ConsumerGroupConfig = field(default_factory=ConsumerGroupConfig)
    security: Security = field(default_factory=Security)
    named: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check each setting."""
        Settings.__post_init__(self)
        if self.release not in RELEASES:
            raise InvalidSetting(self, "release", f"one of {', '.join(RELEASES)}")

    @property
    def known_host(self) -> str:
        """The host of its address as clients know it."""
        return self.advertised_host or self.host

    def of_release(self, release: str) -> NodeConfig:
        """These settings with the versions and rules of a release. Raises `InvalidSetting`."""
        me = replace(self, release=release)
        return replace(
            me,
            log=replace(me.log, rules=entry_of_release(RULES, release)),
            transactions=_with_rules(me.transactions, CONFIGS, release),
            offsets=_with_rules(me.offsets, OFFSETS_CONFIGS, release),
            consumer_groups=_with_rules(me.consumer_groups, CONSUMER_GROUP_CONFIGS, release),
        )


def _with_rules(config: T, table: Mapping[str, T], release: str) -> T:
    """`config` with the fields of a release that differ between releases."""
    rules = [
        field.name
        for field in fields(config)
        if len({getattr(entry, field.name) for entry in table.values()}) > 1
    ]
    entry = entry_of_release(table, release)
    return replace(config, **{name: getattr(entry, name) for name in rules})
