"""Lifts a scope of a model to a `Machine`."""

from __future__ import annotations

import functools
import itertools
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from proofs.lift import dag, subset
from proofs.lift.annotations import Limit, Obligation
from proofs.lift.dag import FALSE, Node
from proofs.lift.evaluate import Evaluator
from proofs.lift.machine import Leaf, Machine, RuleInstance
from proofs.lift.source import Model
from proofs.lift.values import Rec, Shapes, scalars, shapes_of


@dataclass(frozen=True, slots=True)
class Lifted:
    """A machine with the limits and obligations that were recorded for each rule instance."""

    machine: Machine
    world: Rec
    limits: dict[str, tuple[Limit, ...]]
    obligations: dict[str, tuple[Obligation, ...]]


def choices(shapes: Shapes, function: Callable[..., Any]) -> Iterator[tuple[tuple[str, int], ...]]:
    """Yield all ways to make a rule's choices: its parameters after the configuration and the
    world."""
    hints = typing.get_type_hints(function, include_extras=True)
    names = [name for name in hints if name not in ("k", "w", "return")]
    domains = []
    for name in names:
        lo, hi = shapes.bounds(hints[name])
        domains.append(range(lo, hi + 1))
    for values in itertools.product(*domains):
        yield tuple(zip(names, values, strict=True))


def is_unbounded(k: Any) -> bool:
    """Whether worlds are kept in their normal form; models of other packages have no such
    attribute."""
    return bool(getattr(k.bounds, "unbounded", False))


def symbolic_world(model: Model, shapes: Shapes) -> Rec:
    """Return a world whose scalars are leaves named after their places."""
    cls = model.world.World
    fields = shapes.hints(cls)
    return Rec(cls, {name: shapes.leaves(hint, name) for name, hint in fields.items()})


def lift(
    model: Model, k: Any, name: str, *, guarantees: bool = True, normal_forms: bool = True
) -> Lifted:
    """Return the machine of the model in the configuration `k`; `guarantees` says whether it has
    the nodes of guarantees and witnesses. Without `normal_forms` the rules of an unbounded scope do
    not bring the world to its normal form.

    Raises SubsetError or LiftError, each with file, line, column and a cure.
    """
    lifted = lift_rules(model, k, name, normal_forms)
    if not guarantees:
        return lifted
    every = model.guarantees.GUARANTEES, model.guarantees.WITNESSES
    return replace(lifted, machine=with_checks(lifted.machine, model, k, *every))


@functools.lru_cache(maxsize=8)
def lift_rules(model: Model, k: Any, name: str, normal_forms: bool) -> Lifted:
    """Return the machine without guarantees and witnesses. The latest machines are cached for
    callers that ask one after the other. Models are compared by identity, so a patched model is
    another one."""
    subset.check(model)
    shapes = shapes_of(k.bounds)
    world = world_of(model, k)
    leaves = tuple(node for node in scalars(world) if node.op == "leaf")
    values = list(scalars(concrete(model, k)))
    first = dict(zip([n.name or str(i) for i, n in enumerate(scalars(world))], values, strict=True))
    machine = Machine(
        name=name,
        leaves=tuple(Leaf(n.name, n.lo, n.hi, n.is_bool) for n in leaves),
        initial=tuple(first[n.name].value for n in leaves),
        inputs=asdict(k.budgets),
        rules=(),
        guarantees={},
        witnesses={},
    )
    lifted = Lifted(machine, world, limits={}, obligations={})
    instances = tuple(
        instance
        for function in model.rules.values()
        for choice in choices(shapes, function)
        if (instance := lift_rule(model, k, world, function, choice, lifted, normal_forms))
    )
    return replace(lifted, machine=replace(machine, rules=instances))


def with_checks(
    machine: Machine, model: Model, k: Any, guarantees: Iterable[Any], witnesses: Iterable[Any]
) -> Machine:
    """Return the machine with these guarantees and witnesses of its model. Raises LiftError."""
    return replace(
        machine,
        guarantees={p.name: check_of(model, k, p.check) for p in guarantees},
        witnesses={w.name: check_of(model, k, w.check) for w in witnesses},
    )


@functools.lru_cache(maxsize=256)
def check_of(model: Model, k: Any, function: Callable[..., Any]) -> Node:
    """Return the node of a guarantee or a witness; the latest ones are cached, as rules are."""
    node: Node = Evaluator(model, k).call(function, [k, world_of(model, k)])
    return node


@functools.lru_cache(maxsize=8)
def world_of(model: Model, k: Any) -> Rec:
    """Return the symbolic world of a configuration, shared by its rules and checks."""
    return symbolic_world(model, shapes_of(k.bounds))


def concrete(model: Model, k: Any) -> Any:
    """Return the initial world, in the same form as the symbolic one."""
    evaluator = Evaluator(model, k)
    value = evaluator.lift(model.scopes.initial(k))
    return evaluator.shapes.coerce(value, model.world.World)


def checks(model: Model, k: Any, world: Rec, named: Any) -> dict[str, Node]:
    """Return the nodes of guarantees or witnesses, by name."""
    return {p.name: Evaluator(model, k).call(p.check, [k, world]) for p in named}


def lift_rule(
    model: Model,
    k: Any,
    world: Rec,
    function: Callable[..., Any],
    choice: tuple[tuple[str, int], ...],
    lifted: Lifted,
    normal_forms: bool = True,
) -> RuleInstance | None:
    """Lift one rule with its choices made; None if its guard is constantly false in this layout."""
    evaluator = Evaluator(model, k)
    constants = [dag.const(value) for _, value in choice]
    after = evaluator.call(function, [k, world, *constants])
    if normal_forms and is_unbounded(k):
        after = evaluator.call(model.canonical_form.normal, [k, after])
    guard = dag.conjunction(limit.condition for limit in evaluator.limits)
    if guard is FALSE:
        return None
    pairs = zip(scalars(world), scalars(after), strict=True)
    updates = {before.name: new for before, new in pairs if new is not before and before.name}
    broken = tuple((noted.where, dag.negate(noted.holds)) for noted in evaluator.tested)
    tested = with_tests(updates, broken, lifted.machine.leaves)
    instance = RuleInstance(function.__name__, choice, guard, tested, broken)
    lifted.limits[instance.label] = tuple(evaluator.limits)
    lifted.obligations[instance.label] = tuple(evaluator.obligations)
    return instance


def with_tests(
    updates: Mapping[str, Node], broken: Sequence[tuple[str, Node]], leaves: Sequence[Leaf]
) -> Mapping[str, Node]:
    """Return the updates of a rule instance. If its text is not defined, they write a number
    that is out of range, on which each compiled form ends with an error."""
    names = {leaf.name: leaf for leaf in leaves if not leaf.is_bool}
    name = next((n for n in (*updates, *names) if n in names), None)
    if not broken or name is None:
        return updates
    leaf = names[name]
    usual = updates.get(name, dag.leaf(name, leaf.lo, leaf.hi))
    undefined = dag.disjunction(node for _, node in broken)
    return {**updates, name: dag.ite(undefined, dag.const(leaf.hi + 1), usual)}
