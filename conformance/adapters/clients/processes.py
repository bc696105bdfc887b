"""Client processes: Apache Kafka's own client of a release, or any command with the same lines.

A client reads a line for each run, and writes a line for each record's outcome; see
`adapters/JavaClient.java` for both formats. A command serves one run at a time in each of its
processes; the Java client serves many at once in one process.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from conformance.adapters.brokers.kafka.fetch import say
from conformance.adapters.brokers.kfake_process import BrokerMissing, go_binary
from conformance.adapters.clients.run_plan import TOPIC, RunPlan
from conformance.adapters.clients.trace import UNFINISHED, UNKNOWN, Record, RecordOutcome
from proofs.cache import cache_folder, make_once
from proofs.java import download_jars, find_java
from proofs.run import BadUse

JAVA: Final = "java:"
ADAPTERS: Final = Path(__file__).with_name("programs")
SOURCE: Final = ADAPTERS / "JavaClient.java"
OF_PYTHON: Final = {
    "librdkafka": ("librdkafka_client.py", "confluent_kafka"),
    "aiokafka": ("aiokafka_client.py", "aiokafka"),
    "kafka-python": ("kafka_python_client.py", "kafka"),
}
"""Clients in Python with an adapter in this package: the file, and the module that it needs."""
DISTRIBUTIONS: Final = {"confluent_kafka": "confluent-kafka", "kafka": "kafka-python"}
FRANZ: Final = "franz-go"
KAFKAJS: Final = "kafkajs"
SHIPPED: Final = (*OF_PYTHON, FRANZ, KAFKAJS)
"""Clients that `--client` knows by name."""
LOGGING: Final = "org.slf4j:slf4j-simple:1.7.36"
JVM_OPTIONS: Final = (
    "-Xmx768m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
)

EXIT_SECONDS: Final = 5
"""A client that has closed its output ends within this time, or stays alive."""

Clock = Callable[[int], int]
"""Converts nanoseconds of the monotonic clock to microseconds since a run began."""


@dataclass(frozen=True, slots=True)
class ClientCommand:
    """The command that starts a client, and the number of runs that one process serves at once."""

    name: str
    arguments: tuple[str, ...]
    runs_at_once: int


def client_command(text: str) -> ClientCommand:
    """The client that `--client` names: `java:RELEASE`, one of SHIPPED, else a command.

    Raises MissingTool, FetchFailed, BadUse for a text that is no command.
    """
    if not text.startswith(JAVA):
        return ClientCommand(text, check_command(text), runs_at_once=1)
    jars = client_jars(text.removeprefix(JAVA)) / "*"
    arguments = (str(find_java()), *JVM_OPTIONS, "-cp", str(jars), str(SOURCE))
    return ClientCommand(text, arguments, runs_at_once=1_000)


def shipped_command(name: str) -> tuple[str, ...]:
    """The command that starts a client of SHIPPED. Raises BadUse if its runtime is missing."""
    if name == FRANZ:
        try:
            return (str(go_binary(ADAPTERS / "franz", "franz")),)
        except BrokerMissing as error:
            raise BadUse(f"--client {name}: {error}") from error
    if name == KAFKAJS:
        return (*node_with_kafkajs(), str(ADAPTERS / "kafkajs" / "main.mjs"))
    file, module = OF_PYTHON[name]
    if find_spec(module) is None:
        distribution = DISTRIBUTIONS.get(module, module)
        raise BadUse(f"--client {name} is not installed; type: pip install {distribution}")
    return (sys.executable, str(ADAPTERS / file))


def client_version(text: str) -> str:
    """A client with its version, as far as that is known."""
    if text in OF_PYTHON:
        module = OF_PYTHON[text][1]
        return f"{text} of {DISTRIBUTIONS.get(module, module)} {installed_version(module)}"
    pins = {FRANZ: "franz/go.mod", KAFKAJS: "kafkajs/package.json"}
    if text not in pins:
        return text
    found = re.search(r'(?:franz-go v|"kafkajs": ")([\d.]+)', (ADAPTERS / pins[text]).read_text())
    return f"{text} {found[1]}" if found else text


def installed_version(module: str) -> str:
    """The version of a module's distribution, "missing" if it is not installed."""
    try:
        return version(DISTRIBUTIONS.get(module, module))
    except PackageNotFoundError:
        return "missing"


def node_with_kafkajs() -> tuple[str, ...]:
    """Node.js with a path to kafkajs, which is fetched once through npm. Raises BadUse."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise BadUse(f"--client {KAFKAJS}: Node.js is not installed; type: apt-get install npm")
    source = (ADAPTERS / "kafkajs" / "package.json").read_bytes()

    def install(draft: Path) -> None:
        (draft / "package.json").write_bytes(source)
        command = [npm, "install"]
        asked = subprocess.run(command, cwd=draft, capture_output=True, text=True, check=False)
        if asked.returncode:
            raise BadUse(f"--client {KAFKAJS}: npm does not install it: {asked.stderr.strip()}")

    folder = make_once(cache_folder() / "kafkajs" / sha256(source).hexdigest()[:16], install)
    return (node, "--import", f"data:text/javascript,process.chdir({str(folder)!r})")


def check_command(text: str) -> tuple[str, ...]:
    """The words of a command, if it can be started. Raises BadUse."""
    if text in SHIPPED:
        return shipped_command(text)
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise BadUse(f"--client {text!r}: {error}") from error
    if not words or shutil.which(words[0]) is None:
        known = ", ".join(("java:RELEASE", *SHIPPED))
        raise BadUse(f"--client {text!r}: there is no such command; write CMD, or one of {known}")
    return words


def client_jars(release: str) -> Path:
    """The folder with the jars of a release's clients, fetched once through Maven.

    Raises MissingTool, FetchFailed.
    """

    def download(draft: Path) -> None:
        say(f"getting the jars of kafka-clients {release} (once)")
        download_jars((f"org.apache.kafka:kafka-clients:{release}", LOGGING), draft)

    return make_once(cache_folder() / "kafka-clients" / release, download)


@dataclass(slots=True)
class ClientReport:
    """A client's report of a run, with times by `clock`; `problem` says why the run did not end."""

    clock: Clock
    handed_us: dict[Record, int] = field(default_factory=dict)
    outcomes: dict[Record, RecordOutcome] = field(default_factory=dict)
    ends: dict[int, str] = field(default_factory=dict)
    problem: str = ""

    def add_line(self, words: Sequence[str]) -> None:
        """Take one line about the run, without its number. Raises ValueError for any other."""
        match words:
            case ["broken", *what]:
                self.problem = f"the client broke down: {' '.join(what)}"
            case ["transaction", number, ("committed" | "aborted") as end]:
                self.ends[int(number)] = end
            case ["transaction", number, "failed", *error]:
                self.ends[int(number)] = " ".join(error)
            case [partition, number, "sent", at_ns]:
                self.handed_us[int(partition), int(number)] = self.clock(int(at_ns))
            case [partition, number, "stored", offset, *at_ns]:
                self._add_outcome((int(partition), int(number)), at_ns, int(offset), "")
            case [partition, number, "failed", error, *at_ns]:
                self._add_outcome((int(partition), int(number)), at_ns, -1, error)
            case _:
                raise ValueError(words)

    def _add_outcome(self, record: Record, at_ns: Sequence[str], offset: int, error: str) -> None:
        at_us = self.clock(int(at_ns[0])) if at_ns else UNKNOWN
        handed_us = self.handed_us.get(record, 0)
        self.outcomes[record] = RecordOutcome(at_us, handed_us, offset, error)


class ClientProcess:
    """A running client: an asynchronous context manager."""

    def __init__(self, command: ClientCommand) -> None:
        self._command = command
        self._runs: dict[str, tuple[ClientReport, asyncio.Event]] = {}
        self._held: list[socket.socket] = []

    async def __aenter__(self) -> ClientProcess:
        await self._start()
        return self

    async def _start(self) -> None:
        self._has_run = False
        self._process = await asyncio.create_subprocess_exec(
            *self._command.arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        self._reading = asyncio.create_task(self._read())

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def _stop(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._reading
        await self._process.wait()
        for port in self._held:
            port.close()
        self._held.clear()

    def hold_ports(self, ports: Iterable[socket.socket]) -> None:
        """Keep ports from being reused while the client lives."""
        self._held += ports

    @property
    def is_alive(self) -> bool:
        """Whether the client takes more runs."""
        return not self._reading.done()

    async def run(self, plan: RunPlan, bootstrap: str, clock: Clock) -> ClientReport:
        """Run a plan to its end, or for as long as it may take: twice as long while a process
        starts. A client that serves one run at a time and hangs in it would block the next run, so
        another process is started."""
        report, ended = ClientReport(clock), asyncio.Event()
        limit_s = plan.timeout_s if self._has_run else 2 * plan.timeout_s
        self._runs[str(plan.number)] = report, ended
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(f"{format_plan(plan, bootstrap)}\n".encode())
            await asyncio.wait_for(ended.wait(), limit_s)
            self._has_run = True
        except TimeoutError:
            report.problem = UNFINISHED
        except OSError as error:
            report.problem = f"the client is gone: {error}"
        del self._runs[str(plan.number)]
        if report.problem == UNFINISHED and self._command.runs_at_once == 1:
            await self._stop()
            await self._start()
        return report

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            self._take_line(line.decode(errors="replace").split())
        if not self._runs:
            return
        with suppress(TimeoutError):  # it may close its output and stay alive
            await asyncio.wait_for(self._process.wait(), EXIT_SECONDS)
        code = self._process.returncode
        how = "closed its output" if code is None else f"ended with exit code {code}"
        for report, ended in self._runs.values():
            report.problem = report.problem or f"the client {how} before its run ended"
            ended.set()

    def _take_line(self, words: Sequence[str]) -> None:
        """Take one line of a client; a line that is not about a run is ignored."""
        report, ended = self._runs.get(words[0] if words else "", (None, None))
        if report is None or ended is None:
            return
        if words[1:] == ["closed"]:
            ended.set()
            return
        try:
            report.add_line(words[1:])
        except ValueError:
            report.problem = f"the client wrote an unknown line: {' '.join(words[1:])}"


def format_plan(plan: RunPlan, bootstrap: str) -> str:
    """The line that tells a client to run a plan."""
    configs = ",".join(f"{name}={value}" for name, value in plan.configs.items())
    return f"{plan.number} {bootstrap} {TOPIC} {configs} {','.join(plan.words)}"
