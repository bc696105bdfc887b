"""Random mutants of impl: every small change of its protocol core, and a draw of them by seed.

A change replaces one node of a function's tree, or one number of a module's constants. Messages of
errors and annotations are not changed: they are not protocol.
"""

from __future__ import annotations

import ast
import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from conformance.campaigns.mutants.patched_impl import trees_of
from conformance.judging.coverage.statements import (
    IMPL,
    StatementPlace,
    acts,
    core,
    is_outside,
    qualified,
)
from proofs.systematic_mutants.changes import put
from proofs.systematic_mutants.operators import NEIGHBOURS, joined, literal, negated, number

COMPARISONS: Final[Mapping[type[ast.cmpop], Sequence[type[ast.cmpop]]]] = {
    **NEIGHBOURS,
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
"""The replacements of a comparison. Values may be other than numbers, so equality is not replaced
by order."""
NO_PROTOCOL: Final = (ast.Raise, ast.Assert, ast.JoinedStr)
"""Nodes below which nothing is changed."""


@dataclass(frozen=True, slots=True)
class RandomMutant:
    """One small change of a module. Its name is `module:function:kind:ordinal`, without `impl.`."""

    name: str
    place: StatementPlace
    function: str
    before: str
    after: str

    @property
    def module(self) -> str:
        """The module that it changes."""
        return self.place.module

    @property
    def is_loaded(self) -> bool:
        """Whether it runs only while its module is loaded: a constant, or a member of an
        enumeration."""
        return not self.function or self.function.endswith("__new__")

    @property
    def is_protocol(self) -> bool:
        """Whether `outside.toml` includes it. A `raise` is addressed to callers of impl, and a swap
        of equal arguments is no change."""
        is_change = self.before != self.after and not self.before.startswith("raise ")
        return is_change and not is_outside(self.module, self.function)


@dataclass(frozen=True, slots=True)
class TreeChange:
    """A place in a tree that was just parsed, and the node to put there."""

    kind: str
    parent: ast.AST
    before: ast.AST
    after: ast.AST
    line: int


# The replacements of a node


def comparison(node: ast.Compare) -> Iterator[ast.AST]:
    """A neighbouring operator."""
    for other in COMPARISONS.get(type(node.ops[0]), ()):
        yield ast.Compare(node.left, [other(), *node.ops[1:]], node.comparators)


def connective(node: ast.BoolOp) -> Iterator[ast.AST]:
    """`and` for `or`, and the expression without one part."""
    yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    for i in range(len(node.values)):
        yield joined(node.op, node.values[:i] + node.values[i + 1 :])


def condition(node: ast.If | ast.IfExp | ast.While) -> Iterator[ast.AST]:
    """A condition that is always true, always false, or negated."""
    tests = [ast.Constant(False), negated(node.test)]
    tests += [] if isinstance(node, ast.While) else [ast.Constant(True)]
    for test in tests:
        other = deepcopy(node)
        other.test = test
        yield other


def constant(node: ast.expr) -> Iterator[ast.AST]:
    """A number that is one larger or smaller; the other Boolean."""
    value = literal(node)
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif type(value) is int:
        yield from (number(value + 1), number(value - 1))


def arithmetic(node: ast.BinOp) -> Iterator[ast.AST]:
    """The difference for a sum and the reverse, or only the first operand."""
    if isinstance(node.op, (ast.Add, ast.Sub)):
        other = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        yield ast.BinOp(node.left, other, node.right)
        yield node.left


def argument(node: ast.Call) -> Iterator[ast.AST]:
    """Two neighbouring arguments, swapped."""
    for i, (one, other) in enumerate(itertools.pairwise(node.args)):
        if not any(isinstance(part, ast.Starred) for part in (one, other)):
            swapped = [*node.args[:i], other, one, *node.args[i + 2 :]]
            yield ast.Call(node.func, swapped, node.keywords)
    for i, (key, next_key) in enumerate(itertools.pairwise(node.keywords)):
        swap = [ast.keyword(key.arg, next_key.value), ast.keyword(next_key.arg, key.value)]
        yield ast.Call(node.func, node.args, [*node.keywords[:i], *swap, *node.keywords[i + 2 :]])


def removed(node: ast.stmt) -> Iterator[ast.AST]:
    """A statement left out."""
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, (ast.Call, ast.Await))
    targets = node.targets if isinstance(node, ast.Assign) else []
    stores = any(isinstance(target, (ast.Attribute, ast.Subscript)) for target in targets)
    if is_call or stores or isinstance(node, (ast.AugAssign, ast.Delete, ast.Raise)):
        yield ast.Pass()


OPERATORS: Final[Mapping[str, tuple[Any, Callable[[Any], Iterator[ast.AST]]]]] = {
    "comparison": (ast.Compare, comparison),
    "connective": (ast.BoolOp, connective),
    "condition": ((ast.If, ast.IfExp, ast.While), condition),
    "constant": (ast.expr, constant),
    "arithmetic": (ast.BinOp, arithmetic),
    "argument": (ast.Call, argument),
    "removal": (ast.stmt, removed),
}


# The places of changes


def changes_below(node: ast.AST, function: str, line: int) -> Iterator[tuple[str, TreeChange]]:
    """All changes below a node, each with its function."""
    for child in ast.iter_child_nodes(node):
        inner, at = qualified(function, child), line
        if isinstance(child, ast.stmt):
            at = child.lineno
        if is_changed(node, child, function):
            for kind, (wanted, operator) in OPERATORS.items():
                if isinstance(child, wanted):
                    yield from (
                        (inner, TreeChange(kind, node, child, after, at))
                        for after in operator(child)
                    )
        if may_enter(node, child):
            yield from changes_below(child, inner, at)


def is_changed(parent: ast.AST, node: ast.AST, function: str) -> bool:
    """Whether a node may be changed: nodes within functions may, and numbers of constants."""
    if isinstance(node, ast.stmt):
        return bool(function) and acts(node) and not isinstance(parent, (ast.Module, ast.ClassDef))
    negative = isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.USub)
    return not negative


def may_enter(parent: ast.AST, node: ast.AST) -> bool:
    """Whether nodes below a node may be changed; those of annotations, decorators and defaults may
    not."""
    if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return isinstance(node, ast.stmt)
    if isinstance(parent, (ast.AnnAssign, ast.arg)):
        return node is getattr(parent, "value", None)
    return not isinstance(node, NO_PROTOCOL)


def changes_of(module: str, tree: ast.Module) -> Iterator[tuple[str, str, TreeChange]]:
    """All changes of a module: the name of each, its function, and the change."""
    times: Counter[tuple[str, str]] = Counter()
    short = module.removeprefix("impl.")
    for function, change in changes_below(tree, "", 0):
        times[function, change.kind] += 1
        ordinal = times[function, change.kind]
        yield f"{short}:{function or 'constants'}:{change.kind}:{ordinal}", function, change


@functools.cache
def every_mutant() -> tuple[RandomMutant, ...]:
    """All mutants of the protocol core, in the order of the text."""
    trees = trees_of(IMPL)
    return tuple(
        RandomMutant(
            name,
            StatementPlace(module, change.line),
            function,
            ast.unparse(change.before),
            ast.unparse(change.after),
        )
        for module in core()
        for name, function, change in changes_of(module, trees[module])
    )


def drawn(count: int, seed: int) -> list[RandomMutant]:
    """This many mutants of the protocol, by seed; a larger draw begins with the same ones. The
    seed and a mutant's own name decide, so that a change elsewhere in impl does not affect the
    others."""
    by_digest = sorted(every_mutant(), key=lambda m: sha256(f"{seed} {m.name}".encode()).digest())
    return [mutant for mutant in by_digest if mutant.is_protocol][:count]


def planted(mutant: RandomMutant, name: str, tree: ast.Module) -> ast.Module:
    """The tree of a module with the mutant in it, if the mutant belongs to the module."""
    if name == mutant.module:
        changes = {found: change for found, _, change in changes_of(name, tree)}
        change = changes[mutant.name]
        put(change.parent, change.before, change.after)
    return tree
