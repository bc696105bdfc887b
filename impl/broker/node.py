"""A broker without sockets: request bytes in, response bytes out.

Six rules:

1. `receive`, `receive_answer` and `advance` are the only inputs; the time is an argument, and what
   is to be sent is returned. A node changes nothing but itself and its `Cluster`.
2. `Close` is for requests that the connection cannot survive. Everything else is answered with an
   error code.
3. A request with acks=0 is never answered; if it fails, the connection is closed, as in Kafka.
4. An unknown version of ApiVersions is answered in the form of version 0. Produce is advertised
   from version 0, because old clients break otherwise (KAFKA-18659), and refused below 3.
5. A partition has one replica, its leader: an append is replicated at once, so the high watermark
   reaches the end of the log before the answer leaves.
6. `advance` does all work that no answer waits for: blocks of producer ids, markers, time-outs. A
   transaction is prepared when its EndTxn is answered, and complete after `advance`.

Theory of operation: `receive` decodes a request, finds the API's handler in a table, and encodes
the body that it returns. A handler that has to wait, for another broker or for time to pass,
returns LATER and calls `answer` when it can. Handlers see `HandlerContext`, the coordinators
`NodeServices`; only this module knows all of them. `handle` is for drivers that want the answer at
once: it advances, receives, and advances until the answer is there, without waiting for time.
Sources: `KafkaApis`, `SocketServer.processCompletedReceives`; release 4.3.1, no authorizer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count
from types import MappingProxyType
from typing import Final, NamedTuple

from impl.broker import (
    group_requests,
    metadata_requests,
    produce_requests,
    reads,
    transaction_requests,
)
from impl.broker.api_versions import OLDEST_SERVED, api_versions, version_rows
from impl.broker.cluster import BrokerEndPoint, Cluster, leader_on
from impl.broker.config import NodeConfig
from impl.broker.coordinators import Coordinators
from impl.broker.outputs import (
    LATER,
    BrokerRequest,
    Close,
    CloseConnection,
    DecodedRequest,
    Later,
    Output,
    Response,
)
from impl.broker.producer_ids import BlockSource, ProducerIdController, ProducerIdManager
from impl.broker.topics import Topic, Topics
from impl.broker.verification import AddPartitionsToTxnManager
from impl.partition.leader import PartitionLeader
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

Action = Callable[[int], None]
"""Work that is done later; it receives the time, ms."""


class _InFlightRequest(NamedTuple):
    """A request to another broker; `callback` receives the answer, or None, and the time."""

    api_key: ApiKey
    version: int
    callback: Callable[[Value | None, int], None]


class _DelayedAnswer(NamedTuple):
    """`attempt` makes the answer; from `deadline_ms` on it is called with True, and has to."""

    request: DecodedRequest
    deadline_ms: int
    attempt: Callable[[bool], Value | None]


class Node:
    """One broker, and the part of the controller that allocates producer ids.

    Public, read-only: `config`, `cluster`, `topics`, `producer_ids`, `controller`, `coordinators`,
    `verification`.
    """

    __slots__ = (
        "_correlation_ids",
        "_deferred",
        "_delayed_answers",
        "_due_ms",
        "_in_flight",
        "_outputs",
        "_timers",
        "cluster",
        "config",
        "controller",
        "coordinators",
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
        """`blocks` allocates producer ids; a node that replaces this one needs the same.

        Nodes with the same `cluster` form one, which has its own blocks. Raises `TypeError` if both
        are given.
        """
        if blocks is not None and cluster is not None:
            raise TypeError("a cluster has its own blocks: Cluster(..., blocks=blocks)")
        me = self.config = config or NodeConfig()
        self.cluster = cluster or Cluster(me.cluster_id, me.log, me.rules, blocks)
        self.cluster.register(BrokerEndPoint(me.node_id, me.host, me.port))
        self.topics: Topics = self.cluster.topics
        self.producer_ids = ProducerIdManager()
        self.controller = ProducerIdController(self.cluster.producer_id_blocks)
        self.controller.register(me.node_id, me.broker_epoch)
        self.coordinators = Coordinators(self, self.producer_ids.generate)
        self.verification = AddPartitionsToTxnManager(self, self.coordinators)
        self._outputs: list[Output] = []
        self._deferred: deque[Action] = deque()
        self._timers: list[tuple[int, int, Action]] = []
        self._in_flight: dict[int, _InFlightRequest] = {}
        self._delayed_answers: list[_DelayedAnswer] = []
        self._correlation_ids = count(1)
        self._due_ms: dict[str, int] = {}

    # ---- inputs

    def receive(self, reference: Hashable, payload: bytes, now_ms: int) -> list[Output]:
        """Receive a request without its size, from a client or a broker.

        The outputs that answer it carry `reference`. `now_ms` is the broker's clock, ms since the
        epoch. A driver passes the next request of a connection after the answer to this one.
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
        request = DecodedRequest(
            reference, ApiKey(api_key), version, header["correlation_id"], body
        )
        self.coordinators.follow_leadership(now_ms)
        body_or_later = _HANDLERS[request.api_key](self, request, now_ms)
        if body_or_later is not LATER:
            assert not isinstance(body_or_later, Later)
            self.answer(request, body_or_later)

    def receive_answer(
        self, correlation_id: int, payload: bytes | None, now_ms: int
    ) -> list[Output]:
        """Receive the answer to a `BrokerRequest`; None if the connection broke.

        An answer to an unknown request is dropped; one that cannot be decoded counts as None.
        """
        request = self._in_flight.pop(correlation_id, None)
        if request is not None:
            body: Value | None = None
            if payload is not None:
                with suppress(DecodeError):
                    body = decode_response(request.api_key, request.version, payload)[1]
            request.callback(body, now_ms)
        return self._take_outputs()

    def advance(self, now_ms: int) -> list[Output]:
        """Do what is due, and what was deferred."""
        self.coordinators.follow_leadership(now_ms)
        self._serve_controller(now_ms)
        self._run_periodic_checks(now_ms)
        self.coordinators.run_periodic_checks(now_ms)
        while self._timers and self._timers[0][0] <= now_ms:
            heappop(self._timers)[2](now_ms)
        for _ in range(len(self._deferred)):
            self._deferred.popleft()(now_ms)
        self._delayed_answers = [
            delayed for delayed in self._delayed_answers if not self._try_answer(delayed, now_ms)
        ]
        return self._take_outputs()

    def _try_answer(self, delayed: _DelayedAnswer, now_ms: int) -> bool:
        body = delayed.attempt(now_ms >= delayed.deadline_ms)
        if body is not None:
            self.answer(delayed.request, body)
        return body is not None

    def handle(self, payload: bytes, now_ms: int) -> bytes | None:
        """The response to one request, both without their 4-byte size; None for acks=0.

        For a cluster of one node: requests to other brokers fail, and delays are cut short. Raises
        `CloseConnection`.
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
            outputs += self._skip_delays(now_ms) if not outputs else []

    def _skip_delays(self, now_ms: int) -> list[Output]:
        """Answer as if all deadlines had passed; no other clock advances."""
        for delayed in self._delayed_answers:
            self.answer(delayed.request, delayed.attempt(True))
        self._delayed_answers = []
        while self._timers and not self._outputs:
            due_ms, _, action = heappop(self._timers)
            action(max(now_ms, due_ms))
        assert self._outputs, "a request without an answer waits for a timer"
        return self._take_outputs()

    @property
    def next_due_ms(self) -> int | None:
        """When `advance` should be called at the latest; 0 for at once, None if nothing waits."""
        if self._deferred or self.producer_ids.has_request:
            return 0
        times = [due_ms for due_ms, *_ in self._timers[:1]]
        return min(times + [delayed.deadline_ms for delayed in self._delayed_answers], default=None)

    def _take_outputs(self) -> list[Output]:
        outputs, self._outputs = self._outputs, []
        return outputs

    # ---- NodeServices

    def answer(self, request: DecodedRequest, body: Value | None) -> None:
        """`NodeServices.answer`."""
        payload = None
        if body is not None:
            payload = encode_response(
                request.api_key, request.version, request.correlation_id, body
            )
        self._outputs.append(Response(request.reference, payload))

    def close(self, request: DecodedRequest, reason: str) -> None:
        """`NodeServices.close`."""
        self._outputs.append(Close(request.reference, reason))

    def ask(
        self,
        node_id: int,
        api_key: ApiKey,
        version: int,
        body: Value,
        callback: Callable[[Value | None, int], None],
    ) -> None:
        """`NodeServices.ask`."""
        correlation_id = next(self._correlation_ids)
        client_id = f"broker-{self.config.node_id}"
        payload = encode_request(api_key, version, correlation_id, client_id, body)
        self._in_flight[correlation_id] = _InFlightRequest(api_key, version, callback)
        self._outputs.append(BrokerRequest(node_id, correlation_id, payload))

    def defer(self, action: Action) -> None:
        """`NodeServices.defer`."""
        self._deferred.append(action)

    def schedule(self, due_ms: int, action: Action) -> None:
        """`NodeServices.schedule`."""
        heappush(self._timers, (due_ms, next(self._correlation_ids), action))

    def answer_when(
        self, request: DecodedRequest, deadline_ms: int, attempt: Callable[[bool], Value | None]
    ) -> None:
        """`NodeServices.answer_when`."""
        self._delayed_answers.append(_DelayedAnswer(request, deadline_ms, attempt))

    def leader(
        self, topic: Topic | ErrorCode | None, partition: int
    ) -> PartitionLeader | ErrorCode:
        """`NodeServices.leader`."""
        return leader_on(topic, partition, self.config.node_id)

    def is_due(self, check: str, interval_ms: int, now_ms: int) -> bool:
        """`NodeServices.is_due`."""
        due_ms = self._due_ms.setdefault(check, now_ms + interval_ms)
        if now_ms < due_ms:
            return False
        self._due_ms[check] = now_ms + interval_ms
        return True

    # ---- the node's own work

    def _serve_controller(self, now_ms: int) -> None:
        if self.producer_ids.take_request():
            me = self.config
            answer = self.controller.allocate(me.node_id, me.broker_epoch)
            self.producer_ids.receive(answer, now_ms)

    def _run_periodic_checks(self, now_ms: int) -> None:
        """Remove expired producers and old segments. `LogManager.startup`."""
        me = self.config
        expire = self.is_due("expire", me.producer_id_expiration_check_interval_ms, now_ms)
        delete = self.is_due("delete", me.log_retention_check_interval_ms, now_ms)
        for topic in self.topics if expire or delete else ():
            for leader, node_id in zip(topic.partitions, topic.leader_ids, strict=True):
                if expire and node_id == me.node_id:
                    leader.remove_expired_producers(now_ms)
                if delete and node_id == me.node_id:
                    leader.log.delete_old_segments(now_ms)

    def _allocate_producer_ids(self, request: DecodedRequest, now_ms: int) -> Value:
        """A request to the controller. `ControllerApis`."""
        body = request.body
        block = self.controller.allocate(body["broker_id"], body["broker_epoch"])
        if isinstance(block, ErrorCode):
            return {"error_code": block, "producer_id_start": 0, "producer_id_len": 0}
        return {
            "error_code": ErrorCode.NONE,
            "producer_id_start": block.first_producer_id,
            "producer_id_len": block.size,
        }

    def _api_versions(self, request: DecodedRequest, now_ms: int) -> Value:
        return api_versions(request, _ADVERTISED, self.config.transactions.transaction_version)


_NodeHandler = Callable[[Node, DecodedRequest, int], Value | Later | None]

_HANDLERS: Final[Mapping[ApiKey, _NodeHandler]] = MappingProxyType(
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
