"""Whatever is killed, a run on a cluster ends with one sentence or without noticing; and the same
command ends with the bytes that processes report.

The cluster is a master and two workers on loopback, whose Python lacks this project.
"""

import json
import os
import platform
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

from conformance.__main__ import main
from conformance.backends.environment import NEEDED
from proofs.run.files import REPOSITORY

sys.path.insert(0, str(Path(__file__).parent))
from standalone import (
    SMALL_JAVA,
    Cluster,
    ConnectServer,
    has_namespaces,
    kill,
    python_workers,
    wait_until,
)

pytestmark = pytest.mark.xdist_group("spark")

QUESTION = ("run", "--scope", "idempotent-restart", "--traces", "10000")
FILES = ("report.json", "junit.xml")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What processes report."""
    out = tmp_path_factory.mktemp("expected")
    assert main([*QUESTION, "--backend", "processes", "--out", str(out)]) == 0
    return out


def has_same_bytes(out: Path, expected: Path) -> bool:
    return all((out / name).read_bytes() == (expected / name).read_bytes() for name in FILES)


# On this machine


@pytest.mark.full
def test_a_killed_python_worker_is_one_sentence_and_the_same_command_goes_on(
    small, whole_run, spark_session, tmp_path, capsys
):
    run = [*small, "--backend", "spark", "--out", str(tmp_path)]
    ended = threading.Event()

    def kill_workers() -> None:
        while not ended.wait(0.02):
            if (tmp_path / "journal.jsonl").exists():
                kill(python_workers(os.getpid()))

    killer = threading.Thread(target=kill_workers)
    killer.start()
    try:
        assert main(run) == 3
    finally:
        ended.set()
        killer.join()
    assert is_one_sentence(capsys.readouterr().err, "a Python worker ended unexpectedly")
    assert main(run) == 0
    assert has_same_bytes(tmp_path, whole_run.out)


def is_one_sentence(said: str, words: str) -> bool:
    """Whether these words are in the last line, and no traceback is anywhere."""
    assert "Traceback" not in said
    assert "\tat " not in said
    return words in said.strip().splitlines()[-1]


# On a cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    pytest.importorskip("pyspark")
    opened = Cluster(tmp_path_factory.mktemp("cluster"))
    yield opened
    opened.close()


@dataclass
class ClusterRun:
    """The same command as often as it is needed, in a process of its own."""

    cluster: Cluster
    out: Path
    where: tuple[str, ...] = ()

    def start(self, *more: str) -> subprocess.Popen[str]:
        settings = {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.shuffle.readHostLocalDisk": "false",  # as on two machines
            "spark.pyspark.python": str(self.cluster.python),
            "spark.executor.extraJavaOptions": SMALL_JAVA,
        }
        given = [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
        where = self.where or ("--master", self.cluster.url, *given)
        command = (sys.executable, "-m", "conformance", *QUESTION, "--backend", "spark")
        return subprocess.Popen(
            [*command, *where, *more, "--partitions", "12", "--out", str(self.out)],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def start_and_judge(self, *more: str) -> subprocess.Popen[str]:
        """Started, with a wave behind it and some before it."""
        running = self.start(*more)
        wait_until(lambda: self.waves or running.poll() is not None, "the first wave")
        if running.poll() is not None:
            pytest.fail("".join(running.communicate()))
        return running

    def finish(self) -> int:
        """The same command, to its end; its exit code."""
        running = self.start()
        running.communicate()
        return running.returncode

    @property
    def waves(self) -> int:
        journal = self.out / "journal.jsonl"
        return journal.read_text().count("\n") if journal.exists() else 0


@pytest.fixture
def cluster_run(cluster: Cluster, tmp_path: Path) -> ClusterRun:
    return ClusterRun(cluster, tmp_path / "out")


@pytest.mark.full
def test_a_killed_executor_is_replaced_within_the_run(cluster, cluster_run, expected):
    running = cluster_run.start_and_judge()
    first, *_ = cluster.executors()
    assert kill([first])
    _, said = running.communicate()
    assert running.returncode == 0, said
    assert has_same_bytes(cluster_run.out, expected)
    [there] = json.loads((cluster_run.out / "run.json").read_text())["executors"]
    assert (there["hosts"], there["spark"]) == ([platform.node()], pyspark.__version__)
    assert set(there["packages"]) == set(NEEDED)


@pytest.mark.full
def test_a_python_worker_that_is_killed_twice_in_a_task(cluster, cluster_run, expected):
    running = cluster_run.start_and_judge("--conf", "spark.task.maxFailures=2")
    while running.poll() is None:
        kill(cluster.python_workers())
    assert running.returncode == 3
    assert is_one_sentence(running.communicate()[1], "a Python worker ended unexpectedly")
    assert cluster_run.finish() == 0
    assert has_same_bytes(cluster_run.out, expected)


@pytest.mark.full
def test_a_killed_driver_leaves_no_executors(cluster, cluster_run, expected):
    running = cluster_run.start_and_judge()
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    wait_until(lambda: not cluster.executors(), "the executors' end")
    assert cluster_run.finish() == 0
    assert has_same_bytes(cluster_run.out, expected)


@pytest.mark.full
def test_a_master_that_is_gone(cluster, cluster_run, expected, tmp_path):
    running = cluster_run.start_and_judge()
    cluster.master.kill()
    try:
        _, said = running.communicate()
        assert running.returncode == 0, said  # executors need no master
        assert has_same_bytes(cluster_run.out, expected)
        other = ClusterRun(cluster, tmp_path / "other")
        refused = other.start()
        assert is_one_sentence(refused.communicate()[1], "no Spark master listens at")
        assert refused.returncode == 2
    finally:
        cluster.start_master()
        cluster.wait_for_workers()
    assert other.finish() == 0
    assert has_same_bytes(other.out, expected)


@pytest.mark.full
@pytest.mark.skipif(not has_namespaces(), reason="no file system of its own for a worker")
def test_a_full_disk(cluster, cluster_run, expected):
    running = cluster_run.start_and_judge()
    for number in range(2):
        fill(cluster.disk_of(number))
    _, said = running.communicate()
    for number in range(2):
        (cluster.disk_of(number) / "filled").unlink()
    assert running.returncode == 3
    assert is_one_sentence(said, "a disk is full")
    assert cluster_run.finish() == 0
    assert has_same_bytes(cluster_run.out, expected)


def fill(disk: Path) -> None:
    """Write until no byte is left."""
    try:
        with (disk / "filled").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
    except OSError:
        pass


@pytest.mark.full
def test_a_connect_server_that_is_started_again(cluster, tmp_path, expected):
    pytest.importorskip("grpc")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = ("--remote", f"sc://127.0.0.1:{port}")
    run = ClusterRun(cluster, tmp_path / "out", where)
    server = ConnectServer(cluster, port)
    try:
        running = run.start_and_judge()
        server.kill()
        assert is_one_sentence(running.communicate()[1], "Spark is gone")
        assert running.returncode == 3
        server = ConnectServer(cluster, port)
        assert run.finish() == 0
    finally:
        server.kill()
    assert has_same_bytes(run.out, expected)
