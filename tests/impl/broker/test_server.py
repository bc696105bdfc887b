"""A node on a socket, met by the clients of other hands: aiokafka, librdkafka, the Java client."""

from __future__ import annotations

import asyncio
import gc
import shutil
import socket
import warnings
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from impl.broker.cluster import Cluster
from impl.broker.config import NodeConfig
from impl.broker.listeners import Answer, Handle
from impl.broker.node import Node
from impl.broker.producer_ids import BLOCK_SIZE
from impl.broker.server import Server
from impl.coordinator.config import TransactionConfig
from impl.partition.log_config import DEFAULT_CONFIG
from impl.protocol.messages import encode_request
from impl.protocol.primitives import frame
from impl.protocol.schemas import ApiKey
from tests.impl.protocol.kafka_clients import BEFORE_REMOVALS, NEWEST, jars

pytestmark = pytest.mark.slow  # clients of others, in processes of their own

SECONDS = 20


class RecordedRequests:
    """The requests that a server gets, by API and version: its `Intercept`."""

    def __init__(self) -> None:
        self._seen: set[tuple[int, int]] = set()

    def __call__(self, payload: bytes, handle: Handle) -> Answer:
        self._seen.add((int.from_bytes(payload[:2], "big"), int.from_bytes(payload[2:4], "big")))
        return handle(payload)

    def versions(self, api_key: ApiKey) -> set[int]:
        return {version for key, version in self._seen if key == api_key}


def server(level: int = 2, requests: RecordedRequests | None = None) -> Server:
    config = NodeConfig(
        host="127.0.0.1",
        port=0,
        num_partitions=2,
        transactions=TransactionConfig(transaction_version=level),
    )
    return Server(config, intercept=requests)


def committed_offset(running: Server, group: str = "g") -> int:
    """Of t-0."""
    offsets = running.node.coordinators.offsets
    row = offsets.fetch(group, [("t", 0)], require_stable=True).rows[0]
    assert not row.error
    return row.offset


def states(running: Server) -> dict[str, str]:
    views = running.node.coordinators.transactions.view().transactions
    return {view.transactional_id: view.image.state.title for view in views}


async def consumed(port: int, isolation: str, wanted: int) -> list[tuple[int, bytes]]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=f"127.0.0.1:{port}",
        isolation_level=isolation,
        auto_offset_reset="earliest",
        group_id=None,
    )
    await consumer.start()
    try:
        consumer.assign([TopicPartition("t", 0)])
        return [((row := await consumer.getone()).offset, row.value) for _ in range(wanted)]
    finally:
        await consumer.stop()


async def test_aiokafka_commits_aborts_and_reads() -> None:
    async with asyncio.timeout(SECONDS), server() as running:
        producer = AIOKafkaProducer(
            bootstrap_servers=f"127.0.0.1:{running.port}", transactional_id="T"
        )
        await producer.start()
        try:
            for number in range(3):
                async with producer.transaction():
                    await producer.send_and_wait("t", b"c%d" % number, partition=0)
                    offsets = {TopicPartition("t", 0): number + 1}
                    await producer.send_offsets_to_transaction(offsets, "g")
            await producer.begin_transaction()
            await producer.send_and_wait("t", b"aborted", partition=0)
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send_and_wait("t", b"last", partition=0)
        finally:
            await producer.stop()
        decided = [(0, b"c0"), (2, b"c1"), (4, b"c2"), (8, b"last")]
        assert await consumed(running.port, "read_committed", 4) == decided
        everything = [*decided[:3], (6, b"aborted"), decided[3]]
        assert await consumed(running.port, "read_uncommitted", 5) == everything
        assert committed_offset(running) == 3
        assert states(running) == {"T": "CompleteCommit"}


def _librdkafka(port: int) -> tuple[list[tuple[int, bytes]], int, str]:
    """What a committed reader sees, the offset that was committed, and how a zombie ends."""
    settings = {"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0}
    transactional = settings | {"transactional.id": "T"}
    producer = Producer(transactional)
    producer.init_transactions(SECONDS)
    reader = settings | {
        "group.id": "g",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }
    consumer = Consumer(reader)
    for number in range(3):
        producer.begin_transaction()
        producer.produce("t", b"c%d" % number, partition=0)
        rows = [Place("t", 0, number + 1)]
        producer.send_offsets_to_transaction(rows, consumer.consumer_group_metadata(), SECONDS)
        producer.commit_transaction(SECONDS)
    producer.begin_transaction()
    producer.produce("t", b"aborted", partition=0)
    producer.flush(SECONDS)
    producer.abort_transaction(SECONDS)
    producer.begin_transaction()
    producer.produce("t", b"last", partition=0)
    producer.commit_transaction(SECONDS)
    offset = consumer.committed([Place("t", 0)], SECONDS)[0].offset
    consumer.assign([Place("t", 0, 0)])
    messages = [consumer.poll(SECONDS) for _ in range(4)]
    seen = [(message.offset(), message.value()) for message in messages]
    consumer.close()
    producer.begin_transaction()
    producer.produce("t", b"zombie", partition=0)
    producer.flush(SECONDS)
    Producer(transactional).init_transactions(SECONDS)
    with pytest.raises(KafkaException) as caught:
        producer.commit_transaction(SECONDS)
    return seen, offset, caught.value.args[0].name()


async def test_librdkafka_commits_aborts_reads_and_is_fenced() -> None:
    async with asyncio.timeout(SECONDS), server() as running:
        seen, offset, zombie = await asyncio.to_thread(_librdkafka, running.port)
        assert seen == [(0, b"c0"), (2, b"c1"), (4, b"c2"), (8, b"last")]
        assert (offset, zombie) == (3, "_FENCED")


def _listed(port: int) -> set[str]:
    return set(
        AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}).list_topics(timeout=5).topics
    )


async def test_librdkafka_lists_all_topics() -> None:
    """Its request has three bytes behind its last field."""
    async with asyncio.timeout(SECONDS), server() as running:
        running.node.topics.create("t", 1, {})
        assert await asyncio.to_thread(_listed, running.port) == {"t"}


@pytest.mark.parametrize(
    ("release", "level", "end_txn", "epoch"),
    [
        (NEWEST, 2, 5, 7),
        pytest.param(NEWEST, 1, 4, 2, marks=pytest.mark.full),
        (NEWEST, 0, 4, 2),
        pytest.param(BEFORE_REMOVALS, 2, 4, 2, marks=pytest.mark.full),
    ],
)
async def test_the_java_client_speaks_v2_where_the_level_says_so(
    release: str, level: int, end_txn: int, epoch: int
) -> None:
    """Each of five V2 ends bumps the epoch; the fence does, and the InitProducerId after it.

    An abort of nothing is not even sent.
    """
    java = shutil.which("java")
    if java is None:
        pytest.skip("Java is not installed")
    program = Path(__file__).with_name("Transactions.java")
    requests = RecordedRequests()
    async with asyncio.timeout(5 * SECONDS), server(level, requests) as running:
        process = await asyncio.create_subprocess_exec(
            java,
            "-cp",
            f"{jars(release)}/*",
            str(program),
            f"127.0.0.1:{running.port}",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        printed, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()[-2000:]
        assert printed.decode().splitlines() == [
            "committed [0:c0, 2:c1, 4:c2, 8:last]",
            "all [0:c0, 2:c1, 4:c2, 6:aborted, 8:last]",
            "zombie ProducerFencedException",
        ]
        assert requests.versions(ApiKey.END_TXN) == {end_txn}
        assert bool(requests.versions(ApiKey.ADD_PARTITIONS_TO_TXN)) == (end_txn < 5)
        (view,) = running.node.coordinators.transactions.view().transactions
        assert view.image.producer_epoch == epoch
        assert committed_offset(running) == 3


async def test_two_servers_share_a_transaction() -> None:
    """The coordinator on one, partitions on both; markers and questions cross a socket."""
    cluster = Cluster("two", DEFAULT_CONFIG)
    first = NodeConfig(node_id=1, host="127.0.0.1", port=0, num_partitions=2)
    second = NodeConfig(node_id=2, host="127.0.0.1", port=0, num_partitions=2)

    of_first, of_second = RecordedRequests(), RecordedRequests()

    def node(config: NodeConfig) -> Node:
        return Node(config, cluster=cluster)

    async with (
        asyncio.timeout(SECONDS),
        Server(first, make_node=node, intercept=of_first) as one,
        Server(second, make_node=node, intercept=of_second) as two,
    ):
        producer = AIOKafkaProducer(bootstrap_servers=f"127.0.0.1:{one.port}", transactional_id="T")
        await producer.start()
        try:
            for commit in (True, False, True):
                await producer.begin_transaction()
                for partition in (0, 1):
                    value = b"yes" if commit else b"no"
                    await producer.send_and_wait("t", value, partition=partition)
                await (producer.commit_transaction() if commit else producer.abort_transaction())
        finally:
            await producer.stop()
        topic = cluster.topics.get("t")
        assert topic is not None
        assert topic.leader_ids == (1, 2)
        seen = await consumed(two.port, "read_committed", 2)
        assert [value for _, value in seen] == [b"yes", b"yes"]
        assert of_second.versions(ApiKey.WRITE_TXN_MARKERS) == {2}
        assert 5 in of_first.versions(ApiKey.ADD_PARTITIONS_TO_TXN)


async def test_a_broken_link_between_servers_mends() -> None:
    """The second server is not there when the marker is sent first."""
    cluster = Cluster("two", DEFAULT_CONFIG)

    def node(config: NodeConfig) -> Node:
        return Node(config, cluster=cluster)

    second = NodeConfig(node_id=2, host="127.0.0.1", port=0)
    async with (
        asyncio.timeout(SECONDS),
        Server(NodeConfig(node_id=1, host="127.0.0.1", port=0), make_node=node) as one,
    ):
        async with Server(second, make_node=node) as two:
            port = two.port
            cluster.topics.create("t", 1, {}, replicas=[[2]])
            producer = AIOKafkaProducer(
                bootstrap_servers=f"127.0.0.1:{one.port}", transactional_id="T"
            )
            await producer.start()
            await producer.begin_transaction()
            await producer.send_and_wait("t", b"v", partition=0)
        await producer.commit_transaction()
        await producer.stop()
        await asyncio.sleep(0.3)
        assert states(one) == {"T": "PrepareCommit"}
        again = NodeConfig(node_id=2, host="127.0.0.1", port=port)
        async with Server(again, make_node=node):
            while states(one) != {"T": "CompleteCommit"}:
                await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("noise", "cause"),
    [
        (b"\xff\xff\xff\xff", "a frame announces -1 bytes"),
        (b"\0\0\0\4abcd", "a request header has at least 8 bytes"),
        (frame(b"\0\0\0\0\0\0\0"), "a request header has at least 8 bytes"),
        (frame(b"\x03\xe7" + bytes(8)), "api key 999"),
    ],
)
async def test_noise_closes_its_connection_and_no_other(
    noise: bytes, cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.timeout(SECONDS), server() as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        body = {"client_software_name": "c", "client_software_version": "1"}
        writer.write(frame(encode_request(ApiKey.API_VERSIONS, 3, 1, "c", body)))
        assert int.from_bytes((await reader.read(1 << 16))[4:8], "big") == 1
        bad_reader, bad_writer = await asyncio.open_connection("127.0.0.1", running.port)
        bad_writer.write(noise)
        assert await bad_reader.read() == b""
        address = "{}:{}".format(*bad_writer.get_extra_info("sockname"))
        (logged,) = caplog.messages
        assert f"closes the connection from {address}: {cause}" in logged
        bad_writer.close()
        writer.write(frame(encode_request(ApiKey.API_VERSIONS, 3, 2, "c", body)))
        assert int.from_bytes((await reader.read(1 << 16))[4:8], "big") == 2
        writer.close()


@pytest.mark.parametrize("turns", range(6))
def test_a_server_that_stops_closes_what_it_has_just_accepted(turns: int) -> None:
    """A client connects while the server stops: nothing is left open for the collector."""

    async def connects() -> None:
        async with server() as running:
            with socket.create_connection(("127.0.0.1", running.port)):
                for _ in range(turns):
                    await asyncio.sleep(0)

    gc.freeze()  # what other tests have left is none of this one, and takes seconds to look through
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            asyncio.run(connects())
            gc.collect()
    finally:
        gc.unfreeze()
    assert [str(row.message) for row in caught] == []


async def test_a_restarted_server_allocates_other_producer_ids() -> None:
    async def allocated(port: int) -> tuple[int, int]:
        async with Server(NodeConfig(host="127.0.0.1", port=port)) as running:
            producer = AIOKafkaProducer(
                bootstrap_servers=f"127.0.0.1:{running.port}", enable_idempotence=True
            )
            await producer.start()
            await producer.send_and_wait("t", b"v")
            await producer.stop()
            (producer_id,) = running.node.topics.get("t").partitions[0].producers  # type: ignore[union-attr]
            return producer_id, running.port

    async with asyncio.timeout(SECONDS):
        first, port = await allocated(0)
        second, _ = await allocated(port)
    assert second > first + BLOCK_SIZE


async def test_a_node_that_breaks_is_not_passed_over() -> None:
    def broken_clock_ms() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        async with Server(make_node=Node, clock_ms=broken_clock_ms):
            await asyncio.sleep(0.01)
