"""One connection of a server: frames come in, answers go out.

Five rules:

1. One request is in progress; the next one is taken after its answer, as in Kafka.
2. What can be answered at once is answered where it is read, without a task. The answers of one
   read leave in one write, unless that takes long: then the client goes on meanwhile.
3. After `_REQUESTS_IN_A_ROW` requests other connections have their turn: a read may hold thousands.
4. While a request waits for its answer, or answers wait for the client to read them, no other
   request is taken, and at most one more read is kept.
5. A request larger than one read waits until there is room for it (`hold`).

Theory of operation: the transport, answers that come later and the event loop call `_go_on`, which
answers requests until it has to wait for the next such call. The connection's task runs `serve`: it
waits for the end, and for room. Source: `SocketServer.Processor`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from math import inf
from time import perf_counter
from typing import Final, cast

from impl.broker.listeners import Handle
from impl.broker.outputs import Close, Output, Response
from impl.protocol.errors import DecodeError
from impl.protocol.primitives import announced_bytes, frame, size_of_frame, take_frames

READ_BYTES: Final = 1 << 16
"""What is read at once. Requests up to this size are limited by the number of connections."""
HANDSHAKE_SECONDS: Final = 60
_REQUESTS_IN_A_ROW: Final = 8
_HELD_BACK_SECONDS: Final = 50e-6
"""An answer waits for those of later requests about so long: a few times as long as a write."""


class ServedConnection(asyncio.BufferedProtocol):
    """One connection: who it is, when something last came or went, and what is still to be done.

    Public, read-only: `transport` and `peer`, once it is made, and `active_at` on the loop's clock.
    """

    transport: asyncio.Transport
    peer: str

    __slots__ = (
        "_answer",
        "_buffer",
        "_changed",
        "_end",
        "_expected_bytes",
        "_handle",
        "_has_later_turn",
        "_is_lost",
        "_is_writable",
        "_last_end",
        "_loop",
        "_on_made",
        "_read_buffer",
        "_request_max_bytes",
        "_requests",
        "_unsent",
        "_unsent_bytes",
        "active_at",
        "peer",
        "transport",
    )

    def __init__(
        self,
        read_buffer: memoryview,
        request_max_bytes: int,
        on_made: Callable[[ServedConnection], None],
    ) -> None:
        """All connections of an event loop may share `read_buffer`: it is empty after each read.

        `on_made` is called once, when the connection is made; it has a task run `serve`.
        """
        self._read_buffer = read_buffer
        self._request_max_bytes = request_max_bytes
        self._on_made = on_made
        self._loop = asyncio.get_running_loop()
        self._handle: Handle | None = None
        self._buffer = bytearray()
        self._requests: deque[bytes] = deque()
        self._answer: asyncio.Future[Output] | None = None
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._expected_bytes = 0
        self._has_later_turn = self._is_lost = False
        self._is_writable = True
        self._last_end: str | Exception | None = None
        self._end: str | Exception | None = None
        self._changed = asyncio.Event()
        self.active_at = self._loop.time()

    # ---- the task of the connection

    async def start_tls(self, context: ssl.SSLContext) -> None:
        """Shake hands. Raises `OSError`: `ConnectionAbortedError` if that takes a minute."""
        self.active_at = inf  # asyncio cannot end a handshake that somebody else aborts
        transport = await self._loop.start_tls(
            self.transport,
            self,
            context,
            server_side=True,
            ssl_handshake_timeout=HANDSHAKE_SECONDS,
        )
        assert transport is not None, "uvloop says so, too"
        self.transport = transport
        self.active_at = self._loop.time()

    async def serve(
        self, handle: Handle, hold: Callable[[int], AbstractAsyncContextManager[None]]
    ) -> str:
        """Serve until the connection ends; why this side closes it, "" if the other did.

        Raises `OSError`, and what `handle` raises.
        """
        self._handle = handle
        self._go_on()
        while self._end is None:
            if size_bytes := self._missing_bytes():
                async with hold(size_bytes):
                    self._expected_bytes = size_bytes
                    self.transport.resume_reading()
                    while self._expected_bytes and self._end is None:
                        await self._wait()
            else:
                await self._wait()
        if isinstance(self._end, Exception):
            raise self._end
        return self._end

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _missing_bytes(self) -> int:
        """The size of the large request that comes next, which needs room; 0 if none does."""
        size_bytes = 0 if self._is_waiting() else announced_bytes(self._buffer)
        return size_bytes if size_bytes > READ_BYTES else 0

    def close(self) -> None:
        """Send what was written, and close."""
        self._finish("")
        self.transport.close()

    # ---- what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say so."""
        self.transport = cast(asyncio.Transport, transport)
        host, port, *_ = transport.get_extra_info("peername") or ("?", "?")
        self.peer = f"{host}:{port}"
        self._on_made(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where to read to."""
        return self._read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Answer what has come, or keep it and read nothing more."""
        self.active_at = self._loop.time()
        self._buffer += self._read_buffer[:nbytes]
        if not self._is_waiting():
            if len(self._buffer) >= self._expected_bytes:
                self._go_on()
        elif self._handle is not None:
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        """Whether the transport stays open for answers; with TLS it cannot."""
        self._last_end = ""
        if not self._is_waiting():
            self._finish("")
        return self.transport.get_extra_info("sslcontext") is None

    def pause_writing(self) -> None:
        """The client has to read first."""
        self._is_writable = False

    def resume_writing(self) -> None:
        """The client has read."""
        self._is_writable = True
        self.active_at = self._loop.time()
        self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """End after the requests that have come: nobody repeats those with acks=0."""
        self._is_lost = self._is_writable = True
        self._last_end = exc or ""
        if self._requests or self._buffer:
            self._go_on()
        else:
            self._finish(self._last_end)

    # ---- requests and answers

    def _is_waiting(self) -> bool:
        """Whether the next request has to wait for something else than bytes."""
        return (
            self._answer is not None
            or not self._is_writable
            or self._has_later_turn
            or self._end is not None
            or self._handle is None
        )

    def _go_on(self) -> None:
        """Answer what can be answered now."""
        if not self._is_waiting():
            try:
                self._answer_requests()
            except Exception as error:  # for the connection's task
                self._finish(error)

    def _answer_requests(self) -> None:
        assert self._handle is not None
        begun = perf_counter()
        for _ in range(_REQUESTS_IN_A_ROW):
            if not (self._requests or self._take_requests()):
                return
            answer = self._handle(self._requests.popleft())
            if isinstance(answer, asyncio.Future):
                self._answer = answer
                answer.add_done_callback(self._on_answer)
                self._flush()
                return
            self._write(answer)
            if self._is_waiting():
                return
            if self._requests and perf_counter() - begun > _HELD_BACK_SECONDS:
                self._flush()
                begun = perf_counter()
        self._flush()
        self._has_later_turn = True
        self._loop.call_soon(self._on_turn)

    def _take_requests(self) -> bool:
        """Take the next ones; if there are none, all is answered."""
        try:
            self._requests.extend(take_frames(self._buffer, self._request_max_bytes))
        except DecodeError as error:
            self._finish(str(error))
            return False
        if not self._requests:
            self._rest()
        return bool(self._requests)

    def _rest(self) -> None:
        """All is answered: read on, or have the task find room first."""
        self._flush()
        if self._last_end is not None:
            self._finish(self._last_end)
            return
        is_received, self._expected_bytes = self._expected_bytes > 0, 0
        needs_room = self._missing_bytes() > 0
        if is_received or needs_room:
            self._changed.set()
        if needs_room:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def _on_turn(self) -> None:
        self._has_later_turn = False
        self._go_on()

    def _on_answer(self, answer: asyncio.Future[Output]) -> None:
        self._answer = None
        if answer.cancelled() or self._end is not None:
            return
        try:
            self._write(answer.result())
        except Exception as error:  # for the connection's task
            self._finish(error)
        self._go_on()

    def _write(self, output: Output) -> None:
        if isinstance(output, Close):
            if output.last_answer is not None:
                self._unsent.append(frame(output.last_answer))
            self._finish(output.reason)
        elif isinstance(output, Response) and output.payload is not None:
            self._unsent += (size_of_frame(output.payload), output.payload)
            self._unsent_bytes += len(output.payload)
            if self._unsent_bytes >= READ_BYTES:
                self._flush()

    def _flush(self) -> None:
        """Send what was written; the transport says if the client has to read first."""
        if self._unsent:
            if not self._is_lost:
                self.transport.write(b"".join(self._unsent))
            self._unsent.clear()
            self._unsent_bytes = 0
            if self._is_writable:
                self.active_at = self._loop.time()

    def _finish(self, end: str | Exception) -> None:
        """End, for this cause; the first one is told."""
        if self._end is None:
            self._flush()
            self._end = end
            self._changed.set()
