"""The processes of the load: started, watched, restarted, stopped.

A client that writes no event for `stall_s` stands still. Its `.err` file then says what its threads
and tasks wait for, and its `.broker.json` has the broker's state; another client takes its place.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from conformance.campaigns.kills.journal import SUFFIX
from conformance.campaigns.kills.workload import LIBRARIES

BEGIN_S: Final = 30.0
"""The longest time until the first events of clients, before the first kill."""
PAUSE_S: Final = 0.1
STOP_S: Final = 30.0
"""The longest time for clients to end; then they are killed."""
DUMP_S: Final = 1.0


@dataclass(slots=True)
class LoadProcess:
    """One client, in its latest process."""

    library: str
    role: str
    session: int = 0
    process: subprocess.Popen[bytes] | None = None
    journal_bytes: int = 0
    progress_s: float = field(default_factory=time.monotonic)

    @property
    def name(self) -> str:
        """The name of its files."""
        return f"{self.library}-{self.role}-{self.session}"


@dataclass(frozen=True, slots=True)
class Standstill:
    """A client that stood still, and the file that shows where."""

    client: str
    seconds: float
    file: str


class LoadProcesses:
    """All clients. Attributes: `standstills`; `ended`, clients whose process ended by itself."""

    def __init__(
        self,
        address: str,
        folder: Path,
        libraries: Iterable[str],
        *,
        stall_s: float,
        log_level: str = "WARNING",
    ) -> None:
        self.standstills: list[Standstill] = []
        self.ended: list[str] = []
        self._address = address
        self._folder = folder
        self._stall_s = stall_s
        self._log_level = log_level
        self._clients = [
            LoadProcess(library, role, self._last_session(f"{library}-{role}"))
            for library in libraries
            for role in LIBRARIES[library]
        ]
        for client in self._clients:
            self._start(client)

    def __len__(self) -> int:
        return len(self._clients)

    def _last_session(self, client: str) -> int:
        """The last session of an interrupted run in this folder; 0 if there was none."""
        files = self._folder.glob(f"{client}-*{SUFFIX}")
        return max((int(file.stem.rpartition("-")[2]) for file in files), default=0)

    def _start(self, client: LoadProcess) -> None:
        client.session += 1
        client.journal_bytes, client.progress_s = 0, time.monotonic()
        command = [sys.executable, "-m", "conformance.campaigns.kills.client"]
        command += [client.library, client.role, str(client.session)]
        command += [self._address, str(self._folder), "--log-level", self._log_level]
        with (self._folder / f"{client.name}.err").open("wb") as errors:
            client.process = subprocess.Popen(command, stdout=errors, stderr=errors)

    async def await_begin(self) -> None:
        """Wait until each client has written an event, or the time is up."""
        limit = time.monotonic() + BEGIN_S
        while time.monotonic() < limit:
            if all(self._journal_bytes(client) for client in self._clients):
                return
            await asyncio.sleep(PAUSE_S)

    def _journal_bytes(self, client: LoadProcess) -> int:
        file = self._folder / f"{client.name}{SUFFIX}"
        return file.stat().st_size if file.exists() else 0

    def restart_ended(self) -> None:
        """Restart clients whose process has ended by itself."""
        for client in self._clients:
            assert client.process is not None
            if client.process.poll() is not None:
                self.ended.append(f"{client.name}: exit code {client.process.returncode}")
                self._start(client)

    def find_standing_still(self) -> list[LoadProcess]:
        """The clients that have written nothing for too long."""
        found = []
        for client in self._clients:
            size = self._journal_bytes(client)
            if size != client.journal_bytes:
                client.journal_bytes, client.progress_s = size, time.monotonic()
            elif time.monotonic() - client.progress_s > self._stall_s:
                found.append(client)
        return found

    def replace(self, clients: Iterable[LoadProcess], broker: Any) -> None:
        """Keep the waits of clients and the state of the `broker`, kill the clients, and start
        others."""
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            for client in clients:
                assert client.process is not None
                client.process.send_signal(number)
            time.sleep(DUMP_S)
        for client in clients:
            assert client.process is not None
            client.process.kill()
            client.process.wait()
            file = self._folder / f"{client.name}.broker.json"
            file.write_text(json.dumps(broker, indent=1, default=str))
            passed = time.monotonic() - client.progress_s
            self.standstills.append(Standstill(client.name, passed, str(file)))
            self._start(client)

    def stop(self) -> list[str]:
        """Tell all clients to end; returns those that did not end in time, which are killed."""
        killed = []
        for client in self._clients:
            assert client.process is not None
            client.process.send_signal(signal.SIGTERM)
        limit = time.monotonic() + STOP_S
        for client in self._clients:
            assert client.process is not None
            try:
                client.process.wait(max(limit - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                killed.append(client.name)
                client.process.send_signal(signal.SIGUSR1)
                time.sleep(DUMP_S)
                client.process.kill()
                client.process.wait()
        return killed

    def kill(self) -> None:
        """Kill the clients that still run."""
        for client in self._clients:
            if client.process is not None and client.process.poll() is None:
                client.process.kill()
                client.process.wait()
