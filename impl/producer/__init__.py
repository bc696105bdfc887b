"""The idempotent producer: its core takes values and the time, and returns what is to be sent."""

from impl.producer.batch import DeliveryHandle
from impl.producer.config import ProducerConfig
from impl.producer.core import Disconnect, Effect, IdempotentProducerCore, SendRequest
from impl.producer.errors import (
    AbortedError,
    Advice,
    AuthorizationError,
    BufferExhaustedError,
    ConfigError,
    DeliveryError,
    DeliveryTimeoutError,
    FatalProducerError,
    MalformedAnswerError,
    ProducerClosedError,
    ProducerError,
    RecordTooLargeError,
    TooManyPartitionsError,
    UnexpectedAnswerError,
)
from impl.producer.transaction_manager import InFlightBatch, PartitionState, State

__all__ = [
    "AbortedError",
    "Advice",
    "AuthorizationError",
    "BufferExhaustedError",
    "ConfigError",
    "DeliveryError",
    "DeliveryHandle",
    "DeliveryTimeoutError",
    "Disconnect",
    "Effect",
    "FatalProducerError",
    "IdempotentProducerCore",
    "InFlightBatch",
    "MalformedAnswerError",
    "PartitionState",
    "ProducerClosedError",
    "ProducerConfig",
    "ProducerError",
    "RecordTooLargeError",
    "SendRequest",
    "State",
    "TooManyPartitionsError",
    "UnexpectedAnswerError",
]
