"""Produce requests and responses, ours against kafka-python: `python -m benchmarks.messages`.

To write is: from a ready message (a dict here, an object there) to the bytes of header and body.
To read is: from these bytes to such a message. The records in a request are opaque to both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.peers import Work, Works, compare_all, kafka_python
from impl.protocol.messages import decode_request, decode_response, encode_request, encode_response

PRODUCE = 0
VERSION = 9
TOPICS = 3
PARTITIONS = 4
RECORDS = bytes(1024)
PEER = kafka_python("kafka.protocol.producer")


def body_of(partition: Callable[[int], dict[str, Any]], **fields: object) -> dict[str, Any]:
    """A message about all partitions of all topics."""
    partitions = [partition(index) for index in range(PARTITIONS)]
    topics = [{"name": f"topic-{index}", "partitions": partitions} for index in range(TOPICS)]
    return {"topics": topics, **fields}


REQUEST = body_of(
    lambda index: {"index": index, "records": RECORDS},
    transactional_id="app-1",
    acks=-1,
    timeout_ms=30_000,
)
RESPONSE = body_of(
    lambda index: {
        "index": index,
        "error_code": 0,
        "base_offset": 1000 + index,
        "log_append_time_ms": -1,
        "log_start_offset": 0,
        "record_errors": [],
        "error_message": None,
    },
    throttle_time_ms=0,
)


def works_of(
    form: str, kind: Any, encode: Callable[[], bytes], decode: Callable[[bytes], object]
) -> Works:
    """To write and to read one message. The peer's message is the one that it reads from ours."""
    data = encode()
    theirs = kind.decode(data, version=VERSION, header=True)
    peer_encode: Work = lambda: theirs.encode(header=True)  # noqa: E731
    if peer_encode() != data:
        raise ValueError(f"the peer writes another {form}")
    yield f"encode Produce v{VERSION} {form}", encode, peer_encode
    yield (
        f"decode Produce v{VERSION} {form}",
        lambda: decode(data),
        lambda: kind.decode(data, version=VERSION, header=True),
    )


def works() -> Works:
    """Everything that is compared."""
    yield from works_of(
        "request",
        PEER.ProduceRequest,
        lambda: encode_request(PRODUCE, VERSION, 7, "client", REQUEST),
        decode_request,
    )
    yield from works_of(
        "response",
        PEER.ProduceResponse,
        lambda: encode_response(PRODUCE, VERSION, 7, RESPONSE),
        lambda data: decode_response(PRODUCE, VERSION, data),
    )


main = partial(compare_all, "messages", __doc__, works)

if __name__ == "__main__":
    sys.exit(main())
