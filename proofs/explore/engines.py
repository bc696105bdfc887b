"""The engines by name: each takes an `EngineJob` and returns the same `EngineCounts`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proofs.explore.expected import EXPECTED
from proofs.explore.explorer import Report, explore
from proofs.explore.result import Exploration, Interrupted, SearchProgress
from proofs.explore.source import explore_source, instances
from proofs.explore.symmetry import symmetry_of
from proofs.lift import subset
from proofs.lift.build import lift, with_checks
from proofs.lift.compiler import NoCompiler
from proofs.lift.machine import Machine
from proofs.lift.source import Model
from proofs.trace.format import Instance, label

WITHOUT_COMPILER = 40_000
"""Plain Python explores scopes with fewer states than this before a compiler has translated
them."""


class EnginesDisagree(Exception):
    """Two engines differ, or an engine's trace does not run on the source. This is always a defect
    of the engines, never of the model."""


def engine_for(scope: str) -> str:
    """Return the engine that explores a scope, `NAME[/BUDGET=N...]`, soonest if nothing is compiled
    yet. A scope with other budgets than its own may have any size."""
    known = EXPECTED.get(scope)
    return "ints" if known is not None and known.distinct < WITHOUT_COMPILER else "c"


@dataclass(frozen=True, slots=True)
class EngineJob:
    """The input of an engine. `guarantees` names those to check; `say` prints a line.

    `checkpoint` is a folder in which the engines c and ints keep the search, to continue it later;
    other engines begin again. `symmetry` names an index type whose elements are interchangeable; c
    and ints then explore one state for all that differ by them, other engines explore all. Without
    `witnesses`, c and ints search for none, because lifting and compiling witnesses takes longer
    than a short search.
    """

    model: Model
    k: Any
    name: str
    workers: int
    stop: bool
    max_depth: int | None
    guarantees: Collection[str]
    progress: Report | None
    say: Callable[[str], None]
    checkpoint: Path | None = None
    symmetry: str | None = None
    witnesses: bool = True


@dataclass(frozen=True, slots=True)
class EngineCounts:
    """The counts of an engine. `violations` and `witnesses` are shortest paths, by name.

    `complete` is False if the engine ended before it found all states; `transitions`, `levels`,
    `firings` and `deadlocks` are None if an engine does not count them; `collision_bound` bounds
    the probability that the visited set took two states for one.
    """

    engine: str
    distinct: int
    depth: int
    complete: bool
    transitions: int | None = None
    levels: tuple[int, ...] | None = None
    firings: Mapping[str, int] | None = None
    deadlocks: int | None = None
    violations: Mapping[str, tuple[Instance, ...]] = field(default_factory=dict)
    witnesses: Mapping[str, tuple[Instance, ...]] = field(default_factory=dict)
    collision_bound: float = 0.0
    peak_bytes: int | None = None
    orbits: int | None = None
    interrupted: bool = False


def paths(
    found: Mapping[str, Sequence[int]], of: Sequence[Instance]
) -> dict[str, tuple[Instance, ...]]:
    """Return paths with rule instances by name."""
    return {name: tuple(of[number] for number in steps) for name, steps in found.items()}


def counts_of(result: Exploration, of: Sequence[Instance], *, interrupted: bool) -> EngineCounts:
    """Return an exploration's counts, with rule instances by name instead of numbers."""
    return EngineCounts(
        engine=result.engine,
        distinct=result.distinct,
        depth=result.depth,
        complete=result.complete,
        transitions=result.transitions,
        levels=result.levels,
        firings={name: count for name, count in result.firings.items() if count},
        deadlocks=result.deadlocks,
        violations=paths(result.violations, of),
        witnesses=paths(result.witnesses, of),
        collision_bound=result.collision_bound,
        peak_bytes=result.peak_bytes,
        orbits=result.orbits,
        interrupted=interrupted,
    )


def counted(run: Callable[[], Exploration], of: Sequence[Instance]) -> EngineCounts:
    """Return what a run found, also after Ctrl-C."""
    try:
        return counts_of(run(), of, interrupted=False)
    except Interrupted as stopped:
        return counts_of(stopped.so_far, of, interrupted=True)


def by_source(job: EngineJob) -> EngineCounts:
    """Explore by the model's own functions. Raises NotTotal."""

    def run() -> Exploration:
        return explore_source(
            job.model,
            job.k,
            job.name,
            only=job.guarantees,
            stop=job.stop,
            max_depth=job.max_depth,
            progress=job.progress,
        )

    return counted(run, instances(job.model, job.k))


def lifted(job: EngineJob) -> Machine:
    """Return the job's machine with the guarantees that the job names."""
    model = job.model
    asked = [p for p in model.guarantees.GUARANTEES if p.name in job.guarantees]
    witnesses = model.guarantees.WITNESSES if job.witnesses else ()
    machine = lift(model, job.k, job.name, guarantees=False).machine
    return with_checks(machine, model, job.k, asked, witnesses)


def by_machine(job: EngineJob, engine: str) -> EngineCounts:
    """Explore by a compiled form.

    Raises LimitReached, RangeBroken, CheckpointError, NotSymmetric, and for "c" NoCompiler and
    CompilerFailed.
    """
    machine = lifted(job)
    symmetry = symmetry_of(job.model, job.k, machine, job.symmetry) if job.symmetry else None

    def run() -> Exploration:
        return explore(
            machine,
            engine,
            workers=job.workers,
            stop=job.stop,
            max_depth=job.max_depth,
            checkpoint=job.checkpoint,
            progress=job.progress,
            symmetry=symmetry,
        )

    return counted(run, [(rule.rule, rule.choice) for rule in machine.rules])


def by_c(job: EngineJob) -> EngineCounts:
    """Explore by C, or by integers if there is no compiler; then print a line that says so."""
    try:
        return by_machine(job, "c")
    except NoCompiler as missing:
        job.say(f"no C compiler, so engine ints, which is slower: {missing}")
        return by_machine(job, "ints")


def by_ints(job: EngineJob) -> EngineCounts:
    """Explore packed integers in plain Python."""
    return by_machine(job, "ints")


def by_tlc(job: EngineJob) -> EngineCounts:
    """Explore the exported TLA+ text in TLC, which ends at the first broken guarantee and finds no
    witnesses.

    TLC gets one worker, whatever the job says, because only then are its depth and levels exact.
    Raises SubsetError, and JavaError if TLC cannot be fetched or fails.
    """
    subset.check(job.model)
    from proofs.export.tla import export_tla
    from proofs.export.tlc import TlcProgress, run_tlc

    begun = time.monotonic()

    def progress(now: TlcProgress) -> None:
        if job.progress is not None:
            seconds = time.monotonic() - begun
            job.progress(
                SearchProgress(now.depth, 0, now.waiting, now.distinct, now.generated, seconds)
            )

    asked = [p.name for p in job.model.guarantees.GUARANTEES if p.name in job.guarantees]
    module = export_tla(job.model, job.k, job.name, check=asked, levels=True)
    result = run_tlc(module, 1, progress)
    by_label = {label(*instance): instance for instance in instances(job.model, job.k)}
    path = tuple(by_label[text] for text in result.trace)
    return EngineCounts(
        engine="tlc",
        distinct=result.distinct,
        depth=result.depth,
        complete=result.violation is None,
        levels=result.levels or None,
        violations={} if result.violation is None else {result.violation: path},
        collision_bound=result.collision_bound,
    )


EngineFunction = Callable[[EngineJob], EngineCounts]

ENGINES: Mapping[str, EngineFunction] = {
    "c": by_c,
    "ints": by_ints,
    "source": by_source,
    "tlc": by_tlc,
}


def say_on_stderr(text: str) -> None:
    """Print a line on standard error, next to the report."""
    print(text, file=sys.stderr, flush=True)
