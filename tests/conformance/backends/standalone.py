"""A standalone Spark cluster on loopback, and a Connect server: started, killed, started again.

Executors run a Python of their own, which has the packages that judging needs and not this project.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sysconfig
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import distribution
from pathlib import Path

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
PACKAGES = ("pyarrow", "numpy", "scipy", "networkx", "google-crc32c", "librt", "mypy_extensions")
"""What docs/reference/spark.md asks of executors."""
SMALL_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
DISK_BYTES = 64 * 1024 * 1024
REACH_TIMEOUT_S = 180.0
"""Three Javas start on cores that others use, too."""
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
EXECUTOR = "CoarseGrainedExecutorBackend"
PYTHON_WORKER = "pyspark.daemon"


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + REACH_TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} takes longer than {REACH_TIMEOUT_S:.0f} s"
        time.sleep(0.02)


def bare_python(folder: Path) -> Path:
    """An environment with links to the pinned packages, and nothing else; its Python."""
    venv.create(folder, symlinks=True)
    here = Path(sysconfig.get_path("purelib"))
    there = next(folder.glob("lib/python*/site-packages"))
    for name in PACKAGES:
        files = distribution(name).files or ()
        for top in {file.parts[0] for file in files if ".." not in file.parts}:
            if not (there / top).exists():
                (there / top).symlink_to(here / top)
    return folder / "bin" / "python"


# Processes


def children(pid: int) -> Iterator[int]:
    """All that a process started, and what these started."""
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from children(int(child))


def command_of(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def kill(pids: list[int]) -> int:
    """SIGKILL for each that is still there; how many were."""
    killed = 0
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    return killed


def python_workers(pid: int) -> list[int]:
    """Those below a process that judge: the children of daemons."""
    daemons = [child for child in children(pid) if PYTHON_WORKER in command_of(child)]
    return [worker for daemon in daemons for worker in children(daemon)]


class Server:
    """One Java of Spark; `within` are words before its command."""

    def __init__(self, log: Path, words: list[str], **environment: str) -> None:
        self.log = log
        self._output = log.open("ab")
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **JAVA, **environment},
            start_new_session=True,
        )

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first place in the log that matches."""
        regex = re.compile(pattern)
        found: list[re.Match[str]] = []

        def said() -> bool:
            text = self.log.read_text()
            lines = [line for line in text.splitlines() if not line.startswith("\tat ")]
            assert self.process.poll() is None, "\n".join(lines[-20:])
            found.extend(regex.finditer(text))
            return bool(found)

        wait_until(said, f"{pattern} in {self.log.name}")
        return found[0]

    def started(self, pattern: str) -> list[int]:
        """The processes below this one whose command has these words."""
        return [pid for pid in children(self.process.pid) if pattern in command_of(pid)]

    def kill(self) -> None:
        """SIGKILL for it and all that it started."""
        kill([*children(self.process.pid), self.process.pid])
        self.process.wait()
        self._output.close()


JAVA = {
    "SPARK_HOME": str(SPARK_HOME),
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": SMALL_JAVA,
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYTHONPATH": "",
}


def spark_class(*words: str) -> list[str]:
    return [str(SPARK_HOME / "bin" / "spark-class"), *words]


class Cluster:
    """A master and two workers of a core each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = bare_python(folder / "python")
        self.port = 0
        self.start_master()
        self.workers = [self.start_worker(n) for n in range(2)]
        self.wait_for_workers()

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def start_master(self) -> None:
        """At the same port as before, if there was one."""
        log = self.folder / "master.log"
        log.unlink(missing_ok=True)
        words = ("--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0")
        self.master = Server(log, spark_class(MASTER, *words))
        self.port = int(self.master.wait_for(r"Starting Spark master at spark://.*:(\d+)")[1])
        self.master.wait_for("I have been elected leader")

    def start_worker(self, number: int) -> Server:
        """Its scratch files are in a small file system of its own, where the system allows it."""
        place = self.folder / f"worker{number}"
        (place / "disk").mkdir(parents=True, exist_ok=True)
        words = spark_class(
            *(WORKER, self.url, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
            *("--cores", "1", "--memory", "600m", "--work-dir", str(place / "work")),
        )
        mount = f'mount -t tmpfs -o size={DISK_BYTES} none {place / "disk"} && exec "$0" "$@"'
        within = ["unshare", "-rm", "sh", "-c", mount] if has_namespaces() else []
        disk = str(place / "disk")
        return Server(self.folder / f"worker{number}.log", within + words, SPARK_LOCAL_DIRS=disk)

    def wait_for_workers(self) -> None:
        """Until the master knows both."""
        self.master.wait_for(r"(?s)Registering worker .*Registering worker ")

    def disk_of(self, number: int) -> Path:
        """Its file system, as it is seen from here."""
        worker = self.workers[number].process.pid
        return Path(f"/proc/{worker}/root{self.folder}/worker{number}/disk")

    def executors(self) -> list[int]:
        return [pid for worker in self.workers for pid in worker.started(EXECUTOR)]

    def python_workers(self) -> list[int]:
        return [pid for worker in self.workers for pid in python_workers(worker.process.pid)]

    def close(self) -> None:
        for server in (*self.workers, self.master):
            server.kill()


class ConnectServer(Server):
    """A server of Spark Connect, whose executors are the cluster's."""

    def __init__(self, cluster: Cluster, port: int) -> None:
        settings = {
            "spark.master": cluster.url,
            "spark.connect.grpc.binding.port": str(port),
            "spark.ui.enabled": "false",
            "spark.executor.memory": "512m",
            "spark.driver.extraJavaOptions": SMALL_JAVA,
            "spark.executor.extraJavaOptions": SMALL_JAVA,
            "spark.shuffle.readHostLocalDisk": "false",
            "spark.sql.warehouse.dir": str(cluster.folder / "warehouse"),
        }
        log = cluster.folder / "connect.log"
        log.unlink(missing_ok=True)
        words = [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
        submit = [str(SPARK_HOME / "bin" / "spark-submit"), *words, "--class", CONNECT]
        there = {"PYSPARK_PYTHON": str(cluster.python), "SPARK_DAEMON_MEMORY": "600m"}
        super().__init__(log, [*submit, "spark-internal"], **there)
        self.wait_for("Spark Connect server started")


def has_namespaces() -> bool:
    """Whether a process may have a file system of its own."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return False
    return subprocess.run([unshare, "-rm", "true"], check=False).returncode == 0
