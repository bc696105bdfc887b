"""Coordinators that move and take time to read their logs, as clients and leaders see it."""

from typing import Any

import pytest

from impl.broker.config import NodeConfig
from impl.coordinator.placement import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import ApiKey
from impl.settings import InvalidSetting
from tests.impl.broker.network import Network, Producer, is_marker

NONE = ErrorCode.NONE
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
ELSEWHERE = ErrorCode.NOT_COORDINATOR
UNAVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
RETRY = ErrorCode.NOT_ENOUGH_REPLICAS
STATE = TRANSACTION_STATE_TOPIC
T_PARTITION = 34
G_PARTITION = 3
LOAD_MS = 1_000
T0, T1 = ("t", 0), ("t", 1)


LAG_MS = 60_000


def started(**settings: int) -> Network:
    """Three nodes, each with one partition of t; T is coordinated by node 2, g by another."""
    network = Network(3, **settings)
    network.create("t", 1, 2, 3)
    network.find("T")
    network.find_group()
    network.run(sum(settings.values()))
    return network


@pytest.fixture
def network() -> Network:
    """Coordinators that load."""
    return started(coordinator_load_ms=LOAD_MS)


@pytest.fixture
def lagging() -> Network:
    """Coordinators that load, and hear late that they are some."""
    return started(coordinator_lag_ms=LAG_MS, coordinator_load_ms=LOAD_MS)


def begun(network: Network, *, v2: bool) -> Producer:
    """A transaction with one batch in t-0."""
    producer = Producer(network, v2=v2)
    assert producer.init() is NONE
    if not v2:
        assert producer.add(T0, T1) == [NONE, NONE]
    assert producer.produce(0, T0, node_id=1) == [NONE]
    return producer


def describe(network: Network, node_id: int) -> ErrorCode:
    body = {"transactional_ids": ["T"]}
    answer = network.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, body, node_id)
    return ErrorCode(answer["transaction_states"][0]["error_code"])


def listed(network: Network, node_id: int) -> ErrorCode:
    body: dict[str, Any] = {"state_filters": [], "producer_id_filters": []}
    return ErrorCode(network.ask(ApiKey.LIST_TRANSACTIONS, 0, body, node_id)["error_code"])


def fetch(network: Network, node_id: int) -> ErrorCode:
    """The answer to a consumer of group g."""
    body = {"groups": [{"group_id": "g", "topics": None}], "require_stable": False}
    answer = network.ask(ApiKey.OFFSET_FETCH, 9, body, node_id)
    return ErrorCode(answer["groups"][0]["error_code"])


def add_offsets(producer: Producer, version: int) -> ErrorCode:
    body = {**producer.identity, "group_id": "g"}
    node_id = producer.coordinator
    answer = producer.network.ask(ApiKey.ADD_OFFSETS_TO_TXN, version, body, node_id)
    return ErrorCode(answer["error_code"])


def errors_of_all(producer: Producer) -> set[ErrorCode]:
    """The answer to each version of each request to a transaction coordinator."""
    network, node_id = producer.network, producer.coordinator
    told = {producer.init(version) for version in range(6)}
    told |= {producer.init(version, keep=True) for version in range(3, 6)}
    told |= {error for version in range(6) for error in producer.add(T0, version=version)}
    told |= {add_offsets(producer, version) for version in range(5)}
    told |= {producer.end(version=version) for version in range(6)}
    return told | {describe(network, node_id)}


@pytest.mark.parametrize("v2", [False, True])
def test_a_coordinator_that_moves_loads_first(network: Network, v2: bool) -> None:
    producer = begun(network, v2=v2)
    network.cluster.move(STATE, T_PARTITION, 1)
    assert errors_of_all(producer) == {ELSEWHERE}
    assert listed(network, 2) is NONE
    producer.coordinator = network.find("T")
    assert producer.coordinator == 1
    assert errors_of_all(producer) == {LOADING}
    assert listed(network, 1) is LOADING
    network.run(LOAD_MS - 1)
    assert producer.end() is LOADING
    network.run(1)
    assert producer.end() is NONE
    network.run()
    assert network.view().image.state.title == "CompleteCommit"
    assert network.leader("t").last_stable_offset == 2


def test_a_new_coordinator_reads_its_empty_log_first() -> None:
    network = Network(1, coordinator_load_ms=LOAD_MS)
    producer = Producer(network)
    assert producer.init() is LOADING
    network.run(LOAD_MS)
    assert producer.init() is NONE


@pytest.mark.parametrize(
    "setting", ["coordinator_lag_ms", "coordinator_load_ms", "marker_delay_ms"]
)
def test_times_are_not_negative(setting: str) -> None:
    with pytest.raises(InvalidSetting, match=setting):
        NodeConfig(**{setting: -1})  # type: ignore[arg-type]


@pytest.mark.parametrize("version", range(3, 14))
def test_a_leader_hides_from_its_client_that_the_coordinator_moves(
    network: Network, version: int
) -> None:
    """Whatever the coordinator's trouble is: the client sends its batch again, here."""
    v2 = version >= 12
    producer = begun(network, v2=v2)
    topic_id = network.cluster.topics.get("t").topic_id  # type: ignore[union-attr]
    body = producer.body(0, T1)
    body["topics"][0]["topic_id"] = topic_id

    def produce() -> ErrorCode:
        answer = network.ask(ApiKey.PRODUCE, version, body, 2)
        return ErrorCode(answer["topics"][0]["partitions"][0]["error_code"])

    network.cluster.move(STATE, T_PARTITION, 1)
    assert produce() is RETRY
    network.run(LOAD_MS)
    assert produce() is NONE
    network.cluster.brokers.pop(1)
    body["topics"][0]["partitions"][0]["index"] = 2
    answer = network.ask(ApiKey.PRODUCE, version, body, 3)
    assert answer["topics"][0]["partitions"][0]["error_code"] == RETRY


@pytest.mark.parametrize("v2", [False, True])
def test_a_leaders_question_to_one_that_coordinates_no_more(network: Network, v2: bool) -> None:
    producer = begun(network, v2=v2)
    network.cluster.move(STATE, T_PARTITION, 3)
    network.run(LOAD_MS)
    network.holds = lambda sent: sent.api_key is ApiKey.ADD_PARTITIONS_TO_TXN
    question = network.send(2, ApiKey.PRODUCE, 12 if v2 else 11, producer.body(0, T1))
    assert [sent.request.node_id for sent in network.held] == [3]
    network.cluster.move(STATE, T_PARTITION, 1)
    network.deliver()
    row = question.answer["topics"][0]["partitions"][0]
    assert row["error_code"] == RETRY
    network.holds = lambda sent: False
    network.run(LOAD_MS)
    assert producer.produce(0, T1, node_id=2) == [NONE]


@pytest.mark.parametrize("version", range(6))
def test_offsets_whose_transactions_coordinator_loads(network: Network, version: int) -> None:
    """Clients before version 2 do not survive COORDINATOR_LOAD_IN_PROGRESS."""
    producer = begun(network, v2=version == 5)
    network.cluster.move(STATE, T_PARTITION, 1)
    at = network.find_group()
    row = {"partition_index": 0, "committed_offset": 1, "committed_metadata": None}
    body = {**producer.identity, "group_id": "g", "topics": [{"name": "t", "partitions": [row]}]}
    answer = network.ask(ApiKey.TXN_OFFSET_COMMIT, version, body, at)
    told = answer["topics"][0]["partitions"][0]["error_code"]
    assert told == (LOADING if version >= 2 else UNAVAILABLE)
    network.cluster.brokers.pop(1)
    answer = network.ask(ApiKey.TXN_OFFSET_COMMIT, version, body, at)
    assert answer["topics"][0]["partitions"][0]["error_code"] == UNAVAILABLE


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("key_type", [0, 1])
def test_the_coordinator_of_a_stopped_broker_is_not_available(
    network: Network, version: int, key_type: int
) -> None:
    """Of several keys each has its own answer."""
    is_group = not (key_type and version)
    find = network.find_group if is_group else network.find
    gone = find("T")
    other = next(name for name in "abcdef" if find(name) != gone)
    network.cluster.brokers.pop(gone)
    asked = 1 + gone % 3
    if version < 4:
        body: dict[str, Any] = {"key": "T", "key_type": key_type}
        row = network.ask(ApiKey.FIND_COORDINATOR, version, body, asked)
    else:
        body = {"key_type": key_type, "coordinator_keys": ["T", other]}
        row, found = network.ask(ApiKey.FIND_COORDINATOR, version, body, asked)["coordinators"]
        assert found["error_code"] == NONE
    assert (row["error_code"], row["node_id"]) == (UNAVAILABLE, -1)
    assert (row["host"], row["port"]) == ("", -1)


@pytest.mark.parametrize("v2", [False, True])
def test_prepared_transactions_end_under_the_coordinator_that_has_loaded(
    network: Network, v2: bool
) -> None:
    producer = begun(network, v2=v2)
    network.holds = is_marker
    assert producer.end() is NONE
    network.run()
    network.held.clear()
    network.cluster.move(STATE, T_PARTITION, 3)
    network.run(LOAD_MS - 1)
    assert network.held == []
    network.run(1)
    assert {sent.body["markers"][0]["coordinator_epoch"] for sent in network.held} == {1}
    network.holds = lambda sent: False
    while network.held:
        network.deliver()
    network.run()
    assert network.view().image.state.title == "CompleteCommit"
    assert network.leader("t").producers[producer.producer_id].coordinator_epoch == 1


@pytest.mark.parametrize("topic", [STATE, OFFSETS_TOPIC])
def test_a_load_that_a_move_overtakes_comes_to_nothing(network: Network, topic: str) -> None:
    """Away and back again: the second load counts, whatever becomes of the first."""
    producer = begun(network, v2=True)
    group_node = network.find_group()
    assert producer.commit_offset(7, node_id=group_node) is NONE
    partition = T_PARTITION if topic == STATE else G_PARTITION
    home = network.cluster.leader_of(topic, partition)
    assert home is not None
    away = home.node_id % 3 + 1

    def told() -> ErrorCode:
        if topic == STATE:
            return describe(network, away)
        return fetch(network, away)

    network.cluster.move(topic, partition, away)
    network.run(LOAD_MS // 2)
    assert told() is LOADING
    network.cluster.move(topic, partition, home.node_id)
    network.run(LOAD_MS // 4)
    assert told() is ELSEWHERE
    network.cluster.move(topic, partition, away)
    network.run(LOAD_MS // 4)
    assert told() is LOADING
    network.run(LOAD_MS)
    assert told() is NONE


def test_a_marker_waits_until_the_groups_offsets_are_read(network: Network) -> None:
    """`GroupCoordinatorService.completeTransaction`: it is refused, and sent again."""
    producer = begun(network, v2=True)
    assert producer.commit_offset(7) is NONE
    network.cluster.move(OFFSETS_TOPIC, G_PARTITION, 1)
    network.run()
    assert producer.end() is NONE
    network.run(LOAD_MS // 2)
    assert network.view().image.partitions == {(OFFSETS_TOPIC, G_PARTITION)}
    assert fetch(network, 1) is LOADING
    assert producer.commit_offset(8, node_id=1) is LOADING
    end = network.leader(OFFSETS_TOPIC, G_PARTITION).log_end_offset
    assert end == 1
    network.run(LOAD_MS)
    assert network.view().image.state.title == "CompleteCommit"
    assert network.fetch_offset(node_id=1) == (7, NONE)


# ---- deposed, without its knowledge


@pytest.mark.parametrize("v2", [False, True])
def test_who_was_deposed_answers_from_memory_and_cannot_write(lagging: Network, v2: bool) -> None:
    producer = begun(lagging, v2=v2)
    lagging.cluster.move(STATE, T_PARTITION, 1)
    assert {producer.init(), producer.init(keep=True), producer.end()} == {ELSEWHERE}
    assert (producer.add(T0), producer.add(("t", 2))) == ([NONE], [ELSEWHERE])
    assert (describe(lagging, 2), listed(lagging, 2)) == (NONE, NONE)
    assert lagging.view().image.state.title == "Ongoing"
    producer.coordinator = lagging.find("T")
    assert producer.coordinator == 1
    assert errors_of_all(producer) == {ELSEWHERE}
    lagging.run(LAG_MS)
    assert errors_of_all(producer) == {LOADING}
    producer.coordinator = 2
    assert errors_of_all(producer) == {ELSEWHERE}
    lagging.run(LOAD_MS)
    producer.coordinator = 1
    assert producer.end() is NONE
    lagging.run()
    assert lagging.view().image.state.title == "CompleteCommit"


@pytest.mark.parametrize("v2", [False, True])
def test_who_was_deposed_still_sends_markers_and_cannot_complete(
    lagging: Network, v2: bool
) -> None:
    """They say what is decided; the next coordinator's say it again."""
    producer = begun(lagging, v2=v2)
    lagging.holds = is_marker
    assert producer.end() is NONE
    lagging.run()
    lagging.cluster.move(STATE, T_PARTITION, 3)
    lagging.holds = lambda sent: False
    while lagging.held:
        lagging.deliver()
    lagging.run()
    assert lagging.leader("t").last_stable_offset == 2
    assert lagging.view().image.state.title == "PrepareCommit"
    assert producer.end() in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.PRODUCER_FENCED)
    lagging.run(LAG_MS + LOAD_MS)
    assert lagging.view().coordinator_epoch == 1
    assert lagging.view().image.state.title == "CompleteCommit"
    assert lagging.leader("t").log_end_offset == 3
    assert lagging.leader("t").producers[producer.producer_id].coordinator_epoch == 1


def test_who_leads_again_and_does_not_know_cannot_write_under_its_old_epoch(
    lagging: Network,
) -> None:
    producer = begun(lagging, v2=False)
    end = lagging.leader(STATE, T_PARTITION).log_end_offset
    for node_id in (1, 2):
        lagging.cluster.move(STATE, T_PARTITION, node_id)
    assert (producer.init(), producer.end()) == (ELSEWHERE, ELSEWHERE)
    assert lagging.leader(STATE, T_PARTITION).log_end_offset == end
    lagging.run(LAG_MS + LOAD_MS)
    assert producer.end() is NONE
    assert lagging.view().coordinator_epoch == 2


def test_who_was_deposed_cannot_abort_what_takes_too_long(lagging: Network) -> None:
    producer = Producer(lagging, v2=True)
    assert producer.init(timeout_ms=1_000) is NONE
    assert producer.produce(0, T0) == [NONE]
    lagging.cluster.move(STATE, T_PARTITION, 3)
    lagging.run(LAG_MS - 1)
    assert (lagging.view().coordinator_epoch, lagging.view().image.state.title) == (0, "Ongoing")
    assert lagging.leader("t").last_stable_offset == 0
    lagging.run(2 * LAG_MS)
    assert lagging.view().image.state.title == "CompleteAbort"
    assert lagging.leader("t").last_stable_offset == 2


def test_offsets_of_who_was_deposed(lagging: Network) -> None:
    producer = begun(lagging, v2=True)
    old = lagging.find_group()
    assert producer.commit_offset(7) is NONE
    new = old % 3 + 1
    lagging.cluster.move(OFFSETS_TOPIC, G_PARTITION, new)
    assert producer.commit_offset(8, node_id=old) is ELSEWHERE
    assert (fetch(lagging, old), fetch(lagging, new)) == (NONE, ELSEWHERE)
    assert producer.end() is NONE
    lagging.run(1_000)
    assert lagging.view().image.partitions == {(OFFSETS_TOPIC, G_PARTITION)}
    lagging.run(LAG_MS + LOAD_MS)
    assert lagging.fetch_offset(node_id=new) == (7, NONE)
