"""Finds the successors of many packed states in one call, by a machine's shared object.

It serves searches that keep their states elsewhere: it computes fingerprints, and can load a shared
object that was built on another machine.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

ROWS: Final = 1 << 16
"""The rows of a block, unless one state may have more successors."""

OPEN, NOTED, CLOSED = range(3)
_NONE: Final = (1 << 64) - 1

Array = Any
"""A numpy array."""

Fingerprint = tuple[int, int]
"""A fingerprint of 128 bits, as two signed numbers of 64 bits. It identifies a state, with
certainty if a state has at most two words."""


class _Rows(ctypes.Structure):
    """The struct `kx_rows` of engine.h."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("room", "rows")),
        *((name, ctypes.c_void_p) for name in ("high", "low", "parent", "words", "slots")),
        *((name, ctypes.c_uint64) for name in ("slot_mask", "transitions", "deadlocks")),
        ("firings", ctypes.c_void_p),
        ("broken", ctypes.c_uint64),
        *((name, ctypes.c_void_p) for name in ("noted", "first")),
    )


@dataclass(frozen=True, slots=True)
class MachineShape:
    """Facts that the shared object does not contain: words of a state, rule instances, tests
    (guarantees, then witnesses), and the budgets that its rules read."""

    words: int
    rules: int
    tests: int
    inputs: tuple[int, ...]


@dataclass(slots=True)
class LevelCounts:
    """Counts over some states: transitions, states without successors, and firings by rule
    instance. `first` has for each test the least fingerprint among the successors that meet it.
    `broken` has a state and the rule instance that writes a value out of range there."""

    transitions: int
    deadlocks: int
    firings: list[int]
    first: list[Fingerprint | None]
    broken: tuple[Fingerprint, int] | None = None


class Expansion:
    """Expands states in blocks, and counts in `tally`. Only one thread may use it at a time."""

    def __init__(self, path: Path, shape: MachineShape, closed: Sequence[bool]) -> None:
        """`closed` says for each test whether it is already decided. Raises OSError if the object
        cannot be loaded on this machine."""
        self._lib = ctypes.CDLL(str(path))
        self._lib.kx_expand.restype = ctypes.c_uint64
        self._shape = shape
        self._inputs = np.array([*shape.inputs, 0], np.int64)
        room = max(ROWS, shape.rules)
        slots = 1 << room.bit_length()
        self._columns: list[Array] = [np.empty(room, np.int64) for _ in range(3)]
        self._words: Array = np.empty((room, shape.words), np.uint64)
        self._slots: Array = np.empty(slots, np.uint32)
        self._firings: Array = np.zeros(shape.rules, np.uint64)
        self._noted: Array = np.array([CLOSED if test else OPEN for test in closed], np.uint8)
        self._first: Array = np.zeros((shape.tests, 2), np.int64)
        buffers = [array.ctypes.data for array in (*self._columns, self._words, self._slots)]
        counted = (slots - 1, 0, 0, self._firings.ctypes.data, _NONE)
        noted = (self._noted.ctypes.data, self._first.ctypes.data)
        self._rows = _Rows(room, 0, *buffers, *counted, *noted)

    @property
    def tally(self) -> LevelCounts:
        """Return everything that was counted until now."""
        first = [
            (int(high), int(low)) if noted == NOTED else None
            for noted, (high, low) in zip(self._noted, self._first, strict=True)
        ]
        rows, broken = self._rows, None
        if rows.broken != _NONE:
            broken = self._fingerprint(rows.rows), int(rows.broken)
        firings = [int(n) for n in self._firings]
        return LevelCounts(rows.transitions, rows.deadlocks, firings, first, broken)

    def _fingerprint(self, row: int) -> Fingerprint:
        return int(self._columns[0][row]), int(self._columns[1][row])

    def expand(self, states: Array) -> Iterator[tuple[Array, Array, Array, Array]]:
        """Yield blocks of (high, low, parent, words) of the successors of all states, each an array
        of words. A block contains no successor twice, and the next block overwrites it. `parent` is
        the least high word among the predecessors of a successor. Stops at a value out of range."""
        at = 0
        while at < len(states) and self._rows.broken == _NONE:
            left = np.ascontiguousarray(states[at:], np.uint64)
            at += self._lib.kx_expand(
                ctypes.c_void_p(self._inputs.ctypes.data),
                ctypes.c_void_p(left.ctypes.data),
                ctypes.c_uint64(len(left)),
                ctypes.byref(self._rows),
            )
            rows = self._rows.rows
            high, low, parent = (column[:rows] for column in self._columns)
            yield high, low, parent, self._words[:rows]

    def look_at(self, state: Array) -> Fingerprint:
        """Return the fingerprint of one state, whose tests are noted in the tally."""
        self._lib.kx_look_at(
            ctypes.c_void_p(self._inputs.ctypes.data),
            ctypes.c_void_p(np.ascontiguousarray(state, np.uint64).ctypes.data),
            ctypes.byref(self._rows),
        )
        return self._fingerprint(0)
