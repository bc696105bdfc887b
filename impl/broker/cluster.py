"""What all brokers of a cluster know: each other, the topics, and who leads which partition.

Four rules:

1. There is one `Cluster` for all nodes: it stands for the metadata that a controller spreads.
2. A partition has one leader. Another node that is asked for it says NOT_LEADER_OR_FOLLOWER.
3. A new leader has the next epoch, and of the log what was replicated.
4. All nodes take their blocks of producer ids from one place, so no id is given twice.

Theory of operation: nodes hold the same object and look at `topics.version` before each request;
where it has grown they compare which partitions of the internal topics are theirs. Replication is
not here: `move` gives the new leader what the old one had replicated, and that is all of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from impl.broker.producer_ids import BlockSource, ProducerIdBlocks
from impl.broker.topics import Topic, Topics
from impl.partition.leader import PartitionLeader
from impl.partition.rules import DEFAULT_RULES, TransactionRules
from impl.partition.validation import LogConfig
from impl.protocol.errors import ErrorCode


class UnknownPlace(KeyError):
    """A topic, partition or broker that the cluster does not have: create or register it first."""

    def __str__(self) -> str:
        return str(self.args[0])


class Broker(NamedTuple):
    """Where a node is reached."""

    node_id: int
    host: str
    port: int


class Cluster:
    """Public state, to be read: `brokers` by id, `topics`, `cluster_id`, `producer_id_blocks`."""

    __slots__ = ("brokers", "cluster_id", "producer_id_blocks", "topics")

    def __init__(
        self,
        cluster_id: str,
        config: LogConfig,
        rules: TransactionRules = DEFAULT_RULES,
        blocks: BlockSource | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.producer_id_blocks = blocks or ProducerIdBlocks()
        self.brokers: dict[int, Broker] = {}
        self.topics = Topics(cluster_id, config, rules)

    def register(self, broker: Broker) -> None:
        """A broker has started; topics that are created from now on may be placed on it."""
        self.brokers[broker.node_id] = broker
        self.topics.node_ids = tuple(sorted(self.brokers))

    @property
    def controller_id(self) -> int:
        """The broker that clients are told is the controller."""
        return min(self.brokers)

    def leader_of(self, name: str, partition: int) -> Broker | None:
        """Who leads a partition; None where there is no such partition, or its broker is gone."""
        topic = self.topics.named(name)
        if topic is None or not 0 <= partition < len(topic.partitions):
            return None
        return self.brokers.get(topic.leader_ids[partition])

    def move(self, name: str, partition: int, node_id: int) -> None:
        """Another leader, with the next epoch and what was below the high watermark.

        Raises `UnknownPlace` for a topic, partition or broker that nobody knows.
        """
        topic = self.topics.named(name)
        old = None if topic is None else topic.partition(partition)
        if topic is None or old is None:
            raise UnknownPlace(f"the cluster has no {name}-{partition} to move: create it first")
        if node_id not in self.brokers:
            known = ", ".join(map(str, sorted(self.brokers)))
            raise UnknownPlace(f"{name}-{partition} can move to {known}, not to broker {node_id}")
        old.resign()
        kept = [batch for batch in old.batches if batch.last_offset < old.high_watermark]
        leader = PartitionLeader.elect(
            kept,
            leader_epoch=old.leader_epoch + 1,
            high_watermark=old.high_watermark,
            log_start_offset=old.log_start_offset,
            config=old.config,
            rules=old.log.rules,
        )
        leaders, node_ids = list(topic.partitions), list(topic.leader_ids)
        leaders[partition], node_ids[partition] = leader, node_id
        moved = replace(topic, partitions=tuple(leaders), leader_ids=tuple(node_ids))
        self.topics.replace(moved)


def leader_on(
    topic: Topic | ErrorCode | None, partition: int, node_id: int
) -> PartitionLeader | ErrorCode:
    """The partition's leader if it is this node; else what a client is told."""
    if isinstance(topic, ErrorCode):
        return topic
    leader = None if topic is None else topic.partition(partition)
    if topic is None or leader is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic.leader_ids[partition] != node_id:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return leader
