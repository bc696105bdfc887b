"""A broker without sockets: request bytes in, response bytes out.

Six rules:

1. `receive`, `receive_answer` and `advance` are the only ways in; the time is an argument; what is
   to be sent comes back as values. Nothing is written outside the node and its `Cluster`.
2. What the connection cannot survive is `Close`: a driver closes and goes on. Everything else is
   an answer with an error code.
3. An acks=0 request is never answered; if it fails, the connection is closed, as Kafka does.
4. ApiVersions of an unknown version is answered in the form of version 0. Produce is advertised
   from 0, because old clients break otherwise (KAFKA-18659), and refused below 3.
5. A partition has one replica, its leader: an append is replicated at once, so the high watermark
   follows the end of the log before the answer leaves.
6. What need not be done before an answer is done by `advance`: blocks of producer ids, markers,
   time-outs. A transaction is prepared after its EndTxn is answered, and complete after `advance`.

Theory of operation: `receive` decodes, finds the API's handler in a table, and encodes what it
returns. A handler sees and returns plain dicts; one that has to wait, for another broker or for
time to pass, returns LATER and calls `answer` when it knows. `handle` is for drivers that want one
answer at once: it advances, receives, and advances until the answer is there; what would have to
wait for time is told so.
Sources: `KafkaApis`, `SocketServer.processCompletedReceives`; release 4.3.1, no authorizer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from types import MappingProxyType
from typing import Final

from impl.broker import (
    group_requests,
    metadata_requests,
    produce_requests,
    reads,
    transaction_requests,
)
from impl.broker.api_versions import OLDEST_SERVED, api_versions, version_rows
from impl.broker.cluster import Broker, Cluster, leader_on
from impl.broker.coordinating import Coordinating
from impl.broker.outputs import (
    LATER,
    BrokerRequest,
    Close,
    CloseConnection,
    Later,
    Output,
    Request,
    Response,
)
from impl.broker.producer_ids import (
    BlockSource,
    ProducerIdController,
    ProducerIdManager,
)
from impl.broker.topics import MAX_PARTITIONS, Topic, Topics
from impl.broker.verification import AddPartitionsToTxnManager
from impl.coordinator.config import TransactionConfig
from impl.coordinator.offsets import OffsetsConfig
from impl.partition.leader import PartitionLeader
from impl.partition.replica_log import DEFAULT_CONFIG
from impl.partition.rules import DEFAULT_RULES, TransactionRules
from impl.partition.validation import LogConfig
from impl.protocol.codegen import Value
from impl.protocol.errors import DecodeError, ErrorCode, UnsupportedVersion
from impl.protocol.messages import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    encode_unsupported_version,
)
from impl.protocol.schemas import SUPPORTED_VERSIONS, ApiKey
from impl.settings import MAX_PORT, InvalidSetting, check_least

__all__ = ["CloseConnection", "Node", "NodeConfig"]


_LEAST: Final = {
    "node_id": 0,
    "port": 0,
    "num_partitions": 1,
    "broker_epoch": 0,
    "producer_id_expiration_check_interval_ms": 0,
    "log_retention_check_interval_ms": 0,
    "add_partitions_to_txn_retry_backoff_ms": 0,
    "add_partitions_to_txn_retry_backoff_max_ms": 0,
    "coordinator_lag_ms": 0,
    "coordinator_load_ms": 0,
}


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """A node's settings; Kafka's defaults where it has any. Times in milliseconds.

    `coordinator_lag_ms`: for as long coordinators do not know that partitions have moved. One that
    was deposed answers from memory meanwhile, and cannot write; a new one is none yet.
    `coordinator_load_ms`: for as long a new one reads its log: COORDINATOR_LOAD_IN_PROGRESS.

    Raises `InvalidSetting`.
    """

    node_id: int = 1
    host: str = "localhost"
    port: int = 9092
    cluster_id: str = "kafka-eos"
    num_partitions: int = 1
    broker_epoch: int = 0
    auto_create_topics: bool = True
    producer_id_expiration_check_interval_ms: int = 600_000
    log_retention_check_interval_ms: int = 300_000
    add_partitions_to_txn_retry_backoff_ms: int = 20
    add_partitions_to_txn_retry_backoff_max_ms: int = 100
    coordinator_lag_ms: int = 0
    coordinator_load_ms: int = 0
    log: LogConfig = DEFAULT_CONFIG
    rules: TransactionRules = DEFAULT_RULES
    transactions: TransactionConfig = field(default_factory=TransactionConfig)
    offsets: OffsetsConfig = field(default_factory=OffsetsConfig)

    def __post_init__(self) -> None:
        check_least(self, _LEAST)
        if self.num_partitions > MAX_PARTITIONS:
            raise InvalidSetting(self, "num_partitions", f"at most {MAX_PARTITIONS}")
        if self.port > MAX_PORT:
            raise InvalidSetting(self, "port", f"at most {MAX_PORT}")


class Node:
    """One broker, and the controller's part that gives producer ids.

    Public state, to be read: `config`, `cluster`, `topics`, `producer_ids`, `controller`,
    `coordinating` (both coordinators).
    """

    __slots__ = (
        "_awaited",
        "_correlation_ids",
        "_deferred",
        "_due_ms",
        "_outputs",
        "_timers",
        "_waiting",
        "cluster",
        "config",
        "controller",
        "coordinating",
        "producer_ids",
        "topics",
        "verification",
    )

    def __init__(
        self,
        config: NodeConfig | None = None,
        *,
        blocks: BlockSource | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        """`blocks` outlives the node: give the same one to a node that takes this one's place.

        Nodes that are given the same `cluster` are one; it has blocks of its own. Raises
        `TypeError` for both.
        """
        if blocks is not None and cluster is not None:
            raise TypeError("a cluster has its own blocks: Cluster(..., blocks=blocks)")
        me = self.config = config or NodeConfig()
        self.cluster = cluster or Cluster(me.cluster_id, me.log, me.rules, blocks)
        self.cluster.register(Broker(me.node_id, me.host, me.port))
        self.topics: Topics = self.cluster.topics
        self.producer_ids = ProducerIdManager()
        self.controller = ProducerIdController(self.cluster.producer_id_blocks)
        self.controller.register(me.node_id, me.broker_epoch)
        self.coordinating = Coordinating(self)
        self.verification = AddPartitionsToTxnManager(self)
        self._outputs: list[Output] = []
        self._deferred: deque[Callable[[int], None]] = deque()
        self._timers: list[tuple[int, int, Callable[[int], None]]] = []
        self._awaited: dict[int, tuple[int, int, Callable[[Value | None, int], None]]] = {}
        self._waiting: list[tuple[Request, int, Callable[[bool], Value | None]]] = []
        self._correlation_ids = count(1)
        self._due_ms: dict[str, int] = {}

    # ---- ways in

    def receive(self, reference: Hashable, payload: bytes, now_ms: int) -> list[Output]:
        """A request, from a client or a broker, without its size; `reference` comes back with it.

        `now_ms` is the broker's clock, ms since the epoch. A driver gives the next request of a
        connection when it has the answer to this one.
        """
        try:
            self._receive(reference, payload, now_ms)
        except CloseConnection as error:
            self._outputs.append(Close(reference, str(error)))
        return self._take_outputs()

    def _receive(self, reference: Hashable, payload: bytes, now_ms: int) -> None:
        try:
            header, body = decode_request(payload)
        except UnsupportedVersion as error:
            if error.api_key != ApiKey.API_VERSIONS:
                raise CloseConnection(str(error)) from error
            served = SUPPORTED_VERSIONS[ApiKey.API_VERSIONS]
            answer = encode_unsupported_version(error.correlation_id, served.first, served.last)
            self._outputs.append(Response(reference, answer))
            return
        except DecodeError as error:
            raise CloseConnection(str(error)) from error
        api_key, version = header["api_key"], header["api_version"]
        if api_key not in _HANDLERS:
            raise CloseConnection(f"api key {api_key} is not served")
        if version < OLDEST_SERVED.get(api_key, 0):
            raise CloseConnection(f"api key {api_key} is served from {OLDEST_SERVED[api_key]}")
        request = Request(reference, ApiKey(api_key), version, header["correlation_id"], body)
        self.coordinating.follow_leadership(now_ms)
        body_or_later = _HANDLERS[request.api_key](self, request, now_ms)
        if body_or_later is not LATER:
            assert not isinstance(body_or_later, Later)
            self.answer(request, body_or_later)

    def receive_answer(
        self, correlation_id: int, payload: bytes | None, now_ms: int
    ) -> list[Output]:
        """Another broker's answer to a `BrokerRequest`; None if there will be none.

        An answer that nobody awaits any more is dropped; one that cannot be read is none.
        """
        awaited = self._awaited.pop(correlation_id, None)
        if awaited is not None:
            api_key, version, then = awaited
            body: Value | None = None
            if payload is not None:
                try:
                    body = decode_response(api_key, version, payload)[1]
                except DecodeError:
                    body = None
            then(body, now_ms)
        return self._take_outputs()

    def advance(self, now_ms: int) -> list[Output]:
        """Do what is due, and what was put off."""
        self.coordinating.follow_leadership(now_ms)
        self._serve_controller(now_ms)
        self._run_periodic_checks(now_ms)
        self.coordinating.run_periodic_checks(now_ms)
        while self._timers and self._timers[0][0] <= now_ms:
            heappop(self._timers)[2](now_ms)
        for _ in range(len(self._deferred)):
            self._deferred.popleft()(now_ms)
        self._waiting = [row for row in self._waiting if not self._settle(*row, now_ms)]
        return self._take_outputs()

    def _settle(
        self, request: Request, deadline_ms: int, look: Callable[[bool], Value | None], now_ms: int
    ) -> bool:
        body = look(now_ms >= deadline_ms)
        if body is not None:
            self.answer(request, body)
        return body is not None

    def handle(self, payload: bytes, now_ms: int) -> bytes | None:
        """The response to one request, both without their 4-byte size; None for acks=0.

        For one node alone: a request to another broker fails, what waits for time waits no longer.
        Raises `CloseConnection`.
        """
        reference = object()
        outputs = self.advance(now_ms) + self.receive(reference, payload, now_ms)
        while True:
            for output in outputs:
                if isinstance(output, Close) and output.reference is reference:
                    raise CloseConnection(output.reason)
                if isinstance(output, Response) and output.reference is reference:
                    return output.payload
            outputs = [
                done
                for output in outputs
                if isinstance(output, BrokerRequest)
                for done in self.receive_answer(output.correlation_id, None, now_ms)
            ]
            outputs += self._hurry(now_ms) if not outputs else []

    def _hurry(self, now_ms: int) -> list[Output]:
        """Let whoever waits wait no longer, without any other clock being moved."""
        for request, _, look in self._waiting:
            self.answer(request, look(True))
        self._waiting = []
        while self._timers and not self._outputs:
            due_ms, _, action = heappop(self._timers)
            action(max(now_ms, due_ms))
        assert self._outputs, "a request is answered, or waits for time"
        return self._take_outputs()

    @property
    def next_due_ms(self) -> int | None:
        """When `advance` should be called at the latest; 0 for at once, None for any time."""
        if self._deferred or self.producer_ids.is_waiting_to_ask:
            return 0
        times = [due_ms for due_ms, *_ in self._timers[:1]]
        return min(times + [deadline_ms for _, deadline_ms, _ in self._waiting], default=None)

    def _take_outputs(self) -> list[Output]:
        outputs, self._outputs = self._outputs, []
        return outputs

    # ---- for handlers

    def answer(self, request: Request, body: Value | None) -> None:
        """Answer a request, now or after LATER; None where its client expects no answer."""
        payload = None
        if body is not None:
            payload = encode_response(
                request.api_key, request.version, request.correlation_id, body
            )
        self._outputs.append(Response(request.reference, payload))

    def close(self, request: Request, reason: str) -> None:
        """Close the connection of a request instead of answering it."""
        self._outputs.append(Close(request.reference, reason))

    def ask(
        self,
        node_id: int,
        api_key: ApiKey,
        version: int,
        body: Value,
        then: Callable[[Value | None, int], None],
    ) -> None:
        """Send a request to another broker; `then` gets its answer and the time, or None."""
        correlation_id = next(self._correlation_ids)
        client_id = f"broker-{self.config.node_id}"
        payload = encode_request(api_key, version, correlation_id, client_id, body)
        self._awaited[correlation_id] = (api_key, version, then)
        self._outputs.append(BrokerRequest(node_id, correlation_id, payload))

    def defer(self, action: Callable[[int], None]) -> None:
        """Do this in the next `advance`."""
        self._deferred.append(action)

    def at(self, due_ms: int, action: Callable[[int], None]) -> None:
        """Do this in the first `advance` from `due_ms` on."""
        heappush(self._timers, (due_ms, next(self._correlation_ids), action))

    def wait(
        self, request: Request, deadline_ms: int, look: Callable[[bool], Value | None]
    ) -> None:
        """Answer when `look` finds something; from `deadline_ms` on it is told that it must."""
        self._waiting.append((request, deadline_ms, look))

    def leader(
        self, topic: Topic | ErrorCode | None, partition: int
    ) -> PartitionLeader | ErrorCode:
        """A partition's leader if it is here; else what a client is told."""
        return leader_on(topic, partition, self.config.node_id)

    def is_due(self, setting: str, interval_ms: int, now_ms: int) -> bool:
        """Whether this setting's interval has passed; the first one begins with the first call."""
        due_ms = self._due_ms.setdefault(setting, now_ms + interval_ms)
        if now_ms < due_ms:
            return False
        self._due_ms[setting] = now_ms + interval_ms
        return True

    # ---- the node's own work

    def _serve_controller(self, now_ms: int) -> None:
        if self.producer_ids.take_request():
            me = self.config
            answer = self.controller.allocate(me.node_id, me.broker_epoch)
            self.producer_ids.receive(answer, now_ms)

    def _run_periodic_checks(self, now_ms: int) -> None:
        """Producers and segments that are too old go. `LogManager.startup`."""
        me = self.config
        expire = self.is_due("expire", me.producer_id_expiration_check_interval_ms, now_ms)
        delete = self.is_due("delete", me.log_retention_check_interval_ms, now_ms)
        for topic in self.topics if expire or delete else ():
            for leader, node_id in zip(topic.partitions, topic.leader_ids, strict=True):
                if expire and node_id == me.node_id:
                    leader.remove_expired_producers(now_ms)
                if delete and node_id == me.node_id:
                    leader.log.delete_old_segments(now_ms)

    def _allocate_producer_ids(self, request: Request, now_ms: int) -> Value:
        """What another broker asks the controller. `ControllerApis`."""
        body = request.body
        block = self.controller.allocate(body["broker_id"], body["broker_epoch"])
        if isinstance(block, ErrorCode):
            return {"error_code": block, "producer_id_start": 0, "producer_id_len": 0}
        return {
            "error_code": ErrorCode.NONE,
            "producer_id_start": block.first_producer_id,
            "producer_id_len": block.size,
        }

    def _api_versions(self, request: Request, now_ms: int) -> Value:
        return api_versions(request, _ADVERTISED, self.config.transactions.transaction_version)


Handler = Callable[[Node, Request, int], Value | Later | None]

_HANDLERS: Final[Mapping[ApiKey, Handler]] = MappingProxyType(
    {
        ApiKey.API_VERSIONS: Node._api_versions,
        ApiKey.ALLOCATE_PRODUCER_IDS: Node._allocate_producer_ids,
        **produce_requests.HANDLERS,
        **reads.HANDLERS,
        **metadata_requests.HANDLERS,
        **transaction_requests.HANDLERS,
        **group_requests.HANDLERS,
    }
)
_ADVERTISED: Final = version_rows(_HANDLERS)
