"""What a consumer returns: of which partitions, how many, decoded by whom; what it knows then."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from impl.broker import apis
from impl.client.errors import IllegalStateError, InvalidArgumentError
from impl.consumer.errors import RecordDeserializationError
from impl.protocol.errors import CrcMismatch, ErrorCode
from impl.protocol.schemas import ApiKey
from tests.impl.consumer.test_consumer import T, consumer, in_a_world, producer, write

OTHER = ("t", 1)


async def write_to(world: Any, place: tuple[str, int], *values: bytes | None, **more: Any) -> None:
    """A batch each."""
    async with producer(world, linger_ms=0) as p:
        for value in values:
            await p.send_and_wait(place[0], value, partition=place[1], **more)


def handle(monkeypatch: pytest.MonkeyPatch, api_key: ApiKey, handler: Any) -> None:
    """Let all nodes answer this way: the handler gets the one that is there, too."""
    served = apis.HANDLERS[api_key]
    monkeypatch.setitem(apis.HANDLERS, api_key, lambda *asked: handler(served, *asked))


# ---- which, and how many


def test_records_of_chosen_partitions_alone() -> None:
    """Also if others are ahead, whose answers wait to be taken."""

    async def program(world: Any) -> None:
        await write_to(world, T, b"0", b"1", b"2", b"3", b"4", b"5")
        async with consumer(world, max_partition_fetch_bytes=70) as c:
            c.assign([T, OTHER])
            assert (await c.getone(T)).value == b"0"
            assert await c.getmany(OTHER, timeout_ms=300) == {}
            for number in range(4):
                await write_to(world, OTHER, b"of 1")
                async with asyncio.timeout(5):
                    record = await c.getone(OTHER)
                assert (record.partition, record.offset) == (1, number)
            assert [record.value for record in (await c.getmany(T))[T]] == [b"1", b"2"]
            assert await c.position(T) == 3
            with pytest.raises(InvalidArgumentError, match=r"form \(topic, partition\)"):
                await c.getone("t")

    in_a_world(program, nodes=1, partitions=2)


def test_at_most_max_poll_records() -> None:
    async def program(world: Any) -> None:
        await write(world, 7)
        async with consumer(world, max_poll_records=3) as c:
            c.assign([T])
            sizes = [len((await c.getmany(timeout_ms=500))[T]) for _ in range(2)]
            assert sizes == [3, 3]
            c.seek(T, 0)
            assert len((await c.getmany(timeout_ms=500, max_records=5))[T]) == 5

    in_a_world(program)


def test_what_was_fetched_ahead_of_a_paused_partition_is_not_returned() -> None:
    async def program(world: Any) -> None:
        await write_to(world, T, b"0", b"1", b"2")
        async with consumer(world, max_partition_fetch_bytes=70) as c:
            c.assign([T])
            assert (await c.getone()).value == b"0"
            await asyncio.sleep(0.3)
            c.pause(T)
            assert await c.getmany(timeout_ms=300) == {}
            assert await c.position(T) == 1
            c.resume(T)
            assert [(await c.getone()).value for _ in range(2)] == [b"1", b"2"]

    in_a_world(program)


def test_partitions_have_names() -> None:
    """A pair is taken everywhere, and a pair with names is returned."""

    async def program(world: Any) -> None:
        await write(world, 2)
        async with consumer(world, group_id="g") as c:
            c.assign([T])
            ((place, records),) = (await c.getmany(timeout_ms=500)).items()
            assert (place.topic, place.partition, str(place)) == ("t", 0, "t-0")
            assert records[0]._asdict() | {"timestamp": 0} == {
                "topic": "t",
                "partition": 0,
                "offset": 0,
                "timestamp": 0,
                "timestamp_type": 0,
                "key": None,
                "value": b"0",
                "headers": (),
            }
            assert records[0].serialized_key_size == -1
            assert records[0].serialized_value_size == 1
            assert records[0].checksum is None
            assert {p.topic for p in c.assignment() | (await c.end_offsets([T])).keys()} == {"t"}
            assert await c.seek_to_beginning(T) is await c.seek_to_end() is True
            assert await c.seek_to_committed() == {T: None}

    in_a_world(program)


# ---- deserializers


def test_deserializers_get_keys_and_values() -> None:
    async def program(world: Any) -> None:
        async with producer(world) as p:
            await p.send_and_wait("t", b'{"a": 1}', b"k")
            await p.send_and_wait("t", None, None)
        settings = {
            "key_deserializer": lambda key: key and key.decode(),
            "value_deserializer": lambda value: value and json.loads(value),
        }
        async with consumer(world, **settings) as c:
            c.assign([T])
            first, second = await c.getone(), await c.getone()
            assert (first.key, first.value) == ("k", {"a": 1})
            assert (first.serialized_key_size, first.serialized_value_size) == (1, 8)
            assert (second.key, second.value) == (None, None)

    in_a_world(program)


def test_a_record_that_is_not_deserialized_is_an_error_that_names_it() -> None:
    async def program(world: Any) -> None:
        async with producer(world) as p:
            for value in (b"0", b"1", b"x", b"3"):
                await p.send("t", value)
        async with consumer(world, value_deserializer=int) as c:
            c.assign([T])
            assert [r.value for r in (await c.getmany(timeout_ms=500))[T]] == [0, 1]
            assert await c.position(T) == 2
            for timeout_ms in (500, 500):
                with pytest.raises(
                    RecordDeserializationError, match=r"offset 2 of t-0.*: seek 3"
                ) as e:
                    await c.getmany(timeout_ms=timeout_ms)
            assert isinstance(e.value.__cause__, ValueError)
            c.seek(e.value.partition, e.value.offset + 1)
            assert (await c.getone()).value == 3

    in_a_world(program)


def test_checksums_are_checked_unless_they_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def damage(served: Any, *asked: Any) -> Any:
        answer = served(*asked)
        for topic in answer["responses"] if isinstance(answer, dict) else ():
            for row in topic["partitions"]:
                row["records"] = row["records"].replace(b"whole", b"wrong")
        return answer

    handle(monkeypatch, ApiKey.FETCH, damage)

    async def program(world: Any) -> None:
        await write_to(world, T, b"whole")
        async with consumer(world) as c:
            c.assign([T])
            with pytest.raises(CrcMismatch):
                await c.getmany(timeout_ms=500)
        async with consumer(world, check_crcs=False) as c:
            c.assign([T])
            assert (await c.getone()).value == b"wrong"

    in_a_world(program)


# ---- what it knows


def test_ends_of_logs_and_metrics_follow_what_was_fetched() -> None:
    async def program(world: Any) -> None:
        await write_to(world, T, b"0", b"1", b"2")
        async with consumer(world, group_id="g") as c, producer(world, transactional_id="x") as p:
            c.assign([T, OTHER])
            assert (c.highwater(T), c.last_stable_offset(T), c.last_poll_timestamp(T)) == (
                None,
            ) * 3
            await p.begin_transaction()
            await p.send_and_wait("t", b"3", partition=0)
            assert len((await c.getmany(T, timeout_ms=500, max_records=1))[T]) == 1
            await c.commit()
            assert (c.highwater(T), c.last_stable_offset(T)) == (4, 3)
            assert (c.last_poll_timestamp(T) or 0) > 1_600_000_000_000
            found = c.metrics()
            assert found["consumer-fetch-manager-metrics.t-0"] == {"records-lag": 3}
            fetched = found["consumer-fetch-manager-metrics"]
            assert (fetched["records-consumed-total"], fetched["records-lag-max"]) == (1, 3)
            assert fetched["bytes-consumed-total"] > 4 * 61
            group = {"assigned-partitions": 2, "commit-total": 1, "rebalance-total": 0}
            assert found["consumer-coordinator-metrics"] == group
            assert found["consumer-metrics"]["request-total"] >= fetched["fetch-total"] >= 1
            await p.abort_transaction()
            c.assign([OTHER])
            for call in (c.highwater, c.last_stable_offset, c.last_poll_timestamp):
                with pytest.raises(IllegalStateError, match="t-0 is not assigned"):
                    call(T)

    in_a_world(program, partitions=2)


def test_positions_move_past_markers_and_aborted_records() -> None:
    async def program(world: Any) -> None:
        async with producer(world, transactional_id="x") as p:
            await p.begin_transaction()
            await p.send_and_wait("t", b"never")
            await p.abort_transaction()
        async with consumer(world, isolation_level="read_committed") as c:
            c.assign([T])
            assert await c.getmany(timeout_ms=300) == {}
            assert await c.position(T) == 2
            assert c.metrics()["consumer-fetch-manager-metrics.t-0"] == {"records-lag": 0}

    in_a_world(program)


def test_positions_of_assigned_partitions_are_committed_by_themselves() -> None:
    async def program(world: Any) -> None:
        await write(world, 4)
        settings = {"group_id": "g", "auto_commit_interval_ms": 200}
        async with consumer(world, **settings) as c, consumer(world, group_id="g") as other:
            c.assign([T])
            await c.getone()
            assert await other.committed(T) is None
            await asyncio.sleep(0.3)
            await c.getone()
            assert await other.committed(T) == 1
            await c.stop()
            assert await other.committed(T) == 2

    in_a_world(program)


# ---- replicas of the own rack (KIP-392)


def test_a_leader_sends_the_consumer_to_a_replica_of_its_rack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[int, str]] = []
    lags = False

    def redirect(served: Any, broker: Any, request: Any, now_ms: int) -> Any:
        asked.append((broker.config.node_id, request.body["rack_id"]))
        topic = broker.topics.get("t")
        is_leader = topic.leader_ids[0] == broker.config.node_id
        row = {"partition_index": 0, "error_code": 0, "high_watermark": 2, "records": b""}
        row["last_stable_offset"] = row["log_start_offset"] = -1
        if not is_leader:
            if lags:
                row["error_code"] = ErrorCode.OFFSET_OUT_OF_RANGE
            elif request.body["topics"][0]["partitions"][0]["fetch_offset"] < 2:
                row["records"] = topic.partitions[0].log.batches[0].data
        elif not lags:
            row["preferred_read_replica"] = 3 - broker.config.node_id
        else:
            return served(broker, request, now_ms)
        return {"responses": [{"topic": "t", "topic_id": topic.topic_id, "partitions": [row]}]}

    handle(monkeypatch, ApiKey.FETCH, redirect)

    async def program(world: Any) -> None:
        nonlocal lags
        await write(world, 2)
        leader = world.cluster.topics.get("t").leader_ids[0]
        async with consumer(world, client_rack="a") as c:
            c.assign([T])
            async with asyncio.timeout(5):
                assert (await c.getone()).value == b"0"
            assert asked[:2] == [(leader, "a"), (3 - leader, "a")]
            lags = True
            await write(world, 1)
            async with asyncio.timeout(5):
                assert [(await c.getone()).value for _ in range(2)] == [b"1", b"0"]
            assert asked[-1] == (leader, "a")

    in_a_world(program)
