"""Checks the meaning of names in the model's modules, before anything is lifted.

Code in `proofs` that reads a function resolves a name to the object that the function's module
binds it to, and takes an object to be what its text says. Both are right only if Python, which runs
the text, does the same. So each name must have one meaning: a word of the language is the
language's, a function is what its `def` says, undecorated, and a record or an enumeration compares
as its fields or numbers do.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import EnumMeta, IntEnum
from types import FunctionType
from typing import Any, Generic

from model import faults, language
from model.language import RECORDS, is_event
from proofs.lift.refusal import Refusal
from proofs.lift.source import Model
from proofs.lift.words import HOMES, READ, WORDS, word_of

DECORATORS = (language.event, language.receives, language.acts)
"""The decorators that return a function unchanged, and only record something about it."""
RECORD_DECORATORS = (language.record, faults.fault_table)
STATEMENTS = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
"""The statements of a module of the model, besides assignments of constants and docstrings."""


def hides_word(name: str) -> bool:
    """Whether a name of a function's own would hide a word of the language, or of Python."""
    return name in READ or hasattr(builtins, name)


@dataclass(frozen=True, slots=True)
class ModuleReader:
    """One module of a model: its text, and the objects that its names are bound to."""

    model: Model
    name: str
    tree: ast.Module

    @property
    def bound(self) -> dict[str, Any]:
        """The objects that the module's names are bound to, without the names that every module
        has."""
        names = vars(self.model.modules[self.name])
        return {n: found for n, found in names.items() if not n.startswith("__")}

    def refuse(self, node: ast.AST, problem: str, cure: str) -> Refusal:
        """Return a refusal of a place of the module."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1
        return Refusal(self.model.files[self.name], line, column, "", problem, cure)

    def place_of(self, name: str) -> ast.AST:
        """Return the last statement of the module that binds a name."""
        found = [s for s in self.tree.body if name in names_bound_by(s)]
        return found[-1] if found else self.tree

    def meaning(self, node: ast.expr) -> Any:
        """Return the object of a name, or of a name of another module; None for other
        expressions."""
        if isinstance(node, ast.Name):
            return self.bound.get(node.id, getattr(builtins, node.id, None))
        if isinstance(node, ast.Attribute):
            return getattr(self.meaning(node.value), node.attr, None)
        return None

    # Names

    def wrong_names(self) -> Iterator[Refusal]:
        """Yield names that hide a word, words under another name, and objects from elsewhere."""
        for name, found in self.bound.items():
            if not name.isidentifier():
                continue  # no text can use this name: pytest adds it when it rewrites assertions
            problem, cure = self.wrong_name(name, found)
            if problem:
                yield self.refuse(self.place_of(name), problem, cure)

    def wrong_name(self, name: str, found: Any) -> tuple[str, str]:
        """Return the problem with one name and its cure; "" for both if the name is right."""
        word = word_of(found)
        if name in WORDS and found is not WORDS[name]:
            return f"{name} hides the word of the language", "take another name"
        if word and name != word:
            return f"{word} is called {name} here", f"import {word} under its own name"
        if not word and hasattr(builtins, name):
            return f"{name} hides Python's own {name}", "take another name"
        if any(found is home for home in HOMES):
            return f"{name} is a module with words of the language", "import the words themselves"
        return "", ""

    # Statements

    def wrong_statements(self) -> Iterator[Refusal]:
        """Yield statements other than definitions, imports and constants."""
        for statement in self.tree.body:
            if isinstance(statement, STATEMENTS) or is_docstring(statement):
                continue
            if not isinstance(statement, ast.Assign | ast.AnnAssign):
                yield self.refuse(
                    statement, "a module of the model has no such statement", "define a function"
                )
            elif not all(isinstance(t, ast.Name | ast.Tuple) for t in targets_of(statement)):
                yield self.refuse(statement, "an assignment to a part", "assign to names")
        times = Counter(n for s in self.tree.body for n in set(names_bound_by(s)))
        for name in (name for name, count in times.items() if count > 1):
            yield self.refuse(self.place_of(name), f"{name} is bound twice", "take another name")

    # Functions

    def wrong_functions(self) -> Iterator[Refusal]:
        """Yield functions that are not what their `def` says."""
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef):
                yield from self.wrong_decorators(node)
                found = self.bound.get(node.name)
                if not isinstance(found, FunctionType) or self.model.tree_of(found) is not node:
                    yield self.refuse(
                        node, f"{node.name} is not the function that is defined here", "define it"
                    )

    def wrong_decorators(self, node: ast.FunctionDef) -> Iterator[Refusal]:
        """Yield decorators that may give a function another meaning."""
        for decorator in node.decorator_list:
            named = decorator.func if isinstance(decorator, ast.Call) else decorator
            if self.meaning(named) not in DECORATORS:
                text = ast.unparse(named)
                yield self.refuse(
                    decorator, f"{text} may change what {node.name} does", "call it in the body"
                )

    # Classes

    def wrong_classes(self) -> Iterator[Refusal]:
        """Yield records and enumerations that behave otherwise than their fields and numbers say.
        Objects of other classes are no values of the model."""
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef):
                found = self.bound.get(node.name)
                if isinstance(found, EnumMeta):
                    yield from self.wrong_enumeration(node)
                elif found in RECORDS:
                    yield from self.wrong_record(node)

    def wrong_enumeration(self, node: ast.ClassDef) -> Iterator[Refusal]:
        """Yield everything in an enumeration except named numbers."""
        if [self.meaning(base) for base in node.bases] != [IntEnum] or node.keywords:
            yield self.refuse(node, f"{node.name} is no plain IntEnum", "derive it from IntEnum")
        for decorator in node.decorator_list:
            yield self.refuse(decorator, f"{node.name} is decorated", "leave the decorator out")
        for part in node.body:
            names = names_bound_by(part)
            members = isinstance(part, ast.Assign) and not any(n.startswith("_") for n in names)
            if not members and not is_docstring(part):
                yield self.part_of_class(node, part, "members", "write a function of the member")

    def wrong_record(self, node: ast.ClassDef) -> Iterator[Refusal]:
        """Yield everything in a record except fields."""
        bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
        if any(self.meaning(base) is not Generic for base in bases) or node.keywords:
            yield self.refuse(node, f"{node.name} has a base class", "name each field here")
        decorators = [self.meaning(decorator) for decorator in node.decorator_list]
        if len(decorators) != 1 or decorators[0] not in RECORD_DECORATORS:
            yield self.refuse(node, f"{node.name} is more than a record", "declare it with @record")
        for part in node.body:
            is_field = isinstance(part, ast.AnnAssign) and not self.has_options(part)
            if not is_field and not is_docstring(part):
                yield self.part_of_class(node, part, "fields", "write a function of the record")

    def has_options(self, field: ast.AnnAssign) -> bool:
        """Whether a field's default is a set of options, `field(compare=False)`, instead of a
        value."""
        called = field.value.func if isinstance(field.value, ast.Call) else None
        return called is not None and self.meaning(called) not in RECORDS

    def part_of_class(self, node: ast.ClassDef, part: ast.stmt, has: str, cure: str) -> Refusal:
        """Return a refusal of a part of a class."""
        first = ast.unparse(part).splitlines()[0]
        return self.refuse(part, f"{node.name} has {has} only, not `{first}`", cure)


def names_bound_by(statement: ast.stmt) -> list[str]:
    """Return the names that a statement of a module or of a class binds."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).partition(".")[0] for alias in statement.names]
    return [n.id for t in targets_of(statement) for n in ast.walk(t) if isinstance(n, ast.Name)]


def targets_of(statement: ast.stmt) -> list[ast.expr]:
    """Return the targets of an assignment."""
    if isinstance(statement, ast.Assign):
        return statement.targets
    return [statement.target] if isinstance(statement, ast.AnnAssign) else []


def is_docstring(statement: ast.stmt) -> bool:
    """Whether a statement is a string by itself."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


Look = Callable[[ModuleReader], Iterator[Refusal]]
LOOKS: tuple[Look, ...] = (
    ModuleReader.wrong_names,
    ModuleReader.wrong_statements,
    ModuleReader.wrong_functions,
    ModuleReader.wrong_classes,
)


def refusals(model: Model) -> Iterator[Refusal]:
    """Yield names, statements, functions and classes of lifted modules with a second meaning;
    events, guarantees and witnesses whose names are taken; and witnesses that are not listed."""
    for name, tree in model.trees.items():
        if model.is_lifted(name):
            reader = ModuleReader(model, name, tree)
            for look in LOOKS:
                yield from look(reader)
    yield from events_of_one_name(model)
    yield from checks_of_one_name(model)
    yield from unlisted_witnesses(model)


def events_of_one_name(model: Model) -> Iterator[Refusal]:
    """Yield events that another event hides, because events are identified by name alone."""
    seen: set[str] = set()
    for (module, name), tree in model.functions.items():
        if not is_event(vars(model.modules[module]).get(name)):
            continue
        if name in seen:
            yield ModuleReader(model, module, model.trees[module]).refuse(
                tree, f"there is another event {name}", "take another name"
            )
        seen.add(name)


def checks_of_one_name(model: Model) -> Iterator[Refusal]:
    """Yield guarantees and witnesses that another one of the same name hides."""
    module = model.modules.get("guarantees")
    for kind in ("GUARANTEES", "WITNESSES"):
        times = Counter(p.name for p in getattr(module, kind, ()))
        for name in (name for name, count in times.items() if count > 1):
            yield refuse_table(model, kind, f"{kind} has {name} twice", "take another name")


def unlisted_witnesses(model: Model) -> Iterator[Refusal]:
    """Yield the guarantees whose witness is missing from WITNESSES, so that nothing looks for
    it."""
    module = model.modules.get("guarantees")
    listed = {None, *(w.check for w in getattr(module, "WITNESSES", ()))}
    for guarantee in getattr(module, "GUARANTEES", ()):
        if getattr(guarantee, "witness", None) not in listed:
            problem = f"the witness of {guarantee.name} is none of WITNESSES"
            yield refuse_table(model, "GUARANTEES", problem, "add it there")


def refuse_table(model: Model, name: str, problem: str, cure: str) -> Refusal:
    """Return a refusal of a table of the module of guarantees."""
    reader = ModuleReader(model, "guarantees", model.trees["guarantees"])
    return reader.refuse(reader.place_of(name), problem, cure)
