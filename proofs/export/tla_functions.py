"""Prints functions of the model as TLA+ operators.

Theory of operation. A body is read as a `Block`: definitions and demands (`require`,
`within_scope`, and the demands of called functions), then a result or a choice between two blocks.
An ordinary function prints as its value, and one with demands also as `NAME_enabled`, its demands.
A rule of the world prints as an action: its demands, then the world it leads to. Definitions are
collected in one LET, because TLC computes them only where they are used.
"""

from __future__ import annotations

import ast
import inspect
import re
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from proofs.export.tla_comprehensions import Comprehensions
from proofs.export.tla_expressions import ExportError
from proofs.export.tla_globals import Globals, NameScope, key_of, module_of
from proofs.export.tla_text import (
    TRUE,
    Definition,
    Term,
    applied,
    bulleted,
    comment,
    conditional,
    hang,
    junction,
    let,
    prefixed,
)

GUARDS = ("require", "within_scope")
"""Statements that demand something."""
DEMANDING = (*GUARDS, "spend")
WORLD = "world"


@dataclass(frozen=True, slots=True)
class Block:
    """A body: definitions, demands in their order, then `result`, or a choice by `condition`."""

    definitions: tuple[Definition, ...]
    demands: tuple[Term, ...]
    result: Term | None = None
    condition: Term | None = None
    branches: tuple[Block, ...] = ()


class Functions(Comprehensions):
    """Prints functions: ordinary ones, rules of the world, and guarantees and witnesses."""

    def __init__(
        self,
        declared: Globals,
        rules: Sequence[FunctionType],
        sentences: Sequence[FunctionType],
    ) -> None:
        super().__init__(declared)
        self.rules = {key_of(rule) for rule in rules}
        self.sentences = {key_of(sentence) for sentence in sentences}
        self._guarded: dict[str, bool] = {}
        self._order: list[FunctionType] = []
        self._gather([*rules, *sentences])
        for function in self._order:
            declared.operator(function)
        self._enabled = {
            key_of(f): self.names.claim(f"{declared.operator(f)}_enabled")
            for f in self._order
            if self.guarded(f) and not self.is_root(f)
        }

    @property
    def order(self) -> tuple[FunctionType, ...]:
        """All functions that are used, each after those it calls."""
        return tuple(self._order)

    def is_root(self, function: FunctionType) -> bool:
        """Whether the function is about the current world: a rule, or a guarantee."""
        return key_of(function) in self.rules | self.sentences

    # Calls between functions

    def tree(self, function: FunctionType) -> ast.FunctionDef:
        """Return the syntax tree of a function of the model."""
        tree = self.globals.model.tree_of(function)
        if tree is None:
            raise ExportError(f"{function.__name__} is no function of the model; define it there")
        return tree

    def _gather(self, roots: Sequence[FunctionType]) -> None:
        """Put everything that the roots use into an order in which it can be declared."""
        found: dict[str, FunctionType] = {}
        waiting: list[FunctionType] = list(roots)
        while waiting:
            function = waiting.pop()
            if key_of(function) not in found:
                found[key_of(function)] = function
                waiting += self._callees(function)
        begun: set[str] = set()
        place = {name: number for number, name in enumerate(self.globals.model.modules)}
        for function in sorted(
            found.values(), key=lambda f: (place[module_of(f)], self.tree(f).lineno)
        ):
            self._visit(function, begun)

    def _visit(self, function: FunctionType, begun: set[str]) -> None:
        """Visit callees first. Raises ExportError if a function calls itself."""
        if function in self._order:
            return
        if key_of(function) in begun:
            raise ExportError(
                f"{key_of(function)} calls itself, which the language forbids; use fold"
            )
        begun.add(key_of(function))
        for callee in self._callees(function):
            self._visit(callee, begun)
        self._order.append(function)

    def _callees(self, function: FunctionType) -> list[FunctionType]:
        """Return the functions of the model that a function names, except words of the language."""
        named = (self._object(node, function) for node in self._global_names(function))
        return [
            f
            for f in named
            if isinstance(f, FunctionType)
            and module_of(f) != "language"
            and self.globals.model.tree_of(f) is not None
        ]

    def _global_names(self, function: FunctionType) -> Iterator[ast.Name | ast.Attribute]:
        """Yield names, and names within modules, that are not bound in the function itself."""
        tree = self.tree(function)
        bound = {a.arg for a in tree.args.args}
        for statement in tree.body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    bound.add(node.id)
        for statement in tree.body:
            for node in ast.walk(statement):
                owner = node.value if isinstance(node, ast.Attribute) else node
                if isinstance(owner, ast.Name) and owner.id not in bound:
                    assert isinstance(node, (ast.Name, ast.Attribute))
                    yield node

    def _object(self, node: ast.Name | ast.Attribute, function: FunctionType) -> Any:
        """Return the object of a global name, or of a name of a module; None if there is none."""
        if isinstance(node, ast.Name):
            return function.__globals__.get(node.id)
        assert isinstance(node.value, ast.Name)
        owner = function.__globals__.get(node.value.id)
        return getattr(owner, node.attr, None) if isinstance(owner, ModuleType) else None

    def guarded(self, function: FunctionType) -> bool:
        """Whether the function, or one that it calls, has a `require` or `within_scope`."""
        key = key_of(function)
        if key not in self._guarded:
            own = any(
                isinstance(node, ast.Name) and node.id in DEMANDING
                for node in self._global_names(function)
            )
            self._guarded[key] = own or any(self.guarded(f) for f in self._callees(function))
        return self._guarded[key]

    def enabled_name(self, function: FunctionType) -> str:
        """Return the operator that says what a function demands."""
        return self._enabled[key_of(function)]

    def call(
        self, node: ast.Call, function: FunctionType, arguments: Sequence[Any], scope: NameScope
    ) -> Term:
        """Print the application of a function; guarantees and witnesses do not take the world as an
        argument."""
        if function not in self._order:
            raise self.fail(node, scope, "a local name hides this function; rename the local one")
        if not self.is_root(function):
            return super().call(node, function, arguments, scope)
        terms = [a for a in arguments if isinstance(a, Term)]
        if [t.text for t in terms] != [WORLD] or key_of(function) in self.rules:
            raise self.fail(
                node, scope, "a rule or guarantee can be called by a guarantee only, with its world"
            )
        return Term(self.globals.operator(function), hint=bool)

    # Bodies

    def parameters(self, function: FunctionType) -> dict[str, Any]:
        """Return the parameters with their types."""
        hints = typing.get_type_hints(function, include_extras=True)
        return {a.arg: hints[a.arg] for a in self.tree(function).args.args}

    def free_parameters(self, function: FunctionType) -> dict[str, Any]:
        """Return the parameters that an operator has: no configuration, and for a root no world."""
        world = self.globals.model.modules["world"].World
        return {
            name: hint
            for name, hint in self.parameters(function).items()
            if self.part_of_configuration(hint) is None
            and not (self.is_root(function) and hint is world)
        }

    def part_of_configuration(self, hint: Any) -> Any:
        """Return the part of the configuration that a parameter of this type stands for. None for a
        type of the world's fields, although bounds count faults in the same class."""
        world = self.globals.model.modules["world"].World
        of_world = {key_of(h) for h in typing.get_type_hints(world).values() if isinstance(h, type)}
        is_of_world = isinstance(hint, type) and key_of(hint) in of_world
        return None if is_of_world else self.globals.configuration_of(hint)

    def opened_scope(self, function: FunctionType) -> tuple[NameScope, list[str]]:
        """Return the scope of a function's body, and its operator's parameters as they are
        spelled."""
        scope = NameScope(function, {}, frozenset())
        free = self.free_parameters(function)
        spelled = []
        for name, hint in self.parameters(function).items():
            if name in free:
                scope, parameter = scope.bind(self.names, name, hint)
                spelled.append(parameter)
            else:
                configuration = self.part_of_configuration(hint)
                scope = scope.alias(
                    name, Term(WORLD, hint=hint) if configuration is None else configuration
                )
        return scope, spelled

    def block(self, statements: Sequence[ast.stmt], scope: NameScope) -> Block:
        """Read a body from its first statement to its result."""
        definitions: list[Definition] = []
        demands: list[Term] = []
        self.guards = demands
        for position, statement in enumerate(statements):
            rest = statements[position + 1 :]
            if isinstance(statement, ast.Return) and statement.value is not None:
                result = self.term(statement.value, scope)
                return Block(tuple(definitions), tuple(demands), result)
            if isinstance(statement, ast.If):
                condition = self.condition(statement.test, scope)
                branches = (
                    self.block([*statement.body, *rest], scope),
                    self.block([*statement.orelse, *rest], scope),
                )
                return Block(tuple(definitions), tuple(demands), None, condition, branches)
            if isinstance(statement, ast.Assign):
                scope = self.assigned(statement, scope, definitions)
            else:
                demands += self.demanded(statement, scope)
        place = statements[-1] if statements else self.tree(scope.function)
        raise self.fail(place, scope, "not every path returns; end each with a return")

    def assigned(
        self, statement: ast.Assign, scope: NameScope, definitions: list[Definition]
    ) -> NameScope:
        """Bind one name to its value."""
        target = statement.targets[0]
        if len(statement.targets) != 1 or not isinstance(target, ast.Name):
            raise self.fail(statement, scope, "assign one name at a time")
        value = self.meaning(statement.value, scope)
        if not isinstance(value, Term):
            return scope.alias(target.id, value)
        scope, name = scope.bind(self.names, target.id, value.hint)
        definitions.append(Definition(name, value))
        return scope

    def demanded(self, statement: ast.stmt, scope: NameScope) -> list[Term]:
        """Return the demands of `require` and `within_scope`; a docstring has none."""
        expression = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(expression, ast.Constant) and isinstance(expression.value, str):
            return []
        if isinstance(expression, ast.Call) and isinstance(expression.func, ast.Name):
            asked = expression.func.id in GUARDS and len(expression.args) == 1
            if asked and expression.func.id not in scope.bound:
                return [self.condition(expression.args[0], scope)]
        raise self.fail(
            statement, scope, "this statement is not in the subset; write if, =, require or return"
        )

    # Operators

    def operators(self, function: FunctionType) -> str:
        """Return the operator or operators of one function, with its docstring."""
        scope, spelled = self.opened_scope(function)
        if key_of(function) in self.sentences and self.guarded(function):
            raise self.fail(
                self.tree(function).args.args[0], scope, "a guarantee demands nothing; return it"
            )
        block = self.block(self.tree(function).body, scope)
        name = self.globals.operator(function)
        note = comment(inspect.cleandoc(function.__doc__ or ""))
        texts = [note] if note else []
        if key_of(function) in self.rules:
            event = ", ".join((f'"{function.__name__}"', *spelled))
            texts.append(defined(name, spelled, action(block, f"<<{event}>>")))
        else:
            if key_of(function) in self._enabled:
                texts.append(defined(self.enabled_name(function), spelled, demands_of(block)))
            texts.append(defined(name, spelled, value_of(block)))
        return "\n".join(texts)


def defined(name: str, parameters: Sequence[str], body: Term) -> str:
    """Return the definition of an operator."""
    return prefixed(f"{applied(name, parameters).text} ==", body.text)


def used(definitions: Sequence[Definition], text: str) -> list[Definition]:
    """Return the definitions that a text needs, with those that they need."""
    kept: list[Definition] = []
    for definition in reversed(definitions):
        if re.search(rf"(?<![\w.]){re.escape(definition.name)}\b(?! \|->)", text):
            kept.insert(0, definition)
            text += " " + definition.value.text
    return kept


def within(block: Block, body: Term) -> Term:
    """Return the body inside those definitions of the block that it needs."""
    return let(used(block.definitions, body.text), body)


def value_of(block: Block) -> Term:
    """Return the value that a block returns."""
    if block.result is not None:
        return within(block, block.result)
    assert block.condition is not None
    then, otherwise = (value_of(branch) for branch in block.branches)
    return within(block, conditional(block.condition, then, otherwise))


def demands_of(block: Block) -> Term:
    """Return the demands of a block."""
    demands = list(block.demands)
    if block.condition is not None:
        then, otherwise = (demands_of(branch) for branch in block.branches)
        if (then, otherwise) != (TRUE, TRUE):
            demands.append(conditional(block.condition, then, otherwise))
    return within(block, junction("/\\", demands)) if demands else TRUE


def step_of(block: Block) -> Term:
    """Return the demands of a block, and the world that it leads to."""
    if block.result is not None:
        last = Term(hang(f"{WORLD}' = ", block.result.text), hint=bool)
    else:
        assert block.condition is not None
        then, otherwise = (step_of(branch) for branch in block.branches)
        last = conditional(block.condition, then, otherwise)
    return within(block, bulleted("/\\", [*block.demands, last]) if block.demands else last)


def action(block: Block, event: str) -> Term:
    """Return the step of a rule, and its label in a trace."""
    happened = Term(f"event' = {event}", hint=bool)
    if block.result is None:
        return bulleted("/\\", [step_of(block), happened])
    last = Term(hang(f"{WORLD}' = ", block.result.text), hint=bool)
    return within(block, bulleted("/\\", [*block.demands, last, happened]))
