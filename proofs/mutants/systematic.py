"""Systematic mutants: small changes of the text that no one had to think of.

Comparisons flipped, conjuncts dropped, numbers off by one. A mutant that breaks no promise in any
scope is either equivalent to the text or a hole in the promises; the tests say which are which.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from proofs.lift.text import Model, Patch

FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}


def flipped(node: ast.expr) -> Iterator[ast.expr]:
    """A comparison with its neighbour in place of its operator."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in FLIPPED:
        operators = [FLIPPED[type(node.ops[0])](), *node.ops[1:]]
        yield ast.Compare(node.left, operators, node.comparators)


def dropped(node: ast.expr) -> Iterator[ast.expr]:
    """`and` and `or` with one part left out."""
    if isinstance(node, ast.BoolOp):
        for i in range(len(node.values)):
            rest = node.values[:i] + node.values[i + 1 :]
            yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def off_by_one(node: ast.expr) -> Iterator[ast.expr]:
    """A sum or a difference that is one too large."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield ast.BinOp(node, ast.Add(), ast.Constant(1))


CHANGES = (flipped, dropped, off_by_one)


def hints_of(function: ast.FunctionDef) -> set[int]:
    """The expressions that are types, by id: they are not changed."""
    types = [argument.annotation for argument in function.args.args] + [function.returns]
    return {id(part) for hint in types if hint is not None for part in ast.walk(hint)}


def mutants_of(model: Model, function: str) -> Iterator[Patch]:
    """All changes of one function, named `module.function`, in the order of its text.

    An expression that stands there more than once is left alone: it is no anchor for a patch.
    """
    module, _, name = function.rpartition(".")
    tree = model.functions[module, name]
    types = hints_of(tree)
    expressions = [
        node for node in ast.walk(tree) if isinstance(node, ast.expr) and id(node) not in types
    ]
    times = Counter(ast.unparse(node) for node in expressions)
    for node in expressions:
        if times[ast.unparse(node)] == 1:
            for change in CHANGES:
                for changed in change(node):
                    yield Patch(function, ast.unparse(node), ast.unparse(changed))
