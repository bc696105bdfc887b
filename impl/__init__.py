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
They import asyncio at their first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from impl.broker.cluster import Cluster as Cluster
from impl.broker.config import NodeConfig as NodeConfig
from impl.broker.node import Node as Node
from impl.broker.outputs import CloseConnection as CloseConnection
from impl.client.arguments import GroupMetadata as GroupMetadata
from impl.client.arguments import OffsetAndMetadata as OffsetAndMetadata
from impl.client.errors import ProducerError as ProducerError
from impl.coordinator.config import TransactionConfig as TransactionConfig
from impl.coordinator.metadata import TopicPartition as TopicPartition
from impl.coordinator.transactions import TransactionCoordinator as TransactionCoordinator
from impl.log.disk import DirectoryDisk as DirectoryDisk
from impl.log.snapshot_directory import SnapshotDirectory as SnapshotDirectory
from impl.partition.errors import PartitionError as PartitionError
from impl.partition.leader import PartitionLeader as PartitionLeader
from impl.partition.leader import ProduceOutcome as ProduceOutcome
from impl.partition.replica_log import ReplicaLog as ReplicaLog
from impl.partition.validation import LogConfig as LogConfig
from impl.producer import DeliveryHandle as DeliveryHandle
from impl.producer import Disconnect as Disconnect
from impl.producer import IdempotentProducerCore as IdempotentProducerCore
from impl.producer import ProducerConfig as ProducerConfig
from impl.producer import ProducerInterceptor as ProducerInterceptor
from impl.producer import ProducerRecord as ProducerRecord
from impl.producer import RecordMetadata as RecordMetadata
from impl.producer import SendRequest as SendRequest
from impl.producer import TransactionalProducerCore as TransactionalProducerCore
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

if TYPE_CHECKING:
    from impl.broker.embedded import Broker as Broker
    from impl.broker.faults import CutFault as CutFault
    from impl.broker.faults import DelayFault as DelayFault
    from impl.broker.faults import DropFault as DropFault
    from impl.broker.faults import ErrorFault as ErrorFault
    from impl.broker.server import Server as Server
    from impl.client.security import AuthenticationFailedError as AuthenticationFailedError
    from impl.consumer.consumer import Consumer as Consumer
    from impl.consumer.consumer import OffsetAndTimestamp as OffsetAndTimestamp
    from impl.consumer.errors import CommitFailedError as CommitFailedError
    from impl.consumer.membership import ConsumerRebalanceListener as ConsumerRebalanceListener
    from impl.producer.producer import Producer as Producer

_WITH_ASYNCIO = {
    "AuthenticationFailedError": "impl.client.security",
    "Broker": "impl.broker.embedded",
    "CommitFailedError": "impl.consumer.errors",
    "Consumer": "impl.consumer.consumer",
    "ConsumerRebalanceListener": "impl.consumer.membership",
    "CutFault": "impl.broker.faults",
    "DelayFault": "impl.broker.faults",
    "DropFault": "impl.broker.faults",
    "ErrorFault": "impl.broker.faults",
    "OffsetAndTimestamp": "impl.consumer.consumer",
    "Producer": "impl.producer.producer",
    "Server": "impl.broker.server",
}


def __getattr__(name: str) -> object:
    """Import a name that brings asyncio with it at its first use (PEP 562)."""
    if name not in _WITH_ASYNCIO:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_WITH_ASYNCIO[name]), name)
