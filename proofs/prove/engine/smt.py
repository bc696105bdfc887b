"""Obligations as SMT-LIB 2 text, which both solvers read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import blake2b

from proofs.lift.dag import BOUND, INFINITE, TRUE, Node, const, reachable

Formula = tuple[tuple[Node, ...], Node]
"""Bound numbers, and the body that is true for all their values."""

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


@dataclass(frozen=True)
class ProofObligation:
    """One thing to prove. `name` is rule/clause; `question` asks whether the goal can fail. `names`
    names each assumption; "" marks what the step itself requires."""

    name: str
    assumed: tuple[Formula, ...]
    goal: Formula
    names: tuple[str, ...]

    @property
    def is_trivial(self) -> bool:
        """Whether the goal is the constant true."""
        return self.goal[1] is TRUE

    @property
    def text(self) -> str:
        """The question, with the obligation's name above it."""
        return f"; {self.name}\n{self.question}"

    @cached_property
    def question(self) -> str:
        """Can the goal fail while all assumptions hold? `unsat` proves the goal. The text is
        written when it is first asked for; equal questions have the same text whatever their names
        are."""
        goal = self.goal[1]
        bodies = [*(body for _, body in self.assumed), goal]
        lines = [f"(set-logic {logic(bodies)})", DISJOINT, *declarations(bodies)]
        lines += [f"(assert {quantified(formula)})" for formula in self.assumed]
        lines += [f"(assert (not {term(goal)}))", "(check-sat)"]
        return "\n".join(lines) + "\n"

    @cached_property
    def hypotheses(self) -> str:
        """Can all assumptions hold at once? Obligations with the same assumptions have the same
        text."""
        asserted = [f"(assert {quantified(formula)})" for formula in self.assumed]
        return "\n".join([*self._head, *asserted, "(check-sat)"]) + "\n"

    @property
    def named_hypotheses(self) -> str:
        """The hypotheses with a name each: with `unsat` comes a core that says which ones exclude
        the others."""
        asserted = [
            f"(assert (! {quantified(formula)} :named {symbol(f'{name}#{number}')}))"
            for number, (name, formula) in enumerate(zip(self.names, self.assumed, strict=True))
        ]
        return "\n".join([WITH_CORES, *self._head, *asserted, "(check-sat)"]) + "\n"

    @property
    def _head(self) -> list[str]:
        bodies = [body for _, body in self.assumed]
        return [f"(set-logic {logic(bodies)})", DISJOINT, *declarations(bodies)]


WITH_CORES = "(set-option :produce-unsat-cores true)"
DISJOINT = f"; Names that begin with {BOUND} are bound, all others are free: none is captured."


def symbol(name: str) -> str:
    """Return a name as SMT-LIB writes it."""
    return f"|{name}|"


def literal(node: Node) -> str:
    """Return a constant as SMT-LIB writes it."""
    if node.is_bool:
        return "true" if node.value else "false"
    return str(node.value) if node.value >= 0 else f"(- {-node.value})"


def application(node: Node, names: dict[int, str]) -> str:
    """Return one operation over the names of its arguments."""
    if node.op == "const":
        return literal(node)
    if node.op in ("leaf", "input"):
        return symbol(node.name)
    operator = symbol(node.name) if node.op == "apply" else _OPERATORS[node.op]
    return f"({operator} {' '.join(names[a.serial] for a in arguments(node))})"


_PRINTS: dict[int, bytes] = {}


def fingerprint(node: Node) -> bytes:
    """Return a fingerprint of a node that does not depend on nodes made earlier in this process."""
    for part in () if node.serial in _PRINTS else reachable([node], _PRINTS):
        below = [_PRINTS[a.serial] for a in part.args]
        if part.op == "eq":
            below.sort()
        text = f"{part.op} {part.is_bool} {part.value} {part.name}".encode()
        _PRINTS[part.serial] = blake2b(b"".join((text, *below)), digest_size=16).digest()
    return _PRINTS[node.serial]


def arguments(node: Node) -> tuple[Node, ...]:
    """Return the arguments in the order of the text, which is the same in every process."""
    return tuple(sorted(node.args, key=fingerprint)) if node.op == "eq" else node.args


@cache
def in_order(root: Node) -> tuple[Node, ...]:
    """Return all nodes below the root, each once and arguments first, in the same order in every
    process."""
    found: list[Node] = []
    seen: set[int] = set()
    stack = [(root, False)]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            found.append(node)
        elif node.serial not in seen:
            seen.add(node.serial)
            stack.append((node, True))
            stack.extend((a, False) for a in reversed(arguments(node)) if a.serial not in seen)
    return tuple(found)


def term(root: Node) -> str:
    """Return a node as a term; `let` names subterms that are used more than once. The text is the
    same in every process, so kept answers are found again and solvers behave the same."""
    nodes = in_order(root)
    uses = Counter(a.serial for node in nodes for a in node.args)
    names: dict[int, str] = {}
    lets: list[str] = []
    for node in nodes:
        text = application(node, names)
        if node.args and uses[node.serial] > 1:
            names[node.serial] = f"t.{len(lets)}"
            lets.append(f"(let ((t.{len(lets)} {text})) ")
        else:
            names[node.serial] = text
    return "".join(lets) + names[root.serial] + ")" * len(lets)


@cache
def quantified(formula: Formula) -> str:
    """Return a formula with its quantifier. It is cached, because most formulas occur in many
    obligations."""
    bound, body = formula
    if not bound:
        return term(body)
    variables = " ".join(f"({symbol(v.name)} Int)" for v in bound)
    return f"(forall ({variables}) {term(body)})"


def bounds(node: Node) -> str:
    """Return assertions of the least and the greatest value of an unknown number, if it has
    them."""
    name, ends = symbol(node.name), []
    if node.lo > -INFINITE:
        ends.append(f"(<= {literal(const(node.lo))} {name})")
    if node.hi < INFINITE:
        ends.append(f"(<= {name} {literal(const(node.hi))})")
    return "".join(f"\n(assert {end})" for end in ends)


@cache
def declared(root: Node) -> Mapping[str, str]:
    """Return the declarations of the unknowns and functions below a node, by name."""
    lines: dict[str, str] = {}
    for node in in_order(root):
        if node.op == "leaf":
            sort = "Bool" if node.is_bool else "Int"
            lines[node.name] = f"(declare-const {symbol(node.name)} {sort})"
            lines[node.name] += "" if node.is_bool else bounds(node)
        elif node.op == "input":
            lines[node.name] = f"(declare-const {symbol(node.name)} Int)"
        elif node.op == "apply":
            sorts = " ".join("Int" for _ in node.args)
            result = "Bool" if node.is_bool else "Int"
            lines[node.name] = f"(declare-fun {symbol(node.name)} ({sorts}) {result})"
    return lines


def declarations(roots: Sequence[Node]) -> list[str]:
    """Return the declarations of all unknowns and functions below the nodes."""
    lines: dict[str, str] = {}
    for root in roots:
        lines |= declared(root)
    return list(lines.values())


@cache
def is_linear(root: Node) -> bool:
    """Whether no two unknowns are multiplied."""
    products = (node for node in in_order(root) if node.op == "mul")
    return all(any(a.is_const for a in p.args) for p in products)


def logic(roots: Sequence[Node]) -> str:
    """Return the logic that the nodes need."""
    return "UFLIA" if all(map(is_linear, roots)) else "UFNIA"


@cache
def captured(formula: Formula) -> set[str]:
    """Return the names that may be captured: bound names that something else may have, and free
    names that something else may bind."""
    bound, body = formula
    names = {number.name for number in bound}
    asked = {name for name in declared(body) if name.startswith(BOUND)}
    return {name for name in names if not name.startswith(BOUND)} | asked - names


def obligation(
    name: str, assumed: Sequence[Formula], goal: Formula, names: Sequence[str] = ()
) -> ProofObligation:
    """Return an obligation: the goal, and the assumptions with their names if given. A name that
    one formula binds is free in no other."""
    for formula in (*assumed, goal):
        assert not captured(formula), f"{name}: {captured(formula)} may be captured"
    made = ProofObligation(name, tuple(assumed), goal, tuple(names) or ("",) * len(assumed))
    return _MADE.setdefault(made, made)


_MADE: dict[ProofObligation, ProofObligation] = {}
"""All obligations, so that theorems which share one write it once. Their terms are kept anyway."""
