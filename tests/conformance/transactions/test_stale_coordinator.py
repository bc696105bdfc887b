"""A leader that asks one who coordinates no more: what brokers of each release made of it."""

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from kio.schema.alter_partition_reassignments.v0.request import (
    AlterPartitionReassignmentsRequest,
)
from kio.schema.request_header.v2.header import RequestHeader
from kio.serial import entity_reader

from conformance.__main__ import main
from conformance.kafka.elections import order_replicas
from conformance.kafka.errors import RequestRefused
from conformance.kafka.metadata_proxy import MetadataProxy, client_id, through
from conformance.kafka.ports import free_ports
from conformance.kafka.recipe import HOST, Node
from conformance.kafka.releases import find_release
from conformance.transactions.stale_coordinator import (
    ARRIVED,
    ENDED,
    SHAPES,
    WATCHED,
    Seen,
    broken,
)
from conformance.transactions.stale_coordinator_verb import TIMES
from conformance.transactions.stale_targets import Look, Offsets, Records
from impl.protocol.messages import encode_request
from impl.protocol.primitives import frame
from impl.protocol.schemas import ApiKey

RECORDED = Path(__file__).parent / "recorded"
VERIFYING = [(release, "v1") for release in ("4.3.1", "4.2.1", "4.1.2", "4.0.2", "3.9.2")]
BY_EPOCH = [(release, "v2") for release in ("4.3.1", "4.2.1", "4.1.2", "4.0.2")]
ALL = VERIFYING + BY_EPOCH

BELIEVED = {"both_deaf", "both_deaf_init", "former_lost", "offsets_both_deaf"}
"""The leader asks one who was the coordinator, and that one still takes itself for it."""
BROKEN = {
    Records: ["no_write_outside", "last_stable_offset_moves", "no_aborted_read"],
    Offsets: ["no_write_outside", "last_stable_offset_moves", "offsets_with_outcome"],
}
TO = {shape.name: shape.to for shape in SHAPES}
LATE = {Records: "Produce 'late' arrives", Offsets: "TxnOffsetCommit 'late' arrives"}
STORED = {Records: "NONE at offset 2", Offsets: "NONE"}


def recorded(release: str, requests: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(
        (RECORDED / f"stale-coordinator-{release}-{requests}.json").read_text()
    )
    return value


def rows(release: str, requests: str) -> dict[str, Any]:
    """What was seen of each shape, each time alike."""
    report = recorded(release, requests)
    found = {row["name"]: row for row in report["shapes"]}
    assert len(found) == len(report["shapes"])
    return found


def seen(row: dict[str, Any]) -> dict[str, Seen]:
    return {
        moment: Seen(
            one["state"], Look(**{name: frozen(value) for name, value in one["target"].items()})
        )
        for moment, one in row["seen"].items()
    }


def frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def answers(row: dict[str, Any]) -> dict[tuple[str, str], str]:
    """Whom what was asked, and what came back."""
    return {(told["connection"], told["request"]): told["answer"] for told in row["told"]}


def late(row: dict[str, Any]) -> str:
    return answers(row)["leader", LATE[TO[row["name"]]]]


@pytest.mark.parametrize(("release", "requests"), ALL)
def test_all_shapes_were_told_three_times_alike(release: str, requests: str) -> None:
    report = recorded(release, requests)
    assert (report["release"], report["requests"], report["failed"]) == (release, requests, "")
    assert [row["name"] for row in report["shapes"]] == [shape.name for shape in SHAPES]
    assert {row["times"] for row in report["shapes"]} == {TIMES}
    for row in report["shapes"]:
        assert list(broken(seen(row), TO[row["name"]] is Offsets)) == row["broken"]
        assert row["verdict"] == ("violated" if row["broken"] else "holds")


@pytest.mark.parametrize(("release", "requests"), ALL)
def test_who_was_deaf_or_lost_had_not_heard(release: str, requests: str) -> None:
    for row in rows(release, requests).values():
        told = answers(row)
        behind = row["deaf"] + row["lost"]
        for role in ("former", "leader"):
            found = told[role, "FindCoordinator"]
            assert found == ("former" if role in behind else "coordinator")
        is_open = told["former", "DescribeTransactions"].startswith("Ongoing")
        assert is_open == ("former" in behind)
        assert told["coordinator", "EndTxn(abort)"].startswith("NONE")
        assert seen(row)[ARRIVED].target.log[1].endswith("!ABORT")


@pytest.mark.parametrize(("release", "requests"), VERIFYING)
def test_v1_a_former_coordinator_is_believed(release: str, requests: str) -> None:
    """The leader asks it only if it has not heard, and it says yes only if it has not."""
    found = rows(release, requests)
    for name, row in found.items():
        to, watched = TO[name], seen(row)[WATCHED]
        assert row["broken"] == (BROKEN[to] if name in BELIEVED else [])
        assert (late(row) == STORED[to]) == (name in BELIEVED)
        assert watched.state == "CompleteAbort P:0"
        assert watched.target.is_stable == (name not in BELIEVED)
        more = ("P:0=late",) if name in BELIEVED else ()
        assert watched.target.log == ("P:0=first", "P:0!ABORT", *more)
    assert seen(found["both_deaf"])[WATCHED].target.told == "last stable offset 2 of 3"
    assert late(found["leader_deaf"]) == "NOT_ENOUGH_REPLICAS"


@pytest.mark.parametrize(("release", "requests"), BY_EPOCH)
def test_v2_the_epoch_of_the_marker_needs_nobody(release: str, requests: str) -> None:
    for name, row in rows(release, requests).items():
        asks = (release, name) == ("4.0.2", "leader_deaf")  # about an epoch that is too old, too
        assert late(row) == ("NOT_ENOUGH_REPLICAS" if asks else "INVALID_PRODUCER_EPOCH")
        assert row["broken"] == []
        assert seen(row)[ENDED].target.committed == ("next",)


KEPT = {
    moment: Seen(state, Look(("P:0=first", "P:0!ABORT", *more), True, "", committed))
    for moment, state, more, committed in (
        (ARRIVED, "CompleteAbort P:0", (), ()),
        (WATCHED, "CompleteAbort P:0", (), ()),
        (ENDED, "CompleteCommit P:0", ("P:0=next", "P:0!COMMIT"), ("next",)),
    )
}


@pytest.mark.parametrize("of_offsets", [False, True])
@pytest.mark.parametrize(
    ("moment", "change", "expected"),
    [
        (ARRIVED, {}, None),
        (ARRIVED, {"log": ("P:0=first", "P:0!ABORT", "P:0=late")}, "no_write_outside"),
        (ARRIVED, {"log": ("P:0=first", "P:0=late")}, None),
        (WATCHED, {"is_stable": False}, "last_stable_offset_moves"),
        (ENDED, {"committed": ("late", "next")}, ("no_aborted_read", "offsets_with_outcome")),
        (ENDED, {"committed": ("first", "next")}, ("no_aborted_read", "offsets_with_outcome")),
        (ENDED, {"committed": ()}, "no_lost_write"),
    ],
)
def test_what_is_read_back_decides(
    moment: str, change: dict[str, Any], expected: Any, of_offsets: bool
) -> None:
    here = KEPT[moment]
    changed = replace(here, target=replace(here.target, **change))
    name = expected[of_offsets] if isinstance(expected, tuple) else expected
    assert broken({**KEPT, moment: changed}, of_offsets) == ((name,) if name else ())


def test_readers_may_wait_for_what_is_not_complete() -> None:
    here = KEPT[WATCHED]
    waiting = replace(here, state="Ongoing P:0", target=replace(here.target, is_stable=False))
    assert broken({**KEPT, WATCHED: waiting}, False) == ()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--kafka", "1.2.3"], "4.3.1, 4.2.1"),
        (["--requests", "v3"], "v1, v2"),
        (["--only", "nothing"], "both_deaf"),
        (["--times", "0"], "at least 1"),
        (["--watch-s", "-1"], "not negative"),
    ],
)
def test_bad_use_is_named(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stale-coordinator", *arguments]) == 2
    assert named in capsys.readouterr().err


# The network


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
    first, second = Node(1, 21, 22), Node(2, 23, 24)
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
