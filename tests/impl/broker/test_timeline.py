"""The requests of an embedded broker, as a failed test prints them."""

from __future__ import annotations

import asyncio
import re

from impl import ApiKey, Broker, CutFault, ErrorFault, Producer
from impl.broker.cluster import BrokerEndPoint, Cluster
from impl.broker.outputs import Response
from impl.broker.timeline import BYTES_KEPT, LINES, REQUESTS_KEPT, Timeline
from impl.partition.log_config import DEFAULT_CONFIG
from impl.protocol.messages import encode_request, encode_response

SECONDS = 10
CLUSTER = Cluster("", DEFAULT_CONFIG)
CLUSTER.register(BrokerEndPoint(1, "here", 9))
CLUSTER.topics.create("orders", 1, {})
TRANSACTION = r"""
app InitProducerId transactional_id=x -> ok producer_id=N producer_epoch=0
app Produce transactional_id=x t-0 (1 records, producer id N, epoch 0, sequence 0) \
-> NOT_LEADER_OR_FOLLOWER
app Produce transactional_id=x t-0 (1 records, producer id N, epoch 0, sequence 0) -> ok
app EndTxn transactional_id=x producer_id=N producer_epoch=0 committed=True \
-> connection closed: CutFault(api='EndTxn', at='answer') was injected
app EndTxn transactional_id=x producer_id=N producer_epoch=0 committed=True \
-> ok producer_id=N producer_epoch=1
"""


async def test_it_has_the_fields_and_the_answer_of_each_request() -> None:
    async with asyncio.timeout(SECONDS), Broker(topics={"t": 1}) as kafka:
        kafka.faults.add(ErrorFault("Produce", "NOT_LEADER_OR_FOLLOWER"))
        kafka.faults.add(CutFault("EndTxn", at="answer"))
        settings = {"transactional_id": "x", "client_id": "app", "retry_backoff_ms": 1}
        async with (
            Producer(kafka.bootstrap_servers, **settings) as producer,
            producer.transaction(),
        ):
            await producer.send_and_wait("t", b"v")
        text = kafka.format_timeline()
        producer_id = kafka.log("t").batches[0].producer_id
    assert re.match(r" +0\.000 s  app ApiVersions -> ok", text)
    shown = text.replace(str(producer_id), "N").splitlines()
    lines = [line.partition(" s  ")[2] for line in shown]
    expected = TRANSACTION.replace("\\\n", "").split("\n")[1:-1]
    assert [line for line in lines if line in expected] == expected, text


def heartbeat(generation: int, member_id: str = "m") -> bytes:
    body = {"group_id": "g", "generation_id": generation, "member_id": member_id}
    return encode_request(ApiKey.HEARTBEAT, 4, 7, "c", body)


REBALANCE = encode_response(ApiKey.HEARTBEAT, 4, 7, {"error_code": 27})


async def recorded(*payloads: bytes, answer: bytes = REBALANCE) -> list[str]:
    timeline = Timeline(lambda: 0, CLUSTER)
    for payload in payloads:
        timeline.intercept(payload, lambda _payload: Response(None, answer))
    return timeline.format().splitlines()


async def test_equal_requests_in_a_row_are_one_line() -> None:
    line = "   0.000 s  c Heartbeat group_id=g member_id=m generation_id=1 -> REBALANCE_IN_PROGRESS"
    assert await recorded(heartbeat(1), heartbeat(1)) == [line + " (2 times)"]


async def test_it_is_bounded() -> None:
    many = [heartbeat(number) for number in range(REQUESTS_KEPT + 9)]
    first, *lines = await recorded(*many)
    assert first == f"... {REQUESTS_KEPT - LINES} lines before"
    assert len(lines) == LINES
    (line,) = await recorded(heartbeat(1, "m" * BYTES_KEPT))
    assert line == "   0.000 s  Heartbeat -> REBALANCE_IN_PROGRESS"
    body = {"group_id": "g", "generation_id": 1, "member_id": "m", "assignments": []}
    sync = encode_request(ApiKey.SYNC_GROUP, 2, 7, "c", body)
    long = encode_response(
        ApiKey.SYNC_GROUP, 2, 7, {"error_code": 0, "assignment": b"a" * BYTES_KEPT}
    )
    (line,) = await recorded(sync, answer=long)
    assert line.endswith(f" generation_id=1 -> {BYTES_KEPT} bytes or more")


async def test_topics_have_names_where_requests_have_ids() -> None:
    topic = CLUSTER.topics.get("orders")
    assert topic is not None
    rows = [{"topic_id": topic.topic_id, "partitions": [{"index": 0, "records": None}]}]
    body = {"acks": 1, "timeout_ms": 1, "topics": rows}
    (line,) = await recorded(encode_request(ApiKey.PRODUCE, 13, 7, "c", body))
    assert " c Produce acks=1 orders-0 -> " in line
