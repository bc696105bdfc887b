"""Breadth-first search on Spark, with the interface that drives every engine level by level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import TimeoutError as NotYet
from typing import Any, Final, TypeVar

import numpy as np
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from conformance.backends.exploration.state_table import StateTable
from conformance.backends.exploration.successors import (
    KEYS,
    PARENT,
    TALLY,
    Machine,
    merge_counts,
    schema_of,
    word_columns,
)
from conformance.backends.spark import Spark
from conformance.judging.backend import HEARTBEAT_SECONDS
from proofs.explore.batch import Expansion, Fingerprint, LevelCounts
from proofs.explore.checkpoint import CheckpointError, Snapshot
from proofs.explore.explorer import PreparedMachine
from proofs.explore.packed import joined
from proofs.explore.result import Steps
from proofs.explore.search import Broken, SearchCounters, Tick
from proofs.lift.ints_form import ints_form

T = TypeVar("T")

NotedState = tuple[int, Fingerprint]
"""A level, and a state in it."""

Row = tuple[int, ...]
"""A state as the table has it: fingerprint, parent, words."""

UNSIGNED: Final = (1 << 64) - 1


class SparkSearch:
    """The search. A state whose path a caller may ask for has a number: its index in `_noted`."""

    def __init__(
        self, spark: Spark, table: StateTable, prepared: PreparedMachine, machine: Machine
    ) -> None:
        self._spark = spark
        self._table = table
        self._prepared = prepared
        self._machine = machine
        self._levels: list[int] = []
        self._transitions = self._deadlocks = 0
        self._firings = [0] * machine[1].rules
        self._first: list[int | None] = [None] * machine[1].tests
        self._noted: list[NotedState] = []
        self._rows: dict[int, dict[int, list[Row]]] = {}
        self._successors = ints_form(prepared.machine, prepared.layout).successors

    # Beginning

    def begin(self, buckets: int) -> None:
        """Begin a search with only the initial state found."""
        path, shape = self._machine
        expansion = Expansion(path, shape, [False] * shape.tests)
        layout = self._prepared.layout
        packed = layout.pack(self._prepared.machine.initial)
        words = np.frombuffer(packed.to_bytes(8 * layout.words, "little"), np.uint64)
        high, low = expansion.look_at(words)
        row = [(high, low, 0, *map(int, words.view(np.int64)))]
        columns = ", ".join(f"{name} long" for name in (*KEYS, PARENT, *word_columns(shape.words)))

        def write() -> int:
            self._table.open(buckets, 0)
            return self._table.add(0, self._spark.session.createDataFrame(row, columns))

        self._levels.append(self._wait("the initial state", write))
        self._note(0, expansion.tally)

    def resume(self, snapshot: Snapshot, noted: Sequence[Any], buckets: int) -> None:
        """Continue at the end of a level, with the counters of that time."""
        self._levels = list(snapshot.levels)
        self._transitions = snapshot.counts.transitions
        self._deadlocks = snapshot.counts.deadlocks
        self._firings, self._first = list(snapshot.firings), list(snapshot.first)
        self._noted = [(level, (high, low)) for level, (high, low) in noted]
        self._wait("states found before", lambda: self._table.open(buckets, len(self._levels)))
        if snapshot.counts.level_first == snapshot.counts.level_end:
            self._levels.append(0)

    def close(self) -> None:
        """Free the memory of the search; the table's files stay."""
        self._wait("the end", self._table.close)

    @property
    def level(self) -> int:
        """The number of the last level that was found; that level may be empty."""
        return len(self._levels) - 1

    # The interface `Engine`

    def expand_level(self, tick: Tick) -> None:
        """Expand the current level; see `Engine`."""
        level = self.level
        seen = Observation()

        def write() -> int:
            return self._table.add(level + 1, self._new_states(level, seen))

        found = self._wait(f"level {level} of {self._levels[-1]:,} states", write, tick)
        tally = merge_counts(seen.get[TALLY], self._machine[1])
        self._refuse_broken(level, tally)
        self._transitions += tally.transitions
        self._deadlocks += tally.deadlocks
        self._firings = [a + b for a, b in zip(self._firings, tally.firings, strict=True)]
        self._levels.append(found)
        self._note(level + 1, tally)

    def _new_states(self, level: int, seen: Observation) -> DataFrame:
        """The states behind a level that no level has yet; the tallies of the tasks are added to
        `seen`."""
        shape = self._machine[1]
        closed = [first is not None for first in self._first]
        expand = self._spark.at_workers("map_batches", (closed,))
        columns = [f"{field.name} long" for field in schema_of(shape.words) if field.name != TALLY]
        found = self._table.words_of(level).mapInArrow(
            expand, ", ".join([*columns, f"{TALLY} string"])
        )
        found = found.observe(seen, F.collect_list(TALLY).alias(TALLY)).where(f"{TALLY} IS NULL")
        words = [F.first(name).alias(name) for name in word_columns(shape.words)]
        candidates = (
            found.repartition(self._table.buckets, *KEYS)
            .groupBy(*KEYS)
            .agg(F.min(PARENT).alias(PARENT), *words)
        )
        return candidates.join(self._table.keys(), [*KEYS], "left_anti")

    def counts(self) -> SearchCounters:
        """The counters at the end of the last whole level."""
        distinct = sum(self._levels)
        begun = distinct - self._levels[-1]
        return SearchCounters(
            distinct=distinct,
            full=distinct,
            transitions=self._transitions,
            deadlocks=self._deadlocks,
            deadlock=None,
            level_first=begun,
            level_end=distinct,
            cursor=begun,
        )

    def firings(self) -> Sequence[int]:
        """The number of expanded states that enabled each rule instance."""
        return self._firings

    def first(self) -> Sequence[int | None]:
        """The first state to note for each guarantee, then for each witness."""
        return self._first

    def noted(self) -> Sequence[NotedState]:
        """The states that have a number."""
        return self._noted

    # Notes and paths

    def _note(self, level: int, tally: LevelCounts) -> None:
        for test, state in enumerate(tally.first):
            if state is not None and self._first[test] is None:
                self._first[test] = self._number(level, state)

    def _number(self, level: int, state: Fingerprint) -> int:
        self._noted.append((level, state))
        return len(self._noted) - 1

    def _refuse_broken(self, level: int, tally: LevelCounts) -> None:
        if tally.broken is not None:
            state, rule = tally.broken
            raise Broken(self._number(level, state), rule)

    def path(self, index: int) -> Steps:
        """The rule instances that lead to a noted state."""
        level, state = self._noted[index]
        if not self._has_row(level, state):
            self._fetch_rows()
        row = next(row for row in self._rows[level][state[0]] if row[:2] == state)
        steps: list[int] = []
        for before in range(level - 1, -1, -1):
            rule, row = self._step_to(row, before)
            steps.append(rule)
        return tuple(reversed(steps))

    def _has_row(self, level: int, state: Fingerprint) -> bool:
        return any(row[:2] == state for row in self._rows.get(level, {}).get(state[0], ()))

    def _fetch_rows(self) -> None:
        """The rows of all noted states, and of the states on their paths."""
        wanted: dict[int, set[int]] = {}
        for level, (high, _) in self._noted:
            wanted.setdefault(level, set()).add(high)
        for level in range(max(wanted), -1, -1):
            rows = self._rows.setdefault(level, {})
            for row in self._table.rows(level, wanted.get(level, ())):
                rows.setdefault(row[0], []).append(row)
                wanted.setdefault(level - 1, set()).add(row[2])

    def _step_to(self, row: Row, level: int) -> tuple[int, Row]:
        """The step from the previous level that leads to a state, and the state that it starts
        from. States with the same beginning of the fingerprint are distinguished by their
        successors."""
        target = packed_of(row)
        for before in sorted(self._rows[level].get(row[2], ())):
            for rule, state in self._successors(packed_of(before)):
                if state == target:
                    return rule, before
        raise CheckpointError(f"level {level} has no state before {row[:2]}: files are missing")

    # Spark

    def _wait(self, what: str, work: Callable[[], T], tick: Tick = lambda: None) -> T:
        """The result of the work; `tick` is called meanwhile. Ctrl-C cancels the work."""
        done = self._spark.submit(what, work)
        try:
            while True:
                try:
                    return done.result(HEARTBEAT_SECONDS)
                except NotYet:
                    tick()
        except KeyboardInterrupt:
            self._spark.cancel()
            raise


def packed_of(row: Row) -> int:
    """The packed state of a row."""
    return joined([word & UNSIGNED for word in row[3:]])
