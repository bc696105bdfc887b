"""Blocks of producer ids over a real ZooKeeper: races, lost answers, the end of the ids."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("kazoo", reason="the extra [zookeeper] is not installed")

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, NoAuthError
from kazoo.retry import RetryFailedError
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from impl import (
    ApiKey,
    Node,
    NodeConfig,
    TransactionCoordinator,
    decode_response,
    encode_request,
)
from impl.broker import zookeeper
from impl.broker.producer_ids import (
    BLOCK_SIZE,
    MAX_PRODUCER_ID,
    ProducerIdBlock,
    ProducerIdController,
)
from impl.broker.zookeeper import (
    PATH,
    BlockNotWritten,
    InvalidBlockNode,
    ProducerIdsExhausted,
    ZooKeeperBlocks,
    ZooKeeperProducerIdManager,
    decode_node,
    encode_node,
)
from impl.coordinator.effects import SendAnswer
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import ProducerIdAndEpoch
from tests.impl.broker import zookeeper_server
from tests.impl.jars import Unavailable

pytestmark = pytest.mark.slow  # Java

FORMS = pytest.mark.parametrize("checks_own_data", [True, False], ids=["2.8", "3.0"])
LAST = ProducerIdBlock(MAX_PRODUCER_ID - 2 * BLOCK_SIZE + 1, BLOCK_SIZE)
"""The last block after which there is another one: it ends at 2^63 - 1 - 1000."""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        with zookeeper_server.running(tmp_path_factory.mktemp("zookeeper")) as hosts:
            yield hosts
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def connection(hosts: str) -> Iterator[KazooClient]:
    with zookeeper_server.connected(hosts) as client:
        yield client


@pytest.fixture
def client(connection: KazooClient) -> KazooClient:
    """One connection for all; the node is there and empty."""
    if connection.exists(PATH):
        connection.delete(PATH)
    connection.create(PATH)
    return connection


def node(client: Any) -> tuple[int, ProducerIdBlock]:
    return decode_node(client.get(PATH)[0])


class Wire:
    """A client between which and ZooKeeper something happens to some of its writes."""

    def __init__(self, client: KazooClient, *fates: str) -> None:
        self._client = client
        self.fates = list(fates)
        self.writes = 0

    def get(self, path: str) -> Any:
        return self._client.get(path)

    def ensure_path(self, path: str) -> Any:
        return self._client.ensure_path(path)

    def set(self, path: str, value: bytes, version: int) -> Any:
        self.writes += 1
        fate = self.fates.pop(0) if self.fates else ""
        if fate == "request lost":
            raise ConnectionLoss
        if fate == "other first":
            self._client.set(path, encode_node(9, next_block(self._client)))
        if fate == "node vanishes":
            self._client.delete(path)
        status = self._client.set(path, value, version)
        if fate == "answer lost":
            raise ConnectionLoss
        return status


def next_block(client: KazooClient) -> ProducerIdBlock:
    data, _ = client.get(PATH)
    last = decode_node(data)[1] if data else ProducerIdBlock(-BLOCK_SIZE, BLOCK_SIZE)
    return ProducerIdBlock(last.first_producer_id + BLOCK_SIZE, BLOCK_SIZE)


# the node


def test_the_node_is_kafkas() -> None:
    written = b'{"version":1,"broker":3,"block_start":"2000","block_end":"2999"}'
    assert encode_node(3, ProducerIdBlock(2000, 1000)) == written
    assert decode_node(written) == (3, ProducerIdBlock(2000, 1000))


@pytest.mark.parametrize(
    "data",
    [
        b"?",
        b"[]",
        b"{}",
        b'{"version":1,"broker":3,"block_start":"x","block_end":"9"}',
        b'{"version":1,"broker":3,"block_start":"9","block_end":"8"}',
        b'{"version":1,"broker":3,"block_start":"-1","block_end":"8"}',
        b'{"version":1,"broker":3,"block_start":"0","block_end":"9223372036854775808"}',
        b'{"version":1,"block_start":"0","block_end":"9"}',
    ],
)
def test_a_node_of_another_kind_is_named(client: KazooClient, data: bytes) -> None:
    client.set(PATH, data)
    with pytest.raises(InvalidBlockNode, match=f"^{PATH} holds .*: find out who wrote it"):
        ZooKeeperBlocks(client, checks_own_data=True).allocate(1)
    assert client.get(PATH)[0] == data


# one broker after the other


@FORMS
def test_blocks_follow_each_other(client: KazooClient, checks_own_data: bool) -> None:
    blocks = ZooKeeperBlocks(client, checks_own_data=checks_own_data)
    assert [blocks.allocate(broker) for broker in (1, 2, 1)] == [
        ProducerIdBlock(0, 1000),
        ProducerIdBlock(1000, 1000),
        ProducerIdBlock(2000, 1000),
    ]
    assert node(client) == (1, ProducerIdBlock(2000, 1000))
    assert client.get(PATH)[1].version == 3


def test_a_broker_takes_its_first_block_when_it_starts(client: KazooClient) -> None:
    blocks = ZooKeeperBlocks(client, checks_own_data=True)
    first, second = (ZooKeeperProducerIdManager(broker, blocks) for broker in (1, 2))
    assert node(client) == (2, ProducerIdBlock(1000, 1000))
    assert [first.generate() for _ in range(1000)] == [(ErrorCode.NONE, i) for i in range(1000)]
    assert second.generate() == (ErrorCode.NONE, 1000)
    assert client.get(PATH)[1].version == 2
    assert first.generate() == (ErrorCode.NONE, 2000)
    again = ZooKeeperProducerIdManager(1, blocks)
    assert again.generate() == (ErrorCode.NONE, 3000)


def test_the_node_is_created_once(client: KazooClient) -> None:
    client.delete(PATH)
    blocks = ZooKeeperBlocks(client, checks_own_data=False)
    blocks.create_node()
    assert blocks.allocate(1) == ProducerIdBlock(0, 1000)
    blocks.create_node()
    assert blocks.allocate(1) == ProducerIdBlock(1000, 1000)


def test_a_missing_node_is_waited_for_but_not_for_ever(
    client: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper, "ATTEMPT_LIMIT", 3)
    client.delete(PATH)
    with pytest.raises(BlockNotWritten, match=f"^{PATH} .* in 3 attempts: check that it exists"):
        ZooKeeperBlocks(client, checks_own_data=True).allocate(1)
    assert client.exists(PATH) is None


# races


@FORMS
def test_who_loses_the_race_takes_the_next_block(
    client: KazooClient, checks_own_data: bool
) -> None:
    wire = Wire(client, "other first", "other first")
    blocks = ZooKeeperBlocks(wire, checks_own_data=checks_own_data)
    assert blocks.allocate(1) == ProducerIdBlock(2000, 1000)
    assert wire.writes == 3


@FORMS
def test_brokers_that_race_never_get_the_same_block(
    hosts: str, client: KazooClient, checks_own_data: bool
) -> None:
    def run(broker: int) -> list[Any]:
        with zookeeper_server.connected(hosts) as own:
            blocks = ZooKeeperBlocks(own, checks_own_data=checks_own_data)
            return [blocks.allocate(broker) for _ in range(25)]

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(run, (1, 2))
    assert sorted(first + second) == [ProducerIdBlock(i * 1000, 1000) for i in range(50)]
    assert first == sorted(first)


def test_a_broker_never_takes_another_brokers_block_for_its_own(client: KazooClient) -> None:
    """Both wrote the same ids; the broker in the node tells whose they are."""
    wire = Wire(client, "other first")
    assert ZooKeeperBlocks(wire, checks_own_data=True).allocate(1) == ProducerIdBlock(1000, 1000)
    assert node(client) == (1, ProducerIdBlock(1000, 1000))


# broken connections


@pytest.mark.parametrize(("checks_own_data", "block"), [(True, 0), (False, 1)])
def test_a_lost_answer_wastes_a_block_unless_the_broker_looks(
    client: KazooClient, checks_own_data: bool, block: int
) -> None:
    wire = Wire(client, "answer lost")
    blocks = ZooKeeperBlocks(wire, checks_own_data=checks_own_data)
    assert blocks.allocate(1) == ProducerIdBlock(block * 1000, 1000)
    assert blocks.allocate(1) == ProducerIdBlock((block + 1) * 1000, 1000)


@FORMS
def test_a_lost_request_wastes_nothing(client: KazooClient, checks_own_data: bool) -> None:
    wire = Wire(client, "request lost")
    blocks = ZooKeeperBlocks(wire, checks_own_data=checks_own_data)
    assert blocks.allocate(1) == ProducerIdBlock(0, 1000)
    assert wire.writes == 2


def test_a_lost_answer_and_another_broker_behind_it_waste_a_block(client: KazooClient) -> None:
    wire = Wire(client, "answer lost", "other first")
    blocks = ZooKeeperBlocks(wire, checks_own_data=True)
    assert blocks.allocate(1) == ProducerIdBlock(2000, 1000)


@FORMS
def test_a_node_that_vanishes_begins_again(client: KazooClient, checks_own_data: bool) -> None:
    wire = Wire(client, "node vanishes")
    blocks = ZooKeeperBlocks(wire, checks_own_data=checks_own_data)
    with ThreadPoolExecutor(1) as pool:
        block = pool.submit(blocks.allocate, 1)
        while client.exists(PATH) and not block.done():
            pass
        client.create(PATH)
        assert block.result() == ProducerIdBlock(0, 1000)


def test_a_connection_that_never_comes_back_is_an_error(
    client: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper, "RESEND_LIMIT", 1)
    wire = Wire(client, *["request lost"] * 9)
    with pytest.raises(RetryFailedError):
        ZooKeeperBlocks(wire, checks_own_data=True).allocate(1)


def test_other_errors_are_the_callers(client: KazooClient) -> None:
    client.set_acls(PATH, [make_acl("world", "anyone", read=True, admin=True)])
    with pytest.raises(NoAuthError):
        ZooKeeperBlocks(client, checks_own_data=True).allocate(1)
    client.set_acls(PATH, OPEN_ACL_UNSAFE)


# the end of the ids


@FORMS
def test_near_2_to_the_63_there_is_no_further_block(
    client: KazooClient, checks_own_data: bool
) -> None:
    client.set(PATH, encode_node(1, LAST))
    blocks = ZooKeeperBlocks(client, checks_own_data=checks_own_data)
    last = ZooKeeperProducerIdManager(2, blocks)
    assert node(client) == (2, ProducerIdBlock(MAX_PRODUCER_ID - 999, 1000))
    ids = [last.generate() for _ in range(1000)]
    assert ids[-1] == (ErrorCode.NONE, MAX_PRODUCER_ID)
    assert last.generate() == (ErrorCode.UNKNOWN_SERVER_ERROR, -1)
    assert blocks.allocate(2) == ErrorCode.UNKNOWN_SERVER_ERROR
    with pytest.raises(ProducerIdsExhausted):
        ZooKeeperProducerIdManager(3, blocks)


def test_a_block_that_would_end_behind_2_to_the_63_is_not_begun(client: KazooClient) -> None:
    client.set(PATH, encode_node(1, LAST._replace(first_producer_id=LAST.first_producer_id + 1)))
    blocks = ZooKeeperBlocks(client, checks_own_data=False)
    assert blocks.allocate(2) == ErrorCode.UNKNOWN_SERVER_ERROR


# nodes and coordinators that take their ids from there


def producer_id(broker: Node) -> int:
    """What a new producer is given; a fresh node has to ask for its first block before."""
    body = {"transactional_id": None, "transaction_timeout_ms": 1}
    body |= {"producer_id": -1, "producer_epoch": -1}
    payload = encode_request(ApiKey.INIT_PRODUCER_ID, 5, 1, "test", body)
    for now_ms in (0, 100):
        answer = broker.handle(payload, now_ms)
        assert answer is not None
        told = decode_response(ApiKey.INIT_PRODUCER_ID, 5, answer)[1]
    assert told["error_code"] == ErrorCode.NONE
    return int(told["producer_id"])


def test_nodes_with_these_blocks_never_give_the_same_id(client: KazooClient) -> None:
    blocks = ZooKeeperBlocks(client, checks_own_data=False)
    first, second = (Node(NodeConfig(node_id=number), blocks=blocks) for number in (1, 2))
    assert [producer_id(first), producer_id(second), producer_id(first)] == [0, 1000, 2]
    assert node(client) == (2, ProducerIdBlock(1000, 1000))


def test_a_coordinator_of_2_8_takes_its_ids_itself(client: KazooClient) -> None:
    manager = ZooKeeperProducerIdManager(3, ZooKeeperBlocks(client, checks_own_data=True))
    coordinator = TransactionCoordinator(lambda now_ms: manager.generate())
    (answer,) = coordinator.init_producer_id("request", None, 1, None, now_ms=0)
    assert answer == SendAnswer("request", ErrorCode.NONE, ProducerIdAndEpoch(0, 0))


# the controller of 3.0 to 3.9 in ZooKeeper mode


def test_a_controller_takes_blocks_for_the_brokers_that_ask(client: KazooClient) -> None:
    blocks = ZooKeeperBlocks(client, checks_own_data=False)
    unregistered = ErrorCode.BROKER_ID_NOT_REGISTERED
    controller = ProducerIdController(blocks, unregistered=unregistered)
    assert controller.allocate(4, 1) == unregistered
    controller.register(4, 1)
    assert controller.allocate(4, 0) == ErrorCode.STALE_BROKER_EPOCH
    assert client.get(PATH)[0] == b""
    assert controller.allocate(4, 1) == ProducerIdBlock(0, 1000)
    assert node(client) == (4, ProducerIdBlock(0, 1000))
