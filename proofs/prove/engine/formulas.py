"""Lifts a predicate over a proof state from its text to a formula over bound numbers.

Theory of operation. A clause is a function in plain Python. Python evaluates it over a concrete
state. The lifter evaluates it over a state of unknowns, by the rules of `proofs.lift.evaluate` and
one more: a comprehension over a container of any size becomes a quantifier. The number that the
quantifier binds gets a fresh name, which no unknown of a state or step may have, so no unknown is
captured.

A formula is true for all values of its bound numbers. A quantifier may therefore stand only at a
place that makes it universal: `all` in an asserted position, `any` in a denied position. To say
that an element exists, a clause names the element by a ghost.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any, TypeVar

from proofs.lift import containers, dag
from proofs.lift.dag import FALSE, TRUE, ZERO, Node
from proofs.lift.evaluate import Evaluator, Frame
from proofs.lift.source import Model
from proofs.lift.values import Rec, Seq
from proofs.prove.engine.smt import Formula
from proofs.prove.engine.unknowns import bound, function, number

T = TypeVar("T")

SIGN = "?"
"""A frame's entry for the sign of the evaluated function: 1 if it is asserted, -1 if denied, else
0."""
REDUCTIONS = ("all", "any")


def every(size: int) -> range:
    """Return the numbers of a scope; the lifter takes this for any number at all."""
    return range(size)


def as_tuple(*numbers: Node) -> tuple[Node, ...]:
    """Return an element of a set of tuples."""
    return numbers


@dataclass(frozen=True, slots=True, eq=False)
class RecordSet:
    """A set of records of any size: the records for whose numbers `holds` is true.

    `names` are the numbers that identify a record; `made` builds the record from them.
    """

    holds: Callable[..., Node]
    names: tuple[str, ...]
    made: Callable[..., Any] = as_tuple

    def __call__(self, *numbers: Node) -> Node:
        """Return whether the record with these numbers is in the set."""
        return self.holds(*numbers)

    def plus(self, numbers: Sequence[Node], condition: Node = TRUE) -> RecordSet:
        """Return the set with one more record, if a condition holds."""

        def holds(*asked: Node) -> Node:
            same = (a.eq(b) for a, b in zip(asked, numbers, strict=True))
            return self.holds(*asked) | dag.conjunction((condition, *same))

        return replace(self, holds=holds)

    def any_record(self, fresh: Callable[..., Node]) -> tuple[Node, Any]:
        """Return one record that stands for each, with the condition that it is in the set."""
        numbers = [fresh(f".{name}") for name in self.names]
        return self.holds(*numbers), self.made(*numbers)


@dataclass(frozen=True, slots=True)
class ValuesByCondition:
    """Values that are present under a condition each."""

    cases: tuple[tuple[Node, Any], ...]


def present(*cases: tuple[Any, T]) -> tuple[T, ...]:
    """Return the values whose condition holds. For unknown conditions the lifter takes the result
    as a ValuesByCondition."""
    if any(isinstance(condition, Node) for condition, _ in cases):
        return ValuesByCondition(tuple((dag.operand(there), v) for there, v in cases))  # type: ignore[return-value]
    return tuple(value for condition, value in cases if condition)


@dataclass(frozen=True, slots=True)
class LiftedGoal:
    """A goal to be proved in which no number is bound. `records` are arbitrary elements of tuples
    or maps, each with its place. `choices` say which elements the goal claims to exist; they may be
    assumed. `kept` are the places of the elements that a filtered tuple keeps."""

    node: Node
    choices: tuple[Formula, ...]
    records: tuple[tuple[Node, Rec], ...]
    kept: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Lifter:
    """Lifts predicates over the states of one model in one configuration; see `Evaluator`.

    `view` turns a state of unknowns into the form that clauses read.
    """

    model: Model
    k: Any
    overrides: Mapping[tuple[str, str], Node]
    contracts: Mapping[str, Callable[..., Any]]
    view: Callable[[Any], Any]

    def formula(self, predicate: Callable[..., Any], *arguments: Any) -> Formula:
        """Return the formula of a predicate of its arguments; the predicate may take the
        configuration first."""
        evaluator = FormulaEvaluator(self.model, self.k, self.overrides, self.contracts)
        value = evaluator.call(predicate, [*configured(predicate, self.k), *arguments], 1)
        return tuple(evaluator.numbers), value

    def goal(self, predicate: Callable[..., Any], *arguments: Any) -> LiftedGoal:
        """Return the goal of a predicate, to be proved of arbitrary elements."""
        evaluator = GoalEvaluator(self.model, self.k, self.overrides, self.contracts)
        value = evaluator.call(predicate, [*configured(predicate, self.k), *arguments], 1)
        return LiftedGoal(value, *map(tuple, evaluator.noted))

    def node(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the value of a function that binds no number."""
        bound, value = self.formula(function, *arguments)
        assert not bound, f"{function.__name__} binds {bound}"
        return value


@functools.cache
def takes_configuration(predicate: Callable[..., Any]) -> bool:
    """Whether a predicate takes the configuration as its first argument."""
    return next(iter(inspect.signature(predicate).parameters)) == "k"


def configured(predicate: Callable[..., Any], k: Any) -> tuple[Any, ...]:
    """Return the configuration as an argument, if a predicate takes it first."""
    return (k,) if takes_configuration(predicate) else ()


class FormulaEvaluator(Evaluator):
    """Evaluates predicates; `numbers` are the numbers that quantifiers have bound."""

    def __init__(
        self,
        model: Model,
        k: Any,
        overrides: Mapping[tuple[str, str], Node],
        contracts: Mapping[str, Callable[..., Any]],
    ) -> None:
        super().__init__(model, k, overrides, contracts)
        self.numbers: list[Node] = []
        self._signs: list[int] = []

    # Calls

    def call(self, function: Callable[..., Any], arguments: Sequence[Any], sign: int = 0) -> Any:
        """Return the value of function(*arguments); the function is one of the model or of the
        proofs."""
        if contract := self.contract_of(function):
            return contract(self, *arguments)
        is_ours = function.__module__.startswith("proofs.")
        tree = text_of(function) if is_ours else self.model.tree_of(function) or text_of(function)
        note_signs(tree)
        assert isinstance(function, FunctionType)
        names = [a.arg for a in tree.args.args]
        frame: Frame = {"": function.__globals__, SIGN: sign}
        frame |= dict(zip(names, arguments, strict=True))
        self._files.append(f"{function.__module__.replace('.', '/')}.py")
        self._names.append(function.__name__)
        try:
            return self.block(tree.body, frame)
        finally:
            self._files.pop()
            self._names.pop()

    def _Call(self, node: ast.Call, frame: Frame) -> Any:
        sign = frame[SIGN] * _SIGNS.get(node, 0)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in REDUCTIONS and isinstance(node.args[0], ast.GeneratorExp):
            return self.reduced(name, node.args[0], frame, sign)
        self._signs.append(sign)
        try:
            return super()._Call(node, frame)
        finally:
            self._signs.pop()

    def apply(
        self, node: ast.Call, function: Any, arguments: list[Any], named: dict[str, Any]
    ) -> Any:
        """Apply a function as the model's evaluator does. Functions and classes of the proofs and
        ghosts, which are functions of unknowns, may be applied too."""
        if isinstance(function, FunctionType) and has_text(self.model, function):
            return self.call(function, arguments, self._signs[-1])
        if callable(function) and function.__module__.startswith("proofs."):
            return self.lift(function(*arguments, **named))
        return super().apply(node, function, arguments, named)

    # Without path conditions: a fact about a state is true wherever it is read

    def choose(self, condition: Node, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
        """Evaluate both outcomes and merge them."""
        if condition.is_const:
            return then() if condition.value else otherwise()
        return containers.merge(self.shapes, condition, then(), otherwise())

    def _BoolOp(self, node: ast.BoolOp, frame: Frame) -> Node:
        parts = [self.boolean(part, frame) for part in node.values]
        joined = dag.conjunction if isinstance(node.op, ast.And) else dag.disjunction
        return joined(parts)

    # Membership of tuples and in tuples

    def _Tuple(self, node: ast.Tuple, frame: Frame) -> Any:
        if any(isinstance(part, ast.Starred) for part in node.elts):
            return super()._Tuple(node, frame)
        return Seq(dag.const(len(node.elts)), tuple(self.value(e, frame) for e in node.elts))

    def compared(self, node: ast.Compare, operator: ast.cmpop, left: Any, right: Any) -> Node:
        """Compare two values; also whether a tuple is in a set of records, or a value in a
        tuple."""
        if not isinstance(operator, (ast.In, ast.NotIn)) or not isinstance(right, (RecordSet, Seq)):
            return super().compared(node, operator, left, right)
        if isinstance(right, RecordSet):
            inside = right.holds(*left.slots)
        else:
            inside = dag.disjunction(containers.equal(left, slot) for slot in right.slots)
        return inside if isinstance(operator, ast.In) else ~inside

    # Comprehensions

    def reduced(self, name: str, generator: ast.GeneratorExp, frame: Frame, sign: int) -> Node:
        """Evaluate all or any of a generator. Conditions on a slot are split as in the text."""
        known = len(self.numbers)
        found = list(self.cases(generator.generators, frame, sign * (1 if name == "all" else -1)))
        values = [(kept, self.boolean(generator.elt, inner)) for kept, inner in found]
        if name == "any":
            return dag.disjunction(kept & value for kept, value in values)
        if len(self.numbers) > known:
            return dag.conjunction(kept.implies(value) for kept, value in values)
        return dag.conjunction(
            kept.implies(part) for kept, value in values for part in conjuncts(value)
        )

    def cases(
        self, clauses: Sequence[ast.comprehension], frame: Frame, sign: int
    ) -> Iterator[tuple[Node, Frame]]:
        """Yield the condition and the bindings of each way to choose elements. If there may be any
        number of elements, one element stands for each."""
        if not clauses:
            yield TRUE, frame
            return
        clause, *rest = clauses
        for exists, element in self.chosen(clause, frame, sign):
            inner = {**frame, **self.bound_to(clause.target, element)}
            kept = dag.conjunction((exists, *(self.boolean(test, inner) for test in clause.ifs)))
            if kept is not FALSE:
                for more, names in self.cases(rest, inner, sign):
                    yield kept & more, names

    def chosen(
        self, clause: ast.comprehension, frame: Frame, sign: int
    ) -> Iterator[tuple[Node, Any]]:
        """Yield the elements that one generator runs over, each with the condition that it
        exists."""
        many = self.many(clause.iter, frame)
        if many is None:
            yield from self.elements(clause.iter, frame)
            return
        if sign <= 0:
            raise self.fail(clause.iter, "of what is there one exists; let a ghost name it")
        target = clause.target.elts[0] if isinstance(clause.target, ast.Tuple) else clause.target
        assert isinstance(target, ast.Name)
        yield many(lambda field="": self.fresh(f"{target.id}{field}"))

    def fresh(self, name: str) -> Node:
        """Bind a number under a name that nothing else has."""
        again = sum(node.name.partition("'")[0] == bound(name).name for node in self.numbers)
        self.numbers.append(bound(f"{name}'{again}" if again else name))
        return self.numbers[-1]

    def many(self, node: ast.expr, frame: Frame) -> Many | None:
        """Return what stands for a generator over any number of elements; None if it runs over
        slots."""
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Name) and called.id == "range":
            assert isinstance(node, ast.Call)
            ends = [self.integer(a, frame) for a in node.args]
            lo, hi = [ZERO, *ends][-2:]
            return None if lo.is_const and hi.is_const else in_range(lo, hi)
        if isinstance(called, ast.Name) and called.id == every.__name__:
            return lambda fresh: (TRUE, fresh())
        counted = isinstance(called, ast.Name) and called.id == "enumerate"
        if isinstance(called, ast.Name) and called.id == "pairwise":
            return None
        if isinstance(called, ast.Attribute) and called.attr == "items":
            owner, counted = self.value(called.value, frame), True
        else:
            assert not counted or isinstance(node, ast.Call)
            owner = self.value(node.args[0] if counted else node, frame)  # type: ignore[attr-defined]
        return many_of(owner, counted=counted)

    def elements(self, node: ast.expr, frame: Frame) -> list[tuple[Node, Any]]:
        """Return the slots that a generator runs over, or pairs of neighbouring slots."""
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and isinstance(called, ast.Name) and called.id == "pairwise":
            slots = super().elements(node.args[0], frame)
            return [(there, (a, b)) for (_, a), (there, b) in itertools.pairwise(slots)]
        owner = self.value(node, frame) if isinstance(node, ast.Attribute) else None
        if isinstance(owner, ValuesByCondition):
            return list(owner.cases)
        return super().elements(node, frame)

    def bound_to(self, target: ast.expr, element: Any) -> Frame:
        """Return the names that a generator binds to an element or to its parts."""
        if isinstance(target, ast.Tuple):
            pairs = zip(target.elts, element, strict=True)
            return {n: v for t, e in pairs for n, v in self.bound_to(t, e).items()}
        assert isinstance(target, ast.Name)
        return {target.id: element}


class GoalEvaluator(FormulaEvaluator):
    """Evaluates a goal to be proved of arbitrary elements, which become constants. If the goal
    claims that an element exists, the first such element is taken. A filtered tuple has the
    elements that it keeps in their order."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.records: list[tuple[Node, Rec]] = []
        self.kept: list[Node] = []

    @property
    def noted(self) -> tuple[list[Any], ...]:
        """Return the choices, records and kept places that were met during evaluation."""
        return self.choices, self.records, self.kept

    def fresh(self, name: str) -> Node:
        """Return any number."""
        self.numbers.append(number(f"any {name} {len(self.numbers)}"))
        return self.numbers[-1]

    def chosen(
        self, clause: ast.comprehension, frame: Frame, sign: int
    ) -> Iterator[tuple[Node, Any]]:
        """Yield the elements that one generator runs over, and note the records of a tuple of any
        size."""
        known = len(self.numbers)
        for exists, element in super().chosen(clause, frame, sign):
            if len(self.numbers) > known:
                parts = element if isinstance(element, tuple) else (element,)
                place = self.numbers[known]
                self.records += [(place, part) for part in parts if isinstance(part, Rec)]
            yield exists, element

    def reduced(self, name: str, generator: ast.GeneratorExp, frame: Frame, sign: int) -> Node:
        """Evaluate all or any of a generator."""
        clause = generator.generators[0]
        is_bound = sign * (1 if name == "all" else -1) > 0
        owner = None if is_bound else self.any_size(clause.iter, frame)
        if owner is None:
            return super().reduced(name, generator, frame, sign)
        found: Node = self.search(name, generator, owner, frame)
        return found

    def any_size(self, node: ast.expr, frame: Frame) -> containers.FunctionSeq | None:
        """Return the tuple of any size that a generator runs over, with places if it is enumerated;
        None if there is no such tuple."""
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        called = node.func.id if is_call else ""  # type: ignore[attr-defined]
        if called in ("range", "pairwise", every.__name__):
            return None
        if called == "enumerate":
            inner = self.any_size(node.args[0], frame)  # type: ignore[attr-defined]
            return inner and containers.FunctionSeq(inner.length, lambda i: (i, inner.at(i)))
        owner = self.value(node, frame)
        return owner if isinstance(owner, containers.FunctionSeq) else None

    def reduce(self, name: str, generator: ast.GeneratorExp, frame: Frame) -> Any:
        """Evaluate a tuple of a generator, which may filter any number of elements."""
        clause = generator.generators[0]
        owner = self.value(clause.iter, frame)
        if name != "tuple" or not clause.ifs or not isinstance(owner, containers.FunctionSeq):
            return super().reduce(name, generator, frame)

        def inner(place: Node) -> Frame:
            return {**frame, **self.bound(clause.target, owner.at(place))}

        def is_kept(place: Node) -> Node:
            tests = (self.boolean(test, inner(place)) for test in clause.ifs)
            return dag.conjunction(((place >= 0) & (place < owner.length), *tests))

        mark = len(self.choices)
        length, place_of, rank_of = (f"{n} {mark}" for n in ("kept", "place of", "rank of"))
        count, at, rank = number(length), function(place_of), function(rank_of)
        n, m = bound("n"), bound("m")
        inside = (n >= 0) & (n < count)
        kept = is_kept(n).implies((rank(n) >= 0) & (rank(n) < count) & at(rank(n)).eq(n))
        self.choices += [
            ((), count >= 0),
            ((n,), inside.implies(is_kept(at(n)))),
            ((n, m), (inside & (n < m) & (m < count)).implies(at(n) < at(m))),
            ((n,), kept),
        ]

        def element(i: Node) -> Any:
            self.kept.append(at(i))
            return self.value(generator.elt, inner(at(i)))

        return containers.FunctionSeq(count, element)


Many = Callable[[Callable[..., Node]], tuple[Node, Any]]
"""Given fresh numbers, returns one element that stands for each, with the condition that it
exists."""


def many_of(owner: Any, *, counted: bool) -> Many | None:
    """Return the element of a tuple, map or set of any size; with `counted` it comes with its
    index."""
    if isinstance(owner, (containers.FunctionSeq, containers.FunctionMap)):
        size = owner.length if isinstance(owner, containers.FunctionSeq) else owner.size
        at = owner.at
        return in_range(ZERO, size, (lambda i: (i, at(i))) if counted else at)
    if isinstance(owner, containers.PredicateSet):
        holds = owner.holds
        return lambda fresh: (holds(i := fresh()), i)
    if isinstance(owner, RecordSet):
        return owner.any_record
    return None


def in_range(lo: Node, hi: Node, element: Callable[[Node], Any] = lambda i: i) -> Many:
    """Return each number from `lo` to before `hi`, or the element at this place."""

    def any_one(fresh: Callable[..., Node]) -> tuple[Node, Any]:
        i = fresh()
        return (lo <= i) & (i < hi), element(i)

    return any_one


def conjuncts(node: Node) -> tuple[Node, ...]:
    """Return the conjuncts of a node, in order."""
    found: list[Node] = []
    left = [node]
    while left:
        part = left.pop()
        if part.op == "and":
            left.extend(reversed(part.args))
        else:
            found.append(part)
    return tuple(found)


# Text


@functools.cache
def _trees(module: str) -> dict[str, ast.FunctionDef]:
    """Return the functions of a module of the proofs, by name."""
    text = inspect.getsource(importlib.import_module(module))
    return {f.name: f for f in ast.parse(text).body if isinstance(f, ast.FunctionDef)}


def text_of(function: Callable[..., Any]) -> ast.FunctionDef:
    """Return the text of a function of the proofs."""
    return _trees(function.__module__)[function.__name__]


def has_text(model: Model, function: Callable[..., Any]) -> bool:
    """Whether a function stands at the top of a module of the model or of the proofs."""
    if model.tree_of(function) is not None:
        return True
    ours = function.__module__.startswith(("proofs.prove", "model."))
    return ours and function.__qualname__ in _trees(function.__module__)


_SIGNS: dict[ast.AST, int] = {}
"""The sign of each call: 1 if it is asserted when its function is asserted, -1 if it is then
denied."""


@functools.cache
def note_signs(tree: ast.FunctionDef) -> None:
    """Note for each call in a function whether it is asserted or denied."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Return) and node.value is not None:
            _note_sign(node.value, 1)


def _note_sign(node: ast.expr, sign: int) -> None:
    if isinstance(node, ast.BoolOp):
        for part in node.values:
            _note_sign(part, sign)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        _note_sign(node.operand, -sign)
    elif isinstance(node, ast.IfExp):
        _note_sign(node.body, sign)
        _note_sign(node.orelse, sign)
    elif isinstance(node, ast.Call):
        _SIGNS[node] = sign
        for generator in (a for a in node.args if isinstance(a, ast.GeneratorExp)):
            _note_sign(generator.elt, sign)
