"""The node as a client meets it: encoded requests in, encoded answers out."""

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impl import (
    ApiKey,
    CloseConnection,
    ErrorCode,
    LogConfig,
    Node,
    NodeConfig,
    Record,
    RecordBatch,
    client_batch,
    decode_response,
    encode_batch,
    encode_request,
)
from impl.broker import topics as topics_module
from impl.broker.producer_ids import ProducerIdBlocks
from impl.broker.topic_settings import TOPIC_SETTINGS
from impl.protocol.primitives import ZERO_UUID
from impl.protocol.record_batch import TRANSACTIONAL
from impl.protocol.schemas import SUPPORTED_VERSIONS

NOW_MS = 1_000_000


class Client:
    """Sends one request at a time and checks the answer's correlation id."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.sent = 0

    def ask(self, api_key: ApiKey, version: int, body: dict, now_ms: int = NOW_MS) -> Any:
        self.sent += 1
        request = encode_request(api_key, version, self.sent, "test", body)
        answer = self.node.handle(request, now_ms)
        if answer is None:
            return None
        header, read = decode_response(api_key, version, answer)
        assert header["correlation_id"] == self.sent
        return read

    def create(self, name: str, partitions: int = 1, **more: Any) -> Any:
        row = {"name": name, "num_partitions": partitions, "replication_factor": 1, **more}
        return self.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [row]})["topics"][0]

    def produce(self, records: bytes | None, **more: Any) -> Any:
        answer = self.ask(
            more.pop("api", ApiKey.PRODUCE), more.pop("version", 9), body_of(records, **more)
        )
        return answer and answer["topics"][0]["partitions"][0]

    def describe(self, name: str, *indexes: int) -> Any:
        body = {"topics": [{"name": name, "partition_indexes": list(indexes)}]}
        return self.ask(ApiKey.DESCRIBE_PRODUCERS, 0, body)["topics"][0]["partitions"]

    def metadata(self, topics: list | None, version: int = 12, **more: Any) -> Any:
        return self.ask(ApiKey.METADATA, version, {"topics": topics, **more})

    def new_producer_id(self) -> int:
        for _ in range(2):
            answer = self.ask(ApiKey.INIT_PRODUCER_ID, 4, {"transaction_timeout_ms": 1})
            if answer["error_code"] == ErrorCode.NONE:
                return int(answer["producer_id"])
        raise AssertionError("no producer id in two requests")


def body_of(
    records: bytes | None,
    *,
    acks: int = -1,
    name: str = "t",
    topic_id: bytes = ZERO_UUID,
    index: int = 0,
    transactional_id: str | None = None,
) -> dict[str, Any]:
    partition = {"index": index, "records": records}
    return {
        "transactional_id": transactional_id,
        "acks": acks,
        "timeout_ms": 1000,
        "topics": [{"name": name, "topic_id": topic_id, "partitions": [partition]}],
    }


def batch(base_sequence: int, producer_id: int = 0, epoch: int = 0) -> bytes:
    return encode_batch(
        client_batch(
            [Record(0, NOW_MS, b"k", b"v")],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=base_sequence,
        )
    )


@pytest.fixture
def client() -> Client:
    client = Client(Node())
    client.create("t")
    return client


# ApiVersions


@pytest.mark.parametrize("version", range(5))
def test_api_versions_lists_what_is_served(client: Client, version: int) -> None:
    body = {"client_software_name": "kafka-eos", "client_software_version": "0.1"}
    answer = client.ask(ApiKey.API_VERSIONS, version, body)
    listed = {r["api_key"]: (r["min_version"], r["max_version"]) for r in answer["api_keys"]}
    groups_and_transactions = [*range(8, 17), *range(22, 29), 42, 47, 61, 65, 66, 68, 69]
    administration = [*range(18, 22), *range(32, 36), 37, 43, 44, 45, 46, 57, 60, 74, 75]
    security = [17, 29, 30, 31, 36, *range(38, 42), 50, 51]
    quotas_and_quorum = [48, 49, 55, 64]
    of_clients = [*range(4), *groups_and_transactions]
    served = sorted([*of_clients, *administration, *security, *quotas_and_quorum])
    assert sorted(listed) == served
    assert all(
        newest == SUPPORTED_VERSIONS[ApiKey(key)].last for key, (_, newest) in listed.items()
    )
    assert listed[ApiKey.PRODUCE] == (0, 13)
    assert listed[ApiKey.CREATE_TOPICS] == (2, 7)
    assert listed[ApiKey.FETCH] == (4, 18)
    assert listed[ApiKey.JOIN_GROUP] == (0, 9)
    assert listed[ApiKey.LIST_OFFSETS][0] == 1


@pytest.mark.parametrize("asked", [5, 99, 32767, -1])
def test_an_unknown_api_versions_version_is_answered_in_version_0_form(
    client: Client, asked: int
) -> None:
    request = bytes.fromhex("0012") + asked.to_bytes(2, "big", signed=True) + b"\0\0\0\x2a what"
    answer = client.node.handle(request, NOW_MS)
    assert answer == bytes.fromhex("0000002a 0023 00000001 0012 0000 0004")


@pytest.mark.parametrize("name", ["", "-k", "k-", "k k"])
def test_a_client_with_a_strange_name_is_refused(client: Client, name: str) -> None:
    body = {"client_software_name": name, "client_software_version": "1"}
    answer = client.ask(ApiKey.API_VERSIONS, 3, body)
    assert (answer["error_code"], answer["api_keys"]) == (ErrorCode.INVALID_REQUEST, [])


# connections


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"",
        bytes.fromhex("03e7 0000 00000001 ffff"),
        bytes.fromhex("0000 000e 00000001 ffff"),
        bytes.fromhex("0016 0004 00000001"),
    ],
    ids=["empty", "unknown api", "unknown version", "cut"],
)
def test_what_cannot_be_read_closes_the_connection(client: Client, request_bytes: bytes) -> None:
    with pytest.raises(CloseConnection):
        client.node.handle(request_bytes, NOW_MS)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_produce_is_advertised_and_refused(client: Client, version: int) -> None:
    with pytest.raises(CloseConnection):
        client.produce(batch(0), version=version)


@given(st.sampled_from(list(ApiKey)), st.integers(-1, 14), st.binary(max_size=80))
def test_noise_gets_an_answer_or_closes(api_key: ApiKey, version: int, noise: bytes) -> None:
    node = Node()
    head = api_key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True)
    try:
        answer = node.handle(head + noise, NOW_MS)
    except CloseConnection:
        return
    assert answer is None or len(answer) >= 4


# Produce


@pytest.mark.parametrize("version", range(3, 13))
@pytest.mark.parametrize("acks", [-1, 1])
def test_produce_by_name(client: Client, version: int, acks: int) -> None:
    row = client.produce(batch(0), version=version, acks=acks)
    assert (row["error_code"], row["base_offset"]) == (ErrorCode.NONE, 0)
    assert client.produce(batch(0), version=version, acks=acks)["base_offset"] == 0
    assert client.produce(batch(1), version=version, acks=acks)["base_offset"] == 1
    leader = client.node.topics.get("t").partitions[0]
    assert leader.high_watermark == leader.log_end_offset == 2


def test_produce_by_topic_id(client: Client) -> None:
    topic_id = client.metadata(None)["topics"][0]["topic_id"]
    row = client.produce(batch(0), version=13, topic_id=topic_id)
    assert (row["error_code"], row["base_offset"]) == (ErrorCode.NONE, 0)
    row = client.produce(batch(0), version=13, topic_id=bytes(range(16)))
    assert row["error_code"] == ErrorCode.UNKNOWN_TOPIC_ID


def test_unknown_topics_and_partitions(client: Client) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.produce(batch(0), name="other")["error_code"] == unknown
    for index in (-1, 1):
        row = client.produce(batch(0), index=index)
        assert (row["error_code"], row["log_start_offset"]) == (unknown, -1)


def test_acks_0_is_never_answered(client: Client) -> None:
    assert client.produce(batch(0), acks=0) is None
    assert client.node.topics.get("t").partitions[0].log_end_offset == 1
    with pytest.raises(CloseConnection):
        client.produce(batch(7), acks=0)


def test_other_acks_are_refused(client: Client) -> None:
    assert client.produce(batch(0), acks=2)["error_code"] == ErrorCode.INVALID_REQUIRED_ACKS


def test_a_transactional_batch_needs_a_transactional_id(client: Client) -> None:
    fields = {"attributes": TRANSACTIONAL, "producer_id": 0, "producer_epoch": 0}
    data = encode_batch(RecordBatch((Record(0, -1, None, None),), base_sequence=0, **fields))
    row = client.produce(data)
    assert row["error_code"] == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    row = client.produce(data, transactional_id="T")
    assert row["error_code"] == ErrorCode.NOT_ENOUGH_REPLICAS  # nobody coordinates T yet


def test_one_bad_partition_does_not_stop_the_others(client: Client) -> None:
    client.create("u", 2)
    rows = [{"index": 0, "records": b"?"}, {"index": 1, "records": batch(0)}]
    body = body_of(None) | {"topics": [{"name": "u", "partitions": rows}]}
    answer = client.ask(ApiKey.PRODUCE, 9, body)
    errors = [row["error_code"] for row in answer["topics"][0]["partitions"]]
    assert errors == [ErrorCode.INVALID_RECORD, ErrorCode.NONE]


# producer ids


def test_the_first_request_for_an_id_finds_no_block(client: Client) -> None:
    body = {"transaction_timeout_ms": 1}
    first = client.ask(ApiKey.INIT_PRODUCER_ID, 4, body)
    assert first["error_code"] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert (first["producer_id"], first["producer_epoch"]) == (-1, -1)
    second = client.ask(ApiKey.INIT_PRODUCER_ID, 4, body)
    assert second["error_code"] == ErrorCode.NONE
    assert (second["producer_id"], second["producer_epoch"]) == (0, 0)


def test_ids_are_dense_over_blocks_because_the_next_one_is_prefetched(client: Client) -> None:
    assert [client.new_producer_id() for _ in range(2500)] == list(range(2500))


def test_a_node_that_takes_over_uses_other_ids() -> None:
    blocks = ProducerIdBlocks()
    first, second = (Client(Node(blocks=blocks)) for _ in range(2))
    assert [first.new_producer_id(), second.new_producer_id()] == [0, 1000]


@pytest.mark.parametrize(("producer_id", "producer_epoch"), [(5, -1), (-1, 0)])
def test_half_an_identity_is_refused(client: Client, producer_id: int, producer_epoch: int) -> None:
    body = {
        "transaction_timeout_ms": 1,
        "producer_id": producer_id,
        "producer_epoch": producer_epoch,
    }
    answer = client.ask(ApiKey.INIT_PRODUCER_ID, 4, body)
    assert answer["error_code"] == ErrorCode.INVALID_REQUEST


def test_an_identity_without_a_transactional_id_is_ignored(client: Client) -> None:
    client.new_producer_id()
    body = {"transaction_timeout_ms": 1, "producer_id": 7, "producer_epoch": 3}
    answer = client.ask(ApiKey.INIT_PRODUCER_ID, 4, body)
    assert (answer["producer_id"], answer["producer_epoch"]) == (1, 0)


@pytest.mark.parametrize(
    ("transactional_id", "error"),
    [("", ErrorCode.INVALID_REQUEST), ("T", ErrorCode.NOT_COORDINATOR)],
)
def test_transactional_ids_have_no_coordinator_before_one_is_looked_for(
    client: Client, transactional_id: str, error: ErrorCode
) -> None:
    body = {"transactional_id": transactional_id, "transaction_timeout_ms": 1}
    assert client.ask(ApiKey.INIT_PRODUCER_ID, 4, body)["error_code"] == error


# Metadata


@pytest.mark.parametrize("version", range(14))
def test_metadata_names_the_leader(client: Client, version: int) -> None:
    answer = client.metadata([{"name": "t"}], version)
    assert answer["brokers"][0]["node_id"] == 1
    assert (answer["brokers"][0]["host"], answer["brokers"][0]["port"]) == ("localhost", 9092)
    assert answer["controller_id"] == (1 if version else -1)
    (topic,) = answer["topics"]
    assert (topic["name"], topic["error_code"]) == ("t", ErrorCode.NONE)
    (partition,) = topic["partitions"]
    assert partition["leader_id"] == 1
    assert partition["replica_nodes"] == partition["isr_nodes"] == [1]


@pytest.mark.parametrize(("version", "everything"), [(0, []), (1, None), (12, None)])
def test_metadata_of_all_topics(client: Client, version: int, everything: list | None) -> None:
    client.create("u", 3)
    topics = client.metadata(everything, version)["topics"]
    assert [(t["name"], len(t["partitions"])) for t in topics] == [("t", 1), ("u", 3)]
    assert version == 0 or client.metadata([], version)["topics"] == []


def test_metadata_creates_topics_unless_the_request_forbids_it(client: Client) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    kept = client.metadata([{"name": "new"}], allow_auto_topic_creation=False)["topics"][0]
    assert kept["error_code"] == unknown
    assert client.metadata([{"name": "new"}])["topics"][0]["error_code"] == ErrorCode.NONE
    strict = Client(Node(NodeConfig(auto_create_topics=False)))
    assert strict.metadata([{"name": "new"}])["topics"][0]["error_code"] == unknown
    bad = client.metadata([{"name": "a/b"}])["topics"][0]
    assert (bad["error_code"], bad["name"]) == (ErrorCode.INVALID_TOPIC_EXCEPTION, "a/b")


def test_metadata_by_topic_id(client: Client) -> None:
    topic_id = client.metadata(None)["topics"][0]["topic_id"]
    found = client.metadata([{"name": None, "topic_id": topic_id}])["topics"][0]
    assert found["name"] == "t"
    other = bytes(range(16))
    lost = client.metadata([{"name": None, "topic_id": other}])["topics"][0]
    assert (lost["error_code"], lost["topic_id"]) == (ErrorCode.UNKNOWN_TOPIC_ID, other)
    early = client.metadata([{"name": None, "topic_id": topic_id}], version=10)["topics"][0]
    assert early["error_code"] == ErrorCode.INVALID_REQUEST


# CreateTopics


@pytest.mark.parametrize("version", range(2, 8))
def test_create_topics(version: int) -> None:
    client = Client(Node(NodeConfig(num_partitions=4)))
    row = {"name": "t", "num_partitions": -1, "replication_factor": -1}
    answer = client.ask(ApiKey.CREATE_TOPICS, version, {"topics": [row]})
    assert answer["topics"][0]["error_code"] == ErrorCode.NONE
    assert answer["topics"][0]["num_partitions"] == (4 if version >= 5 else -1)
    assert len(client.metadata(None)["topics"][0]["partitions"]) == 4


def assignment(*brokers: int) -> list[dict[str, Any]]:
    return [{"partition_index": i, "broker_ids": [b]} for i, b in enumerate(brokers)]


REFUSED: dict[str, tuple[dict[str, Any], ErrorCode]] = {
    "exists": ({"name": "t"}, ErrorCode.TOPIC_ALREADY_EXISTS),
    "slash": ({"name": "a/b"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    "empty": ({"name": ""}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    "dot": ({"name": "."}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    "long": ({"name": "x" * 250}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    "none": ({"num_partitions": 0}, ErrorCode.INVALID_PARTITIONS),
    "minus two": ({"num_partitions": -2}, ErrorCode.INVALID_PARTITIONS),
    "too many": ({"num_partitions": 2147483647}, ErrorCode.POLICY_VIOLATION),
    "replicas": ({"replication_factor": 2}, ErrorCode.INVALID_REPLICATION_FACTOR),
    "both": ({"assignments": assignment(1)}, ErrorCode.INVALID_REQUEST),
    "elsewhere": (
        {"assignments": assignment(2), "num_partitions": -1, "replication_factor": -1},
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "config": ({"configs": [{"name": "flush.ms", "value": "-1"}]}, ErrorCode.INVALID_CONFIG),
    "value": ({"configs": [{"name": "segment.bytes", "value": "-1"}]}, ErrorCode.INVALID_CONFIG),
    "zero": ({"configs": [{"name": "segment.bytes", "value": "0"}]}, ErrorCode.INVALID_CONFIG),
    "null": ({"configs": [{"name": "segment.bytes", "value": None}]}, ErrorCode.INVALID_CONFIG),
    "codec": (
        {"configs": [{"name": "compression.type", "value": "none"}]},
        ErrorCode.INVALID_CONFIG,
    ),
    "remote": (
        {"configs": [{"name": "remote.storage.enable", "value": "true"}]},
        ErrorCode.INVALID_CONFIG,
    ),
    "policy": (
        {"configs": [{"name": "cleanup.policy", "value": "compact,gone"}]},
        ErrorCode.INVALID_CONFIG,
    ),
    "ratio": (
        {"configs": [{"name": "min.cleanable.dirty.ratio", "value": "1.5"}]},
        ErrorCode.INVALID_CONFIG,
    ),
    "lags": (
        {
            "configs": [
                {"name": "min.compaction.lag.ms", "value": "2"},
                {"name": "max.compaction.lag.ms", "value": "1"},
            ]
        },
        ErrorCode.INVALID_CONFIG,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_topics(client: Client, name: str) -> None:
    changes, error = REFUSED[name]
    row = {"name": "new", "num_partitions": 1, "replication_factor": 1, **changes}
    answer = client.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [row]})["topics"][0]
    assert (answer["name"], answer["error_code"]) == (row["name"], error)
    assert answer["error_message"]
    assert len(client.metadata(None)["topics"]) == 1


@pytest.mark.parametrize("value", ["-2", "-1", "0", "1", "9" * 30, "", "CreateTime"])
@pytest.mark.parametrize("name", TOPIC_SETTINGS)
def test_a_setting_is_stored_or_refused(client: Client, name: str, value: str) -> None:
    configs = [{"name": name, "value": value}]
    row = {"name": "new", "num_partitions": 1, "replication_factor": 1, "configs": configs}
    answer = client.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [row]})["topics"][0]
    if answer["error_code"]:
        assert answer["error_code"] == ErrorCode.INVALID_CONFIG
        assert f" for configuration {name}: " in answer["error_message"]
    else:
        described = {row["name"]: row["value"] for row in answer["configs"]}
        assert described.keys() == TOPIC_SETTINGS.keys()
        assert described[name] == (f"{value}.0" if "ratio" in name else value)


def test_a_codec_whose_library_is_not_installed_is_refused(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cramjam", None)
    for value, is_refused in (("zstd", True), ("uncompressed", False), ("producer", False)):
        row = {"name": f"{value}.topic", "num_partitions": 1, "replication_factor": 1}
        row["configs"] = [{"name": "compression.type", "value": value}]
        answer = client.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [row]})["topics"][0]
        assert answer["error_code"] == (ErrorCode.INVALID_CONFIG if is_refused else 0)
        assert is_refused == ("kafka-eos[compression]" in (answer["error_message"] or ""))


def test_coordinators_without_room_for_their_topic_are_not_available(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics_module, "MAX_PARTITIONS", 20)
    for key_type in (0, 1):
        body = {"key": "mine", "key_type": key_type}
        answer = client.ask(ApiKey.FIND_COORDINATOR, 3, body)
        assert answer["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert "exceed the limit of 20" in answer["error_message"]
    body = {"transactional_id": "mine", "producer_id": 1, "producer_epoch": 0, "group_id": "g"}
    answer = client.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, body)
    assert answer["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_name_asked_for_twice_is_refused_once(client: Client) -> None:
    row = {"name": "new", "num_partitions": 1, "replication_factor": 1}
    answer = client.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [row, row]})
    assert [r["error_code"] for r in answer["topics"]] == [ErrorCode.INVALID_REQUEST]


def test_assignments_give_the_number_of_partitions(client: Client) -> None:
    more = {"replication_factor": -1, "assignments": assignment(1, 1, 1)}
    assert client.create("u", -1, **more)["num_partitions"] == 3


def test_validate_only_creates_nothing(client: Client) -> None:
    row = {"name": "u", "num_partitions": 2, "replication_factor": 1}
    answer = client.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [row], "validate_only": True})
    assert answer["topics"][0]["error_code"] == ErrorCode.NONE
    assert answer["topics"][0]["topic_id"] != ZERO_UUID  # as 4.3.1 does
    assert client.node.topics.get("u") is None


def test_settings_are_applied(client: Client) -> None:
    configs = [
        {"name": "max.message.bytes", "value": "10"},
        {"name": "message.timestamp.type", "value": "LogAppendTime"},
        {"name": "cleanup.policy", "value": "delete"},
    ]
    answer = client.create("small", configs=configs)
    own = {c["name"]: c["value"] for c in answer["configs"] if c["config_source"] == 1}
    assert own == {c["name"]: c["value"] for c in configs}
    row = client.produce(batch(0), name="small")
    assert row["error_code"] == ErrorCode.MESSAGE_TOO_LARGE
    client.create("stamped", configs=configs[1:])
    assert client.produce(batch(0), name="stamped")["log_append_time_ms"] == NOW_MS


def test_partitions_have_a_limit(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics_module, "MAX_PARTITIONS", 4)
    assert client.create("three", 3)["error_code"] == ErrorCode.NONE
    assert client.create("more", 1)["error_code"] == ErrorCode.POLICY_VIOLATION
    created = client.metadata([{"name": "auto"}])["topics"][0]
    assert created["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.node.topics.get("auto") is None


# DescribeProducers


@pytest.mark.parametrize("version", range(1, 7))
def test_topics_are_deleted_by_name(client: Client, version: int) -> None:
    rows = [{"name": name} for name in ("t", "u")]
    body = {"topics": rows, "topic_names": ["t", "u"], "timeout_ms": 1}
    answer = client.ask(ApiKey.DELETE_TOPICS, version, body)["responses"]
    errors = [(row["name"], row["error_code"]) for row in answer]
    assert errors == [("t", ErrorCode.NONE), ("u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert client.metadata(None)["topics"] == []
    assert client.create("t")["error_code"] == ErrorCode.NONE


OTHER_ID = b"\7" * 16


def test_topics_are_deleted_by_id_but_internal_ones_stay(client: Client) -> None:
    body = {"key_type": 1, "coordinator_keys": ["T"]}
    client.ask(ApiKey.FIND_COORDINATOR, 6, body)
    topic_id = client.metadata([{"name": "t"}])["topics"][0]["topic_id"]
    rows = [
        {"topic_id": topic_id},
        {"topic_id": OTHER_ID},
        {"name": "t", "topic_id": topic_id},
        {},
        {"name": "__transaction_state"},
    ]
    body = {"topics": rows, "timeout_ms": 1}
    answer = client.ask(ApiKey.DELETE_TOPICS, 6, body)["responses"]
    refused = ErrorCode.INVALID_REQUEST
    wanted = [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID, refused, refused, refused]
    assert [row["error_code"] for row in answer] == wanted
    assert answer[0]["name"] == "t"


def test_a_new_topic_of_an_old_name_has_an_id_of_its_own(client: Client) -> None:
    before = client.metadata([{"name": "t"}])["topics"][0]["topic_id"]
    body = {"topics": [{"name": "t"}], "timeout_ms": 1}
    client.ask(ApiKey.DELETE_TOPICS, 6, body)
    client.create("t")
    assert client.metadata([{"name": "t"}])["topics"][0]["topic_id"] != before


def test_describe_producers(client: Client) -> None:
    client.produce(batch(0, producer_id=4, epoch=2))
    client.produce(batch(1, producer_id=4, epoch=2))
    known, unknown = client.describe("t", 0, 1)
    assert known["active_producers"] == [
        {
            "producer_id": 4,
            "producer_epoch": 2,
            "last_sequence": 1,
            "last_timestamp": NOW_MS,
            "coordinator_epoch": -1,
            "current_txn_start_offset": -1,
        }
    ]
    assert unknown["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.describe("other", 0)[0]["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_idle_producers_expire_at_the_next_check() -> None:
    config = NodeConfig(
        producer_id_expiration_check_interval_ms=200, log=LogConfig(producer_id_expiration_ms=1000)
    )
    client = Client(Node(config))
    client.create("t")
    client.produce(batch(0))
    for now_ms, left in ((NOW_MS + 950, 1), (NOW_MS + 1100, 1), (NOW_MS + 1150, 0)):
        client.ask(ApiKey.METADATA, 12, {"topics": []}, now_ms)
        assert len(client.node.topics.get("t").partitions[0].producers) == left


@pytest.mark.parametrize("setting", ["retention.ms", "retention.bytes"])
def test_old_segments_go_at_the_next_check(setting: str) -> None:
    client = Client(Node(NodeConfig(log_retention_check_interval_ms=200)))
    settings = {setting: "150", "segment.bytes": str(len(batch(0)) * 2)}
    client.create("t", configs=[{"name": name, "value": text} for name, text in settings.items()])
    leader = client.node.topics.get("t").partitions[0]
    for sequence in range(5):
        client.produce(batch(sequence))
    for now_ms, start in ((NOW_MS + 199, 0), (NOW_MS + 200, 5 if "ms" in setting else 2)):
        client.ask(ApiKey.METADATA, 12, {"topics": []}, now_ms)
        assert leader.log_start_offset == start
    assert set(leader.producers) == {0}
    assert client.produce(batch(5))["base_offset"] == 5


def test_the_same_requests_give_the_same_bytes() -> None:
    def run() -> list[bytes | None]:
        node = Node()
        requests = [
            (ApiKey.METADATA, 12, {"topics": [{"name": "t"}]}),
            (ApiKey.INIT_PRODUCER_ID, 4, {"transaction_timeout_ms": 1}),
            (ApiKey.PRODUCE, 9, body_of(batch(0))),
            (ApiKey.DESCRIBE_PRODUCERS, 0, {"topics": [{"name": "t", "partition_indexes": [0]}]}),
        ]
        return [
            node.handle(encode_request(key, version, 1, "c", body), NOW_MS)
            for key, version, body in requests
        ]

    assert run() == run()
