"""Simplifies a graph where some conditions are known to hold.

After a guard, and in the branches of a decision, many of the conditions that merging produced are
already decided. `Facts` folds them away: a known condition becomes a constant wherever it occurs,
and a leaf that is compared with a constant gets a narrower interval, which folds more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from proofs.lift import dag
from proofs.lift.dag import Node

_BINARY: Mapping[str, Callable[[Node, Node], Node]] = {
    "add": dag.add,
    "sub": dag.sub,
    "mul": dag.mul,
    "lt": dag.lt,
    "le": dag.le,
    "eq": dag.eq,
    "and": dag.both,
    "or": dag.either,
}


def _rebuilt(node: Node, args: tuple[Node, ...]) -> Node:
    if node.op == "mod":
        return dag.mod(args[0], args[1].value)
    if node.op == "not":
        return dag.negate(args[0])
    if node.op == "ite":
        return dag.ite(*args)
    return _BINARY[node.op](*args)


class Facts:
    """Known values of conditions, and of leaves or their intervals. Facts accumulate; copy to
    branch."""

    def __init__(self, leaves: Mapping[str, Node] | None = None) -> None:
        self._conditions: dict[int, Node] = {}
        self._leaves: dict[str, Node] = dict(leaves or {})
        self._applied: dict[int, Node] = {}

    def copy(self) -> Facts:
        """Return the same facts, to which others may be added."""
        other = Facts(self._leaves)
        other._conditions = dict(self._conditions)
        return other

    def applied(self, roots: Iterable[Node]) -> list[Node]:
        """Return each root with the facts folded in. Nodes that roots share are folded once, also
        for roots of later calls, until another fact is learned."""
        wanted = list(roots)
        done = self._applied
        stack = wanted[::-1]
        while stack:
            node = stack[-1]
            if node.serial not in done:
                known = self._conditions.get(node.serial)
                if known is None:
                    waiting = [a for a in node.args if a.serial not in done]
                    if waiting:
                        stack += waiting[::-1]
                        continue
                    made = self._made(node, done)
                    known = self._conditions.get(made.serial, made)
                done[node.serial] = known
            stack.pop()
        return [done[root.serial] for root in wanted]

    def _made(self, node: Node, done: Mapping[int, Node]) -> Node:
        if node.op == "leaf":
            return self._leaves.get(node.name, node)
        args = tuple([done[a.serial] for a in node.args])
        return node if args == node.args else _rebuilt(node, args)

    def know(self, node: Node, value: int) -> None:
        """Record that the node has this value."""
        self._conditions[node.serial] = dag.const(value)
        self._applied = {}

    def learn(self, condition: Node, holds: bool) -> None:
        """Record that the condition is true, or false, from here on."""
        if condition.is_const:
            return
        self._conditions[condition.serial] = dag.const(holds)
        self._applied = {}
        op, args = condition.op, condition.args
        if op == "leaf":
            self._leaves[condition.name] = dag.const(holds)
        elif op == "not":
            self.learn(args[0], not holds)
        elif (op == "and" and holds) or (op == "or" and not holds):
            for arg in args:
                self.learn(arg, holds)
        elif op in ("lt", "le", "eq") and not args[0].is_bool:
            self._compare(op, args[0], args[1], holds)

    def _compare(self, op: str, a: Node, b: Node, holds: bool) -> None:
        """Narrow the interval of a leaf that is compared with a constant."""
        if op == "eq":
            if b.op == "leaf":
                a, b = b, a
            if holds and b.is_const:
                self._narrow(a, b.value, b.value)
            elif b.is_const:
                self._narrow(a, a.lo + (b.value == a.lo), a.hi - (b.value == a.hi))
            return
        if not holds:  # not a < b means b <= a, and not a <= b means b < a
            a, b, op = b, a, "le" if op == "lt" else "lt"
        strict = op == "lt"
        if b.is_const:
            self._narrow(a, a.lo, b.value - strict)
        elif a.is_const:
            self._narrow(b, a.value + strict, b.hi)

    def _narrow(self, node: Node, lo: int, hi: int) -> None:
        if node.op != "leaf":
            return
        known = self._leaves.get(node.name, node)
        lo, hi = max(lo, known.lo), min(hi, known.hi)
        if lo == hi:
            self._leaves[node.name] = dag.const(lo)
        elif lo < hi:
            self._leaves[node.name] = dag.leaf(node.name, lo, hi)


def conjuncts(guard: Node) -> list[Node]:
    """Return the operands of the guard's outermost conjunction, from left to right."""
    found: list[Node] = []
    stack = [guard]
    while stack:
        node = stack.pop()
        if node.op == "and":
            stack.extend(reversed(node.args))
        elif node is not dag.TRUE:
            found.append(node)
    return found


def under_guard(guard: Node, updates: Mapping[str, Node]) -> tuple[Node, dict[str, Node]]:
    """Fold each conjunct of a guard into the later conjuncts and the updates."""
    facts = Facts()
    kept: list[Node] = []
    for conjunct in conjuncts(guard):
        folded = facts.applied([conjunct])[0]
        kept.append(folded)
        facts.learn(conjunct, True)
        facts.learn(folded, True)
    values = facts.applied(updates.values())
    return dag.conjunction(kept), dict(zip(updates, values, strict=True))


@dataclass(frozen=True, slots=True)
class Branch:
    """A decision: which updates a rule makes depends first of all on a condition."""

    condition: Node
    then: Written
    otherwise: Written


Written = Branch | Mapping[str, Node]
"""The updates of a rule, by leaf name, behind the decisions that most of them depend on."""

CANDIDATES = 3
MAX_DEPTH = 4
WORTH = 0.7
"""A decision comes first if it leaves, on average, at most this part of the work to do after it."""


def branched(updates: Mapping[str, Node], depth: int = MAX_DEPTH) -> Written:
    """Return the same updates behind decisions, so that a step computes only what it writes.

    A leaf that keeps its value in a branch is not written there.
    """
    counts = Counter(value.args[0] for value in updates.values() if value.op == "ite")
    splits = [
        (_work(then) + _work(otherwise), condition, then, otherwise)
        for condition, _ in counts.most_common(CANDIDATES if depth else 0)
        for then, otherwise in [(_behind(updates, condition, h) for h in (True, False))]
    ]
    best = min(splits, key=lambda split: split[0], default=None)
    if best is None or best[0] > 2 * WORTH * _work(updates):
        return updates
    _, condition, then, otherwise = best
    return Branch(condition, branched(then, depth - 1), branched(otherwise, depth - 1))


def _behind(updates: Mapping[str, Node], condition: Node, holds: bool) -> dict[str, Node]:
    facts = Facts()
    facts.learn(condition, holds)
    values = facts.applied(updates.values())
    return {
        name: value
        for name, value in zip(updates, values, strict=True)
        if not (value.op == "leaf" and value.name == name)
    }


def _work(updates: Mapping[str, Node]) -> int:
    """Return how much must be computed and written."""
    return len(updates) + sum(1 for _ in dag.reachable(updates.values()))
