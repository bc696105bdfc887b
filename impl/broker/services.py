"""What the parts of a node may do: answer, ask other brokers, and put work off."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

from impl.broker.cluster import BrokerEndPoint, Cluster
from impl.broker.config import NodeConfig
from impl.broker.outputs import BrokerRequest, Close, DecodedRequest, Output, Response
from impl.broker.resource_configs import ALL_BROKERS, ConfigResourceType
from impl.broker.setting_changes import with_changes
from impl.broker.topics import Topic, Topics
from impl.protocol.errors import ErrorCode
from impl.protocol.message_form import Value
from impl.protocol.messages import encode_request, encode_response
from impl.protocol.schemas import ApiKey

if TYPE_CHECKING:
    from impl.partition.leader import PartitionLeader
    from impl.security.acls import AclOperation, ResourceType

Action = Callable[[int], None]
"""Work that is done later; it receives the time, ms."""

AnswerReceiver = Callable[[Value | None, int], None]
"""Receives another broker's answer, None without one, and the time, ms."""


_new: Final = tuple.__new__


class _InFlightRequest(NamedTuple):
    """A request to another broker."""

    api_key: ApiKey
    version: int
    callback: AnswerReceiver


class _DelayedAnswer(NamedTuple):
    """`attempt` makes the answer; from `deadline_ms` on it is called with True, and has to."""

    request: DecodedRequest
    deadline_ms: int
    attempt: Callable[[bool], Value | None]


class NodeServices:
    """The side of a `Node` that its coordinators use, and its handlers.

    Read-only: `config`, which follows changes, and `started_with`; `cluster`, the metadata that all
    nodes share; `topics` of the cluster.
    """

    __slots__ = (
        "_correlation_ids",
        "_deferred",
        "_delayed_answers",
        "_due_ms",
        "_in_flight",
        "_outputs",
        "_settings_version",
        "_timers",
        "cluster",
        "config",
        "started_with",
        "topics",
    )

    def __init__(self, config: NodeConfig, cluster: Cluster) -> None:
        self.config = self.started_with = config
        self.cluster = cluster
        self._settings_version = 0
        self.topics: Topics = cluster.topics
        self._outputs: list[Output] = []
        self._deferred: deque[Action] = deque()
        self._timers: list[tuple[int, int, Action]] = []
        self._in_flight: dict[int, _InFlightRequest] = {}
        self._delayed_answers: list[_DelayedAnswer] = []
        self._correlation_ids = count(1)
        self._due_ms: dict[str, int] = {}
        cluster.register(
            BrokerEndPoint(
                config.node_id, config.host, config.port, advertised_host=config.advertised_host
            )
        )

    def follow_settings(self) -> None:
        """Have what was changed of this node's settings."""
        resources = self.cluster.resources
        if resources.version != self._settings_version:
            self._settings_version = resources.version
            kind = ConfigResourceType.BROKER
            of_all = with_changes(self.started_with, resources.get(kind, ALL_BROKERS))
            self.config = with_changes(of_all, resources.get(kind, str(self.config.node_id)))

    def answer(self, request: DecodedRequest, body: Value | None) -> None:
        """Answer a request, now or after DEFERRED; None where its client expects no answer."""
        payload = None
        if request.complete is not None:
            if body is None:
                self.close(request, "an acks=0 request was not authorized")
                return
            body = request.complete(body)
        if body is not None:
            payload = encode_response(
                request.api_key, request.version, request.correlation_id, body
            )
        self._outputs.append(_new(Response, (request.reference, payload)))

    def close(self, request: DecodedRequest, reason: str) -> None:
        """Close the connection of a request instead of answering it."""
        self._outputs.append(Close(request.reference, reason))

    def ask(
        self, node_id: int, api_key: ApiKey, version: int, body: Value, callback: AnswerReceiver
    ) -> None:
        """Send a request to another broker; `callback` gets its answer, or None, and the time."""
        correlation_id = next(self._correlation_ids)
        client_id = f"broker-{self.config.node_id}"
        payload = encode_request(api_key, version, correlation_id, client_id, body)
        self._in_flight[correlation_id] = _InFlightRequest(api_key, version, callback)
        self._outputs.append(BrokerRequest(node_id, correlation_id, payload))

    def is_allowed(
        self, request: DecodedRequest, operation: AclOperation, kind: ResourceType, name: str
    ) -> bool:
        """Whether the sender of a request may do this."""
        return self.cluster.access.is_allowed(request.session, operation, kind, name)

    def authorized_operations(self, request: DecodedRequest, kind: ResourceType, name: str) -> int:
        """What the sender of a request may do with a resource: a bit for each operation."""
        from impl.security.acls import OPERATIONS_OF  # few requests ask for it

        allowed = (
            operation
            for operation in OPERATIONS_OF[kind]
            if self.is_allowed(request, operation, kind, name)
        )
        return sum(1 << operation for operation in allowed)

    def defer(self, action: Action) -> None:
        """Run this in the next `advance`."""
        self._deferred.append(action)

    def schedule(self, due_ms: int, action: Action) -> None:
        """Run this in the first `advance` from `due_ms` on."""
        heappush(self._timers, (due_ms, next(self._correlation_ids), action))

    def answer_when(
        self, request: DecodedRequest, deadline_ms: int, attempt: Callable[[bool], Value | None]
    ) -> None:
        """Answer as soon as `attempt` returns a body.

        Each `advance` calls it, with True from `deadline_ms` on: then it has to return one.
        """
        self._delayed_answers.append(_DelayedAnswer(request, deadline_ms, attempt))

    def leader(
        self, topic: Topic | ErrorCode | None, partition: int
    ) -> PartitionLeader | ErrorCode:
        """A partition's leader if it is on this node, else the error for the client."""
        if not isinstance(topic, Topic):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic
        leader = topic.partition(partition)
        if leader is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic.placements[partition].leader_id != self.config.node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return leader

    @property
    def transaction_version(self) -> int:
        """The cluster's level of this feature."""
        level = self.cluster.transaction_version
        return self.config.transactions.transaction_version if level is None else level

    def is_due(self, check: str, interval_ms: int, now_ms: int) -> bool:
        """Whether a periodic check is due; its first interval begins with the first call."""
        due_ms = self._due_ms.setdefault(check, now_ms + interval_ms)
        if now_ms < due_ms:
            return False
        self._due_ms[check] = now_ms + interval_ms
        return True

    # ---- for the node

    @property
    def next_due_ms(self) -> int | None:
        """When `advance` should be called at the latest; 0 for at once, None if nothing waits."""
        if self._deferred:
            return 0
        times = [due_ms for due_ms, *_ in self._timers[:1]]
        return min(times + [delayed.deadline_ms for delayed in self._delayed_answers], default=None)

    def _run_due_actions(self, now_ms: int) -> None:
        while self._timers and self._timers[0][0] <= now_ms:
            heappop(self._timers)[2](now_ms)
        for _ in range(len(self._deferred)):
            self._deferred.popleft()(now_ms)
        self._delayed_answers = [
            delayed for delayed in self._delayed_answers if not self._try_answer(delayed, now_ms)
        ]

    def _try_answer(self, delayed: _DelayedAnswer, now_ms: int) -> bool:
        body = delayed.attempt(now_ms >= delayed.deadline_ms)
        if body is not None:
            self.answer(delayed.request, body)
        return body is not None

    def _skip_delays(self, now_ms: int) -> None:
        """Answer as if all deadlines had passed; no other clock advances."""
        for delayed in self._delayed_answers:
            self.answer(delayed.request, delayed.attempt(True))
        self._delayed_answers = []
        while self._timers and not self._outputs:
            due_ms, _, action = heappop(self._timers)
            action(max(now_ms, due_ms))
        assert self._outputs, "a request without an answer waits for a timer"

    def _take_outputs(self) -> list[Output]:
        outputs, self._outputs = self._outputs, []
        return outputs
