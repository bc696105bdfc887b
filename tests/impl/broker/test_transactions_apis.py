"""Transactions at one node, on the wire: every API in every version, offsets, time."""

from typing import Any

import pytest

from impl.coordinator.config import TransactionConfig
from impl.coordinator.log_records import decode_key, decode_value
from impl.coordinator.placement import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import decode_batches
from impl.protocol.schemas import ApiKey
from tests.impl.broker.network import Network, Producer
from tests.impl.broker.transacting import read, ready, started

NONE = ErrorCode.NONE
FENCED = ErrorCode.PRODUCER_FENCED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
T0, T1 = ("t", 0), ("t", 1)


@pytest.fixture
def network() -> Network:
    return started()


# ---- each API by version


@pytest.mark.parametrize("version", range(6))
def test_half_an_identity_and_fencing_by_version(network: Network, version: int) -> None:
    producer = ready(network)
    assert producer.init(version) is NONE
    assert producer.epoch == 1
    if version < 3:
        return
    producer.epoch = 0
    wanted = FENCED if version >= 4 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.init(version, keep=True) is wanted
    producer.epoch = -1
    assert producer.init(version, keep=True) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(6))
def test_add_partitions_by_version(network: Network, version: int) -> None:
    producer = ready(network)
    internal = (TRANSACTION_STATE_TOPIC, 0)
    skipped = ErrorCode.OPERATION_NOT_ATTEMPTED
    assert producer.add(T0, ("t", 9), ("u", 0), version=version) == [skipped, UNKNOWN, UNKNOWN]
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    wanted = [skipped, refused] if version < 4 else [NONE, NONE]
    assert producer.add(T0, internal, version=version) == wanted
    assert producer.add(T0, T1, version=version) == [NONE, NONE]
    assert network.view().image.partitions >= {T0, T1}
    assert network.view().image.client_transaction_version == (2 if version >= 4 else 0)
    producer.epoch = 9
    wanted_error = FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.add(T0, version=version) == [wanted_error]


def test_a_broker_asks_about_many_transactions(network: Network) -> None:
    one, two = ready(network), Producer(network, "U")
    two.init()
    one.add(T0)
    topics = [{"name": "t", "partitions": [0, 1]}]
    rows = [
        {**one.identity, "verify_only": True, "topics": topics},
        {**two.identity, "verify_only": False, "topics": topics},
    ]
    answer = network.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 5, {"transactions": rows})
    found = {
        result["transactional_id"]: [
            row["partition_error_code"]
            for topic in result["topic_results"]
            for row in topic["results_by_partition"]
        ]
        for result in answer["results_by_transaction"]
    }
    assert found == {"T": [NONE, ErrorCode.TRANSACTION_ABORTABLE], "U": [NONE, NONE]}
    assert network.view("U").image.partitions == {T0, T1}
    empty = network.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 5, {"transactions": []})
    assert empty["results_by_transaction"] == []


def test_level_0_supports_no_v2_request_that_writes() -> None:
    """Only 4.3.1's own answer: UNSUPPORTED_VERSION for the whole request, or each partition."""
    network = started(transactions=TransactionConfig(transaction_version=0))
    unsupported = ErrorCode.UNSUPPORTED_VERSION
    producer = ready(network, v2=True)
    assert producer.produce(0, T0, T1) == [unsupported, unsupported]
    network.find_group()
    for name, ask in (
        ("U", lambda other: other.commit_offset(1)),
        ("V", lambda other: other.end(commit=False)),
    ):
        other = Producer(network, name, v2=True)
        other.init()
        assert ask(other) is unsupported
    other = Producer(network, "W")
    other.init()
    topics = [{"name": "t", "partitions": [0]}]
    row = {**other.identity, "verify_only": False, "topics": topics}
    answer = network.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 5, {"transactions": [row]}, 1)
    assert (answer["error_code"], answer["results_by_transaction"]) == (unsupported, [])


@pytest.mark.parametrize("version", range(5))
def test_add_offsets_by_version(network: Network, version: int) -> None:
    producer = ready(network)
    body = {**producer.identity, "group_id": "g"}
    answer = network.ask(ApiKey.ADD_OFFSETS_TO_TXN, version, body)
    assert answer["error_code"] == NONE
    assert network.view().image.partitions == {(OFFSETS_TOPIC, 3)}
    body["producer_epoch"] = 9
    answer = network.ask(ApiKey.ADD_OFFSETS_TO_TXN, version, body)
    wanted = FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert answer["error_code"] == wanted


@pytest.mark.parametrize("version", range(6))
def test_end_txn_by_version(network: Network, version: int) -> None:
    producer = ready(network)
    producer.add(T0)
    assert producer.end(version=version) is NONE
    assert producer.epoch == (1 if version >= 5 else 0)
    network.run()
    producer.epoch = 9
    wanted = FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.end(version=version) is wanted


@pytest.mark.parametrize("version", [1, 2])
def test_an_admin_ends_a_hanging_transaction(network: Network, version: int) -> None:
    producer = ready(network)
    producer.add(T0)
    producer.produce(0, T0)
    marker = {
        "producer_id": producer.producer_id,
        "producer_epoch": 0,
        "transaction_result": False,
        "topics": [
            {"name": "t", "partition_indexes": [0, 9]},
            {"name": "u", "partition_indexes": [0]},
        ],
        "coordinator_epoch": 0,
    }
    answer = network.ask(ApiKey.WRITE_TXN_MARKERS, version, {"markers": [marker]})
    (row,) = answer["markers"]
    errors = [r["error_code"] for topic in row["topics"] for r in topic["partitions"]]
    assert (row["producer_id"], errors) == (producer.producer_id, [NONE, UNKNOWN, UNKNOWN])
    assert read(network) == ([0, 1], [(producer.producer_id, 0)])
    nothing = {"markers": [marker | {"topics": []}]}
    assert network.ask(ApiKey.WRITE_TXN_MARKERS, version, nothing)["markers"] == []
    marker["coordinator_epoch"] = -1
    answer = network.ask(ApiKey.WRITE_TXN_MARKERS, version, {"markers": [marker]})
    fenced = answer["markers"][0]["topics"][0]["partitions"][0]["error_code"]
    assert fenced == ErrorCode.TRANSACTION_COORDINATOR_FENCED


@pytest.mark.parametrize(
    ("transaction_version", "wanted"), [(0, NONE), (2, ErrorCode.INVALID_PRODUCER_EPOCH)]
)
def test_a_v2_marker_must_have_a_higher_epoch(
    network: Network, transaction_version: int, wanted: ErrorCode
) -> None:
    """KIP-1228: one of the epoch of the open transaction comes too late."""
    producer = ready(network)
    producer.add(T0)
    producer.produce(0, T0)
    marker = {
        "producer_id": producer.producer_id,
        "producer_epoch": 0,
        "transaction_result": True,
        "topics": [{"name": "t", "partition_indexes": [0]}],
        "coordinator_epoch": 0,
        "transaction_version": transaction_version,
    }
    answer = network.ask(ApiKey.WRITE_TXN_MARKERS, 2, {"markers": [marker]})
    assert answer["markers"][0]["topics"][0]["partitions"][0]["error_code"] == wanted


def test_a_transaction_ends_although_its_topic_was_deleted(network: Network) -> None:
    network.create("u", 1)
    producer = ready(network)
    producer.add(T0, ("u", 0))
    body = {"topics": [{"name": "u"}], "timeout_ms": 1}
    assert network.ask(ApiKey.DELETE_TOPICS, 6, body)["responses"][0]["error_code"] == NONE
    assert producer.end() is NONE
    network.run()
    assert network.view().image.state.title == "CompleteCommit"


def test_describe_and_list(network: Network) -> None:
    producer = ready(network)
    producer.add(T1, T0)
    body = {"transactional_ids": ["T", "U", ""]}
    rows = network.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, body)["transaction_states"]
    assert [row["error_code"] for row in rows] == [
        NONE,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.INVALID_REQUEST,
    ]
    assert rows[0] == {
        "error_code": 0,
        "transactional_id": "T",
        "transaction_state": "Ongoing",
        "transaction_timeout_ms": 60_000,
        "transaction_start_time_ms": network.now_ms,
        "producer_id": producer.producer_id,
        "producer_epoch": 0,
        "topics": [{"topic": "t", "partitions": [0, 1]}],
    }
    for version in range(3):
        body = {"state_filters": ["Ongoing", "Odd"], "producer_id_filters": []}
        answer = network.ask(ApiKey.LIST_TRANSACTIONS, version, body)
        assert answer["unknown_state_filters"] == ["Odd"]
        (row,) = answer["transaction_states"]
        assert (row["transactional_id"], row["transaction_state"]) == ("T", "Ongoing")
    body["transactional_id_pattern"] = "U.*"
    assert network.ask(ApiKey.LIST_TRANSACTIONS, 2, body)["transaction_states"] == []


def test_what_a_partition_knows_of_a_transaction(network: Network) -> None:
    producer = ready(network)
    producer.add(T0)
    producer.produce(0, T0)
    body = {"topics": [{"name": "t", "partition_indexes": [0]}]}

    def described() -> Any:
        answer = network.ask(ApiKey.DESCRIBE_PRODUCERS, 0, body)
        (row,) = answer["topics"][0]["partitions"][0]["active_producers"]
        return row["current_txn_start_offset"], row["coordinator_epoch"]

    assert described() == (0, -1)
    producer.end()
    network.run()
    assert described() == (-1, 0)


# ---- offsets


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("commit", [True, False])
def test_offsets_count_when_their_transaction_commits(
    network: Network, version: int, commit: bool
) -> None:
    producer = ready(network, v2=version >= 5)
    network.find_group()
    if version < 5:
        absent = ErrorCode.TRANSACTION_ABORTABLE if version >= 4 else ErrorCode.INVALID_TXN_STATE
        assert producer.commit_offset(5, version=version) is absent
        body = {**producer.identity, "group_id": "g"}
        assert network.ask(ApiKey.ADD_OFFSETS_TO_TXN, 4, body)["error_code"] == NONE
    assert producer.commit_offset(5, version=version) is NONE
    assert network.fetch_offset() == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert network.fetch_offset(stable=False) == (-1, NONE)
    producer.end(commit=commit)
    network.run()
    assert network.fetch_offset() == (5 if commit else -1, NONE)


@pytest.mark.parametrize("v2", [False, True])
def test_a_zombies_offsets_are_refused(network: Network, v2: bool) -> None:
    producer = ready(network, v2=v2)
    network.find_group()
    producer.epoch = 7
    assert producer.commit_offset(5) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_refused_commits(network: Network) -> None:
    producer = ready(network, v2=True)
    assert producer.commit_offset(5, node_id=1) is ErrorCode.NOT_COORDINATOR
    network.find_group()
    assert producer.commit_offset(5, group_id="") is ErrorCode.INVALID_GROUP_ID
    assert producer.commit_offset(5, generation_id=3) is ErrorCode.ILLEGAL_GENERATION
    row = {"partition_index": 0, "committed_offset": 5, "committed_metadata": None}
    unknown = [{"name": "u", "partitions": [row]}]
    assert producer.commit_offset(5, topics=unknown) is UNKNOWN
    unknown = [{"name": "t", "partitions": [row | {"partition_index": 9}]}]
    assert producer.commit_offset(5, topics=unknown) is UNKNOWN


@pytest.mark.parametrize("version", range(2, 11))
def test_plain_commits_and_fetches_by_version(network: Network, version: int) -> None:
    network.find_group()
    topic_id = network.cluster.topics.get("t").topic_id
    row = {"partition_index": 0, "committed_offset": 9, "committed_metadata": "m"}
    body: Any = {
        "group_id": "g",
        "member_id": "",
        "topics": [
            {
                "name": "t",
                "topic_id": topic_id,
                "partitions": [row | {"partition_index": 9}, row],
            },
            {"name": "u", "topic_id": bytes(range(16)), "partitions": [row]},
        ],
    }
    answer = network.ask(ApiKey.OFFSET_COMMIT, version, body)
    errors = [row["error_code"] for topic in answer["topics"] for row in topic["partitions"]]
    nowhere = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else UNKNOWN
    assert errors == [UNKNOWN, NONE, nowhere]
    asked = {"name": "t", "topic_id": topic_id, "partition_indexes": [0, 1]}
    group = {"group_id": "g", "topics": [asked]}
    answer = network.ask(ApiKey.OFFSET_FETCH, version, {"groups": [group], **group})
    found = answer["groups"][0] if version >= 8 else answer
    rows = found["topics"][0]["partitions"]
    assert [(r["committed_offset"], r["metadata"]) for r in rows] == [(9, "m"), (-1, "")]
    if version >= 2:
        everything = {"group_id": "g", "topics": None}
        answer = network.ask(ApiKey.OFFSET_FETCH, version, {"groups": [everything], **everything})
        found = answer["groups"][0] if version >= 8 else answer
        assert [r["committed_offset"] for r in found["topics"][0]["partitions"]] == [9]


@pytest.mark.parametrize("version", range(1, 11))
def test_an_offset_fetch_without_a_coordinator(network: Network, version: int) -> None:
    asked = {"name": "t", "topic_id": bytes(16), "partition_indexes": [0]}
    group = {"group_id": "g", "topics": [asked]}
    answer = network.ask(ApiKey.OFFSET_FETCH, version, {"groups": [group], **group})
    found = answer["groups"][0] if version >= 8 else answer
    wanted = ErrorCode.NOT_COORDINATOR
    if version == 1:
        assert found["topics"][0]["partitions"][0]["error_code"] == wanted
    else:
        assert found["error_code"] == wanted


# ---- time


def test_a_transaction_times_out_at_the_next_scan() -> None:
    network = started(transactions=TransactionConfig(abort_timed_out_interval_ms=1_000))
    producer = Producer(network, v2=True)
    producer.init(timeout_ms=500)
    producer.produce(0, T0)
    network.run(400)
    assert network.view().image.state.title == "Ongoing"
    network.run(2_000)
    assert network.view().image.state.title == "CompleteAbort"
    assert read(network) == ([0, 1], [(producer.producer_id, 0)])
    assert producer.end(commit=False) is NONE
    assert producer.epoch == 1


def test_an_id_expires_at_the_next_scan() -> None:
    rules = TransactionConfig(transactional_id_expiration_ms=1_000, remove_expired_interval_ms=500)
    network = started(transactions=rules)
    producer = ready(network)
    network.run(2_000)
    assert producer.add(T0) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]


def test_the_log_of_the_coordinator_is_kafkas(network: Network) -> None:
    producer = ready(network)
    producer.add(T0)
    producer.end()
    network.run()
    batches = decode_batches(
        b"".join(stored.data for stored in network.leader(TRANSACTION_STATE_TOPIC, 34).batches)
    )
    records = [record for batch in batches for record in batch.records]
    assert {decode_key(record.key) for record in records} == {"T"}
    assert [decode_value(record.value).state.title for record in records] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "CompleteCommit",
    ]
    assert all(batch.producer_id == -1 for batch in batches)


@pytest.mark.parametrize(("level", "finalized"), [(0, {}), (1, 1), (2, 2)])
@pytest.mark.parametrize("version", [3, 4])
def test_the_level_is_a_finalized_feature(level: int, finalized: object, version: int) -> None:
    network = started(transactions=TransactionConfig(transaction_version=level))
    body = {"client_software_name": "c", "client_software_version": "1"}
    answer = network.ask(ApiKey.API_VERSIONS, version, body)
    levels = {row["name"]: row["max_version_level"] for row in answer["finalized_features"]}
    assert (levels.pop("group.version"), levels.pop("metadata.version")) == (1, 30)
    assert levels == ({"transaction.version": finalized} if finalized else {})
    assert len(answer["supported_features"]) == (3 if version >= 4 else 1)


# ---- Fetch waits


def test_a_fetch_waits_for_records_or_for_time(network: Network) -> None:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topics = [{"topic": "t", "partitions": [partition]}]
    body = {"max_wait_ms": 500, "min_bytes": 1, "isolation_level": 1, "topics": topics}
    waiting = network.send(1, ApiKey.FETCH, 12, body)
    network.run(100)
    assert not waiting.is_answered
    producer = ready(network, v2=True)
    producer.produce(0, T0)
    network.run()
    assert not waiting.is_answered
    producer.end()
    network.run()
    assert waiting.is_answered
    late = network.send(1, ApiKey.FETCH, 12, body | {"min_bytes": 1 << 20})
    network.run(499)
    assert not late.is_answered
    network.run(1)
    assert late.answer["responses"][0]["partitions"][0]["records"]
    partition["fetch_offset"] = 99
    refused = network.send(1, ApiKey.FETCH, 12, body)
    row = refused.answer["responses"][0]["partitions"][0]
    assert row["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("isolation", [0, 1])
def test_the_latest_offset_of_a_committed_reader_is_stable(
    network: Network, isolation: int
) -> None:
    producer = ready(network, v2=True)
    producer.produce(0, T0)
    row = {"partition_index": 0, "timestamp": -1}
    body = {
        "replica_id": -1,
        "isolation_level": isolation,
        "topics": [{"name": "t", "partitions": [row]}],
        "timeout_ms": 1,
    }
    answer = network.ask(ApiKey.LIST_OFFSETS, 11, body)
    assert answer["topics"][0]["partitions"][0]["offset"] == (0 if isolation else 1)
