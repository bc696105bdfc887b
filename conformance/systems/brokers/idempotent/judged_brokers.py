"""What can be done to brokers beside asking them: a deed has the name of a rule of the leader.

A broker that only listens somewhere is left alone. One that was started here is stopped, killed and
started again; then its connections are gone, and it leads all its partitions.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final, Protocol

from conformance.faults import CLIENTS, Means
from conformance.kafka.administration import set_config
from conformance.kafka.broker import KafkaBroker
from conformance.kafka.cluster import KafkaCluster
from conformance.kafka.releases import Release
from conformance.systems.brokers.idempotent.deliveries import ISOLATE
from model.language import Wire

Address = tuple[str, int]

FETCH_WAIT_S: Final = 1.5
"""Much longer than a fetch waits at a leader of `KafkaCluster` for something new."""


EXPIRATION: Final = "producer.id.expiration.ms"
DAY_MS: Final = 86_400_000
EXPIRY_S: Final = 1.5
"""Much longer than a broker takes to go by a config, and to look for who has expired."""


def means_at_one(release: Release) -> frozenset[Wire]:
    """The means of a test at one broker of a release that was started here."""
    means = CLIENTS | {Wire.RESTARTS, Wire.DELETE_RECORDS}
    return means | {Wire.DYNAMIC_CONFIGS} if release.has_producer_expiry else means


class JudgedBrokers(Protocol):
    """The brokers that are judged."""

    @property
    def address(self) -> Address:
        """Where the one listens that leads."""

    @property
    def replicas(self) -> tuple[int, ...]:
        """The brokers that each partition is put on, the leader first; empty: wherever."""

    @property
    def means(self) -> Means:
        """By what a test brings events about."""

    @property
    def kafka(self) -> KafkaBroker | None:
        """The one broker, if it was started here."""

    def do(self, deed: str) -> None:
        """Do it, until the brokers answer again. Raises KafkaError, JavaError."""


@dataclass(frozen=True, slots=True)
class ListeningBroker:
    """A broker that listens at an address, and to which nothing is done."""

    address: Address
    replicas: tuple[int, ...] = ()
    means: Means = CLIENTS
    kafka: None = None

    def do(self, deed: str) -> None:
        """Raises LookupError."""
        raise LookupError(deed)


class TwoReplicas:
    """Two brokers of a cluster that have each partition; the third only votes.

    The leader is killed while the other is frozen, which then has what it had, and leads. Frozen
    means that nothing is on its way to it either: a fetch that it sent before is answered empty.
    """

    means = CLIENTS | {Wire.CLUSTER}
    kafka: None = None

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._leader, self._follower = 1, 2

    @property
    def replicas(self) -> tuple[int, ...]:
        """The leader and the follower of now."""
        return self._leader, self._follower

    @property
    def address(self) -> Address:
        """Where the leader listens."""
        return self._cluster.brokers[self._leader].address

    def do(self, deed: str) -> None:
        """Freeze the follower; or kill the leader, let the follower lead, and get it a follower."""
        brokers = self._cluster.brokers
        if deed == ISOLATE:
            self._cluster.await_in_sync(self._leader)
            brokers[self._follower].pause()
            time.sleep(FETCH_WAIT_S)
            return
        brokers[self._leader].kill()
        brokers[self._follower].resume()
        self._cluster.await_leader(self._follower, self._follower)
        self._leader, self._follower = self._follower, self._leader
        brokers[self._follower].start()
        self._cluster.await_in_sync(self._leader)


class OneBroker:
    """A broker that was started here."""

    replicas: tuple[int, ...] = ()

    def __init__(self, broker: KafkaBroker) -> None:
        self.kafka: KafkaBroker | None = broker
        self._broker = broker

    @property
    def means(self) -> frozenset[Wire]:
        """Those of this release."""
        return means_at_one(self._broker.release)

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self._broker.address

    def do(self, deed: str) -> None:
        """Stop or kill it, and start it again on what it left; or let it forget producers."""
        if deed == "expire_producer":
            self._expire()
            return
        if deed == "restart":
            self._broker.stop()
        else:
            self._broker.kill()
        self._broker.start()

    def _expire(self) -> None:
        """For a moment it remembers no producer that is idle for long enough to be looked at."""
        node_id = self._broker.node.node_id
        with self._broker.connect() as connection:
            set_config(connection, node_id, EXPIRATION, "1")
            time.sleep(EXPIRY_S)
            set_config(connection, node_id, EXPIRATION, str(DAY_MS))
            time.sleep(EXPIRY_S)
