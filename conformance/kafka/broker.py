"""One real broker: start it, stop it, kill it, freeze it; it never outlives this process.

The first start of a release gets its jars, formats a folder and writes an archive of the classes
that a broker loads (AppCDS); these stay in the cache. Later starts take about a second.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from conformance.kafka.admin import api_versions
from conformance.kafka.connection import ANSWER_TIMEOUT_MS, Connection
from conformance.kafka.errors import BrokerFailed, WireError
from conformance.kafka.fetch import fetch, release_folder, say
from conformance.kafka.ports import free_ports
from conformance.kafka.process import JavaProcess
from conformance.kafka.recipe import HOST, Node, java_command, properties_text, server_properties
from conformance.kafka.releases import NEWEST, Release, find_release
from conformance.kafka.storage import copy_formatted
from proofs.cache import make_once
from proofs.java import find_java, java_version

START_TIMEOUT_S: Final = 60.0
RECORD_TIMEOUT_S: Final = 60.0
PORT_ATTEMPTS: Final = 3

_PROBE_TIMEOUT_MS: Final = 1_000
_PROBE_PAUSE_S: Final = 0.02
_ARCHIVE: Final = "broker.jsa"
_PORT_TAKEN: Final = "Address already in use"


class KafkaBroker:
    """A combined broker and controller on loopback ports; a context manager that starts it.

    `level` is the cluster's `transaction.version`, by default the newest stable one. `properties`
    go over the recipe's. `folder` receives data, properties and log, and is kept; without it they
    are in a temporary folder, removed when the `with` block ends without an exception.
    Raises UnknownRelease.
    """

    def __init__(
        self,
        release: str = NEWEST,
        *,
        level: int | None = None,
        node_id: int = 1,
        properties: Mapping[str, str] | None = None,
        folder: Path | None = None,
        report: Callable[[str], None] = say,
    ) -> None:
        self.release = find_release(release)
        self.level = self.release.default_level if level is None else level
        self.release.check_level(self.level)
        self.node = Node(node_id, *free_ports(2))
        self.folder = folder or Path(tempfile.mkdtemp(prefix="kafka-eos-"))
        self._is_temporary = folder is None
        self._properties = dict(properties or {})
        self._report = report
        self._process: JavaProcess | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the client listener."""
        return HOST, self.node.port

    @property
    def is_running(self) -> bool:
        """Whether its process runs; a paused one does."""
        return self._process is not None and self._process.exit_code is None

    def connect(self, timeout_ms: int = ANSWER_TIMEOUT_MS) -> Connection:
        """Return a new connection to it. Raises ConnectionLost."""
        return Connection(*self.address, timeout_ms=timeout_ms)

    def start(self) -> None:
        """Start it, on the data that it left if any, and wait until it answers ApiVersions.

        Harmless when it runs. Raises BrokerFailed, MissingTool, FetchFailed, FormatFailed.
        """
        if self.is_running:
            return
        flags = [f"-XX:SharedArchiveFile={class_archive(self.release, self._report)}"]
        data = self.folder / "data"
        if data.exists():
            self._launch(flags)
            return
        copy_formatted(self.release, self.level, self.node.node_id, data, self._report)
        self._launch_anywhere(flags)

    def stop(self) -> None:
        """End it in order (SIGTERM, then SIGKILL); its data stays. Harmless when it is down."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """End it at once (SIGKILL); its data stays. Harmless when it is down."""
        if self._process is not None:
            self._process.kill()

    def restart(self) -> None:
        """`stop` and `start`: every partition's leader epoch goes up. Raises as `start`."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze it (SIGSTOP): connections stay open, nothing is answered."""
        if self._process is not None:
            self._process.pause()

    def resume(self) -> None:
        """Let it go on after `pause`."""
        if self._process is not None:
            self._process.resume()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.stop()
        else:
            self.kill()
        if self._is_temporary and error is None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _launch_anywhere(self, flags: list[str]) -> None:
        """Launch a broker that nobody knows yet; another program may have taken its ports."""
        for _ in range(PORT_ATTEMPTS - 1):
            try:
                self._launch(flags)
                return
            except BrokerFailed as error:
                if _PORT_TAKEN not in str(error):
                    raise
                self.node = Node(self.node.node_id, *free_ports(2))
        self._launch(flags)

    def _launch(self, flags: list[str]) -> None:
        properties = server_properties(
            self.release,
            self.level,
            self.node,
            [self.node],
            self.folder / "data",
            self._properties,
        )
        jars = fetch(self.release, self._report)
        self._process = launch(jars, flags, self.folder, properties)
        await_answer(self._process, self.node.port)


def launch(
    jars: tuple[Path, ...], flags: list[str], folder: Path, properties: Mapping[str, str]
) -> JavaProcess:
    """Start a broker's process with its properties and its log in `folder`; nothing is awaited."""
    file = folder / "server.properties"
    file.write_text(properties_text(properties))
    command = java_command(find_java(), jars, flags, "kafka.Kafka", file)
    return JavaProcess(command, folder / "server.log")


def await_answer(process: JavaProcess, port: int) -> None:
    """Wait until `process` answers ApiVersions on `port`.

    Raises BrokerFailed, with the end of its log, when it ends or START_TIMEOUT_S passes; it is
    dead then.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    while process.exit_code is None and time.monotonic() < deadline:
        try:
            with Connection(HOST, port, timeout_ms=_PROBE_TIMEOUT_MS) as connection:
                api_versions(connection)
            return
        except WireError:
            time.sleep(_PROBE_PAUSE_S)
    code = process.exit_code
    problem = f"no answer in {START_TIMEOUT_S:.0f} s" if code is None else f"exit code {code}"
    process.kill()
    raise BrokerFailed(f"the broker did not start: {problem}. {process.quote_log()}")


def class_archive(release: Release, report: Callable[[str], None] = say) -> Path:
    """Return the archive of the classes that a broker of `release` loads; made once per Java.

    Raises BrokerFailed, MissingTool, FetchFailed, FormatFailed.
    """

    def record(draft: Path) -> None:
        report(f"recording the classes of Kafka {release.name} (once)")
        level = release.default_level
        node = Node(1, *free_ports(2))
        with tempfile.TemporaryDirectory(prefix="kafka-eos-") as name:
            folder = Path(name)
            copy_formatted(release, level, node.node_id, folder / "data", report)
            properties = server_properties(release, level, node, [node], folder / "data", {})
            flags = [f"-XX:ArchiveClassesAtExit={draft / _ARCHIVE}"]
            with launch(jars, flags, folder, properties) as process:
                await_answer(process, node.port)
                process.stop(RECORD_TIMEOUT_S)

    jars = fetch(release, report)
    java = java_version(find_java())
    return make_once(release_folder(release) / f"classes-java-{java}", record) / _ARCHIVE
