"""A broker that is not Kafka: `impl`'s node behind a small socket server, and its accomplices."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

import pytest

from impl import CloseConnection, Node, frame, take_frames

Handle = Callable[[Node, bytes], bytes | None]
"""What a broker answers to one request; None: nothing, ever."""


def honest(node: Node, payload: bytes) -> bytes | None:
    return node.handle(payload, time.time_ns() // 1_000_000)


@dataclass
class FakeBroker:
    """Listens on `port`; each connection has a thread, the node is one at a time's."""

    handle: Handle
    port: int = 0
    node: Node = field(default_factory=Node)
    requests: int = 0

    def __post_init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", self.port))
        self.port = self._server.getsockname()[1]
        self._lock = threading.Lock()
        self._peers: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"wire://127.0.0.1:{self.port}"

    def close(self) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for peer in self._peers:
            with suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self._server.accept()
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._peers.append(peer)
                self._threads.append(threading.Thread(target=self._serve, args=(peer,)))
                self._threads[-1].start()

    def _serve(self, peer: socket.socket) -> None:
        unfinished = bytearray()
        with peer, suppress(OSError, CloseConnection):
            while chunk := peer.recv(1 << 16):
                unfinished += chunk
                for payload in take_frames(unfinished):
                    with self._lock:
                        self.requests += 1
                        answer = self.handle(self.node, payload)
                    if answer is None:
                        return self._say_nothing_more(peer)
                    peer.sendall(frame(answer))
        return None

    @staticmethod
    def _say_nothing_more(peer: socket.socket) -> None:
        """Kafka answers in order: behind a request without an answer nothing comes."""
        while peer.recv(1 << 16):
            pass


@pytest.fixture
def serve() -> Iterator[Callable[..., FakeBroker]]:
    """Start a broker that answers as `handle` says, by default as `impl`'s node does."""
    with ExitStack() as stack:

        def start(handle: Handle = honest, port: int = 0) -> FakeBroker:
            broker = FakeBroker(handle, port)
            stack.callback(broker.close)
            return broker

        yield start
