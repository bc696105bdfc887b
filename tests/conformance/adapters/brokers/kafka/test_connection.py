"""The connection against a scripted peer: what a real broker would never do to it."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from conformance.adapters.brokers.kafka.connection import MAX_IN_FLIGHT, BrokerConnection
from conformance.adapters.brokers.kafka.errors import (
    AnswerTimeout,
    ConnectionLost,
    TooManyInFlight,
    UnexpectedAnswer,
)
from impl.protocol.errors import FrameTooLarge
from impl.protocol.messages import encode_response
from impl.protocol.primitives import frame
from impl.protocol.schemas import ApiKey

pytestmark = pytest.mark.fast

Script = Callable[[socket.socket], None]
Serve = Callable[[Script], BrokerConnection]

BODY = {"transaction_timeout_ms": 1_000}


def answer(correlation_id: int) -> bytes:
    body = {"error_code": 0, "producer_id": correlation_id, "producer_epoch": 0}
    return frame(encode_response(ApiKey.INIT_PRODUCER_ID, 1, correlation_id, body))


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Connect to a peer that runs `script` on its end of the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threads: list[threading.Thread] = []
        connections: list[BrokerConnection] = []

        def run(script: Script) -> None:
            with server.accept()[0] as peer:
                script(peer)

        def start(script: Script) -> BrokerConnection:
            threads.append(threading.Thread(target=run, args=(script,)))
            threads[-1].start()
            connections.append(BrokerConnection(*server.getsockname(), timeout_ms=2_000))
            return connections[-1]

        yield start
        for connection in connections:
            connection.close()
        for thread in threads:
            thread.join()


def wait_for_the_end(peer: socket.socket) -> None:
    while peer.recv(1 << 16):
        pass


def ask(connection: BrokerConnection) -> int:
    return connection.send(ApiKey.INIT_PRODUCER_ID, 1, BODY)


def test_answers_that_arrive_in_pieces_are_put_together(serve):
    def script(peer: socket.socket) -> None:
        for byte in answer(0) + answer(1):
            peer.sendall(bytes([byte]))
        wait_for_the_end(peer)

    connection = serve(script)
    assert [ask(connection), ask(connection)] == [0, 1]
    assert [connection.receive().body["producer_id"] for _ in range(2)] == [0, 1]


def test_an_answer_out_of_order_is_refused(serve):
    def script(peer: socket.socket) -> None:
        peer.sendall(answer(1) + answer(0))
        wait_for_the_end(peer)

    connection = serve(script)
    ask(connection)
    ask(connection)
    with pytest.raises(UnexpectedAnswer, match="correlation id 1 came, 0 was next"):
        connection.receive()


def test_a_late_answer_can_still_be_received(serve):
    release = threading.Event()

    def script(peer: socket.socket) -> None:
        whole = answer(0)
        peer.sendall(whole[:7])
        release.wait()
        peer.sendall(whole[7:])
        wait_for_the_end(peer)

    connection = serve(script)
    ask(connection)
    with pytest.raises(AnswerTimeout, match="no answer in 20 ms"):
        connection.receive(timeout_ms=20)
    release.set()
    assert connection.receive().correlation_id == 0


def test_a_peer_that_closes_is_named(serve):
    connection = serve(lambda peer: peer.recv(1) and None)
    ask(connection)
    with pytest.raises(ConnectionLost):
        connection.receive()


def test_a_frame_beyond_the_limit_is_not_believed(serve):
    def script(peer: socket.socket) -> None:
        peer.sendall(b"\x7f\xff\xff\xff")
        wait_for_the_end(peer)

    connection = serve(script)
    ask(connection)
    with pytest.raises(FrameTooLarge):
        connection.receive()


def test_requests_in_flight_have_a_limit(serve):
    connection = serve(wait_for_the_end)
    for _ in range(MAX_IN_FLIGHT):
        ask(connection)
    with pytest.raises(TooManyInFlight):
        ask(connection)


def test_nothing_is_received_that_was_not_asked(serve):
    connection = serve(wait_for_the_end)
    with pytest.raises(UnexpectedAnswer):
        connection.receive()


def test_asking_behind_older_requests_is_refused(serve):
    connection = serve(wait_for_the_end)
    ask(connection)
    with pytest.raises(UnexpectedAnswer, match="1 older requests"):
        connection.ask(ApiKey.INIT_PRODUCER_ID, 1, BODY)


def test_abort_resets_the_connection(serve):
    seen: list[OSError] = []
    asked = threading.Event()

    def script(peer: socket.socket) -> None:
        asked.set()
        try:
            wait_for_the_end(peer)
        except OSError as error:
            seen.append(error)

    connection = serve(script)
    asked.wait()
    connection.abort()
    while threading.active_count() > 1 and not seen:
        threading.Event().wait(0.01)
    assert isinstance(seen[0], ConnectionResetError)


def test_a_port_where_nobody_listens_is_named():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    with pytest.raises(ConnectionLost, match="cannot connect"):
        BrokerConnection(*address)
