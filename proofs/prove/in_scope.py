"""The clauses of the proofs, checked on every state of a bounded scope.

This is what keeps the proofs honest: their hypotheses hold in states that really occur (so they
are not contradictory, and each rule fires in one of them), and the ghosts mean what they are said
to: here they are read off the log, and the history is a replay of each prefix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol

from proofs.explore.source import SourceGraph, source_graph
from proofs.lift.dag import Node, reachable
from proofs.lift.source import Model
from proofs.prove.induction import Clause
from proofs.prove.invariant import (
    GUARANTEED,
    HELPERS,
    IN_TURN,
    NEIGHBOURS,
    ORDERED,
    UNFENCED,
    WHOLE,
)
from proofs.prove.sequence_arithmetic import NO_WRAP, SEQUENCE, SequenceArithmetic, wrapping
from proofs.prove.smt import Formula
from proofs.prove.state import VARIANT, Builder

Row = tuple[int, ...]
NOT_ANSWERED = (-1, -1, -1)
"""A success that no leader answers."""

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


class IdempotentValuation:
    """One world, as the unknowns and functions of the proofs.

    `past` are the batches that were numbered on a way to this world: what the world alone does not
    show.
    """

    def __init__(
        self, model: Model, k: Any, world: Any, past: frozenset[Any] = frozenset()
    ) -> None:
        self.k = k
        self.client = world.clients[0]
        self.entry = self.client.partitions[0]
        self.leader = world.leaders[0]
        self.log = self.leader.log
        self.link = world.links[0][0]
        self.values: dict[str, int] = {
            "p": 0,
            "producer": 0,
            **{rule: getattr(k.variant, rule) for rule in VARIANT},
            "max_sequence": k.bounds.max_sequence,
            "replicas": k.bounds.replicas,
            "log_length": len(self.log),
            "high_watermark": self.leader.high_watermark,
        }
        self.values |= dict(flat("client", self.client))
        self.values |= dict(flat("known", self.leader.producers[0]))
        self.history = [dict(flat("history", entry)) for entry in self.replays(model)]
        self.sent = frozenset(self.rows(self.travelling()))
        self.answers = frozenset(self.successes())
        numbered = {*past, *self.travelling(), *in_flight(world)}
        self.numbered = frozenset(self.rows(numbered))
        self.positions = {(b.producer_epoch, b.first_record): self.position(b) for b in numbered}
        self.values["next_position"] = self.next_position()
        self.values["handled"] = len(self.link.answers)
        self.values["refused"] = any(answer.error != 0 for answer in self.link.answers)
        old_epoch = model.messages.Error.INVALID_PRODUCER_EPOCH
        self.values["fenced"] = any(answer.error == old_epoch for answer in self.link.answers)
        self.values["epoch_in_turn"] = self.epoch_in_turn()

    def next_position(self) -> int:
        """Where the partition's next batch begins in its epoch."""
        if self.entry.producer_epoch == 0 and self.k.bounds.first_sequence > 0:
            return int(self.k.bounds.first_sequence + self.entry.records_sent)
        return int(self.entry.next_sequence)

    def epoch_in_turn(self) -> int:
        """The oldest epoch that the open connection still carries to the leader, or may carry."""
        epochs = (request.batch.producer_epoch for request in self.link.requests)
        return int(min(epochs, default=self.entry.producer_epoch))

    def replays(self, model: Model) -> Iterator[Any]:
        """What a replay of each prefix of the log knows of the producer."""
        producers = model.leader.nobody(self.k)
        yield producers[0]
        for stored in self.log:
            producers = model.leader.replayed(self.k, producers, stored)
            yield producers[0]

    def position(self, batch: Any) -> int:
        """Where a batch begins in its epoch; a scope that begins late has it by its records."""
        if batch.producer_epoch == 0 and self.k.bounds.first_sequence > 0:
            return int(self.k.bounds.first_sequence + batch.first_record)
        return int(batch.base_sequence)

    def travelling(self) -> list[Any]:
        """The batches that were sent, as far as this world shows it."""
        requests = [*self.link.requests]
        for connection in self.link.broken:
            requests += connection.requests
        stored = [s.batch for s in self.log if s.batch.producer_id == 0]
        return [*(request.batch for request in requests), *stored]

    def rows(self, batches: Iterable[Any]) -> Iterator[Row]:
        """Batches as the clauses name them."""
        return ((b.producer_epoch, b.record_count, b.first_record) for b in batches)

    def successes(self) -> Iterator[Row]:
        """Successes on their way."""
        for a in self.link.answers:
            if a.error == 0:
                yield a.first_record, a.base_offset, a.required_offset

    def stored(self, place: int, field: str) -> int:
        """A field of what stands at a place; -7 outside the log."""
        if not 0 <= place < len(self.log):
            return -7
        stored = self.log[place]
        return int(stored.base_offset if field == "base_offset" else getattr(stored.batch, field))

    def place(self, number: int) -> int:
        """Where a record stands, its last copy: of those that are replicated, if any is."""
        copies = (
            (s.base_offset + s.batch.record_count <= self.leader.high_watermark, i)
            for i, s in enumerate(self.log)
            if s.batch.first_record <= number < s.batch.first_record + s.batch.record_count
        )
        return max(copies, default=(False, -1))[1]

    def previous(self, place: int) -> int:
        """The batch of the same epoch that ends where this one begins."""
        for i in reversed(range(min(place, len(self.log)))):
            a, b = self.log[i].batch, self.log[place].batch
            same = a.producer_epoch == b.producer_epoch
            if same and self.begins(i) + a.record_count == self.begins(place):
                return i
        return -1

    def begins(self, place: int) -> int:
        """The position of what stands at a place."""
        return self.position(self.log[place].batch) if 0 <= place < len(self.log) else -7

    def where(self, end_offset: int) -> int:
        """Where the batch stands that ends at an offset; -1 if none does."""
        for i, s in enumerate(self.log):
            if s.base_offset + s.batch.record_count == end_offset:
                return i
        return -1

    def cover(self, epoch: int, position: int) -> int:
        """The last batch of an epoch that has a position; -1 if none has."""
        for i in reversed(range(len(self.log))):
            batch = self.log[i].batch
            begin = self.begins(i)
            if batch.producer_epoch == epoch and begin <= position < begin + batch.record_count:
                return i
        return -1

    def told(self, first: int, base: int, required: int) -> int:
        """The place that a success speaks of."""
        return self.where(required)

    def replayed(self, name: str, length: int) -> int:
        """A part of the history."""
        return self.history[length].get(name, 0) if 0 <= length < len(self.history) else 0

    def apply(self, name: str, *arguments: int) -> int:
        """The value of a function of the proofs."""
        if name.startswith("log."):
            return self.stored(arguments[0], name.rpartition(".")[2])
        if name.startswith(("history.", "len(history.")):
            return self.replayed(name, arguments[0])
        if name == SEQUENCE:
            return arguments[0] % (int(self.k.bounds.max_sequence) + 1)
        if name == "position":
            return self.positions.get((arguments[0], arguments[1]), 0)
        if name in ("sent", "numbered", "answers"):
            return arguments in getattr(self, name)
        if name in ("place", "previous", "begins", "where", "cover", "told"):
            return int(getattr(self, name)(*arguments))
        return name == "client.partitions[0].acknowledged" and (
            arguments[0] in self.entry.acknowledged
        )

    def domain(self, variables: tuple[Node, ...]) -> Iterator[Row]:
        """The values of bound numbers that can matter."""
        names = tuple(v.name for v in variables)
        if names == ("epoch1", "count1", "first1"):
            return iter(self.numbered)
        if len(names) == 6:
            return ((*a, *b) for a, b in product(self.numbered, self.sent))
        if len(names) == 5:
            pairs = product(self.numbered, self.numbered)
            return ((*a, *b[1:]) for a, b in pairs if a[0] == b[0])
        if names == ("f", "b", "r"):
            return iter(self.answers)
        records = self.k.bounds.records
        if names == ("f", "b", "r", "record"):
            told = product((*self.answers, NOT_ANSWERED), range(records))
            return ((*answer, record) for answer, record in told)
        sizes = {"r": records, "length": len(self.log) + 1, "at": records}
        return product(*(range(sizes.get(name, len(self.log))) for name in names))


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


def regime_of(k: Any) -> SequenceArithmetic:
    """A scope that begins late is one in which sequences wrap."""
    return wrapping(k.bounds.max_sequence + 1) if k.bounds.first_sequence > 0 else NO_WRAP


def clauses_for(k: Any) -> tuple[Clause, ...]:
    """The clauses that are proved under the configuration's variant."""
    kept = dict(GUARANTEED)
    if k.variant.first_sequence == 0 or k.bounds.first_sequence > 0:
        del kept["no_gap"]
    if not remembers(k):
        del kept["remembers_five"]
    if k.budgets.losses > 0:
        del kept["acked_is_stored"], kept["acked_is_replicated"]
    if k.budgets.timeouts > 0:
        del kept["nothing_fails"]
    strict = k.variant.first_sequence != 0 and k.bounds.first_sequence == 0
    if not strict:
        del kept["order_kept"]
    calm = strict and is_calm(k)
    if not calm:
        for clause in ("no_false_error", "acked_once", "bumps_have_causes"):
            del kept[clause]
    extra = (*(WHOLE if strict else ()), *(IN_TURN if calm else ()))
    return (*HELPERS, *ORDERED, *NEIGHBOURS, *UNFENCED, *extra, *kept.values())


def is_calm(k: Any) -> bool:
    """Leaders remember all, no answer refuses what is stored, and no batch is given up."""
    b = k.budgets
    troubles = (b.refusals, b.late_errors, b.timeouts, b.losses)
    return remembers(k) and not any(troubles)


def remembers(k: Any) -> bool:
    """Leaders come back with all that they knew, or none comes back."""
    return bool(k.variant.restart_window == 1 or k.budgets.restarts == 0)


def in_flight(world: Any) -> Iterator[Any]:
    """The batches in flight."""
    return (b.batch for b in world.clients[0].partitions[0].in_flight)


def pasts(worlds: Sequence[Any], edges: Iterable[tuple[int, int, int]]) -> list[frozenset[Any]]:
    """For each world the batches that were in flight on the way by which it was first found."""
    found: dict[int, frozenset[Any]] = {0: frozenset(in_flight(worlds[0]))}
    for before, _, after in edges:
        if after not in found:
            found[after] = found[before].union(in_flight(worlds[after]))
    return [found[i] for i in range(len(worlds))]


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


def check_scope(model: Model, k: Any, name: str) -> ScopeCheck:
    """Explore a scope by its source and check each clause in each state."""
    found = source_graph(model, k, name)
    before = Builder(model, k, regime_of(k)).state()
    formulas = {c.name: c.formula(before) for c in clauses_for(k)}
    worlds = zip(found.worlds, pasts(found.worlds, found.edges), strict=True)
    valuations = (IdempotentValuation(model, k, world, past) for world, past in worlds)
    return check_formulas(formulas, (name, k.variant.name), found, valuations)
