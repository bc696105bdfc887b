"""The requests in flight of each node, in the order of their answers.

1. A connection's answers arrive in the order of its requests; any other answer is refused.
2. A broken connection fails all its requests. A later connection to the same node uses other
   correlation ids, so that no late answer can match.
3. A request whose answer is overdue fails its connection.

Theory of operation: the core checks `is_ready` before it sends, and registers each request with
`open`. It finds the request of an answer with `oldest` and, once the answer is processed, calls
`complete`; `remove_node` returns the requests of a broken connection. Source: `NetworkClient`,
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
"""The node id of an unknown leader."""


class InFlightRequest:
    """A request in flight; without batches it is a transactional one, or InitProducerId."""

    __slots__ = ("batches", "correlation_id", "sent_ms")

    def __init__(self, correlation_id: int, sent_ms: int, batches: list[ProducerBatch]) -> None:
        self.correlation_id = correlation_id
        self.sent_ms = sent_ms
        self.batches = batches


class NodeQueue:
    """The requests in flight of one node, oldest first, and until when it throttles."""

    __slots__ = ("in_flight", "node_id", "throttled_until_ms")

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.in_flight: deque[InFlightRequest] = deque()
        self.throttled_until_ms = 0


class InFlightRequests:
    """The requests of one producer, by node."""

    def __init__(self, max_in_flight: int, request_timeout_ms: int) -> None:
        self._max_in_flight = max_in_flight
        self._request_timeout_ms = request_timeout_ms
        self._nodes: dict[int, NodeQueue] = {}
        self._connection_of: dict[int, NodeQueue] = {}
        self._next_correlation_id = 0

    def is_ready(self, node_id: int, now_ms: int) -> bool:
        """Whether one more request may be sent to the node now. `NetworkClient.canSendRequest`."""
        connection = self._nodes.get(node_id)
        return connection is None or (
            len(connection.in_flight) < self._max_in_flight
            and now_ms >= connection.throttled_until_ms
        )

    def least_loaded(self, node_ids: Iterable[int], now_ms: int) -> int:
        """The ready node with the fewest requests in flight, then the lowest id; else NO_NODE."""
        ready = (node_id for node_id in node_ids if self.is_ready(node_id, now_ms))
        return min(ready, key=lambda node_id: (self._load(node_id), node_id), default=NO_NODE)

    def _load(self, node_id: int) -> int:
        connection = self._nodes.get(node_id)
        return 0 if connection is None else len(connection.in_flight)

    def open(self, node_id: int, batches: list[ProducerBatch], now_ms: int) -> int:
        """Register a request; its correlation id, from 0 to 2147483647."""
        connection = self._nodes.get(node_id)
        if connection is None:
            connection = self._nodes[node_id] = NodeQueue(node_id)
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & INT_MAX
        connection.in_flight.append(InFlightRequest(correlation_id, now_ms, batches))
        self._connection_of[correlation_id] = connection
        return correlation_id

    def oldest(self, correlation_id: int) -> InFlightRequest:
        """The request with this id. Raises `UnexpectedAnswerError` if another answer is next."""
        connection = self._connection_of.get(correlation_id)
        if connection is None:
            raise UnexpectedAnswerError(f"no request in flight has correlation id {correlation_id}")
        request = connection.in_flight[0]
        if request.correlation_id != correlation_id:
            raise UnexpectedAnswerError(
                f"node {connection.node_id} must answer {request.correlation_id} before"
                f" {correlation_id}"
            )
        return request

    def complete(self, correlation_id: int, throttled_until_ms: int) -> None:
        """Remove the oldest request, which is answered; the node throttles until then."""
        connection = self._connection_of.pop(correlation_id)
        connection.in_flight.popleft()
        connection.throttled_until_ms = max(connection.throttled_until_ms, throttled_until_ms)

    def remove_node(self, node_id: int) -> deque[InFlightRequest]:
        """Forget a broken connection; its requests, oldest first."""
        connection = self._nodes.pop(node_id, None)
        left: deque[InFlightRequest] = deque() if connection is None else connection.in_flight
        for request in left:
            del self._connection_of[request.correlation_id]
        return left

    def overdue_nodes(self, now_ms: int) -> list[int]:
        """The nodes that have not answered for request_timeout_ms. `nodesWithTimedOutRequests`."""
        timeout_ms = self._request_timeout_ms
        return [
            connection.node_id
            for connection in self._nodes.values()
            if connection.in_flight and now_ms - connection.in_flight[0].sent_ms > timeout_ms
        ]

    @property
    def is_initializing(self) -> bool:
        """Whether a request without batches is in flight."""
        return any(
            not request.batches
            for connection in self._nodes.values()
            for request in connection.in_flight
        )

    def due_times_ms(self) -> Iterator[int]:
        """When throttling ends, and when answers are overdue."""
        for connection in self._nodes.values():
            yield connection.throttled_until_ms
            if connection.in_flight:
                yield connection.in_flight[0].sent_ms + self._request_timeout_ms + 1
