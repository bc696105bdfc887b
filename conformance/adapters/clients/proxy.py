"""The network of one run and the broker behind it: sockets, delays and faults.

Three rules:

1. A request is noted when it is read, a response just before it is written. So a client that sent a
   request did not know a response that is noted after the request.
2. A connection that is cut carries no more responses, but is read to its end.
3. No request is handled twice.

Theory of operation: the proxy has two ports, the bootstrap address and the only node, which is
`impl`'s. Each connection has a reader, which notes requests and draws their faults, and a worker,
which passes them to the node and responds in order.
"""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Self

from conformance.adapters.clients.run_plan import PARTITIONS, PASS, FaultKind, RequestFault, RunPlan
from conformance.adapters.clients.trace import (
    ConnectionClosed,
    ConnectionCut,
    ConnectionEvent,
    ConnectionOpened,
    PartitionResult,
    ProduceAnswered,
    ProduceRequested,
    ProducerIdAnswered,
    ProducerIdRequested,
    TransactionalIdFenced,
    WireBatch,
)
from conformance.adapters.clients.transactional_wire import (
    answered,
    asking_for_offset,
    creating_input,
    is_of_transactions,
    offset_in,
    refusal,
    requested,
    taking_over,
)
from impl.broker.config import NodeConfig
from impl.broker.node import Node
from impl.broker.outputs import CloseConnection
from impl.coordinator.config import TransactionConfig
from impl.protocol.control_records import ControlType, control_type
from impl.protocol.errors import DecodeError
from impl.protocol.message_form import Value
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
NOBODY: Final = -1
"""The connection number of another producer's requests."""
MARKERS_WITHIN_MS: Final = 1_000
CHUNK_BYTES: Final = 1 << 16
READ_TO_END_S: Final = 5.0
"""The longest wait for a client that has ended to close its connections."""


@dataclass(frozen=True, slots=True)
class ProxiedRequest:
    """A request that arrived, and its fault."""

    payload: bytes
    header: Value
    body: Value
    fault: RequestFault


@dataclass(slots=True)
class ProxiedConnection:
    """A connection of the client to the proxy."""

    number: int
    writer: asyncio.StreamWriter
    requests: asyncio.Queue[ProxiedRequest] = field(default_factory=asyncio.Queue)
    is_cut: bool = False
    is_stalled: bool = False
    is_closed: bool = False

    @property
    def is_silent(self) -> bool:
        """Whether the connection carries no more responses."""
        gone = self.is_cut or self.is_stalled or self.is_closed
        return gone or self.writer.is_closing()


class Proxy:
    """One run's network: an asynchronous context manager. `events` has everything that happened so
    far."""

    def __init__(self, plan: RunPlan) -> None:
        self.events: list[ConnectionEvent] = []
        self.problem = ""
        self._began_ns = time.monotonic_ns()
        self._faults = {ApiKey[api]: iter(faults) for api, faults in plan.faults.items()}
        self._level = plan.level
        self._connections: list[ProxiedConnection] = []
        self._workers: set[asyncio.Task[None]] = set()
        self._readers: set[asyncio.Task[None]] = set()
        self._is_over = False
        self._servers: list[asyncio.Server] = []
        self._node: Node

    @property
    def bootstrap(self) -> str:
        """The address at which a client begins to look for nodes."""
        return f"{HOST}:{self._port(0)}"

    async def __aenter__(self) -> Self:
        for to_node in (False, True):
            server = await asyncio.start_server(self._accept(to_node), HOST, 0)
            self._servers.append(server)
        config = NodeConfig(
            host=HOST,
            port=self._port(1),
            num_partitions=PARTITIONS,
            transactions=TransactionConfig(transaction_version=self._level),
        )
        self._node = Node(config)
        self._ask_node(creating_input())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_over = True
        for server in self._servers:
            server.close()
        for connection in self._connections:
            connection.writer.transport.abort()
        tasks = self._workers | self._readers
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def read_to_end(self) -> None:
        """Wait until each connection is read to its end, which takes a while on a busy machine."""
        if self._readers:
            await asyncio.wait(self._readers, timeout=READ_TO_END_S)

    def duplicate_ports(self) -> list[socket.socket]:
        """The run's listening sockets, to be held while its client lives: a client that still looks
        for its node must not find the node of a later run."""
        return [server.sockets[0].dup() for server in self._servers]

    def stored_batches(self, topic: str) -> tuple[WireBatch, ...]:
        """The batches in the node's logs, partition by partition, once markers are written."""
        self._node.advance(round(time.time() * 1000) + MARKERS_WITHIN_MS)
        found = self._node.topics.get(topic)
        leaders = () if found is None else found.partitions
        return tuple(
            batch
            for partition, leader in enumerate(leaders)
            for kept in leader.batches
            for batch in decode_sent(partition, kept.data)
        )

    def committed_offset(self) -> int | None:
        """The offset that the group has committed at the node."""
        answer = self._ask_node(asking_for_offset())
        return None if answer is None else offset_in(answer)

    def at_us(self, now_ns: int | None = None) -> int:
        """Microseconds since the run began, now or at a time of the monotonic clock."""
        now = time.monotonic_ns() if now_ns is None else now_ns
        return (now - self._began_ns) // 1_000

    def _port(self, server: int) -> int:
        port: int = self._servers[server].sockets[0].getsockname()[1]
        return port

    # Connections

    def _accept(self, to_node: bool) -> Any:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if self._is_over:
                writer.transport.abort()
                return
            connection = ProxiedConnection(len(self._connections), writer)
            self._connections.append(connection)
            self.events.append(ConnectionOpened(self.at_us(), connection.number, to_node))
            self._start(self._work(connection), self._workers)
            self._start(self._read(connection, reader), self._readers)

        return serve

    def _start(self, work: Any, tasks: set[asyncio.Task[None]]) -> None:
        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _read(self, connection: ProxiedConnection, reader: asyncio.StreamReader) -> None:
        unfinished = bytearray()
        with suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                unfinished += chunk
                for payload in take_frames(unfinished):
                    self._take_request(connection, payload)
        connection.is_closed = True
        self.events.append(ConnectionClosed(self.at_us(), connection.number))
        connection.writer.transport.abort()

    def _take_request(self, connection: ProxiedConnection, payload: bytes) -> None:
        try:
            header, body = decode_request(payload)
            self._note_request(connection, header, body)
        except (DecodeError, ValueError) as error:
            # If impl's node does not understand a request either, it answers or refuses the request
            # itself.
            if payload[:2] == ApiKey.PRODUCE.to_bytes(2, "big"):
                self.problem = f"connection {connection.number}: {error}"
            header, body = {"api_key": -1, "api_version": -1, "correlation_id": -1}, {}
        fault = next(self._faults.get(header["api_key"], iter(())), PASS)
        if not connection.is_cut:
            connection.requests.put_nowait(ProxiedRequest(payload, header, body, fault))

    def _note_request(self, connection: ProxiedConnection, header: Value, body: Value) -> None:
        where = (self.at_us(), connection.number, header["correlation_id"])
        if header["api_key"] == ApiKey.PRODUCE:
            batches = [
                batch
                for _, partition in rows_of(body)
                for batch in decode_sent(partition["index"], partition["records"] or b"")
            ]
            version, acks = header["api_version"], body["acks"]
            self.events.append(ProduceRequested(*where, tuple(batches), version, acks))
        elif header["api_key"] == ApiKey.INIT_PRODUCER_ID:
            bumped = (body["producer_id"], body["producer_epoch"])
            self.events.append(ProducerIdRequested(*where, *bumped))
        elif is_of_transactions(header["api_key"]):
            self.events.append(requested(where, header, body))

    # Responses

    async def _work(self, connection: ProxiedConnection) -> None:
        while not connection.is_cut:
            request = await connection.requests.get()
            await self._handle(connection, request)

    async def _handle(self, connection: ProxiedConnection, request: ProxiedRequest) -> None:
        kind, delay_s = request.fault.kind, request.fault.delay_ms / 1000
        if kind.is_cut:
            self._cut(connection)
        if kind == FaultKind.CUT:
            return
        if kind == FaultKind.CUT_LATE:
            await asyncio.sleep(delay_s)
        connection.is_stalled |= kind == FaultKind.STALL
        answer = self._respond(request)
        if kind == FaultKind.DELAY:
            await asyncio.sleep(delay_s)
        if answer is not None and not connection.is_silent:
            self._note_answer(connection, request, answer)
            connection.writer.write(frame(answer))

    def _cut(self, connection: ProxiedConnection) -> None:
        connection.is_cut = True
        if connection.is_closed or connection.writer.is_closing():
            return
        self.events.append(ConnectionCut(self.at_us(), connection.number))
        with suppress(OSError):
            connection.writer.write_eof()

    def _respond(self, request: ProxiedRequest) -> bytes | None:
        """The node's response, or the response of the fault in its place."""
        fault, header = request.fault, request.header
        if fault.kind == FaultKind.FENCE:
            self._ask_node(taking_over())
            self.events.append(TransactionalIdFenced(self.at_us(), NOBODY))
        if fault.kind not in (FaultKind.REFUSE, FaultKind.REPLACE):
            return self._ask_node(request.payload)
        if header["api_key"] == ApiKey.PRODUCE:
            return self._respond_with_error(request)
        if fault.kind == FaultKind.REPLACE:
            self._ask_node(request.payload)
        body = refusal(header["api_key"], request.body, fault.error)
        return encode_response(*identity(header), body)

    def _ask_node(self, payload: bytes) -> bytes | None:
        try:
            return self._node.handle(payload, round(time.time() * 1000))
        except CloseConnection as error:
            self.problem = self.problem or f"the node closes a connection: {error}"
            return None

    def _respond_with_error(self, request: ProxiedRequest) -> bytes | None:
        """The response to a Produce with the fault's error for some partitions; the other
        partitions have the node's rows."""
        fault, header, payload = request.fault, request.header, request.payload
        hit = [
            (topic, row)
            for topic, row in rows_of(request.body)
            if fault.partition in (None, row["index"])
        ]
        if not hit:
            return self._ask_node(payload)
        if fault.kind == FaultKind.REFUSE:
            rest = without_partitions(request.body, {row["index"] for _, row in hit})
            payload = encode_request(*identity(header), header["client_id"], rest)
        answer = self._ask_node(payload)
        body = {"topics": []} if answer is None else decode_answer(header, answer)
        return encode_response(*identity(header), with_error(body, hit, fault))

    def _note_answer(
        self, connection: ProxiedConnection, request: ProxiedRequest, answer: bytes
    ) -> None:
        header = request.header
        where = (self.at_us(), connection.number, header["correlation_id"])
        if header["api_key"] == ApiKey.PRODUCE:
            rows = rows_of(decode_answer(header, answer))
            self.events.append(ProduceAnswered(*where, tuple(result_of(row) for _, row in rows)))
        elif header["api_key"] == ApiKey.INIT_PRODUCER_ID:
            body = decode_answer(header, answer)
            given = (body["error_code"], body["producer_id"], body["producer_epoch"])
            self.events.append(ProducerIdAnswered(*where, *given))
        elif is_of_transactions(header["api_key"]):
            self.events.append(answered(where, header, decode_answer(header, answer)))


# Messages


def identity(header: Value) -> tuple[int, int, int]:
    """API key, version and correlation id of a request."""
    return header["api_key"], header["api_version"], header["correlation_id"]


def decode_answer(header: Value, answer: bytes) -> Value:
    """The body of the response to a request. Raises DecodeError."""
    return decode_response(header["api_key"], header["api_version"], answer)[1]


def rows_of(body: Value) -> list[tuple[Value, Value]]:
    """Each partition of a Produce request or response, with its topic."""
    return [(topic, row) for topic in body["topics"] for row in topic["partitions"]]


def decode_sent(partition: int, data: bytes) -> list[WireBatch]:
    """The batches in some bytes. Raises DecodeError, ValueError for a record that is no number."""
    return [
        WireBatch(
            partition,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            () if batch.is_control else tuple(int(record.value or b"") for record in batch.records),
            batch.is_transactional,
            ControlType(control_type(batch.records[0])).name if batch.is_control else "",
        )
        for batch in decode_batches(data)
    ]


def without_partitions(body: Value, partitions: set[int]) -> Value:
    """A Produce request or response without some partitions."""
    topics = [
        topic | {"partitions": [p for p in topic["partitions"] if p["index"] not in partitions]}
        for topic in body["topics"]
    ]
    return body | {"topics": [topic for topic in topics if topic["partitions"]]}


def with_error(body: Value, hit: list[tuple[Value, Value]], fault: RequestFault) -> Value:
    """A Produce response with the fault's error for some partitions, each with its topic."""
    kept = without_partitions(body, {row["index"] for _, row in hit})["topics"]
    error = {
        "error_code": fault.error,
        "base_offset": -1,
        "log_append_time_ms": -1,
        "log_start_offset": fault.log_start_offset,
    }
    refused = [
        {
            "name": topic["name"],
            "topic_id": topic["topic_id"],
            "partitions": [{"index": row["index"]} | error],
        }
        for topic, row in hit
    ]
    return body | {"topics": kept + refused}


def result_of(row: Value) -> PartitionResult:
    """One partition's row of a Produce response."""
    code = int(row["error_code"])
    return PartitionResult(row["index"], code, row["base_offset"], row["log_start_offset"])
