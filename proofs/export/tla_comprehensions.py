"""Prints comprehensions of the model as TLA+: quantifiers, sequences and functions.

`all` and `any` become quantifiers over the set of the elements. `tuple` becomes `Mapped` and
`SelectSeq` over the sequence of the elements, and a `Map` of all its keys becomes a function.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from proofs.export.tla_expressions import Expressions
from proofs.export.tla_globals import Globals, NameScope
from proofs.export.tla_text import (
    Definition,
    Level,
    Term,
    applied,
    implication,
    inside,
    junction,
    let,
    prefixed,
)
from proofs.export.tla_types import element_of, kind_of, tuple_of


@dataclass(frozen=True, slots=True)
class GeneratorSource:
    """The elements that a generator runs over.

    Its first name runs over the set `values`, or in order over the sequence `sequence`. `second` is
    the meaning of the other name of a pair, given the spelling of the first. `of_map` is the map
    whose values the first name takes; `total` says that the set is 0, 1, ... up to an end.
    """

    names: tuple[str, ...]
    hints: tuple[Any, ...]
    values: str
    sequence: str
    second: Callable[[str], str] | None = None
    of_map: str = ""
    total: bool = False


class Comprehensions(Expressions):
    """Prints expressions, including comprehensions."""

    def __init__(self, declared: Globals) -> None:
        super().__init__(declared)
        self.words |= {
            "builtins.all": self._quantified,
            "builtins.any": self._quantified,
            "builtins.sum": self._sum,
            "builtins.tuple": self._collected,
            "builtins.max": lambda node, scope: self._extreme(node, scope, "Max"),
            "builtins.min": lambda node, scope: self._extreme(node, scope, "Min"),
            "language.Map": self._map,
        }

    def generator(self, node: ast.Call, scope: NameScope) -> ast.GeneratorExp:
        """Return the one comprehension that is the argument of a call."""
        inner = node.args[0] if len(node.args) == 1 else None
        if not isinstance(inner, ast.GeneratorExp) or len(inner.generators) != 1:
            raise self.fail(node, scope, "write one comprehension with one generator here")
        return inner

    def source(self, clause: ast.comprehension, scope: NameScope) -> GeneratorSource:
        """Return what a generator runs over: a tuple, enumerate, range, or a map's items or
        values."""
        target = clause.target.elts if isinstance(clause.target, ast.Tuple) else [clause.target]
        names = tuple(t.id for t in target if isinstance(t, ast.Name))
        over = clause.iter
        if isinstance(over, ast.Call) and isinstance(over.func, ast.Name):
            if over.func.id == "enumerate" and len(names) == 2:
                return self.enumerated(names, self.term(over.args[0], scope))
            if over.func.id == "range" and len(over.args) == 1 and len(names) == 1:
                return self.numbers(names, self.term(over.args[0], scope))
        if isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute):
            if over.func.attr == "items" and len(names) == 2:
                return self.items(names, self.term(over.func.value, scope))
            if over.func.attr == "values" and len(names) == 1:
                return self.map_values_source(names, self.term(over.func.value, scope))
        term = self.term(over, scope)
        if len(names) != 1 or kind_of(term.hint) not in ("tuple", "open"):
            raise self.fail(
                over,
                scope,
                "run over a tuple, enumerate(xs), range(n), map.items() or map.values()",
            )
        return GeneratorSource(names, (element_of(term.hint),), self.range_of(term).text, term.text)

    def numbers(self, names: tuple[str, ...], count: Term) -> GeneratorSource:
        """Return the elements of `range(count)`."""
        last = f"0..({inside(count, Level.ATOM)} - 1)"
        indices = self.globals.helper("Indices", [count.text]).text
        return GeneratorSource(names, (int,), last, indices, total=True)

    def enumerated(self, names: tuple[str, ...], xs: Term) -> GeneratorSource:
        """Return the elements of `enumerate(xs)`."""
        base = self.numbers(names, applied("Len", [xs.text]))
        owner = inside(xs, Level.ATOM)
        hints = (int, element_of(xs.hint))
        return GeneratorSource(
            names, hints, base.values, base.sequence, lambda i: f"{owner}[{i} + 1]", total=True
        )

    def items(self, names: tuple[str, ...], mapping: Term) -> GeneratorSource:
        """Return the elements of `mapping.items()`."""
        keys = f"DOMAIN {inside(mapping, Level.ATOM)}"
        indices = self.globals.helper("Indices", [f"Cardinality({keys})"]).text
        owner = inside(mapping, Level.ATOM)
        hints = (int, element_of(mapping.hint))
        return GeneratorSource(
            names, hints, keys, indices, lambda key: f"{owner}[{key}]", total=True
        )

    def map_values_source(self, names: tuple[str, ...], mapping: Term) -> GeneratorSource:
        """Return the elements of `mapping.values()`."""
        values = self.globals.helper("Values", [mapping.text]).text
        hint = element_of(mapping.hint)
        return GeneratorSource(
            names, (hint,), self.range_of(mapping).text, values, of_map=mapping.text
        )

    def opened(
        self, source: GeneratorSource, scope: NameScope
    ) -> tuple[str, NameScope, Callable[..., Term]]:
        """Return the first name's spelling, the scope inside, and how the second name is defined
        there."""
        inner, first = scope.bind(self.names, source.names[0], source.hints[0])
        if source.second is None:
            return first, inner, lambda body, *_used: body
        inner, other = inner.bind(self.names, source.names[1], source.hints[1])
        definition = Definition(other, Term(source.second(first)))
        name = source.names[1]

        def define(body: Term, *used: ast.expr) -> Term:
            return let([definition], body) if any(mentions(part, name) for part in used) else body

        return first, inner, define

    def filters(self, clause: ast.comprehension, inner: NameScope) -> list[Term]:
        """Return the conditions of a comprehension."""
        return [self.sometimes(test, inner) for test in clause.ifs]

    def _quantified(self, node: ast.Call, scope: NameScope) -> Term:
        generator = self.generator(node, scope)
        clause = generator.generators[0]
        source = self.source(clause, scope)
        first, inner, define = self.opened(source, scope)
        tests, body = self.filters(clause, inner), self.sometimes(generator.elt, inner)
        is_all = isinstance(node.func, ast.Name) and node.func.id == "all"
        if tests and is_all:
            body = implication(junction("/\\", tests), body)
        elif tests:
            body = junction("/\\", [*tests, body])
        body = define(body, generator.elt, *clause.ifs)
        sign = "\\A" if is_all else "\\E"
        return Term(prefixed(f"{sign} {first} \\in {source.values} :", body.text), Level.OPEN, bool)

    def _collected(self, node: ast.Call, scope: NameScope) -> Term:
        """Return the sequence of a comprehension's elements."""
        generator = self.generator(node, scope)
        clause = generator.generators[0]
        source = self.source(clause, scope)
        first, inner, define = self.opened(source, scope)
        sequence = source.sequence
        if clause.ifs:
            test = define(junction("/\\", self.filters(clause, inner)), *clause.ifs)
            chosen = prefixed(f"LAMBDA {first} :", test.text)
            sequence = applied("SelectSeq", [sequence, chosen]).text
        body = self.sometimes(generator.elt, inner)
        hint = tuple_of(body.hint)
        if body.text == first:
            return Term(sequence, Level.SUM if "\\o" in sequence else Level.ATOM, hint)
        given = prefixed(f"LAMBDA {first} :", define(body, generator.elt).text)
        return self.globals.helper("Mapped", [given, sequence], hint)

    def _sum(self, node: ast.Call, scope: NameScope) -> Term:
        return self.globals.helper("SumSeq", [self._collected(node, scope).text], int)

    def _extreme(self, node: ast.Call, scope: NameScope, helper: str) -> Term:
        if len(node.args) == 1 and not node.keywords:
            sequence = self._collected(node, scope)
            return self.globals.helper(f"{helper}Seq", [sequence.text], int)
        if len(node.args) != 2 or node.keywords:
            raise self.fail(node, scope, "max and min take two ints, or a comprehension")
        return self.globals.helper(helper, [self.text(a, scope) for a in node.args], int)

    def _map(self, node: ast.Call, scope: NameScope) -> Term:
        """Print `Map(tuple(...))`: over a map's keys the function itself, else from the
        sequence."""
        argument = node.args[0]
        if isinstance(argument, ast.Call) and len(argument.args) == 1:
            generator = argument.args[0]
            if isinstance(generator, ast.GeneratorExp) and len(generator.generators) == 1:
                source = self.source(generator.generators[0], scope)
                if (source.total or source.of_map) and not generator.generators[0].ifs:
                    return self.function(node, generator, source, scope)
        sequence = self.term(argument, scope)
        hint = self.map_of(node, scope, element_of(sequence.hint))
        return self.globals.helper("MapOf", [sequence.text], hint)

    def function(
        self, node: ast.Call, generator: ast.GeneratorExp, source: GeneratorSource, scope: NameScope
    ) -> Term:
        """Return a map given by its value for each key, or for each value of another map."""
        first, inner, define = self.opened(source, scope)
        body = define(self.sometimes(generator.elt, inner), generator.elt)
        hint = self.map_of(node, scope, body.hint)
        if source.of_map:
            given = prefixed(f"LAMBDA {first} :", body.text)
            return self.globals.helper("Mapped", [given, source.of_map], hint)
        opening = f"[{first} \\in {source.values} |->"
        return Term(prefixed(opening, body.text) + "]", hint=hint)


def mentions(node: ast.AST, name: str) -> bool:
    """Whether a name occurs."""
    return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(node))
