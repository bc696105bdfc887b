"""One node with a topic, a producer that has its id, and what a reader of it gets."""

from typing import Any

from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import decode_batches
from impl.protocol.schemas import ApiKey
from tests.impl.broker.network import Network, Producer

NONE = ErrorCode.NONE


def started(**more: Any) -> Network:
    network = Network(**more)
    network.create("t", 1, 1)
    return network


def ready(network: Network, *, v2: bool = False) -> Producer:
    producer = Producer(network, v2=v2)
    assert producer.init() is NONE
    return producer


def read(network: Network, *, committed: bool = True) -> tuple[list[int], list[tuple[int, int]]]:
    """Base offsets of t-0, and what is said to be aborted."""
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    body = {
        "max_wait_ms": 0,
        "min_bytes": 1,
        "isolation_level": int(committed),
        "topics": [{"topic": "t", "partitions": [partition]}],
    }
    row = network.ask(ApiKey.FETCH, 12, body)["responses"][0]["partitions"][0]
    aborted = [(a["producer_id"], a["first_offset"]) for a in row["aborted_transactions"] or ()]
    return [batch.base_offset for batch in decode_batches(row["records"])], aborted
