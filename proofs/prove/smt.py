"""Obligations as SMT-LIB 2 text: what both solvers read, and anyone may."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from proofs.lift.dag import INFINITE, Node, const, reachable

Formula = tuple[tuple[Node, ...], Node]

_OPERATORS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "mod": "mod",
    "lt": "<",
    "le": "<=",
    "eq": "=",
    "not": "not",
    "and": "and",
    "or": "or",
    "ite": "ite",
}


@dataclass(frozen=True, slots=True)
class Obligation:
    """One thing to prove. `name` is rule/clause; `text` asks whether it can fail."""

    name: str
    text: str


def symbol(name: str) -> str:
    """A name as SMT-LIB writes it."""
    return f"|{name}|"


def literal(node: Node) -> str:
    """A constant."""
    if node.is_bool:
        return "true" if node.value else "false"
    return str(node.value) if node.value >= 0 else f"(- {-node.value})"


def application(node: Node, names: dict[int, str]) -> str:
    """One operation over the names of its arguments."""
    if node.op == "const":
        return literal(node)
    if node.op in ("leaf", "input"):
        return symbol(node.name)
    operator = symbol(node.name) if node.op == "apply" else _OPERATORS[node.op]
    return f"({operator} {' '.join(names[a.serial] for a in node.args)})"


def term(root: Node) -> str:
    """A node as a term; what it uses more than once is named by `let`."""
    nodes = list(reachable([root]))
    uses = Counter(a.serial for node in nodes for a in node.args)
    names: dict[int, str] = {}
    lets: list[str] = []
    for node in nodes:
        text = application(node, names)
        if node.args and uses[node.serial] > 1:
            names[node.serial] = f"t{node.serial}"
            lets.append(f"(let ((t{node.serial} {text})) ")
        else:
            names[node.serial] = text
    return "".join(lets) + names[root.serial] + ")" * len(lets)


def quantified(formula: Formula) -> str:
    """A formula, true for all of its numbers."""
    bound, body = formula
    if not bound:
        return term(body)
    variables = " ".join(f"({symbol(v.name)} Int)" for v in bound)
    return f"(forall ({variables}) {term(body)})"


def bounds(node: Node) -> str:
    """What is known of an unknown number: where it has ends, it lies between them."""
    name, ends = symbol(node.name), []
    if node.lo > -INFINITE:
        ends.append(f"(<= {literal(const(node.lo))} {name})")
    if node.hi < INFINITE:
        ends.append(f"(<= {name} {literal(const(node.hi))})")
    return "".join(f"\n(assert {end})" for end in ends)


def declarations(nodes: Iterable[Node]) -> list[str]:
    """All unknowns and functions below the nodes."""
    lines: dict[str, str] = {}
    for node in reachable(list(nodes)):
        if node.op == "leaf":
            sort = "Bool" if node.is_bool else "Int"
            lines[node.name] = f"(declare-const {symbol(node.name)} {sort})"
            lines[node.name] += "" if node.is_bool else bounds(node)
        elif node.op == "apply":
            sorts = " ".join("Int" for _ in node.args)
            result = "Bool" if node.is_bool else "Int"
            lines[node.name] = f"(declare-fun {symbol(node.name)} ({sorts}) {result})"
    return list(lines.values())


def logic(nodes: Sequence[Node]) -> str:
    """The logic that the nodes need: linear, unless two unknowns are multiplied."""
    products = (node for node in reachable(nodes) if node.op == "mul")
    unknown = any(not (a.is_const or b.is_const) for a, b in (p.args for p in products))
    return "UFNIA" if unknown else "UFLIA"


def obligation(name: str, assumed: Sequence[Formula], goal: Formula) -> Obligation:
    """Can the goal fail where all that is assumed holds? `unsat` proves it."""
    bodies = [*(body for _, body in assumed), goal[1]]
    lines = [f"(set-logic {logic(bodies)})", f"; {name}", *declarations(bodies)]
    lines += [f"(assert {quantified(formula)})" for formula in assumed]
    lines += [f"(assert (not {term(goal[1])}))", "(check-sat)"]
    return Obligation(name, "\n".join(lines) + "\n")
