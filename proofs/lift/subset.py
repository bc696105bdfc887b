"""Checks that the model's text stays in its subset of Python, before anything is lifted.

Each refusal names file, line, column and function, quotes the text, and says what to write instead.
mypy checks types. The evaluator refuses, with the same kind of message, what only evaluation can
find (an unknown field, a condition that is not a bool).
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping

from proofs.lift import names as meanings
from proofs.lift.refusal import Refusal
from proofs.lift.source import Model
from proofs.lift.words import BUILTINS, REDUCTIONS
from proofs.lift.words import STATEMENTS as WORDS_BY_THEMSELVES

STATEMENTS: Mapping[type[ast.stmt], str] = {
    ast.For: "use a comprehension, or fold(k, step, items, start)",
    ast.While: "use a comprehension, or fold(k, step, items, start)",
    ast.Try: "return an Error; a rule that cannot happen is refused by require(...)",
    ast.Raise: "return an Error; a rule that cannot happen is refused by require(...)",
    ast.Assert: "in a rule write require(...); elsewhere make it a guarantee",
    ast.With: "the model has no side effects",
    ast.AugAssign: "give the new value a name of its own",
    ast.AnnAssign: "write `name = value`; the type is inferred",
    ast.Delete: "values are immutable",
    ast.Global: "pass the value as an argument",
    ast.Nonlocal: "pass the value as an argument",
    ast.FunctionDef: "define the function at the top of the module",
    ast.ClassDef: "define the record at the top of the module",
    ast.Import: "import at the top of the module",
    ast.ImportFrom: "import at the top of the module",
    ast.Match: "write if / elif / else",
    ast.Pass: "return a value on every path",
}

EXPRESSIONS: Mapping[type[ast.expr], str] = {
    ast.Lambda: "define a function at the top of the module",
    ast.ListComp: "write tuple(... for ...)",
    ast.SetComp: "use a Set of the language",
    ast.DictComp: "use Map(tuple(...))",
    ast.List: "write a tuple",
    ast.Dict: "use a Map, or a function of the key",
    ast.Set: "use a Set of the language",
    ast.JoinedStr: "the model has no strings",
    ast.NamedExpr: "assign in a statement of its own",
    ast.Await: "the model has no side effects",
    ast.Yield: "return a tuple",
    ast.YieldFrom: "return a tuple",
}

OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Mod, ast.And, ast.Or, ast.Not, ast.USub)
COMPARISONS = (
    ast.Eq,
    ast.NotEq,
    ast.Lt,
    ast.LtE,
    ast.Gt,
    ast.GtE,
    ast.In,
    ast.NotIn,
)


class SubsetError(Exception):
    """The model's text leaves the subset; the message lists each place with its cure."""

    exit_code = 2

    def __init__(self, refusals: tuple[Refusal, ...]) -> None:
        super().__init__("\n".join(map(str, refusals)))
        self.refusals = refusals


class Checker:
    """Checks one function."""

    def __init__(self, file: str, tree: ast.FunctionDef, known: frozenset[str]) -> None:
        self.file = file
        self.tree = tree
        self.known = known
        self.refusals: list[Refusal] = []

    def refuse(self, node: ast.AST, problem: str, cure: str) -> None:
        """Record a place outside the subset."""
        line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0) + 1
        refusal = Refusal(self.file, line, column, self.tree.name, problem, cure)
        self.refusals.append(refusal)

    def check(self) -> list[Refusal]:
        """Return all refusals of the function."""
        arguments = self.tree.args
        extra = arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults
        extra = extra or arguments.posonlyargs
        if extra:
            self.refuse(self.tree, "defaults, *args and **kwargs", "name each parameter")
        names = {a.arg for a in arguments.args}
        for argument in arguments.args:
            self.named(argument, argument.arg)
            if argument.annotation is None:
                self.refuse(argument, f"{argument.arg} has no type", "write its type")
        if self.tree.returns is None:
            self.refuse(self.tree, "no result type", "write `-> Type`")
        if not self.block(self.tree.body, names):
            self.refuse(self.tree, "a path ends without a result", "return on every path")
        return self.refusals

    def block(self, statements: list[ast.stmt], names: set[str]) -> bool:
        """Check statements; return whether each path through them returns."""
        for position, statement in enumerate(statements):
            if isinstance(statement, ast.Return):
                self.returned(statement, names)
                if position + 1 < len(statements):
                    self.refuse(statements[position + 1], "text after return", "delete it")
                return True
            if isinstance(statement, ast.If):
                self.expression(statement.test, names)
                then = self.block(statement.body, set(names))
                if self.block(statement.orelse, set(names)) and then:
                    return True
            elif isinstance(statement, ast.Assign):
                self.assignment(statement, names)
            elif isinstance(statement, ast.Expr):
                self.lone_expression(statement, names)
            else:
                cure = STATEMENTS.get(type(statement), "see model/language.py")
                kind = type(statement).__name__
                self.refuse(statement, f"a {kind} statement is not in the subset", cure)
        return False

    def returned(self, statement: ast.Return, names: set[str]) -> None:
        """Check that a return has a value."""
        if statement.value is None:
            self.refuse(statement, "return without a value", "return the result")
        else:
            self.expression(statement.value, names)

    def assignment(self, statement: ast.Assign, names: set[str]) -> None:
        """Check that an assignment gives one fresh name one value."""
        self.expression(statement.value, names)
        target = statement.targets[0]
        if len(statement.targets) != 1 or not isinstance(target, ast.Name):
            self.refuse(statement, "an assignment to more than a name", "assign to one name")
            return
        if target.id in names:
            self.refuse(target, f"{target.id} has a value already", "take a fresh name")
        elif target.id in self.known and not meanings.hides_word(target.id):
            self.refuse(target, f"{target.id} is a name of the module", "take a fresh name")
        self.named(target, target.id)
        names.add(target.id)

    def named(self, node: ast.AST, name: str) -> None:
        """Check that a name of the function's own hides no word."""
        if meanings.hides_word(name):
            self.refuse(node, f"{name} hides the word of the language", "take another name")

    def lone_expression(self, statement: ast.Expr, names: set[str]) -> None:
        """Check that only docstrings, require and within_scope stand alone."""
        value = statement.value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return
        called = value.func if isinstance(value, ast.Call) else None
        name = called.id if isinstance(called, ast.Name) else ""
        if name in WORDS_BY_THEMSELVES:
            self.expression(value, names)
            return
        self.refuse(statement, f"`{ast.unparse(value)}` has no effect", "delete it, or return it")

    def expression(self, node: ast.expr, names: set[str]) -> None:
        """Check an expression."""
        if type(node) in EXPRESSIONS:
            kind = type(node).__name__
            self.refuse(node, f"{kind} is not in the subset", EXPRESSIONS[type(node)])
        elif isinstance(node, ast.GeneratorExp):
            self.refuse(node, "a generator by itself", "wrap it: tuple(... for ...)")
        elif isinstance(node, ast.Constant):
            self.constant(node)
        elif isinstance(node, ast.Name):
            if node.id not in names and node.id not in self.known:
                self.refuse(node, f"{node.id} is not known", "import or define it")
        elif isinstance(node, ast.Call):
            self.call(node, names)
        else:
            self.operators(node)
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.expression(child, names)
                elif isinstance(child, ast.keyword):
                    self.expression(child.value, names)

    def operators(self, node: ast.expr) -> None:
        """Check that operators and comparisons are those of the subset."""
        operator = getattr(node, "op", None)
        if operator is not None and not isinstance(operator, OPERATORS):
            text = ast.unparse(node)
            self.refuse(node, f"operator not in the subset: {text}", "there are + - * %")
        if isinstance(node, ast.Compare):
            for operator in node.ops:
                if not isinstance(operator, COMPARISONS):
                    self.refuse(node, "`is` compares identities", "write == or !=")

    def constant(self, node: ast.Constant) -> None:
        """Check that constants are bools and ints."""
        if not isinstance(node.value, (bool, int)):
            cure = "use Kafka's sentinel (-1)" if node.value is None else "use an enum or an int"
            self.refuse(node, f"{node.value!r} is no value of the model", cure)

    def call(self, node: ast.Call, names: set[str]) -> None:
        """Check a call of a name or a method; a generator may stand only inside all, any, sum or
        tuple."""
        if any(keyword.arg is None for keyword in node.keywords):
            self.refuse(node, "**keywords", "name each argument")
        if not isinstance(node.func, (ast.Name, ast.Attribute)):
            self.refuse(node, "a call of an expression", "call a function by its name")
        self.expression(node.func, names)
        reduces = isinstance(node.func, ast.Name) and node.func.id in REDUCTIONS
        for argument in node.args:
            if isinstance(argument, ast.GeneratorExp) and reduces and len(node.args) == 1:
                self.generator(argument, names)
            else:
                self.expression(argument, names)
        for keyword in node.keywords:
            self.expression(keyword.value, names)

    def generator(self, node: ast.GeneratorExp, names: set[str]) -> None:
        """Check that a generator is the only one, and binds one or two names."""
        if len(node.generators) != 1:
            self.refuse(node, "more than one generator", "name a function for the inner one")
        clause = node.generators[0]
        self.expression(clause.iter, names)
        bound = clause.target.elts if isinstance(clause.target, ast.Tuple) else [clause.target]
        inner = names | {name.id for name in bound if isinstance(name, ast.Name)}
        for name in bound:
            if isinstance(name, ast.Name):
                self.named(name, name.id)
            else:
                self.refuse(name, "a generator binds one name, or two", "bind names only")
        for test in clause.ifs:
            self.expression(test, inner)
        self.expression(node.elt, inner)


@functools.lru_cache(maxsize=4096)
def called(tree: ast.FunctionDef) -> frozenset[str]:
    """Return the names that a function calls, or passes on to be called. The result is cached,
    because a patched model shares most trees with the model without patches."""
    return frozenset(calls(tree))


def calls(tree: ast.FunctionDef) -> Iterator[str]:
    """Yield the names that `called` collects; decorators are declarations, not calls."""
    for node in (inner for statement in tree.body for inner in ast.walk(statement)):
        if isinstance(node, ast.Call):
            for callee in (node.func, *node.args):
                if isinstance(callee, ast.Name):
                    yield callee.id
                elif isinstance(callee, ast.Attribute) and callee is node.func:
                    yield callee.attr


def recursive(model: Model) -> Iterator[Refusal]:
    """Yield functions that reach themselves."""
    by_name = {n: t for (m, n), t in model.functions.items() if model.is_lifted(m)}
    edges = {n: called(t) & by_name.keys() for n, t in by_name.items()}
    for (module, name), tree in model.functions.items():
        if not model.is_lifted(module):
            continue
        reached: set[str] = set()
        frontier = set(edges[name])
        while frontier:
            reached |= frontier
            frontier = {d for c in frontier for d in edges[c]} - reached
        if name in reached:
            file = model.files[module]
            cure = "use fold(k, step, items, start)"
            yield Refusal(file, tree.lineno, 1, name, "the function calls itself", cure)


def refusals(model: Model) -> tuple[Refusal, ...]:
    """Return every place where the model leaves the subset."""
    found: list[Refusal] = []
    for (module, _), tree in model.functions.items():
        if model.is_lifted(module):
            known = frozenset(vars(model.modules[module])).union(BUILTINS)
            found += Checker(model.files[module], tree, known).check()
    return (*found, *meanings.refusals(model), *recursive(model))


@functools.lru_cache(maxsize=64)
def check(model: Model) -> None:
    """Refuse a model that leaves the subset. Raises SubsetError."""
    found = refusals(model)
    if found:
        raise SubsetError(found)
