"""The intermediate form: a hash-consed graph of integer and Boolean operations.

Every form of the model except the source and the TLA+ text is printed from this graph, so the graph
is kept as small as its purpose allows:

1. A node is a bool or an int; enums are ints; there are no other types.
2. Equal nodes are the same object, so a graph is compared and counted by identity.
3. Each int node has an interval that contains its value whenever the leaves are in their declared
   ranges. Simplification may rely on the interval; the range obligations
   (`proofs.lift.obligations`) justify this.
4. Nodes are built by the functions below, which fold constants, or by the operators of a node,
   which call these functions. No other code calls `Node(...)`.

`True` and `1` are different nodes: the key of a node holds its kind.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

ARITHMETIC: Mapping[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "mod": operator.mod,
    "lt": operator.lt,
    "le": operator.le,
    "eq": operator.eq,
}
"""The operations on numbers as Python's operators, which arrays and solver terms have too."""

INFINITE = 1 << 62
BOUND = "?"
"""The prefix of the names of numbers that a quantifier binds; no other name has it."""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One operation.

    `op` is one of: `const` (value), `leaf` (a place in the state, named), `input` (a budget or
    another run-time value, named), `add`, `sub`, `mul`, `mod`, `lt`, `le`, `eq`, `not`, `and`,
    `or`, `ite`, `apply` (an uninterpreted function, named). `mod` is Python's, by a positive
    constant. `lo` and `hi` bound an int node's value.
    """

    op: str
    args: tuple[Node, ...]
    is_bool: bool
    value: int
    name: str
    lo: int
    hi: int
    serial: int

    def __repr__(self) -> str:
        if self.op == "const":
            return str(bool(self.value)) if self.is_bool else str(self.value)
        if self.op in ("leaf", "input"):
            return self.name
        return f"{self.op}({', '.join(map(repr, self.args))})"

    @property
    def is_const(self) -> bool:
        """Whether the value is known."""
        return self.op == "const"

    def __bool__(self) -> bool:
        raise TypeError("a node has no truth value; use &, | and ~, and no chained comparisons")

    def __and__(self, other: Operand) -> Node:
        return both(self, operand(other))

    def __or__(self, other: Operand) -> Node:
        return either(self, operand(other))

    def __invert__(self) -> Node:
        return negate(self)

    def __add__(self, other: Operand) -> Node:
        return add(self, operand(other))

    def __sub__(self, other: Operand) -> Node:
        return sub(self, operand(other))

    def __mod__(self, divisor: int) -> Node:
        return mod(self, divisor)

    def __lt__(self, other: Operand) -> Node:
        return lt(self, operand(other))

    def __le__(self, other: Operand) -> Node:
        return le(self, operand(other))

    def __gt__(self, other: Operand) -> Node:
        return lt(operand(other), self)

    def __ge__(self, other: Operand) -> Node:
        return le(operand(other), self)

    def eq(self, other: Operand) -> Node:
        """Return self == other, since Python's own operator is kept for identity."""
        return eq(self, operand(other))

    def implies(self, other: Operand) -> Node:
        """Return not self, or other."""
        return either(negate(self), operand(other))


Operand = Node | int
"""A node, or a known value."""


_INTERNED: dict[tuple[object, ...], Node] = {}


def _make(
    op: str,
    args: tuple[Node, ...],
    *,
    is_bool: bool,
    lo: int,
    hi: int,
    value: int = 0,
    name: str = "",
) -> Node:
    # Equal arguments are the same object. Except for leaves and inputs, bounds follow from them.
    bounds = (lo, hi) if op in ("leaf", "input") else None
    key = (op, args, is_bool, value, name, bounds)
    found = _INTERNED.get(key)
    if found is None:
        found = Node(op, args, is_bool, value, name, lo, hi, len(_INTERNED))
        _INTERNED[key] = found
    return found


@functools.lru_cache(maxsize=1 << 12, typed=True)
def const(value: int | bool) -> Node:
    """Return a known value; a Python bool makes a Boolean node."""
    number = int(value)
    return _make("const", (), is_bool=isinstance(value, bool), lo=number, hi=number, value=number)


def operand(value: Operand) -> Node:
    """Return the node of a value; a node is returned as it is."""
    return value if isinstance(value, Node) else const(value)


TRUE = const(True)
FALSE = const(False)
ZERO = const(0)


def leaf(name: str, lo: int, hi: int, *, is_bool: bool = False) -> Node:
    """Return a place of the state, with its declared range (both ends inclusive)."""
    return _make("leaf", (), is_bool=is_bool, lo=lo, hi=hi, name=name)


def uninterpreted(name: str, args: tuple[Node, ...], *, is_bool: bool = False) -> Node:
    """Return the value of an uninterpreted function; only the unbounded proofs use it (op
    `apply`)."""
    lo, hi = (0, 1) if is_bool else (-INFINITE, INFINITE)
    return _make("apply", args, is_bool=is_bool, lo=lo, hi=hi, name=name)


def run_time_input(name: str, lo: int = 0, hi: int = INFINITE) -> Node:
    """Return a value known only when the compiled form runs: a budget."""
    return _make("input", (), is_bool=False, lo=lo, hi=hi, name=name)


def add(a: Node, b: Node) -> Node:
    """a + b."""
    if a.is_const and b.is_const:
        return const(a.value + b.value)
    if a is ZERO:
        return b
    if b is ZERO:
        return a
    return _make("add", (a, b), is_bool=False, lo=a.lo + b.lo, hi=a.hi + b.hi)


def sub(a: Node, b: Node) -> Node:
    """a - b."""
    if a.is_const and b.is_const:
        return const(a.value - b.value)
    if b is ZERO:
        return a
    if a is b:
        return ZERO
    return _make("sub", (a, b), is_bool=False, lo=a.lo - b.hi, hi=a.hi - b.lo)


def mul(a: Node, b: Node) -> Node:
    """a * b."""
    if a.is_const and b.is_const:
        return const(a.value * b.value)
    corners = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return _make("mul", (a, b), is_bool=False, lo=min(corners), hi=max(corners))


def mod(a: Node, divisor: int) -> Node:
    """Return a % divisor as in Python: the result is in 0 .. divisor - 1. `divisor` is positive."""
    if a.is_const:
        return const(a.value % divisor)
    if a.lo >= 0 and a.hi < divisor:
        return a
    return _make("mod", (a, const(divisor)), is_bool=False, lo=0, hi=divisor - 1)


def lt(a: Node, b: Node) -> Node:
    """a < b."""
    if a.hi < b.lo:
        return TRUE
    if a.lo >= b.hi:
        return FALSE
    return _make("lt", (a, b), is_bool=True, lo=0, hi=1)


def le(a: Node, b: Node) -> Node:
    """a <= b."""
    if a.hi <= b.lo:
        return TRUE
    if a.lo > b.hi:
        return FALSE
    return _make("le", (a, b), is_bool=True, lo=0, hi=1)


def eq(a: Node, b: Node) -> Node:
    """a == b; both are bools or both are ints."""
    if a is b:
        return TRUE
    if a.is_const and b.is_const:
        return const(a.value == b.value)
    if a.is_bool:
        if a.is_const or b.is_const:
            known, other = (a, b) if a.is_const else (b, a)
            return other if known.value else negate(other)
    elif a.hi < b.lo or b.hi < a.lo:
        return FALSE
    if b.serial < a.serial:
        a, b = b, a
    return _make("eq", (a, b), is_bool=True, lo=0, hi=1)


def negate(a: Node) -> Node:
    """not a."""
    if a.is_const:
        return const(not a.value)
    if a.op == "not":
        return a.args[0]
    return _make("not", (a,), is_bool=True, lo=0, hi=1)


def both(a: Node, b: Node) -> Node:
    """a and b."""
    if a is FALSE or b is FALSE:
        return FALSE
    if a is TRUE or a is b:
        return b
    if b is TRUE:
        return a
    return _make("and", (a, b), is_bool=True, lo=0, hi=1)


def either(a: Node, b: Node) -> Node:
    """a or b."""
    if a is TRUE or b is TRUE:
        return TRUE
    if a is FALSE or a is b:
        return b
    if b is FALSE:
        return a
    return _make("or", (a, b), is_bool=True, lo=0, hi=1)


def conjunction(nodes: Iterable[Node]) -> Node:
    """Return the conjunction of the nodes."""
    result = TRUE
    for node in nodes:
        result = both(result, node)
    return result


def disjunction(nodes: Iterable[Node]) -> Node:
    """Return the disjunction of the nodes."""
    result = FALSE
    for node in nodes:
        result = either(result, node)
    return result


def ite(condition: Node, then: Operand, otherwise: Operand) -> Node:
    """then if condition else otherwise."""
    then, otherwise = operand(then), operand(otherwise)
    if condition.is_const:
        return then if condition.value else otherwise
    if then is otherwise:
        return then
    if then.is_bool:
        if then.is_const:
            if then.value:
                return either(condition, otherwise)
            return both(negate(condition), otherwise)
        if otherwise.is_const:
            if otherwise.value:
                return either(negate(condition), then)
            return both(condition, then)
    if condition.op == "not":
        return ite(condition.args[0], otherwise, then)
    lo, hi = min(then.lo, otherwise.lo), max(then.hi, otherwise.hi)
    return _make("ite", (condition, then, otherwise), is_bool=then.is_bool, lo=lo, hi=hi)


def reachable(roots: Iterable[Node], known: Container[int] = ()) -> Iterator[Node]:
    """Yield each node below the roots once, arguments before the nodes that use them. Nodes whose
    serial is in `known`, and all nodes below them, are left out."""
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(root, False) for root in reversed(list(roots))]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            yield node
        elif node.serial not in seen and node.serial not in known:
            seen.add(node.serial)
            if not node.args:
                yield node
                continue
            stack.append((node, True))
            stack += [(a, False) for a in reversed(node.args) if a.serial not in seen]
