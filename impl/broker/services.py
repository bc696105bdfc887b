"""What the parts of a node may do: answer, ask other brokers, and put work off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from impl.broker.cluster import Cluster
from impl.broker.config import NodeConfig
from impl.broker.outputs import DecodedRequest
from impl.broker.topics import Topic, Topics
from impl.partition.leader import PartitionLeader
from impl.protocol.codegen import Value
from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import ApiKey


class NodeServices(Protocol):
    """The side of a `Node` that its coordinators use, and its handlers."""

    @property
    def config(self) -> NodeConfig:
        """The node's settings."""

    @property
    def cluster(self) -> Cluster:
        """The metadata that all nodes share."""

    @property
    def topics(self) -> Topics:
        """The cluster's topics."""

    def answer(self, request: DecodedRequest, body: Value | None) -> None:
        """Answer a request, now or after LATER; None where its client expects no answer."""

    def close(self, request: DecodedRequest, reason: str) -> None:
        """Close the connection of a request instead of answering it."""

    def ask(
        self,
        node_id: int,
        api_key: ApiKey,
        version: int,
        body: Value,
        callback: Callable[[Value | None, int], None],
    ) -> None:
        """Send a request to another broker; `callback` gets its answer, or None, and the time."""

    def defer(self, action: Callable[[int], None]) -> None:
        """Run this in the next `advance`."""

    def schedule(self, due_ms: int, action: Callable[[int], None]) -> None:
        """Run this in the first `advance` from `due_ms` on."""

    def answer_when(
        self, request: DecodedRequest, deadline_ms: int, attempt: Callable[[bool], Value | None]
    ) -> None:
        """Answer as soon as `attempt` returns a body.

        Each `advance` calls it, with True from `deadline_ms` on: then it has to return one.
        """

    def leader(
        self, topic: Topic | ErrorCode | None, partition: int
    ) -> PartitionLeader | ErrorCode:
        """A partition's leader if it is on this node, else the error for the client."""

    def is_due(self, check: str, interval_ms: int, now_ms: int) -> bool:
        """Whether a periodic check is due; its first interval begins with the first call."""
