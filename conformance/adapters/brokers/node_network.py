"""Nodes of `impl` in this process, behind connections like those of brokers: bytes in, bytes out.

1. The requests of a connection are served one after the other, as on a broker's sockets.
2. Time passes only while a caller waits: `ANSWER_MS` for each answer, and the duration of a sleep.
   Meanwhile nodes do what is due. So no node is ever slow, and the same traces end the same way.
3. A frozen node takes no request until it is thawed. A killed node loses the messages under way,
   and leads its partitions anew when it is back.
"""

from __future__ import annotations

import time
from collections import deque
from math import ceil
from typing import Any, Final

from conformance.adapters.brokers.kafka.connection import ANSWER_TIMEOUT_MS, BrokerConnection
from conformance.adapters.brokers.kafka.errors import AnswerTimeout, ConnectionLost
from conformance.adapters.impl.shared.nodes import NodeRequest, Nodes, Question
from impl.broker.cluster import BrokerEndPoint
from impl.protocol.primitives import frame, take_frames

ANSWER_MS: Final = 1
"""The time that an answer takes."""
TICK_MS: Final = 100
"""The longest interval at which nodes look for what is due."""
MARKER_VERSION: Final = 2
"""The newest version of WriteTxnMarkers, which has the transaction's version (KIP-1228)."""
MOST_ROUNDS: Final = 1_000
"""The most rounds in which work causes more work at the same time."""


class VersionMismatch(Exception):
    """Nodes have agreed on a version other than the newest that both serve."""


class NodesUnsettled(Exception):
    """Nodes cause work for each other without end."""


class NodeNetwork(Nodes):
    """This many nodes, numbered from 1, with the `BrokersClock` of all."""

    def __init__(self, config: dict[str, Any], count: int) -> None:
        super().__init__(config, count, time.time_ns() // 1_000_000)
        self._passed_ms = 0
        self._frozen: int | None = None
        self._killed: BrokerEndPoint | None = None
        self._waiting: list[tuple[int, bytes, Question]] = []
        self.settle()

    # ---- time

    def now_s(self) -> float:
        """See `BrokersClock`."""
        return self._passed_ms / 1_000

    def sleep(self, seconds: float) -> None:
        """See `BrokersClock`."""
        left_ms = ceil(1_000 * seconds)
        while left_ms > 0:
            self.pass_time(min(left_ms, TICK_MS))
            left_ms -= TICK_MS

    def pass_time(self, ms: int) -> None:
        """Let this much time pass, and do what is due then."""
        self._passed_ms += ms
        for node_id in self.clocks_ms:
            self.clocks_ms[node_id] += ms
        self.settle()

    def settle(self) -> None:
        """Let all nodes do what is due, until nothing is left. Raises NodesUnsettled."""
        for _ in range(MOST_ROUNDS):
            for node_id in self.by_id:
                if node_id != self._frozen:
                    self.advance(node_id)
            if not any(map(self._is_due, self.by_id)):
                return
        raise NodesUnsettled(f"{MOST_ROUNDS} rounds")

    def _is_due(self, node_id: int) -> bool:
        due_ms = self.by_id[node_id].next_due_ms
        return node_id != self._frozen and due_ms is not None and due_ms <= self.clocks_ms[node_id]

    # ---- clients

    def deliver(self, node_id: int, payload: bytes, question: Question) -> None:
        """Deliver a client's request, and do everything that follows."""
        if node_id == self._frozen:
            self._waiting.append((node_id, payload, question))
            return
        self.send_payload(node_id, payload, question)
        self.settle()

    # ---- faults

    def waits(self, request: NodeRequest) -> bool:
        """Whether a request waits because its node is frozen. Raises VersionMismatch."""
        version = request.header["api_version"]
        if request.is_marker and version != MARKER_VERSION:
            raise VersionMismatch(f"a marker between nodes has version {version}")
        return request.request.node_id == self._frozen

    def freeze(self, node_id: int) -> None:
        """Let the node do nothing until `thaw`."""
        self._frozen = node_id

    def kill(self, node_id: int) -> None:
        """As `freeze`, and the partitions of the node lose their leader."""
        self.freeze(node_id)
        self._killed = self.cluster.brokers[node_id]
        self.cluster.remove(node_id)
        self._lose_requests()

    def thaw(self) -> None:
        """Resume the node that is frozen, or restart the killed one, which leads its partitions
        anew."""
        node_id, self._frozen = self._frozen, None
        assert node_id is not None, "a node is frozen"
        if self._killed is not None:
            self.cluster.register(self._killed)
            self._killed = None
            self.cluster.rejoin(node_id)
        held, self._held = self._held, []
        for request in held:
            self._arrive(request)
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            self.send_payload(*one)
        self.settle()

    def _lose_requests(self) -> None:
        held, self._held = self._held, []
        for request in held:
            self._answer(request, None)


class NodeConnection(BrokerConnection):
    """A client's connection to a node. See `BrokerConnection`."""

    def __init__(
        self, nodes: NodeNetwork, node_id: int, timeout_ms: int = ANSWER_TIMEOUT_MS
    ) -> None:
        self._nodes = nodes
        self._node_id = node_id
        self._requests: deque[bytes] = deque()
        self._served: Question | None = None
        self._answers = bytearray()
        super().__init__("node", node_id, timeout_ms=timeout_ms)

    def _connect(self) -> None:
        """Nothing: nodes are always reachable."""

    def close(self) -> None:
        """Close the connection; requests that were not served are lost."""
        self._requests.clear()

    abort = close

    def _write(self, data: bytes) -> None:
        self._requests.extend(take_frames(bytearray(data)))
        self._serve()

    def _read(self, timeout_s: float) -> bytes:
        """The answers that have arrived. Raises AnswerTimeout, ConnectionLost."""
        self._nodes.pass_time(ANSWER_MS)
        deadline_s = self._nodes.now_s() + timeout_s
        self._serve()
        while not self._answers:
            if self._nodes.now_s() >= deadline_s:
                raise AnswerTimeout(f"{self.peer}: no answer in {timeout_s:.0f} s")
            self._nodes.pass_time(TICK_MS)
            self._serve()
        answers, self._answers = bytes(self._answers), bytearray()
        return answers

    def _serve(self) -> None:
        """Take the answer if there is one, and deliver the next request."""
        while True:
            if self._served is not None:
                if not self._served.is_over:
                    return
                if self._served.reason:
                    raise ConnectionLost(f"{self.peer}: {self._served.reason}")
                if self._served.answer is not None:
                    self._answers += frame(self._served.answer)
                self._served = None
            if not self._requests:
                return
            self._served = Question(0, 0)
            self._nodes.deliver(self._node_id, self._requests.popleft(), self._served)
