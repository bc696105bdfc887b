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
