"""The network to the controller that can be held, and who leads, decided at once."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from kio.schema.alter_partition_reassignments.v0.request import (
    AlterPartitionReassignmentsRequest,
)
from kio.schema.request_header.v2.header import RequestHeader
from kio.serial import entity_reader

from conformance.adapters.brokers.kafka.administration import order_replicas
from conformance.adapters.brokers.kafka.errors import RequestRefused
from conformance.adapters.brokers.kafka.metadata_proxy import MetadataProxy, client_id, through
from conformance.adapters.brokers.kafka.ports import free_ports
from conformance.adapters.brokers.kafka.recipe import HOST, BrokerNode
from conformance.adapters.brokers.kafka.releases import find_release
from impl.protocol.messages import encode_request
from impl.protocol.primitives import frame
from impl.protocol.schemas import ApiKey


def request(who: str) -> bytes:
    """A request that a broker sends under a name."""
    return encode_request(ApiKey.API_VERSIONS, 0, 7, who, {})


@dataclass
class Controller:
    """Answers each chunk with itself once it may, on any number of connections."""

    server: socket.socket
    heard: list[bytes] = field(default_factory=list)
    may_answer: threading.Event = field(default_factory=threading.Event)
    hears: threading.Event = field(default_factory=threading.Event)

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                peer = self.server.accept()[0]
                threading.Thread(target=self.echo, args=(peer,), daemon=True).start()

    def echo(self, peer: socket.socket) -> None:
        with peer, suppress(OSError):
            while chunk := peer.recv(1 << 16):
                self.heard.append(chunk)
                self.hears.set()
                self.may_answer.wait(LONG_S)
                peer.sendall(chunk)


@contextmanager
def controlled() -> Iterator[tuple[MetadataProxy, Controller]]:
    [port] = free_ports(1)
    with socket.create_server((HOST, 0)) as server:
        controller = Controller(server)
        controller.may_answer.set()
        threading.Thread(target=controller.accept, daemon=True).start()
        with MetadataProxy(port, server.getsockname()[1]) as proxy:
            yield proxy, controller
        server.shutdown(socket.SHUT_RDWR)


def comes_back(proxy: MetadataProxy, who: str, timeout_s: float) -> bool:
    """Whether a request on a connection of its own is answered."""
    with socket.create_connection(proxy.server_address, timeout_s) as connection:
        connection.sendall(frame(request(who)))
        return answered(connection, who)


def answered(connection: socket.socket, who: str) -> bool:
    try:
        return connection.recv(1 << 16) == frame(request(who))
    except TimeoutError:
        return False


GLANCE_S, LONG_S = 0.1, 20.0


@pytest.mark.parametrize(
    ("held", "passing", "waiting"),
    [
        ({}, ["raft-client-2", "raft-client-3", "2", "3"], []),
        ({"deaf": (2,)}, ["raft-client-3", "2", "3"], ["raft-client-2"]),
        ({"lost": (2,)}, ["raft-client-3", "3"], ["raft-client-2", "2"]),
        ({"deaf": (3,), "lost": (2,)}, ["3"], ["raft-client-2", "2", "raft-client-3"]),
    ],
)
def test_news_is_held_of_the_deaf_and_all_of_the_lost(
    held: dict[str, tuple[int, ...]], passing: list[str], waiting: list[str]
) -> None:
    with controlled() as (proxy, controller):
        proxy.hold(**held)
        assert all(comes_back(proxy, who, LONG_S) for who in passing)
        assert not any(comes_back(proxy, who, GLANCE_S) for who in waiting)
        assert controller.heard == [frame(request(who)) for who in passing]


def test_what_was_held_arrives_once() -> None:
    who = "raft-client-2"
    with (
        controlled() as (proxy, _),
        socket.create_connection(proxy.server_address, LONG_S) as connection,
    ):
        proxy.hold(deaf=[2])
        connection.sendall(frame(request(who)))
        connection.settimeout(GLANCE_S)
        assert not answered(connection, who)
        proxy.hold()
        connection.settimeout(LONG_S)
        assert answered(connection, who)
        connection.settimeout(GLANCE_S)
        assert not answered(connection, who)


def test_an_answer_that_is_under_way_is_held() -> None:
    who = "raft-client-2"
    with (
        controlled() as (proxy, controller),
        socket.create_connection(proxy.server_address, GLANCE_S) as connection,
    ):
        controller.may_answer.clear()
        connection.sendall(frame(request(who)))
        assert controller.hears.wait(LONG_S)
        proxy.hold(deaf=[2])
        controller.may_answer.set()
        assert not answered(connection, who)
        proxy.hold()
        connection.settimeout(LONG_S)
        assert answered(connection, who)


@pytest.mark.parametrize("who", ["raft-client-2", "", "2"])
def test_a_request_says_who_sends_it(who: str) -> None:
    assert client_id(request(who)) == who


def test_a_request_without_a_name_is_nobodys() -> None:
    assert client_id(encode_request(ApiKey.API_VERSIONS, 0, 7, None, {})) == ""


@pytest.mark.parametrize(
    ("release", "is_told"), [("3.3.2", False), ("3.9.2", True), ("4.3.1", True)]
)
def test_brokers_reach_the_controller_by_one_port_only(release: str, is_told: bool) -> None:
    first, second = BrokerNode(1, 21, 22), BrokerNode(2, 23, 24)
    assert through(9, 1, find_release(release), second) == {
        "controller.quorum.voters": f"1@{HOST}:9"
    }
    told = {"advertised.listeners": f"PLAINTEXT://{HOST}:21,CONTROLLER://{HOST}:9"}
    assert through(9, 1, find_release(release), first) == (told if is_told else {})


class Answering:
    """A connection to a controller that refuses, or does not."""

    def __init__(self, whole: int, of_partition: int) -> None:
        self._answer = struct.pack(">ibihbb", -1, 0, 0, whole, 0, 2) + b"\x02t\x02"
        self._answer += struct.pack(">ihbbbb", 3, of_partition, 0, 0, 0, 0)
        self.heard = b""

    def ask_bytes(self, payload: bytes) -> bytes:
        self.heard = payload
        return self._answer


def test_replicas_are_put_in_order_in_the_bytes_of_version_0() -> None:
    connection: Any = Answering(0, 0)
    order_replicas(connection, ("t", 3), (1, 2))
    header, size = entity_reader(RequestHeader)(connection.heard, 0)
    assert (header.request_api_key, header.request_api_version) == (45, 0)
    body, rest = entity_reader(AlterPartitionReassignmentsRequest)(connection.heard, size)
    assert size + rest == len(connection.heard)
    [topic] = body.topics
    [partition] = topic.partitions
    assert (topic.name, partition.partition_index, partition.replicas) == ("t", 3, (1, 2))


@pytest.mark.parametrize(("whole", "of_partition"), [(41, 0), (0, 39)])
def test_an_order_that_is_refused_is_named(whole: int, of_partition: int) -> None:
    connection: Any = Answering(whole, of_partition)
    with pytest.raises(RequestRefused, match=rf"order of t-3: error {whole or of_partition}"):
        order_replicas(connection, ("t", 3), (1, 2))
