"""Client processes: Apache Kafka's own of a release, or any command that speaks the same lines.

A client reads a line for each run and writes one for each record's outcome; see
`IdempotentClient.java` for both forms. A command serves one run at a time in each of its
processes, the Java client many at once in one.
"""

from __future__ import annotations

import asyncio
import shlex
import shutil
import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from conformance.client.run_plan import TOPIC, RunPlan
from conformance.client.trace import UNFINISHED, UNKNOWN, Record, RecordOutcome
from conformance.kafka.fetch import say
from proofs.cache import cache_folder, make_once
from proofs.java import download_jars, find_java
from proofs.run import BadUse

JAVA: Final = "java:"
SOURCE: Final = Path(__file__).with_name("IdempotentClient.java")
LOGGING: Final = "org.slf4j:slf4j-simple:1.7.36"
JVM_OPTIONS: Final = (
    "-Xmx768m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
)
DIGITS: Final = 4
"""The length of every record's value, so that all records have the same size."""
RUN_TIMEOUT_S: Final = 12.0

Clock = Callable[[int], int]
"""From nanoseconds of the monotonic clock to microseconds since a run began."""


@dataclass(frozen=True, slots=True)
class ClientCommand:
    """How to start a client, and how many runs one process serves at once."""

    name: str
    arguments: tuple[str, ...]
    runs_at_once: int


def client_command(text: str) -> ClientCommand:
    """The client that `--client` names: `java:RELEASE`, else a command.

    Raises MissingTool, FetchFailed, BadUse for a command that is none.
    """
    if not text.startswith(JAVA):
        return ClientCommand(text, check_command(text), runs_at_once=1)
    jars = client_jars(text.removeprefix(JAVA)) / "*"
    arguments = (str(find_java()), *JVM_OPTIONS, "-cp", str(jars), str(SOURCE))
    return ClientCommand(text, arguments, runs_at_once=1_000)


def check_command(text: str) -> tuple[str, ...]:
    """The words of a command that can be started. Raises BadUse."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise BadUse(f"--client {text!r}: {error}") from error
    if not words or shutil.which(words[0]) is None:
        raise BadUse(f"--client {text!r}: there is no such command; write java:RELEASE or CMD")
    return words


def client_jars(release: str) -> Path:
    """The folder with the jars of a release's clients, got once through Maven.

    Raises MissingTool, FetchFailed.
    """

    def download(draft: Path) -> None:
        say(f"getting the jars of kafka-clients {release} (once)")
        download_jars((f"org.apache.kafka:kafka-clients:{release}", LOGGING), draft)

    return make_once(cache_folder() / "kafka-clients" / release, download)


@dataclass(slots=True)
class ClientReport:
    """What a client reported of a run, with times by `clock`; `problem` says why it did not end."""

    clock: Clock
    handed_us: dict[Record, int] = field(default_factory=dict)
    outcomes: dict[Record, RecordOutcome] = field(default_factory=dict)
    problem: str = ""

    def add_line(self, words: Sequence[str]) -> None:
        """Take one line about the run, without its number. Raises ValueError for any other."""
        match words:
            case ["broken", *what]:
                self.problem = f"the client broke down: {' '.join(what)}"
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
        self._process = await asyncio.create_subprocess_exec(
            *self._command.arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._reading
        await self._process.wait()
        for port in self._held:
            port.close()

    def hold_ports(self, ports: Iterable[socket.socket]) -> None:
        """Keep ports from being reused as long as the client lives."""
        self._held += ports

    @property
    def is_alive(self) -> bool:
        """Whether it takes more runs."""
        return not self._reading.done()

    async def run(self, plan: RunPlan, bootstrap: str, clock: Clock) -> ClientReport:
        """Run a plan to its end or to RUN_TIMEOUT_S."""
        report, ended = ClientReport(clock), asyncio.Event()
        self._runs[str(plan.number)] = report, ended
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(f"{format_plan(plan, bootstrap)}\n".encode())
            await asyncio.wait_for(ended.wait(), RUN_TIMEOUT_S)
        except TimeoutError:
            report.problem = UNFINISHED
        except OSError as error:
            report.problem = f"the client is gone: {error}"
        del self._runs[str(plan.number)]
        return report

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            self._take_line(line.decode(errors="replace").split())
        for report, ended in self._runs.values():
            report.problem = "the client ended before its run did"
            ended.set()

    def _take_line(self, words: Sequence[str]) -> None:
        """Take one line of a client; a line about no run is its own business."""
        report, ended = self._runs.get(words[0] if words else "", (None, None))
        if report is None or ended is None:
            return
        if words[1:] == ["closed"]:
            ended.set()
            return
        try:
            report.add_line(words[1:])
        except ValueError:
            report.problem = f"the client wrote an unknown line: {' '.join(words)}"


def format_plan(plan: RunPlan, bootstrap: str) -> str:
    """The line that tells a client to run a plan."""
    configs = ",".join(f"{name}={value}" for name, value in plan.settings.to_configs().items())
    words = []
    for send in plan.sends:
        if send.after_ms:
            words.append(f"+{send.after_ms}")
        words.append(f"{send.partition}:{send.number:0{DIGITS}}")
    return f"{plan.number} {bootstrap} {TOPIC} {configs} {','.join(words)}"
