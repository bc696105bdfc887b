"""Backends judge ranges of traces: in Spark, or in processes of this machine. Both give the same
rows.

Three rules:

1. A range of trace ids is judged in one place. Its result depends on the task and the range alone:
   not on the backend, its partitions, or what was judged before.
2. A row is the merged result of some ranges. Merging is associative and commutative: a backend may
   merge as much as it likes, and return rows in any order. While it has no row, it yields `None`
   now and then, so that its caller can show progress.
3. A worker imports the judging code, and loads the prepared files, once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from proofs.run.files import REPOSITORY

R = TypeVar("R")

HEARTBEAT_SECONDS: Final = 0.5
"""A backend that has no rows yields `None` this often."""


class TraceRange(NamedTuple):
    """Trace ids from `first` up to, but not including, `last`."""

    first: int
    last: int


class RangeNumbers(NamedTuple):
    """The numbers of one range; `transitions` counts those that its traces took."""

    first: int
    last: int
    traces: int
    steps: int
    divergences: int
    transitions: int


class ResultRow(NamedTuple):
    """The result of some ranges: `ranges` has their numbers, `body` the merged result, as
    `conformance.judging.rows` packs it."""

    ranges: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class WorkerTask:
    """A worker calls `load` of `module` with `directory` once, then `judge` for each range.

    `load` takes the path. `judge` takes the result of `load` and a range, and returns a `Found`.
    The module of a task of jobs has `run` instead of `judge`: it takes a number and returns bytes.
    `roots` are folders with packages; they are searched in this order, before all other folders.
    """

    module: str
    directory: Path
    roots: tuple[Path, ...] = (REPOSITORY,)


class BackendError(Exception):
    """The backend cannot work here; the message says why, and what to do."""

    exit_code = 2


class BackendFailed(BackendError):
    """The backend stopped working during a run; finished ranges stay judged."""

    exit_code = 3


class Backend(Protocol):
    """Judges ranges."""

    name: str
    executors: Sequence[dict[str, Any]]
    """The hosts of Spark with their Python, packages and Spark; empty for other backends."""

    @property
    def cores(self) -> int | None:
        """The number of ranges that are judged at the same time now; `None` if that is unknown."""

    def judge(self, ranges: Sequence[TraceRange]) -> Iterator[ResultRow | None]:
        """The rows of all ranges, as they arrive. Raises BackendFailed."""

    def close(self) -> None:
        """Release processes and sessions."""


class JobBackend(Protocol):
    """Runs numbered jobs."""

    def run_jobs(self, numbers: Sequence[int]) -> Iterator[bytes | None]:
        """The results of the task's module for each number, as they arrive; `None` now and then
        while no result is ready. Raises BackendFailed."""

    def close(self) -> None:
        """Release processes and sessions."""


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of a backend. `None` leaves the choice to the backend; `log` takes its own messages;
    `conf` has settings of Spark."""

    log: Path
    master: str | None = None
    remote: str | None = None
    partitions: int | None = None
    conf: tuple[tuple[str, str], ...] = ()


def each_once(
    asked: Iterable[Hashable], done: Iterable[R | None], name_of: Callable[[R], Hashable]
) -> Iterator[R | None]:
    """The results as they arrive, checked: everything that was asked for by name arrives exactly
    once.

    Raises BackendFailed, since no report would show a result that is lost or counted twice.
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
