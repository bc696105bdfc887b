"""`kafka-eos serve --dir` in a process of its own: stopped, killed, and restarted from its
directory, on the same ports."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from conformance.adapters.brokers.kafka.administration import set_level
from conformance.adapters.brokers.kafka.broker import answers
from conformance.adapters.brokers.kafka.connection import ANSWER_TIMEOUT_MS, BrokerConnection
from conformance.adapters.brokers.kafka.errors import BrokerFailed
from conformance.adapters.brokers.kafka.ports import free_ports_in_a_row
from conformance.adapters.brokers.kafka.process import (
    ServerProcess,
    ServersInDirectory,
    StartedServer,
)
from conformance.adapters.brokers.kafka.recipe import HOST
from conformance.adapters.brokers.kafka.releases import Release
from proofs.run.files import REPOSITORY

TRANSACTION_VERSION: Final = "transaction.version"
SETTINGS: Final[Mapping[str, str]] = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "add.partitions.to.txn.retry.backoff.ms": "1",
}
"""The same settings as `recipe` has for Kafka."""
FLUSHES: Final = ("--flush-messages", "1")
"""Each batch is flushed to disk before it is answered."""
SERVE: Final = ("-P", "-m", "kafka_eos", "serve")
COMMANDED: Final = ("-P", "-m", "conformance.adapters.brokers.served.commands")
"""As SERVE, with nodes that are stopped, started and moved by command."""
COMMAND_TIMEOUT_S: Final = 30.0


class ServedBroker(StartedServer, ServersInDirectory):
    """The broker with `nodes` nodes, on as many adjacent ports; a context manager that starts it.

    It serves as a `release` at a `level`, with `settings` in addition to the usual ones. A broker
    of several nodes takes commands (`tell`). A broker that `is_killed` flushes before it answers.
    """

    def __init__(
        self,
        release: Release,
        level: int,
        nodes: int = 1,
        settings: Mapping[str, str] | None = None,
        *,
        is_killed: bool = True,
    ) -> None:
        ServersInDirectory.__init__(self)
        self._flushes = FLUSHES if is_killed else ()
        self.release = release
        self.nodes = nodes
        self._level = level
        self._settings = {**SETTINGS, **(settings or {})}
        self._port = free_ports_in_a_row(nodes)
        self._is_new = True

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first node."""
        return HOST, self._port

    def connect(self, node_id: int = 1, timeout_ms: int = ANSWER_TIMEOUT_MS) -> BrokerConnection:
        """Return a new connection to a node. Raises ConnectionLost."""
        return BrokerConnection(HOST, self._port + node_id - 1, timeout_ms=timeout_ms)

    def start(self) -> None:
        """Start all nodes, on their data if any. Does nothing if they run. Raises BrokerFailed."""
        if not self.is_running:
            self.start_nodes(self.nodes, {})

    def start_nodes(self, nodes: int, seats: Mapping[str, int]) -> None:
        """Start the first `nodes` nodes. `seats` names the node that leads a topic, if it is not
        the first; a node that is not started leads nothing until it is. Raises BrokerFailed."""
        program = (
            SERVE if self.nodes == 1 else (*COMMANDED, str(self._control), json.dumps(dict(seats)))
        )
        command = [sys.executable, *program, *self._arguments(nodes)]
        self._process = ServerProcess(command, self.folder / "server.log", environment())
        last_port = self._port + nodes - 1  # they start one after the other
        self._process.await_service("the broker", lambda: answers(last_port))
        if self._is_new:
            self._set_level()
        self._is_new = False

    def _arguments(self, nodes: int) -> Sequence[str]:
        """The arguments of `kafka-eos serve`."""
        version = self.release.version.rpartition(".")[0]
        settings = (f"{name}={value}" for name, value in self._settings.items())
        return [
            *("--listen", f"{HOST}:{self._port}", "--nodes", str(nodes), "--release", version),
            *("--dir", str(self.folder / "data"), *self._flushes, "--no-auto-create"),
            *(word for setting in settings for word in ("--config", setting)),
        ]

    def _set_level(self) -> None:
        """Set the level; the directory keeps it."""
        if self._level != self.release.default_level:
            with self.connect() as connection:
                set_level(connection, TRANSACTION_VERSION, self._level, is_upgrade=False)

    def tell(self, *command: Any) -> None:
        """Let the process execute a command, see `commands`. Raises BrokerFailed."""
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(COMMAND_TIMEOUT_S)
            try:
                control.connect(str(self._control))
                control.sendall(json.dumps(command).encode() + b"\n")
                answer = control.makefile("rb").readline()
            except OSError as error:
                raise BrokerFailed(f"the broker does not do {command}: {error}") from error
        if answer != b"done\n":
            raise BrokerFailed(f"the broker does not do {command}: {answer.decode()}")

    @property
    def _control(self) -> Path:
        return self.folder / "control"

    def close(self) -> None:
        """Kill the process."""
        self.kill()


def environment() -> dict[str, str]:
    """The environment of this process, with this repository at the end of its path."""
    paths = filter(None, (os.environ.get("PYTHONPATH"), str(REPOSITORY)))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
