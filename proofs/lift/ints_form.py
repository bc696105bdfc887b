"""Prints the machine as Python over one int, without a compiler or a dependency.

`print_ints` writes Python source: one function a rule, which appends (rule instance, successor) for
each of the rule's enabled instances, and one function a guarantee or witness. A state is the packed
int of `proofs.lift.layout`.

Nodes that several guards of a rule share are computed once, at the top. Nodes that only a successor
needs are computed after its guard holds, and after the decisions that most of it depends on. A node
used once is written in place. A node used more often gets a name, and so does a node that would
nest deeper than Python's tokenizer allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proofs.lift.dag import Node, reachable
from proofs.lift.layout import Layout, WrittenOutOfRange, always_fits
from proofs.lift.machine import Machine, RuleInstance
from proofs.lift.simplifications import Branch, Written, branched
from proofs.lift.specialise import rule_groups

MAX_NESTING = 40

_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "mod": "%",
    "lt": "<",
    "le": "<=",
    "eq": "==",
    "and": "and",
    "or": "or",
}

Successors = Callable[[int, list[tuple[int, int]]], None]
Test = Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class IntsForm:
    """The compiled functions. `rules` append to a list; tests return a truth value."""

    rules: tuple[Successors, ...]
    guarantees: Mapping[str, Test]
    witnesses: Mapping[str, Test]

    def successors(self, state: int) -> list[tuple[int, int]]:
        """Return (rule instance index, successor) for each enabled instance, smallest index first.

        Raises WrittenOutOfRange.
        """
        found: list[tuple[int, int]] = []
        for rule in self.rules:
            rule(state, found)
        found.sort()
        return found


class _Text:
    """The lines of one function, and the Python expression of each node met so far."""

    def __init__(self, layout: Layout, inputs: Mapping[str, int]) -> None:
        self.layout = layout
        self.inputs = inputs
        self.lines: list[str] = []
        self.known: dict[int, tuple[str, int]] = {}
        self.names = 0

    def define(self, roots: Iterable[Node], uses: Counter[int], indent: str) -> None:
        """Make an expression for each node below the roots that has none yet."""
        for node in reachable(roots):
            if node.serial in self.known:
                continue
            text, nesting = self._expression(node)
            computed = bool(node.args) or node.name in self.layout.places
            if computed and (uses[node.serial] > 1 or nesting > MAX_NESTING):
                text, nesting = self._named(text, indent), 0
            self.known[node.serial] = (text, nesting)

    def named(self) -> dict[int, tuple[str, int]]:
        """Return the names and constants, which cost nothing to use again."""
        return {serial: entry for serial, entry in self.known.items() if entry[1] == 0}

    def of(self, node: Node) -> str:
        """Return the expression of a node that was defined."""
        return self.known[node.serial][0]

    def _named(self, text: str, indent: str) -> str:
        name = f"n{self.names}"
        self.names += 1
        self.lines.append(f"{indent}{name} = {text}")
        return name

    def _expression(self, node: Node) -> tuple[str, int]:
        if node.op == "const":
            return f"({node.value})" if node.value < 0 else str(node.value), 0
        if node.op == "input":
            return str(self.inputs[node.name]), 0
        if node.op == "leaf":
            return self._leaf(node.name), 1
        args = [self.known[a.serial] for a in node.args]
        nesting = 1 + max(depth for _, depth in args)
        texts = [text for text, _ in args]
        if node.op == "not":
            return f"(not {texts[0]})", nesting
        if node.op == "ite":
            return f"({texts[1]} if {texts[0]} else {texts[2]})", nesting
        if node.op in ("and", "or"):
            pairs = list(zip(node.args, args, strict=True))
            texts = [self._flat(a, text, node.op) for a, (text, _) in pairs]
            nesting = max(depth + (a.op != node.op) for a, (_, depth) in pairs)
        return f"({texts[0]} {_INFIX[node.op]} {texts[1]})", nesting

    @staticmethod
    def _flat(node: Node, text: str, op: str) -> str:
        """Remove the brackets of `a and (b and c)`, because Python limits the depth of brackets."""
        return text[1:-1] if node.op == op and text.startswith("(") else text

    def _leaf(self, name: str) -> str:
        place = self.layout.places.get(name)
        if place is None:
            constant = self.layout.constants[name]
            return f"({constant})" if constant < 0 else str(constant)
        field = f"s >> {place.position} & {place.mask}" if place.position else f"s & {place.mask}"
        if place.lo > 0:
            return f"(({field}) + {place.lo})"
        if place.lo < 0:
            return f"(({field}) - {-place.lo})"
        return f"({field})"


def _uses(roots: Iterable[Node]) -> Counter[int]:
    """Count how often each node below the roots is an operand or a root."""
    wanted = list(roots)
    uses: Counter[int] = Counter(root.serial for root in wanted)
    for node in reachable(wanted):
        uses.update(a.serial for a in node.args)
    return uses


def _successor(text: _Text, updates: Mapping[str, Node]) -> str:
    """Return the expression of the successor: the written fields cleared, then set."""
    layout = text.layout
    kept = (1 << 64 * layout.words) - 1
    fields: list[str] = []
    for name, value in updates.items():
        place = layout.places.get(name)
        if place is None:
            continue
        kept &= ~(place.mask << place.position)
        stored = text.of(value)
        if place.lo:
            stored = f"({stored} - {place.lo})" if place.lo > 0 else f"({stored} + {-place.lo})"
        if stored != "0":
            fields.append(f"{stored} << {place.position}" if place.position else stored)
    return " | ".join([f"s & {kept:#x}", *fields]) if fields else f"s & {kept:#x}"


def _write(text: _Text, index: int, written: Written, indent: str) -> None:
    """Append lines that append a rule instance's successor; each branch computes only what it
    needs."""
    if isinstance(written, Branch):
        text.define([written.condition], _uses([written.condition]), indent)
        text.lines.append(f"{indent}if {text.of(written.condition)}:")
        for branch, otherwise in ((written.then, f"{indent}else:"), (written.otherwise, None)):
            known = text.known
            text.known = text.named()
            _write(text, index, branch, indent + "    ")
            text.known = known
            text.lines += [otherwise] if otherwise else []
        return
    text.define(written.values(), _uses(written.values()), indent)
    text.lines += [indent + line for line in _range_tests(text, index, written)]
    text.lines.append(f"{indent}out.append(({index}, {_successor(text, written)}))")


def _range_tests(text: _Text, index: int, updates: Mapping[str, Node]) -> list[str]:
    """Return lines that raise WrittenOutOfRange, for values whose interval does not rule this
    out."""
    leaves = {leaf.name: leaf for leaf in text.layout.leaves}
    tests: list[str] = []
    for name, value in updates.items():
        leaf = leaves[name]
        if not always_fits(leaf, value):
            fits = f"{leaf.lo} <= {text.of(value)} <= {leaf.hi}"
            tests.append(f"if not {fits}: broken({index})")
    return tests


def _raise_broken(rule: int) -> None:
    raise WrittenOutOfRange(rule)


def _rule_lines(name: str, instances: Sequence[tuple[int, RuleInstance]], text: _Text) -> list[str]:
    """Return one function for all instances of a rule."""
    guards = _uses(rule.guard for _, rule in instances)
    text.define([rule.guard for _, rule in instances], guards, "    ")
    conditions = [text.of(rule.guard) for _, rule in instances]
    shared = text.named()
    for condition, (index, rule) in zip(conditions, instances, strict=True):
        text.known = dict(shared)
        text.lines.append(f"    if {condition}:")
        _write(text, index, branched(rule.updates), "        ")
    return [f"def {name}(s, out):", *text.lines, ""]


def _test_lines(name: str, condition: Node, text: _Text) -> list[str]:
    text.define([condition], _uses([condition]), "    ")
    return [f"def {name}(s):", *text.lines, f"    return {text.of(condition)}", ""]


def print_ints(machine: Machine, layout: Layout) -> str:
    """Return the Python source of a specialised machine: rule_0 ..., guarantee_0 ..., witness_0
    ..."""
    lines: list[str] = []
    for number, instances in enumerate(rule_groups(machine).values()):
        lines += _rule_lines(f"rule_{number}", instances, _Text(layout, machine.inputs))
    for kind, tests in (("guarantee", machine.guarantees), ("witness", machine.witnesses)):
        for number, condition in enumerate(tests.values()):
            text = _Text(layout, machine.inputs)
            lines += _test_lines(f"{kind}_{number}", condition, text)
    return "\n".join(lines)


def ints_form(machine: Machine, layout: Layout) -> IntsForm:
    """Compile a specialised machine to Python functions."""
    space: dict[str, Any] = {"broken": _raise_broken}
    exec(compile(print_ints(machine, layout), f"<{machine.name} as ints>", "exec"), space)
    return IntsForm(
        tuple(space[f"rule_{n}"] for n in range(len(rule_groups(machine)))),
        {name: space[f"guarantee_{n}"] for n, name in enumerate(machine.guarantees)},
        {name: space[f"witness_{n}"] for n, name in enumerate(machine.witnesses)},
    )
