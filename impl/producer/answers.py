"""What the answers to Produce and InitProducerId say.

1. Each batch of a request has one row in its answer, and each row a batch of the request.
2. What an older version does not say is -1, or None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from impl.producer.batch import ProducerBatch
from impl.producer.errors import MalformedAnswerError
from impl.producer.in_flight_requests import NO_NODE
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import (
    INVALID_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
)


class BatchAnswer(NamedTuple):
    """The result of one batch in a Produce answer, or of a request without an answer."""

    error: ErrorCode
    base_offset: int = INVALID_OFFSET
    log_start_offset: int = -1
    message: str | None = None
    leader_id: int = NO_NODE
    leader_epoch: int = -1
    log_append_time: int = NO_TIMESTAMP


def read_init_answer(body: Mapping[str, Any]) -> tuple[ErrorCode, int, int]:
    """(error, producer id, producer epoch)."""
    return (
        ErrorCode.of(body["error_code"]),
        body.get("producer_id", NO_PRODUCER_ID),
        body.get("producer_epoch", NO_PRODUCER_EPOCH),
    )


def read_produce_answers(
    body: Mapping[str, Any], batches: Sequence[ProducerBatch]
) -> list[tuple[ProducerBatch, BatchAnswer]]:
    """Each batch of the request with its result, in the order of the answer."""
    asked = {batch.topic_partition: batch for batch in batches}
    answers = [
        ((topic["name"], data["index"]), _produce_answer(data))
        for topic in body["topics"]
        for data in topic["partitions"]
    ]
    named = [topic_partition for topic_partition, _ in answers]
    if len(named) != len(asked) or asked.keys() != set(named):
        raise MalformedAnswerError(f"asked for {sorted(asked)}, answered for {sorted(named)}")
    return [(asked[topic_partition], answer) for topic_partition, answer in answers]


def _produce_answer(data: Mapping[str, Any]) -> BatchAnswer:
    leader = data.get("current_leader") or {}
    return BatchAnswer(
        ErrorCode.of(data["error_code"]),
        data["base_offset"],
        data.get("log_start_offset", -1),
        data.get("error_message"),
        leader.get("leader_id", NO_NODE),
        leader.get("leader_epoch", -1),
        data.get("log_append_time_ms", NO_TIMESTAMP),
    )
