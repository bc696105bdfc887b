"""A node on sockets: asyncio around the core, without any decision of the protocol.

Four rules:

1. A connection has one request in progress; the next one is read after its answer.
2. The node advances when something is due (`next_due_ms`), earlier if a request asks for it
   (`has_work_before`), and at least every `TICK_MS`.
3. An invalid or too large frame closes its connection, never the server.
4. A connection that is closed for cause is logged with the cause. Limits are in
   `connection_limits`.

Theory of operation: each connection (`ServedConnection`) passes frames to the node and gets their
answers; most are there when `receive` returns, others come through a future. An
`Intercept` may stand between the two: it alone can hold back, replace or lose requests and answers.
There is one connection to each other broker; when it breaks, its requests fail, and the node reacts
to that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from impl.broker.cluster import NO_PORTS
from impl.broker.config import NodeConfig
from impl.broker.connection_limits import ConnectionLimits, TooManyConnections
from impl.broker.event_loop import listening_sockets
from impl.broker.listeners import (
    Answer,
    Handle,
    Listener,
    authenticate_broker,
    listeners_of,
    new_handle,
)
from impl.broker.node import Node
from impl.broker.outputs import BrokerRequest, Output
from impl.broker.producer_ids import BLOCK_SIZE, ProducerIdBlocks
from impl.broker.releases import served_versions
from impl.broker.served_connection import READ_BYTES, ServedConnection
from impl.protocol.errors import DecodeError
from impl.protocol.primitives import frame, take_frames
from impl.protocol.schemas import ApiKey
from impl.security.access import BETWEEN_BROKERS
from impl.security.session import ClientSession

_log = logging.getLogger(__name__)

TICK_MS: Final = 100
_TURNS_TO_ACCEPT: Final = 8
"""More turns of the event loop than a socket takes from being accepted to being a connection."""

Intercept = Callable[[bytes, Handle], Output | Awaitable[Output]]
"""Handles a request's payload, by itself or with the node's `Handle`."""


def system_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return int(time.time() * 1000)


class _Request:
    """A request to the node. Most answers are there when `receive` returns; others are awaited.

    It keeps no answer that is taken: an answer refers to its request, and memory that refers to
    itself is only freed by the garbage collector.
    """

    __slots__ = ("_answer", "_future")

    def __init__(self) -> None:
        self._answer: Output | None = None
        self._future: asyncio.Future[Output] | None = None

    def take_answer(self) -> Answer:
        """The answer, or where it will be."""
        answer, self._answer = self._answer, None
        if answer is not None:
            return answer
        self._future = asyncio.get_running_loop().create_future()
        return self._future

    def finish(self, answer: Output) -> None:
        """The node has answered."""
        future, self._future = self._future, None
        if future is None:
            self._answer = answer
        elif not future.done():
            future.set_result(answer)


class _BrokerConnection:
    """A connection to another broker, opened on first use."""

    def __init__(
        self, host: str, port: int, password: str | None, on_payload: Callable[[bytes], None]
    ) -> None:
        """`password` is for a listener that asks for one."""
        self._address = (host, port)
        self._password = password
        self._on_payload = on_payload
        self._writer: asyncio.StreamWriter | None = None
        self._lock = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None
        self.in_flight: set[int] = set()

    async def send(self, payload: bytes) -> None:
        """Raises `OSError`."""
        async with self._lock:
            if self._writer is None or self._writer.is_closing():
                reader, writer = await asyncio.open_connection(*self._address)
                if self._password is not None:
                    await authenticate_broker(reader, writer, self._password)
                self._writer = writer
                self._reading = asyncio.ensure_future(self._read(reader, self._writer))
            self._writer.write(frame(payload))
            await self._writer.drain()

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        buffer = bytearray()
        try:
            while data := await reader.read(READ_BYTES):
                buffer += data
                for payload in take_frames(buffer):
                    self._on_payload(payload)
        except (OSError, DecodeError):
            pass
        finally:
            writer.close()
            self._on_payload(b"")

    async def close(self) -> None:
        """Close the connection; its requests get no answers."""
        if self._writer is not None:
            self._writer.close()
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)


class Server:
    """`async with Server(node) as server:` serves on `server.port`.

    With port 0 in its config the node gets a free port. `ports` are those of listeners by name; one
    that is not named gets a free port, the first one that of the config.
    """

    def __init__(
        self,
        config: NodeConfig | None = None,
        *,
        make_node: Callable[[NodeConfig], Node] | None = None,
        ports: Mapping[str, int] = NO_PORTS,
        clock_ms: Callable[[], int] = system_clock_ms,
        intercept: Intercept | None = None,
    ) -> None:
        self._config = config or NodeConfig(host="127.0.0.1", port=0)
        self.ports = dict(ports)
        self._make_node = make_node or self._new_node
        self._clock_ms = clock_ms
        self._intercept = intercept
        self._listening: list[asyncio.Server] = []
        self._channels: dict[int, _BrokerConnection] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._wake = asyncio.Event()
        self._advances_at_ms = 0
        self._limits = ConnectionLimits(self._config)
        self._read_buffer = memoryview(bytearray(READ_BYTES))
        self.port = self._config.port

    def _new_node(self, config: NodeConfig) -> Node:
        """A node whose producer ids no earlier one at this address has allocated.

        Nothing of it is on disk, and old producers still write: so ids begin at the clock's time,
        and a node would have to allocate a million a second to overtake it.
        """
        return Node(config, blocks=ProducerIdBlocks(self._clock_ms() * BLOCK_SIZE))

    async def __aenter__(self) -> Server:
        """Listen. Raises `OSError`."""
        listeners = listeners_of(self._config.security, self._config.known_host)
        self.ports.setdefault(listeners[0].name, self._config.port)
        try:
            for listener in listeners:
                await self._bind(listener)
        except OSError:
            for bound in self._listening:
                bound.close()
            raise
        self.port = self.ports[listeners[0].name]
        self.node = self._make_node(replace(self._config, port=self.port))
        self.node.cluster.open_ports(self._config.node_id, self.ports)
        for server in self._listening:
            await server.start_serving()
        _log.info("broker %d listens on port %d", self._config.node_id, self.port)
        self._ticking = asyncio.ensure_future(self._tick())
        self._keep(asyncio.ensure_future(self._limits.close_idle()))
        return self

    async def _bind(self, listener: Listener) -> None:
        """Take a port. Raises `OSError`."""
        server = await asyncio.get_running_loop().create_server(
            lambda: ServedConnection(
                self._read_buffer, self._limits.request_max_bytes, partial(self._accept, listener)
            ),
            self._config.host,
            self.ports.get(listener.name, 0),
            start_serving=False,
        )
        self._listening.append(server)
        self.ports[listener.name] = listening_sockets(server)[0].getsockname()[1]

    async def __aexit__(self, *_: object) -> None:
        """Stop listening, and drop all connections. Raises what broke the node, if anything did."""
        await self._stop_listening()
        tasks = [self._ticking, *self._tasks]
        for task in tasks:
            task.cancel()
        ticked, *_rest = await asyncio.gather(*tasks, return_exceptions=True)
        for channel in self._channels.values():
            await channel.close()
        for server in self._listening:
            await server.wait_closed()
        if isinstance(ticked, Exception):
            raise ticked

    async def _stop_listening(self) -> None:
        """What was accepted becomes a connection first: asyncio loses it where the listener is
        closed meanwhile."""
        for listening in (s for server in self._listening for s in listening_sockets(server)):
            with contextlib.suppress(NotImplementedError):  # Windows
                asyncio.get_running_loop().remove_reader(listening.fileno())
        for _turn in range(_TURNS_TO_ACCEPT):
            await asyncio.sleep(0)
        for server in self._listening:
            server.close()

    # ---- connections

    def _accept(self, listener: Listener, me: ServedConnection) -> None:
        self._keep(asyncio.ensure_future(self._attend(listener, me)))

    async def _attend(self, listener: Listener, me: ServedConnection) -> None:
        _log.debug("a connection from %s", me.peer)
        try:
            self.node.follow_settings()
            self._limits.follow(self.node.config)
            async with self._limits.admit(me):
                if listener.context:
                    await me.start_tls(listener.context)
                cause = await me.serve(self._new_handle(listener, me), self._limits.hold)
            if cause:
                _log.warning("closes the connection from %s: %s", me.peer, cause)
        except (TooManyConnections, ssl.SSLError, ConnectionAbortedError) as refusal:
            _log.warning("closes the connection from %s: %s", me.peer, refusal)
        except (OSError, asyncio.CancelledError) as error:
            _log.debug("the connection from %s broke: %r", me.peer, error)
        except Exception:
            _log.exception("closes the connection from %s: a request failed", me.peer)
        finally:
            me.close()

    def _new_handle(self, listener: Listener, me: ServedConnection) -> Handle:
        rules = self.node.cluster.access.sasl_rules(listener.name) if listener.has_sasl else None
        versions = served_versions(self._config.release)[ApiKey.API_VERSIONS]
        session = listener.accept(me.transport)
        handle = new_handle(session, self._handle, rules, versions, self._clock_ms)
        return partial(self._intercepted, self._intercept, handle) if self._intercept else handle

    def _intercepted(self, intercept: Intercept, handle: Handle, payload: bytes) -> Answer:
        found = intercept(payload, handle)
        if isinstance(found, Output):
            return found
        answer = asyncio.ensure_future(found)
        if isinstance(answer, asyncio.Task):  # ends with the server, not with the connection
            self._keep(answer)
        return answer

    def _keep(self, task: asyncio.Task[Any]) -> None:
        """Until it is done, or the server stops."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- the node

    def advance(self) -> None:
        """Do now what is due: the clock has jumped."""
        self._perform(self.node.advance(self._clock_ms()))
        self._wake.set()

    def _handle(self, session: ClientSession, payload: bytes) -> Answer:
        request, node = _Request(), self.node
        self._perform(node.receive(request, payload, self._clock_ms(), session))
        if node.has_work_before(self._advances_at_ms):
            self._wake.set()
        return request.take_answer()

    async def _tick(self) -> None:
        while True:
            self._wake.clear()
            self._perform(self.node.advance(self._clock_ms()))
            self._limits.follow(self.node.config)
            now_ms, due_ms = self._clock_ms(), self.node.next_due_ms
            wait_ms = TICK_MS if due_ms is None else max(0, min(TICK_MS, due_ms - now_ms))
            self._advances_at_ms = now_ms + wait_ms
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_ms / 1000):
                    await self._wake.wait()

    def _perform(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            if isinstance(output, BrokerRequest):
                self._keep(asyncio.ensure_future(self._ask(output)))
            else:
                request = output.reference
                assert isinstance(request, _Request)
                request.finish(output)

    # ---- other brokers

    async def _ask(self, output: BrokerRequest) -> None:
        channel = self._channel_to(output.node_id)
        channel.in_flight.add(output.correlation_id)
        try:
            await channel.send(output.payload)
        except OSError as error:
            _log.warning("broker %d cannot be reached: %s", output.node_id, error)
            self._fail_requests(channel)

    def _channel_to(self, node_id: int) -> _BrokerConnection:
        if node_id not in self._channels:
            broker = self.node.cluster.brokers[node_id]
            port = broker.ports.get(BETWEEN_BROKERS)
            password = None if port is None else self.node.cluster.access.broker_password
            channel = _BrokerConnection(
                broker.host,
                port or broker.port,
                password,
                lambda payload: self._on_payload(channel, payload),
            )
            self._channels[node_id] = channel
        return self._channels[node_id]

    def _on_payload(self, channel: _BrokerConnection, payload: bytes) -> None:
        if not payload:
            self._fail_requests(channel)
            return
        correlation_id = int.from_bytes(payload[:4], "big", signed=True)
        channel.in_flight.discard(correlation_id)
        self._perform(self.node.receive_answer(correlation_id, payload, self._clock_ms()))
        self._wake.set()

    def _fail_requests(self, channel: _BrokerConnection) -> None:
        """Fail the requests of a broken connection."""
        in_flight, channel.in_flight = channel.in_flight, set()
        for correlation_id in in_flight:
            self._perform(self.node.receive_answer(correlation_id, None, self._clock_ms()))
        self._wake.set()
