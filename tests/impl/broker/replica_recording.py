"""What three nodes answer about replicas while nodes are killed and come back: steps for any of
them, real or not.

`python -m tests.impl.broker.replica_recording` records a real cluster.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from conformance.adapters.brokers.kafka.cluster import SETTLE_TIMEOUT_S, KafkaCluster
from conformance.adapters.brokers.kafka.wait import wait_until
from impl.protocol.schemas import ApiKey as K
from tests.impl.broker.cluster_recording import PREFERRED, UNCLEAN, elect, reassign
from tests.impl.broker.secured_kafka import exchange

RECORDED = Path(__file__).with_name("recorded_replicas") / "kafka-4.3.1.json"
QUICK = {"broker.session.timeout.ms": "2000"}
"""A node that is killed is missed soon."""


class Nodes(Protocol):
    """Nodes 1 to 3, of which 1 stays; `settle` waits until the metadata is as wanted."""

    def ask(self, api_key: K, version: int, body: dict[str, Any]) -> Any: ...
    def kill(self, node_id: int) -> None: ...
    def start(self, node_id: int) -> None: ...
    def settle(self, is_settled: Callable[[], bool]) -> None: ...


TOPICS: dict[str, tuple[list[list[int]], dict[str, str]]] = {
    "one": ([[2], [1]], {}),
    "two": ([[2, 3], [1, 2], [3, 2]], {}),
    "all": ([[1, 2, 3], [2, 3, 1]], {}),
    "strict": ([[1, 2, 3]], {"min.insync.replicas": "2"}),
    "unclean": ([[2, 3]], {"unclean.leader.election.enable": "true"}),
}


def creation(name: str, replicas: list[list[int]], configs: dict[str, str]) -> Any:
    rows = [{"partition_index": i, "broker_ids": ids} for i, ids in enumerate(replicas)]
    values = [{"name": key, "value": value} for key, value in configs.items()]
    topic = {"name": name, "num_partitions": -1, "replication_factor": -1}
    body = {"topics": [topic | {"assignments": rows, "configs": values}], "timeout_ms": 10_000}
    return K.CREATE_TOPICS, 5, body


def by_number(factor: int, count: int = 1) -> Any:
    topic = {"name": "numbered", "num_partitions": count, "replication_factor": factor}
    body = {"topics": [topic], "timeout_ms": 10_000, "validate_only": True}
    return K.CREATE_TOPICS, 5, body


def growth(name: str, count: int, replicas: list[list[int]]) -> Any:
    rows = [{"broker_ids": ids} for ids in replicas]
    topic = {"name": name, "count": count, "assignments": rows}
    return K.CREATE_PARTITIONS, 1, {"topics": [topic], "timeout_ms": 10_000, "validate_only": False}


REFUSED = (
    by_number(4),
    by_number(3),
    creation("uneven", [[2, 3], [2]], {}),
    creation("twice", [[2, 2]], {}),
    creation("unknown", [[2, 7]], {}),
    growth("two", 4, [[2]]),
    growth("two", 4, [[1, 2, 3]]),
    growth("two", 4, [[1, 9]]),
    reassign(("all", 0, [1, 3]), may=False),
    reassign(("all", 0, [1, 9])),
)
WHILE_DOWN = (
    creation("dark", [[2]], {}),
    creation("dim", [[2, 1]], {}),
    growth("two", 5, [[1, 3], [2, 1]]),
)


def record(nodes: Nodes) -> Iterator[Any]:
    """Answers and pictures, in order."""
    for name, (replicas, configs) in TOPICS.items():
        yield reply(nodes, creation(name, replicas, configs))
    nodes.settle(lambda: len(picture(nodes)) == sum(len(rows) for rows, _ in TOPICS.values()))
    for request in REFUSED:
        yield reply(nodes, request)
    yield picture(nodes)
    nodes.kill(2)
    nodes.settle(lambda: picture(nodes)["one-0"]["leader_id"] == -1)
    yield picture(nodes)
    for request in (
        elect(PREFERRED, ("two", [0, 1])),
        elect(UNCLEAN, ("two", [0])),
        elect(PREFERRED, ("one", [0])),
        *WHILE_DOWN,
    ):
        yield reply(nodes, request)
    nodes.settle(lambda: {"dim-0", "two-4"} <= picture(nodes).keys())
    yield picture(nodes)
    nodes.kill(3)
    nodes.settle(lambda: picture(nodes)["two-0"]["leader_id"] == -1)
    yield picture(nodes)
    yield reply(nodes, elect(UNCLEAN, ("two", [0])))
    nodes.start(2)
    nodes.settle(lambda: in_sync(nodes, "two-1") == [1, 2])
    yield picture(nodes)
    yield reply(nodes, elect(UNCLEAN, ("two", [0])))
    nodes.settle(lambda: picture(nodes)["two-0"]["leader_id"] == 2)
    nodes.start(3)
    nodes.settle(lambda: all(not row["offline_replicas"] for row in picture(nodes).values()))
    nodes.settle(lambda: in_sync(nodes, "all-0") == [1, 2, 3] == in_sync(nodes, "strict-0"))
    nodes.settle(lambda: in_sync(nodes, "two-4") == [1, 2] and in_sync(nodes, "two-0") == [2, 3])
    nodes.settle(lambda: in_sync(nodes, "all-1") == [1, 2, 3] and in_sync(nodes, "two-2") == [2, 3])
    yield picture(nodes)
    yield reply(nodes, elect(PREFERRED, ("all", [0, 1])))
    nodes.settle(lambda: picture(nodes)["all-1"]["leader_id"] == 2)
    yield picture(nodes)
    yield reply(nodes, reassign(("strict", 0, [1, 2]), ("one", 1, [3, 1]), ("two", 0, [1, 2])))
    nodes.settle(lambda: picture(nodes)["strict-0"]["replica_nodes"] == [1, 2])
    nodes.settle(lambda: picture(nodes)["one-1"]["replica_nodes"] == [3, 1])
    nodes.settle(lambda: picture(nodes)["two-0"]["replica_nodes"] == [1, 2])
    nodes.settle(lambda: in_sync(nodes, "one-1") == [1, 3] and in_sync(nodes, "two-0") == [1, 2])
    yield picture(nodes)


def in_sync(nodes: Nodes, partition: str) -> list[int]:
    found: list[int] = picture(nodes)[partition]["isr_nodes"]
    return found


def reply(nodes: Nodes, request: Any) -> Any:
    """The rows of an answer, without settings and the topic's random id."""
    api_key, version, body = request
    answer = nodes.ask(api_key, version, body)
    for rows in answer.values():
        for row in rows if isinstance(rows, list) else ():
            for name in ("configs", "topic_id"):
                row.pop(name, None)
    return answer


def picture(nodes: Nodes) -> dict[str, Any]:
    """Each partition as DescribeTopicPartitions shows it; sets are sorted."""
    body = {"topics": [], "response_partition_limit": 2_000, "cursor": None}
    answer = nodes.ask(K.DESCRIBE_TOPIC_PARTITIONS, 0, body)
    return {
        f"{topic['name']}-{row['partition_index']}": {
            name: sorted(value) if name in SETS else value for name, value in row.items()
        }
        for topic in answer["topics"]
        for row in topic["partitions"]
    }


SETS = ("isr_nodes", "offline_replicas", "eligible_leader_replicas")


class RealNodes:
    """Three brokers, of which the first is the controller, too."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._connection = socket.create_connection(cluster.brokers[1].address, timeout=60)

    def ask(self, api_key: K, version: int, body: dict[str, Any]) -> Any:
        return exchange(self._connection, api_key, version, body)

    def kill(self, node_id: int) -> None:
        self._cluster.brokers[node_id].kill()

    def start(self, node_id: int) -> None:
        self._cluster.brokers[node_id].start()

    def settle(self, is_settled: Callable[[], bool]) -> None:
        wait_until(is_settled, SETTLE_TIMEOUT_S, AssertionError(str(picture(self))))


def record_real() -> list[Any]:
    """The answers of a cluster that is started for it."""
    with KafkaCluster("4.3.1", nodes=3, voters=(1,), properties=QUICK) as cluster:
        rows: list[Any] = json.loads(json.dumps(list(record(RealNodes(cluster)))))
        return rows


def main() -> None:
    rows = ",\n".join(json.dumps(row) for row in record_real())
    RECORDED.parent.mkdir(exist_ok=True)
    RECORDED.write_text(f"[\n{rows}\n]\n")


if __name__ == "__main__":
    main()
