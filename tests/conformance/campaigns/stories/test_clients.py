"""Stories with a Java client: what clients of each release did, and what the network does."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread

import pytest

from conformance.__main__ import main
from conformance.adapters.brokers.kafka.recipe import HOST
from conformance.campaigns.stories.network import ClientBatch, ClientNetwork
from conformance.campaigns.stories.player import rehearse
from conformance.campaigns.stories.report import broken_by
from conformance.campaigns.stories.story import stories
from impl.protocol.errors import ErrorCode
from impl.protocol.messages import decode_request, decode_response, encode_request, encode_response
from impl.protocol.primitives import frame, take_frames
from impl.protocol.record_batch import Record, client_batch, encode_batch
from impl.protocol.schemas import ApiKey
from tests.sizes import sized

BREAKS = {
    "forgotten_id": ("acked_is_stored", {"2.0.0"}),
    "late_error_behind_a_refusal": ("acked_once", {"4.3.1"}),
    "refused_retry_of_a_client_before": ("acked_is_stored", {"2.4.1", "4.3.1 level-1"}),
    "refused_retry_of_a_client_after": ("acked_is_stored", set[str]()),
}
"""Stories of clients that were recorded: the guarantee that each is about, and who breaks it."""
RECORDED = {
    (story, releases): facts
    for story in BREAKS
    for releases, facts in json.loads(
        (Path(__file__).parent / "recorded" / f"{story}.json").read_text()
    ).items()
}
"""The facts by the releases of the client and of the broker, and its level if that is not 2."""


@pytest.mark.parametrize(("story", "releases"), RECORDED)
def test_what_was_recorded_of_clients_is_expected(story: str, releases: str) -> None:
    client, _, *level = releases.split()
    number = int(level[0].removeprefix("level-")) if level else 2
    expected = rehearse(stories()[story], "4.3.1", number, client)
    assert {fact.name: fact.expected for fact in expected} == RECORDED[story, releases]
    guarantee, clients = BREAKS[story]
    is_broken = " ".join((client, *level)) in clients
    assert broken_by(expected) == ({story: [guarantee]} if is_broken else {})


@pytest.mark.kafka
@pytest.mark.xdist_group("kafka")
@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("level", sized([1, 2], [1]))
def test_a_batch_that_expires_while_an_abort_waits_ends_the_producer_of_v1_requests(
    level: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """It wants the next epoch, and nobody asks for it: each later call is illegal. With V2 requests
    the epoch comes with the end of the transaction."""
    arguments = ["late_abort_stored", "--system", "impl", "--level", str(level)]
    assert main(["experiments", *arguments]) == 0
    assert ("from state INITIALIZING" in capsys.readouterr().out) == (level == 1)


# The network

VERSION = 8
GLANCE_S, LONG_S = 0.1, 20.0


def produce(record: str, correlation_id: int) -> bytes:
    value = Record(0, 0, None, record.encode())
    batch = client_batch([value], producer_id=7, producer_epoch=0, base_sequence=correlation_id)
    rows = [{"index": 0, "records": encode_batch(batch)}]
    body = {"acks": -1, "timeout_ms": 1, "topics": [{"name": "records", "partitions": rows}]}
    body |= {"transactional_id": None}
    return encode_request(ApiKey.PRODUCE, VERSION, correlation_id, "client", body)


def answer(correlation_id: int) -> bytes:
    row = {"index": 0, "error_code": ErrorCode.NONE, "base_offset": 0, "log_append_time_ms": -1}
    row |= {"log_start_offset": 0, "record_errors": [], "error_message": None}
    body = {"topics": [{"name": "records", "partitions": [row]}], "throttle_time_ms": 0}
    return encode_response(ApiKey.PRODUCE, VERSION, correlation_id, body)


class Broker(BaseRequestHandler):
    """Answers each Produce with success."""

    def handle(self) -> None:
        unfinished = bytearray()
        while chunk := self.request.recv(1 << 16):
            unfinished += chunk
            for payload in take_frames(unfinished):
                header, _ = decode_request(payload)
                self.request.sendall(frame(answer(header["correlation_id"])))


@contextmanager
def connected() -> Iterator[tuple[ClientNetwork, socket.socket]]:
    with ThreadingTCPServer((HOST, 0), Broker) as broker:
        broker.daemon_threads = True
        Thread(target=broker.serve_forever, args=(0.02,), daemon=True).start()
        with (
            ClientNetwork(broker.server_address) as network,
            socket.create_connection((HOST, network.port), LONG_S) as connection,
        ):
            yield network, connection
        broker.shutdown()


def heard(connection: socket.socket, timeout_s: float) -> list[int]:
    """The correlation ids of the next answers, as far as they come together."""
    connection.settimeout(timeout_s)
    try:
        data = bytearray(connection.recv(1 << 16))
    except TimeoutError:
        return []
    return [int.from_bytes(payload[:4], "big") for payload in take_frames(data)]


def test_answers_are_lost_and_those_of_others_come() -> None:
    with connected() as (network, connection):
        network.change(network.lost_answers, {"a"})
        connection.sendall(frame(produce("a", 1)))
        network.await_true(lambda: "a" in network.answered, "a is not answered")
        assert heard(connection, GLANCE_S) == []
        connection.sendall(frame(produce("b", 2)))
        assert heard(connection, LONG_S) == [2]
        assert network.sent == [ClientBatch("a", 7, 0, 1), ClientBatch("b", 7, 0, 2)]


def test_a_late_error_is_heard_once() -> None:
    with connected() as (network, connection):
        network.change(network.late_errors, {"a"})
        connection.settimeout(LONG_S)
        for error in (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.NONE):
            connection.sendall(frame(produce("a", 1)))
            [payload] = take_frames(bytearray(connection.recv(1 << 16)))
            _, body = decode_response(ApiKey.PRODUCE, VERSION, payload)
            assert body["topics"][0]["partitions"][0]["error_code"] == error


def test_a_lost_request_does_not_reach_the_broker() -> None:
    with connected() as (network, connection):
        network.change(network.lost_requests, {"a"})
        connection.sendall(frame(produce("a", 1)) + frame(produce("b", 2)))
        assert heard(connection, LONG_S) == [2]
        assert network.answered == {"b"}


def test_what_is_held_comes_later_with_all_behind_it() -> None:
    with connected() as (network, connection):
        network.change(network.held_answers, {"a"})
        connection.sendall(frame(produce("a", 1)) + frame(produce("b", 2)))
        network.await_true(lambda: "a" in network.answered, "a is not answered")
        assert heard(connection, GLANCE_S) == []
        network.change(network.held_answers, set())
        found = heard(connection, LONG_S)
        while len(found) < 2:
            found += heard(connection, LONG_S)
        assert found == [1, 2]
