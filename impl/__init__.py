"""Kafka's idempotent producer protocol in production form, without I/O.

Bytes come in, bytes go out, the time is an argument. Four doors:

- the wire: `encode_request` ... `decode_response` and `frame`; `encode_batch`, `decode_batch`
- the leader of one partition: `PartitionLeader`; its log, which a follower has, too: `ReplicaLog`;
  a folder for its snapshots: `SnapshotDirectory`
- a broker of one node: `Node`
- an idempotent producer: `IdempotentProducerCore`, its settings `ProducerConfig.of`; its errors
  and snapshots stand in `impl.producer`
"""

from impl.broker.node import CloseConnection, Node, NodeConfig
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
    ProducerError,
    SendRequest,
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

__all__ = [
    "SUPPORTED_VERSIONS",
    "ApiKey",
    "CloseConnection",
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
    "ProducerConfig",
    "ProducerError",
    "ProtocolError",
    "Record",
    "RecordBatch",
    "ReplicaLog",
    "SendRequest",
    "SnapshotDirectory",
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
