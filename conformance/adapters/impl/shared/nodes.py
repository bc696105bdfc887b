"""Nodes of `impl` in one cluster, and the network between them.

1. A request is answered before anything else happens. Only markers wait, until the model delivers
   them.
2. Each node has a clock of its own, which moves only where the model lets a time run out.

Theory of operation: clients `ask` a node in bytes, or `send` a request that is answered later.
Messages between nodes arrive at once. `deliver_markers` lets a coordinator's markers arrive.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from impl import ApiKey, Cluster, Node, NodeConfig, decode_response, encode_request
from impl.broker.outputs import BrokerRequest, Close, Output
from impl.partition.leader import PartitionLeader
from impl.protocol.messages import decode_request

CLIENT_ID: Final = "c"
PORT: Final = 9092


class UnansweredRequest(AssertionError):
    """A node did not answer, or closed the connection."""


class NodeRequest(NamedTuple):
    """A request between nodes, and who sent it."""

    source: int
    request: BrokerRequest

    @property
    def header(self) -> Any:
        """The API and version of the request."""
        return decode_request(self.request.payload)[0]

    @property
    def is_marker(self) -> bool:
        """Whether it is WriteTxnMarkers."""
        return bool(self.header["api_key"] == ApiKey.WRITE_TXN_MARKERS)


class Question:
    """A request of a client. Once it `is_over`, `answer` has the bytes, or None if no answer comes:
    because of acks=0, or because the connection was closed for a `reason`."""

    def __init__(self, api_key: int, version: int) -> None:
        self._form = api_key, version
        self.is_over = False
        self.answer: bytes | None = None
        self.reason = ""

    def end(self, answer: bytes | None, reason: str = "") -> None:
        """The node has finished the request."""
        self.is_over, self.answer, self.reason = True, answer, reason

    @property
    def body(self) -> Any:
        """The answer. Raises UnansweredRequest."""
        if self.answer is None:
            name = f"{ApiKey(self._form[0]).name} {self._form[1]}"
            raise UnansweredRequest(self.reason or f"{name} has no answer")
        return decode_response(*self._form, self.answer)[1]


class Nodes:
    """This many nodes, numbered from 1."""

    def __init__(self, config: dict[str, Any], count: int, now_ms: int = 0) -> None:
        first = NodeConfig(**config)
        self.cluster = Cluster(first.cluster_id, first.log)
        self.clocks_ms = dict.fromkeys(range(1, count + 1), now_ms)
        self._held: list[NodeRequest] = []
        self.by_id = {
            node_id: Node(
                NodeConfig(**config, node_id=node_id, port=PORT + node_id), cluster=self.cluster
            )
            for node_id in self.clocks_ms
        }
        for node in self.by_id.values():
            node.producer_ids.generate(now_ms)
            node.advance(now_ms)

    def create(self, name: str, node_ids: Sequence[int]) -> None:
        """A topic with a partition on each of these nodes."""
        self.cluster.topics.create(
            name, len(node_ids), {}, replicas=[[node_id] for node_id in node_ids]
        )

    def leader(self, name: str, partition: int = 0) -> PartitionLeader:
        """A partition's leader."""
        topic = self.cluster.topics.get(name)
        assert topic is not None, "it was created"
        return topic.partitions[partition]

    def elect(self, name: str) -> None:
        """The last node leads a topic's partitions for a while, then the former leaders lead again:
        a new leader reads the log."""
        topic = self.cluster.topics.get(name)
        assert topic is not None, "it was created"
        for partition, node_id in enumerate(topic.leader_ids):
            for leader_id in (len(self.by_id), node_id):
                self.cluster.move(name, partition, leader_id)
                for known in (leader_id, node_id):
                    self.advance(known)

    # ---- clients

    def send(self, node_id: int, api_key: int, version: int, body: Any) -> Question:
        """Send a request that may be answered later."""
        question = Question(api_key, version)
        self.send_payload(node_id, encode_request(api_key, version, 0, CLIENT_ID, body), question)
        return question

    def send_payload(self, node_id: int, payload: bytes, question: Question) -> None:
        """Send a request as bytes, without the size prefix."""
        node = self.by_id[node_id]
        self._carry(node_id, node.receive(question, payload, self.clocks_ms[node_id]))

    def ask(self, node_id: int, api_key: int, version: int, body: Any) -> Any:
        """Send a request and return its answer. Raises UnansweredRequest."""
        return self.send(node_id, api_key, version, body).body

    # ---- the network, and time

    def advance(self, node_id: int) -> None:
        """The node does everything that is due."""
        self._carry(node_id, self.by_id[node_id].advance(self.clocks_ms[node_id]))

    def deliver_markers(self, source: int, order: Sequence[int]) -> None:
        """The markers of one coordinator arrive, at these nodes in turn."""
        for target in order:
            arriving = [h for h in self._held if h.source == source and h.request.node_id == target]
            for held in arriving:
                self._held.remove(held)
                self._arrive(held)

    def waits(self, request: NodeRequest) -> bool:
        """Whether a request between nodes waits in the network."""
        return request.is_marker

    def _carry(self, node_id: int, outputs: Iterable[Output]) -> None:
        """Deliver a node's outputs to their receivers."""
        for output in outputs:
            if isinstance(output, BrokerRequest):
                held = NodeRequest(node_id, output)
                if self.waits(held):
                    self._held.append(held)
                else:
                    self._arrive(held)
            elif isinstance(output, Close):
                assert isinstance(output.reference, Question), "nodes close no node's connection"
                output.reference.end(None, output.reason)
            elif isinstance(output.reference, Question):
                output.reference.end(output.payload)
            else:
                self._answer(output.reference, output.payload)

    def _arrive(self, held: NodeRequest) -> None:
        target = held.request.node_id
        node = self.by_id[target]
        self._carry(target, node.receive(held, held.request.payload, self.clocks_ms[target]))

    def _answer(self, held: Any, payload: bytes | None) -> None:
        node, now_ms = self.by_id[held.source], self.clocks_ms[held.source]
        self._carry(held.source, node.receive_answer(held.request.correlation_id, payload, now_ms))
