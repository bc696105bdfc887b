"""Nodes, the network between them and one clock, in one thread, to be held and cut at will."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from impl.broker.cluster import Cluster
from impl.broker.config import NodeConfig
from impl.broker.node import Node
from impl.broker.outputs import LOCAL, BrokerRequest, Close, Output
from impl.coordinator.config import TransactionConfig
from impl.coordinator.inspection import TransactionView
from impl.partition.leader import PartitionLeader
from impl.protocol.errors import ErrorCode
from impl.protocol.messages import decode_request, decode_response, encode_request
from impl.protocol.record_batch import Record, client_batch, encode_batch
from impl.protocol.schemas import ApiKey
from impl.security.session import ClientSession


class Sent(NamedTuple):
    """A request from one node to another, on its way."""

    source: int
    request: BrokerRequest

    @property
    def api_key(self) -> ApiKey:
        return ApiKey(decode_request(self.request.payload)[0]["api_key"])

    @property
    def body(self) -> Any:
        return decode_request(self.request.payload)[1]


def is_marker(sent: Sent) -> bool:
    """For `holds`: keep transactions prepared."""
    return sent.api_key is ApiKey.WRITE_TXN_MARKERS


class Closed(Exception):
    """The node closed the connection."""


class Network:
    """`nodes` of one cluster. Requests between them arrive at once, but for what `holds` says."""

    def __init__(
        self,
        nodes: int = 1,
        *,
        transactions: TransactionConfig | None = None,
        cluster: Cluster | None = None,
        **more: Any,
    ) -> None:
        more |= {"transactions": transactions} if transactions else {}
        config = NodeConfig(**more)
        security = config.security
        self.cluster = cluster or Cluster(config.cluster_id, config.log, None, security)
        self.nodes = {}
        for node_id in range(1, nodes + 1):
            me = NodeConfig(**more | {"node_id": node_id, "port": 9000 + node_id})
            self.nodes[node_id] = Node(me, cluster=self.cluster)
            self.nodes[node_id].producer_ids.generate(0)
            self.nodes[node_id].advance(0)
        self.now_ms = 1_000_000
        self.holds: Callable[[Sent], bool] = lambda sent: False
        self.held: list[Sent] = []
        self.answers: dict[object, Any] = {}

    # ---- time and network

    def run(self, ms: int = 0) -> None:
        """Let `ms` pass, in steps of 1 ms while a node waits, and perform all that follows."""
        end = self.now_ms + ms
        while True:
            for _ in range(20):
                for node_id, node in self.nodes.items():
                    self.take(node_id, node.advance(self.now_ms))
            if self.now_ms == end:
                return
            due = [node.next_due_ms for node in self.nodes.values()]
            soon = [ms for ms in due if ms is not None and self.now_ms < ms < end]
            self.now_ms = min(soon, default=end)

    def deliver(self, index: int = 0) -> None:
        """Let a held request arrive."""
        self._carry(self.held.pop(index))

    def cut(self, index: int = 0) -> None:
        """Break the connection under a held request: it is never answered."""
        sent = self.held.pop(index)
        node = self.nodes[sent.source]
        self.take(sent.source, node.receive_answer(sent.request.correlation_id, None, self.now_ms))

    def take(self, node_id: int, outputs: Iterable[Output]) -> None:
        """Carry out what a node wants sent."""
        for output in outputs:
            if isinstance(output, BrokerRequest):
                sent = Sent(node_id, output)
                if self.holds(sent):
                    self.held.append(sent)
                else:
                    self._carry(sent)
            elif isinstance(output, Close):
                self.answers[output.reference] = Closed(output.reason)
            elif isinstance(output.reference, Sent):
                sent = output.reference
                answer = self.nodes[sent.source].receive_answer(
                    sent.request.correlation_id, output.payload, self.now_ms
                )
                self.take(sent.source, answer)
            else:
                self.answers[output.reference] = output.payload

    def _carry(self, sent: Sent) -> None:
        target = self.nodes[sent.request.node_id]
        outputs = target.receive(sent, sent.request.payload, self.now_ms)
        self.take(sent.request.node_id, outputs)

    # ---- clients

    def send(
        self, node_id: int, api_key: ApiKey, version: int, body: Any, session: ClientSession = LOCAL
    ) -> Question:
        """A client's request; its answer may not be there yet."""
        question = Question(self, api_key, version)
        payload = encode_request(api_key, version, 7, "test", body)
        self.take(node_id, self.nodes[node_id].receive(question, payload, self.now_ms, session))
        return question

    def ask(
        self,
        api_key: ApiKey,
        version: int,
        body: Any,
        node_id: int = 1,
        session: ClientSession = LOCAL,
    ) -> Any:
        """A client's request, answered within the broker's own waits."""
        question = self.send(node_id, api_key, version, body, session)
        if question not in self.answers:
            self.run(200)
        return question.answer

    def create(self, name: str, *node_ids: int) -> None:
        rows = [{"partition_index": i, "broker_ids": [id_]} for i, id_ in enumerate(node_ids)]
        row = {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": rows}
        answer = self.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [row]})
        assert answer["topics"][0]["error_code"] == 0

    def leader(self, name: str, partition: int = 0) -> PartitionLeader:
        topic = self.cluster.topics.get(name)
        assert topic is not None
        return topic.partitions[partition]

    def find(self, name: str) -> int:
        """The node that coordinates a transactional id."""
        body = {"coordinator_keys": [name], "key_type": 1}
        row = self.ask(ApiKey.FIND_COORDINATOR, 6, body)["coordinators"][0]
        assert row["error_code"] == 0
        return int(row["node_id"])

    def find_group(self, name: str = "g") -> int:
        """The node that coordinates a group."""
        body = {"coordinator_keys": [name], "key_type": 0}
        return int(self.ask(ApiKey.FIND_COORDINATOR, 6, body)["coordinators"][0]["node_id"])

    def fetch_offset(self, *, stable: bool = True, node_id: int = 1) -> tuple[int, ErrorCode]:
        """The offset that group g has committed for t-0, and its error."""
        asked = {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
        body = {"groups": [asked], "require_stable": stable}
        answer = self.ask(ApiKey.OFFSET_FETCH, 9, body, node_id)
        row = answer["groups"][0]["topics"][0]["partitions"][0]
        return row["committed_offset"], ErrorCode(row["error_code"])

    def view(self, name: str = "T") -> TransactionView:
        rows = [
            v for n in self.nodes.values() for v in n.coordinators.transactions.view().transactions
        ]
        return next(row for row in rows if row.transactional_id == name)


class Question:
    """A request of a client."""

    def __init__(self, network: Network, api_key: ApiKey, version: int) -> None:
        self._network = network
        self._form = (api_key, version)

    @property
    def is_answered(self) -> bool:
        return self in self._network.answers

    @property
    def answer(self) -> Any:
        payload = self._network.answers[self]
        if isinstance(payload, Closed):
            raise payload
        return None if payload is None else decode_response(*self._form, payload)[1]


class Producer:
    """A producer by hand: each call is one request."""

    def __init__(self, network: Network, name: str = "T", *, v2: bool = False) -> None:
        self.network = network
        self.name = name
        self.v2 = v2
        self.coordinator = network.find(name)
        self.producer_id, self.epoch = -1, -1

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "transactional_id": self.name,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    def init(self, version: int = 5, *, keep: bool = False, timeout_ms: int = 60_000) -> ErrorCode:
        body = {"transactional_id": self.name, "transaction_timeout_ms": timeout_ms}
        body |= self.identity if keep else {}
        answer = self.network.ask(ApiKey.INIT_PRODUCER_ID, version, body, self.coordinator)
        if not answer["error_code"]:
            self.producer_id, self.epoch = answer["producer_id"], answer["producer_epoch"]
        return ErrorCode(answer["error_code"])

    def add(self, *places: tuple[str, int], version: int = 3) -> list[ErrorCode]:
        """Version 3 and below from a client, 4 and 5 as a broker asks."""
        topics = [{"name": name, "partitions": [index]} for name, index in places]
        body: dict[str, Any]
        if version >= 4:
            body = {"transactions": [{**self.identity, "verify_only": False, "topics": topics}]}
        else:
            body = {f"v3_and_below_{key}": value for key, value in self.identity.items()}
            body["v3_and_below_topics"] = topics
        answer = self.network.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, body, self.coordinator)
        if version >= 4:
            assert answer["error_code"] == 0
            (result,) = answer["results_by_transaction"]
            rows = result["topic_results"]
        else:
            rows = answer["results_by_topic_v3_and_below"]
        found = [row for topic in rows for row in topic["results_by_partition"]]
        return [ErrorCode(row["partition_error_code"]) for row in found]

    def end(self, *, commit: bool = True, version: int | None = None) -> ErrorCode:
        version = version if version is not None else 5 if self.v2 else 4
        body = {**self.identity, "committed": commit}
        answer = self.network.ask(ApiKey.END_TXN, version, body, self.coordinator)
        if answer["producer_id"] >= 0:
            self.producer_id, self.epoch = answer["producer_id"], answer["producer_epoch"]
        return ErrorCode(answer["error_code"])

    def body(self, sequence: int, *places: tuple[str, int], acks: int = -1) -> dict[str, Any]:
        topics = [
            {"name": name, "partitions": [{"index": index, "records": self.batch(sequence)}]}
            for name, index in places
        ]
        return {
            "transactional_id": self.name,
            "acks": acks,
            "timeout_ms": 1000,
            "topics": topics,
        }

    def batch(self, sequence: int) -> bytes:
        return encode_batch(
            client_batch(
                [Record(0, self.network.now_ms, b"k", b"v")],
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=sequence,
                is_transactional=True,
            )
        )

    def produce(
        self, sequence: int, *places: tuple[str, int], node_id: int = 1, version: int | None = None
    ) -> list[ErrorCode]:
        version = version if version is not None else 12 if self.v2 else 11
        body = self.body(sequence, *places)
        answer = self.network.ask(ApiKey.PRODUCE, version, body, node_id)
        rows = [row for topic in answer["topics"] for row in topic["partitions"]]
        return [ErrorCode(row["error_code"]) for row in rows]

    def commit_offset(
        self, offset: int, *, version: int | None = None, node_id: int | None = None, **more: Any
    ) -> ErrorCode:
        version = version if version is not None else 5 if self.v2 else 4
        row = {"partition_index": 0, "committed_offset": offset, "committed_metadata": None}
        body = {**self.identity, "group_id": "g", "topics": [{"name": "t", "partitions": [row]}]}
        at = self.network.find_group() if node_id is None else node_id
        answer = self.network.ask(ApiKey.TXN_OFFSET_COMMIT, version, body | more, at)
        return ErrorCode(answer["topics"][0]["partitions"][0]["error_code"])
