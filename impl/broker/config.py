"""A node's settings."""

from __future__ import annotations

from dataclasses import dataclass, field

from impl.broker.topics import MAX_PARTITIONS
from impl.coordinator.config import TransactionConfig
from impl.coordinator.group_messages import GroupConfig
from impl.coordinator.offsets import OffsetsConfig
from impl.partition.replica_log import DEFAULT_CONFIG
from impl.partition.validation import LogConfig
from impl.settings import MAX_PORT, Settings, integer


@dataclass(frozen=True, slots=True)
class NodeConfig(Settings):
    """A node's settings; Kafka's defaults where it has any. Times in milliseconds.

    `coordinator_lag_ms`: how late coordinators learn that partitions moved. Meanwhile a deposed one
    answers from memory but cannot write, and the new one does not coordinate yet.
    `coordinator_load_ms`: how long a new one reads its log: COORDINATOR_LOAD_IN_PROGRESS.
    `marker_delay_ms`: how long a decided transaction stays in PrepareCommit or PrepareAbort before
    its markers are sent; its producer's next one meets CONCURRENT_TRANSACTIONS meanwhile.

    Raises `InvalidSetting`.
    """

    node_id: int = integer(1)
    host: str = "localhost"
    port: int = integer(9092, greatest=MAX_PORT)
    cluster_id: str = "kafka-eos"
    num_partitions: int = integer(1, least=1, greatest=MAX_PARTITIONS)
    broker_epoch: int = integer(0)
    auto_create_topics: bool = True
    producer_id_expiration_check_interval_ms: int = integer(600_000)
    log_retention_check_interval_ms: int = integer(300_000)
    add_partitions_to_txn_retry_backoff_ms: int = integer(20)
    add_partitions_to_txn_retry_backoff_max_ms: int = integer(100)
    coordinator_lag_ms: int = integer(0)
    coordinator_load_ms: int = integer(0)
    marker_delay_ms: int = integer(0)
    log: LogConfig = DEFAULT_CONFIG
    transactions: TransactionConfig = field(default_factory=TransactionConfig)
    offsets: OffsetsConfig = field(default_factory=OffsetsConfig)
    groups: GroupConfig = field(default_factory=GroupConfig)
