"""One partition twice in a Produce request: the answers and offsets are those of release 4.3.1."""

from typing import Any

import pytest

from impl import ApiKey, ErrorCode, Node, Record, client_batch, encode_batch
from impl.protocol.primitives import ZERO_UUID
from tests.impl.broker.test_node import NOW_MS, Client, batch

INVALID = b"xx"


@pytest.fixture
def client() -> Client:
    client = Client(Node())
    client.create("t", 2)
    return client


def plain(count: int) -> bytes:
    return encode_batch(client_batch([Record(n, NOW_MS, None, b"v") for n in range(count)]))


def produce(client: Client, *topics: list[bytes], version: int = 9, index: int = 0) -> list[Any]:
    """The rows of the answer: index, error, base offset."""
    topic_id = client.metadata(None)["topics"][0]["topic_id"] if version >= 13 else ZERO_UUID
    rows = [
        {
            "name": "t",
            "topic_id": topic_id,
            "partitions": [{"index": index, "records": records} for records in topic],
        }
        for topic in topics
    ]
    body = {"transactional_id": None, "acks": -1, "timeout_ms": 1000, "topics": rows}
    answer = client.ask(ApiKey.PRODUCE, version, body)
    return [
        (row["index"], ErrorCode(row["error_code"]), row["base_offset"])
        for topic in answer["topics"]
        for row in topic["partitions"]
    ]


def end_offset(client: Client) -> int:
    topic = client.node.topics.get("t")
    assert topic is not None
    return topic.partitions[0].log_end_offset


@pytest.mark.parametrize("version", range(3, 14))
def test_the_last_is_appended_and_answered_once(client: Client, version: int) -> None:
    assert produce(client, [plain(1), plain(2)], version=version) == [(0, ErrorCode.NONE, 0)]
    assert end_offset(client) == 2


def test_topics_are_repeated_as_partitions_are(client: Client) -> None:
    assert produce(client, [plain(1)], [plain(2)]) == [(0, ErrorCode.NONE, 0)]
    assert end_offset(client) == 2


def test_the_last_of_an_idempotent_producer_counts(client: Client) -> None:
    assert produce(client, [batch(0), batch(1)]) == [(0, ErrorCode.NONE, 0)]
    out_of_order = (0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert produce(client, [batch(0)]) == [out_of_order]
    assert produce(client, [batch(1)]) == [(0, ErrorCode.NONE, 0)]
    assert produce(client, [batch(2)]) == [(0, ErrorCode.NONE, 1)]


@pytest.mark.parametrize("topic", [[plain(1), INVALID], [INVALID, plain(1)]])
def test_what_was_refused_is_answered_though_the_other_is_appended(
    client: Client, topic: list[bytes]
) -> None:
    assert produce(client, topic) == [(0, ErrorCode.INVALID_RECORD, -1)]
    assert end_offset(client) == 1


def test_an_unknown_partition_is_answered_once(client: Client) -> None:
    unknown = (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert produce(client, [plain(1), plain(1)], index=7) == [unknown]
