"""The explored graph of a scope as arrays.

A labelled transition is an edge with its rule instance. Its number is its place in the order by
source state, then by rule instance. State 0 is the initial state of the scope; states are numbered
breadth first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from conformance.generate.models import model_of_configuration
from conformance.generate.property_bits import property_bits
from proofs import arrays as np
from proofs.explore.explorer import explore
from proofs.explore.result import SearchProgress
from proofs.lift.build import lift
from proofs.lift.c_form import Unprintable
from proofs.lift.compiler import CompilerFailed, NoCompiler
from proofs.lift.machine import Machine

Numbers = np.Array

MAX_STATES = 2_000_000
"""Larger scopes have no cover, and their hunts do without the graph."""


class ScopeTooLargeForCover(ValueError):
    """A scope has too many states for a cover."""


@dataclass(frozen=True, eq=False)
class TransitionGraph:
    """All labelled transitions. `first_edge` has one element more than there are states: the edges
    of state s are first_edge[s] ... first_edge[s + 1] - 1. `shows` has the properties that each
    state shows (`property_bits`); it is empty if nobody asked for them."""

    first_edge: Numbers
    rules: Numbers
    targets: Numbers
    shows: Numbers = field(default_factory=lambda: np.zeros(0, np.uint32))

    @property
    def states(self) -> int:
        """The number of states."""
        return len(self.first_edge) - 1

    @property
    def edges(self) -> int:
        """The number of labelled transitions."""
        return len(self.targets)

    @property
    def sources(self) -> Numbers:
        """The source of each edge."""
        return np.repeat(np.arange(self.states, dtype=np.int64), np.diff(self.first_edge))

    def depths(self) -> Numbers:
        """Each state's distance from state 0. Breadth-first numbers rise with depth."""
        depths = np.full(self.states, -1, dtype=np.int32)
        depths[0] = 0
        frontier = np.array([0], dtype=np.int64)
        depth = 0
        while len(frontier) > 0:
            depth += 1
            found = self.targets[edges_of(self.first_edge, frontier)]
            frontier = np.unique(found[depths[found] < 0])
            depths[frontier] = depth
        return depths


def edges_of(first_edge: Numbers, states: Numbers) -> Numbers:
    """The numbers of all edges of these states, in the order of the states."""
    begins = first_edge[states].astype(np.int64)
    counts = first_edge[states + 1].astype(np.int64) - begins
    ends = np.cumsum(counts)
    shifts = np.repeat(begins - (ends - counts), counts)
    found: Numbers = np.arange(len(shifts), dtype=np.int64) + shifts
    return found


def machine_of(k: Any, name: str, *, guarantees: bool = False) -> Machine:
    """The lifted machine of a configuration. Callers that only walk it need no guarantees."""
    return lift(model_of_configuration(k), k, name, guarantees=guarantees).machine


def explored(machine: Machine, progress: Callable[[SearchProgress], None]) -> TransitionGraph:
    """Explores every transition of the machine: in C, or in Python if no compiler is found.

    Raises ScopeTooLargeForCover beyond MAX_STATES.
    """

    def report(so_far: SearchProgress) -> None:
        if so_far.distinct > MAX_STATES:
            raise ScopeTooLargeForCover(f"{machine.name} has more than {MAX_STATES} states")
        progress(so_far)

    try:
        found = explore(machine, "c", want_edges=True, progress=report)
    except (NoCompiler, CompilerFailed, Unprintable):
        found = explore(machine, "ints", want_edges=True, progress=report)
    if found.distinct > MAX_STATES:
        raise ScopeTooLargeForCover(
            f"{machine.name} has {found.distinct} states, more than {MAX_STATES}"
        )
    assert found.graph is not None
    sources = np.asarray(found.graph.sources)
    counts = np.bincount(sources, minlength=found.distinct)
    return TransitionGraph(
        first_edge=np.concatenate(([0], np.cumsum(counts))).astype(np.uint32),
        rules=np.asarray(found.graph.rules).astype(np.uint16),
        targets=np.asarray(found.graph.targets).astype(np.uint32),
        shows=property_bits(machine, found.graph),
    )
