"""Finds every reachable state of a machine: one function over the engines.

`explore` gives the same result from the C engine and from plain Python, for any number of workers:
states are numbered as a sequential breadth-first search finds them.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from proofs.explore.checkpoint import Checkpoint, SearchCheckpoint, Snapshot, key_of
from proofs.explore.native import Library, NativeSearch, build_machine
from proofs.explore.packed import IntsSearch
from proofs.explore.result import (
    EndReason,
    Exploration,
    Interrupted,
    RangeBroken,
    SearchProgress,
    StateGraph,
    Steps,
)
from proofs.explore.search import Broken, Engine
from proofs.explore.symmetry import Canonical, OrbitPaths, Symmetry
from proofs.lift.ints_form import ints_form
from proofs.lift.layout import Layout, lay_out
from proofs.lift.machine import Machine
from proofs.lift.specialise import specialise
from proofs.lift.step import out_of_range, undefined_at

ENGINES = ("c", "ints")
PROGRESS_SECONDS = 0.25

Report = Callable[[SearchProgress], None]


@dataclass(frozen=True, slots=True)
class PreparedMachine:
    """A machine with its constant leaves folded in, and the layout of the others."""

    machine: Machine
    layout: Layout


def prepare(machine: Machine) -> PreparedMachine:
    """Return what every packed form is made from."""
    specialised = specialise(machine)
    return PreparedMachine(specialised, lay_out(specialised))


def load(prepared: PreparedMachine, symmetry: Symmetry | None = None) -> Library:
    """Return the machine as C, compiled and loaded. Raises Unprintable, NoCompiler,
    CompilerFailed."""
    blocks = () if symmetry is None else symmetry.blocks
    path = build_machine(prepared.machine, prepared.layout, blocks)
    return Library(path, prepared.machine, prepared.layout)


def peak_bytes() -> int:
    """Return the most memory that this process has held at once."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


class ExplorationRun:
    """One exploration: drives an engine level by level and reports."""

    def __init__(
        self,
        machine: Machine,
        name: str,
        engine: Engine,
        progress: Report | None,
        checkpoint: SearchCheckpoint | None = None,
        genuine: OrbitPaths | None = None,
    ) -> None:
        self._machine = machine
        self._genuine = genuine
        self._name = name
        self._engine = engine
        self._progress = progress
        self._checkpoint = checkpoint
        self._begun = self._reported = time.monotonic()
        earlier = checkpoint.load(self._restored) if checkpoint is not None else None
        self.levels = list(earlier.levels) if earlier is not None else [1]

    def tick(self) -> None:
        """Report progress if the last report is old enough."""
        self._report(self._expanded)

    def _expanded(self, seconds: float) -> SearchProgress:
        counts = self._engine.counts()
        return SearchProgress(
            depth=len(self.levels) - 1,
            done=counts.cursor - counts.level_first,
            frontier=counts.level_end - counts.level_first,
            distinct=counts.distinct,
            transitions=counts.transitions,
            seconds=seconds,
        )

    def _restored(self, done: int, count: int) -> None:
        self._report(lambda seconds: SearchProgress(0, done, count, done, 0, seconds, True))

    def _report(self, look: Callable[[float], SearchProgress]) -> None:
        now = time.monotonic()
        if self._progress is not None and now - self._reported >= PROGRESS_SECONDS:
            self._reported = now
            self._progress(look(now - self._begun))

    def run(self, stop: bool, max_depth: int | None) -> EndReason:
        """Expand levels until no state is left, or the search has found what it stops at."""
        guarantees = len(self._machine.guarantees)
        while True:
            if stop and any(index is not None for index in self._engine.first()[:guarantees]):
                return EndReason.VIOLATION
            counts = self._engine.counts()
            if counts.level_first == counts.level_end:
                return EndReason.COMPLETE
            if max_depth is not None and len(self.levels) > max_depth:
                return EndReason.DEPTH
            self._engine.expand_level(self.tick)
            found = self._engine.counts().full - counts.full
            if found:
                self.levels.append(found)
            self._level_done()

    def _level_done(self) -> None:
        if self._checkpoint is not None:
            engine = self._engine
            firings, first = tuple(engine.firings()), tuple(engine.first())
            snapshot = Snapshot(tuple(self.levels), engine.counts(), firings, first)
            self._checkpoint.level_done(snapshot)

    def save(self) -> None:
        """Write the last complete level, if the search has a checkpoint."""
        if self._checkpoint is not None:
            self._checkpoint.write()

    def result(self, ended: EndReason, graph: StateGraph | None) -> Exploration:
        """Return what was found so far."""
        counts = self._engine.counts()
        partly = counts.full - sum(self.levels)
        levels = (*self.levels, partly) if partly else tuple(self.levels)
        first = self._engine.first()
        guarantees = len(self._machine.guarantees)
        labels = [rule.label for rule in self._machine.rules]
        return Exploration(
            machine=self._machine.name,
            engine=self._name,
            ended=ended,
            distinct=counts.full,
            orbits=None if self._genuine is None else counts.distinct,
            transitions=counts.transitions,
            depth=len(levels) - 1,
            levels=levels,
            firings=dict(zip(labels, self._engine.firings(), strict=True)),
            violations=self._paths(self._machine.guarantees, first[:guarantees]),
            witnesses=self._paths(self._machine.witnesses, first[guarantees:]),
            deadlocks=counts.deadlocks,
            deadlock=None if counts.deadlock is None else self._path(counts.deadlock),
            collision_bound=0.0,
            seconds=time.monotonic() - self._begun,
            peak_bytes=peak_bytes(),
            graph=graph,
        )

    def range_broken(self, broken: Broken) -> RangeBroken:
        """Return the error that says which rule instance broke a range, and after which steps."""
        before = self._path(broken.state)
        name = self._machine.rules[broken.rule].rule
        alike = [n for n, rule in enumerate(self._machine.rules) if rule.rule == name]
        for rule in alike if self._genuine is not None else [broken.rule]:
            steps = (*before, rule)
            what = _broken_by(self._machine, steps)
            if what:
                break
        label = self._machine.rules[rule].label
        return RangeBroken(f"step {len(steps)}, {label}, {what}", steps)

    def _path(self, index: int) -> Steps:
        """Return a shortest path of the machine itself to a state, or to one of its orbit."""
        steps = self._engine.path(index)
        return steps if self._genuine is None else self._genuine.path(steps)

    def _paths(self, names: Iterable[str], first: Sequence[int | None]) -> dict[str, Steps]:
        return {
            name: self._path(index)
            for name, index in zip(names, first, strict=True)
            if index is not None
        }


def _broken_by(machine: Machine, steps: Steps) -> str:
    """Return where the last step's text is not defined, or else what it writes out of range; "" if
    the step is not enabled."""
    try:
        wheres, written = undefined_at(machine, steps), out_of_range(machine, steps)
    except ValueError:
        return ""
    if wheres:
        return f"looks for a key that is none of its map's: {', '.join(wheres)}"
    return f"writes {', '.join(written)}" if written else ""


def searched(
    run: ExplorationRun, graph: Callable[[], StateGraph | None], stop: bool, max_depth: int | None
) -> Exploration:
    """Run to the end and collect what was found. Raises Interrupted at Ctrl-C, RangeBroken."""
    try:
        ended = run.run(stop, max_depth)
    except KeyboardInterrupt:
        run.save()
        raise Interrupted(run.result(EndReason.INTERRUPTED, graph())) from None
    except Broken as broken:
        raise run.range_broken(broken) from None
    run.save()
    return run.result(ended, graph())


def explore(
    machine: Machine,
    engine: str = "c",
    *,
    workers: int = 1,
    stop: bool = False,
    want_edges: bool = False,
    max_depth: int | None = None,
    checkpoint: Path | None = None,
    progress: Report | None = None,
    symmetry: Symmetry | None = None,
) -> Exploration:
    """Search the machine's states breadth first.

    `engine` is "c" (`workers` threads) or "ints" (plain Python, one). With `stop` the search ends
    at the first level that breaks a guarantee, else it goes to the end; `max_depth` is the last
    level to find. `progress` is called about every PROGRESS_SECONDS, in the caller's thread.
    `checkpoint` is a folder in which the search is saved as it goes. If the folder already holds
    the same search, this one continues, whatever interrupted it and whichever engine began it. With
    a `symmetry` one state of each orbit is explored; all numbers except `orbits` are still those of
    the whole scope.

    Raises Interrupted at Ctrl-C, RangeBroken, LimitReached, CheckpointError if the folder holds
    something else, and for "c" NoCompiler, CompilerFailed, Unprintable.
    """
    if engine not in ENGINES:
        raise ValueError(f"engine is {engine!r}; choose one of {', '.join(ENGINES)}")
    if want_edges and checkpoint is not None:
        raise ValueError("edges are not kept in a checkpoint: ask for one or the other")
    if want_edges and symmetry is not None:
        raise ValueError("an orbit has no edges of its own: ask for edges or for symmetry")
    prepared = prepare(machine)
    canonical = None if symmetry is None else Canonical(symmetry, prepared.layout)
    search = _opened(prepared, engine, workers, want_edges, symmetry, canonical)
    try:
        kept = None
        if checkpoint is not None:
            key = key_of(prepared.machine, prepared.layout, stop, max_depth, symmetry)
            kept = Checkpoint(checkpoint, key, search)
        genuine = None if canonical is None else _genuine(prepared, canonical)
        run = ExplorationRun(machine, engine, search, progress, kept, genuine)
        return searched(run, search.graph if want_edges else lambda: None, stop, max_depth)
    finally:
        search.close()


def _opened(
    prepared: PreparedMachine,
    engine: str,
    workers: int,
    want_edges: bool,
    symmetry: Symmetry | None,
    canonical: Canonical | None,
) -> NativeSearch | IntsSearch:
    if engine == "ints":
        return IntsSearch(prepared.machine, prepared.layout, want_edges, canonical)
    return NativeSearch(load(prepared, symmetry), workers, want_edges)


def _genuine(prepared: PreparedMachine, canonical: Canonical) -> OrbitPaths:
    form = ints_form(prepared.machine, prepared.layout)
    return OrbitPaths(prepared.layout.pack(prepared.machine.initial), form.successors, canonical)
