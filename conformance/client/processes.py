"""Clients as processes: Apache Kafka's own of a release, or any command that speaks its lines.

A client reads a line for each run and writes one for each record's outcome; see
`IdempotentClient.java` for both forms. A command serves one run at a time in each of its
processes, the Java client many at once in one.
"""

from __future__ import annotations

import asyncio
import shlex
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from conformance.client.plan import TOPIC, RunPlan
from conformance.client.trace import UNFINISHED, Record
from conformance.kafka.fetch import say
from proofs.cache import cache_folder, make_once
from proofs.java import download_jars, find_java

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
"""All records are equally long."""
RUN_TIMEOUT_S: Final = 12.0
"""What a run may last; then it is waited for no longer."""


@dataclass(frozen=True, slots=True)
class ClientCommand:
    """How to start a client, and how many runs one process serves at once."""

    name: str
    arguments: tuple[str, ...]
    runs_at_once: int


def client_command(text: str) -> ClientCommand:
    """The client that `--client` names: `java:RELEASE`, else a command.

    Raises MissingTool, FetchFailed, ValueError for a command that cannot be split into words.
    """
    if not text.startswith(JAVA):
        return ClientCommand(text, tuple(shlex.split(text)), runs_at_once=1)
    jars = client_jars(text.removeprefix(JAVA)) / "*"
    arguments = (str(find_java()), *JVM_OPTIONS, "-cp", str(jars), str(SOURCE))
    return ClientCommand(text, arguments, runs_at_once=1_000)


def client_jars(release: str) -> Path:
    """The folder with the jars of a release's clients, got once through Maven.

    Raises MissingTool, FetchFailed.
    """

    def download(draft: Path) -> None:
        say(f"getting the jars of kafka-clients {release} (once)")
        download_jars((f"org.apache.kafka:kafka-clients:{release}", LOGGING), draft)

    return make_once(cache_folder() / "kafka-clients" / release, download)


@dataclass(frozen=True, slots=True)
class ToldRecord:
    """The outcome of one record: an offset, or the error's name; and when it was told, by the
    client's own clock if it says."""

    at_ns: int | None
    offset: int = -1
    error: str = ""


@dataclass(slots=True)
class Told:
    """What a client told of a run. `problem` says what kept it from the end."""

    handed_ns: dict[Record, int] = field(default_factory=dict)
    outcomes: dict[Record, ToldRecord] = field(default_factory=dict)
    problem: str = ""


class ClientProcess:
    """A client at work: an asynchronous context manager."""

    def __init__(self, command: ClientCommand) -> None:
        self._command = command
        self._runs: dict[str, tuple[Told, asyncio.Event]] = {}
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

    def holds(self, ports: Iterable[socket.socket]) -> None:
        """Keep ports from being given to anybody else as long as the client lives."""
        self._held += ports

    @property
    def is_alive(self) -> bool:
        """Whether it takes more runs."""
        return not self._reading.done()

    async def run(self, plan: RunPlan, bootstrap: str) -> Told:
        """One run, to its end, or to its time-out."""
        told, ended = Told(), asyncio.Event()
        self._runs[str(plan.number)] = told, ended
        line = run_line(plan, bootstrap)
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(f"{line}\n".encode())
            await asyncio.wait_for(ended.wait(), RUN_TIMEOUT_S)
        except TimeoutError:
            told.problem = UNFINISHED
        except OSError as error:
            told.problem = f"the client is gone: {error}"
        del self._runs[str(plan.number)]
        return told

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            self._take(line.decode(errors="replace").split())
        for told, ended in self._runs.values():
            told.problem = "the client ended before its run did"
            ended.set()

    def _take(self, words: Sequence[str]) -> None:
        """One line of a client; lines about no run are not for us."""
        told, ended = self._runs.get(words[0] if words else "", (None, None))
        if told is None or ended is None:
            return
        if words[1:] == ["closed"]:
            ended.set()
            return
        try:
            heard(told, words[1:])
        except ValueError:
            told.problem = f"the client wrote what means nothing: {' '.join(words)}"


def heard(told: Told, words: Sequence[str]) -> None:
    """One line about a run. Raises ValueError where it means nothing."""
    match words:
        case ["broken", *what]:
            told.problem = f"the client broke down: {' '.join(what)}"
        case [partition, number, "sent", at_ns]:
            told.handed_ns[int(partition), int(number)] = int(at_ns)
        case [partition, number, "stored", offset, *at_ns]:
            row = ToldRecord(first(at_ns), offset=int(offset))
            told.outcomes[int(partition), int(number)] = row
        case [partition, number, "failed", error, *at_ns]:
            row = ToldRecord(first(at_ns), error=error)
            told.outcomes[int(partition), int(number)] = row
        case _:
            raise ValueError(words)


def first(at_ns: Sequence[str]) -> int | None:
    """A time, if one is given."""
    return int(at_ns[0]) if at_ns else None


def run_line(plan: RunPlan, bootstrap: str) -> str:
    """A run as a client reads it."""
    settings = ",".join(f"{name}={value}" for name, value in plan.settings.named().items())
    words = []
    for send in plan.sends:
        if send.after_ms:
            words.append(f"+{send.after_ms}")
        words.append(f"{send.partition}:{send.number:0{DIGITS}}")
    return f"{plan.number} {bootstrap} {TOPIC} {settings} {','.join(words)}"
