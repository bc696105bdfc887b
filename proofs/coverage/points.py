"""Coverage points: every place of the model's text where something is decided.

1. A *branch* is the condition of an `if`, an `elif`, a conditional expression, or of an `if` in a
   comprehension. Its outcomes are `then` and `else`.
2. A *conjunct* is an operand of `and` or `or`, or the whole condition of a `require` or a
   `within_scope` that has no such operand. Its outcomes are `true` and `false`.
3. A point is met if Python would meet it when the rule runs in a reachable state: all limits of
   the rule before the point hold, and the operands before it do not decide the condition.
4. Sites are counted in the order of a function's text: `leader.in_sequence#2`. A point is a site
   with one of its outcomes: `leader.in_sequence#2:false`. Names begin with the composition's name:
   `producer_ids.store.on_write#1:then`.

Everything here is read from the text alone: a place that no scope ever evaluates is a point too.
"""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from model.language import declaration_of
from proofs.lift.source import Model, modules_that_act
from proofs.lift.subset import calls

OUTCOMES: Mapping[str, tuple[str, str]] = {
    "branches": ("then", "else"),
    "conjuncts": ("true", "false"),
}
"""The outcomes of each kind: if the condition holds, and if it does not."""

LIMITS = ("require", "within_scope")


@dataclass(frozen=True, slots=True)
class Site:
    """One decision: `module.function#N`, its line, and its text.

    If a function has the same text more than once, a number tells which one it is: `in_epoch (2)`.
    """

    name: str
    kind: str
    line: int
    text: str

    def point(self, *, holds: bool) -> Point:
        """Return the point at which the condition holds, or does not."""
        outcome = OUTCOMES[self.kind][not holds]
        function = self.name.partition("#")[0]
        says = f"{function}: {self.text}: {outcome}"
        return Point(f"{self.name}:{outcome}", self.kind, says, self.line)


@dataclass(frozen=True, slots=True)
class Point:
    """Something that must happen somewhere. `says` is a name that survives edits elsewhere."""

    name: str
    kind: str
    says: str
    line: int = 0

    @property
    def condition(self) -> str:
        """The text of the decision, for a point that is a place in the text."""
        return self.says.partition(": ")[2].rpartition(": ")[0]


def is_limit(node: ast.AST) -> bool:
    """Whether a node is a call of `require` or `within_scope`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in LIMITS


def decided_by(node: ast.AST) -> list[tuple[ast.expr, str]]:
    """Return the conditions that decide something at this node itself, each with its kind."""
    if isinstance(node, (ast.If, ast.IfExp)):
        return [(node.test, "branches")]
    if isinstance(node, ast.comprehension):
        return [(test, "branches") for test in node.ifs]
    if isinstance(node, ast.BoolOp):
        return [(part, "conjuncts") for part in node.values if not isinstance(part, ast.BoolOp)]
    if is_limit(node):
        assert isinstance(node, ast.Call)
        whole = node.args[0]
        return [] if isinstance(whole, ast.BoolOp) else [(whole, "conjuncts")]
    return []


def conditions(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Yield all conditions below a node, in the order of the text."""
    yield from decided_by(node)
    for child in ast.iter_child_nodes(node):
        yield from conditions(child)


def reached(trees: Mapping[str, Sequence[ast.FunctionDef]], first: Iterable[str]) -> set[str]:
    """Return the functions that the first ones call, directly or not, including the first ones."""
    found: set[str] = set()
    frontier = set(first) & trees.keys()
    while frontier:
        found |= frontier
        called = {name for f in frontier for tree in trees[f] for name in calls(tree)}
        frontier = (called & trees.keys()) - found
    return found


def prefix_of(model: Model) -> str:
    """Return the prefix of a composition's names: `producer_ids.`; "" for idempotent producers."""
    return "" if model.name == "idempotent" else f"{model.name}."


def acting(model: Model) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the functions that determine what happens, by their names, in the order of the text.

    Functions that only guarantees call are left out, and so are conditions of incidents. Functions
    that nothing calls are included, so that their points will be missing.
    """
    trees: dict[str, list[ast.FunctionDef]] = {}
    for (module, name), tree in model.functions.items():
        if model.is_lifted(module):
            trees.setdefault(name, []).append(tree)
    happening = reached(trees, model.rules)
    acts = modules_that_act(model)
    others = {name for module, name in model.functions if module not in acts}
    looked_at = reached(trees, others | incident_conditions(model))
    for (module, name), tree in model.functions.items():
        if (
            module in acts
            and model.is_lifted(module)
            and (name in happening or name not in looked_at)
        ):
            yield f"{prefix_of(model)}{module}.{name}", tree


def incident_conditions(model: Model) -> set[str]:
    """Return the names of the functions that say when an event is an incident."""
    incidents = (i for rule in model.rules.values() for i in declaration_of(rule).incidents)
    return {i.condition.__name__ for i in incidents if i.condition is not None}


@functools.lru_cache(maxsize=4)
def sites(model: Model) -> Mapping[int, Site]:
    """Return all sites, by the id of the condition's tree in this model."""
    found: dict[int, Site] = {}
    for function, tree in acting(model):
        times: Counter[str] = Counter()
        for number, (condition, kind) in enumerate(conditions(tree), start=1):
            text = ast.unparse(condition)
            times[text] += 1
            told = f"{text} ({times[text]})" if times[text] > 1 else text
            found[id(condition)] = Site(f"{function}#{number}", kind, condition.lineno, told)
    return found


def points(model: Model) -> dict[str, Point]:
    """Return all points, by name: rules, outcomes of sites, error codes."""
    found = [Point(rule, "rules", rule) for rule in model.rules]
    for site in sites(model).values():
        found += [site.point(holds=holds) for holds in (True, False)]
    found += [Point(error.name, "error_codes", error.name) for error in errors_of(model)]
    return {point.name: point for point in found}


def errors_of(model: Model) -> Sequence[IntEnum]:
    """Return the error codes that the model's messages have."""
    errors: type[IntEnum] | None = getattr(model.messages, "Error", None)
    return tuple(errors) if errors else ()
