"""Kafka's idempotent producer and transactions in production form, without I/O.

Bytes come in, bytes go out, the time is an argument. Five doors:

- the wire: `encode_request` ... `decode_response` and `frame`; `encode_batch`, `decode_batch`
- the leader of one partition: `PartitionLeader`; its log, which a follower has, too: `ReplicaLog`;
  a folder for its snapshots: `SnapshotDirectory`
- the coordinator of transactions: `TransactionCoordinator`, its settings `TransactionConfig`
- a broker of one node: `Node`; what several nodes share: `Cluster`
- a producer: `IdempotentProducerCore`, `TransactionalProducerCore`, their settings
  `ProducerConfig.of`; errors and snapshots stand in `impl.producer`

And those with I/O: `Producer`, `Consumer` and `Server`. They import asyncio at their first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from impl.broker.cluster import Cluster
from impl.broker.config import NodeConfig
from impl.broker.node import Node
from impl.broker.outputs import CloseConnection
from impl.client.errors import ProducerError
from impl.coordinator.config import TransactionConfig
from impl.coordinator.transactions import TransactionCoordinator
from impl.log.snapshot_directory import SnapshotDirectory
from impl.partition.errors import PartitionError
from impl.partition.leader import PartitionLeader, ProduceOutcome
from impl.partition.replica_log import ReplicaLog
from impl.partition.validation import LogConfig
from impl.producer import (
    DeliveryHandle,
    Disconnect,
    IdempotentProducerCore,
    ProducerConfig,
    SendRequest,
    TransactionalProducerCore,
)
from impl.protocol.errors import DecodeError, EncodeError, ErrorCode, ProtocolError
from impl.protocol.messages import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from impl.protocol.primitives import frame, take_frames
from impl.protocol.record_batch import (
    Header,
    Record,
    RecordBatch,
    client_batch,
    decode_batch,
    encode_batch,
)
from impl.protocol.schemas import SUPPORTED_VERSIONS, ApiKey

if TYPE_CHECKING:
    from impl.broker.server import Server
    from impl.consumer.consumer import Consumer
    from impl.producer.producer import Producer

__all__ = [
    "SUPPORTED_VERSIONS",
    "ApiKey",
    "CloseConnection",
    "Cluster",
    "Consumer",
    "DecodeError",
    "DeliveryHandle",
    "Disconnect",
    "EncodeError",
    "ErrorCode",
    "Header",
    "IdempotentProducerCore",
    "LogConfig",
    "Node",
    "NodeConfig",
    "PartitionError",
    "PartitionLeader",
    "ProduceOutcome",
    "Producer",
    "ProducerConfig",
    "ProducerError",
    "ProtocolError",
    "Record",
    "RecordBatch",
    "ReplicaLog",
    "SendRequest",
    "Server",
    "SnapshotDirectory",
    "TransactionConfig",
    "TransactionCoordinator",
    "TransactionalProducerCore",
    "client_batch",
    "decode_batch",
    "decode_request",
    "decode_response",
    "encode_batch",
    "encode_request",
    "encode_response",
    "frame",
    "take_frames",
]


_WITH_ASYNCIO = {
    "Consumer": "impl.consumer.consumer",
    "Producer": "impl.producer.producer",
    "Server": "impl.broker.server",
}


def __getattr__(name: str) -> object:
    """Import a name that brings asyncio with it at its first use (PEP 562)."""
    if name not in _WITH_ASYNCIO:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_WITH_ASYNCIO[name]), name)
