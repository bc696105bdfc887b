"""How far a run is: a bar on a terminal, else one line every ten seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Final, TextIO

from conformance.rows import Found

LINE_SECONDS: Final = 10.0
BAR_SECONDS: Final = 0.2


def duration(seconds: float) -> str:
    """`75.2` as `1:15`, an hour as `1:00:00`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class PreparationDisplay:
    """Shows what is being prepared, and which part of it is done: a line every ten seconds, on a
    terminal several a second in one place. Each new work is shown at once."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._shown = clock()
        self._what = ""
        self._wait = BAR_SECONDS if stream.isatty() else LINE_SECONDS

    def __call__(self, what: str, part: float) -> None:
        """`part` of `what` is done, 0 to 1."""
        now = self._clock()
        if what == self._what and now - self._shown < self._wait:
            return
        self._what, self._shown = what, now
        text = f"{what}, {part:.0%}" if part else what
        if self._stream.isatty():
            self._stream.write(f"\r\033[K{text}\r")
            self._stream.flush()
        else:
            print(text, file=self._stream, flush=True)


class ProgressDisplay:
    """Shows done, rate, coverage and time left on `stream`. A context manager."""

    def __init__(
        self,
        stream: TextIO,
        count: int,
        begun_at: int,
        transitions_total: int | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._count = count
        self._begun_at = begun_at
        self._transitions_total = transitions_total
        self._clock = clock
        self._began = self._shown = clock()
        self._bar = rich_bar(stream, count, begun_at)

    def __enter__(self) -> ProgressDisplay:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: Found) -> None:
        """`done` trace ids are judged; `total` is what they gave so far."""
        now = self._clock()
        if now - self._shown < (LINE_SECONDS if self._bar is None else BAR_SECONDS):
            return
        self._shown = now
        if self._bar is None:
            print(self.text(done, total), file=self._stream, flush=True)
        else:
            self._bar.update(self._bar.task_ids[0], completed=done, text=self.text(done, total))

    def text(self, done: int, total: Found) -> str:
        """One line: `120 of 400 traces, 60/s, transitions 812 of 9,310, 0:05 left`."""
        parts = [f"{done:,} of {self._count:,} traces"]
        rate = (done - self._begun_at) / max(self._clock() - self._began, 1e-6)
        if rate:
            parts.append(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s")
        if self._transitions_total is not None:
            covered = total.summary.transitions_covered
            parts.append(f"transitions {covered:,} of {self._transitions_total:,}")
        if total.summary.divergences:
            parts.append(f"{total.summary.divergences:,} diverged")
        if rate:
            parts.append(f"{duration((self._count - done) / rate)} left")
        return ", ".join(parts)


def rich_bar(stream: TextIO, count: int, begun_at: int) -> Any:
    """A bar of the package rich; None where there is no terminal, or no rich."""
    if not stream.isatty() or find_spec("rich") is None:
        return None
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(24), TextColumn("{task.fields[text]}"))
    bars = Progress(*columns, console=Console(file=stream), transient=True)
    bars.add_task("", total=count, completed=begun_at, text="beginning")
    return bars
