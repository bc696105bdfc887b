"""The work of a worker, for every backend."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from conformance.judging.backend import ResultRow, TraceRange, WorkerTask
from conformance.judging.rows import merge_rows, row_of


def search_first(roots: Sequence[Path]) -> None:
    """Put folders at the head of the import path, once each, in order."""
    names = [str(root) for root in roots]
    sys.path[:] = names + [place for place in sys.path if place not in names]


@functools.cache
def load_task(task: WorkerTask) -> tuple[Any, Any]:
    """The task's module and its prepared files, cached in this process."""
    search_first(task.roots)
    module = import_module(task.module)
    return module, module.load(task.directory)


def judge(task: WorkerTask, part: TraceRange) -> ResultRow:
    """Judge one range; returns the row to send back."""
    module, prepared = load_task(task)
    return row_of(part, module.judge(prepared, part))


def judge_all(task: WorkerTask, parts: Iterable[TraceRange]) -> ResultRow:
    """Judge some ranges; returns one row for all of them."""
    return merge_rows(judge(task, part) for part in parts)


def run_job(task: WorkerTask, number: int) -> bytes:
    """Run one job of a task; returns the bytes to send back."""
    module, prepared = load_task(task)
    done: bytes = module.run(prepared, number)
    return done
