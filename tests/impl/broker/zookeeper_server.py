"""A real ZooKeeper for tests: its jars through Maven, one process, a folder of its own."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from tests.impl.jars import Unavailable, jars

VERSION = "3.8.4"
JARS = {
    "org.apache.zookeeper:zookeeper": VERSION,
    "io.dropwizard.metrics:metrics-core": "4.1.12.1",
    "org.xerial.snappy:snappy-java": "1.1.10.5",
}
"""The last two are needed to run a server, and left out by the first one's own list."""

START_TIMEOUT_S = 60
STARTS = 3


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """A ZooKeeper whose data are in `folder`: "host:port". Raises `Unavailable`."""
    classes = f"{jars(f'zookeeper-{VERSION}', JARS)}/*"
    for _ in range(STARTS):
        hosts = f"127.0.0.1:{_free_port()}"
        process = subprocess.Popen(
            [
                *("java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                *("-Dzookeeper.admin.enableServer=false", "-Dzookeeper.forceSync=no"),
                *("-cp", classes, "org.apache.zookeeper.server.ZooKeeperServerMain"),
                *(hosts.rpartition(":")[2], str(folder)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            if _answers(hosts, process):
                yield hosts
                return
        finally:
            process.kill()
            process.wait()
    raise Unavailable(f"ZooKeeper did not start in {STARTS} attempts")


def _answers(hosts: str, process: subprocess.Popen[bytes]) -> bool:
    """Whether it is there; not, if another process was faster at its port."""
    try:
        with connected(hosts):
            return process.poll() is None
    except KazooTimeoutError:
        return False


@contextmanager
def connected(hosts: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts)
    try:
        client.start(timeout=START_TIMEOUT_S)
        yield client
    finally:
        client.stop()
        client.close()
