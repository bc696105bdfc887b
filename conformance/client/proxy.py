"""The network of one run, and the broker behind it: sockets, delays, and what goes wrong.

Three rules:

1. What arrives is noted when it is read, what is answered just before it is written: a client
   sent what was noted earlier without knowing what was answered later.
2. A connection that is cut sends nothing more, but is read to its end: what a client sent is seen.
3. No request is handled twice.

Theory of operation: two ports, one to look for nodes, one of the only node, `impl`'s. Each
connection has a reader, which notes requests and gives each its fault, and a worker, which hands
them to the node and answers in order.
"""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Self

from conformance.client.plan import PARTITIONS, PASS, Fault, Kind, RunPlan
from conformance.client.trace import (
    Closed,
    Cut,
    Event,
    InitAnswer,
    InitProducerId,
    Opened,
    PartitionAnswer,
    Produce,
    ProduceAnswer,
    SentBatch,
)
from impl.broker.config import NodeConfig
from impl.broker.node import Node
from impl.broker.outputs import CloseConnection
from impl.protocol.codegen import Value
from impl.protocol.errors import DecodeError
from impl.protocol.messages import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from impl.protocol.primitives import frame, take_frames
from impl.protocol.record_batch import decode_batches
from impl.protocol.schemas import ApiKey

HOST: Final = "127.0.0.1"
CHUNK_BYTES: Final = 1 << 16
READ_TO_END_S: Final = 5.0
"""A client that has ended and leaves its connections open is not waited for any longer."""


@dataclass(slots=True)
class Connection:
    """A connection as the proxy has it."""

    number: int
    writer: asyncio.StreamWriter
    requests: asyncio.Queue[Request] = field(default_factory=asyncio.Queue)
    is_cut: bool = False
    is_stalled: bool = False
    is_closed: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """A request that arrived, and what becomes of it."""

    payload: bytes
    header: Value
    body: Value
    fault: Fault

    @property
    def api_key(self) -> int:
        """Which API it asks."""
        key: int = self.header["api_key"]
        return key


class Proxy:
    """One run's network: an asynchronous context manager. `events` is what was seen so far."""

    def __init__(self, plan: RunPlan) -> None:
        self.events: list[Event] = []
        self.problem = ""
        self.began_ns = time.monotonic_ns()
        self._faults = {
            ApiKey.PRODUCE: iter(plan.produce_faults),
            ApiKey.INIT_PRODUCER_ID: iter(plan.init_faults),
        }
        self._connections: list[Connection] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._reading: set[asyncio.Task[None]] = set()
        self._is_over = False
        self._servers: list[asyncio.Server] = []
        self._node: Node

    @property
    def bootstrap(self) -> str:
        """Where a client begins to look for nodes."""
        return f"{HOST}:{self._port(0)}"

    async def __aenter__(self) -> Self:
        for to_node in (False, True):
            server = await asyncio.start_server(self._accepted(to_node), HOST, 0)
            self._servers.append(server)
        config = NodeConfig(host=HOST, port=self._port(1), num_partitions=PARTITIONS)
        self._node = Node(config)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_over = True
        for server in self._servers:
            server.close()
        for connection in self._connections:
            connection.writer.transport.abort()
        tasks = self._tasks | self._reading
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def read_to_end(self) -> None:
        """Wait until each connection is read to its end, once the client has ended: how late that
        is seen depends on how busy the machine is, and no run may."""
        if self._reading:
            await asyncio.wait(self._reading, timeout=READ_TO_END_S)

    def held_ports(self) -> list[socket.socket]:
        """The ports of the run, to be held while its client lives: one that is still looking for
        its node must not find that of a later run."""
        return [server.sockets[0].dup() for server in self._servers]

    def stored(self, topic: str) -> tuple[SentBatch, ...]:
        """What the node's logs hold, partition by partition."""
        found = self._node.topics.named(topic)
        leaders = () if found is None else found.partitions
        return tuple(
            batch
            for partition, leader in enumerate(leaders)
            for kept in leader.batches
            for batch in batches_in(partition, kept.data)
        )

    def at_us(self, now_ns: int | None = None) -> int:
        """Microseconds since the run began."""
        now = time.monotonic_ns() if now_ns is None else now_ns
        return (now - self.began_ns) // 1_000

    def _port(self, server: int) -> int:
        port: int = self._servers[server].sockets[0].getsockname()[1]
        return port

    # Connections

    def _accepted(self, to_node: bool) -> Any:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if self._is_over:
                writer.transport.abort()
                return
            connection = Connection(len(self._connections), writer)
            self._connections.append(connection)
            self.events.append(Opened(self.at_us(), connection.number, to_node))
            self._begin(self._work(connection), self._tasks)
            self._begin(self._read(connection, reader), self._reading)

        return serve

    def _begin(self, work: Any, tasks: set[asyncio.Task[None]]) -> None:
        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _read(self, connection: Connection, reader: asyncio.StreamReader) -> None:
        unfinished = bytearray()
        with suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                unfinished += chunk
                for payload in take_frames(unfinished):
                    self._arrived(connection, payload)
        connection.is_closed = True
        self.events.append(Closed(self.at_us(), connection.number))
        connection.writer.transport.abort()

    def _arrived(self, connection: Connection, payload: bytes) -> None:
        try:
            header, body = decode_request(payload)
            self._note(connection, header, body)
        except (DecodeError, ValueError) as error:
            # What impl's node does not understand either, it answers or refuses itself.
            if payload[:2] == ApiKey.PRODUCE.to_bytes(2, "big"):
                self.problem = f"connection {connection.number}: {error}"
            header, body = {"api_key": -1, "api_version": -1, "correlation_id": -1}, {}
        fault = next(self._faults.get(header["api_key"], iter(())), PASS)
        if not connection.is_cut:
            connection.requests.put_nowait(Request(payload, header, body, fault))

    def _note(self, connection: Connection, header: Value, body: Value) -> None:
        """Keep what the judge looks at."""
        where = (self.at_us(), connection.number, header["correlation_id"])
        if header["api_key"] == ApiKey.PRODUCE:
            batches = [
                batch
                for _, partition in rows_of(body)
                for batch in batches_in(partition["index"], partition["records"] or b"")
            ]
            self.events.append(Produce(*where, tuple(batches)))
        elif header["api_key"] == ApiKey.INIT_PRODUCER_ID:
            wanted = (body["producer_id"], body["producer_epoch"])
            self.events.append(InitProducerId(*where, *wanted))

    # Answers

    async def _work(self, connection: Connection) -> None:
        while not connection.is_cut:
            request = await connection.requests.get()
            await self._handle(connection, request)

    async def _handle(self, connection: Connection, request: Request) -> None:
        fault = request.fault
        if fault.kind in (Kind.CUT, Kind.CUT_LATE, Kind.CUT_ANSWERED):
            self._cut(connection)
        if fault.kind == Kind.CUT:
            return
        if fault.kind == Kind.CUT_LATE:
            await asyncio.sleep(fault.delay_ms / 1000)
        connection.is_stalled |= fault.kind == Kind.STALL
        answer = self._answered(request)
        if fault.kind == Kind.DELAY:
            await asyncio.sleep(fault.delay_ms / 1000)
        silent = connection.is_cut or connection.is_stalled or connection.is_closed
        if answer is None or silent or connection.writer.is_closing():
            return
        self._note_answer(connection, request, answer)
        connection.writer.write(frame(answer))

    def _cut(self, connection: Connection) -> None:
        connection.is_cut = True
        if connection.is_closed or connection.writer.is_closing():
            return
        self.events.append(Cut(self.at_us(), connection.number))
        with suppress(OSError):
            connection.writer.write_eof()

    def _answered(self, request: Request) -> bytes | None:
        """The node's answer, or the error's that takes its place."""
        fault = request.fault
        if fault.kind not in (Kind.REFUSE, Kind.REPLACE):
            return self._asked(request.payload)
        if request.api_key == ApiKey.PRODUCE:
            return self._produce_refused(request)
        if fault.kind == Kind.REPLACE:
            self._asked(request.payload)
        header = request.header
        body = {"error_code": fault.error}
        return encode_response(*identity(header), body)

    def _asked(self, payload: bytes) -> bytes | None:
        try:
            return self._node.handle(payload, round(time.time() * 1000))
        except CloseConnection as error:
            self.problem = self.problem or f"the node closes a connection: {error}"
            return None

    def _produce_refused(self, request: Request) -> bytes | None:
        """Some partitions are answered with the error; of the others the node is asked."""
        fault, header = request.fault, request.header
        hit = [
            (topic, row)
            for topic, row in rows_of(request.body)
            if fault.partition in (None, row["index"])
        ]
        if not hit:
            return self._asked(request.payload)
        payload = request.payload
        if fault.kind == Kind.REFUSE:
            rest = without(request.body, {row["index"] for _, row in hit})
            payload = encode_request(*identity(header), header["client_id"], rest)
        answer = self._asked(payload)
        body = (
            {"topics": []} if answer is None else decode_response(*identity(header)[:2], answer)[1]
        )
        merged = with_error(body, hit, fault)
        return encode_response(*identity(header), merged)

    def _note_answer(self, connection: Connection, request: Request, answer: bytes) -> None:
        header = request.header
        where = (self.at_us(), connection.number, header["correlation_id"])
        if request.api_key == ApiKey.PRODUCE:
            _, body = decode_response(*identity(header)[:2], answer)
            self.events.append(ProduceAnswer(*where, answers_in(body)))
        elif request.api_key == ApiKey.INIT_PRODUCER_ID:
            _, body = decode_response(*identity(header)[:2], answer)
            told = (body["error_code"], body["producer_id"], body["producer_epoch"])
            self.events.append(InitAnswer(*where, *told))


# Messages


def identity(header: Value) -> tuple[int, int, int]:
    """API, version and correlation id of a request."""
    return header["api_key"], header["api_version"], header["correlation_id"]


def rows_of(body: Value) -> list[tuple[Value, Value]]:
    """Each partition of a Produce request or answer, beside its topic."""
    return [(topic, row) for topic in body["topics"] for row in topic["partitions"]]


def batches_in(partition: int, data: bytes) -> list[SentBatch]:
    """The batches in some bytes. Raises DecodeError, ValueError for a value that is no number."""
    return [
        SentBatch(
            partition,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            tuple(int(record.value or b"") for record in batch.records),
        )
        for batch in decode_batches(data)
    ]


def without(body: Value, partitions: set[int]) -> Value:
    """A Produce request without some partitions."""
    topics = [
        topic | {"partitions": [p for p in topic["partitions"] if p["index"] not in partitions]}
        for topic in body["topics"]
    ]
    return body | {"topics": [topic for topic in topics if topic["partitions"]]}


def with_error(body: Value, hit: list[tuple[Value, Value]], fault: Fault) -> Value:
    """A Produce answer in which the partitions that were hit have the fault's error."""
    numbers = {row["index"] for _, row in hit}
    kept = without(body, numbers)["topics"]
    refused = [
        {
            "name": topic["name"],
            "topic_id": topic["topic_id"],
            "partitions": [refusal(row["index"], fault)],
        }
        for topic, row in hit
    ]
    return body | {"topics": kept + refused}


def refusal(partition: int, fault: Fault) -> Value:
    """The row of an answer that refuses."""
    return {
        "index": partition,
        "error_code": fault.error,
        "base_offset": -1,
        "log_append_time_ms": -1,
        "log_start_offset": fault.log_start_offset,
    }


def answers_in(body: Value) -> tuple[PartitionAnswer, ...]:
    """What a Produce answer says, partition by partition."""
    return tuple(
        PartitionAnswer(
            row["index"], int(row["error_code"]), row["base_offset"], row["log_start_offset"]
        )
        for _, row in rows_of(body)
    )
