"""The merging evaluator: it runs the model's text on symbolic values.

Theory of operation. A function's syntax tree is executed with nodes in place of numbers. If a
condition is unknown, both branches are evaluated and their results merged (`if` becomes
if-then-else), so one evaluation covers every state and no path is ever enumerated. The conditions
of `require` and `within_scope` become the guard. `annotations.py` holds what is recorded on the
way.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, replace
from enum import IntEnum
from functools import partial
from types import FunctionType
from typing import Any

from model.language import RECORDS, Map, Set, is_record
from proofs.lift import containers, dag, subset
from proofs.lift.annotations import LiftError, Limit
from proofs.lift.calls_of_words import CallsOfWords
from proofs.lift.dag import FALSE, TRUE, ZERO, Node, const
from proofs.lift.source import Model
from proofs.lift.values import MapValue, Rec, Seq, SetValue, Span, shapes_of
from proofs.lift.words import ITERATIONS, REDUCTIONS, word_of

Frame = dict[str, Any]
ARITHMETIC = {ast.Add: dag.add, ast.Sub: dag.sub, ast.Mult: dag.mul}
CONTAINERS = (
    MapValue,
    SetValue,
    Span,
    containers.FocusMap,
    containers.FunctionMap,
    containers.PredicateSet,
)
ORDERS: Mapping[type[ast.cmpop], Callable[[Node, Node], Node]] = {
    ast.Lt: dag.lt,
    ast.LtE: dag.le,
    ast.Gt: lambda a, b: dag.lt(b, a),
    ast.GtE: lambda a, b: dag.le(b, a),
}
VALUES = (Node, Seq, containers.FunctionSeq, *CONTAINERS)
"""Values without attributes: the attributes of their symbolic form are not part of the text."""
METHODS = {"put": 2, "values": 0, "plus": 1, "union": 1, "is_empty": 0}
"""The methods of maps and sets, and how many arguments each takes."""


class Evaluator(CallsOfWords):
    """Evaluates functions of one model in one configuration.

    `overrides` replaces attributes of the configuration by nodes, by (class name, attribute).
    `contracts` gives functions other meanings, by name; a contract for `within_scope` removes the
    scope's limits. The proofs use all of these. Raises SubsetError.
    """

    def __init__(
        self,
        model: Model,
        k: Any,
        overrides: Mapping[tuple[str, str], Node] | None = None,
        contracts: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        super().__init__()
        subset.check(model)
        self.model = model
        self.k = k
        self.shapes = shapes_of(k.bounds)
        self.overrides = dict(overrides or {})
        self.contracts = dict(contracts or {})
        self._by_kind: dict[type[ast.expr], Callable[..., Any] | None] = {}

    # Functions and statements

    def call(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """Return the value of function(*arguments)."""
        if contract := self.contract_of(function):
            return contract(self, *arguments)
        tree = self.model.tree_of(function)
        if tree is None or not isinstance(function, FunctionType):
            raise LiftError(f"{function.__name__} is not a function of the model")
        parameters = [a.arg for a in tree.args.args]
        if len(parameters) != len(arguments):
            raise LiftError(
                f"{function.__name__} takes {len(parameters)} arguments, not {len(arguments)}"
            )
        frame: Frame = {"": function.__globals__, **dict(zip(parameters, arguments, strict=True))}
        self._files.append(self.model.files[function.__module__.rpartition(".")[2]])
        self._names.append(function.__name__)
        try:
            return self.block(tree.body, frame)
        finally:
            self._files.pop()
            self._names.pop()

    def contract_of(self, function: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return the contract that replaces a function's text, if there is one. Raises LiftError if
        two functions of the model have the contract's name."""
        name = function.__name__
        if name in self.contracts and sum(other == name for _, other in self.model.functions) > 1:
            raise LiftError(
                f"{name} has a meaning of its own in this proof, and two modules define it:"
                " rename one of them"
            )
        return self.contracts.get(name)

    def block(self, statements: Sequence[ast.stmt], frame: Frame) -> Any:
        """Return the value that a block returns."""
        for position, statement in enumerate(statements):
            rest = statements[position + 1 :]
            if isinstance(statement, ast.Return):
                assert statement.value is not None
                return self.value(statement.value, frame)
            if isinstance(statement, ast.If):
                return self.branch(statement, rest, frame)
            if isinstance(statement, ast.Assign):
                target = statement.targets[0]
                assert isinstance(target, ast.Name)
                frame = {**frame, target.id: self.value(statement.value, frame)}
            elif isinstance(statement, ast.Expr):
                self.statement_expression(statement.value, frame)
            else:
                raise self.fail(statement, "this statement is not in the subset")
        raise LiftError(f"{self._names[-1]} does not return on every path")

    def branch(self, statement: ast.If, rest: Sequence[ast.stmt], frame: Frame) -> Any:
        """Evaluate if-elif-else; each branch continues with the statements that follow."""
        condition = self.boolean(statement.test, frame)
        then = [*statement.body, *rest]
        otherwise = [*statement.orelse, *rest]
        return self.choose(
            condition,
            lambda: self.block(then, frame),
            lambda: self.block(otherwise, frame),
        )

    def choose(self, condition: Node, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
        """Evaluate both outcomes, each under its path condition, and merge them."""
        if condition.is_const:
            return then() if condition.value else otherwise()
        first = self.under(condition, then)
        second = self.under(dag.negate(condition), otherwise)
        try:
            return containers.merge(self.shapes, condition, first, second)
        except TypeError as error:
            raise LiftError(f"{self._files[-1]}: in {self._names[-1]}: {error}") from error

    def statement_expression(self, expression: ast.expr, frame: Frame) -> None:
        """Evaluate a docstring, `require` or `within_scope`."""
        if isinstance(expression, ast.Constant) and isinstance(expression.value, str):
            return
        if isinstance(expression, ast.Call):
            word = word_of(self.value(expression.func, frame))
            if word == "within_scope" and word in self.contracts:
                return
            if word in ("require", "within_scope"):
                self.check_arguments(expression, word)
                condition = self.boolean(expression.args[0], frame)
                self.limit(expression, condition, by_scope=word == "within_scope")
                return
        raise self.fail(expression, "this expression has no effect")

    def limit(self, node: ast.AST, condition: Node, *, by_scope: bool) -> None:
        """Record that the condition holds from here on: the event is disabled where it does not."""
        implied = dag.either(dag.negate(self.path), condition)
        self.limits.append(Limit(self.place(node), implied, by_scope=by_scope))
        self.path = dag.both(self.path, condition)

    # Expressions

    def value(self, node: ast.expr, frame: Frame) -> Any:
        """Return the value of an expression."""
        kind = type(node)
        if kind not in self._by_kind:
            self._by_kind[kind] = getattr(type(self), f"_{kind.__name__}", None)
        evaluate = self._by_kind[kind]
        if evaluate is None:
            raise self.fail(node, "this expression is not in the subset")
        return evaluate(self, node, frame)

    def boolean(self, node: ast.expr, frame: Frame) -> Node:
        """Return the value of a condition."""
        return self.as_truth(node, self.value(node, frame))

    def integer(self, node: ast.expr, frame: Frame) -> Node:
        """Return the value of an int or enum expression."""
        return self.as_number(node, self.value(node, frame))

    def lift(self, value: Any) -> Any:
        """Return a Python value as a symbolic one; functions, classes and configurations are
        unchanged."""
        if isinstance(value, bool):
            return const(value)
        if type(value) is int or isinstance(value, IntEnum):
            return const(int(value))
        if type(value) is tuple:
            return Seq(const(len(value)), tuple(self.lift(v) for v in value))
        if type(value) is Map:
            return MapValue(tuple(self.lift(v) for v in value.values()))
        if type(value) is Set:
            size = value._bits.bit_length()
            return SetValue(tuple(const(i in value) for i in range(size)))
        if is_record(value):
            return self.construct(
                type(value), {f.name: self.lift(getattr(value, f.name)) for f in fields(value)}
            )
        return value

    def _Constant(self, node: ast.Constant, frame: Frame) -> Any:
        if isinstance(node.value, (bool, int)):
            return self.lift(node.value)
        raise self.fail(node, "only bools and ints are values")

    def _Name(self, node: ast.Name, frame: Frame) -> Any:
        if node.id in frame:
            return frame[node.id]
        scope = frame[""]
        if node.id in scope:
            return self.lift(scope[node.id])
        if hasattr(builtins, node.id):
            return getattr(builtins, node.id)
        raise self.fail(node, "this name is not known")

    def _Attribute(self, node: ast.Attribute, frame: Frame) -> Any:
        owner = self.value(node.value, frame)
        if isinstance(owner, Rec):
            if node.attr not in owner.fields:
                raise self.fail(node, f"{owner.cls.__name__} has no field {node.attr!r}")
            return owner.fields[node.attr]
        if isinstance(owner, VALUES):
            raise self.fail(node, f"only records have fields, so nothing is {node.attr!r} here")
        kind = type(owner).__name__
        if (kind, node.attr) in self.overrides:
            return self.overrides[kind, node.attr]
        if owner is self.k.budgets and node.attr in {f.name for f in fields(owner)}:
            return dag.run_time_input(node.attr)
        if not hasattr(owner, node.attr):
            raise self.fail(node, f"there is no {node.attr!r} here")
        return self.lift(getattr(owner, node.attr))

    def _BinOp(self, node: ast.BinOp, frame: Frame) -> Node:
        left, right = self.integer(node.left, frame), self.integer(node.right, frame)
        if isinstance(node.op, ast.Mod):
            if not right.is_const or right.value <= 0:
                raise self.fail(node, "the divisor of % must be a positive constant")
            return dag.mod(left, right.value)
        if type(node.op) not in ARITHMETIC:
            raise self.fail(node, "this operator is not in the subset; there are + - * %")
        return ARITHMETIC[type(node.op)](left, right)

    def _UnaryOp(self, node: ast.UnaryOp, frame: Frame) -> Node:
        if isinstance(node.op, ast.Not):
            return dag.negate(self.boolean(node.operand, frame))
        if isinstance(node.op, ast.USub):
            return dag.sub(ZERO, self.integer(node.operand, frame))
        raise self.fail(node, "this operator is not in the subset")

    def _BoolOp(self, node: ast.BoolOp, frame: Frame) -> Node:
        is_and = isinstance(node.op, ast.And)
        result = const(is_and)
        saved = self.path
        for part in node.values:
            reached = result if is_and else dag.negate(result)
            self.path = dag.both(saved, reached)
            condition = self.boolean(part, frame)
            result = (dag.both if is_and else dag.either)(result, condition)
        self.path = saved
        return result

    def _IfExp(self, node: ast.IfExp, frame: Frame) -> Any:
        return self.choose(
            self.boolean(node.test, frame),
            lambda: self.value(node.body, frame),
            lambda: self.value(node.orelse, frame),
        )

    def _Compare(self, node: ast.Compare, frame: Frame) -> Node:
        result = TRUE
        left = self.value(node.left, frame)
        for operator, operand in zip(node.ops, node.comparators, strict=True):
            right = self.value(operand, frame)
            result = dag.both(result, self.compared(node, operator, left, right))
            left = right
        return result

    def compared(self, node: ast.Compare, operator: ast.cmpop, left: Any, right: Any) -> Node:
        """Return the node of one comparison."""
        if isinstance(operator, (ast.Eq, ast.NotEq)):
            same = self.equal(node, left, right)
            return same if isinstance(operator, ast.Eq) else dag.negate(same)
        if isinstance(operator, (ast.In, ast.NotIn)):
            if not isinstance(right, CONTAINERS):
                raise self.fail(node, "only a Set tells what is in it; of a tuple write any(...)")
            inside = containers.contains(right, self.as_number(node, left))
            return inside if isinstance(operator, ast.In) else dag.negate(inside)
        if not all(isinstance(side, Node) and not side.is_bool for side in (left, right)):
            raise self.fail(node, "only ints have an order")
        if type(operator) not in ORDERS:
            raise self.fail(node, "this comparison is not in the subset")
        return ORDERS[type(operator)](left, right)

    def equal(self, node: ast.Compare, left: Any, right: Any) -> Node:
        """Return left == right, of values of one type."""
        try:
            return containers.equal(left, right)
        except TypeError as error:
            raise self.fail(node, str(error)) from error

    def _Tuple(self, node: ast.Tuple, frame: Frame) -> Any:
        result: Any = Seq(ZERO, ())
        for part in node.elts:
            if isinstance(part, ast.Starred):
                value = self.value(part.value, frame)
                if result == Seq(ZERO, ()):
                    result = value
                else:
                    result = containers.concatenate(self.shapes, result, value)
            else:
                result = containers.append(self.shapes, result, self.value(part, frame))
        return result

    def _Subscript(self, node: ast.Subscript, frame: Frame) -> Any:
        owner = self.value(node.value, frame)
        if isinstance(node.slice, ast.Slice):
            lower, upper = node.slice.lower, node.slice.upper
            if (lower is None) == (upper is None) or node.slice.step is not None:
                raise self.fail(node, "a slice has one end: xs[:k], xs[k:] or xs[-k:]")
            if upper is not None:
                return self.first_of(node, owner, self.integer(upper, frame))
            assert lower is not None
            start = self.integer(lower, frame)
            if isinstance(owner, containers.FunctionSeq):
                return containers.drop_any(owner, start)
            if not start.is_const:
                raise self.fail(node, "the beginning of a slice must be a constant")
            return containers.drop(self.shapes, owner, start.value)
        index = self.integer(node.slice, frame)
        if isinstance(owner, dict):
            raise self.fail(node, "write the table as a function of its key")
        inside = containers.is_defined(owner, index)
        self.demand(node, inside, is_tested=isinstance(owner, MapValue))
        return containers.at(self.shapes, owner, index)

    def first_of(self, node: ast.Subscript, owner: Any, count: Node) -> Any:
        """Return owner[:count]. A count known to be negative counts from the end; any other count
        must not be negative."""
        if count.is_const and count.value < 0:
            return containers.drop_last(self.shapes, owner, -count.value)
        if count.lo < 0:
            self.demand(node, dag.le(ZERO, count))
        return containers.take(self.shapes, owner, count)

    # Calls

    def _Call(self, node: ast.Call, frame: Frame) -> Any:
        if isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value, frame)
            if isinstance(owner, CONTAINERS):
                return self.method(node, node.func.attr, owner, frame)
        function = self.value(node.func, frame)
        word = word_of(function)
        if word in REDUCTIONS and node.args and isinstance(node.args[0], ast.GeneratorExp):
            if len(node.args) > 1 or node.keywords:
                raise self.fail(node, f"{word} takes a comprehension, and nothing else")
            return self.reduce(word, node.args[0], frame)
        arguments = [self.value(a, frame) for a in node.args]
        named = {kw.arg: self.value(kw.value, frame) for kw in node.keywords if kw.arg}
        return self.apply(node, function, arguments, named)

    def apply(
        self, node: ast.Call, function: Any, arguments: list[Any], named: dict[str, Any]
    ) -> Any:
        """Call a builtin, a word of the language, a record class or a model function. The object
        identifies each of them, whatever name the text uses."""
        word, name = word_of(function), getattr(function, "__name__", "this")
        special = getattr(self, f"_call_{word}", None) if word else None
        if special is not None:
            self.check_arguments(node, word)
            return special(node, arguments, named)
        if isinstance(function, type) and function in RECORDS:
            return self.construct(function, self.values_of(node, function, arguments, named))
        if isinstance(function, FunctionType) and not named:
            if self.model.tree_of(function) is None:
                raise self.fail(node, f"{name} is not a function of the model")
            return self.call(function, arguments)
        raise self.fail(node, f"{name} cannot be called here")

    def values_of(
        self, node: ast.Call, cls: type, arguments: Sequence[Any], named: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the fields of a new record. Raises LiftError if a field is missing, unknown, or
        given twice."""
        names = [f.name for f in fields(cls)]
        placed = dict(zip(names, arguments, strict=False))
        absent = {f.name: self.lift(f.default) for f in fields(cls) if has_default(f)}
        values = {**absent, **placed, **named}
        if set(values) != set(names) or len(arguments) > len(names) or placed.keys() & named.keys():
            raise self.fail(node, f"{cls.__name__} has the fields {', '.join(names)}")
        return values

    def construct(self, cls: type, values: Mapping[str, Any]) -> Rec:
        """Return a record, with each field in the form that its type requires."""
        hints = self.shapes.hints(cls)
        return Rec(cls, {f: self.shapes.coerce(values[f], hints[f]) for f in hints})

    def method(self, node: ast.Call, name: str, owner: Any, frame: Frame) -> Any:
        """Call a method of a map or of a set."""
        if len(node.args) != METHODS.get(name) or node.keywords:
            raise self.fail(node, f"there is no such method {name!r} here")
        arguments = [self.value(a, frame) for a in node.args]
        if name == "put":
            key, value = arguments
            self.demand(
                node, containers.is_defined(owner, self.as_number(node, key)), is_tested=True
            )
            return containers.put(self.shapes, owner, key, value)
        if name == "values" and isinstance(owner, MapValue):
            return Seq(const(len(owner.slots)), owner.slots)
        if name == "values" and isinstance(owner, containers.FunctionMap):
            return owner.values()
        if name == "values" and isinstance(owner, containers.FocusMap):
            return owner
        if name == "plus":
            return containers.plus(owner, self.as_number(node, *arguments))
        if name == "union":
            return containers.union(owner, *arguments)
        if name == "is_empty":
            return dag.negate(dag.disjunction(owner.bits))
        raise self.fail(node, f"there is no method {name!r} here")

    # Comprehensions

    def elements(self, node: ast.expr, frame: Frame) -> list[tuple[Node, Any]]:
        """Return the elements that a generator runs over: for each place its value, and whether it
        exists."""
        if isinstance(node, ast.Call):
            if word := self.iteration(node, frame):
                return self.iterated(node, word, frame)
            if isinstance(node.func, ast.Attribute) and node.func.attr == "items":
                owner = self.value(node.func.value, frame)
                if isinstance(owner, MapValue) and not node.args and not node.keywords:
                    return [(TRUE, (const(i), v)) for i, v in enumerate(owner.slots)]
        value = self.value(node, frame)
        if not isinstance(value, Seq):
            raise self.fail(node, "a generator runs over a tuple, a map, enumerate or range")
        return [(dag.lt(const(i), value.length), v) for i, v in enumerate(value.slots)]

    def iteration(self, node: ast.Call, frame: Frame) -> str:
        """Return the word that a generator runs over, `enumerate` or `range`; "" for other
        calls."""
        word = word_of(self.value(node.func, frame)) if isinstance(node.func, ast.Name) else ""
        return word if word in ITERATIONS else ""

    def iterated(self, node: ast.Call, word: str, frame: Frame) -> list[tuple[Node, Any]]:
        """Return the elements that enumerate(xs) or range(n) runs over."""
        self.check_arguments(node, word)
        if word == "enumerate":
            inner = self.elements(node.args[0], frame)
            return [(e, (const(i), v)) for i, (e, v) in enumerate(inner)]
        count = self.integer(node.args[0], frame)
        if not count.is_const:
            raise self.fail(node, "range takes one constant")
        return [(TRUE, const(i)) for i in range(count.value)]

    def reduce(self, name: str, generator: ast.GeneratorExp, frame: Frame) -> Any:
        """Evaluate all, any, sum or tuple of a generator."""
        if len(generator.generators) != 1:
            raise self.fail(generator, "a comprehension has one generator; name a function")
        clause = generator.generators[0]
        if isinstance(clause.iter, (ast.Name, ast.Attribute)) or is_values(clause.iter):
            owner = self.value(clause.iter, frame)
            if isinstance(owner, containers.FunctionSeq):
                return self.search(name, generator, owner, frame)
            if isinstance(owner, containers.FocusMap) and name == "tuple" and not clause.ifs:
                inner = {**frame, **self.bound(clause.target, owner.value)}
                return replace(owner, value=self.value(generator.elt, inner))
        results: list[tuple[Node, Any]] = []
        for exists, element in self.elements(clause.iter, frame):
            inner = {**frame, **self.bound(clause.target, element)}
            kept = exists
            for test in clause.ifs:
                condition = self.under(kept, partial(self.boolean, test, inner))
                kept = dag.both(kept, condition)
            if kept is FALSE:
                continue
            value = self.under(kept, partial(self.value, generator.elt, inner))
            results.append((kept, ELEMENTS[name](self, generator.elt, value)))
        if name == "tuple":
            return containers.collected(self.shapes, results, filtered=bool(clause.ifs))
        return _REDUCE[name](results)

    def search(
        self, name: str, generator: ast.GeneratorExp, owner: containers.FunctionSeq, frame: Frame
    ) -> Any:
        """Evaluate all or any over an unbounded tuple; or, for a filtered tuple, its first element
        if there is one.

        A witness stands for the place of the first element that decides; `choices` say that it is
        the first.
        """
        clause = generator.generators[0]
        decides: list[ast.expr] = [*clause.ifs, *([] if name == "tuple" else [generator.elt])]

        def decided(index: Node) -> Node:
            inner = {**frame, **self.bound(clause.target, owner.at(index))}
            inside = dag.both(dag.le(ZERO, index), dag.lt(index, owner.length))
            tests = [self.under(inside, partial(self.boolean, test, inner)) for test in decides]
            if name == "all":
                tests[-1] = dag.negate(tests[-1])
            return dag.conjunction((inside, *tests))

        place = f"{self.place(generator)} {len(self.choices)}"
        first = dag.leaf(f"first[{place}]", -dag.INFINITE, dag.INFINITE)
        other = dag.leaf(f"{dag.BOUND}other[{place}]", -dag.INFINITE, dag.INFINITE)
        found = decided(first)
        earliest = dag.both(found, dag.le(first, other))
        self.choices.append(((other,), dag.either(dag.negate(decided(other)), earliest)))
        if name == "all":
            return dag.negate(found)
        if name == "any":
            return found
        if name != "tuple" or not clause.ifs:
            raise self.fail(generator, "this over an unbounded tuple needs a contract")
        inner = {**frame, **self.bound(clause.target, owner.at(first))}
        value = self.under(found, partial(self.value, generator.elt, inner))
        some = dag.leaf(f"count[{place}]", 1, dag.INFINITE)
        return Seq(dag.ite(found, some, ZERO), (value,))

    def bound(self, target: ast.expr, element: Any) -> Frame:
        """Return the names that a generator binds."""
        if isinstance(target, ast.Name):
            return {target.id: element}
        if isinstance(target, ast.Tuple):
            names = [t.id for t in target.elts if isinstance(t, ast.Name)]
            return dict(zip(names, element, strict=True))
        raise self.fail(target, "a generator binds one name, or two")


def has_default(field: Field[Any]) -> bool:
    """Whether a record may be built without this field."""
    return field.default is not MISSING


def is_values(node: ast.expr) -> bool:
    """Whether the expression is `mapping.values()`."""
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Attribute) and called.attr == "values"


def _total(results: list[tuple[Node, Any]]) -> Node:
    total = ZERO
    for kept, value in results:
        total = dag.add(total, dag.ite(kept, value, ZERO))
    return total


ELEMENTS: Mapping[str, Callable[[Evaluator, ast.AST, Any], Any]] = {
    "all": Evaluator.as_truth,
    "any": Evaluator.as_truth,
    "sum": Evaluator.as_number,
    "tuple": lambda _evaluator, _node, value: value,
}
"""The type that the elements of each reduction must have."""


_REDUCE: dict[str, Callable[[list[tuple[Node, Any]]], Node]] = {
    "all": lambda results: dag.conjunction(dag.either(dag.negate(k), v) for k, v in results),
    "any": lambda results: dag.disjunction(dag.both(k, v) for k, v in results),
    "sum": _total,
}
