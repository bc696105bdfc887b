"""Faults that a test injects: where they strike, which requests, and what clients make of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from impl import ApiKey, Broker, Producer
from impl.broker.apis import API_NAMES
from impl.broker.cluster import BrokerEndPoint, Cluster
from impl.broker.faults import (
    CutFault,
    DelayFault,
    DropFault,
    ErrorFault,
    Fault,
    InvalidFault,
    RequestView,
    refuse,
)
from impl.broker.injected_faults import InjectedFaults, UnusedFault
from impl.broker.outputs import Output
from impl.client.errors import ProducerError
from impl.clock import SharedClock
from impl.partition.log_config import DEFAULT_CONFIG
from impl.protocol.errors import ErrorCode
from impl.protocol.messages import decode_response, encode_request
from impl.protocol.schemas import SUPPORTED_VERSIONS

pytestmark = pytest.mark.slow  # sockets and time-outs

SECONDS = 10
FAST = {"request_timeout_ms": 100, "retry_backoff_ms": 1, "linger_ms": 0}


@pytest.fixture
def kafka() -> Iterator[Broker]:
    with Broker(topics={"t": 1}) as broker:
        yield broker


async def send(kafka: Broker, *values: bytes, **settings: Any) -> list[int]:
    """The offsets of records that are sent one after the other."""
    async with (
        asyncio.timeout(SECONDS),
        Producer(kafka.bootstrap_servers, **{**FAST, **settings}) as producer,
    ):
        return [(await producer.send_and_wait("t", value)).offset for value in values]


def end_offset(kafka: Broker) -> int:
    topic = kafka.cluster.topics.get("t")
    assert topic is not None
    return topic.partitions[0].log_end_offset


@pytest.mark.parametrize("at", ["request", "answer"])
@pytest.mark.parametrize(
    ("fault", "least_s"),
    [(DropFault("Produce"), 0.1), (CutFault("Produce"), 0), (DelayFault("Produce", 30), 0.03)],
    ids=str,
)
async def test_what_is_lost_or_late_is_stored_once(
    kafka: Broker, fault: Fault, least_s: float, at: Any
) -> None:
    with kafka.faults.add(replace(fault, at=at, nth=2)) as added:
        began_s = time.perf_counter()
        assert await send(kafka, b"1", b"2", b"3") == [0, 1, 2]
        assert time.perf_counter() - began_s >= least_s
        assert added.count == 1


async def test_a_connection_may_take_longer_than_a_request(kafka: Broker) -> None:
    """Or a short `request_timeout_ms` keeps a client from a node that is slow to accept."""
    slow = DelayFault("ApiVersions", 2 * FAST["request_timeout_ms"])
    with kafka.faults.add(slow) as added:
        assert await send(kafka, b"v") == [0]
    assert added.count == 1


async def test_at_the_answer_the_node_has_done_the_work(kafka: Broker) -> None:
    """What a client cannot know after its connection broke."""
    for at, stored in (("request", 0), ("answer", 1)):
        with kafka.faults.add(CutFault("Produce", at=at, times=None)):  # type: ignore[arg-type]
            with pytest.raises(ProducerError):
                await send(kafka, b"v", retries=1, delivery_timeout_ms=5_000)
            assert end_offset(kafka) == stored


async def test_an_error_is_answered_and_retried(kafka: Broker) -> None:
    with kafka.faults.add(ErrorFault("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)) as added:
        assert await send(kafka, b"v") == [0]
    assert added.count == 2
    with (
        kafka.faults.add(ErrorFault("Produce", "TOPIC_AUTHORIZATION_FAILED")),
        pytest.raises(ProducerError, match="TOPIC_AUTHORIZATION_FAILED"),
    ):
        await send(kafka, b"v")
    assert await send(kafka, b"v") == [1]


async def test_an_error_after_the_work_is_retried_as_a_duplicate(kafka: Broker) -> None:
    with kafka.faults.add(ErrorFault("Produce", "REQUEST_TIMED_OUT", at="answer")):
        assert await send(kafka, b"v", b"w") == [0, 1]
    assert kafka.log("t").values == [b"v", b"w"]


async def test_the_first_of_several_faults_affects_a_request(kafka: Broker) -> None:
    with kafka.faults.add(DelayFault("Produce", 1, times=None)) as removed:
        assert await send(kafka, b"u") == [0]
    first = kafka.faults.add(ErrorFault("Produce", "REQUEST_TIMED_OUT"))
    second = kafka.faults.add(ErrorFault("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2))
    assert second.fault == ErrorFault("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    assert await send(kafka, b"v") == [1]
    assert [added.count for added in (first, second, removed)] == [1, 1, 1]


async def test_a_client_and_a_transactional_id_select_requests(kafka: Broker) -> None:
    client = kafka.faults.add(CutFault("Produce", client_id="a"))
    await send(kafka, b"v", client_id="b")
    assert client.count == 0
    await send(kafka, b"v", client_id="a")
    assert client.count == 1
    for name in ("InitProducerId", "FindCoordinator", "Produce", "EndTxn"):
        with kafka.faults.add(CutFault(name, transactional_id="x")) as added:
            await transact(kafka, "y")
            assert added.count == 0
            await transact(kafka, "x")
            assert added.count == 1, name


async def transact(kafka: Broker, transactional_id: str) -> None:
    settings = {**FAST, "transactional_id": transactional_id}
    async with (
        asyncio.timeout(SECONDS),
        Producer(kafka.bootstrap_servers, **settings) as producer,
        producer.transaction(),
    ):
        await producer.send_and_wait("t", b"v")


async def test_what_cannot_be_decoded_is_left_to_the_node() -> None:
    faults = InjectedFaults(Cluster("", DEFAULT_CONFIG), SharedClock())
    faults.add(CutFault("Produce"))

    answer: asyncio.Future[Output] = asyncio.get_running_loop().create_future()
    assert faults.intercept(b"?", print, handle=lambda _payload: answer) is answer


def test_what_is_selected_is_counted_from_the_fault_on(kafka: Broker) -> None:
    fault = CutFault("Produce", nth=2, times=2)
    assert [fault.affects(number) for number in range(1, 6)] == [False, True, True, False, False]
    assert CutFault("Produce", nth=2, times=None).affects(99)


# ---- the form of errors

REQUESTS: dict[str, dict[str, Any]] = {
    "Produce": {
        "acks": -1,
        "timeout_ms": 1,
        "topics": [{"name": "t", "partitions": [{"index": 3, "records": b""}]}],
    },
    "Metadata": {"topics": [{"name": "t"}], "allow_auto_topic_creation": True},
    "EndTxn": {"transactional_id": "x", "producer_id": 1, "producer_epoch": 0, "committed": True},
    "InitProducerId": {"transactional_id": "x", "transaction_timeout_ms": 1},
    "Heartbeat": {"group_id": "g", "generation_id": 1, "member_id": "m"},
    "DeleteGroups": {"groups_names": ["a", "b"]},
    "DescribeConfigs": {"resources": [{"resource_type": 2, "resource_name": "t"}]},
    "CreatePartitions": {
        "topics": [{"name": "t", "count": 9, "assignments": None}],
        "timeout_ms": 1,
        "validate_only": False,
    },
    "Fetch": {
        "max_wait_ms": 60_000,
        "min_bytes": 1,
        "topics": [
            {
                "topic": "t",
                "partitions": [{"partition": 3, "fetch_offset": 0, "partition_max_bytes": 1}],
            }
        ],
    },
    "FindCoordinator": {"key_type": 1, "coordinator_keys": ["x"]},
    "JoinGroup": {
        "group_id": "g",
        "session_timeout_ms": 6_000,
        "rebalance_timeout_ms": 60_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    },
    "AddPartitionsToTxn": {
        "v3_and_below_transactional_id": "x",
        "v3_and_below_producer_id": 1,
        "v3_and_below_producer_epoch": 0,
        "v3_and_below_topics": [{"name": "t", "partitions": [3]}],
    },
}
OLD = {"Produce": 8, "Metadata": 5, "Fetch": 12, "JoinGroup": 3, "AddPartitionsToTxn": 3}
"""Versions that name topics."""


def request_for(name: str) -> RequestView:
    api_key = {name: key for key, name in API_NAMES.items()}[name]
    version = OLD.get(name, SUPPORTED_VERSIONS[api_key].last)
    return RequestView(encode_request(api_key, version, 7, "client", REQUESTS[name]))


def errors_in(value: object) -> list[int]:
    if isinstance(value, list):
        return [code for item in value for code in errors_in(item)]
    if isinstance(value, dict):
        here = [code for name, code in value.items() if name.endswith("error_code")]
        return here + errors_in(list(value.values()))
    return []


@pytest.mark.parametrize("name", REQUESTS)
def test_an_error_has_the_form_of_its_answer(name: str) -> None:
    request = request_for(name)
    for error in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
        payload = refuse(request, error)
        assert payload is not None
        header, body = decode_response(request.api_key, request.version, payload)
        assert header["correlation_id"] == 7
        expected = 2 if name == "DeleteGroups" else 1
        assert [code for code in errors_in(body) if code] == [error] * expected


def test_an_error_names_the_partition_that_was_asked_for() -> None:
    request = request_for("Produce")
    payload = refuse(request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert payload is not None
    (topic,) = decode_response(request.api_key, request.version, payload)[1]["topics"]
    (partition,) = topic["partitions"]
    assert (topic["name"], partition["index"], partition["base_offset"]) == ("t", 3, -1)


def test_metadata_with_an_error_still_names_the_brokers() -> None:
    request, cluster = request_for("Metadata"), Cluster("", DEFAULT_CONFIG)
    cluster.register(BrokerEndPoint(8, "there", 9))
    payload = refuse(request, ErrorCode.LEADER_NOT_AVAILABLE, cluster)
    assert payload is not None
    body = decode_response(request.api_key, request.version, payload)[1]
    assert [(row["node_id"], row["host"], row["port"]) for row in body["brokers"]] == [
        (8, "there", 9)
    ]
    assert [row["partitions"] for row in body["topics"]] == [[]]


def test_where_there_is_no_place_for_an_error_there_is_none() -> None:
    fire_and_forget = REQUESTS["Produce"] | {"acks": 0}
    unanswered = encode_request(ApiKey.PRODUCE, 8, 7, "client", fire_and_forget)
    everything = encode_request(
        ApiKey.METADATA, 5, 7, "client", {"topics": None, "allow_auto_topic_creation": True}
    )
    for payload in (unanswered, everything):
        assert refuse(RequestView(payload), ErrorCode.INVALID_REQUEST) is None


# ---- what is refused, and what is reported


def test_invalid_faults_say_what_is_valid() -> None:
    invalid: list[tuple[str, Any]] = [
        (r"unknown api 'produce': did you mean 'Produce'\?$", lambda: CutFault("produce")),
        (r"unknown api 'Sharp'; \d+ are known$", lambda: CutFault("Sharp")),
        (r"unknown error 'BANANA'; \d+ are known$", lambda: ErrorFault("Produce", "BANANA")),
        (
            r"unknown error 'NOT_LEADER': did you mean 'NOT_LEADER_OR_FOLLOWER'\?$",
            lambda: ErrorFault("Produce", "NOT_LEADER"),
        ),
        ("unknown at 'end'; known: request, answer", lambda: CutFault("Produce", at="end")),  # type: ignore[arg-type]
        (r"delay_ms\) must be an integer from 0 on, is -1", lambda: DelayFault("Produce", -1)),
        (r"nth\) must be an integer from 1 on, is 0", lambda: CutFault("Produce", nth=0)),
    ]
    for message, make in invalid:
        with pytest.raises(InvalidFault, match=message):
            make()


def test_a_fault_that_affected_nothing_is_reported() -> None:
    expected = r"CutFault\(api='EndTxn', nth=3\) affected no request"
    with pytest.warns(UnusedFault, match=expected), Broker() as kafka:
        kafka.faults.add(CutFault("EndTxn", nth=3))
