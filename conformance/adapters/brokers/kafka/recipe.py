"""The setup of servers for tests: properties and JVM flags, as pure functions.

Servers use loopback only, and are small and quick to start: a broker takes about 1.2 s and 160 MB,
and 4 s and 330 MB with the defaults. In KRaft mode each broker is a controller, too; in ZooKeeper
mode all brokers share one ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.adapters.brokers.kafka.releases import Release

HOST: Final = "127.0.0.1"

_TUNED: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",  # only tests decide which broker leads
    "log.cleaner.dedupe.buffer.size": "2097152",  # default 128 MiB, half of the memory
    "log.index.size.max.bytes": "65536",  # default preallocates 2 x 10 MiB a partition
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "producer.id.expiration.check.interval.ms": "100",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}

_TUNED_KRAFT: Final = {
    "controller.quorum.election.backoff.max.ms": "50",
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "2000",  # a restart after kill -9 waits for the old session
    "add.partitions.to.txn.retry.backoff.ms": "1",
}

_TUNED_ZOOKEEPER: Final = {
    "zookeeper.session.timeout.ms": "2000",  # as above
}

_ZOOKEEPER: Final = {
    "clientPortAddress": HOST,
    "tickTime": "500",  # the unit of time; a session lasts 2 to 20 of it
    "maxClientCnxns": "0",  # no limit
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "ruok,dump",
}

_JVM: Final = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Xlog:cds=off",
    "-Xlog:cds+dynamic=off",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)


@dataclass(frozen=True)
class BrokerNode:
    """A broker's id and its two loopback ports."""

    node_id: int
    port: int
    controller_port: int


@dataclass(frozen=True)
class Ensemble:
    """The brokers of one cluster, and the port of their ZooKeeper if they have one.

    In KRaft mode `voters` are the brokers that are controllers, too; if empty, all brokers are.
    """

    nodes: tuple[BrokerNode, ...]
    zookeeper_port: int | None = None
    voters: tuple[int, ...] = ()

    @property
    def controllers(self) -> tuple[BrokerNode, ...]:
        """The nodes that vote."""
        return tuple(n for n in self.nodes if not self.voters or n.node_id in self.voters)


def server_properties(
    release: Release,
    level: int,
    node: BrokerNode,
    ensemble: Ensemble,
    data: Path,
    overrides: Mapping[str, str],
) -> dict[str, str]:
    """Return the properties of `node` of `ensemble`; `overrides` take precedence."""
    properties = {
        **_TUNED,
        **(_with_zookeeper(node, ensemble) if release.has_zookeeper else _kraft(node, ensemble)),
        "advertised.listeners": f"PLAINTEXT://{HOST}:{node.port}",
        "log.dirs": str(data),
    }
    if level in release.unstable_levels:
        properties["unstable.feature.versions.enable"] = "true"
    return {**properties, **overrides}


def _kraft(node: BrokerNode, ensemble: Ensemble) -> dict[str, str]:
    voters = ensemble.controllers
    quorum = ",".join(f"{n.node_id}@{HOST}:{n.controller_port}" for n in voters)
    votes = node in voters
    controller = f",CONTROLLER://{HOST}:{node.controller_port}" if votes else ""
    return {
        **_TUNED_KRAFT,
        "process.roles": "broker,controller" if votes else "broker",
        "node.id": str(node.node_id),
        "controller.quorum.voters": quorum,
        "listeners": f"PLAINTEXT://{HOST}:{node.port}{controller}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }


def _with_zookeeper(node: BrokerNode, ensemble: Ensemble) -> dict[str, str]:
    return {
        **_TUNED_ZOOKEEPER,
        "broker.id": str(node.node_id),
        "zookeeper.connect": f"{HOST}:{ensemble.zookeeper_port}",
        "listeners": f"PLAINTEXT://{HOST}:{node.port}",
    }


def zookeeper_properties(port: int, data: Path) -> dict[str, str]:
    """Return the properties of a ZooKeeper on `port` that keeps its data in `data`."""
    return {**_ZOOKEEPER, "clientPort": str(port), "dataDir": str(data)}


def properties_text(properties: Mapping[str, str]) -> str:
    """Return `properties` as a Java properties file, sorted."""
    return "".join(f"{name}={value}\n" for name, value in sorted(properties.items()))


def java_command(
    java: Path, jars: Sequence[Path], flags: Sequence[str], main: str, *arguments: str | Path
) -> list[str]:
    """Return the command that runs class `main`; the class path lists each jar, in order.

    An archive of classes fits one class path only, so the class path has no wildcard.
    """
    class_path = ":".join(map(str, jars))
    return [str(java), *_JVM, *flags, "-cp", class_path, main, *map(str, arguments)]
