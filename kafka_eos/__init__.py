"""Kafka's exactly-once protocol: clients, a broker, the model, its proofs, and a judge.

| who comes | names |
|---|---|
| writes an application | `Producer`, `Consumer`, `Broker`, `Server`: asyncio, real sockets |
| embeds the protocol | `IdempotentProducerCore`, `TransactionalProducerCore`, `PartitionLeader`, \
`TransactionCoordinator`, `Node`: no I/O, bytes and the time come in, effects go out |
| tests an application | `Broker`, and `CutFault`, `DelayFault`, `DropFault`, `ErrorFault` in it; \
`Security`, `Tls`, `AclBinding` of it |
| designs protocols | `explore`: every reachable state of a scope; `prove`: the theorems |
| builds a broker or a client | `run`: judge it against the model of its release |

Names are imported when they are used: `import kafka_eos` loads no other package, and a missing
extra shows with the first name that needs it. `impl` has the rest of the implementation.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from impl import (
        AclBinding,
        AclOperation,
        AclPermission,
        AuthenticationFailedError,
        Broker,
        ClientError,
        Cluster,
        CommitFailedError,
        Consumer,
        ConsumerRebalanceListener,
        ConsumerRecord,
        ConsumerStoppedError,
        CooperativeStickyPartitionAssignor,
        CutFault,
        DelayFault,
        DeliveryHandle,
        DropFault,
        ErrorCode,
        ErrorFault,
        GroupMetadata,
        IdempotentProducerCore,
        IllegalStateError,
        InvalidArgumentError,
        KafkaTimeoutError,
        LogTruncationError,
        Node,
        NodeConfig,
        NoOffsetForPartitionError,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        OffsetOutOfRangeError,
        PartitionAssignor,
        PartitionLeader,
        PatternType,
        Producer,
        ProducerConfig,
        ProducerError,
        ProducerInterceptor,
        ProducerRecord,
        RangePartitionAssignor,
        RecordDeserializationError,
        RecordMetadata,
        RefusedError,
        ReplicaLog,
        ResourceType,
        RoundRobinPartitionAssignor,
        Security,
        Server,
        StickyPartitionAssignor,
        Tls,
        TopicPartition,
        TransactionalProducerCore,
        TransactionConfig,
        TransactionCoordinator,
        UnknownSettingError,
    )
    from kafka_eos.command_line import main
    from kafka_eos.reports import prove, run
    from proofs.explore.scope import ScopeReport
    from proofs.explore.scope import explore_scope as explore

__all__ = [
    "AclBinding",
    "AclOperation",
    "AclPermission",
    "AuthenticationFailedError",
    "Broker",
    "ClientError",
    "Cluster",
    "CommitFailedError",
    "Consumer",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ConsumerStoppedError",
    "CooperativeStickyPartitionAssignor",
    "CutFault",
    "DelayFault",
    "DeliveryHandle",
    "DropFault",
    "ErrorCode",
    "ErrorFault",
    "GroupMetadata",
    "IdempotentProducerCore",
    "IllegalStateError",
    "InvalidArgumentError",
    "KafkaTimeoutError",
    "LogTruncationError",
    "NoOffsetForPartitionError",
    "Node",
    "NodeConfig",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetOutOfRangeError",
    "PartitionAssignor",
    "PartitionLeader",
    "PatternType",
    "Producer",
    "ProducerConfig",
    "ProducerError",
    "ProducerInterceptor",
    "ProducerRecord",
    "RangePartitionAssignor",
    "RecordDeserializationError",
    "RecordMetadata",
    "RefusedError",
    "ReplicaLog",
    "ResourceType",
    "RoundRobinPartitionAssignor",
    "ScopeReport",
    "Security",
    "Server",
    "StickyPartitionAssignor",
    "Tls",
    "TopicPartition",
    "TransactionConfig",
    "TransactionCoordinator",
    "TransactionalProducerCore",
    "UnknownSettingError",
    "explore",
    "main",
    "prove",
    "run",
]

_ELSEWHERE: Final = {
    "ScopeReport": ("proofs.explore.scope", "ScopeReport"),
    "explore": ("proofs.explore.scope", "explore_scope"),
    "main": ("kafka_eos.command_line", "main"),
    "prove": ("kafka_eos.reports", "prove"),
    "run": ("kafka_eos.reports", "run"),
}
"""Where a name stands, if not in `impl`."""


def __getattr__(name: str) -> Any:
    """Import a public name at its first use (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _ELSEWHERE.get(name, ("impl", name))
    globals()[name] = getattr(import_module(module), attribute)
    return globals()[name]


def __dir__() -> list[str]:
    """The public names, for completion and `help`."""
    return sorted({*globals(), *__all__})
