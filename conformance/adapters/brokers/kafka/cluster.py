"""Several brokers of one cluster, on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from conformance.adapters.brokers.kafka.admin import PartitionLeadership, leaders
from conformance.adapters.brokers.kafka.broker import KafkaBroker
from conformance.adapters.brokers.kafka.errors import BrokerFailed, KafkaError
from conformance.adapters.brokers.kafka.ports import free_ports
from conformance.adapters.brokers.kafka.process import ServersInDirectory
from conformance.adapters.brokers.kafka.recipe import BrokerNode, Ensemble
from conformance.adapters.brokers.kafka.releases import find_release
from conformance.adapters.brokers.kafka.wait import poll
from conformance.adapters.brokers.kafka.zookeeper import ZooKeeper

NODES: Final = 3
SETTLE_TIMEOUT_S: Final = 120.0
"""The longest time until the cluster agrees on leaders and in-sync replicas."""

_PATIENT: Final = {
    # A broker that is frozen for a moment keeps its session; a dead one loses it after this time.
    "broker.session.timeout.ms": "10000",
    "zookeeper.session.timeout.ms": "10000",
    "replica.lag.time.max.ms": "60000",
    "replica.fetch.wait.max.ms": "100",
}


class KafkaCluster(ServersInDirectory):
    """One broker or three, `brokers` by id; a context manager that starts and ends them all.

    All are voters of the controller quorum unless `voters` are given: then all other brokers may be
    down at once. `properties_of` returns the properties of a single broker. Raises UnknownRelease.
    """

    def __init__(
        self,
        release: str,
        *,
        nodes: int = NODES,
        level: int | None = None,
        properties: Mapping[str, str] | None = None,
        voters: tuple[int, ...] = (),
        properties_of: Callable[[BrokerNode], Mapping[str, str]] = lambda node: {},
    ) -> None:
        super().__init__()
        self._zookeeper: ZooKeeper | None = None
        if nodes == 1:
            alone = KafkaBroker(release, level=level, properties=properties, folder=self.folder)
            self.brokers = {1: alone}
            return
        ports = iter(free_ports(2 * nodes))
        every = [BrokerNode(number, next(ports), next(ports)) for number in range(1, nodes + 1)]
        if find_release(release).has_zookeeper:
            self._zookeeper = ZooKeeper(self.folder)
        port = self._zookeeper.port if self._zookeeper else None
        self.brokers = {
            node.node_id: KafkaBroker(
                release,
                level=level,
                node_id=node.node_id,
                properties={**_PATIENT, **(properties or {}), **properties_of(node)},
                folder=self.folder / str(node.node_id),
                ensemble=Ensemble(tuple(every), port, voters),
                zookeeper=self._zookeeper,
            )
            for node in every
        }

    def start(self) -> None:
        """Start the brokers that do not run, and wait until they answer. Raises as
        `KafkaBroker.start`."""
        down = [broker for broker in self.brokers.values() if not broker.is_running]
        for broker in down:
            broker.launch()
        for broker in down:
            broker.await_answer()

    def stop(self) -> None:
        """Nothing: an orderly stop waits for other brokers, so `close` kills all at once."""

    def close(self) -> None:
        """Kill all brokers at once."""
        for broker in self.brokers.values():
            broker.close()
        if self._zookeeper is not None:
            self._zookeeper.kill()

    def await_leader(self, observer: int, leader: int) -> None:
        """Wait until `leader` leads all partitions in the metadata of the broker `observer`.

        Raises BrokerFailed after SETTLE_TIMEOUT_S.
        """
        self._await(observer, lambda led: led.leader == leader)

    def await_in_sync(self, observer: int) -> None:
        """Wait until all replicas of all partitions are in sync. Raises as `await_leader`."""
        self._await(observer, lambda led: led.in_sync == led.replicas)

    def _await(self, observer: int, settled: Callable[[PartitionLeadership], bool]) -> None:
        def look() -> list[PartitionLeadership] | None:
            with suppress(KafkaError), self.brokers[observer].connect() as connection:
                return [led for led in leaders(connection).values() if not settled(led)]
            return None

        late = poll(look, lambda late: late == [], SETTLE_TIMEOUT_S)
        if late != []:
            given = f"the cluster did not settle in {SETTLE_TIMEOUT_S:.0f} s"
            raise BrokerFailed(f"{given}: {(late or [])[:5]}")
