"""The metadata that all brokers of a cluster share: each other, the topics, and who leads what.

Five rules:

1. All nodes have the same `Cluster`; it stands for the metadata that a controller publishes.
2. A partition has one leader. Other nodes answer requests for it with NOT_LEADER_OR_FOLLOWER.
3. A new leader has the next epoch, and the log.
4. All replicas of a partition share one log: each that runs is in sync, and none ever lags behind
   or is truncated. What `impl.broker.replicas` decides of them is what Kafka's controller would.
5. All nodes get blocks of producer ids from one place, so no id is allocated twice.

Theory of operation: nodes compare `topics.version` before each request; after a change they check
which partitions of the internal topics they lead. There is no replication: a new leader takes over
the log of the old one as it is, so even an unclean election loses nothing. What changes goes
through `topics.storage` first (`impl.broker.durable_cluster`).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from impl.broker.client_quotas import ClientQuotas
from impl.broker.producer_ids import BlockSource, ProducerIdBlocks
from impl.broker.replicas import ReplicaPlacement
from impl.broker.resource_configs import ALL_BROKERS, ConfigResourceType, ResourceConfigs
from impl.broker.setting_changes import format_defaults, with_log_changes
from impl.broker.topics import Topic, Topics
from impl.log.disk import DiskSpace
from impl.partition.log_config import LogConfig
from impl.security.access import Access
from impl.security.config import Security
from impl.suggestions import explain_unknown

if TYPE_CHECKING:
    from impl.partition.leader import PartitionLeader

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
    and `resources`, the settings of brokers, groups and client metrics.

    `transaction_version` is None until UpdateFeatures sets it: nodes have it from their settings.
    `features_epoch` counts these changes.
    """

    __slots__ = (
        "_started_with",
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
        self._started_with = config
        self.quotas = ClientQuotas()
        self.resources = ResourceConfigs()
        self.transaction_version: int | None = None
        self.features_epoch = 0

    def format_settings(self, release: str) -> None:
        """Give all brokers what a new cluster of a release has. Raises `TopicRefused`."""
        name = ALL_BROKERS
        known = self.resources.get(ConfigResourceType.BROKER, name)
        missing = format_defaults(release, self._started_with.min_insync_replicas)
        if not missing.keys() <= known.keys():
            self.configure_brokers(name, {**missing, **known})

    def configure_brokers(self, name: str, configs: Mapping[str, str]) -> None:
        """Give a broker, or all of them, settings that take effect at once.

        Raises `TopicRefused` if they cannot be stored.
        """
        self.resources.replace(ConfigResourceType.BROKER, name, configs)
        self._apply_settings()

    def _apply_settings(self) -> None:
        """Topics without their own settings follow those of all brokers, and of who leads them."""
        kind = ConfigResourceType.BROKER
        of_all = self.resources.get(kind, ALL_BROKERS)
        config = with_log_changes(self._started_with, of_all)
        of_nodes = {
            int(name): with_log_changes(config, self.resources.get(kind, name))
            for number, name in self.resources
            if number == kind and name.isdecimal()
        }
        self.topics.change_defaults(config, of_nodes)

    def set_transaction_version(self, level: int) -> None:
        """Change the feature for all nodes, which adopt it before their next request."""
        self.transaction_version = level
        self.features_epoch += 1
        self.topics.version += 1

    def register(self, broker: BrokerEndPoint) -> None:
        """Add a broker; new topics may be placed on it."""
        self.brokers[broker.node_id] = broker
        self._update_node_ids(self.topics.down_ids)

    def _update_node_ids(self, down_ids: Sequence[int]) -> None:
        self.topics.node_ids = tuple(sorted(self.brokers))
        self.topics.down_ids = tuple(sorted(set(down_ids) - self.brokers.keys()))

    def open_ports(self, node_id: int, ports: Mapping[str, int]) -> None:
        """A node listens on these ports, by listener."""
        self.brokers[node_id] = self.brokers[node_id]._replace(ports=dict(ports))

    def remove(self, node_id: int, heirs: Sequence[int] = ()) -> None:
        """A broker is down: replicas that are in sync lead what it led. New topics avoid it.

        `heirs`, which run, take partitions of which it has the only replica, in turn; without any
        these have no leader.
        """
        del self.brokers[node_id]
        self._update_node_ids((*self.topics.down_ids, node_id))
        for topic in list(self.topics):
            self._publish(topic, self._settled(topic, lost=node_id, heirs=heirs))

    def unregister(self, node_id: int) -> None:
        """New partitions get no replica on this broker, which is down."""
        self._update_node_ids([each for each in self.topics.down_ids if each != node_id])

    def rejoin(self, node_id: int) -> None:
        """A broker is back: its replicas are in sync at once, and lead what has no leader."""
        for topic in list(self.topics):
            if any(node_id in placement.replicas for placement in topic.placements):
                self._publish(topic, self._settled(topic))

    def _settled(
        self, topic: Topic, lost: int | None = None, heirs: Sequence[int] = ()
    ) -> list[ReplicaPlacement]:
        return [
            ReplicaPlacement.on([heirs[index % len(heirs)]], self.brokers)
            if heirs and placement.replicas == (lost,)
            else placement.settle(
                self.brokers,
                leader.config.min_insync_replicas,
                is_unclean=leader.config.unclean_leader_election_enable,
            )
            for index, (leader, placement) in enumerate(
                zip(topic.partitions, topic.placements, strict=True)
            )
        ]

    @property
    def registered_ids(self) -> frozenset[int]:
        """The nodes that run, and those that are down."""
        return frozenset((*self.brokers, *self.topics.down_ids))

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

    def close(self) -> None:
        """Nothing is on a disk. Elsewhere raises `OSError`, `StorageError`."""

    @property
    def controller_id(self) -> int:
        """The broker that metadata names as the controller."""
        return min(self.brokers)

    def leader_of(self, name: str, partition: int) -> BrokerEndPoint | None:
        """The partition's leader; None if the partition is unknown, or its broker is down."""
        topic = self.topics.get(name)
        if topic is None or not 0 <= partition < len(topic.partitions):
            return None
        return self.brokers.get(topic.placements[partition].leader_id)

    def find(self, name: str, partition: int) -> Topic:
        """The topic with this partition. Raises `UnknownPartitionOrBroker`."""
        topic = self.topics.get(name)
        if topic is None:
            known = [topic.name for topic in self.topics]
            raise UnknownPartitionOrBroker(explain_unknown("topic", name, known))
        if topic.partition(partition) is None:
            last = len(topic.partitions) - 1
            has = f"topic {name!r} has " + (f"0 to {last}" if last else "0 alone")
            raise UnknownPartitionOrBroker(f"unknown partition {partition}: {has}")
        return topic

    def move(self, name: str, partition: int, node_id: int) -> None:
        """Move a partition to a new leader, with the next epoch and the replicated log.

        A node without a replica gets that of the leader. Raises `UnknownPartitionOrBroker` for an
        unknown topic, partition or broker.
        """
        topic = self.find(name, partition)
        if node_id not in self.brokers:
            known = map(str, sorted(self.brokers))
            raise UnknownPartitionOrBroker(explain_unknown("node", node_id, known))
        placement = topic.placements[partition].lead_by(node_id)
        least = topic.partitions[partition].config.min_insync_replicas
        self.place(topic, partition, placement.settle(self.brokers, least), elects=True)

    def place(
        self, topic: Topic, partition: int, placement: ReplicaPlacement, *, elects: bool = False
    ) -> None:
        """Give a partition another placement; with `elects` the next epoch in any case."""
        placements = list(topic.placements)
        placements[partition] = placement
        self._publish(topic, placements, {partition} if elects else ())

    def _publish(
        self, topic: Topic, placements: Sequence[ReplicaPlacement], elected: Container[int] = ()
    ) -> None:
        """Give a topic's partitions these placements, stored first, and then to their leaders.

        Another leader, or none any more, has the next epoch, and so have the `elected` partitions.
        """
        pairs = enumerate(zip(topic.placements, placements, strict=True))
        changed = {index for index, (old, new) in pairs if old != new or index in elected}
        if not changed:
            return
        leaders = list(topic.partitions)
        for index in changed:
            if index in elected or _changes_leader(topic.placements[index], placements[index]):
                leaders[index] = _elect(topic.partitions[index])
        partitions = tuple(leaders)
        replaced = replace(topic, partitions=partitions, placements=tuple(placements))
        self.topics.replace(replaced)
        if replaced.leader_ids != topic.leader_ids:
            self.topics.configure_logs(replaced)
        for index in changed:
            if leaders[index] is not topic.partitions[index]:
                log = topic.partitions[index].resign()
                log.producer_states.verifications.clear()  # a new leader has begun none
            _follow(leaders[index], placements[index])


def _changes_leader(old: ReplicaPlacement, new: ReplicaPlacement) -> bool:
    return (old.leader_id, old.is_led) != (new.leader_id, new.is_led)


def _elect(old: PartitionLeader) -> PartitionLeader:
    """The leader of the next epoch."""
    from impl.partition.leader import PartitionLeader  # see `Topics`

    return PartitionLeader(leader_epoch=old.leader_epoch + 1, log=old.log)


def _follow(leader: PartitionLeader, placement: ReplicaPlacement) -> None:
    """A leader learns which replicas have its log."""
    if placement.is_led:
        leader.update_replicas(len(placement.replicas), len(placement.in_sync))
        leader.advance_as_replicated()
