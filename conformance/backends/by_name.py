"""The backends by name, imported when they are asked for: Spark and Java are not always there."""

from __future__ import annotations

from importlib import import_module
from typing import Final, Protocol, cast

from conformance.judging.backend import Backend, JobBackend, Options, WorkerTask


class Opener(Protocol):
    """Each backend's module has an `open_backend` of this form."""

    def __call__(self, task: WorkerTask, options: Options) -> Backend:
        """Start workers. Raises BackendError."""


BACKENDS: Final = ("spark", "processes")


def open_backend(name: str, task: WorkerTask, options: Options) -> Backend:
    """Start the backend of that name. Raises BackendError, ModuleNotFoundError for pyspark."""
    opener = cast(Opener, import_module(f"conformance.backends.{name}").open_backend)
    return opener(task, options)


def open_job_backend(name: str, task: WorkerTask, options: Options) -> JobBackend:
    """As `open_backend`: the same backends do jobs, too."""
    return cast(JobBackend, open_backend(name, task, options))
