"""The records of `__transaction_state`: images to bytes and back. `TransactionLog`.

Two rules:

1. The partitions are null only for an Empty id.
2. A record that no coordinator writes is a named error.
"""

from __future__ import annotations

from impl.coordinator.config import TransactionConfig
from impl.coordinator.metadata import TopicPartition, TransactionImage, UnwritableImage
from impl.coordinator.states import ONLY_PENDING, TransactionState
from impl.protocol.errors import DecodeError
from impl.protocol.fields import topic_rows
from impl.protocol.message_form import Value
from impl.protocol.record_batch import NO_PRODUCER_ID
from impl.protocol.state_records import decode_record, encode_record

KEY = "TRANSACTION_LOG_KEY"
VALUE = "TRANSACTION_LOG_VALUE"


class InvalidTransactionRecord(DecodeError):
    """A value with an illegal state, or with partitions that contradict it."""

    advice = "check its writer: no coordinator writes it"


def encode_key(transactional_id: str) -> bytes:
    """The key of an id's records."""
    return encode_record(KEY, 0, {"transactional_id": transactional_id})


def decode_key(data: bytes) -> str:
    """The id of a key. Raises `DecodeError`; callers skip an `UnknownRecordVersion`."""
    name: str = decode_record(KEY, data)[1]["transactional_id"]
    return name


def encode_value(image: TransactionImage, config: TransactionConfig) -> bytes:
    """Version 0 at `transaction.version` 0, else 1. Raises `UnwritableImage`.

    `TransactionLog.valueToBytes`.
    """
    version = min(config.transaction_version, 1)
    if version == 0 and image.client_transaction_version:
        raise UnwritableImage(f"client version {image.client_transaction_version} in value 0")
    is_empty = image.state is TransactionState.EMPTY
    partitions = topic_rows(sorted(image.partitions), "topic", "partition_ids")
    body: Value = {
        "producer_id": image.producer_id,
        "producer_epoch": image.producer_epoch,
        "transaction_timeout_ms": image.transaction_timeout_ms,
        "transaction_status": image.state,
        "transaction_partitions": None if is_empty else partitions,
        "transaction_last_update_timestamp_ms": image.last_update_timestamp_ms,
        "transaction_start_timestamp_ms": image.start_timestamp_ms,
        "client_transaction_version": image.client_transaction_version,
    }
    if config.logs_producer_ids:
        body["previous_producer_id"] = image.previous_producer_id
        body["next_producer_id"] = image.next_producer_id
    return encode_record(VALUE, version, body)


def decode_value(data: bytes) -> TransactionImage:
    """The image of a value. Raises `DecodeError`. `TransactionLog.read`."""
    _, body = decode_record(VALUE, data)
    try:
        state = TransactionState(body["transaction_status"])
    except ValueError:
        raise InvalidTransactionRecord(f"state {body['transaction_status']}", 0) from None
    rows = body["transaction_partitions"]
    if state in ONLY_PENDING or (rows is None) != (state is TransactionState.EMPTY):
        raise InvalidTransactionRecord(f"{state.title} with partitions {rows}", 0)
    partitions = (
        TopicPartition(row["topic"], index) for row in rows or () for index in row["partition_ids"]
    )
    return TransactionImage(
        producer_id=body["producer_id"],
        producer_epoch=body["producer_epoch"],
        transaction_timeout_ms=body["transaction_timeout_ms"],
        state=state,
        partitions=frozenset(partitions),
        start_timestamp_ms=body["transaction_start_timestamp_ms"],
        last_update_timestamp_ms=body["transaction_last_update_timestamp_ms"],
        previous_producer_id=body.get("previous_producer_id", NO_PRODUCER_ID),
        next_producer_id=body.get("next_producer_id", NO_PRODUCER_ID),
        client_transaction_version=body.get("client_transaction_version", 0),
    )
