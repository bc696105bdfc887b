"""Produce requests and responses, ours against kafka-python: `python -m benchmarks.messages`.

To write is: from a ready message (a dict here, an object there) to the bytes of header and body.
To read is: from these bytes to such a message. The records in a request are opaque to both.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

if not __package__:
    sys.path[0] = str(Path(__file__).parents[1])

from benchmarks.peers import Comparison, Work, compare, main
from impl.protocol.messages import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)

with catch_warnings():
    simplefilter("ignore", DeprecationWarning)  # it reads its schemas in a deprecated way
    import kafka  # type: ignore[import-untyped]
    from kafka.protocol.producer import ProduceRequest, ProduceResponse  # type: ignore[import-untyped]

PEER = f"kafka-python {kafka.__version__}"
PRODUCE = 0
VERSION = 9
TOPICS = 3
PARTITIONS = 4
RECORDS = bytes(1024)


def request_body() -> dict[str, Any]:
    partitions = [{"index": index, "records": RECORDS} for index in range(PARTITIONS)]
    topics = [{"name": f"topic-{index}", "partitions": partitions} for index in range(TOPICS)]
    return {"transactional_id": "app-1", "acks": -1, "timeout_ms": 30_000, "topics": topics}


def peer_request() -> Any:
    kind = ProduceRequest.TopicProduceData
    part = kind.PartitionProduceData
    partitions = [part(index=index, records=RECORDS) for index in range(PARTITIONS)]
    message = ProduceRequest(
        version=VERSION,
        transactional_id="app-1",
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            kind(name=f"topic-{index}", partition_data=partitions) for index in range(TOPICS)
        ],
    )
    message.with_header(correlation_id=7, client_id="client")
    return message


def response_body() -> dict[str, Any]:
    partitions: list[dict[str, Any]] = [
        {
            "index": index,
            "error_code": 0,
            "base_offset": 1000 + index,
            "log_append_time_ms": -1,
            "log_start_offset": 0,
            "record_errors": [],
            "error_message": None,
        }
        for index in range(PARTITIONS)
    ]
    topics = [{"name": f"topic-{index}", "partitions": partitions} for index in range(TOPICS)]
    return {"topics": topics, "throttle_time_ms": 0}


def peer_response() -> Any:
    kind = ProduceResponse.TopicProduceResponse
    part = kind.PartitionProduceResponse
    partitions = [
        part(
            index=index,
            error_code=0,
            base_offset=1000 + index,
            log_append_time_ms=-1,
            log_start_offset=0,
            record_errors=[],
            error_message=None,
        )
        for index in range(PARTITIONS)
    ]
    message = ProduceResponse(
        version=VERSION,
        responses=[
            kind(name=f"topic-{index}", partition_responses=partitions) for index in range(TOPICS)
        ],
        throttle_time_ms=0,
    )
    message.with_header(correlation_id=7)
    return message


def _works() -> Iterator[tuple[str, Work, Work]]:
    body, theirs = request_body(), peer_request()
    data = encode_request(PRODUCE, VERSION, 7, "client", body)
    if theirs.encode(header=True) != data:
        raise ValueError("the peer writes another request")
    yield (
        f"encode Produce v{VERSION} request",
        lambda: encode_request(PRODUCE, VERSION, 7, "client", body),
        lambda: theirs.encode(header=True),
    )
    yield (
        f"decode Produce v{VERSION} request",
        lambda: decode_request(data),
        lambda: ProduceRequest.decode(data, version=VERSION, header=True),
    )
    answer, their_answer = response_body(), peer_response()
    answer_data = encode_response(PRODUCE, VERSION, 7, answer)
    if their_answer.encode(header=True) != answer_data:
        raise ValueError("the peer writes another response")
    yield (
        f"encode Produce v{VERSION} response",
        lambda: encode_response(PRODUCE, VERSION, 7, answer),
        lambda: their_answer.encode(header=True),
    )
    yield (
        f"decode Produce v{VERSION} response",
        lambda: decode_response(PRODUCE, VERSION, answer_data),
        lambda: ProduceResponse.decode(answer_data, version=VERSION, header=True),
    )


def run(pairs: int, loop_seconds: float) -> Iterator[Comparison]:
    """Every comparison, one after the other."""
    for name, ours, peer in _works():
        yield compare(name, ours, peer, peer_name=PEER, pairs=pairs, loop_seconds=loop_seconds)


if __name__ == "__main__":
    main("messages", run)
