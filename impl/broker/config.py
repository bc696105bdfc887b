"""A node's settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from impl.broker.topics import MAX_PARTITIONS
from impl.coordinator.config import TransactionConfig
from impl.coordinator.offsets import OffsetsConfig
from impl.partition.replica_log import DEFAULT_CONFIG
from impl.partition.rules import DEFAULT_RULES, TransactionRules
from impl.partition.validation import LogConfig
from impl.settings import MAX_PORT, InvalidSetting, check_least

_LEAST: Final = {
    "node_id": 0,
    "port": 0,
    "num_partitions": 1,
    "broker_epoch": 0,
    "producer_id_expiration_check_interval_ms": 0,
    "log_retention_check_interval_ms": 0,
    "add_partitions_to_txn_retry_backoff_ms": 0,
    "add_partitions_to_txn_retry_backoff_max_ms": 0,
    "coordinator_lag_ms": 0,
    "coordinator_load_ms": 0,
}


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """A node's settings; Kafka's defaults where it has any. Times in milliseconds.

    `coordinator_lag_ms`: for as long coordinators do not know that partitions have moved. One that
    was deposed answers from memory meanwhile, and cannot write; a new one is none yet.
    `coordinator_load_ms`: for as long a new one reads its log: COORDINATOR_LOAD_IN_PROGRESS.

    Raises `InvalidSetting`.
    """

    node_id: int = 1
    host: str = "localhost"
    port: int = 9092
    cluster_id: str = "kafka-eos"
    num_partitions: int = 1
    broker_epoch: int = 0
    auto_create_topics: bool = True
    producer_id_expiration_check_interval_ms: int = 600_000
    log_retention_check_interval_ms: int = 300_000
    add_partitions_to_txn_retry_backoff_ms: int = 20
    add_partitions_to_txn_retry_backoff_max_ms: int = 100
    coordinator_lag_ms: int = 0
    coordinator_load_ms: int = 0
    log: LogConfig = DEFAULT_CONFIG
    rules: TransactionRules = DEFAULT_RULES
    transactions: TransactionConfig = field(default_factory=TransactionConfig)
    offsets: OffsetsConfig = field(default_factory=OffsetsConfig)

    def __post_init__(self) -> None:
        check_least(self, _LEAST)
        if self.num_partitions > MAX_PARTITIONS:
            raise InvalidSetting(self, "num_partitions", f"at most {MAX_PARTITIONS}")
        if self.port > MAX_PORT:
            raise InvalidSetting(self, "port", f"at most {MAX_PORT}")
