"""Brokers that are started and judged here, with the faults that a test can inject.

A fault has the name of a rule of the leader. The brokers are stopped, killed and restarted; after
each fault their connections are closed, and they lead all of their partitions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from conformance.adapters.brokers.idempotent.deliveries import ISOLATE
from conformance.adapters.brokers.kafka.admin import describe_producers, leaders
from conformance.adapters.brokers.kafka.administration import await_applied, set_config
from conformance.adapters.brokers.kafka.cluster import KafkaCluster
from conformance.adapters.brokers.kafka.connection import BrokerConnection
from conformance.adapters.brokers.kafka.errors import KafkaError
from conformance.adapters.brokers.kafka.releases import Release
from conformance.adapters.brokers.kafka.wait import poll
from conformance.adapters.brokers.layouts import ON_A_BUSY_MACHINE
from conformance.adapters.brokers.listening_broker import ListeningBroker, NoBroker
from conformance.generate.faults import CLIENTS, Means
from impl.addresses import Address
from model.language import Wire
from proofs.java import JavaError

FETCH_WAIT_S: Final = 1.5
"""Much longer than a fetch waits for new records at a leader of `KafkaCluster`."""
EXPIRATION: Final = "producer.id.expiration.ms"
NODE: Final = 1
"""The id of a single broker."""
DAY_MS: Final = 86_400_000
EXPIRY_S: Final = 20.0
"""The longest wait until a broker has forgotten its idle producers."""


def means_at_one(release: Release) -> frozenset[Wire]:
    """The means of a test at one broker of a release."""
    means = CLIENTS | {Wire.RESTARTS, Wire.DELETE_RECORDS}
    return means | {Wire.DYNAMIC_CONFIGS} if release.has_producer_expiry else means


class StoppedBroker(Protocol):
    """A server that is started here and can be stopped: Kafka, or a broker that is served as Kafka
    is. Raises KafkaError, JavaError."""

    @property
    def address(self) -> Address:
        """The address of its listener."""

    def start(self) -> None:
        """Start it, on the data that it left."""

    def stop(self) -> None:
        """Stop it in an orderly way."""

    def kill(self) -> None:
        """Kill it."""

    def connect(self) -> BrokerConnection:
        """Open one more connection."""


class OneBroker(ListeningBroker):
    """A broker that was started here, with its faults."""

    def __init__(self, kafka: StoppedBroker, means: Means) -> None:
        self.kafka = kafka
        self.means = means
        super().__init__(kafka.address)

    @property
    def address(self) -> Address:
        """The address of its listener."""
        return self.kafka.address

    def inject(self, fault: str) -> None:
        """Stop or kill it, and restart it on its data; or let it forget producers. Raises
        KafkaError, JavaError."""
        if fault == "expire_producer":
            self._expire()
            return
        if fault == "restart":
            self.kafka.stop()
        else:
            self.kafka.kill()
        self.kafka.start()

    def _expire(self) -> None:
        """For a moment, let the broker forget all producers without an open transaction."""
        with self.kafka.connect() as connection:
            set_config(connection, NODE, EXPIRATION, "1")
            poll(lambda: _has_idle(connection), lambda is_left: not is_left, EXPIRY_S)
            set_config(connection, NODE, EXPIRATION, str(DAY_MS))
            await_applied(connection.ask)


def _has_idle(connection: BrokerConnection) -> bool:
    """Whether some partition has the state of a producer without an open transaction."""
    described = describe_producers(connection, leaders(connection))
    found = (each for partition in described.values() for each in partition.producers.values())
    return any(each.current_txn_start_offset < 0 for each in found)


class TwoReplicas(ListeningBroker):
    """Two brokers of a cluster that both have each partition; the third broker only votes.

    The leader is killed while the other is frozen, which then leads with the log that it had. A
    frozen broker has no data under way to it: a fetch that it sent before is answered empty.
    """

    means = CLIENTS | {Wire.CLUSTER}

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self.replicas = 1, 2
        super().__init__(self.address)

    @property
    def address(self) -> Address:
        """The address of the leader's listener."""
        return self._cluster.brokers[self.replicas[0]].address

    def inject(self, fault: str) -> None:
        """Freeze the follower; or kill the leader, let the follower lead, and give it a follower.
        Raises KafkaError, JavaError."""
        leader, follower = self.replicas
        brokers = self._cluster.brokers
        if fault == ISOLATE:
            self._cluster.await_in_sync(leader)
            brokers[follower].pause()
            time.sleep(FETCH_WAIT_S)
            return
        brokers[leader].kill()
        brokers[follower].resume()
        self._cluster.await_leader(follower, follower)
        self.replicas = follower, leader
        brokers[leader].start()
        self._cluster.await_in_sync(follower)


@contextmanager
def started(
    release: str, level: int, nodes: int = 1, *, is_killed: bool = True
) -> Iterator[ListeningBroker]:
    """A broker or a cluster of this release of Apache Kafka, stopped at the end. Raises NoBroker.

    A broker that `is_killed` has a short session, because it restarts only after its session has
    ended.
    """
    properties = {} if is_killed else ON_A_BUSY_MACHINE
    cluster = KafkaCluster(release, nodes=nodes, level=level, properties=properties)
    try:
        cluster.start()
    except (KafkaError, JavaError) as error:
        cluster.close()
        raise NoBroker(str(error)) from error
    with cluster:
        if nodes == 1:
            yield OneBroker(cluster.brokers[NODE], means_at_one(cluster.brokers[NODE].release))
        else:
            yield TwoReplicas(cluster)
