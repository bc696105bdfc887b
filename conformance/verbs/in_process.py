"""`run` for a system in this process: Spark or processes judge its traces."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.adapters.impl.in_process import InProcessPlayer
from conformance.adapters.impl.judges import observe_finding, shrink_finding
from conformance.backends.by_name import open_backend
from conformance.judging.automatic_masks import NONE, AutomaticMasks
from conformance.judging.backend import Backend, WorkerTask
from conformance.judging.distinguish.play import Player
from conformance.judging.guaranteed import ObservedProperties
from conformance.judging.plan import Plan, PreparedPlan
from conformance.judging.reports.pipeline import OpenTarget, Target
from conformance.judging.reports.pipeline import run as run_pipeline
from conformance.judging.reports.report import SideCheck
from conformance.judging.reports.script import Exchanges, NotReproducible
from conformance.judging.signatures import Finding
from conformance.verbs.backend_options import backend_options, best_backend


@dataclass(frozen=True, slots=True)
class InProcess:
    """A system whose actors run in the judge's process."""

    prepared: PreparedPlan
    options: argparse.Namespace
    log: Path
    at_end: ExitStack
    not_applicable: tuple[str, ...] = ()
    least_ranges: int = 1

    def backend(self) -> Backend:
        """The requested backend. Raises BackendError."""
        task = WorkerTask("conformance.adapters.impl.worker", self.prepared.directory.resolve())
        given = self.options
        backend = open_backend(given.backend, task, backend_options(given, self.log))
        self.at_end.callback(backend.close)
        return backend

    def take_note(self) -> None:
        """Nothing: there are no side checks."""

    def checks(self, notes: Sequence[Any]) -> dict[str, SideCheck]:
        """Nothing: traces cover everything."""
        return {}

    def shrunk(self, finding: Finding) -> Finding:
        """The finding, shrunk by the judge of this process."""
        return shrink_finding(self.prepared, finding)

    @property
    def player(self) -> Player:
        """The judge of this process."""
        return InProcessPlayer(self.prepared.plan)

    def masks(self, progress: Callable[[], None]) -> AutomaticMasks:
        """None: what is judged here is this project's, and should not differ at all."""
        return NONE

    def reproduced(self, finding: Finding) -> Exchanges:
        """No bytes are sent in this process. Raises NotReproducible."""
        raise NotReproducible("the system is judged in process, without a broker")

    def shown_by(self, finding: Finding) -> ObservedProperties:
        """The properties of the logs and acknowledgements that the system has after its first
        difference."""
        return observe_finding(self.prepared, finding)


def check_backend(options: argparse.Namespace) -> None:
    """Spark on this machine needs Java: check this before the planning. Raises BackendError."""
    if options.backend == "spark" and options.remote is None:
        from conformance.backends.spark_session import require_java

        require_java()


def run(plan: Plan, options: argparse.Namespace) -> int:
    """Judge the plan; the exit code. Raises BackendError, OtherRun, BadPlan, BadBaseline."""
    options.backend = best_backend(options)
    check_backend(options)
    return run_pipeline(target(plan, options), options)


def target(plan: Plan, options: argparse.Namespace) -> Target:
    """The target in this process."""

    @contextmanager
    def opens(prepared: PreparedPlan, log: Path) -> Iterator[OpenTarget]:
        with ExitStack() as at_end:
            yield InProcess(prepared, options, log, at_end)

    return Target(plan, plan, opens)
