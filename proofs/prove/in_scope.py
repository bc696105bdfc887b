"""The clauses of the proofs, checked on every state of a bounded scope.

This is what keeps the proofs honest: their hypotheses hold in states that really occur (so they
are not contradictory, and each rule fires in one of them), and the contract of the replay holds
in each state that a failover leaves behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from proofs.explore.source import source_graph
from proofs.lift.dag import Node, reachable
from proofs.lift.text import Model
from proofs.prove.clauses import HELPERS, PROMISED, Clause, Formula
from proofs.prove.state import Builder

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


@dataclass(frozen=True, slots=True)
class ScopeCheck:
    """What was seen: states, how often each rule fired, and clauses that failed somewhere."""

    scope: str
    variant: str
    states: int
    firings: Mapping[str, int]
    failed: tuple[str, ...]


class Facts:
    """One world, as the unknowns and functions of the proofs."""

    def __init__(self, k: Any, world: Any) -> None:
        self.k = k
        self.client = world.clients[0]
        self.entry = self.client.partitions[0]
        self.leader = world.leaders[0]
        self.log = self.leader.log
        self.known = self.leader.producers[0]
        self.link = world.links[0][0]
        self.values: dict[str, int] = {
            "p": 0,
            "max_sequence": k.layout.max_sequence,
            "log_length": len(self.log),
            "high_watermark": self.leader.high_watermark,
        }
        self.flatten("client", self.client)
        self.flatten("known", self.known)
        for i, remembered in enumerate(self.known.batches):
            self.values[f"position[{i}]"] = self.position_of(remembered)
        self.sent = frozenset(self.requests())
        self.answers = frozenset(self.successes())

    def flatten(self, name: str, value: Any) -> None:
        """The scalars of a value, named as `Builder` names them."""
        if isinstance(value, tuple):
            self.values[f"len({name})"] = len(value)
            for i, inner in enumerate(value):
                self.flatten(f"{name}[{i}]", inner)
        elif hasattr(value, "items"):
            for i, inner in value.items():
                self.flatten(f"{name}[{i}]", inner)
        elif hasattr(value, "__dataclass_fields__"):
            for field in value.__dataclass_fields__:
                self.flatten(f"{name}.{field}", getattr(value, field))
        elif isinstance(value, int):
            self.values[name] = int(value)

    def position_of(self, remembered: Any) -> int:
        """Where a remembered batch stands; -1 if nowhere."""
        for i, stored in enumerate(self.log):
            if stored.base_offset + stored.batch.record_count - 1 == remembered.last_offset:
                return i
        return -1

    def requests(self) -> Iterator[Row]:
        """What was sent, as far as this world shows it."""
        travelling = [*self.link.requests]
        for connection in self.link.broken:
            travelling += connection.requests
        batches = [request.batch for request in travelling]
        batches += [stored.batch for stored in self.log if stored.batch.producer_id == 0]
        for b in batches:
            yield b.producer_epoch, b.base_sequence, b.record_count, b.first_record

    def successes(self) -> Iterator[Row]:
        """Successes on their way, with the position they speak of."""
        for a in self.link.answers:
            if a.error == 0:
                position = next(
                    (i for i, s in enumerate(self.log) if s.base_offset == a.base_offset), -1
                )
                yield a.first_record, a.base_offset, a.required_offset, position

    def stored(self, position: int, field: str) -> int:
        """A field of what stands at a position; -7 outside the log."""
        if not 0 <= position < len(self.log):
            return -7
        stored = self.log[position]
        return int(stored.base_offset if field == "base_offset" else getattr(stored.batch, field))

    def place(self, number: int) -> int:
        """Where a record stands, its last copy."""
        return max(
            (
                i
                for i, s in enumerate(self.log)
                if s.batch.first_record <= number < s.batch.first_record + s.batch.record_count
                and s.base_offset + s.batch.record_count <= self.leader.high_watermark
            ),
            default=-1,
        )

    def previous(self, position: int) -> int:
        """The batch of the same epoch that ends where this one begins."""
        for i in reversed(range(min(position, len(self.log)))):
            a, b = self.log[i].batch, self.log[position].batch
            if (
                a.producer_epoch == b.producer_epoch
                and a.base_sequence + a.record_count == b.base_sequence
            ):
                return i
        return -1

    def apply(self, name: str, *arguments: int) -> int:
        """The value of a function of the proofs."""
        if name.startswith("log_"):
            return self.stored(arguments[0], name.removeprefix("log_"))
        if name == "sent":
            return arguments in self.sent
        if name == "answers":
            return arguments in self.answers
        if name == "place":
            return self.place(arguments[0])
        if name == "previous":
            return self.previous(arguments[0])
        return name == "client.partitions[0].acknowledged" and (
            arguments[0] in self.entry.acknowledged
        )

    def domain(self, variables: tuple[Node, ...]) -> Iterator[Row]:
        """The values of bound numbers that can matter."""
        names = tuple(v.name for v in variables)
        message = ("epoch1", "base1", "count1", "first1")
        if names[:4] == message:
            rows = [self.sent] * (len(names) // 4)
            return (tuple(x for row in pair for x in row) for pair in product(*rows))
        if len(names) == 4:
            return iter(self.answers)
        size = self.k.layout.records if names == ("r",) else len(self.log)
        return product(range(size), repeat=len(names))


Check = Callable[[Facts], bool]


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


def clauses_for(k: Any) -> tuple[Clause, ...]:
    """The clauses that are proved under the setting's variant."""
    kept = dict(PROMISED)
    if k.variant.first_sequence == 0:
        del kept["no_gap"]
    if k.variant.restart_window == 0:
        del kept["remembers_five"]
    return (*HELPERS, *kept.values())


def check_scope(model: Model, k: Any, name: str) -> ScopeCheck:
    """Explore a scope by its source and check each clause in each state."""
    found = source_graph(model, k, name)
    before = Builder(model).state()
    checks = {c.name: compiled(c.formula(before)) for c in clauses_for(k)}
    failed: dict[str, None] = {}
    for world in found.worlds:
        facts = Facts(k, world)
        for clause, check in checks.items():
            if clause not in failed and not check(facts):
                failed[clause] = None
    firings: dict[str, int] = {}
    for _, instance, _ in found.edges:
        rule = found.instances[instance][0]
        firings[rule] = firings.get(rule, 0) + 1
    return ScopeCheck(name, k.variant.name, len(found.worlds), firings, tuple(failed))
