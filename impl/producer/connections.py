"""The open requests of each node, as the answers must come.

1. Answers of one connection come in the order of its requests; any other one is refused.
2. A connection ends with all its requests. A later one to the same node has other correlation ids,
   so that nothing late can be taken for an answer.
3. A request whose answer is overdue ends its connection.

Theory of operation: the core asks `is_ready` before it sends and tells of each request with `open`.
An answer is looked at with `oldest` and, once it is understood, closed with `answered`; `end`
returns what a broken connection leaves without an answer. Source: `NetworkClient`,
`InFlightRequests` of Kafka 4.3.1.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from impl.producer.batch import ProducerBatch
from impl.producer.errors import UnexpectedAnswerError
from impl.settings import INT_MAX

NO_NODE: Final = -1
"""The leader of a partition whose leader is not known."""


class Request:
    """An open request; one without batches is InitProducerId. `sent_ms` is in milliseconds."""

    __slots__ = ("batches", "correlation_id", "sent_ms")

    def __init__(self, correlation_id: int, sent_ms: int, batches: list[ProducerBatch]) -> None:
        self.correlation_id = correlation_id
        self.sent_ms = sent_ms
        self.batches = batches


class Connection:
    """The open requests of one node, oldest first, and until when it asked to be left alone."""

    __slots__ = ("in_flight", "node_id", "throttled_until_ms")

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.in_flight: deque[Request] = deque()
        self.throttled_until_ms = 0


class Connections:
    """All nodes of one producer: see the rules above."""

    def __init__(self, max_in_flight: int, request_timeout_ms: int) -> None:
        self._max_in_flight = max_in_flight
        self._request_timeout_ms = request_timeout_ms
        self._nodes: dict[int, Connection] = {}
        self._connection_of: dict[int, Connection] = {}
        self._next_correlation_id = 0

    def is_ready(self, node_id: int, now_ms: int) -> bool:
        """Whether the node may get one more request now. `NetworkClient.canSendRequest`."""
        connection = self._nodes.get(node_id)
        return connection is None or (
            len(connection.in_flight) < self._max_in_flight
            and now_ms >= connection.throttled_until_ms
        )

    def least_loaded(self, node_ids: Iterable[int], now_ms: int) -> int:
        """The ready node with the fewest open requests, the lowest id first; else NO_NODE."""
        ready = (node_id for node_id in node_ids if self.is_ready(node_id, now_ms))
        return min(ready, key=lambda node_id: (self._load(node_id), node_id), default=NO_NODE)

    def _load(self, node_id: int) -> int:
        connection = self._nodes.get(node_id)
        return 0 if connection is None else len(connection.in_flight)

    def open(self, node_id: int, batches: list[ProducerBatch], now_ms: int) -> int:
        """A request goes out; the correlation id that it carries, from 0 to 2147483647."""
        connection = self._nodes.get(node_id)
        if connection is None:
            connection = self._nodes[node_id] = Connection(node_id)
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & INT_MAX
        connection.in_flight.append(Request(correlation_id, now_ms, batches))
        self._connection_of[correlation_id] = connection
        return correlation_id

    def oldest(self, correlation_id: int) -> Request:
        """The open request with this id. Raises `UnexpectedAnswerError` if it is not the next."""
        connection = self._connection_of.get(correlation_id)
        if connection is None:
            raise UnexpectedAnswerError(f"no open request has correlation id {correlation_id}")
        request = connection.in_flight[0]
        if request.correlation_id != correlation_id:
            raise UnexpectedAnswerError(
                f"node {connection.node_id} must answer {request.correlation_id} before"
                f" {correlation_id}"
            )
        return request

    def answered(self, correlation_id: int, throttled_until_ms: int) -> None:
        """The answer to this oldest request has come; leave the node alone until then."""
        connection = self._connection_of.pop(correlation_id)
        connection.in_flight.popleft()
        connection.throttled_until_ms = max(connection.throttled_until_ms, throttled_until_ms)

    def end(self, node_id: int) -> deque[Request]:
        """The connection is no more; its open requests, oldest first."""
        connection = self._nodes.pop(node_id, None)
        left: deque[Request] = deque() if connection is None else connection.in_flight
        for request in left:
            del self._connection_of[request.correlation_id]
        return left

    def overdue(self, now_ms: int) -> list[int]:
        """The nodes that have not answered for request_timeout_ms. `nodesWithTimedOutRequests`."""
        timeout_ms = self._request_timeout_ms
        return [
            connection.node_id
            for connection in self._nodes.values()
            if connection.in_flight and now_ms - connection.in_flight[0].sent_ms > timeout_ms
        ]

    @property
    def is_initializing(self) -> bool:
        """Whether an InitProducerId is open."""
        return any(
            not request.batches
            for connection in self._nodes.values()
            for request in connection.in_flight
        )

    def due_times_ms(self) -> Iterator[int]:
        """When a node may be used again, and when an answer is overdue."""
        for connection in self._nodes.values():
            yield connection.throttled_until_ms
            if connection.in_flight:
                yield connection.in_flight[0].sent_ms + self._request_timeout_ms + 1
