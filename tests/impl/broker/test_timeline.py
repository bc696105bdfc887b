"""The requests of an embedded broker, as a failed test prints them."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from impl import ApiKey, Broker, CutFault, DelayFault, DropFault, ErrorFault, Producer
from impl.broker.cluster import BrokerEndPoint, Cluster
from impl.broker.faults import Fault
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
    lines = [re.sub(r" after \d+ ms$", "", line.partition(" s  ")[2]) for line in shown]
    expected = TRANSACTION.replace("\\\n", "").split("\n")[1:-1]
    assert [line for line in lines if line in expected] == expected, text


def heartbeat(generation: int, member_id: str = "m") -> bytes:
    body = {"group_id": "g", "generation_id": generation, "member_id": member_id}
    return encode_request(ApiKey.HEARTBEAT, 4, 7, "c", body)


REBALANCE = encode_response(ApiKey.HEARTBEAT, 4, 7, {"error_code": 27})


async def recorded(*payloads: bytes, answer: bytes = REBALANCE) -> list[str]:
    timeline = Timeline(lambda: 0, CLUSTER)
    for payload in payloads:
        timeline.intercept(payload, lambda *_asked: Response(None, answer))
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


# ---- requests that wait


FETCH = {
    "replica_id": -1,
    "max_wait_ms": 500,
    "min_bytes": 1,
    "topics": [
        {
            "topic": "orders",
            "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}],
        }
    ],
}


class Clock:
    """A broker's clock that the test sets."""

    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def asked(timeline: Timeline) -> asyncio.Future[Any]:
    """A Fetch is received; where its answer will be."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    timeline.intercept(encode_request(ApiKey.FETCH, 11, 7, "c", FETCH), lambda *_asked: answer)
    return answer


EMPTY = Response(None, encode_response(ApiKey.FETCH, 11, 7, {"responses": []}))
LINE = "   0.000 s  c Fetch orders-0 -> "


async def test_a_long_poll_waits_and_is_answered_later() -> None:
    """It looked like a request whose answer was lost."""
    clock = Clock()
    timeline = Timeline(clock, CLUSTER)
    answer = asked(timeline)
    clock.now_ms = 230
    assert timeline.format() == LINE + "waits for 230 ms"
    clock.now_ms = 500
    answer.set_result(EMPTY)
    await asyncio.sleep(0)
    assert timeline.format() == LINE + "ok after 500 ms"
    answer = asked(timeline)
    clock.now_ms = 1_003
    answer.set_result(EMPTY)
    await asyncio.sleep(0)
    assert timeline.format() == LINE + "ok after 500 to 503 ms (2 times)"


async def test_what_was_dropped_when_the_broker_ended_has_no_answer() -> None:
    timeline = Timeline(Clock(), CLUSTER)
    asked(timeline).cancel()
    await asyncio.sleep(0)
    assert timeline.format() == LINE + "no answer"


@pytest.mark.parametrize("fault", [DropFault("Fetch"), DelayFault("Fetch", 60_000)])
async def test_a_fault_that_keeps_the_answer_is_named(fault: Fault) -> None:
    frame = encode_request(ApiKey.FETCH, 11, 7, "c", FETCH)
    async with asyncio.timeout(SECONDS), Broker(topics={"orders": 1}) as kafka:
        kafka.faults.add(fault)
        host, _, port = kafka.bootstrap_servers.rpartition(":")
        _reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(len(frame).to_bytes(4, "big") + frame)
        while not (text := kafka.format_timeline()):
            await asyncio.sleep(0.01)
        writer.close()
    assert re.sub(r" for \d+ ms$", "", text) == f"{LINE}no answer: {fault} was injected"
