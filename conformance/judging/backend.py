"""Where traces are judged: Spark, or processes of this machine. One interface, the same rows.

Three rules:

1. A range of trace ids is judged in one place. What it gives depends on the task and the range
   alone: not on the backend, its partitions, or what was judged before.
2. A row is what some ranges gave, merged. Merging is associative and commutative: a backend may
   merge as much as it likes, and give rows in any order. It gives `None` now and then while there
   is nothing yet, so that its caller can show progress.
3. A worker imports what it judges with, and loads the prepared files, once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from proofs.run.files import REPOSITORY

R = TypeVar("R")

HEARTBEAT_SECONDS: Final = 0.5
"""A backend without rows says so this often."""


class TraceRange(NamedTuple):
    """Trace ids from `first` up to, but not including, `last`."""

    first: int
    last: int


class RangeNumbers(NamedTuple):
    """How much the traces of a range gave; `transitions` are those that they took."""

    first: int
    last: int
    traces: int
    steps: int
    divergences: int
    transitions: int


class ResultRow(NamedTuple):
    """What some ranges gave: `ranges` their numbers, `body` all of it merged, as
    `conformance.judging.rows` packs them."""

    ranges: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class WorkerTask:
    """What workers do: `module`'s `load` of `directory`, then its `judge` of each range.

    `load` takes the path, `judge` what `load` gave and a Range; it gives a `Found`. A task of jobs
    has `run` instead, which takes a number and gives bytes.
    `roots` are folders that hold packages, searched in this order before all others.
    """

    module: str
    directory: Path
    roots: tuple[Path, ...] = (REPOSITORY,)


class BackendError(Exception):
    """The backend cannot work here; the message says why, and what to do."""

    exit_code = 2


class BackendFailed(BackendError):
    """The backend stopped working on the way; what is done stays done."""

    exit_code = 3


class Backend(Protocol):
    """Judges ranges."""

    name: str
    executors: Sequence[dict[str, Any]]
    """Spark's hosts by Python, packages and Spark; none of other backends."""

    @property
    def cores(self) -> int | None:
        """How many ranges are judged at a time now; `None` where that is unknown."""

    def judge(self, ranges: Sequence[TraceRange]) -> Iterator[ResultRow | None]:
        """The rows of all ranges, as they come. Raises BackendFailed."""

    def close(self) -> None:
        """Release processes and sessions."""


class JobBackend(Protocol):
    """Does jobs."""

    def run_jobs(self, numbers: Sequence[int]) -> Iterator[bytes | None]:
        """What the task's module gives for each number, as they come; `None` now and then while
        there is nothing yet. Raises BackendFailed."""

    def close(self) -> None:
        """Release processes and sessions."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a backend is set up. `None` leaves the choice to it; `log` takes its own messages;
    `conf` are settings of Spark."""

    log: Path
    master: str | None = None
    remote: str | None = None
    partitions: int | None = None
    conf: tuple[tuple[str, str], ...] = ()


def each_once(
    asked: Iterable[Hashable], done: Iterable[R | None], name_of: Callable[[R], Hashable]
) -> Iterator[R | None]:
    """What is done, as it comes: all that was asked by name, and each of it once.

    Raises BackendFailed, since a result that is lost or counted twice shows in no report.
    """
    left = set(asked)
    for result in done:
        if result is not None:
            name = name_of(result)
            if name not in left:
                raise BackendFailed(f"the result of {name} came twice, or nobody asked for it")
            left.remove(name)
        yield result
    if left:
        some = min(left, key=str)
        raise BackendFailed(
            f"{len(left):,} results never came, as that of {some};"
            " with --out the same command does only these"
        )
