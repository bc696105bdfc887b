"""Prints expressions of the model as TLA+ terms.

Every expression is printed where it stands, with its own names. Types are tracked only as far as
the text depends on them: `xs[i]` is `xs[i + 1]` for a tuple and `xs[i]` for a map.
"""

from __future__ import annotations

import ast
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import IntEnum
from types import FunctionType, ModuleType
from typing import Any

from model import language
from proofs.export.tla_globals import Globals, NameScope, module_of
from proofs.export.tla_text import (
    Level,
    Term,
    applied,
    changed,
    compared,
    conditional,
    delimited,
    hang,
    infix,
    inside,
    junction,
    negated,
)
from proofs.export.tla_types import element_of, field_type, kind_of, tuple_of
from proofs.lift.annotations import LiftError

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "=",
    ast.NotEq: "#",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Mod: "%",
}


class ExportError(LiftError):
    """The text cannot be printed as TLA+; the message has its place, what is wrong, and a cure."""


class Expressions(ABC):
    """Prints expressions. `guarded` tells which functions require something."""

    def __init__(self, declared: Globals) -> None:
        self.globals = declared
        self.names = declared.names
        self.guards: list[Term] | None = None
        self.words: dict[str, Callable[[ast.Call, NameScope], Term]] = {
            "builtins.len": self._len,
            "dataclasses.replace": self._replaced,
            "language.Map.filled": self._filled,
            "language.span": self._span,
            "language.fold": self._fold,
            "language.map_values": self._map_values,
            "faults.spend": self._spend,
        }

    @abstractmethod
    def guarded(self, function: FunctionType) -> bool:
        """Whether the function, or one that it calls, has a `require` or `within_scope`."""

    # Places and meanings

    def fail(self, node: ast.AST, scope: NameScope, problem: str) -> ExportError:
        """Return an error at a place."""
        line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0) + 1
        file = self.globals.model.files[module_of(scope.function)]
        name = scope.function.__name__
        return ExportError(f"{file}:{line}:{column}: in {name}: {problem}: {ast.unparse(node)}")

    def meaning(self, node: ast.expr, scope: NameScope) -> Any:
        """Return a term; or a function, class, module or part of the configuration as the object
        itself."""
        if isinstance(node, ast.Name):
            found = scope.meaning(node.id)
            if found is None:
                raise self.fail(node, scope, "this name is not known; import or define it")
            return self.object_or_constant(node, scope, node.id, found)
        if isinstance(node, ast.Attribute):
            return self.attribute(node, scope)
        return self.term(node, scope)

    def object_or_constant(self, node: ast.expr, scope: NameScope, name: str, found: Any) -> Any:
        """Return a constant of the model by its name; an object that is no value of the language
        stays itself."""
        if isinstance(found, (Term, ModuleType)) or callable(found):
            return found
        if self.globals.configuration_of(type(found)) is not None:
            return found
        try:
            return self.globals.constant(name, found)
        except ValueError as error:
            raise self.fail(node, scope, f"{error}; use an int, an enum or a record") from error

    def attribute(self, node: ast.Attribute, scope: NameScope) -> Any:
        """Print `owner.name`: of a record, a module, an enum, a class or the configuration."""
        owner = self.meaning(node.value, scope)
        if isinstance(owner, Term):
            return self.field(node, owner, scope)
        if not hasattr(owner, node.attr):
            raise self.fail(node, scope, f"there is no {node.attr!r} here; check the spelling")
        found = getattr(owner, node.attr)
        if self.globals.configuration_of(type(owner)) is not None:
            return self.configuration(node, owner, scope)
        if isinstance(found, IntEnum):
            return self.globals.member(found)
        return self.object_or_constant(node, scope, node.attr, found)

    def configuration(self, node: ast.Attribute, owner: Any, scope: NameScope) -> Any:
        """Return a part of the configuration, or one of its numbers."""
        found = getattr(owner, node.attr)
        if self.globals.configuration_of(type(found)) is not None:
            return found
        try:
            return self.globals.configuration_value(owner, node.attr)
        except ValueError as error:
            raise self.fail(node, scope, f"{error}; use an int, a bool or an enum") from error

    def field(self, node: ast.Attribute, owner: Term, scope: NameScope) -> Term:
        """Print a field of a record."""
        try:
            hint = field_type(owner.hint, node.attr) if kind_of(owner.hint) == "record" else None
        except KeyError:
            raise self.fail(node, scope, f"no field {node.attr!r}; check the spelling") from None
        return Term(f"{inside(owner, Level.ATOM)}.{node.attr}", hint=hint)

    # Expressions by form

    def term(self, node: ast.expr, scope: NameScope) -> Term:
        """Print an expression."""
        if isinstance(node, (ast.Name, ast.Attribute)):
            found = self.meaning(node, scope)
            if isinstance(found, Term):
                return found
            raise self.fail(node, scope, "this is no value; name a value or call it")
        printer = getattr(self, f"_{type(node).__name__}", None)
        if printer is None:
            raise self.fail(node, scope, "this expression is not in the subset; write a function")
        term: Term = printer(node, scope)
        return term

    def text(self, node: ast.expr, scope: NameScope) -> str:
        """Print an expression at a place that needs no parentheses."""
        return self.term(node, scope).text

    def condition(self, node: ast.expr, scope: NameScope) -> Term:
        """Print an expression that must be a bool."""
        term = self.term(node, scope)
        if kind_of(term.hint) not in ("bool", "open"):
            raise self.fail(node, scope, "a condition must be a bool; compare it with something")
        return term

    def sometimes(self, node: ast.expr, scope: NameScope) -> Term:
        """Print an expression that may not be reached, so no requirement inside it may be hoisted
        out of it."""
        outer, self.guards = self.guards, None
        try:
            return self.term(node, scope)
        finally:
            self.guards = outer

    def _Constant(self, node: ast.Constant, scope: NameScope) -> Term:
        if not isinstance(node.value, int):
            raise self.fail(node, scope, "only bools and ints are values; use an enum")
        return self.globals.value(node.value)

    def _UnaryOp(self, node: ast.UnaryOp, scope: NameScope) -> Term:
        operand = self.term(node.operand, scope)
        if isinstance(node.op, ast.Not):
            return negated(operand)
        if isinstance(node.op, ast.USub):
            return Term(hang("-", inside(operand, Level.ATOM)), Level.SUM, int)
        raise self.fail(node, scope, "this operator is not in the subset; there are not and -")

    def _BinOp(self, node: ast.BinOp, scope: NameScope) -> Term:
        operator = ARITHMETIC.get(type(node.op))
        if operator is None:
            raise self.fail(node, scope, "this operator is not in the subset; there are + - * %")
        left, right = self.term(node.left, scope), self.term(node.right, scope)
        chained = is_sum(node) and is_sum(node.left)
        first = left.text if chained else inside(left, Level.ATOM)
        return Term(infix(first, operator, inside(right, Level.ATOM)), Level.SUM, int)

    def _BoolOp(self, node: ast.BoolOp, scope: NameScope) -> Term:
        first = self.condition(node.values[0], scope)
        others = [self.sometimes(part, scope) for part in node.values[1:]]
        return junction("/\\" if isinstance(node.op, ast.And) else "\\/", [first, *others])

    def _IfExp(self, node: ast.IfExp, scope: NameScope) -> Term:
        condition = self.condition(node.test, scope)
        return conditional(
            condition, self.sometimes(node.body, scope), self.sometimes(node.orelse, scope)
        )

    def _Compare(self, node: ast.Compare, scope: NameScope) -> Term:
        terms = [self.term(part, scope) for part in (node.left, *node.comparators)]
        pairs = zip(terms, node.ops, terms[1:], strict=False)
        return junction("/\\", [self.comparison(node, o, a, b, scope) for a, o, b in pairs])

    def comparison(
        self, node: ast.Compare, operator: ast.cmpop, left: Term, right: Term, scope: NameScope
    ) -> Term:
        """Print one comparison."""
        if isinstance(operator, (ast.In, ast.NotIn)):
            sign = "\\in" if isinstance(operator, ast.In) else "\\notin"
            is_tuple = kind_of(right.hint) == "tuple"
            return compared(left, sign, self.range_of(right) if is_tuple else right)
        sign = COMPARISONS.get(type(operator), "")
        if not sign:
            raise self.fail(node, scope, "this comparison is not in the subset; write == or in")
        return compared(left, sign, right)

    def _Tuple(self, node: ast.Tuple, scope: NameScope) -> Term:
        if not node.elts:
            return Term("<<>>", hint=tuple)
        joined: Term | None = None
        for part in node.elts:
            if isinstance(part, ast.Starred):
                more = self.term(part.value, scope)
                joined = more if joined is None else self.concatenated(joined, more)
            else:
                joined = self.appended(joined, self.term(part, scope))
        assert joined is not None
        return joined

    def concatenated(self, left: Term, right: Term) -> Term:
        """Print two sequences as one."""
        text = infix(inside(left, Level.ATOM), "\\o", inside(right, Level.ATOM))
        return Term(text, Level.SUM, right.hint)

    def appended(self, sequence: Term | None, last: Term) -> Term:
        """Print a sequence with one more element."""
        if sequence is None:
            return Term(delimited("<<", [last.text], ">>"), hint=tuple_of(last.hint))
        return applied("Append", [sequence.text, last.text], tuple_of(last.hint))

    # Subscripts

    def _Subscript(self, node: ast.Subscript, scope: NameScope) -> Term:
        owner = self.term(node.value, scope)
        if isinstance(node.slice, ast.Slice):
            return self.slice(node, node.slice, owner, scope)
        kind = kind_of(owner.hint)
        if kind == "map":
            place = self.text(node.slice, scope)
        elif kind == "tuple":
            place = self.position(node.slice, owner, scope)
        else:
            raise self.fail(
                node, scope, "a map or a tuple of a known type is needed; declare it by a function"
            )
        return Term(f"{inside(owner, Level.ATOM)}[{place}]", hint=element_of(owner.hint))

    def position(self, index: ast.expr, owner: Term, scope: NameScope) -> str:
        """Print the position of a tuple's element in its sequence, which begins at 1."""
        number = literal(index)
        if number is None:
            return infix(inside(self.term(index, scope), Level.SUM), "+", "1")
        if number >= 0:
            return str(number + 1)
        length = applied("Len", [owner.text]).text
        return length if number == -1 else f"{length} - {-number - 1}"

    def slice(self, node: ast.Subscript, part: ast.Slice, owner: Term, scope: NameScope) -> Term:
        """Print `xs[:k]`, `xs[k:]` and `xs[-k:]`."""
        if part.step is not None or (part.lower is None) == (part.upper is None):
            raise self.fail(node, scope, "a slice has one end; write xs[:k], xs[k:] or xs[-k:]")
        end = part.upper if part.lower is None else part.lower
        assert end is not None
        backwards = isinstance(end, ast.UnaryOp) and isinstance(end.op, ast.USub)
        if backwards and part.upper is not None:
            raise self.fail(node, scope, "this slice is not in the subset; write xs[: len(xs) - k]")
        if isinstance(end, ast.UnaryOp) and backwards:
            return self.cut("Final", owner, end.operand, scope)
        return self.cut("Take" if part.lower is None else "Drop", owner, end, scope)

    def cut(self, helper: str, owner: Term, count: ast.expr, scope: NameScope) -> Term:
        """Print a part of a sequence."""
        return self.globals.helper(helper, [owner.text, self.text(count, scope)], owner.hint)

    # Calls

    def _Call(self, node: ast.Call, scope: NameScope) -> Term:
        if isinstance(node.func, ast.Attribute):
            owner = self.meaning(node.func.value, scope)
            if isinstance(owner, Term):
                return self.method(node, node.func.attr, owner, scope)
        called = self.meaning(node.func, scope)
        if isinstance(called, Term):
            raise self.fail(node, scope, "a value cannot be called; the language is first order")
        word = self.words.get(f"{module_of(called)}.{getattr(called, '__qualname__', '')}")
        if word is not None:
            return word(node, scope)
        if isinstance(called, type) and is_dataclass(called):
            return self.record(node, called, scope)
        if self.globals.model.tree_of(called) is None or module_of(called) == "language":
            raise self.fail(node, scope, "this cannot be called; write a function of the model")
        if node.keywords:
            raise self.fail(node, scope, "a function's arguments are given by position")
        return self.call(node, called, [self.meaning(a, scope) for a in node.args], scope)

    def call(
        self, node: ast.Call, function: FunctionType, arguments: Sequence[Any], scope: NameScope
    ) -> Term:
        """Print the application of a function of the model. Parts of the configuration are not
        passed, because they are global."""
        texts = [a.text for a in arguments if isinstance(a, Term)]
        hint = typing.get_type_hints(function, include_extras=True).get("return")
        name = self.globals.operator(function)
        if self.guarded(function):
            if self.guards is None:
                raise self.fail(
                    node,
                    scope,
                    "what this function requires cannot be asked for here; call it outside of"
                    " conditional expressions and comprehensions",
                )
            self.guards.append(applied(self.enabled_name(function), texts, bool))
        return applied(name, texts, hint)

    @abstractmethod
    def enabled_name(self, function: FunctionType) -> str:
        """Return the operator that says what a function requires."""

    def operator_of(self, node: ast.expr, scope: NameScope) -> tuple[str, Any]:
        """Return a function that is an argument: its operator and the type of its results."""
        function = self.meaning(node, scope)
        if not isinstance(function, FunctionType) or self.guarded(function):
            raise self.fail(node, scope, "name a function of the model that requires nothing")
        hint = typing.get_type_hints(function, include_extras=True).get("return")
        return self.globals.operator(function), hint

    def record(self, node: ast.Call, cls: type, scope: NameScope) -> Term:
        """Print a record made of its fields."""
        names = [f.name for f in fields(cls)]
        given = dict(zip(names, node.args, strict=False))
        given.update({kw.arg: kw.value for kw in node.keywords if kw.arg})
        if set(given) != set(names):
            raise self.fail(node, scope, f"give each of the fields {', '.join(names)}")
        items = [hang(f"{name} |-> ", self.text(given[name], scope)) for name in names]
        return Term(delimited("[", items, "]"), hint=cls)

    def method(self, node: ast.Call, name: str, owner: Term, scope: NameScope) -> Term:
        """Print a method of a map or of a set."""
        arguments = [self.term(a, scope) for a in node.args]
        left = inside(owner, Level.ATOM)
        if name == "put":
            return changed(owner, [(f"[{arguments[0].text}]", arguments[1])])
        if name == "values":
            hint = tuple_of(element_of(owner.hint))
            return self.globals.helper("Values", [owner.text], hint)
        if name == "plus":
            single = delimited("{", [arguments[0].text], "}")
            return Term(infix(left, "\\cup", single), Level.SUM, owner.hint)
        if name == "union":
            other = inside(arguments[0], Level.ATOM)
            return Term(infix(left, "\\cup", other), Level.SUM, owner.hint)
        if name == "is_empty":
            return compared(owner, "=", Term("{}"))
        raise self.fail(node, scope, f"no method {name!r}; see model/language.py for those there")

    # Words of the language and of Python

    def range_of(self, term: Term) -> Term:
        """Return the set of the elements of a sequence or a map."""
        return self.globals.helper("Range", [term.text])

    def _len(self, node: ast.Call, scope: NameScope) -> Term:
        return applied("Len", [self.text(node.args[0], scope)], int)

    def _replaced(self, node: ast.Call, scope: NameScope) -> Term:
        owner = self.term(node.args[0], scope)
        places = [(f".{kw.arg}", self.term(kw.value, scope)) for kw in node.keywords if kw.arg]
        return changed(owner, places)

    def _filled(self, node: ast.Call, scope: NameScope) -> Term:
        size, value = (self.term(a, scope) for a in node.args)
        hint = self.map_of(node, scope, value.hint)
        return self.globals.helper("Filled", [size.text, value.text], hint)

    def map_of(self, node: ast.Call, scope: NameScope, hint: Any) -> Any:
        """Return the type of maps to such values."""
        return language.Map[int, hint] if hint is not None else language.Map

    def _span(self, node: ast.Call, scope: NameScope) -> Term:
        hint = language.Set
        return self.globals.helper("Span", [self.text(a, scope) for a in node.args], hint)

    def _fold(self, node: ast.Call, scope: NameScope) -> Term:
        step, hint = self.operator_of(node.args[1], scope)
        items, start = (self.text(a, scope) for a in node.args[2:])
        return self.globals.helper("FoldSeq", [step, items, start], hint)

    def _spend(self, node: ast.Call, scope: NameScope) -> Term:
        """Print `model.faults.spend`: a requirement and a count for each fault that the cost
        names."""
        k, world, cost = node.args
        if not isinstance(cost, ast.Call) or self.guards is None:
            raise self.fail(node, scope, "write spend(k, w, Faults(...)) outside of conditions")
        places = []
        for fault in cost.keywords:
            texts = FaultText(ast.unparse(k), ast.unparse(world), str(fault.arg))
            times = ast.unparse(fault.value)
            demand = texts.allowed if times == "1" else f"({times}) == 0 or ({texts.allowed})"
            self.guards.append(self.condition(parsed(demand), scope))
            counted = self.term(parsed(f"{texts.happened} + ({times})"), scope)
            places.append((f".faults.{fault.arg}", counted))
        owner = self.term(world, scope)
        bounds = self.meaning(parsed(f"{ast.unparse(k)}.bounds"), scope)
        return owner if getattr(bounds, "unbounded", False) else changed(owner, places)

    def _map_values(self, node: ast.Call, scope: NameScope) -> Term:
        function, result = self.operator_of(node.args[1], scope)
        mapping = self.text(node.args[2], scope)
        hint = self.map_of(node, scope, result)
        return self.globals.helper("Mapped", [function, mapping], hint)


@dataclass(frozen=True, slots=True)
class FaultText:
    """A fault in the words of the model."""

    k: str
    world: str
    fault: str

    @property
    def happened(self) -> str:
        """The text for how often the fault has happened."""
        return f"{self.world}.faults.{self.fault}"

    @property
    def allowed(self) -> str:
        """The text for whether the scope allows it once more."""
        left = f"{self.happened} < {self.k}.budgets.{self.fault}"
        return f"{self.k}.bounds.faults.{self.fault} > 0 and {left}"


def parsed(text: str) -> ast.expr:
    """Parse an expression."""
    return ast.parse(text, mode="eval").body


def is_sum(node: ast.expr) -> bool:
    """Whether this is a sum or a difference, which needs no parentheses on the left in TLA+."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub))


def literal(node: ast.expr) -> int | None:
    """Return the number of an int literal, perhaps with a sign; None for another expression."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        positive = literal(node.operand)
        return None if positive is None else -positive
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    return None
