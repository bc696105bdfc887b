"""A broker that serves as an older release: its versions, its features, its rules."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer as LibrdkafkaProducer

from impl import Broker, ErrorCode, Node, NodeConfig, Producer
from impl.broker import releases
from impl.broker.outputs import CloseConnection
from impl.broker.releases import RELEASES, served_versions
from impl.coordinator.config import CONFIGS, TransactionConfig
from impl.partition.rules import RULES
from impl.protocol.messages import decode_response, encode_request
from impl.protocol.schemas import SUPPORTED_VERSIONS, ApiKey
from impl.settings import InvalidSetting
from tests.impl.broker.admin_recording import level

RECORDINGS = sorted(Path(__file__).with_name("recorded_versions").glob("*.json"))
REMOVED: dict[int, int] = {
    ApiKey.FETCH: 4,
    ApiKey.LIST_OFFSETS: 1,
    ApiKey.OFFSET_COMMIT: 2,
    ApiKey.OFFSET_FETCH: 1,
    ApiKey.CREATE_TOPICS: 2,
    ApiKey.DELETE_TOPICS: 1,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 2,
    ApiKey.WRITE_TXN_MARKERS: 1,
    ApiKey.DESCRIBE_ACLS: 1,
    ApiKey.CREATE_ACLS: 1,
    ApiKey.DELETE_ACLS: 1,
    ApiKey.DESCRIBE_CONFIGS: 1,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 1,
    ApiKey.DESCRIBE_LOG_DIRS: 1,
    ApiKey.CREATE_DELEGATION_TOKEN: 1,
    ApiKey.RENEW_DELEGATION_TOKEN: 1,
    ApiKey.EXPIRE_DELEGATION_TOKEN: 1,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: 1,
}
"""The versions before are served for no release: 4.0 removed them (KIP-896)."""
SECONDS = 20


def ask(node: Node, api_key: ApiKey, version: int, body: dict[str, Any]) -> Any:
    payload = node.handle(encode_request(api_key, version, 7, "c", body), 0)
    assert payload is not None
    return decode_response(api_key, version, payload)[1]


def test_each_release_is_recorded() -> None:
    assert {path.stem.removeprefix("kafka-")[:3] for path in RECORDINGS} == set(RELEASES)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_node_announces_what_the_broker_did(path: Path) -> None:
    recorded = json.loads(path.read_text())
    release = path.stem.removeprefix("kafka-")[:3]
    body = {"client_software_name": "c", "client_software_version": "1"}
    newest = served_versions(release)[ApiKey.API_VERSIONS][-1]
    answer = ask(Node(NodeConfig().of_release(release)), ApiKey.API_VERSIONS, newest, body)
    listed = {row["api_key"]: row for row in answer["api_keys"]}
    for row in recorded["api_keys"]:
        key = row["api_key"]
        if key in listed:
            first = max(row["min_version"], REMOVED.get(key, 0))
            assert listed.pop(key) == row | {"min_version": first}
    assert not listed
    assert answer["supported_features"] == recorded["supported_features"]
    assert answer["finalized_features"] == recorded["finalized_features"]


def test_a_version_of_a_later_release_is_refused() -> None:
    node = Node(NodeConfig().of_release("3.3"))
    body = {"client_software_name": "c", "client_software_version": "1"}
    refused = node.handle(encode_request(ApiKey.API_VERSIONS, 4, 7, "c", body), 0)
    assert refused is not None
    answer = decode_response(ApiKey.API_VERSIONS, 4, refused)[1]
    assert answer["error_code"] == ErrorCode.UNSUPPORTED_VERSION
    assert [row["max_version"] for row in answer["api_keys"]] == [3]
    end = {"transactional_id": "x", "producer_id": 1, "producer_epoch": 0, "committed": True}
    with pytest.raises(CloseConnection, match="0-3, not 4"):
        node.handle(encode_request(ApiKey.END_TXN, 4, 7, "c", end), 0)
    unknown = {"topics": [], "cursor": None}
    with pytest.raises(CloseConnection, match="not served"):
        node.handle(encode_request(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 7, "c", unknown), 0)


def test_the_newest_release_serves_every_version_of_the_codec() -> None:
    served = served_versions(RELEASES[-1])
    assert served.keys() == set(ApiKey)
    for api_key, versions in served.items():
        assert versions[-1] == SUPPORTED_VERSIONS[ApiKey(api_key)].last


@pytest.mark.parametrize(
    ("release", "coordinator", "leader"),
    [("2.8", "2.6", "2.8"), ("3.9", "3.8", "3.6"), ("4.0", "4.0", "4.0"), ("4.2", "4.1", "4.2")],
)
def test_rules_are_the_releases_and_other_settings_stay(
    release: str, coordinator: str, leader: str
) -> None:
    mine = NodeConfig(transactions=TransactionConfig(num_partitions=3), num_partitions=7)
    config = mine.of_release(release)
    assert config.transactions == replace(CONFIGS[coordinator], num_partitions=3)
    assert config.log.rules == RULES[leader]
    assert config.num_partitions == 7
    assert config.offsets.value_version == (3 if release < "4.1" else 4)


def test_before_4_0_there_is_no_level() -> None:
    node = Node(NodeConfig().of_release("3.9"))
    assert ask(node, *level(0, 2, version=1))["error_code"] == ErrorCode.INVALID_UPDATE_VERSION


def test_an_unknown_release_is_refused() -> None:
    for make in (lambda: NodeConfig(release="3.8"), lambda: Broker(release="5")):
        with pytest.raises(InvalidSetting, match=r"one of 2\.8, 3\.3, 3\.9, 4\.0"):
            make()


@pytest.mark.slow
@pytest.mark.parametrize("release", ["2.8", "3.9", "4.0"])
async def test_transactions_of_two_clients(release: str) -> None:
    async with Broker(release=release, nodes=2, topics={"t": 2}) as kafka:
        assert (kafka.release, kafka.nodes) == (release, (1, 2))
        settings = {"transactional_id": "x"}
        async with Producer(kafka.bootstrap_servers, **settings) as producer:
            for _ in range(2):
                async with producer.transaction():
                    await producer.send_and_wait("t", b"v", partition=1)
        log = kafka.log("t", 1)
        assert [batch.control for batch in log.batches] == [None, "COMMIT"] * 2


@pytest.mark.slow
def test_librdkafka_writes_to_an_old_release() -> None:
    with Broker(release="2.8", topics={"t": 1}) as kafka:
        settings = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "x"}
        producer = LibrdkafkaProducer(settings)
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        producer.produce("t", b"v")
        producer.commit_transaction(SECONDS)
        assert list(kafka.log("t").values) == [b"v"]


def test_the_newest_release_is_the_last_of_the_table() -> None:
    """A column that is added to the table is what a node serves as, if it is told nothing."""
    text = Path(releases.__file__).with_suffix(".py").read_text(encoding="utf-8")
    table = text.split('_TABLE: Final = """\n')[1].split('"""')[0]
    head, *rows = table.splitlines()
    wider = [f"{head}   4.4", *(f"{row}  {row.split()[-1]}" for row in rows)]
    names: dict[str, Any] = {}
    exec(text.replace(table, "\n".join([*wider, ""])), names)
    assert names["NEWEST_RELEASE"] == "4.4"
