"""The backends by name; they are imported on demand, because Spark and Java may be missing."""

from __future__ import annotations

from importlib import import_module
from typing import Final, Protocol, cast

from conformance.judging.backend import Backend, JobBackend, Options, WorkerTask


class Opener(Protocol):
    """The form of `open_backend` in each backend's module."""

    def __call__(self, task: WorkerTask, options: Options) -> Backend:
        """Start workers. Raises BackendError."""


BACKENDS: Final = ("spark", "processes")


def open_backend(name: str, task: WorkerTask, options: Options) -> Backend:
    """Start the backend of that name. Raises BackendError, ModuleNotFoundError for pyspark."""
    opener = cast(Opener, import_module(f"conformance.backends.{name}").open_backend)
    return opener(task, options)


def open_job_backend(name: str, task: WorkerTask, options: Options) -> JobBackend:
    """As `open_backend`: the same backends run jobs, too."""
    return cast(JobBackend, open_backend(name, task, options))
