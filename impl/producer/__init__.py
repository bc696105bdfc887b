"""The producer, idempotent or transactional: cores that take values and the time."""

from impl.producer.arguments import GroupMetadata, OffsetAndMetadata
from impl.producer.batch import DeliveryHandle
from impl.producer.config import ProducerConfig
from impl.producer.core import Disconnect, Effect, IdempotentProducerCore, SendRequest
from impl.producer.errors import (
    AbortedError,
    Advice,
    AuthorizationError,
    BufferExhaustedError,
    CommitFailedError,
    ConfigError,
    DeliveryError,
    DeliveryTimeoutError,
    FatalProducerError,
    IllegalStateError,
    InvalidArgumentError,
    KafkaTimeoutError,
    MalformedAnswerError,
    ProducerClosedError,
    ProducerError,
    ProducerFenced,
    RecordTooLargeError,
    TooManyPartitionsError,
    TopicRefusedError,
    TransactionAbortableError,
    TransactionAbortedError,
    UnexpectedAnswerError,
)
from impl.producer.sequence_manager import InFlightBatch, PartitionState, State
from impl.producer.transactional_core import TransactionalProducerCore
from impl.producer.transactional_requests import CallResult, RequestVersions

__all__ = [
    "AbortedError",
    "Advice",
    "AuthorizationError",
    "BufferExhaustedError",
    "CallResult",
    "CommitFailedError",
    "ConfigError",
    "DeliveryError",
    "DeliveryHandle",
    "DeliveryTimeoutError",
    "Disconnect",
    "Effect",
    "FatalProducerError",
    "GroupMetadata",
    "IdempotentProducerCore",
    "IllegalStateError",
    "InFlightBatch",
    "InvalidArgumentError",
    "KafkaTimeoutError",
    "MalformedAnswerError",
    "OffsetAndMetadata",
    "PartitionState",
    "ProducerClosedError",
    "ProducerConfig",
    "ProducerError",
    "ProducerFenced",
    "RecordTooLargeError",
    "RequestVersions",
    "SendRequest",
    "State",
    "TooManyPartitionsError",
    "TopicRefusedError",
    "TransactionAbortableError",
    "TransactionAbortedError",
    "TransactionalProducerCore",
    "UnexpectedAnswerError",
]
