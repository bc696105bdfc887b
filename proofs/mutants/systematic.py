"""Systematic mutants: small changes of the text that no one had to think of.

Comparisons flipped, conjuncts dropped, numbers off by one, in every function that says what
happens: what a rule of the world calls, directly or not. What only a limit of a scope asks is left
alone, as another limit is another scope and no other protocol.
"""

from __future__ import annotations

import ast
import functools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import cast

from proofs.lift.call_graph import name_of, parts, reached
from proofs.lift.patch import Patch
from proofs.lift.source import Model, load_model
from proofs.mutants.table import EQUIVALENT

LIMITS = ("within_scope",)
"""What these are told is a matter of the scope."""

FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}


def flipped(node: ast.expr) -> Iterator[ast.expr]:
    """A comparison with its neighbour in place of its operator."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in FLIPPED:
        operators = [FLIPPED[type(node.ops[0])](), *node.ops[1:]]
        yield ast.Compare(node.left, operators, node.comparators)


def dropped(node: ast.expr) -> Iterator[ast.expr]:
    """`and` and `or` with one part left out."""
    if isinstance(node, ast.BoolOp):
        for i in range(len(node.values)):
            rest = node.values[:i] + node.values[i + 1 :]
            yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def off_by_one(node: ast.expr) -> Iterator[ast.expr]:
    """A sum or a difference that is one too large."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield ast.BinOp(node, ast.Add(), ast.Constant(1))


CHANGES = (flipped, dropped, off_by_one)


def hints_of(function: ast.FunctionDef) -> set[int]:
    """The expressions that are types, by id: they are not changed."""
    types = [argument.annotation for argument in function.args.args] + [function.returns]
    return {id(part) for hint in types if hint is not None for part in ast.walk(hint)}


def mutants_of(model: Model, function: str) -> Iterator[Patch]:
    """All changes of one function, named `module.function`, in the order of its text.

    An expression that stands there more than once is left alone: it is no anchor for a patch.
    """
    module, _, name = function.rpartition(".")
    tree = model.functions[module, name]
    types = hints_of(tree)
    every = [
        node for node in ast.walk(tree) if isinstance(node, ast.expr) and id(node) not in types
    ]
    times = Counter(ast.unparse(node) for node in every)
    protocol = {id(node) for node in parts(tree, LIMITS)}
    for node in every:
        if times[ast.unparse(node)] == 1 and id(node) in protocol:
            for change in CHANGES:
                for changed in change(node):
                    yield Patch(function, ast.unparse(node), ast.unparse(changed))


# All of them


class UnknownFunction(ValueError):
    """No function of the text that acts has this name; the message lists those that there are."""


@dataclass(frozen=True, slots=True)
class SystematicMutant:
    """One small change, and the model that it is a change of."""

    group: str
    patch: Patch

    @property
    def says(self) -> str:
        """Its name that outlives other edits."""
        return f"{self.patch.function}: {self.patch.before} -> {self.patch.after}"


MUTATED = ("idempotent", "transactions")
"""The compositions that are mutated."""


def explanation(point: SystematicMutant) -> str | None:
    """Why it is right that no check notices the change; None if nothing says so."""
    return EQUIVALENT[point.group].get(point.says)


@functools.cache
def model_of(group: str) -> Model:
    """The model of a group, as it stands."""
    return load_model(group)


def functions_that_act(model: Model) -> list[str]:
    """What the rules of the world call, limits of scopes aside, in the order of the text."""
    rules = [cast(FunctionType, rule) for rule in model.rules.values()]
    acting = {name_of(function) for function in reached(model, rules, LIMITS)}
    named = [f"{module}.{name}" for module, name in model.functions if module != "language"]
    return [name for name in named if name in acting]


def every_point(only: str | None = None) -> list[SystematicMutant]:
    """All changes, those of a group, or of one function, `GROUP.module.function`.

    Raises UnknownFunction.
    """
    groups = [group for group in MUTATED if only is None or only.partition(".")[0] == group]
    names = {group: functions_that_act(model_of(group)) for group in groups or MUTATED}
    chosen = [
        (group, function)
        for group, functions in names.items()
        for function in functions
        if only in (None, group, f"{group}.{function}")
    ]
    if not chosen:
        known = ", ".join(f"{g}.{f}" for g, functions in names.items() for f in functions)
        raise UnknownFunction(f"no function is called {only!r}; choose one of {known}")
    return [SystematicMutant(g, patch) for g, f in chosen for patch in mutants_of(model_of(g), f)]


def sample(
    points: Sequence[SystematicMutant], count: int | None, seed: int
) -> list[SystematicMutant]:
    """So many of them, in their order; all where no count is given."""
    if count is None or count >= len(points):
        return list(points)
    drawn = random.Random(seed).sample(range(len(points)), count)
    return [points[number] for number in sorted(drawn)]
