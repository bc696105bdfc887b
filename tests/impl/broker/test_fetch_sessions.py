"""Fetch sessions: what a real broker answered, and what room there is for them."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from impl import ApiKey, ErrorCode, Node, NodeConfig
from impl.broker import fetch_sessions
from impl.broker.fetch_sessions import EVICTION_MS, MAX_EPOCH, SHARD_SESSION_IDS, next_epoch
from tests.impl.broker.network import Network
from tests.impl.broker.session_recording import Fetcher
from tests.impl.broker.test_node import NOW_MS, Client

RECORDING = json.loads(
    (Path(__file__).with_name("recorded_sessions") / "kafka-4.3.1.json").read_text()
)


def first_difference() -> list[Any] | None:
    """The conversation up to the first answer that is another one here."""
    network = Network()
    for number, trace in enumerate(RECORDING["traces"]):
        fetcher = Fetcher(network.ask, f"s{number}")
        for length, (step, wanted) in enumerate(trace, start=1):
            found = fetcher.take(step)
            if found != wanted:
                return [*trace[:length], {"found": found}]
    return None


def test_a_node_answers_as_the_broker_did() -> None:
    assert first_difference() is None


def test_the_recording_has_all_that_can_become_of_a_request() -> None:
    fetched = [
        (step, answer)
        for trace in RECORDING["traces"]
        for step, answer in trace
        if step[0] == "fetch"
    ]
    errors = {answer[0] for _, answer in fetched}
    assert errors == {
        ErrorCode.NONE,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
    assert sum(answer[1] > 0 and not answer[2] for _, answer in fetched) > 10


@pytest.mark.parametrize(
    ("owner", "name", "other"),
    [
        (fetch_sessions, "next_epoch", lambda epoch: epoch),
        (fetch_sessions._Partition, "learn", lambda partition, row: True),
        (fetch_sessions._Partition, "learn", lambda partition, row: bool(row["records"])),
        (fetch_sessions, "_uses_topic_ids", lambda request: True),
    ],
)
def test_another_rule_shows(
    owner: Any, name: str, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, other)
    assert first_difference() is not None


def fetch(
    client: Client, session_id: int = 0, epoch: int = 0, now_ms: int = NOW_MS, **more: Any
) -> Any:
    """A Fetch of partition 0 of topic t, by name."""
    row = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100}
    body = {
        "max_wait_ms": 0,
        "min_bytes": 1,
        "session_id": session_id,
        "session_epoch": epoch,
        "topics": [{"topic": "t", "partitions": [row]}],
    }
    return client.ask(ApiKey.FETCH, 12, body | more, now_ms)


def test_a_full_cache_opens_no_session_until_one_is_old() -> None:
    client = Client(Node(NodeConfig(max_incremental_fetch_session_cache_slots=2)))
    client.create("t")
    first, second, refused = (fetch(client)["session_id"] for _ in range(3))
    assert first
    assert second
    assert not refused
    later = NOW_MS + EVICTION_MS
    assert not fetch(client, second, 1, now_ms=later)["error_code"]
    assert not fetch(client, now_ms=later)["session_id"]
    assert fetch(client, now_ms=later + 1)["session_id"]
    assert fetch(client, first, 1)["error_code"] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert not fetch(client, second, 2)["error_code"]


def test_a_replica_takes_the_place_of_a_consumer() -> None:
    client = Client(Node(NodeConfig(max_incremental_fetch_session_cache_slots=1)))
    client.create("t")
    consumer = fetch(client)["session_id"]
    replica = fetch(client, replica_id=2)["session_id"]
    assert replica
    assert fetch(client, consumer, 1)["error_code"] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert not fetch(client, replica_id=3)["session_id"]


def test_without_slots_there_are_no_sessions() -> None:
    client = Client(Node(NodeConfig(max_incremental_fetch_session_cache_slots=0)))
    client.create("t")
    assert not fetch(client)["session_id"]


@pytest.mark.parametrize("session_id", [-SHARD_SESSION_IDS, 8 * SHARD_SESSION_IDS, 2**31 - 1])
def test_an_id_without_a_shard_fails_as_a_whole(session_id: int) -> None:
    client = Client(Node())
    client.create("t")
    answer = fetch(client, session_id, 1)
    assert answer["error_code"] == ErrorCode.UNKNOWN_SERVER_ERROR
    [row] = answer["responses"][0]["partitions"]
    assert row["error_code"] == ErrorCode.UNKNOWN_SERVER_ERROR


def test_of_a_partition_that_is_asked_twice_the_last_counts() -> None:
    client = Client(Node())
    client.create("t")
    row = {"partition": 0, "partition_max_bytes": 100}
    rows = [row | {"fetch_offset": offset} for offset in (5, 0)]
    answer = fetch(client, topics=[{"topic": "t", "partitions": rows}])
    [answered] = answer["responses"][0]["partitions"]
    assert not answered["error_code"]


def test_epochs_wrap_to_one() -> None:
    assert [next_epoch(epoch) for epoch in (0, 1, MAX_EPOCH)] == [1, 2, 1]


def test_ids_differ_and_have_a_shard() -> None:
    client = Client(Node())
    client.create("t")
    client.node.fetch_sessions._random = Random(1)
    ids = {fetch(client)["session_id"] for _ in range(100)}
    assert len(ids) == 100
    assert all(0 < each < 8 * SHARD_SESSION_IDS for each in ids)


def delete(client: Client, name: str) -> None:
    client.ask(ApiKey.DELETE_TOPICS, 5, {"topic_names": [name], "timeout_ms": 1_000})


def errors_by_id(client: Client, session_id: int, epoch: int, *topic_ids: bytes) -> Any:
    """Session and errors of a Fetch that adds partition 0 of these topics."""
    row = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100}
    body = {
        "max_wait_ms": 0,
        "min_bytes": 1,
        "session_id": session_id,
        "session_epoch": epoch,
        "topics": [{"topic_id": topic_id, "partitions": [row]} for topic_id in topic_ids],
    }
    answer = client.ask(ApiKey.FETCH, 17, body)
    rows = [row["error_code"] for topic in answer["responses"] for row in topic["partitions"]]
    return answer["session_id"], rows


def test_a_session_by_topic_ids_keeps_the_name_that_an_id_had() -> None:
    client = Client(Node())
    old = client.create("t")["topic_id"]
    session, errors = errors_by_id(client, 0, 0, old)
    assert errors == [ErrorCode.NONE]
    delete(client, "t")
    gone = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert [errors_by_id(client, session, epoch)[1] for epoch in (1, 2)] == [gone, gone]
    new = client.create("t")["topic_id"]
    assert new != old
    other = [ErrorCode.INCONSISTENT_TOPIC_ID]
    assert [errors_by_id(client, session, epoch)[1] for epoch in (3, 4)] == [other, other]
    assert errors_by_id(client, session, 5, new)[1] == [*other, ErrorCode.NONE]
    assert errors_by_id(client, 0, 0, old)[1] == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_a_session_by_names_reads_the_topic_that_has_the_name() -> None:
    client = Client(Node())
    client.create("t")
    session = fetch(client)["session_id"]
    delete(client, "t")

    def errors(epoch: int) -> list[int]:
        answer = fetch(client, session, epoch, topics=[])
        return [row["error_code"] for row in answer["responses"][0]["partitions"]]

    assert errors(1) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    client.create("t")
    assert errors(2) == [ErrorCode.NONE]


def test_an_id_that_no_topic_had_is_unknown_in_a_session() -> None:
    client = Client(Node())
    client.create("t")
    session, errors = errors_by_id(client, 0, 0, bytes(15) + b"x")
    assert errors == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert errors_by_id(client, session, 1)[1] == [ErrorCode.UNKNOWN_TOPIC_ID]
