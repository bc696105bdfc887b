"""Fetch, ListOffsets, DeleteRecords and AllocateProducerIds, as a client meets them."""

from typing import Any

import pytest

from impl import (
    ApiKey,
    CloseConnection,
    ErrorCode,
    Node,
    NodeConfig,
    PartitionLeader,
    Record,
    RecordBatch,
    client_batch,
    encode_batch,
)
from impl.broker.producer_ids import MAX_PRODUCER_ID, ProducerIdBlocks
from impl.protocol.record_batch import decode_batches
from tests.impl.broker.test_node import NOW_MS, Client, batch

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def client() -> Client:
    client = Client(Node())
    client.create("t", 2)
    return client


def leader(client: Client, index: int = 0) -> PartitionLeader:
    topic = client.node.topics.get("t")
    assert topic is not None
    return topic.partitions[index]


def at_times(*timestamps: int, producer_id: int = -1, **more: Any) -> bytes:
    records = [Record(i, NOW_MS + t, None, b"%d" % t) for i, t in enumerate(timestamps)]
    return encode_batch(client_batch(records, producer_id=producer_id, **more))


# DeleteRecords


def delete(
    client: Client, offset: int, *, version: int = 2, name: str = "t", index: int = 0
) -> Any:
    asked = {"name": name, "partitions": [{"partition_index": index, "offset": offset}]}
    body = {"topics": [asked], "timeout_ms": 1000}
    (topic,) = client.ask(ApiKey.DELETE_RECORDS, version, body)["topics"]
    (row,) = topic["partitions"]
    assert (topic["name"], row["partition_index"]) == (name, index)
    return ErrorCode(row["error_code"]), row["low_watermark"]


@pytest.mark.parametrize("version", range(3))
def test_deleted_records_move_the_start_of_the_log(client: Client, version: int) -> None:
    for sequence in range(4):
        client.produce(batch(sequence))
    assert delete(client, 3, version=version) == (ErrorCode.NONE, 3)
    assert delete(client, 1, version=version) == (ErrorCode.NONE, 3)
    row = client.produce(batch(3))
    assert (row["base_offset"], row["log_start_offset"]) == (3, 3)
    row = client.produce(batch(9))
    assert row["error_code"] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert row["log_start_offset"] == 3
    assert delete(client, -1, version=version) == (ErrorCode.NONE, 4)


def test_what_cannot_be_deleted(client: Client) -> None:
    client.produce(batch(0))
    for offset in (-2, 2):
        assert delete(client, offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete(client, 0, name="other") == (UNKNOWN, -1)
    assert delete(client, 0, index=2) == (UNKNOWN, -1)
    assert leader(client).log_start_offset == 0


@pytest.mark.parametrize("policy", ["compact", "compact,delete", "delete", ""])
def test_records_of_a_topic_that_is_only_compacted_are_not_deleted(
    client: Client, policy: str
) -> None:
    """Whatever the offset is, as a real 4.3.1 answers."""
    node = client.node
    node.topics.create("p", 1, {"cleanup.policy": policy})
    is_refused = policy == "compact"
    for offset, error in ((0, ErrorCode.NONE), (1, ErrorCode.OFFSET_OUT_OF_RANGE)):
        expected = ErrorCode.POLICY_VIOLATION if is_refused else error
        assert delete(client, offset, name="p") == (expected, -1 if expected else 0)
    assert delete(client, 0, name="p", index=1) == (UNKNOWN, -1)


def test_a_producer_whose_records_are_deleted_is_still_described(client: Client) -> None:
    client.produce(batch(0, producer_id=4))
    delete(client, -1)
    (row,) = client.describe("t", 0)
    assert [p["producer_id"] for p in row["active_producers"]] == [4]


# ListOffsets


def offsets(client: Client, timestamp: int, *, version: int = 9, **more: Any) -> Any:
    partition = {"partition_index": more.pop("index", 0), "timestamp": timestamp}
    partition["current_leader_epoch"] = more.pop("leader_epoch", -1)
    asked = {"name": more.pop("name", "t"), "partitions": [partition]}
    body = {"replica_id": -1, "topics": [asked], "timeout_ms": 1000, **more}
    row = client.ask(ApiKey.LIST_OFFSETS, version, body)["topics"][0]["partitions"][0]
    return ErrorCode(row["error_code"]), row["timestamp"], row["offset"], row["leader_epoch"]


NOTHING = (ErrorCode.NONE, -1, -1, -1)


@pytest.mark.parametrize("version", range(1, 12))
def test_the_ends_of_the_log(client: Client, version: int) -> None:
    epoch = 0 if version >= 4 else -1
    assert offsets(client, -1, version=version) == (ErrorCode.NONE, -1, 0, epoch)
    for sequence in range(3):
        client.produce(batch(sequence))
    delete(client, 2)
    assert offsets(client, -1, version=version) == (ErrorCode.NONE, -1, 3, epoch)
    assert offsets(client, -2, version=version) == (ErrorCode.NONE, -1, 2, epoch)


@pytest.mark.parametrize("timestamp", [-1, -2, -4])
def test_an_empty_log_begins_with_the_epoch_of_its_leader(client: Client, timestamp: int) -> None:
    """Never written, or all deleted: as a real 4.3.1 answers before and after a restart."""
    leads = leader(client)
    for end in (0, 1):
        assert offsets(client, timestamp) == (ErrorCode.NONE, -1, end, leads.leader_epoch)
        leads.leader_epoch += 2
        assert offsets(client, timestamp) == (ErrorCode.NONE, -1, end, leads.leader_epoch)
        if not end:
            client.produce(batch(0))
            delete(client, -1)


def test_version_0_is_not_served(client: Client) -> None:
    with pytest.raises(CloseConnection):
        offsets(client, -1, version=0)


@pytest.mark.parametrize(
    ("after_ms", "found"),
    [(0, (10, 0)), (10, (10, 0)), (11, (20, 1)), (21, (30, 3)), (25, (30, 3)), (30, (30, 3))],
)
def test_the_first_record_that_is_late_enough(
    client: Client, after_ms: int, found: tuple[int, int]
) -> None:
    client.produce(at_times(10, 20))
    client.produce(at_times(5, 30, 15))
    answer = (ErrorCode.NONE, NOW_MS + found[0], found[1], 0)
    assert offsets(client, NOW_MS + after_ms) == answer


def test_what_is_not_there_is_not_found(client: Client) -> None:
    assert offsets(client, -3) == NOTHING
    client.produce(at_times(10, 20))
    client.produce(at_times(5))
    assert offsets(client, NOW_MS + 21) == NOTHING
    assert offsets(client, -3) == (ErrorCode.NONE, NOW_MS + 20, 1, 0)
    delete(client, 2)
    assert offsets(client, NOW_MS) == (ErrorCode.NONE, NOW_MS + 5, 2, 0)
    for timestamp in (-5, -6):
        assert offsets(client, timestamp, version=11) == NOTHING
    assert offsets(client, -7, version=11)[0] == ErrorCode.UNSUPPORTED_VERSION


def test_a_deleted_record_in_a_batch_that_is_still_there_is_not_found(client: Client) -> None:
    client.produce(at_times(10, 20, 30))
    delete(client, 1)
    assert offsets(client, NOW_MS) == (ErrorCode.NONE, NOW_MS + 20, 1, 0)


@pytest.mark.parametrize(
    ("timestamp", "since"), [(-1, 1), (-2, 1), (-3, 7), (-4, 8), (-5, 9), (-6, 11)]
)
def test_each_question_has_its_first_version(client: Client, timestamp: int, since: int) -> None:
    refused = (ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)
    answers = {v: offsets(client, timestamp, version=v) == refused for v in range(1, 12)}
    assert answers == {v: v < since for v in range(1, 12)}


def test_consumers_see_what_is_replicated_and_brokers_everything(client: Client) -> None:
    client.produce(at_times(10, 20))
    one = leader(client)
    one.produce(at_times(30), required_acks=1, now_ms=NOW_MS)
    for isolation_level in (0, 1):
        more = {"isolation_level": isolation_level}
        assert offsets(client, -1, **more)[2] == 2
        assert offsets(client, NOW_MS + 25, **more) == NOTHING
        assert offsets(client, -3, **more) == NOTHING
    for replica_id in (2, -2):
        assert offsets(client, -1, replica_id=replica_id)[2] == 3
        assert offsets(client, NOW_MS + 25, replica_id=replica_id)[2] == 2


def test_a_broker_that_stamps_finds_its_own_stamps(client: Client) -> None:
    client.create("u", configs=[{"name": "message.timestamp.type", "value": "LogAppendTime"}])
    client.produce(at_times(10, 20), name="u")
    assert offsets(client, NOW_MS, name="u") == (ErrorCode.NONE, NOW_MS, 0, 0)
    assert offsets(client, -3, name="u") == (ErrorCode.NONE, NOW_MS, 0, 0)
    assert offsets(client, NOW_MS + 1, name="u") == NOTHING


def test_a_repeated_partition_is_refused_and_answered_once(client: Client) -> None:
    row = {"partition_index": 0, "timestamp": -1}
    topic = {"name": "t", "partitions": [row, row, row | {"partition_index": 1}]}
    body = {"replica_id": -1, "topics": [topic, {"name": "t", "partitions": [row]}]}
    (answer,) = client.ask(ApiKey.LIST_OFFSETS, 5, body)["topics"]
    answered = [(row["partition_index"], row["error_code"]) for row in answer["partitions"]]
    assert answered == [(0, ErrorCode.INVALID_REQUEST), (1, ErrorCode.NONE)]


def test_another_leader_is_not_asked(client: Client) -> None:
    leader(client).leader_epoch = 5
    assert offsets(client, -1, leader_epoch=5)[0] == ErrorCode.NONE
    assert offsets(client, -1, leader_epoch=4)[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert offsets(client, -1, leader_epoch=6)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert offsets(client, -1, name="other") == (UNKNOWN, -1, -1, -1)
    assert offsets(client, -1, index=2) == (UNKNOWN, -1, -1, -1)


# Fetch


def fetched(client: Client, offset: int, *, version: int = 12, **more: Any) -> Any:
    """The row of one partition; its records decoded, or the error."""
    partition = {
        "partition": more.pop("index", 0),
        "fetch_offset": offset,
        "partition_max_bytes": more.pop("partition_max_bytes", 1 << 20),
        "current_leader_epoch": more.pop("leader_epoch", -1),
    }
    topic_id = more.pop("topic_id", None) or client.metadata(None)["topics"][0]["topic_id"]
    asked = {"topic": more.pop("name", "t"), "topic_id": topic_id, "partitions": [partition]}
    body = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "topics": [asked], **more}
    (topic,) = client.ask(ApiKey.FETCH, version, body)["responses"]
    (row,) = topic["partitions"]
    if row["error_code"]:
        assert row["records"] == b""
        return ErrorCode(row["error_code"])
    return row


def read(client: Client, offset: int, **more: Any) -> list[RecordBatch]:
    return decode_batches(fetched(client, offset, **more)["records"])


@pytest.mark.parametrize("version", range(4, 19))
def test_what_was_produced_is_fetched(client: Client, version: int) -> None:
    for sequence in range(3):
        client.produce(batch(sequence))
    row = fetched(client, 1, version=version)
    assert [b.base_offset for b in decode_batches(row["records"])] == [1, 2]
    assert (row["high_watermark"], row["last_stable_offset"]) == (3, 3)
    assert row["log_start_offset"] == (0 if version >= 5 else -1)
    assert row["aborted_transactions"] is None
    committed = fetched(client, 1, version=version, isolation_level=1)
    assert (committed["aborted_transactions"], committed["records"]) == ([], row["records"])


def test_a_batch_is_given_from_any_of_its_offsets(client: Client) -> None:
    client.produce(at_times(1, 2, 3))
    client.produce(at_times(4))
    assert [[b.base_offset for b in read(client, offset)] for offset in range(5)] == [
        *[[0, 3]] * 3,
        [3],
        [],
    ]


def test_offsets_outside_of_the_log(client: Client) -> None:
    client.produce(at_times(1, 2, 3))
    delete(client, 2)
    assert fetched(client, 1) == fetched(client, 4) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert len(read(client, 2)) == 1


def test_what_is_not_replicated_is_only_early(client: Client) -> None:
    client.produce(at_times(1))
    leader(client).produce(at_times(2), required_acks=1, now_ms=NOW_MS)
    assert [b.base_offset for b in read(client, 0)] == [0]
    assert read(client, 1) == read(client, 2) == []
    assert fetched(client, 3) == ErrorCode.OFFSET_OUT_OF_RANGE


SIZE = len(at_times(0))


@pytest.mark.parametrize(
    ("limit", "answered"),
    [
        (0, SIZE),
        (SIZE - 1, SIZE),
        (SIZE + 1, SIZE + 1),
        (2 * SIZE - 1, 2 * SIZE - 1),
        (2 * SIZE + 30, 2 * SIZE + 30),
        (1 << 20, 3 * SIZE),
    ],
)
@pytest.mark.parametrize("name", ["max_bytes", "partition_max_bytes"])
def test_bytes_are_cut_anywhere_but_in_the_first_batch(
    client: Client, name: str, limit: int, answered: int
) -> None:
    for t in range(3):
        client.produce(at_times(t))
    whole = fetched(client, 0)["records"]
    assert fetched(client, 0, **{name: limit})["records"] == whole[:answered]


@pytest.mark.parametrize(
    ("max_bytes", "partition_max_bytes", "answered"),
    [
        (1, 1, [SIZE, 0]),
        (SIZE + 10, 1 << 20, [SIZE + 10, 0]),
        (4 * SIZE, 1 << 20, [3 * SIZE, SIZE]),
        (4 * SIZE - 1, 1 << 20, [3 * SIZE, 0]),
        (4 * SIZE + 3, 1 << 20, [3 * SIZE, SIZE + 3]),
        (1 << 20, SIZE - 1, [SIZE, 0]),
        (1 << 20, SIZE + 9, [SIZE + 9, SIZE + 9]),
    ],
)
def test_only_the_first_batch_of_an_answer_exceeds_a_limit(
    client: Client, max_bytes: int, partition_max_bytes: int, answered: list[int]
) -> None:
    """The sizes are those of a broker of release 4.3.1."""
    rows = [
        {"partition": index, "fetch_offset": 0, "partition_max_bytes": partition_max_bytes}
        for index in (0, 1)
    ]
    for row in rows:
        for t in range(3):
            client.produce(at_times(t), index=row["partition"])
    body = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": max_bytes}
    body["topics"] = [{"topic": "t", "partitions": rows}]
    (topic,) = client.ask(ApiKey.FETCH, 12, body)["responses"]
    assert [len(row["records"]) for row in topic["partitions"]] == answered


def test_one_answer_has_one_limit_for_all_partitions(client: Client) -> None:
    client.create("u", 2)
    for index in (0, 1):
        client.produce(at_times(1), name="u", index=index)
    rows = [
        {"partition": index, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for index in (0, 1)
    ]
    asked = {"topic": "u", "partitions": rows}
    body = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1, "topics": [asked]}
    (topic,) = client.ask(ApiKey.FETCH, 12, body)["responses"]
    assert [bool(row["records"]) for row in topic["partitions"]] == [True, False]


def test_a_broker_has_a_limit_of_its_own_for_fetched_bytes() -> None:
    client = Client(Node(NodeConfig(fetch_max_bytes=1024)))
    client.create("t", 1)
    for number in range(20):
        client.produce(at_times(*range(number, number + 10)))
    asked = fetched(client, 0, max_bytes=2**31 - 1, version=12)
    assert 0 < len(asked["records"]) <= 1024


def test_unknown_places_and_other_leaders(client: Client) -> None:
    assert fetched(client, 0, name="other") == UNKNOWN
    assert fetched(client, 0, index=2) == UNKNOWN
    nowhere = fetched(client, 0, version=13, topic_id=bytes(range(16)))
    assert nowhere == ErrorCode.UNKNOWN_TOPIC_ID
    leader(client).leader_epoch = 5
    assert fetched(client, 0, leader_epoch=4) == ErrorCode.FENCED_LEADER_EPOCH
    assert fetched(client, 0, leader_epoch=6) == ErrorCode.UNKNOWN_LEADER_EPOCH
    with pytest.raises(CloseConnection):
        fetched(client, 0, version=3)


# Produce


@pytest.mark.parametrize("version", [6, 7])
def test_zstd_has_its_first_version(client: Client, version: int) -> None:
    row = client.produce(
        encode_batch(client_batch([Record(0, NOW_MS, None, b"v")])._replace(attributes=4)),
        version=version,
    )
    refused = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert row["error_code"] == (refused if version < 7 else ErrorCode.NONE)


# AllocateProducerIds


def allocate(client: Client, broker_id: int, broker_epoch: int) -> tuple[int, int, int]:
    body = {"broker_id": broker_id, "broker_epoch": broker_epoch}
    row = client.ask(ApiKey.ALLOCATE_PRODUCER_IDS, 0, body)
    return row["error_code"], row["producer_id_start"], row["producer_id_len"]


def test_another_broker_gets_a_block_of_its_own(client: Client) -> None:
    client.node.controller.register(2, 8)
    assert allocate(client, 2, 8) == (ErrorCode.NONE, 0, 1000)
    assert client.new_producer_id() == 1000
    assert allocate(client, 2, 8) == (ErrorCode.NONE, 2000, 1000)
    stale = (ErrorCode.STALE_BROKER_EPOCH, 0, 0)
    assert allocate(client, 2, 7) == allocate(client, 3, 0) == stale


def test_without_ids_no_client_gets_one() -> None:
    client = Client(Node(NodeConfig(broker_epoch=3), blocks=ProducerIdBlocks(MAX_PRODUCER_ID)))
    assert allocate(client, 1, 3) == (ErrorCode.UNKNOWN_SERVER_ERROR, 0, 0)
    for _ in range(3):
        answer = client.ask(ApiKey.INIT_PRODUCER_ID, 4, {"transaction_timeout_ms": 1})
        assert answer["error_code"] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_node_asks_its_controller_with_its_own_epoch() -> None:
    assert Client(Node(NodeConfig(broker_epoch=3))).new_producer_id() == 0
