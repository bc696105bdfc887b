"""One real broker: started, stopped, killed or frozen; it never outlives this process.

The first start of a release fetches its jars, formats a folder and writes archives of the classes
that its servers load (AppCDS). All of these stay in the cache. Later starts take about a second.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from conformance.adapters.brokers.kafka.admin import api_versions
from conformance.adapters.brokers.kafka.connection import ANSWER_TIMEOUT_MS, BrokerConnection
from conformance.adapters.brokers.kafka.errors import BrokerFailed, WireError
from conformance.adapters.brokers.kafka.fetch import fetch, release_folder, say
from conformance.adapters.brokers.kafka.ports import free_ports
from conformance.adapters.brokers.kafka.process import (
    ServerProcess,
    ServersInDirectory,
    StartedServer,
)
from conformance.adapters.brokers.kafka.recipe import (
    HOST,
    BrokerNode,
    Ensemble,
    java_command,
    properties_text,
    server_properties,
)
from conformance.adapters.brokers.kafka.releases import NEWEST, Release, find_release
from conformance.adapters.brokers.kafka.storage import copy_formatted
from conformance.adapters.brokers.kafka.zookeeper import ZooKeeper
from proofs.cache import make_once
from proofs.java import find_java, java_version

RECORD_TIMEOUT_S: Final = 60.0
PORT_ATTEMPTS: Final = 3

_PROBE_TIMEOUT_MS: Final = 1_000
_PORT_TAKEN: Final = "Address already in use"
_USE: Final = "-XX:SharedArchiveFile={}"
_RECORD: Final = "-XX:ArchiveClassesAtExit={}"


class KafkaBroker(StartedServer, ServersInDirectory):
    """A broker on loopback ports; a context manager that starts it.

    In KRaft mode the broker is a controller, too. In ZooKeeper mode it has a ZooKeeper, which keeps
    running when the broker is stopped. `level` is the cluster's `transaction.version`, by default
    the newest stable one. `properties` and `jvm_flags` override the recipe's. `folder` receives
    data, properties and logs; it is created if missing, and is kept. Without `folder` they are in a
    temporary folder, which is removed when the `with` block ends without an exception. `ensemble`
    and `zookeeper` are those of its cluster (`KafkaCluster`). Raises UnknownRelease.
    """

    def __init__(
        self,
        release: str = NEWEST,
        *,
        level: int | None = None,
        node_id: int = 1,
        properties: Mapping[str, str] | None = None,
        jvm_flags: Sequence[str] = (),
        folder: Path | None = None,
        ensemble: Ensemble | None = None,
        zookeeper: ZooKeeper | None = None,
    ) -> None:
        self.release = find_release(release)
        self.level = self.release.default_level if level is None else level
        self.release.check_level(self.level)
        ServersInDirectory.__init__(self, folder)
        self._is_alone = ensemble is None
        self._zookeeper = zookeeper
        if self.release.has_zookeeper and zookeeper is None:
            self._zookeeper = ZooKeeper(self.folder)
        self._ensemble = ensemble or self._ensemble_of(BrokerNode(node_id, *free_ports(2)))
        [self.node] = [node for node in self._ensemble.nodes if node.node_id == node_id]
        self._properties = dict(properties or {})
        self._jvm_flags = tuple(jvm_flags)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the client listener."""
        return HOST, self.node.port

    @property
    def zookeeper_address(self) -> tuple[str, int] | None:
        """Host and port of its ZooKeeper, if it has one."""
        return None if self._zookeeper is None else (HOST, self._zookeeper.port)

    @property
    def pid(self) -> int | None:
        """The id of its process; None before the first start."""
        return None if self._process is None else self._process.pid

    def connect(self, timeout_ms: int = ANSWER_TIMEOUT_MS) -> BrokerConnection:
        """Return a new connection to the broker. Raises ConnectionLost."""
        return BrokerConnection(*self.address, timeout_ms=timeout_ms)

    def start(self) -> None:
        """Start it, on its data if any, and wait until it answers ApiVersions.

        Does nothing if it runs. Raises BrokerFailed, MissingTool, FetchFailed, FormatFailed.
        """
        if self.is_running:
            return
        self.launch()
        self.await_answer()

    def launch(self) -> None:
        """Launch its process, without waiting for its first answer. Raises as `start`."""
        self._launch(class_archives(self.release), _USE)

    def await_answer(self) -> None:
        """Wait until the broker answers, after `launch`. Raises as `start`; the broker is dead
        then.

        A broker without a cluster moves to other ports if its own are taken.
        """
        for _ in range(PORT_ATTEMPTS - 1):
            try:
                self._await_service()
                return
            except BrokerFailed as error:
                if _PORT_TAKEN not in str(error) or not self._is_alone:
                    raise
                self.node = BrokerNode(self.node.node_id, *free_ports(2))
                self._ensemble = self._ensemble_of(self.node)
                self.launch()
        self._await_service()

    def _await_service(self) -> None:
        assert self._process is not None
        self._process.await_service("the broker", lambda: answers(self.node.port))

    def record(self, archives: Path) -> None:
        """Start and stop it once, and leave the archives of its servers' classes in a folder."""
        try:
            self._launch(archives, _RECORD)
            self._await_service()
            self.stop(RECORD_TIMEOUT_S)
            if self._zookeeper is not None:
                self._zookeeper.stop(RECORD_TIMEOUT_S)
        finally:
            self.close()

    def close(self) -> None:
        """Kill its processes, including its own ZooKeeper."""
        self.kill()
        if self._zookeeper is not None and self._is_alone:
            self._zookeeper.kill()

    def restart(self) -> None:
        """`stop` and `start`: the leader epoch of every partition increases. Raises as `start`."""
        self.stop()
        self.start()

    def _ensemble_of(self, node: BrokerNode) -> Ensemble:
        return Ensemble((node,), self._zookeeper.port if self._zookeeper else None)

    def _launch(self, archives: Path, flag: str) -> None:
        """Start its process, and its ZooKeeper first; `flag` is the JVM's option for archives."""
        jars = fetch(self.release)
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._zookeeper is not None:
            self._zookeeper.start(jars, (flag.format(archives / "zookeeper.jsa"),))
            self._zookeeper.await_absence(self.node.node_id)
        data = self.folder / "data"
        if not data.exists():
            copy_formatted(self.release, self.level, self.node.node_id, data)
        properties = server_properties(
            self.release, self.level, self.node, self._ensemble, data, self._properties
        )
        file = self.folder / "server.properties"
        file.write_text(properties_text(properties))
        flags = [flag.format(archives / "broker.jsa"), *self._jvm_flags]
        command = java_command(find_java(), jars, flags, "kafka.Kafka", file)
        self._process = ServerProcess(command, self.folder / "server.log")


def answers(port: int) -> bool:
    """Whether a broker on `port` answers ApiVersions."""
    try:
        with BrokerConnection(HOST, port, timeout_ms=_PROBE_TIMEOUT_MS) as connection:
            api_versions(connection)
    except WireError:
        return False
    return True


def class_archives(release: Release) -> Path:
    """Return the folder with the archives of the classes that servers of `release` load.

    They are made once per Java. Raises BrokerFailed, MissingTool, FetchFailed, FormatFailed.
    """

    def record(draft: Path) -> None:
        say(f"recording the classes of Kafka {release.name} (once)")
        with tempfile.TemporaryDirectory(prefix="kafka-eos-") as name:
            KafkaBroker(release.name, folder=Path(name)).record(draft)

    fetch(release)
    java = java_version(find_java())
    return make_once(release_folder(release) / f"classes-java-{java}", record)
