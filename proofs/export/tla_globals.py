"""The declarations of an exported module besides its operators: helpers, configuration, enums,
constants.

Only what some text uses is declared. The configurations are found by walking the configuration's
own data classes; this module knows no name of the model.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import IntEnum
from types import FunctionType, ModuleType
from typing import Any

from proofs.export.tla_text import Level, Names, Term, applied, comment, delimited, hang
from proofs.lift.source import Model


class Globals:
    """The names of one module, with the objects behind those that are used."""

    def __init__(self, model: Model, k: Any) -> None:
        self.model = model
        self.names = Names()
        self._configurations = {key_of(type(part)): part for part in parts_of(k)}
        self.helpers: set[str] = set()
        self._operators: dict[str, str] = {}
        self._configuration_values: dict[str, tuple[str, Term]] = {}
        self._enums: dict[str, tuple[type[IntEnum], dict[str, str]]] = {}
        self._constants: dict[str, dict[str, tuple[str, Term]]] = {}
        self._ranges: dict[str, tuple[str, str]] = {}

    # Declaring

    def operator(self, function: FunctionType) -> str:
        """Return the name of a function's operator."""
        key, name = key_of(function), function.__name__
        if key not in self._operators:
            self._operators[key] = self.names.claim(name, f"{module_of(function)}_{name}")
        return self._operators[key]

    def helper(self, name: str, arguments: Sequence[str], hint: Any = None) -> Term:
        """Return the application of a helper."""
        self.helpers.add(name)
        return applied(name, arguments, hint)

    def configuration_of(self, hint: Any) -> Any:
        """Return the part of the configuration that has this type; None if there is none."""
        cls = typing.get_origin(hint) or hint
        return self._configurations.get(key_of(cls)) if isinstance(cls, type) else None

    def configuration_value(self, owner: Any, attribute: str) -> Term:
        """Return a number of the configuration: `layout_records`. Raises ValueError if it is not a
        value."""
        value = getattr(owner, attribute)
        wish = f"{type(owner).__name__.lower()}_{attribute}"
        if wish not in self._configuration_values:
            term = self.value(value)
            self._configuration_values[wish] = (self.names.claim(wish), term)
        return Term(self._configuration_values[wish][0], hint=type(value))

    def member(self, member: IntEnum) -> Term:
        """Return a member of an enum."""
        cls = type(member)
        if key_of(cls) not in self._enums:
            names = {m.name: self.names.claim(f"{cls.__name__}_{m.name}") for m in cls}
            self._enums[key_of(cls)] = (cls, names)
        return Term(self._enums[key_of(cls)][1][member.name], hint=cls)

    def constant(self, name: str, value: Any) -> Term:
        """Return a constant of some module of the model. Raises ValueError if it is no value of a
        module."""
        homes = (
            m for m in self.model.modules if vars(self.model.modules[m]).get(name, self) is value
        )
        home = next(homes, "")
        if not home:
            raise ValueError(f"{name} is no constant of the model")
        constants = self._constants.setdefault(home, {})
        if name not in constants:
            term = self.value(value)
            constants[name] = (self.names.claim(name, f"{home}_{name}"), term)
        printed, term = constants[name]
        return Term(printed, hint=term.hint)

    def named_range(self, name: str, text: str) -> str:
        """Return a set that choices are made from, under the name that the model gives it."""
        if name not in self._ranges:
            self._ranges[name] = (self.names.claim(name), text)
        printed, known = self._ranges[name]
        return printed if known == text else text

    # Values

    def value(self, value: Any) -> Term:
        """Return a value of the running model as a term. Raises ValueError if it is none."""
        if isinstance(value, IntEnum):
            return self.member(value)
        if isinstance(value, bool):
            return Term("TRUE" if value else "FALSE", hint=bool)
        if isinstance(value, int):
            return Term(str(value), Level.ATOM if value >= 0 else Level.SUM, int)
        if isinstance(value, tuple):
            return Term(delimited("<<", [self.value(v).text for v in value], ">>"), hint=tuple)
        kind = type(value).__name__
        if kind == "Map":
            return self._map(value.values())
        if kind == "Set":
            members = [str(i) for i in range(value._bits.bit_length()) if i in value]
            return Term(delimited("{", members, "}"), hint=type(value))
        if is_dataclass(value):
            items = [
                hang(f"{f.name} |-> ", self.value(getattr(value, f.name)).text)
                for f in fields(value)
            ]
            return Term(delimited("[", items, "]"), hint=type(value))
        raise ValueError(f"{value!r} is no value of the model's language")

    def _map(self, values: tuple[Any, ...]) -> Term:
        terms = [self.value(v) for v in values]
        if len(set(values)) == 1:
            return self.helper("Filled", [str(len(values)), terms[0].text])
        return self.helper("MapOf", [delimited("<<", [t.text for t in terms], ">>")])

    # Printing

    def declarations(self) -> Iterator[str]:
        """Yield the configuration, the enums and the named sets, each as a line or a few."""
        for cls, members in self._enums.values():
            note = comment(f"{cls.__name__}: {(cls.__doc__ or '').strip()}")
            yield "\n".join((note, *(f"{members[m.name]} == {m.value}" for m in cls)))
        if self._configuration_values:
            values = sorted(self._configuration_values.values(), key=lambda row: row[0])
            yield "\n".join(f"{name} == {term.text}" for name, term in values)
        if self._ranges:
            yield "\n".join(f"{name} == {text}" for name, text in self._ranges.values())

    def constants(self, module: str) -> str:
        """Return the constants of one module of the model."""
        rows = self._constants.get(module, {}).values()
        return "\n".join(hang(f"{name} == ", term.text) for name, term in rows)


def key_of(thing: Any) -> str:
    """Return module and name of a function or class; a patched model's have the same key."""
    return f"{module_of(thing)}.{thing.__qualname__}"


def module_of(function: Any) -> str:
    """Return the short name of the module that a function or class belongs to."""
    return str(function.__module__).rpartition(".")[2]


def parts_of(configuration: Any) -> Iterator[Any]:
    """Yield a configuration and all the data classes within it."""
    yield configuration
    for field in fields(configuration):
        value = getattr(configuration, field.name)
        if is_dataclass(value):
            yield from parts_of(value)


@dataclass(frozen=True, slots=True)
class NameScope:
    """The meaning of names in some text: those bound there, else those of its module."""

    function: FunctionType
    bound: dict[str, Any]
    taken: frozenset[str]

    def meaning(self, name: str) -> Any:
        """Return a bound term or configuration, else an object of the module or of Python; None if
        unknown."""
        if name in self.bound:
            return self.bound[name]
        module = self.function.__globals__
        if name in module:
            return module[name]
        builtins = module["__builtins__"]
        known = vars(builtins) if isinstance(builtins, ModuleType) else builtins
        return known.get(name)

    def bind(self, names: Names, wish: str, hint: Any) -> tuple[NameScope, str]:
        """Return the scope with one more bound name, and the name's spelling."""
        name = names.local(wish, self.taken)
        bound = {**self.bound, wish: Term(name, hint=hint)}
        return NameScope(self.function, bound, self.taken | {name}), name

    def alias(self, wish: str, value: Any) -> NameScope:
        """Return the scope with one more name that stands for a part of the configuration."""
        return NameScope(self.function, {**self.bound, wish: value}, self.taken)
