"""The C engine: builds a machine's shared object, loads it, and searches in it.

The search runs in a separate thread, without the interpreter's lock, while the caller's thread
ticks. So Ctrl-C and progress keep working, and the engine stops at its next batch.
"""

from __future__ import annotations

import ctypes
import threading
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

from proofs.explore.result import LimitReached, StateGraph, Steps
from proofs.explore.search import Broken, NoSearch, Origin, Origins, SearchCounters, Tick
from proofs.lift.c_form import MODEL_HEADER, Blocks, print_c
from proofs.lift.compiler import CompilationUnit, build
from proofs.lift.layout import Layout, WrittenOutOfRange
from proofs.lift.machine import Machine

MAX_WORKERS = 256
TICK_SECONDS = 0.1
SHORT_LEVEL = 1 << 15
"""The number of states of a level that needs no thread: it ends before anybody can press Ctrl-C."""
CHUNK_STATES = 1 << 16

_HERE = Path(__file__).parent
_RUNTIME = (
    "engine.h",
    "memory.h",
    "crew.h",
    "store.h",
    "parts.h",
    "independence.h",
    "memo.h",
    "steps.h",
    "phases.c",
    "room.c",
    "lines.c",
    "engine.c",
    "report.c",
    "batch.c",
)
_RULE_FLAGS = ("-O1",)
_RUNTIME_FLAGS = ("-O2",)

_NO_SEARCH = 4
_OUT_OF_RANGE = 5
_FAILURES = {
    2: "out of memory",
    3: "more states than a 32-bit index counts",
}
_NONE = (1 << 64) - 1
_DISTINCT, _FULL, _TRANSITIONS, _DEADLOCKS, _DEADLOCK = range(5)
_LEVEL_FIRST, _LEVEL_END, _CURSOR, _EDGES, _BROKEN, _COUNTS = range(5, 11)


def runtime_text() -> str:
    """Return the engine as one unit, with its files in order."""
    paths = [MODEL_HEADER, *(_HERE / name for name in _RUNTIME)]
    lines: list[str] = []
    for path in paths:
        lines.append(f'#line 1 "{path.name}"')
        lines += [
            "" if line.startswith('#include "') else line for line in path.read_text().splitlines()
        ]
    return "\n".join([*lines, ""])


def _addresses(*columns: array[int]) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(column.buffer_info()[0]) for column in columns]


def build_machine(machine: Machine, layout: Layout, blocks: Blocks = ()) -> Path:
    """Return the shared object of a specialised machine with the engine, from the cache if it is
    there.

    `blocks` are the leaves of interchangeable elements. Raises Unprintable, NoCompiler,
    CompilerFailed.
    """
    units = print_c(machine, layout, blocks)
    sources = [CompilationUnit(unit.name, unit.text, _RULE_FLAGS) for unit in units]
    flags = (*_RUNTIME_FLAGS, f"-DKX_WORDS={layout.words}")
    return build([CompilationUnit("engine", runtime_text(), flags), *sources])


class Library:
    """A machine's shared object, loaded. `inputs` are the budgets that its rules read."""

    def __init__(self, path: Path, machine: Machine, layout: Layout) -> None:
        self.machine = machine
        self.layout = layout
        self.lib = ctypes.CDLL(str(path))
        self.lib.kx_new.restype = ctypes.c_void_p
        self.lib.kx_successors.restype = ctypes.c_uint32
        budgets = machine.inputs.values()
        self.inputs = (ctypes.c_int64 * max(1, len(budgets)))(*budgets)
        self._words = (ctypes.c_uint64 * (layout.words * max(1, len(machine.rules))))()
        self._rules = (ctypes.c_uint16 * max(1, len(machine.rules)))()

    def words(self, packed: int) -> ctypes.Array[ctypes.c_uint64]:
        """Return a packed state as words."""
        count = self.layout.words
        raw = packed.to_bytes(8 * count, "little")
        return (ctypes.c_uint64 * count).from_buffer_copy(raw)

    def successors(self, packed: int) -> list[tuple[int, int]]:
        """Return (rule instance index, successor) for each enabled instance, smallest index first.

        Only one thread may call this at a time. Raises WrittenOutOfRange.
        """
        found = self.lib.kx_successors(self.words(packed), self.inputs, self._words, self._rules)
        if found > len(self._rules):
            raise WrittenOutOfRange(self._rules[0])
        size = 8 * self.layout.words
        raw = ctypes.string_at(self._words, found * size)
        return [
            (self._rules[n], int.from_bytes(raw[n * size : (n + 1) * size], "little"))
            for n in range(found)
        ]


class NativeSearch:
    """The C engine behind the interface `Engine`."""

    def __init__(self, library: Library, workers: int, with_edges: bool) -> None:
        if not 1 <= workers <= MAX_WORKERS:
            raise ValueError(f"workers is {workers}; it must be in 1 .. {MAX_WORKERS}")
        self._library = library
        self._lib = library.lib
        self._rules = len(library.machine.rules)
        self._tests = len(library.machine.guarantees) + len(library.machine.witnesses)
        initial = library.words(library.layout.pack(library.machine.initial))
        made = self._lib.kx_new(library.inputs, initial, workers, int(with_edges))
        if not made:
            raise LimitReached("no memory or no thread for a search")
        self._engine: ctypes.c_void_p | None = ctypes.c_void_p(made)
        self._released = 0
        self._kept: Origin | None = None

    def expand_level(self, tick: Tick) -> None:
        """Expand the current level; see `Engine`."""
        counts = self.counts()
        if counts.level_end - counts.cursor <= SHORT_LEVEL:
            self._check(self._lib.kx_level(self._engine))
            tick()
        else:
            self._expand_aside(tick)

    def _expand_aside(self, tick: Tick) -> None:
        """Expand a level in a thread, and tick meanwhile."""
        status: list[int] = []
        thread = threading.Thread(target=lambda: status.append(self._lib.kx_level(self._engine)))
        thread.start()
        try:
            while thread.is_alive():
                thread.join(TICK_SECONDS)
                tick()
        finally:
            if thread.is_alive():
                self._lib.kx_stop(self._engine)
                thread.join()
        self._check(status[0])

    def _check(self, status: int) -> None:
        if status == _OUT_OF_RANGE:
            state, rule = divmod(self._counters()[_BROKEN], 1 << 16)
            raise Broken(state, rule)
        if status == _NO_SEARCH:
            raise NoSearch(f"no search finds what is kept, after {self.counts().distinct} states")
        if status in _FAILURES:
            raise LimitReached(f"{_FAILURES[status]}, after {self.counts().distinct} states")

    def _counters(self) -> Sequence[int]:
        counters = (ctypes.c_uint64 * _COUNTS)()
        self._lib.kx_counts(self._engine, counters)
        return list(counters)

    def counts(self) -> SearchCounters:
        """Return the counters, also while a level is being expanded."""
        found = self._counters()
        return SearchCounters(
            distinct=found[_DISTINCT],
            full=found[_FULL],
            transitions=found[_TRANSITIONS],
            deadlocks=found[_DEADLOCKS],
            deadlock=None if found[_DEADLOCK] == _NONE else found[_DEADLOCK],
            level_first=found[_LEVEL_FIRST],
            level_end=found[_LEVEL_END],
            cursor=found[_CURSOR],
        )

    def firings(self) -> Sequence[int]:
        """Return by rule instance how many of the expanded states enabled it."""
        firings = (ctypes.c_uint64 * max(1, self._rules))()
        self._lib.kx_firings(self._engine, firings)
        return list(firings)[: self._rules]

    def first(self) -> Sequence[int | None]:
        """Return the first state noted by each guarantee, then by each witness."""
        first = (ctypes.c_uint64 * max(1, self._tests))()
        self._lib.kx_first(self._engine, first)
        return [None if index == _NONE else index for index in list(first)[: self._tests]]

    def path(self, index: int) -> Steps:
        """Return the rule instances that lead to a state."""
        steps: list[int] = []
        while index:
            index, rule = self._origin(index)
            steps.append(rule)
        return tuple(reversed(steps))

    def _origin(self, index: int) -> tuple[int, int]:
        if self._kept is not None and index < self._released:
            return self._kept(index)
        parents, rules = self.origins(index, 1)
        return parents[0], rules[0]

    def release(self, count: int, kept: Origin) -> None:
        """Free the origins of the states below `count`; `kept` returns them from now on."""
        self._released, self._kept = count, kept
        self._lib.kx_release(self._engine, ctypes.c_uint64(count))

    def restore(self, origins: Origins) -> None:
        """Restore states of an earlier search. Raises LimitReached, NoSearch."""
        count = ctypes.c_uint64(len(origins[0]))
        self._check(self._lib.kx_restore(self._engine, count, *_addresses(*origins)))

    def resume(
        self, counts: SearchCounters, firings: Sequence[int], first: Sequence[int | None]
    ) -> None:
        """Continue at the end of a level, with the counts of all levels before."""
        counters = (ctypes.c_uint64 * _COUNTS)()
        counters[_FULL] = counts.full
        counters[_TRANSITIONS], counters[_DEADLOCKS] = counts.transitions, counts.deadlocks
        counters[_DEADLOCK] = _NONE if counts.deadlock is None else counts.deadlock
        counters[_LEVEL_FIRST], counters[_LEVEL_END] = counts.level_first, counts.level_end
        found = [_NONE if index is None else index for index in first]
        self._lib.kx_resume(
            self._engine,
            counters,
            (ctypes.c_uint64 * max(1, self._rules))(*firings),
            (ctypes.c_uint64 * max(1, self._tests))(*found),
        )

    def origins(self, first: int, count: int) -> Origins:
        """Return the origins of the states first .. first + count - 1."""
        parents, rules = array("I", bytes(4 * count)), array("H", bytes(2 * count))
        span = ctypes.c_uint64(first), ctypes.c_uint64(count)
        self._lib.kx_origins(self._engine, *span, *_addresses(parents, rules))
        return parents, rules

    def _words(self, first: int, count: int) -> array[int]:
        words = array("Q", bytes(8 * count * self._library.layout.words))
        span = ctypes.c_uint64(first), ctypes.c_uint64(count)
        self._lib.kx_states(self._engine, *span, *_addresses(words))
        return words

    def _edge_chunks(self, total: int) -> Iterator[tuple[array[int], array[int], array[int]]]:
        for first in range(0, total, CHUNK_STATES):
            count = min(CHUNK_STATES, total - first)
            sources, targets = array("I", bytes(4 * count)), array("I", bytes(4 * count))
            rules = array("H", bytes(2 * count))
            span = ctypes.c_uint64(first), ctypes.c_uint64(count)
            self._lib.kx_edges(self._engine, *span, *_addresses(sources, rules, targets))
            yield sources, array("I", rules), targets

    def graph(self) -> StateGraph:
        """Return copies of all states and edges found."""
        counters = self._counters()
        packed = array("Q")
        for first in range(0, counters[_DISTINCT], CHUNK_STATES):
            packed += self._words(first, min(CHUNK_STATES, counters[_DISTINCT] - first))
        columns = array("I"), array("I"), array("I")
        for chunk in self._edge_chunks(counters[_EDGES]):
            for column, part in zip(columns, chunk, strict=True):
                column += part
        return StateGraph(self._library.layout, packed, *columns)

    def close(self) -> None:
        """Free the engine's memory; the search cannot be used any more."""
        if self._engine is not None:
            self._lib.kx_free(self._engine)
            self._engine = None
