"""What a judge does around its traces, against brokers that are scripted here."""

import shutil
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from conformance.adapters.brokers.kafka import cluster as clusters
from conformance.adapters.brokers.kafka.admin import (
    PartitionLeadership,
    create_topic,
    leaders,
    log_start_offsets,
)
from conformance.adapters.brokers.kafka.administration import (
    elect_preferred,
    set_config,
    unregister,
)
from conformance.adapters.brokers.kafka.cluster import KafkaCluster
from conformance.adapters.brokers.kafka.connection import BrokerConnection
from conformance.adapters.brokers.kafka.errors import BrokerFailed, RequestRefused
from impl.protocol.errors import ErrorCode
from impl.protocol.messages import decode_request, encode_response
from impl.protocol.primitives import frame, take_frames
from impl.protocol.schemas import ApiKey

pytestmark = pytest.mark.fast

NOT_CONTROLLER = 41
Handle = Callable[[bytes], bytes]


@dataclass
class Scripted:
    """A broker that answers each request as `handle` says, on any number of connections."""

    handle: Handle
    threads: list[threading.Thread] = field(default_factory=list)
    peers: list[socket.socket] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self.server.getsockname()
        self.begin(self.accept)

    def begin(self, work: Callable[..., None], *given: Any) -> None:
        self.threads.append(threading.Thread(target=work, args=given, daemon=True))
        self.threads[-1].start()

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                self.peers.append(self.server.accept()[0])
                self.begin(self.answer, self.peers[-1])

    def answer(self, peer: socket.socket) -> None:
        unfinished = bytearray()
        with peer, suppress(OSError):
            while chunk := peer.recv(1 << 16):
                unfinished += chunk
                for payload in take_frames(unfinished):
                    peer.sendall(frame(self.handle(payload)))

    def close(self) -> None:
        with suppress(OSError):
            self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        for peer in self.peers:
            with suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(5)


@pytest.fixture
def scripted() -> Iterator[Callable[[Handle], Scripted]]:
    brokers: list[Scripted] = []

    def start(handle: Handle) -> Scripted:
        brokers.append(Scripted(handle))
        return brokers[-1]

    yield start
    for broker in brokers:
        broker.close()


def by_api(bodies: dict[int, Callable[[Any], Any]]) -> Handle:
    """Answers each API with the body that a function makes of the request's."""

    def handle(payload: bytes) -> bytes:
        header, body = decode_request(payload)
        key, version = header["api_key"], header["api_version"]
        return encode_response(key, version, header["correlation_id"], bodies[key](body))

    return handle


def created(error: int) -> Callable[[Any], Any]:
    return lambda body: {
        "topics": [{"name": t["name"], "error_code": error} for t in body["topics"]]
    }


def leads(body: Any) -> Any:
    """Every partition is led: a batch with a wrong checksum is refused as corrupt."""
    rows = [
        {
            "name": topic["name"],
            "partitions": [
                {"index": p["index"], "error_code": ErrorCode.CORRUPT_MESSAGE, "base_offset": -1}
                for p in topic["partitions"]
            ],
        }
        for topic in body["topics"]
    ]
    return {"topics": rows}


def metadata(controller: tuple[str, int], partitions: list[Any]) -> Callable[[Any], Any]:
    host, port = controller
    topic = {"error_code": 0, "name": "t", "partitions": partitions}
    return lambda _: {
        "brokers": [{"node_id": 7, "host": host, "port": port}],
        "controller_id": 7,
        "topics": [topic],
    }


def partition(index: int, leader: int, *in_sync: int) -> dict[str, Any]:
    return {
        "error_code": 0,
        "partition_index": index,
        "leader_id": leader,
        "replica_nodes": [1, 2],
        "isr_nodes": list(in_sync),
    }


def test_a_topic_is_created_at_the_controller(scripted):
    asked: list[Any] = []
    controller = scripted(
        by_api({ApiKey.CREATE_TOPICS: lambda body: asked.append(body) or created(0)(body)})
    )
    other = scripted(
        by_api(
            {
                ApiKey.CREATE_TOPICS: created(NOT_CONTROLLER),
                ApiKey.METADATA: metadata(controller.address, []),
                ApiKey.PRODUCE: leads,
            }
        )
    )
    with BrokerConnection(*other.address) as connection:
        create_topic(connection, "t", 2, replicas=(2, 1), configs={"a": "b"})
    [topic] = asked[0]["topics"]
    assert [row["broker_ids"] for row in topic["assignments"]] == [[2, 1], [2, 1]]
    assert (topic["num_partitions"], topic["replication_factor"]) == (-1, -1)
    assert topic["configs"] == [{"name": "a", "value": "b"}]


def test_a_topic_that_nobody_creates_is_refused(scripted):
    refuses = scripted(by_api({ApiKey.CREATE_TOPICS: created(ErrorCode.INVALID_CONFIG)}))
    with BrokerConnection(*refuses.address) as connection, pytest.raises(RequestRefused):
        create_topic(connection, "t", 2)


def test_logs_are_asked_where_they_start(scripted):
    def offsets(body: Any) -> Any:
        return {
            "topics": [
                {
                    "name": topic["name"],
                    "partitions": [
                        {"partition_index": p["partition_index"], "error_code": 0, "offset": 9}
                        for p in topic["partitions"]
                        if p["timestamp"] == -2
                    ],
                }
                for topic in body["topics"]
            ]
        }

    broker = scripted(by_api({ApiKey.LIST_OFFSETS: offsets}))
    with BrokerConnection(*broker.address) as connection:
        assert log_start_offsets(connection, [("t", 0), ("t", 3)]) == {("t", 0): 9, ("t", 3): 9}


# Configs


def test_a_config_is_set_in_the_bytes_of_its_first_version(scripted):
    heard: list[bytes] = []

    def handle(payload: bytes) -> bytes:
        heard.append(payload)
        return payload[4:8] + struct.pack(">iihhbh", 0, 1, 0, -1, 4, 1) + b"1"

    with BrokerConnection(*scripted(handle).address) as connection:
        set_config(connection, 1, "some.name", "20")
    header = bytes.fromhex("002c 0000 00000000 0009") + b"kafka-eos"
    resource = bytes.fromhex("00000001 04 0001") + b"1"
    config = bytes.fromhex("00000001 0009") + b"some.name" + bytes.fromhex("00 0002") + b"20"
    assert heard == [header + resource + config + b"\0"]


def test_a_config_that_is_refused_is_named(scripted):
    answer = struct.pack(">iihhbh", 0, 1, 40, -1, 4, 1) + b"1"
    with (
        BrokerConnection(*scripted(lambda asked: asked[4:8] + answer).address) as connection,
        pytest.raises(RequestRefused, match=r"name=20 at broker 1: error 40"),
    ):
        set_config(connection, 1, "name", "20")


# Who leads


def elected(whole: int, *, of_partition: int | None = None) -> bytes:
    """What ElectLeaders answers, with an error for the whole and one for a partition of `t`."""
    head = struct.pack(">iih", -1, 0, whole)
    if of_partition is None:
        return head + struct.pack(">i", 0)
    one = struct.pack(">ih", 3, of_partition) + struct.pack(">h", -1)
    return head + struct.pack(">ih", 1, 1) + b"t" + struct.pack(">i", 1) + one


def test_a_leader_is_elected_in_the_bytes_of_version_1(scripted):
    heard: list[bytes] = []

    def handle(payload: bytes) -> bytes:
        heard.append(payload)
        return elected(0, of_partition=0)

    with BrokerConnection(*scripted(handle).address) as connection:
        elect_preferred(connection, ("t", 3))
    header = bytes.fromhex("002b 0001 ffffffff 0009") + b"kafka-eos"
    topic = bytes.fromhex("00 00000001 0001") + b"t" + bytes.fromhex("00000001 00000003")
    assert heard == [header + topic + bytes.fromhex("00002710")]


@pytest.mark.parametrize("answer", [elected(41), elected(0, of_partition=80)])
def test_an_election_that_is_refused_is_named(scripted, answer):
    with (
        BrokerConnection(*scripted(lambda _: answer).address) as connection,
        pytest.raises(RequestRefused, match=r"election of t-3: error (41|80)"),
    ):
        elect_preferred(connection, ("t", 3))


def test_an_election_that_nothing_is_said_of_was_held(scripted):
    heard: list[bytes] = []

    def handle(payload: bytes) -> bytes:
        heard.append(payload)
        return elected(0)

    with BrokerConnection(*scripted(handle).address) as connection:
        elect_preferred(connection, ("t", 3))
    assert len(heard) == 1, "it was asked for once, and nothing was raised"


@pytest.mark.parametrize("error", [0, 102])
def test_a_broker_is_forgotten_in_the_bytes_of_version_0(scripted, error):
    heard: list[bytes] = []

    def handle(payload: bytes) -> bytes:
        heard.append(payload)
        return struct.pack(">ibihbb", -1, 0, 0, error, 0, 0)

    with BrokerConnection(*scripted(handle).address) as connection:
        if error:
            with pytest.raises(RequestRefused, match="broker 2 cannot be forgotten: error 102"):
                unregister(connection, 2)
        else:
            unregister(connection, 2)
    header = bytes.fromhex("0040 0000 ffffffff 0009") + b"kafka-eos" + b"\0"
    assert heard == [header + bytes.fromhex("00000002 00")]


# Clusters


@pytest.fixture
def cluster(scripted, monkeypatch) -> Iterator[Callable[[list[Any]], KafkaCluster]]:
    made: list[KafkaCluster] = []

    def of(partitions: list[Any]) -> KafkaCluster:
        broker = scripted(by_api({ApiKey.METADATA: metadata(("h", 1), partitions)}))
        made.append(KafkaCluster("4.3.1"))
        monkeypatch.setattr(
            type(made[-1].brokers[2]), "connect", lambda _: BrokerConnection(*broker.address)
        )
        return made[-1]

    monkeypatch.setattr(clusters, "SETTLE_TIMEOUT_S", 0.3)
    yield of
    for one in made:
        one.close()
        shutil.rmtree(one.folder)


def test_a_leader_leads_once_it_leads_all(cluster):
    cluster([partition(0, 2, 2), partition(1, 2, 2, 1)]).await_leader(2, 2)
    with pytest.raises(BrokerFailed, match="did not settle"):
        cluster([partition(0, 2, 2), partition(1, 3, 3)]).await_leader(2, 2)


def test_replicas_are_in_sync_once_all_are(cluster):
    cluster([partition(0, 2, 2, 1), partition(1, 2, 1, 2)]).await_in_sync(2)
    with pytest.raises(BrokerFailed, match="did not settle"):
        cluster([partition(0, 2, 2), partition(1, 2, 2)]).await_in_sync(2)


def test_leaders_are_read_with_who_is_in_sync(scripted):
    broker = scripted(by_api({ApiKey.METADATA: metadata(("h", 1), [partition(0, 2, 2, 1)])}))
    with BrokerConnection(*broker.address) as connection:
        assert leaders(connection) == {
            ("t", 0): PartitionLeadership(2, frozenset((2, 1)), frozenset((1, 2)))
        }
