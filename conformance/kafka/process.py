"""A Java process in a process group of its own that cannot outlive this one.

A second process, the watchdog, waits for the end of a pipe whose other end only we hold. However
we end - normally, by Ctrl-C, by `kill -9` - the pipe closes and the watchdog kills the group.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

STOP_TIMEOUT_S: Final = 15.0
QUOTED_LINES: Final = 30

_WATCHDOG: Final = 'read -r _; kill -s KILL -- "-$0"'


class JavaProcess:
    """One running process, dead after its `with` block; what it prints is appended to `log`."""

    def __init__(self, command: Sequence[str | Path], log: Path) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
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


class JavaServer:
    """A server that may be down: each method is harmless then. `_process` is its last process."""

    _process: JavaProcess | None = None

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
