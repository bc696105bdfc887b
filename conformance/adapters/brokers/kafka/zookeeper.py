"""The ZooKeeper for the brokers of a release that keeps its metadata there.

Its jars come with those releases. Its four-letter words say whether it serves (`ruok`), and which
brokers it believes to be alive (`dump`).
"""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from typing import Final

from conformance.adapters.brokers.kafka.errors import BrokerFailed
from conformance.adapters.brokers.kafka.ports import free_ports
from conformance.adapters.brokers.kafka.process import ServerProcess, StartedServer
from conformance.adapters.brokers.kafka.recipe import (
    HOST,
    java_command,
    properties_text,
    zookeeper_properties,
)
from conformance.adapters.brokers.kafka.wait import wait_until
from proofs.java import find_java

SESSION_TIMEOUT_S: Final = 30.0
"""The time for which a dead broker may stay registered."""

_MAIN: Final = "org.apache.zookeeper.server.ZooKeeperServerMain"
_FLAGS: Final = ("-Dzookeeper.forceSync=no",)  # if the machine fails, so does the judge
_WORD_TIMEOUT_S: Final = 1.0
_CHUNK_BYTES: Final = 1 << 16


class ZooKeeper(StartedServer):
    """A server on a loopback port, with its data and its log in `folder`, which must exist."""

    def __init__(self, folder: Path) -> None:
        [self.port] = free_ports(1)
        self.folder = folder

    def start(self, jars: tuple[Path, ...], flags: tuple[str, ...] = ()) -> None:
        """Start it, on its data if any, and wait until it serves.

        Does nothing if it runs. Raises BrokerFailed, MissingTool.
        """
        if self.is_running:
            return
        file = self.folder / "zookeeper.properties"
        properties = zookeeper_properties(self.port, self.folder / "zookeeper")
        file.write_text(properties_text(properties))
        command = java_command(find_java(), jars, (*_FLAGS, *flags), _MAIN, file)
        self._process = ServerProcess(command, self.folder / "zookeeper.log")
        self._process.await_service("ZooKeeper", lambda: self._answer("ruok") == "imok")

    def await_absence(self, node_id: int) -> None:
        """Wait until ZooKeeper has noticed that a broker is gone: the session of a dead broker
        lasts a while.

        Raises BrokerFailed if that takes longer than SESSION_TIMEOUT_S.
        """
        wait_until(
            lambda: f"/brokers/ids/{node_id}\n" not in self._answer("dump"),
            SESSION_TIMEOUT_S,
            BrokerFailed(f"broker {node_id} is down and ZooKeeper does not notice it"),
        )

    def _answer(self, word: str) -> str:
        """ZooKeeper's answer to a four-letter word; empty if none comes."""
        answer = b""
        with (
            suppress(OSError),
            socket.create_connection((HOST, self.port), _WORD_TIMEOUT_S) as peer,
        ):
            peer.sendall(word.encode())
            while chunk := peer.recv(_CHUNK_BYTES):
                answer += chunk
        return answer.decode(errors="replace")
