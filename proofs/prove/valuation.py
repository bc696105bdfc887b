"""Formulas over unknowns, evaluated on worlds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from proofs.explore.source import SourceGraph
from proofs.lift.dag import Node, reachable
from proofs.prove.in_scope import ScopeCheck
from proofs.prove.smt import Formula

Row = tuple[int, ...]

_SYNTAX = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "mod": "{0} % {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "eq": "{0} == {1}",
    "not": "not {0}",
    "and": "{0} and {1}",
    "or": "{0} or {1}",
    "ite": "({1} if {0} else {2})",
}


def flat(name: str, value: Any) -> Iterator[tuple[str, int]]:
    """The scalars of a value, named as `Builder` names them."""
    if isinstance(value, tuple):
        yield f"len({name})", len(value)
        for i, inner in enumerate(value):
            yield from flat(f"{name}[{i}]", inner)
    elif hasattr(value, "items"):
        for i, inner in value.items():
            yield from flat(f"{name}[{i}]", inner)
    elif hasattr(value, "plus"):
        yield from ((f"{i} in {name}", 1) for i in range(value._bits.bit_length()) if i in value)
    elif hasattr(value, "__dataclass_fields__"):
        for field in value.__dataclass_fields__:
            yield from flat(f"{name}.{field}", getattr(value, field))
    elif isinstance(value, int):
        yield name, int(value)


class Valuation(Protocol):
    """A world as the unknowns and functions of the proofs."""

    values: dict[str, int]

    def apply(self, name: str, *arguments: int) -> int:
        """The value of a function."""

    def domain(self, variables: tuple[Node, ...]) -> Iterator[Row]:
        """The values of bound numbers that can matter."""


Check = Callable[[Valuation], bool]


def compiled(formula: Formula) -> Check:
    """A formula as a function of the facts of one world."""
    variables, body = formula
    bound = {v.name: f"v{i}" for i, v in enumerate(variables)}
    lines = ["def check(facts, values, apply, row):"]
    if variables:
        lines.append(f"    {', '.join(bound.values())}, = row")
    names: dict[int, str] = {}
    for node in reachable([body]):
        names[node.serial] = f"n{node.serial}"
        lines.append(f"    n{node.serial} = {expression(node, names, bound)}")
    lines.append(f"    return n{body.serial}")
    scope: dict[str, Any] = {}
    exec("\n".join(lines), scope)
    check = scope["check"]
    return lambda facts: all(
        check(facts, facts.values, facts.apply, row) for row in facts.domain(variables)
    )


def expression(node: Node, names: dict[int, str], bound: Mapping[str, str]) -> str:
    """One operation in Python."""
    arguments = [names[a.serial] for a in node.args]
    if node.op == "const":
        return repr(bool(node.value)) if node.is_bool else str(node.value)
    if node.op == "leaf":
        return bound.get(node.name) or f"values.get({node.name!r}, 0)"
    if node.op == "apply":
        return f"apply({', '.join([repr(node.name), *arguments])})"
    return _SYNTAX[node.op].format(*arguments)


def check_formulas(
    formulas: Mapping[str, Formula],
    names: tuple[str, str],
    found: SourceGraph,
    valuations: Iterable[Valuation],
) -> ScopeCheck:
    """Each formula in each valuation of a scope's worlds; `names` are the scope's and the
    variant's."""
    checks = {name: compiled(formula) for name, formula in formulas.items()}
    failed: dict[str, None] = {}
    for valuation in valuations:
        for name, check in checks.items():
            if name not in failed and not check(valuation):
                failed[name] = None
    firings = Counter(found.instances[instance][0] for _, instance, _ in found.edges)
    return ScopeCheck(*names, len(found.worlds), firings, tuple(failed))
