"""The statements of impl that a run executes: each carries a mark until it is reached.

1. A mark is a line before a statement. Functions of impl get code with marks in place, as they are
   loaded; no module is imported again.
2. From time to time functions get code without the marks that were reached. The remaining marks
   cost nothing, because they are not executed.
3. The reached statements are a property of the plan: they are the same however its traces are
   shared among processes, and whatever these processes judged before.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from types import CodeType, FunctionType
from typing import Final

from conformance.judging.coverage.function_code import codes_in, forget_results, functions_of
from conformance.judging.coverage.statements import (
    MARK,
    core,
    function_blocks,
    marked,
    places,
    protocol_places,
    trees,
)

OFTEN: Final = 4
"""Marks are removed after the number of queries has grown by this factor."""

Key = tuple[str, int]
"""Identifies the code of a function within its module: the qualified name and the first line."""


class MarkedModule:
    """A loaded module of impl. `marks` has its marks by the number of their places."""

    def __init__(self, name: str) -> None:
        self._tree = marked(name, trees()[name])
        self._loaded = importlib.import_module(name)
        self._file = str(self._loaded.__file__)
        self._functions: dict[Key, FunctionType] = {}
        self._plain: dict[Key, CodeType] = {}
        self._look_up_functions()
        self.marks: dict[int, list[tuple[ast.Expr, ast.expr]]] = {}
        for node in chain.from_iterable(function_blocks(self._tree)):
            if isinstance(node, ast.Expr) and (number := number_of(node.value)) is not None:
                self.marks.setdefault(number, []).append((node, node.value))

    @property
    def functions(self) -> Iterable[FunctionType]:
        """The functions whose code can be replaced."""
        return self._functions.values()

    def mark_all(self) -> None:
        """Put all marks in place."""
        self._look_up_functions()
        for rows in self.marks.values():
            for statement, mark in rows:
                statement.value = mark
        self._compile()

    def take_off(self, numbers: Iterable[int]) -> None:
        """Remove the marks of these places."""
        for number in numbers:
            for statement, mark in self.marks[number]:
                statement.value = ast.copy_location(ast.Constant(None), mark)
        self._compile()

    def restore(self) -> None:
        """Restore the original code of the module."""
        for key, function in self._functions.items():
            function.__code__ = self._plain[key]

    def _look_up_functions(self) -> None:
        """Find functions that have moved, such as those behind a planted bug that is gone."""
        for function in functions_of(self._loaded):
            key = key_of(function.__code__)
            self._functions.setdefault(key, function)
            self._plain.setdefault(key, function.__code__)

    def _compile(self) -> None:
        for code in codes_in(compile(self._tree, self._file, "exec")):
            function = self._functions.get(key_of(code))
            if function is not None and function.__code__.co_freevars == code.co_freevars:
                function.__code__ = code


def key_of(code: CodeType) -> Key:
    """The key of a code object."""
    return code.co_qualname, code.co_firstlineno


def number_of(value: ast.expr) -> int | None:
    """The number of the place that a call marks; None for any other value."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
        return None
    return int(ast.literal_eval(value.args[0])) if value.func.id == MARK else None


class StatementMarks:
    """The marks of this process. A subject that is taken up again finds its marks as it left
    them."""

    def __init__(self) -> None:
        protocol_places()  # the places are counted before the trees get marks
        self.modules = [MarkedModule(name) for name in core()]
        self._known: dict[Hashable, set[int]] = {}
        self._subject: Hashable = None
        self._reached: set[int] = set()
        self._off: set[int] = set()
        self._asked = 0
        self._due = 1

    def begin(self, subject: Hashable) -> None:
        """Mark the statements that this subject has not reached. Does nothing if it is the present
        subject."""
        if subject == self._subject:
            return
        self._subject = subject
        self._reached = self._known.setdefault(subject, set())
        setattr(builtins, MARK, self._reached.add)
        forget_results("impl")
        for module in self.modules:
            module.mark_all()
        self._off, self._asked, self._due = set(), 0, 1

    def reached(self) -> bytes:
        """All places that the subject has reached so far: bit n (byte n // 8, bit n % 8) is place
        n."""
        self._asked += 1
        if self._asked >= self._due:
            self._due *= OFTEN
            self._take_off()
        return bits_of(self._reached)

    def end(self) -> None:
        """Restore the code from before any marks."""
        self._subject = None
        for module in self.modules:
            module.restore()

    def _take_off(self) -> None:
        new = self._reached - self._off
        self._off |= new
        for module in self.modules:
            if here := new & module.marks.keys():
                module.take_off(here)


@functools.cache
def statement_marks() -> StatementMarks:
    """The marks of this process."""
    return StatementMarks()


@contextmanager
def marked_statements(subject: Hashable) -> Iterator[StatementMarks]:
    """The marks for a subject, in a process that also does other work; they are removed at
    the end."""
    marks = statement_marks()
    marks.begin(subject)
    try:
        yield marks
    finally:
        marks.end()


def bits_of(numbers: Iterable[int]) -> bytes:
    """Sets one bit for each place."""
    found = bytearray(-(-len(places()) // 8))
    for number in numbers:
        found[number // 8] |= 1 << number % 8
    return bytes(found)


def numbers_in(bits: bytes) -> frozenset[int]:
    """The places whose bits are set."""
    return frozenset(
        8 * index + bit for index, byte in enumerate(bits) for bit in range(8) if byte >> bit & 1
    )
