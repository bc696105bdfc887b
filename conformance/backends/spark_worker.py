"""The work of Spark's Python workers on Arrow's batches: they judge ranges, and merge rows."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow

from conformance.backends.worker import judge_all, load_task, run_job
from conformance.judging.backend import ResultRow, TraceRange
from conformance.judging.backend import WorkerTask as WorkerTask
from conformance.judging.rows import merge_rows

JOB = {"body": pyarrow.binary()}


def load(task: WorkerTask, batches: Iterator[Any]) -> Iterator[Any]:
    """Import and load everything that judging needs; returns no rows."""
    for _ in batches:
        load_task(task)
    yield from ()


def judge_numbers(
    task: WorkerTask, bounds: Sequence[tuple[int, int]], batches: Iterator[Any]
) -> Iterator[Any]:
    """Judge the ranges whose numbers are in `batches`; returns one row for all of them."""
    numbers = (number for batch in batches for number in batch.column(0).to_pylist())
    yield batch_of(judge_all(task, (TraceRange(*bounds[number]) for number in numbers)))
    # Spark collects garbage after each task, and each time would traverse everything that this
    # process has cached of the model. Judging leaves no cycles behind.
    gc.freeze()


def run_numbers(task: WorkerTask, wave: Sequence[int], batches: Iterator[Any]) -> Iterator[Any]:
    """Run the jobs of a wave whose places are in `batches`; returns a row for each."""
    for batch in batches:
        for place in batch.column(0).to_pylist():
            body = run_job(task, wave[place])
            yield pyarrow.RecordBatch.from_pylist([{"body": body}], pyarrow.schema(JOB))


def merge_batches(_: WorkerTask, batches: Iterator[Any]) -> Iterator[Any]:
    """One row for all rows of this task."""
    rows = (ResultRow(**row) for batch in batches for row in batch.to_pylist())
    yield batch_of(merge_rows(rows))


def map_batches(task: WorkerTask, given: Sequence[Any], batches: Iterator[Any]) -> Iterator[Any]:
    """The result of the task's own `map_batches` for the batches."""
    module, prepared = load_task(task)
    yield from module.map_batches(prepared, *given, batches)


def batch_of(row: ResultRow) -> Any:
    """A batch of one row."""
    return pyarrow.RecordBatch.from_pylist([row._asdict()])
