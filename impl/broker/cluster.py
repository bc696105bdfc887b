"""The metadata that all brokers of a cluster share: each other, the topics, and who leads what.

Four rules:

1. All nodes have the same `Cluster`; it stands for the metadata that a controller publishes.
2. A partition has one leader. Other nodes answer requests for it with NOT_LEADER_OR_FOLLOWER.
3. A new leader has the next epoch, and the replicated part of the log.
4. All nodes get blocks of producer ids from one place, so no id is allocated twice.

Theory of operation: nodes compare `topics.version` before each request; after a change they check
which partitions of the internal topics they lead. There is no replication: `move` gives the new
leader the old leader's log, which is replicated up to its end. What changes goes through
`topics.storage` first (`impl.broker.durable_cluster`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from impl.broker.client_quotas import ClientQuotas
from impl.broker.producer_ids import BlockSource, ProducerIdBlocks
from impl.broker.resource_configs import ResourceConfigs
from impl.broker.topics import Topic, Topics
from impl.log.disk import DiskSpace
from impl.partition.leader import PartitionLeader
from impl.partition.log_config import LogConfig
from impl.security.access import Access
from impl.security.config import Security

IN_MEMORY: Final = "memory"
"""The log directory that a cluster without one describes."""


class UnknownPartitionOrBroker(KeyError):
    """An unknown topic, partition or broker: create or register it first."""

    def __str__(self) -> str:
        return str(self.args[0])


NO_PORTS: Final[Mapping[str, int]] = MappingProxyType({})


class BrokerEndPoint(NamedTuple):
    """The address of a node: `port` of its first listener, `ports` by listener.

    Other nodes reach it at `host`, clients at `advertised_host` if there is one.
    """

    node_id: int
    host: str
    port: int
    ports: Mapping[str, int] = NO_PORTS
    advertised_host: str | None = None

    def address(self, listener: str) -> dict[str, Any]:
        """Where a client of this listener finds the node."""
        port = self.ports.get(listener, self.port)
        return {"node_id": self.node_id, "host": self.advertised_host or self.host, "port": port}


class Cluster:
    """Read-only: `brokers` by id, `topics`, `cluster_id`, `producer_id_blocks`, `access`, `quotas`,
    and `resources`, the settings of groups and of client metrics.

    `transaction_version` is None until UpdateFeatures sets it: nodes have it from their settings.
    `features_epoch` counts these changes.
    """

    __slots__ = (
        "access",
        "brokers",
        "cluster_id",
        "features_epoch",
        "producer_id_blocks",
        "quotas",
        "resources",
        "topics",
        "transaction_version",
    )

    def __init__(
        self,
        cluster_id: str,
        config: LogConfig,
        blocks: BlockSource | None = None,
        security: Security | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.producer_id_blocks = blocks or ProducerIdBlocks()
        self.brokers: dict[int, BrokerEndPoint] = {}
        self.access = Access(security or Security())
        self.topics = Topics(cluster_id, config)
        self.quotas = ClientQuotas()
        self.resources = ResourceConfigs()
        self.transaction_version: int | None = None
        self.features_epoch = 0

    def set_transaction_version(self, level: int) -> None:
        """Change the feature for all nodes, which adopt it before their next request."""
        self.transaction_version = level
        self.features_epoch += 1
        self.topics.version += 1

    def register(self, broker: BrokerEndPoint) -> None:
        """Add a broker; new topics may be placed on it."""
        self.brokers[broker.node_id] = broker
        self.topics.node_ids = tuple(sorted(self.brokers))

    def open_ports(self, node_id: int, ports: Mapping[str, int]) -> None:
        """A node listens on these ports, by listener."""
        self.brokers[node_id] = self.brokers[node_id]._replace(ports=dict(ports))

    def remove(self, node_id: int) -> None:
        """A broker is down; what it leads has no leader. New topics are placed on the others."""
        del self.brokers[node_id]
        self.topics.node_ids = tuple(sorted(self.brokers))

    def fail_over(self, node_id: int, others: Sequence[int]) -> None:
        """A broker is down: these, which are up, take its partitions in turn."""
        self.remove(node_id)
        self.move_all(node_id, others)

    def move_all(self, node_id: int, node_ids: Sequence[int]) -> None:
        """Move a broker's partitions in turn to these; to itself, they get the next epoch."""
        for topic in list(self.topics):
            for index, leader_id in enumerate(topic.leader_ids):
                if leader_id == node_id:
                    self.move(topic.name, index, node_ids[index % len(node_ids)])

    @property
    def log_dir(self) -> str:
        """Where its logs are."""
        return IN_MEMORY

    @property
    def log_dir_space(self) -> DiskSpace:
        """Of the volume of its logs. Raises `OSError`."""
        return DiskSpace()

    def checkpoint(self) -> None:
        """Nothing is on a disk."""

    @property
    def controller_id(self) -> int:
        """The broker that metadata names as the controller."""
        return min(self.brokers)

    def leader_of(self, name: str, partition: int) -> BrokerEndPoint | None:
        """The partition's leader; None if the partition is unknown, or its broker is down."""
        topic = self.topics.get(name)
        if topic is None or not 0 <= partition < len(topic.partitions):
            return None
        return self.brokers.get(topic.leader_ids[partition])

    def find(self, name: str, partition: int) -> Topic:
        """The topic with this partition. Raises `UnknownPartitionOrBroker`."""
        topic = self.topics.get(name)
        if topic is None or topic.partition(partition) is None:
            raise UnknownPartitionOrBroker(
                f"the cluster has no {name}-{partition}: create it first"
            )
        return topic

    def move(self, name: str, partition: int, node_id: int) -> None:
        """Move a partition to a new leader, with the next epoch and the replicated log.

        Raises `UnknownPartitionOrBroker` for an unknown topic, partition or broker.
        """
        topic = self.find(name, partition)
        old = topic.partitions[partition]
        if node_id not in self.brokers:
            known = ", ".join(map(str, sorted(self.brokers)))
            raise UnknownPartitionOrBroker(
                f"{name}-{partition} can move to {known}, not to broker {node_id}"
            )
        leader = PartitionLeader(leader_epoch=old.leader_epoch + 1, log=old.log)
        leaders, node_ids = list(topic.partitions), list(topic.leader_ids)
        leaders[partition], node_ids[partition] = leader, node_id
        moved = replace(topic, partitions=tuple(leaders), leader_ids=tuple(node_ids))
        self.topics.replace(moved)
        old.resign()
        old.log.producer_states.verifications.clear()  # a new leader has begun none
