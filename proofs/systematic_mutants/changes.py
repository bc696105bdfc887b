"""Systematic mutants: every small change of the rules' text, named and planted as a patch.

All functions that a rule of the world calls, directly or not, are changed. Conditions of a scope's
limits are left alone, because another limit is another scope and not another protocol. Annotations,
decorators and docstrings are left alone too.
"""

from __future__ import annotations

import ast
import difflib
import fnmatch
import functools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, cast

from proofs.lift.call_graph import name_of, reached
from proofs.lift.patch import BLOCKS, Patch
from proofs.lift.source import COMPOSITIONS, Model, load_model, model_folder
from proofs.systematic_mutants.operators import changes_at, changes_in
from proofs.systematic_mutants.static_types import FunctionTypes

LIMITS = ("within_scope",)
"""The words whose arguments belong to the scope."""


class UnknownSystematicMutant(ValueError):
    """No systematic mutant has such a name; the message says how they are named."""


@dataclass(frozen=True, slots=True)
class SystematicMutant:
    """One small change, named `composition.module:function:kind:ordinal`."""

    name: str
    group: str
    patch: Patch

    @property
    def function(self) -> str:
        """The function that it changes, `composition.module:function`."""
        return self.name.rsplit(":", 2)[0]

    @property
    def kind(self) -> str:
        """The mutation operator."""
        return self.name.rsplit(":", 2)[1]


# Places in a function


@dataclass(frozen=True, slots=True)
class NodePlace:
    """A node, and its ancestors up to the function, the nearest first."""

    node: ast.AST
    ancestors: tuple[ast.AST, ...]


def places_in(node: ast.AST, ancestors: tuple[ast.AST, ...] = ()) -> Iterator[NodePlace]:
    """Yield all nodes below a node that may be changed, in the order of the text."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in LIMITS:
        return
    if isinstance(getattr(node, "ctx", None), ast.Store):
        return
    yield NodePlace(node, ancestors)
    for child in children(node):
        yield from places_in(child, (node, *ancestors))


def children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node that affect what happens."""
    if isinstance(node, ast.FunctionDef):
        yield from (s for s in node.body if not is_docstring(s))
    elif not (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)):
        yield from ast.iter_child_nodes(node)


def is_docstring(node: ast.stmt) -> bool:
    """Whether a statement is a string by itself."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def blocks_of(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of statements that a node has."""
    for name in BLOCKS:
        block = getattr(node, name, None)
        if isinstance(block, list) and block:
            yield block


# Anchors


class Anchors:
    """Finds, for a node of a function, the smallest text around it that occurs once in the
    function."""

    def __init__(self, tree: ast.FunctionDef) -> None:
        self._times: Counter[str] = Counter()
        for node in ast.walk(tree):
            if isinstance(node, (ast.expr, ast.stmt)):
                self._times[ast.dump(node)] += 1

    def is_anchor(self, node: ast.AST) -> bool:
        """Whether a patch that names this node's text finds it once; a slice cannot be a text by
        itself."""
        if not isinstance(node, ast.expr | ast.stmt) or isinstance(
            node, ast.FunctionDef | ast.Slice
        ):
            return False
        return self._times[ast.dump(node)] == 1

    def texts(self, place: NodePlace, after: ast.AST) -> tuple[str, str] | None:
        """Return the text around a place before and after the change; None if no such text is
        unique."""
        around: tuple[ast.AST, ...] = (place.node, *place.ancestors)
        anchor = next((node for node in around if self.is_anchor(node)), None)
        if anchor is None:
            return None
        before = ast.unparse(anchor)
        if anchor is place.node:
            return before, ast.unparse(after)
        parent = place.ancestors[0]
        put(parent, place.node, after)
        changed = ast.unparse(anchor)
        put(parent, after, place.node)
        return before, changed


def put(parent: ast.AST, old: ast.AST, new: ast.AST) -> None:
    """Replace one child of a node by another."""
    for name, value in ast.iter_fields(parent):
        if value is old:
            setattr(parent, name, new)
        elif isinstance(value, list):
            value[:] = [new if part is old else part for part in value]


# The mutants


def changes_of(model: Model, function: str) -> Iterator[tuple[str, Patch]]:
    """Yield all changes of a function `module.name`, each with its kind, in the order of its
    text."""
    module, _, name = function.rpartition(".")
    tree = model.functions[module, name]
    types = FunctionTypes(cast(FunctionType, vars(model.modules[module])[name]), tree)
    anchors = Anchors(tree)
    for place in list(places_in(tree)):
        if isinstance(place.node, (ast.expr, ast.stmt)):
            for kind, after in list(changes_at(place.node, types)):
                texts = anchors.texts(place, after)
                if texts is not None and texts[0] != texts[1]:
                    yield kind, Patch(function, *texts)
        for block in blocks_of(place.node):
            for kind, before, changed in changes_in(block):
                yield kind, Patch(function, written(before), written(changed))


def written(statements: Sequence[ast.stmt]) -> str:
    """Return statements as text."""
    return "\n".join(map(ast.unparse, statements))


def functions_that_act(model: Model) -> list[str]:
    """Return the functions that rules of the world call, outside of limits, in the order of the
    text."""
    rules = [cast(FunctionType, rule) for rule in model.rules.values()]
    acting = {name_of(function) for function in reached(model, rules, LIMITS)}
    named = [f"{module}.{name}" for module, name in model.functions if module != "language"]
    return [name for name in named if name in acting]


def mutants_of(group: str) -> Iterator[SystematicMutant]:
    """Yield all mutants of one composition. If two operators make the same text, the first one
    counts."""
    model = load_model(group)
    for function in functions_that_act(model):
        module, _, name = function.rpartition(".")
        times: Counter[str] = Counter()
        known: set[Patch] = set()
        for kind, patch in changes_of(model, function):
            if patch not in known:
                known.add(patch)
                times[kind] += 1
                named = f"{group}.{module}:{name}:{kind}:{times[kind]}"
                yield SystematicMutant(named, group, patch)


@functools.cache
def every_mutant() -> tuple[SystematicMutant, ...]:
    """Return all mutants of all compositions, in the order of the text."""
    return tuple(mutant for group in COMPOSITIONS for mutant in mutants_of(group))


def selected(
    only: str | None = None, count: int | None = None, seed: int = 0
) -> list[SystematicMutant]:
    """Return the mutants whose name fits a pattern (`*` and `?`, or a beginning of the name);
    `count` of them, drawn by the seed.

    Raises UnknownSystematicMutant.
    """
    fitting = [m for m in every_mutant() if only is None or is_named(m.name, only)]
    if not fitting:
        example = every_mutant()[0].name
        raise UnknownSystematicMutant(f"no mutant fits {only!r}; they are named like {example}")
    if count is None or count >= len(fitting):
        return fitting
    drawn = random.Random(seed).sample(range(len(fitting)), count)
    return [fitting[number] for number in sorted(drawn)]


def is_named(name: str, pattern: str) -> bool:
    """Whether the pattern fits the name, or is a beginning of it."""
    return fnmatch.fnmatchcase(name, pattern) or name.startswith((f"{pattern}:", f"{pattern}."))


# As a diff


def diff(mutant: SystematicMutant) -> str:
    """Return the mutant as a unified diff of the model's file."""
    module = mutant.patch.function.partition(".")[0]
    path = model_folder() / mutant.group / f"{module}.py"
    text = path.read_text(encoding="utf-8")
    changed = changed_text(text, mutant.patch)
    name = f"model/{mutant.group}/{module}.py"
    lines = difflib.unified_diff(
        text.splitlines(), changed.splitlines(), f"a/{name}", f"b/{name}", lineterm=""
    )
    return "\n".join(lines)


def changed_text(text: str, patch: Patch) -> str:
    """Return the text of a module with one function changed and all other text unchanged."""
    tree = ast.parse(text)
    name = patch.function.rpartition(".")[2]
    function = next(
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name
    )
    first, last = extent(function, patch.before)
    lines = text.splitlines(keepends=True)
    begin = offset(lines, first.lineno, first.col_offset)
    end = offset(lines, last.end_lineno, last.end_col_offset)
    indented = patch.after.replace("\n", "\n" + " " * first.col_offset)
    is_part = isinstance(first, (ast.BoolOp, ast.BinOp, ast.Compare, ast.UnaryOp, ast.IfExp))
    return text[:begin] + (f"({indented})" if is_part else indented) + text[end:]


def extent(function: ast.FunctionDef, before: str) -> tuple[Any, Any]:
    """Return the first and the last node of a function that have this text."""
    wanted = [ast.dump(node) for node in ast.parse(before).body]
    for node in ast.walk(function):
        if isinstance(node, ast.expr) and wanted == [ast.dump(ast.Expr(node))]:
            return node, node
        for block in blocks_of(node):
            for i in range(len(block) - len(wanted) + 1):
                if [ast.dump(s) for s in block[i : i + len(wanted)]] == wanted:
                    return block[i], block[i + len(wanted) - 1]
    raise AssertionError("a mutant's anchor is in its function")


def offset(lines: Sequence[str], line: int, column: int) -> int:
    """Return a place of a text as a number of characters; the model's text is ASCII."""
    return sum(map(len, lines[: line - 1])) + column
