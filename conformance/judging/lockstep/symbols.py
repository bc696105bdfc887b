"""Symbolic values, on which an event computes while its text is turned into code.

A `Symbol` is an expression over the cells of a world and over the results of earlier calls. A
Python operation on a symbol gives another symbol. Only a condition has to be decided; the caller
that runs the text decides it both ways. Iteration has no symbolic form: it raises `NotSymbolic`,
and the function that iterates is called when the code runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final, get_args, get_origin, get_type_hints

from model.language import Map

MOST_KEYS: Final = 16
"""A symbolic key of a `Map` is decided among at most this many keys."""


class NotSymbolic(Exception):
    """An operation that needs the value itself."""


class Symbol:
    """An expression: its `code`, and its type in the model if known.

    `item` is the code of the message under way that this symbol is a part of. `cell` is the number
    of the cell whose actor it is. `terms` are the symbol and the number whose sum it is.
    """

    __slots__ = ("cell", "code", "context", "hint", "item", "terms")

    def __init__(
        self,
        context: Context,
        code: str,
        hint: Any = None,
        item: str | None = None,
        cell: int | None = None,
    ) -> None:
        self.context = context
        self.code = code
        self.hint = hint
        self.item = item
        self.cell = cell
        self.terms: tuple[Symbol, int] | None = None

    @property
    def value(self) -> str:
        """The code of the model's value; the cells themselves hold nodes of tables, and links hold
        items."""
        if self.hint in self.context.actors:
            return f"{self.code}.state"
        return f"{self.code}[0].value" if self.hint in self.context.messages else self.code

    def _part(self, code: str, hint: Any = None) -> Symbol:
        item = self.code if self.hint in self.context.messages else self.item
        return Symbol(self.context, code, hint, item)

    def __getattr__(self, name: str) -> Symbol:
        return self._part(f"{self.value}.{name}", field_hint(self.hint, name))

    def __getitem__(self, key: Any) -> Symbol:
        if isinstance(key, slice):
            bounds = ("" if b is None else self.context.code(b) for b in (key.start, key.stop))
            return self._part(f"{self.value}[{':'.join(bounds)}]", self.hint)
        return self._part(f"{self.value}[{self.context.code(key)}]", element_hint(self.hint))

    def _operation(self, operator: str, other: Any) -> Symbol:
        return Symbol(self.context, f"({self.value} {operator} {self.context.code(other)})")

    def __eq__(self, other: object) -> Symbol:  # type: ignore[override]
        return self._operation("==", other)

    def __ne__(self, other: object) -> Symbol:  # type: ignore[override]
        return self._operation("!=", other)

    def __lt__(self, other: Any) -> Symbol:
        return self._operation("<", other)

    def __le__(self, other: Any) -> Symbol:
        return self._operation("<=", other)

    def __gt__(self, other: Any) -> Symbol:
        return self._operation(">", other)

    def __ge__(self, other: Any) -> Symbol:
        return self._operation(">=", other)

    def __add__(self, other: Any) -> Symbol:
        total = self._operation("+", other)
        total.terms = (self, other) if type(other) is int else None
        return total

    def __sub__(self, other: Any) -> Symbol:
        return self._operation("-", other)

    def __mod__(self, other: Any) -> Symbol:
        return self._operation("%", other)

    def __radd__(self, other: Any) -> Symbol:
        return Symbol(self.context, f"({self.context.code(other)} + {self.value})")

    def __rsub__(self, other: Any) -> Symbol:
        return Symbol(self.context, f"({self.context.code(other)} - {self.value})")

    def __bool__(self) -> bool:
        return self.context.decide(self.value)

    def __index__(self) -> int:
        if self.terms is not None:
            symbol, number = self.terms
            return symbol.__index__() + number
        for key in range(MOST_KEYS):
            if self == key:
                return key
        raise IndexError(self.code)

    def __iter__(self) -> Iterator[Any]:
        raise NotSymbolic(self.code)

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Raises NotSymbolic: a method call needs the value itself."""
        raise NotSymbolic(self.code)

    __hash__ = None  # type: ignore[assignment]


class Context:
    """How symbols are printed and decided. `constants` are the values that code mentions by name;
    `actors` and `messages` are the types of the model that have two sides."""

    def __init__(self, actors: frozenset[Any], messages: frozenset[Any]) -> None:
        self.actors = actors
        self.messages = messages
        self.constants: dict[str, Any] = {}
        self._names: dict[int, str] = {}
        self.decide: Callable[[str], bool] = self._undecided

    def _undecided(self, condition: str) -> bool:
        raise AssertionError(f"{condition}: nothing runs")

    def constant(self, value: Any) -> str:
        """The name that a value has in code."""
        name = self._names.get(id(value))
        if name is None:
            name = self._names[id(value)] = f"c{len(self.constants)}"
            self.constants[name] = value
        return name

    def code(self, value: Any, *, raw: bool = False) -> str:
        """A value as code. Symbols in it become the model's values, or with `raw` the contents of
        cells."""
        if isinstance(value, Symbol):
            return value.code if raw else value.value
        if value is None or type(value) in (int, bool):
            return repr(value)
        if id(value) in self._names or not is_symbolic(value):
            return self.constant(value)
        if isinstance(value, tuple):
            return f"({''.join(f'{self.code(part, raw=raw)}, ' for part in value)})"
        if isinstance(value, Map):
            return f"{self.constant(Map)}({self.code(value.values(), raw=raw)})"
        parts = (f"{f.name}={self.code(getattr(value, f.name), raw=raw)}" for f in fields(value))
        return f"{self.constant(type(value))}({', '.join(parts)})"


def symbols_in(value: Any) -> Iterator[Symbol]:
    """All symbols of a value."""
    if isinstance(value, Symbol):
        yield value
    elif isinstance(value, (tuple, Map)):
        for part in value if isinstance(value, tuple) else value.values():
            yield from symbols_in(part)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from symbols_in(getattr(value, field.name))


def is_symbolic(value: Any) -> bool:
    """Whether a value contains a symbol."""
    return next(symbols_in(value), None) is not None


_HINTS: dict[Any, Mapping[str, Any]] = {}


def hints_of(kind: Any) -> Mapping[str, Any]:
    """The types of a record's fields, or of a function's parameters."""
    if kind not in _HINTS:
        _HINTS[kind] = get_type_hints(kind)
    return _HINTS[kind]


def field_hint(hint: Any, name: str) -> Any:
    """The type of a record's field."""
    return hints_of(hint).get(name) if isinstance(hint, type) and is_dataclass(hint) else None


def element_hint(hint: Any) -> Any:
    """The type of a tuple's or a map's elements."""
    arguments = get_args(hint)
    if get_origin(hint) is tuple:
        return arguments[0]
    return arguments[1] if get_origin(hint) is Map else None
