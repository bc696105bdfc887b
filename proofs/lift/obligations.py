"""Decides what the packed forms take for granted: every written leaf stays in its range.

Equal counts of two engines do not show that packing is right, because a value that is too large
overflows into its neighbour's bits in all engines alike. So there is a claim for each rule instance
and each leaf that it writes: if all leaves are in their ranges and the guard holds, the written
value is in the leaf's range. With the initial state, these claims cover every reachable state.

Most claims follow from the intervals of the graph's nodes; Z3 decides the others, first all claims
of a rule instance together. Claims of definedness are decided in the same way: they say that what
the front end recorded as necessary (an index within its tuple) always holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any, Protocol

from proofs.lift import dag
from proofs.lift.dag import Node
from proofs.lift.machine import Machine

TIMEOUT_MS = 5000


class NoSolver(RuntimeError):
    """Z3 is not installed; the message says how to install it."""

    exit_code = 2


class Noted(Protocol):
    """A condition that the front end recorded: it must hold where a text is reached."""

    @property
    def where(self) -> str:
        """The place in the text."""

    @property
    def holds(self) -> Node:
        """The condition, together with the path to it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim, named `rule instance/what`: if `given` holds of a state in range, so does `node`."""

    name: str
    given: Node
    node: Node


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a claim: `result` is "holds", "fails" or "unknown"; `by` is "interval" or
    "z3".

    A claim that fails comes with a state, by leaf name. The state is in range but may be
    unreachable. It is read from the solver's model when a caller asks for it.
    """

    name: str
    result: str
    by: str
    state: Callable[[], Mapping[str, int]] | None = field(default=None, repr=False, compare=False)

    @property
    def counterexample(self) -> Mapping[str, int] | None:
        """The state in which the claim fails, if one is known."""
        return None if self.state is None else self.state()


def within(node: Node, lo: int, hi: int) -> Node:
    """Return lo <= node <= hi."""
    return dag.both(dag.le(dag.const(lo), node), dag.le(node, dag.const(hi)))


def range_claims(machine: Machine) -> Iterator[Claim]:
    """Yield the claims that each number which a rule instance writes is in its leaf's range."""
    leaves = {leaf.name: leaf for leaf in machine.leaves}
    for rule in machine.rules:
        for name, value in rule.updates.items():
            leaf = leaves[name]
            if not leaf.is_bool:
                yield Claim(f"{rule.label}/{name}", rule.guard, within(value, leaf.lo, leaf.hi))


def definedness_claims(noted: Mapping[str, Sequence[Noted]]) -> Iterator[Claim]:
    """Yield the claims that the conditions recorded for each rule instance always hold."""
    for label, conditions in noted.items():
        for condition in conditions:
            yield Claim(f"{label}/{condition.where}", dag.TRUE, condition.holds)


class _Solver:
    """Z3 with a machine's leaves in range, and the term of each node met so far."""

    def __init__(self, machine: Machine, assume: Iterable[Node]) -> None:
        self._z3 = _z3()
        self._machine = machine
        self._terms: dict[int, Any] = {}
        self._solver = self._z3.SolverFor("QF_LIA")
        self._solver.set("timeout", TIMEOUT_MS)
        self._leaves = {leaf.name: self._leaf(leaf.name, leaf.is_bool) for leaf in machine.leaves}
        for leaf in machine.leaves:
            if not leaf.is_bool:
                symbol = self._leaves[leaf.name]
                self._solver.add(leaf.lo <= symbol, symbol <= leaf.hi)
        self._solver.add([self._term(node) for node in assume])

    def _leaf(self, name: str, is_bool: bool) -> Any:
        return self._z3.Bool(name) if is_bool else self._z3.Int(name)

    def _term(self, root: Node) -> Any:
        for node in dag.reachable([root]):
            if node.serial not in self._terms:
                self._terms[node.serial] = self._made(node)
        return self._terms[root.serial]

    def _made(self, node: Node) -> Any:
        z3 = self._z3
        if node.op == "const":
            return z3.BoolVal(bool(node.value)) if node.is_bool else z3.IntVal(node.value)
        if node.op == "leaf":
            return self._leaves[node.name]
        if node.op == "input":
            return z3.IntVal(self._machine.inputs[node.name])
        args = [self._terms[a.serial] for a in node.args]
        if node.op == "not":
            return z3.Not(args[0])
        if node.op == "and":
            return z3.And(*args)
        if node.op == "or":
            return z3.Or(*args)
        if node.op == "ite":
            return z3.If(*args)
        return dag.ARITHMETIC[node.op](*args)

    def _check(self, broken: Any) -> tuple[str, Callable[[], Mapping[str, int]] | None]:
        """Return whether some state in range breaks a claim, and the state."""
        self._solver.push()
        self._solver.add(broken)
        said = self._solver.check()
        model = self._solver.model() if said == self._z3.sat else None
        self._solver.pop()
        if said == self._z3.unknown:
            return "unknown", None
        return ("holds", None) if model is None else ("fails", partial(self._state, model))

    def _state(self, model: Any) -> Mapping[str, int]:
        """Return the leaves' values in a model of the solver."""
        return {
            name: _number(model.eval(leaf, model_completion=True), self._z3)
            for name, leaf in self._leaves.items()
        }

    def decide(self, given: Node, claims: Sequence[Claim]) -> Iterator[Decision]:
        """Decide claims with one hypothesis: all together and, if that fails, one by one."""
        broken = [self._z3.Not(self._term(claim.node)) for claim in claims]
        self._solver.push()
        self._solver.add(self._term(given))
        together, _ = self._check(self._z3.Or(*broken))
        for claim, negation in zip(claims, broken, strict=True):
            result, state = ("holds", None) if together == "holds" else self._check(negation)
            yield Decision(claim.name, result, "z3", state)
        self._solver.pop()


def _z3() -> Any:
    try:
        import z3
    except ImportError:
        message = 'Z3 is missing: pip install "kafka-eos[proofs]"'
        raise NoSolver(message) from None
    return z3


def _number(value: Any, z3: Any) -> int:
    return int(z3.is_true(value)) if z3.is_bool(value) else int(value.as_long())


def decide(
    machine: Machine, claims: Iterable[Claim], assume: Iterable[Node] = ()
) -> tuple[Decision, ...]:
    """Decide claims about a machine's states, in their order. Raises NoSolver.

    `assume` are facts of every reachable state (guarantees that an exploration found kept), besides
    the ranges of the leaves.
    """
    decided: list[Decision] = []
    solver: _Solver | None = None
    for (given, shown), group in groupby(claims, key=lambda c: (c.given, c.node is dag.TRUE)):
        if shown:
            decided += [Decision(claim.name, "holds", "interval") for claim in group]
            continue
        if solver is None:
            solver = _Solver(machine, assume)
        decided += solver.decide(given, list(group))
    return tuple(decided)


def as_guarantees(claims: Iterable[Claim]) -> dict[str, Node]:
    """Return claims as guarantees, by name: an exploration decides the claims that ranges alone
    leave open.

    Claims of the same name become one. (Range claims do not need this: every engine tests the
    values whose intervals leave them open, and ends with RangeBroken.)
    """
    guarantees: dict[str, Node] = {}
    for claim in claims:
        kept = dag.either(dag.negate(claim.given), claim.node)
        guarantees[claim.name] = dag.both(guarantees.get(claim.name, dag.TRUE), kept)
    return guarantees


def initial_in_range(machine: Machine) -> bool:
    """Whether the initial state has every leaf in its range."""
    pairs = zip(machine.leaves, machine.initial, strict=True)
    return all(leaf.lo <= value <= leaf.hi for leaf, value in pairs)


def decide_ranges(machine: Machine, assume: Iterable[Node] = ()) -> tuple[Decision, ...]:
    """Decide every range claim, after the claim `initial/ranges`. Raises NoSolver."""
    start = "holds" if initial_in_range(machine) else "fails"
    first = Decision("initial/ranges", start, "interval")
    return (first, *decide(machine, range_claims(machine), assume))
