"""Rewrites the functions of a composition so that they can run on symbols.

1. Guards and fault counters are removed: traces come from the model, and shrinking asks the model
   again. A guard that is false in every state of the scope means that the scope lacks the event.
2. `intercepts` replaces the rules of actors; the calls of these rules are the result of an event.
3. `(*a, b)` and `tuple(f(x) for x in a)` become function calls here, since Python would iterate.
4. A function that needs values nevertheless is called when the code runs, if no actor moves in it.
   The same holds for a function that only returns a boolean or number, if it takes a decision to
   compute it.
"""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import FunctionType, ModuleType
from typing import Any, Final, Protocol

from conformance.judging.lockstep.symbols import NotSymbolic, Symbol, hints_of
from model import faults, language
from proofs.lift.source import Model, modules_that_act

GUARDS: Final = frozenset({"require", "within_scope"})


class CannotSpecialize(TypeError):
    """An event whose text has no symbolic form; the message names the function that prevents it."""


class NeverEnabled(Exception):
    """An event that is enabled in no state of the scope."""


class Interceptor(Protocol):
    """Replaces the functions that events call."""

    def undecided(self) -> AbstractContextManager[None]:
        """Within this context, a condition on symbols raises NotSymbolic."""

    def rule(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Replaces a rule of an actor."""

    def guard(self, condition: Callable[[], Any]) -> None:
        """Replaces `require` and `within_scope`. Raises NeverEnabled if no state of the scope makes
        the condition true."""

    def later(self, function: Callable[..., Any], given: tuple[Any, ...], hint: Any) -> Symbol:
        """Replaces a function that needs values: it is called when the code runs."""

    def replace(self, value: Any, **changes: Any) -> Any:
        """Replaces `dataclasses.replace`."""

    def length(self, value: Any) -> Any:
        """Replaces `len`."""

    def join(self, *parts: Any) -> Any:
        """Replaces `(*a, *b)`."""

    def numbered(self, value: Any) -> Any:
        """Replaces `enumerate`."""


class _Rewriter(ast.NodeTransformer):
    """Rewrites one function: removes its guards, and replaces iteration by function calls.
    Functions in which actors move (`movers`) keep Python's iteration, since nothing else can run
    them."""

    def __init__(self, movers: frozenset[str]) -> None:
        self._movers = movers

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        call = node.value
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id in GUARDS
        ):
            nothing = ast.arguments([], [], None, [], [], None, [])
            return ast.Expr(ast.Call(name("_guard"), [ast.Lambda(nothing, call.args[0])], []))
        return self.generic_visit(node)

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        self.generic_visit(node)
        if not any(isinstance(element, ast.Starred) for element in node.elts):
            return node
        parts = [
            e.value if isinstance(e, ast.Starred) else ast.Tuple([e], ast.Load()) for e in node.elts
        ]
        return ast.Call(ast.Name("_join", ast.Load()), parts, [])

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A comprehension becomes a function of its iterable and of the names in it."""
        if len(node.args) != 1 or not isinstance(node.args[0], ast.GeneratorExp):
            return self.generic_visit(node)
        if mentioned(node) & self._movers:
            return self.generic_visit(node)
        iterates = copy.deepcopy(node.args[0])
        inner = (node for node in ast.walk(iterates) if isinstance(node, ast.comprehension))
        bound = names_in(*(generator.target for generator in inner))
        over, iterates.generators[0].iter = iterates.generators[0].iter, name("_over")
        free = sorted(names_in(iterates) - bound - {"_over"})
        arguments = [ast.arg(one) for one in ("_over", *free)]
        body = ast.Lambda(
            ast.arguments([], arguments, None, [], [], None, []),
            ast.Call(node.func, [self._inside(iterates)], []),
        )
        return ast.Call(name("_comprehension"), [body, self._inside(over), *map(name, free)], [])

    def _inside(self, node: ast.expr) -> ast.expr:
        rewritten: ast.expr = self.visit(node)
        return rewritten


def names_in(*nodes: ast.AST) -> set[str]:
    """The names that are mentioned."""
    return {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)}


def mentioned(tree: ast.AST) -> set[str]:
    """The names that a tree mentions, including those in modules."""
    return names_in(tree) | {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}


def name(text: str) -> ast.Name:
    """A node that reads a name."""
    return ast.Name(text, ast.Load())


class SymbolicSource:
    """The functions of a composition, rewritten for symbols: `events` are the rules of the
    world."""

    def __init__(self, model: Model, interceptor: Interceptor) -> None:
        self._interceptor = interceptor
        self._movers = movers(model)
        self._modules = {n: ModuleType(n) for n in model.modules}
        replaced: dict[Any, Any] = {m: self._modules[n] for n, m in model.modules.items()}
        replaced[faults.spend] = uncounted
        for owner, module in model.modules.items():
            vars(self._modules[owner]).update(vars(module))
        acting = modules_that_act(model)
        for (owner, function), tree in model.functions.items():
            original = vars(model.modules[owner]).get(function)
            if isinstance(original, FunctionType) and owner in acting and model.is_lifted(owner):
                replaced[original] = self._function(owner, original, tree)
        own: Mapping[str, Any] = {
            "len": interceptor.length,
            "enumerate": interceptor.numbered,
            "_join": interceptor.join,
            "_comprehension": self._comprehension,
            "_guard": interceptor.guard,
        }
        for space in map(vars, self._modules.values()):
            for key, value in list(space.items()):
                if isinstance(value, (FunctionType, ModuleType)) and value in replaced:
                    space[key] = replaced[value]
            space.update(own)
            if "replace" in space:
                space["replace"] = interceptor.replace
        self.events = {rule: replaced[function] for rule, function in model.rules.items()}

    def _function(
        self, owner: str, original: Callable[..., Any], tree: ast.FunctionDef
    ) -> Callable[..., Any]:
        """The function on symbols; a rule of an actor is intercepted."""
        if language.is_actor_rule(original):
            return self._interceptor.rule(original)
        rewritten = copy.deepcopy(tree)
        rewritten.decorator_list = []
        _Rewriter(self._movers).visit(rewritten)
        rewritten.body = rewritten.body or [ast.Pass()]
        module = ast.fix_missing_locations(ast.Module([rewritten], []))
        space = vars(self._modules[owner])
        exec(compile(module, f"<{owner}>", "exec"), space)
        space[tree.name] = self._or_later(space[tree.name], original)
        symbolic: Callable[..., Any] = space[tree.name]
        return symbolic

    def _or_later(
        self, function: Callable[..., Any], original: Callable[..., Any]
    ) -> Callable[..., Any]:
        """The function on symbols if that is possible, else a function that is called later on
        values."""
        hint = hints_of(original)["return"]
        is_scalar = isinstance(hint, type) and issubclass(hint, int)

        @functools.wraps(original)
        def called(*given: Any) -> Any:
            try:
                with self._interceptor.undecided() if is_scalar else nullcontext():
                    return function(*given)
            except NotSymbolic as error:
                if language.is_event(original):
                    raise CannotSpecialize(f"{original.__name__} needs {error}") from None
                if original.__name__ in self._movers:
                    raise
                return self._interceptor.later(original, given, hint)

        return called

    def _comprehension(self, function: Callable[..., Any], over: Any, *given: Any) -> Any:
        try:
            return function(over, *given)
        except NotSymbolic:
            return self._interceptor.later(function, (over, *given), None)


def uncounted(_: Any, world: Any, __: Any) -> Any:
    """Replaces `spend`: traces keep to the budgets, and nothing else reads the counters."""
    return world


def movers(model: Model) -> frozenset[str]:
    """The names of the functions in which actors move, directly or in functions that they call."""
    mentions = {name: mentioned(tree) for (_, name), tree in model.functions.items()}
    found = set(model.actor_rules)
    while more := {name for name, others in mentions.items() if others & found} - found:
        found |= more
    return frozenset(found)
