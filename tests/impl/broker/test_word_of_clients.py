"""Where the word of a client alone decides what a broker does, as Kafka's does."""

from __future__ import annotations

from typing import Any

import pytest

from impl.broker.node import Node
from impl.coordinator.placement import OFFSETS_TOPIC
from impl.protocol.errors import ErrorCode
from impl.protocol.messages import decode_response, encode_request
from impl.protocol.schemas import ApiKey
from tests.impl.broker.test_node import NOW_MS, Client, batch, body_of


def produce_as(client_id: str, client: Client) -> int:
    body = body_of(batch(-1, -1, -1), name=OFFSETS_TOPIC)
    request = encode_request(ApiKey.PRODUCE, 9, 1, client_id, body)
    answer = client.node.handle(request, NOW_MS)
    assert answer is not None
    row = decode_response(ApiKey.PRODUCE, 9, answer)[1]["topics"][0]["partitions"][0]
    return int(row["error_code"])


@pytest.fixture
def client() -> Client:
    client = Client(Node())
    answer: Any = client.ask(ApiKey.FIND_COORDINATOR, 3, {"key": "g", "key_type": 0})
    assert answer["error_code"] == ErrorCode.NONE, "the topic of offsets is there"
    return client


def test_the_admin_client_may_write_to_internal_topics(client: Client) -> None:
    assert produce_as("somebody", client) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert produce_as("__admin_client", client) == ErrorCode.NONE


@pytest.mark.parametrize("size", [-1, -(2**31)])
def test_a_partition_of_less_than_nothing_is_an_error_of_the_server(
    client: Client, size: int
) -> None:
    client.create("t")

    def fetched() -> int:
        row = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": size}
        topics = [{"topic": "t", "partitions": [row]}]
        answer: Any = client.ask(
            ApiKey.FETCH,
            11,
            {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1_000, "topics": topics},
        )
        return int(answer["responses"][0]["partitions"][0]["error_code"])

    assert fetched() == ErrorCode.NONE, "there is nothing to read"
    assert client.produce(batch(-1, -1, -1))["error_code"] == ErrorCode.NONE
    assert fetched() == ErrorCode.UNKNOWN_SERVER_ERROR


def test_who_says_that_it_is_a_replica_is_none_of_the_partition(client: Client) -> None:
    client.create("t")
    row = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100}
    body = {
        "replica_id": 7,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "topics": [{"topic": "t", "partitions": [row]}],
    }
    answer: Any = client.ask(ApiKey.FETCH, 11, body)
    [found] = answer["responses"][0]["partitions"]
    assert found["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
