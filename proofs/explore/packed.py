"""The Python engine over packed ints, with what only packed states allow: graphs and files."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from proofs.explore.result import StateGraph
from proofs.explore.search import Check, NoSearch, Origin, Origins, Search, SearchCounters
from proofs.explore.symmetry import Canonical
from proofs.lift.ints_form import ints_form
from proofs.lift.layout import WORD_BITS, Layout
from proofs.lift.machine import Machine


def joined(words: Sequence[int]) -> int:
    """Return a packed state's words as one int."""
    return sum(word << WORD_BITS * n for n, word in enumerate(words))


class IntsSearch(Search[int]):
    """The search of a specialised machine in its ints form."""

    def __init__(
        self,
        machine: Machine,
        layout: Layout,
        with_edges: bool,
        canonical: Canonical | None = None,
    ) -> None:
        form = ints_form(machine, layout)
        checks = [Check(holds, False) for holds in form.guarantees.values()]
        checks += [Check(holds, True) for holds in form.witnesses.values()]
        initial = layout.pack(machine.initial)
        successors = form.successors if canonical is None else canonical.of_each(form.successors)
        weight = None if canonical is None else canonical.size
        super().__init__(initial, successors, checks, len(machine.rules), with_edges, weight)
        self._layout = layout

    def graph(self) -> StateGraph:
        """Return all states and edges found."""
        assert self.edges is not None
        packed = array("Q")
        for state in self.states:
            packed.frombytes(state.to_bytes(8 * self._layout.words, "little"))
        return StateGraph(self._layout, packed, *self.edges)

    def origins(self, first: int, count: int) -> Origins:
        """Return the origins of the states first .. first + count - 1."""
        part = slice(first, first + count)
        return self._parents[part], array("H", self._rules[part])

    def restore(self, origins: Origins) -> None:
        """Restore states of an earlier search, after the states already there. Raises NoSearch."""
        for parent, steps in groupby(zip(*origins, strict=True), itemgetter(0)):
            self._restore_successors(parent, [rule for _, rule in steps])

    def _restore_successors(self, parent: int, rules: Sequence[int]) -> None:
        known = parent < len(self.states)
        successors = dict(self._successors(self.states[parent])) if known else {}
        for rule in rules:
            state = successors.get(rule)
            if state is None or state in self._index:
                raise NoSearch(f"no search finds what is kept, after {len(self.states)} states")
            self._keep(state, parent, rule)

    def release(self, count: int, kept: Origin) -> None:
        """Free nothing: a search in Python ends long before its origins matter."""

    def resume(
        self, counts: SearchCounters, firings: Sequence[int], first: Sequence[int | None]
    ) -> None:
        """Continue at the end of a level, with the counts of all levels before."""
        self._full = counts.full
        self._transitions, self._deadlocks = counts.transitions, counts.deadlocks
        self._deadlock = counts.deadlock
        self._level_first = self._cursor = counts.level_first
        self._level_end = counts.level_end
        self._firings, self._first = list(firings), list(first)
