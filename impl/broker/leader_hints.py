"""Who leads a partition, beside the error of a request that came to another node (KIP-951)."""

from __future__ import annotations

from impl.broker.outputs import DecodedRequest
from impl.broker.services import NodeServices
from impl.broker.topics import Topic
from impl.protocol.message_form import Value


class LeaderHints:
    """The leaders that one answer names; `endpoints` has their addresses.

    `KafkaApis.getCurrentLeader`.
    """

    __slots__ = ("_is_known", "_node", "_request", "endpoints")

    def __init__(self, node: NodeServices, request: DecodedRequest, since_version: int) -> None:
        self._node = node
        self._request = request
        self._is_known = request.version >= since_version
        self.endpoints: dict[int, Value] = {}

    def row(self, topic: Topic | None, partition: int) -> Value:
        """What the partition's row says of its leader; nothing in versions that cannot."""
        leader = topic.partition(partition) if topic and self._is_known else None
        if topic is None or leader is None:
            return {}
        broker = self._node.cluster.leader_of(topic.name, partition)
        if broker is None:
            return {}
        self.endpoints[broker.node_id] = broker.address(self._request.session.listener)
        return {
            "current_leader": {"leader_id": broker.node_id, "leader_epoch": leader.leader_epoch}
        }
