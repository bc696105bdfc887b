"""A server's process in a process group of its own, which cannot outlive this process.

A second process, the watchdog, waits for the end of a pipe whose other end only this process holds.
However this process ends - normally, by Ctrl-C, by `kill -9` - the pipe closes and the watchdog
kills the group.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from conformance.adapters.brokers.kafka.errors import BrokerFailed
from conformance.adapters.brokers.kafka.wait import poll

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 15.0
QUOTED_LINES: Final = 30

_WATCHDOG: Final = 'read -r _; kill -s KILL -- "-$0"'


class ServerProcess:
    """One running process, killed at the end of its `with` block; its output is appended to `log`.

    Without an `environment` it has that of this process.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
            )
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHDOG, str(self._process.pid)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def await_service(self, what: str, answers: Callable[[], bool]) -> None:
        """Wait until the server answers.

        Raises BrokerFailed, with the end of its log, if the process ends or START_TIMEOUT_S passes;
        the process is dead then.
        """
        poll(lambda: self.exit_code is not None or answers(), bool, START_TIMEOUT_S)
        code = self.exit_code
        if code is None and answers():
            return
        problem = f"no answer in {START_TIMEOUT_S:.0f} s" if code is None else f"exit code {code}"
        self.kill()
        raise BrokerFailed(f"{what} did not start: {problem}. {self.quote_log()}")

    def pause(self) -> None:
        """Freeze the process (SIGSTOP): its connections stay open, and no request is answered."""
        self._signal(signal.SIGSTOP)
        # On a busy machine the last thread stops a moment later; until then answers still come.
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Resume the process after `pause`."""
        self._signal(signal.SIGCONT)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Ask the process to end (SIGTERM), and kill it if it has not ended after `timeout_s`."""
        self.resume()
        self._signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        self.kill()

    def kill(self) -> None:
        """Kill the process (SIGKILL) and wait until it is gone; does nothing if it already is."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._watchdog.kill()  # before its pipe closes: the group's id may soon be another group's
        self._watchdog.communicate()

    def quote_log(self) -> str:
        """Return the last lines of the log with its name, for an error message."""
        lines = self.log.read_text(errors="replace").splitlines()[-QUOTED_LINES:]
        return "\n".join([f"{self.log} ends:", *lines])

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


class StartedServer:
    """A server that may be down; each method does nothing then. `_process` is its last process."""

    _process: ServerProcess | None = None

    @property
    def is_running(self) -> bool:
        """Whether its process runs; a paused process does."""
        return self._process is not None and self._process.exit_code is None

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End it in an orderly way (SIGTERM, then SIGKILL); its data stays."""
        if self._process is not None:
            self._process.stop(timeout_s)

    def kill(self) -> None:
        """Kill it (SIGKILL); its data stays."""
        if self._process is not None:
            self._process.kill()

    def pause(self) -> None:
        """Freeze it (SIGSTOP): connections stay open, and no request is answered."""
        if self._process is not None:
            self._process.pause()

    def resume(self) -> None:
        """Resume it after `pause`."""
        if self._process is not None:
            self._process.resume()


class ServersInDirectory(ABC):
    """Servers with a folder for data, properties and logs; a context manager that starts and ends
    them.

    A `folder` that is given is kept. Without it the files are in a temporary folder, which is
    removed when the `with` block ends without an exception.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="kafka-eos-"))
        self._is_temporary = folder is None

    @abstractmethod
    def start(self) -> None:
        """Start the servers that do not run, and wait until they answer."""

    @abstractmethod
    def stop(self) -> None:
        """End the servers in an orderly way."""

    @abstractmethod
    def close(self) -> None:
        """Kill all processes that still run."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
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
        self.close()
        if self._is_temporary and error is None:
            shutil.rmtree(self.folder, ignore_errors=True)
