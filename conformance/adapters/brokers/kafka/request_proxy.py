"""A proxy that passes requests and answers whole and in order, and may hold or lose them.

It never sends a message twice, and makes no answers of its own.
"""

from __future__ import annotations

import socket
from abc import abstractmethod
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Condition, Thread
from typing import Final, Self, cast

from conformance.adapters.brokers.kafka.recipe import HOST
from impl.protocol.primitives import frame, take_frames

_CHUNK_BYTES: Final = 1 << 16
_LOOK_S: Final = 0.05
"""How often the server checks whether it is shut down."""


class RequestProxy(ThreadingTCPServer):
    """Listens on `port`, 0 for any, for clients of the server at `behind`; a context manager.

    Two threads for each connection call `take_request` and `take_answer`; these may wait on
    `changed`. Raises OSError if it cannot listen.
    """

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, port: int, behind: tuple[str, int]) -> None:
        super().__init__((HOST, port), _Connection)
        self.behind = behind
        self.changed = Condition()

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return int(self.server_address[1])

    @abstractmethod
    def take_request(self, request: bytes) -> bool:
        """Whether a request is passed on; returns once the request may be."""

    @abstractmethod
    def take_answer(self, request: bytes, answer: bytes) -> bytes | None:
        """The answer that the client receives; returns once the client may have it. None if it is
        lost."""

    @abstractmethod
    def release(self) -> None:
        """Hold no message any more."""

    def __enter__(self) -> Self:
        Thread(target=self.serve_forever, args=(_LOOK_S,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        self.shutdown()
        self.server_close()


class _Connection(BaseRequestHandler):
    """A client's connection, and the connection to the server for it. If either ends, both do."""

    request: socket.socket

    def handle(self) -> None:
        """Pass requests on."""
        proxy = cast(RequestProxy, self.server)
        waiting: deque[bytes] = deque()
        with suppress(OSError), socket.create_connection(proxy.behind) as server:
            Thread(target=self._pass_back, args=(proxy, server, waiting), daemon=True).start()
            for request in _payloads(self.request):
                if proxy.take_request(request):
                    waiting.append(request)
                    server.sendall(frame(request))

    def _pass_back(self, proxy: RequestProxy, server: socket.socket, waiting: deque[bytes]) -> None:
        with suppress(OSError):
            for payload in _payloads(server):
                answer = proxy.take_answer(waiting.popleft(), payload)
                if answer is not None:
                    self.request.sendall(frame(answer))
        with suppress(OSError):
            self.request.shutdown(socket.SHUT_RDWR)


def _payloads(connection: socket.socket) -> Iterator[bytes]:
    unfinished = bytearray()
    while chunk := connection.recv(_CHUNK_BYTES):
        unfinished += chunk
        yield from take_frames(unfinished)
