"""Kafka's idempotent producer and transactions in production form, without I/O.

Bytes come in, bytes go out, the time is an argument. Five doors:

- the wire: `encode_request` ... `decode_response` and `frame`; `encode_batch`, `decode_batch`
- the leader of one partition: `PartitionLeader`; its log, which a follower has, too: `ReplicaLog`;
  files for its snapshots: `SnapshotDirectory` on a `DirectoryDisk`
- the coordinator of transactions: `TransactionCoordinator`, its settings `TransactionConfig`
- a broker of one node: `Node`; what several nodes share: `Cluster`
- a producer: `IdempotentProducerCore`, `TransactionalProducerCore`, their settings
  `ProducerConfig.of`; errors and snapshots stand in `impl.producer`

And those with I/O: `Producer`, `Consumer`, `Server`, `Broker` and the faults that one can inject.

A name is imported at its first use: `import impl` loads no other module.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from impl.broker.cluster import Cluster as Cluster
    from impl.broker.config import NodeConfig as NodeConfig
    from impl.broker.embedded import Broker as Broker
    from impl.broker.faults import CutFault as CutFault
    from impl.broker.faults import DelayFault as DelayFault
    from impl.broker.faults import DropFault as DropFault
    from impl.broker.faults import ErrorFault as ErrorFault
    from impl.broker.node import Node as Node
    from impl.broker.outputs import CloseConnection as CloseConnection
    from impl.broker.server import Server as Server
    from impl.client.arguments import GroupMetadata as GroupMetadata
    from impl.client.arguments import OffsetAndMetadata as OffsetAndMetadata
    from impl.client.errors import ClientError as ClientError
    from impl.client.errors import CommitFailedError as CommitFailedError
    from impl.client.errors import IllegalStateError as IllegalStateError
    from impl.client.errors import InvalidArgumentError as InvalidArgumentError
    from impl.client.errors import KafkaTimeoutError as KafkaTimeoutError
    from impl.client.errors import ProducerError as ProducerError
    from impl.client.errors import UnknownSettingError as UnknownSettingError
    from impl.client.security import AuthenticationFailedError as AuthenticationFailedError
    from impl.consumer.assignors import (
        CooperativeStickyPartitionAssignor as CooperativeStickyPartitionAssignor,
    )
    from impl.consumer.assignors import PartitionAssignor as PartitionAssignor
    from impl.consumer.assignors import RangePartitionAssignor as RangePartitionAssignor
    from impl.consumer.assignors import RoundRobinPartitionAssignor as RoundRobinPartitionAssignor
    from impl.consumer.assignors import StickyPartitionAssignor as StickyPartitionAssignor
    from impl.consumer.consumer import Consumer as Consumer
    from impl.consumer.consumer_record import ConsumerRecord as ConsumerRecord
    from impl.consumer.errors import ConsumerStoppedError as ConsumerStoppedError
    from impl.consumer.errors import LogTruncationError as LogTruncationError
    from impl.consumer.errors import NoOffsetForPartitionError as NoOffsetForPartitionError
    from impl.consumer.errors import OffsetOutOfRangeError as OffsetOutOfRangeError
    from impl.consumer.errors import RecordDeserializationError as RecordDeserializationError
    from impl.consumer.errors import RefusedError as RefusedError
    from impl.consumer.membership import ConsumerRebalanceListener as ConsumerRebalanceListener
    from impl.consumer.positions import OffsetAndTimestamp as OffsetAndTimestamp
    from impl.coordinator.config import TransactionConfig as TransactionConfig
    from impl.coordinator.metadata import TopicPartition as TopicPartition
    from impl.coordinator.transactions import TransactionCoordinator as TransactionCoordinator
    from impl.log.disk import DirectoryDisk as DirectoryDisk
    from impl.log.snapshot_directory import SnapshotDirectory as SnapshotDirectory
    from impl.partition.errors import PartitionError as PartitionError
    from impl.partition.leader import PartitionLeader as PartitionLeader
    from impl.partition.leader import ProduceOutcome as ProduceOutcome
    from impl.partition.log_config import LogConfig as LogConfig
    from impl.partition.replica_log import ReplicaLog as ReplicaLog
    from impl.producer import DeliveryHandle as DeliveryHandle
    from impl.producer import Disconnect as Disconnect
    from impl.producer import IdempotentProducerCore as IdempotentProducerCore
    from impl.producer import ProducerConfig as ProducerConfig
    from impl.producer import ProducerInterceptor as ProducerInterceptor
    from impl.producer import ProducerRecord as ProducerRecord
    from impl.producer import RecordMetadata as RecordMetadata
    from impl.producer import SendRequest as SendRequest
    from impl.producer import TransactionalProducerCore as TransactionalProducerCore
    from impl.producer.producer import Producer as Producer
    from impl.protocol.errors import DecodeError as DecodeError
    from impl.protocol.errors import EncodeError as EncodeError
    from impl.protocol.errors import ErrorCode as ErrorCode
    from impl.protocol.errors import ProtocolError as ProtocolError
    from impl.protocol.messages import decode_request as decode_request
    from impl.protocol.messages import decode_response as decode_response
    from impl.protocol.messages import encode_request as encode_request
    from impl.protocol.messages import encode_response as encode_response
    from impl.protocol.primitives import frame as frame
    from impl.protocol.primitives import take_frames as take_frames
    from impl.protocol.record_batch import Header as Header
    from impl.protocol.record_batch import Record as Record
    from impl.protocol.record_batch import RecordBatch as RecordBatch
    from impl.protocol.record_batch import client_batch as client_batch
    from impl.protocol.record_batch import decode_batch as decode_batch
    from impl.protocol.record_batch import encode_batch as encode_batch
    from impl.protocol.schemas import SUPPORTED_VERSIONS as SUPPORTED_VERSIONS
    from impl.protocol.schemas import ApiKey as ApiKey
    from impl.security.acls import AclBinding as AclBinding
    from impl.security.acls import AclOperation as AclOperation
    from impl.security.acls import AclPermission as AclPermission
    from impl.security.acls import PatternType as PatternType
    from impl.security.acls import ResourceType as ResourceType
    from impl.security.config import Security as Security
    from impl.security.tls import Tls as Tls

_HOMES: Final = {
    "AclBinding": "impl.security.acls",
    "AclOperation": "impl.security.acls",
    "AclPermission": "impl.security.acls",
    "ApiKey": "impl.protocol.schemas",
    "AuthenticationFailedError": "impl.client.security",
    "Broker": "impl.broker.embedded",
    "ClientError": "impl.client.errors",
    "CloseConnection": "impl.broker.outputs",
    "Cluster": "impl.broker.cluster",
    "CommitFailedError": "impl.client.errors",
    "Consumer": "impl.consumer.consumer",
    "ConsumerRebalanceListener": "impl.consumer.membership",
    "ConsumerRecord": "impl.consumer.consumer_record",
    "ConsumerStoppedError": "impl.consumer.errors",
    "CooperativeStickyPartitionAssignor": "impl.consumer.assignors",
    "CutFault": "impl.broker.faults",
    "DecodeError": "impl.protocol.errors",
    "DelayFault": "impl.broker.faults",
    "DeliveryHandle": "impl.producer",
    "DirectoryDisk": "impl.log.disk",
    "Disconnect": "impl.producer",
    "DropFault": "impl.broker.faults",
    "EncodeError": "impl.protocol.errors",
    "ErrorCode": "impl.protocol.errors",
    "ErrorFault": "impl.broker.faults",
    "GroupMetadata": "impl.client.arguments",
    "Header": "impl.protocol.record_batch",
    "IdempotentProducerCore": "impl.producer",
    "IllegalStateError": "impl.client.errors",
    "UnknownSettingError": "impl.client.errors",
    "InvalidArgumentError": "impl.client.errors",
    "KafkaTimeoutError": "impl.client.errors",
    "LogConfig": "impl.partition.log_config",
    "LogTruncationError": "impl.consumer.errors",
    "NoOffsetForPartitionError": "impl.consumer.errors",
    "Node": "impl.broker.node",
    "NodeConfig": "impl.broker.config",
    "OffsetAndMetadata": "impl.client.arguments",
    "OffsetAndTimestamp": "impl.consumer.positions",
    "OffsetOutOfRangeError": "impl.consumer.errors",
    "PartitionAssignor": "impl.consumer.assignors",
    "PartitionError": "impl.partition.errors",
    "PartitionLeader": "impl.partition.leader",
    "PatternType": "impl.security.acls",
    "ProduceOutcome": "impl.partition.leader",
    "Producer": "impl.producer.producer",
    "ProducerConfig": "impl.producer",
    "ProducerError": "impl.client.errors",
    "ProducerInterceptor": "impl.producer",
    "ProducerRecord": "impl.producer",
    "ProtocolError": "impl.protocol.errors",
    "RangePartitionAssignor": "impl.consumer.assignors",
    "Record": "impl.protocol.record_batch",
    "RecordBatch": "impl.protocol.record_batch",
    "RecordDeserializationError": "impl.consumer.errors",
    "RecordMetadata": "impl.producer",
    "RefusedError": "impl.consumer.errors",
    "ReplicaLog": "impl.partition.replica_log",
    "ResourceType": "impl.security.acls",
    "RoundRobinPartitionAssignor": "impl.consumer.assignors",
    "SUPPORTED_VERSIONS": "impl.protocol.schemas",
    "Security": "impl.security.config",
    "SendRequest": "impl.producer",
    "Server": "impl.broker.server",
    "SnapshotDirectory": "impl.log.snapshot_directory",
    "StickyPartitionAssignor": "impl.consumer.assignors",
    "Tls": "impl.security.tls",
    "TopicPartition": "impl.coordinator.metadata",
    "TransactionConfig": "impl.coordinator.config",
    "TransactionCoordinator": "impl.coordinator.transactions",
    "TransactionalProducerCore": "impl.producer",
    "client_batch": "impl.protocol.record_batch",
    "decode_batch": "impl.protocol.record_batch",
    "decode_request": "impl.protocol.messages",
    "decode_response": "impl.protocol.messages",
    "encode_batch": "impl.protocol.record_batch",
    "encode_request": "impl.protocol.messages",
    "encode_response": "impl.protocol.messages",
    "frame": "impl.protocol.primitives",
    "take_frames": "impl.protocol.primitives",
}
"""The module of each public name."""


def __getattr__(name: str) -> object:
    """Import a public name at its first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(import_module(_HOMES[name]), name)
    return globals()[name]


def __dir__() -> list[str]:
    """The public names, for completion and `help`."""
    return sorted({*globals(), *_HOMES})
