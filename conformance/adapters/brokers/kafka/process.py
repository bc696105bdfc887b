"""A server's process in a process group of its own that cannot outlive this one.

A second process, the watchdog, waits for the end of a pipe whose other end only we hold. However
we end - normally, by Ctrl-C, by `kill -9` - the pipe closes and the watchdog kills the group.
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
    """One running process, dead after its `with` block; what it prints is appended to `log`.

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
        """Wait until it answers.

        Raises BrokerFailed, with the end of its log, when it ends or START_TIMEOUT_S passes; it is
        dead then.
        """
        poll(lambda: self.exit_code is not None or answers(), bool, START_TIMEOUT_S)
        code = self.exit_code
        if code is None and answers():
            return
        problem = f"no answer in {START_TIMEOUT_S:.0f} s" if code is None else f"exit code {code}"
        self.kill()
        raise BrokerFailed(f"{what} did not start: {problem}. {self.quote_log()}")

    def pause(self) -> None:
        """Freeze it (SIGSTOP): its connections stay open and nothing is answered."""
        self._signal(signal.SIGSTOP)
        # A busy machine stops the last thread a moment later; until then answers still come.
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        self._signal(signal.SIGCONT)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Ask it to end (SIGTERM), and kill it when it has not after `timeout_s`."""
        self.resume()
        self._signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        self.kill()

    def kill(self) -> None:
        """End it at once (SIGKILL) and wait until it is gone; harmless when it already is."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._watchdog.kill()  # before its pipe closes: the group's id may be another's soon
        self._watchdog.communicate()

    def quote_log(self) -> str:
        """Return the last lines of the log under its name, for an error message."""
        lines = self.log.read_text(errors="replace").splitlines()[-QUOTED_LINES:]
        return "\n".join([f"{self.log} ends:", *lines])

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


class StartedServer:
    """A server that may be down: each method is harmless then. `_process` is its last process."""

    _process: ServerProcess | None = None

    @property
    def is_running(self) -> bool:
        """Whether its process runs; a paused one does."""
        return self._process is not None and self._process.exit_code is None

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End it in order (SIGTERM, then SIGKILL); its data stays."""
        if self._process is not None:
            self._process.stop(timeout_s)

    def kill(self) -> None:
        """End it at once (SIGKILL); its data stays."""
        if self._process is not None:
            self._process.kill()

    def pause(self) -> None:
        """Freeze it (SIGSTOP): connections stay open, nothing is answered."""
        if self._process is not None:
            self._process.pause()

    def resume(self) -> None:
        """Let it go on after `pause`."""
        if self._process is not None:
            self._process.resume()


class ServersInDirectory(ABC):
    """Servers with a folder for data, properties and logs; a context manager that starts and ends
    them.

    A `folder` that is given is kept. Without it they are in a temporary one, which is removed when
    the `with` block ends without an exception.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="kafka-eos-"))
        self._is_temporary = folder is None

    @abstractmethod
    def start(self) -> None:
        """Start those that do not run, and wait until they answer."""

    @abstractmethod
    def stop(self) -> None:
        """End them in order."""

    @abstractmethod
    def close(self) -> None:
        """Kill what still runs."""

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
