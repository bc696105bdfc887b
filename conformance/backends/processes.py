"""Worker processes on this machine, without Java and Spark."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from conformance.backends.worker import judge, load_task, run_job
from conformance.judging.backend import (
    HEARTBEAT_SECONDS,
    BackendError,
    BackendFailed,
    Options,
    ResultRow,
    TraceRange,
    WorkerTask,
)
from proofs.run.interrupts import without_interrupts

T = TypeVar("T")
R = TypeVar("R")


def usable_cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def begin_worker(task: WorkerTask) -> None:
    """Set a worker up, so that it does not outlive its parent."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    load_task(task)


def end_with_parent() -> None:
    """End with the parent: a parent that is killed closes no queues, and its workers would wait
    forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class Processes:
    """A pool of processes. They are started afresh, so that no state of this process leaks into
    them."""

    name = "processes"
    executors: Sequence[dict[str, Any]] = ()

    def __init__(self, task: WorkerTask, cores: int) -> None:
        self.cores: int | None = cores
        self._task = task
        self._pool = ProcessPoolExecutor(
            cores, multiprocessing.get_context("spawn"), initializer=begin_worker, initargs=(task,)
        )

    def judge(self, ranges: Sequence[TraceRange]) -> Iterator[ResultRow | None]:
        """The rows of all ranges, as they arrive. Raises BackendFailed if a process is lost."""
        return self._each(judge, ranges)

    def run_jobs(self, numbers: Sequence[int]) -> Iterator[bytes | None]:
        """The result of each job, as they arrive. Raises BackendFailed if a process is lost."""
        return self._each(run_job, numbers)

    def _each(self, work: Callable[[WorkerTask, T], R], items: Sequence[T]) -> Iterator[R | None]:
        done = SimpleQueue[Future[R]]()
        with without_interrupts():  # the first submission starts the processes
            for one in items:
                self._pool.submit(work, self._task, one).add_done_callback(done.put)
        left = len(items)
        try:
            while left:
                try:
                    future = done.get(timeout=HEARTBEAT_SECONDS)
                except Empty:
                    yield None
                    continue
                left -= 1
                yield future.result()
        except BrokenProcessPool as error:
            raise BackendFailed(
                "a worker process ended unexpectedly (out of memory?);"
                " the same command goes on where it stood, --partitions 1 uses one process"
            ) from error

    def close(self) -> None:
        """End the processes, without waiting for their present work.

        Waiting work is not cancelled: the pool sets an exception on everything that its workers
        leave behind, and fails loudly on a future that its caller has cancelled.
        """
        workers = tuple((self._pool._processes or {}).values())
        self._pool.shutdown(wait=False)
        for worker in workers:
            worker.terminate()


def open_backend(task: WorkerTask, options: Options) -> Processes:
    """A pool of `options.partitions` processes, by default one for each core.

    Raises BackendError for a master or a remote.
    """
    if options.master or options.remote or options.conf:
        raise BackendError("--master, --remote, --conf belong to --backend spark; leave them out")
    return Processes(task, options.partitions or usable_cores())
