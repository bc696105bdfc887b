"""Mutation operators: the small changes that one place of the model's text allows.

Each takes a node with the types of its function, and yields replacements. An expression is replaced
by an expression, a statement by statements.
"""

from __future__ import annotations

import ast
import enum
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any, TypeVar

from proofs.systematic_mutants.static_types import (
    FunctionTypes,
    bare,
    fields_of,
    hints_of,
    is_container,
)

Operator = Callable[[Any, FunctionTypes], Iterator[ast.AST]]

NEIGHBOURS: Mapping[type[ast.cmpop], Sequence[type[ast.cmpop]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq, ast.LtE, ast.GtE),
    ast.NotEq: (ast.Eq, ast.Lt, ast.Gt),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
"""The replacements of a comparison; an order replaces it only if numbers are compared."""

OTHER_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


def comparison(node: ast.Compare, types: FunctionTypes) -> Iterator[ast.AST]:
    """Replace the operator of a comparison by a neighbour."""
    numbers = all(bare(types.of(side)) is int for side in (node.left, *node.comparators))
    ordered = isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE))
    for other in NEIGHBOURS.get(type(node.ops[0]), ()):
        if numbers or ordered or other in (ast.Eq, ast.NotEq, ast.In, ast.NotIn):
            yield ast.Compare(node.left, [other(), *node.ops[1:]], node.comparators)


def joined(operator: ast.boolop, parts: Sequence[ast.expr]) -> ast.expr:
    """Return `and` or `or` of some parts."""
    return parts[0] if len(parts) == 1 else ast.BoolOp(operator, list(parts))


def negated(node: ast.expr) -> ast.expr:
    """Return the negation of an expression."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    return ast.UnaryOp(ast.Not(), node)


def connective(node: ast.BoolOp, types: FunctionTypes) -> Iterator[ast.AST]:
    """Replace `or` by `and` or the reverse, leave a part out, or negate a part."""
    yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    for i, part in enumerate(node.values):
        before, after = node.values[:i], node.values[i + 1 :]
        yield joined(node.op, [*before, *after])
        if not isinstance(part, (ast.Compare, ast.BoolOp)):
            yield joined(node.op, [*before, negated(part), *after])


def negation(node: ast.UnaryOp, types: FunctionTypes) -> Iterator[ast.AST]:
    """Leave `not` out."""
    if isinstance(node.op, ast.Not):
        yield node.operand


def condition(node: ast.If | ast.IfExp, types: FunctionTypes) -> Iterator[ast.AST]:
    """Negate a condition that is not a comparison."""
    if isinstance(node.test, (ast.Compare, ast.UnaryOp)):
        return
    if isinstance(node, ast.If):
        yield ast.If(negated(node.test), node.body, node.orelse)
    else:
        yield ast.IfExp(negated(node.test), node.body, node.orelse)


def constant(node: ast.expr, types: FunctionTypes) -> Iterator[ast.AST]:
    """Replace a number by one more or less, or a Boolean by the other."""
    value = types.meaning(node) if isinstance(node, (ast.Name, ast.Attribute)) else literal(node)
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif type(value) is int:
        yield from (number(value + 1), number(value - 1))


def literal(node: ast.expr) -> Any:
    """Return the value of a literal, also of a negative one; None for another expression."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = literal(node.operand)
        return -value if type(value) is int else None
    return None


def number(value: int) -> ast.expr:
    """Return an integer as an expression."""
    return ast.Constant(value) if value >= 0 else ast.UnaryOp(ast.USub(), ast.Constant(-value))


def arithmetic(node: ast.BinOp, types: FunctionTypes) -> Iterator[ast.AST]:
    """Replace a sum or a difference by one that is off by one, by the other operation, or by its
    first part."""
    if isinstance(node.op, (ast.Add, ast.Sub)):
        other = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        if literal(node.right) is None:
            yield ast.BinOp(node, ast.Add(), ast.Constant(1))
            yield ast.BinOp(node, ast.Sub(), ast.Constant(1))
        yield ast.BinOp(node.left, other, node.right)
        yield node.left


def branch(node: ast.IfExp, types: FunctionTypes) -> Iterator[ast.AST]:
    """Replace a conditional expression by one of its sides."""
    yield node.body
    yield node.orelse


def update(node: ast.Call, types: FunctionTypes) -> Iterator[ast.AST]:
    """Forget an update: leave out a keyword of `replace`, or replace an updating call by its
    argument."""
    if isinstance(node.func, ast.Name) and node.func.id == "replace":
        if len(node.keywords) == 1:
            yield node.args[0]
        else:
            for i in range(len(node.keywords)):
                yield ast.Call(node.func, node.args, node.keywords[:i] + node.keywords[i + 1 :])
    elif isinstance(node.func, ast.Attribute) and node.func.attr in ("put", "plus", "union"):
        yield node.func.value
    elif isinstance(types.meaning(node.func), FunctionType):
        result = types.of(node)
        if is_container(result):
            yield from (part for part in node.args if types.of(part) == result)


def table(node: ast.Tuple, types: FunctionTypes) -> Iterator[ast.AST]:
    """Leave a row out, or swap two rows. A longer tuple of values has one for each key, so only
    swaps apply."""
    rows = node.elts
    is_total = len(rows) > 2 and not any(isinstance(row, ast.Starred) for row in rows)
    for i in range(0 if is_total else len(rows)):
        yield ast.Tuple(rows[:i] + rows[i + 1 :], ast.Load())
    for i, (one, other) in enumerate(itertools.pairwise(rows)):
        if ast.dump(one) != ast.dump(other):
            yield ast.Tuple([*rows[:i], other, one, *rows[i + 2 :]], ast.Load())


def index(node: ast.Subscript, types: FunctionTypes) -> Iterator[ast.AST]:
    """Take another element: the first, the last, or that of another index of the same type; or no
    slice."""
    if isinstance(node.slice, ast.Slice):
        yield node.value
        return
    others: list[ast.expr] = [number(0)]
    if literal(node.slice) is not None:
        others = [number(-1 if literal(node.slice) == 0 else 0)]
    elif isinstance(node.slice, ast.Name):
        others += [ast.Name(name, ast.Load()) for name in siblings(node.slice, types)]
    for other in others:
        yield ast.Subscript(node.value, other, node.ctx)


def siblings(node: ast.Name, types: FunctionTypes) -> Iterator[str]:
    """Yield other parameters of the same type."""
    hint = types.parameters.get(node.id)
    for name, other in types.parameters.items():
        if name != node.id and hint is not None and other == hint:
            yield name


def argument(node: ast.Call, types: FunctionTypes) -> Iterator[ast.AST]:
    """Swap two arguments of one type."""
    called = types.meaning(node.func)
    if not isinstance(called, (FunctionType, type)):
        return
    wanted = hints_of(called) if isinstance(called, FunctionType) else fields_of(called)
    given = dict(zip(wanted, node.args, strict=False))
    places = [(wanted[name], value) for name, value in given.items()]
    places += [(wanted.get(key.arg or ""), key.value) for key in node.keywords]
    if called.__name__ == "replace":
        fields = fields_of(types.of(node.args[0]))
        places = [(fields.get(key.arg or ""), key.value) for key in node.keywords]
    for (one, left), (other, right) in itertools.combinations(places, 2):
        is_known = one is not None and not isinstance(one, TypeVar)
        if is_known and bare(one) == bare(other) and ast.dump(left) != ast.dump(right):
            swap = {id(left): right, id(right): left}
            values = [swap.get(id(value), value) for value in node.args]
            keys = [ast.keyword(k.arg, swap.get(id(k.value), k.value)) for k in node.keywords]
            yield ast.Call(node.func, values, keys)


def field(node: ast.Attribute, types: FunctionTypes) -> Iterator[ast.AST]:
    """Take the next field of the same record that has the same type."""
    fields = fields_of(types.of(node.value))
    names = [name for name, hint in fields.items() if hint == fields.get(node.attr)]
    if node.attr in names and len(names) > 1:
        other = names[(names.index(node.attr) + 1) % len(names)]
        yield ast.Attribute(node.value, other, node.ctx)


def variable(node: ast.Name, types: FunctionTypes) -> Iterator[ast.AST]:
    """Take another parameter of the same type."""
    for name in siblings(node, types):
        yield ast.Name(name, ast.Load())


def member(node: ast.expr, types: FunctionTypes) -> Iterator[ast.AST]:
    """Take the members of an enumeration before and after this one."""
    value = types.meaning(node) if isinstance(node, ast.Name) else None
    owner: Any = type(value) if isinstance(value, enum.Enum) else None
    if isinstance(node, ast.Attribute):
        owner = types.meaning(node.value)
        value = getattr(owner, node.attr, None)
    if not (isinstance(owner, type) and issubclass(owner, enum.Enum)):
        return
    every: list[Any] = list(owner)
    for step in (1, -1) if len(every) > 2 else (1,):
        other = every[(every.index(value) + step) % len(every)]
        if isinstance(node, ast.Attribute):
            yield ast.Attribute(node.value, other.name, node.ctx)
        else:
            yield from (ast.Name(name, ast.Load()) for name in types.names_meaning(other))


def builtin(node: ast.Name, types: FunctionTypes) -> Iterator[ast.AST]:
    """Replace `max` by `min`, `all` by `any`, or the reverse."""
    if node.id in OTHER_NAMES:
        yield ast.Name(OTHER_NAMES[node.id], ast.Load())


def filtered(node: ast.GeneratorExp, types: FunctionTypes) -> Iterator[ast.AST]:
    """Leave out or negate a condition of a comprehension."""
    (generator,) = node.generators
    for i, test in enumerate(generator.ifs):
        rest = generator.ifs[:i] + generator.ifs[i + 1 :]
        for tests in (rest, [*rest, negated(test)]):
            kept = ast.comprehension(generator.target, generator.iter, tests, 0)
            yield ast.GeneratorExp(node.elt, [kept])


def require(node: ast.Call, types: FunctionTypes) -> Iterator[ast.AST]:
    """Let an event happen whatever it requires."""
    if isinstance(node.func, ast.Name) and node.func.id == "require":
        yield ast.Call(node.func, [ast.Constant(True)], [])


OPERATORS: Mapping[str, tuple[type[ast.AST], Operator]] = {
    "comparison": (ast.Compare, comparison),
    "connective": (ast.BoolOp, connective),
    "negation": (ast.UnaryOp, negation),
    "condition": (ast.If, condition),
    "condition_of_value": (ast.IfExp, condition),
    "constant": (ast.expr, constant),
    "arithmetic": (ast.BinOp, arithmetic),
    "branch": (ast.IfExp, branch),
    "update": (ast.Call, update),
    "table": (ast.Tuple, table),
    "index": (ast.Subscript, index),
    "argument": (ast.Call, argument),
    "field": (ast.Attribute, field),
    "variable": (ast.Name, variable),
    "member": (ast.expr, member),
    "builtin": (ast.Name, builtin),
    "filter": (ast.GeneratorExp, filtered),
    "require": (ast.Call, require),
}
"""The operators of one node, by the kind in a mutant's name, with the type of node to which each
applies."""


def changes_at(node: ast.AST, types: FunctionTypes) -> Iterator[tuple[str, ast.AST]]:
    """Yield replacements of an expression or a statement, with their kind."""
    for kind, (wanted, operator) in OPERATORS.items():
        if isinstance(node, wanted):
            yield from ((kind, other) for other in operator(node, types))


# Consecutive statements


def is_check(node: ast.stmt) -> bool:
    """Whether a statement is `if ...: return` without an else."""
    return isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], ast.Return)


def changes_in(block: Sequence[ast.stmt]) -> Iterator[tuple[str, list[ast.stmt], list[ast.stmt]]]:
    """Yield blocks with a check left out, or with two checks swapped: the kind, before, after."""
    for one, other in itertools.pairwise(block):
        if is_check(one):
            yield "check", [one, other], [other]
        if is_check(one) and is_check(other):
            yield "order", [one, other], [other, one]
