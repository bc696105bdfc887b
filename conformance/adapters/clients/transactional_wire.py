"""Requests of transactions as events of a run, and the error answers of a network that refuses
them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from conformance.adapters.clients.trace import CoordinatorAnswered, CoordinatorRequested
from conformance.adapters.clients.transactional_plan import (
    COORDINATOR_APIS,
    GROUP,
    INPUT,
    TRANSACTIONAL_ID,
)
from impl.protocol.errors import ErrorCode
from impl.protocol.message_form import Value
from impl.protocol.messages import decode_response, encode_request
from impl.protocol.schemas import ApiKey

OFFSET_FETCH_VERSION: Final = 5
INIT_VERSION: Final = 4
METADATA_VERSION: Final = 5
WATCHER: Final = "kafka-eos"

Where = tuple[int, int, int]
"""Microseconds, connection, correlation id."""


def is_of_transactions(api_key: int) -> bool:
    """Whether only transactional producers send such requests."""
    return api_key in COORDINATOR_APIS


def requested(where: Where, header: Value, body: Value) -> CoordinatorRequested:
    """The event of a request."""
    api = ApiKey(header["api_key"])
    old = "v3_and_below_" if api == ApiKey.ADD_PARTITIONS_TO_TXN else ""
    return CoordinatorRequested(
        *where,
        api.name,
        header["api_version"],
        body[f"{old}producer_id"],
        body[f"{old}producer_epoch"],
        tuple(p for topic in body.get(f"{old}topics", ()) if old for p in topic["partitions"]),
        next((row["committed_offset"] for row in rows_in(api, body)), None),
        body.get("committed"),
    )


def rows_in(api: ApiKey, body: Value) -> Iterator[Value]:
    """The partitions whose offsets are committed."""
    if api == ApiKey.TXN_OFFSET_COMMIT:
        for topic in body["topics"]:
            yield from topic["partitions"]


def answered(where: Where, header: Value, body: Value) -> CoordinatorAnswered:
    """The event of a response."""
    api = ApiKey(header["api_key"])
    ids = (body.get("producer_id", -1), body.get("producer_epoch", -1))
    return CoordinatorAnswered(*where, api.name, first_error(api, body), *ids)


def first_error(api: ApiKey, body: Value) -> int:
    """The first error of a response, 0 if there is none."""
    match api:
        case ApiKey.ADD_PARTITIONS_TO_TXN:
            topics = body["results_by_topic_v3_and_below"]
            codes = [
                r["partition_error_code"] for topic in topics for r in topic["results_by_partition"]
            ]
        case ApiKey.TXN_OFFSET_COMMIT:
            codes = [row["error_code"] for topic in body["topics"] for row in topic["partitions"]]
        case _:
            codes = [body["error_code"]]
    return int(next((code for code in codes if code), 0))


def refusal(api_key: int, body: Value, error: ErrorCode) -> Value:
    """A response with an error for each part of a request."""
    match api_key:
        case ApiKey.ADD_PARTITIONS_TO_TXN:
            rows = [
                {
                    "name": topic["name"],
                    "results_by_partition": [
                        {"partition_index": p, "partition_error_code": error}
                        for p in topic["partitions"]
                    ],
                }
                for topic in body["v3_and_below_topics"]
            ]
            return {"results_by_topic_v3_and_below": rows}
        case ApiKey.TXN_OFFSET_COMMIT:
            topics = [
                {
                    "name": topic["name"],
                    "partitions": [
                        {"partition_index": row["partition_index"], "error_code": error}
                        for row in topic["partitions"]
                    ],
                }
                for topic in body["topics"]
            ]
            return {"topics": topics}
        case _:
            return {"error_code": error}


def taking_over() -> bytes:
    """The request that another producer of the same transactional id sends when it starts."""
    body = {"transactional_id": TRANSACTIONAL_ID, "transaction_timeout_ms": 60_000}
    return encode_request(ApiKey.INIT_PRODUCER_ID, INIT_VERSION, 0, WATCHER, body)


def creating_input() -> bytes:
    """The request that makes the node create the topic whose offsets are committed."""
    body = {"topics": [{"name": INPUT}], "allow_auto_topic_creation": True}
    return encode_request(ApiKey.METADATA, METADATA_VERSION, 0, WATCHER, body)


def asking_for_offset() -> bytes:
    """The request for the committed offset of the group."""
    topics = [{"name": INPUT, "partition_indexes": [0]}]
    body = {"group_id": GROUP, "topics": topics}
    return encode_request(ApiKey.OFFSET_FETCH, OFFSET_FETCH_VERSION, 0, WATCHER, body)


def offset_in(answer: bytes) -> int | None:
    """The offset in the response, None if none is committed."""
    body = decode_response(ApiKey.OFFSET_FETCH, OFFSET_FETCH_VERSION, answer)[1]
    found = [row["committed_offset"] for topic in body["topics"] for row in topic["partitions"]]
    return next((offset for offset in found if offset >= 0), None)
