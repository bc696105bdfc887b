"""Shows progress on standard error: in place on a terminal, else as a line every ten seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Final, Self, TextIO

LINE_SECONDS: Final = 10.0
TERMINAL_SECONDS: Final = 0.2

Clock = Callable[[], float]


class Display:
    """Shows a text that changes. On a terminal the package rich draws it, with a bar if the total
    is known. Without rich, or elsewhere, the text is printed at intervals."""

    def __init__(
        self, stream: TextIO | None = None, clock: Clock = time.monotonic, total: int | None = None
    ) -> None:
        self.clock = clock
        self._stream = stream or sys.stderr
        self._bar = _rich_bar(self._stream, total)
        self._wait = LINE_SECONDS if self._bar is None else TERMINAL_SECONDS
        self._shown = clock()

    def show(
        self, text: Callable[[], str], done: int | None = None, *, at_once: bool = False
    ) -> None:
        """Show a text if it is time to, or `at_once`."""
        now = self.clock()
        if now - self._shown < self._wait and not at_once:
            return
        self._shown = now
        if self._bar is None:
            print(text(), file=self._stream, flush=True)
        else:
            self._bar.update(self._bar.task_ids[0], completed=done, text=text())

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


class CountDisplay(Display):
    """Shows how many of a known number are done, the rate, and the time left.

    `begun_at` were done before; they took no time.
    """

    def __init__(
        self,
        what: str,
        total: int,
        begun_at: int = 0,
        stream: TextIO | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        super().__init__(stream, clock, total)
        self._what = what
        self._total = total
        self._begun_at = begun_at
        self._began = clock()

    def __call__(self, done: int, *more: str) -> None:
        """Show that `done` are done; `more` is printed between the rate and the time left."""
        self.show(lambda: self.text(done, *more), done)

    def text(self, done: int, *more: str) -> str:
        """Return `120 of 400 traces, 60/s, transitions 812 of 9,310, 0:05 left`."""
        return ", ".join(self._parts(done, more))

    def _parts(self, done: int, more: tuple[str, ...]) -> Iterator[str]:
        yield f"{done:,} of {self._total:,} {self._what}"
        rate = (done - self._begun_at) / max(self.clock() - self._began, 1e-6)
        if rate:
            yield f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s"
        yield from more
        if rate:
            yield f"{duration((self._total - done) / rate)} left"


@contextmanager
def count_display(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show how many are done of a total that comes with each call."""
    with Display() as display:
        yield lambda done, total: display.show(lambda: f"  {done:,} of {total:,} {what}", done)


def duration(seconds: float) -> str:
    """Return `75.2` as `1:15`, an hour as `1:00:00`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _rich_bar(stream: TextIO, total: int | None) -> Any:
    """Return a bar of the package rich; None without a terminal or without rich."""
    if not stream.isatty() or find_spec("rich") is None:
        return None
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(24), TextColumn("{task.fields[text]}"))
    bars = Progress(*columns, console=Console(file=stream), transient=True)
    bars.add_task("", total=total, text="")
    return bars
