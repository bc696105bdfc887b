"""Finds what each event of a world does to actors: the rules that it applies, and its own edits.

Theory of operation. An event's text is evaluated for any world; the results of actors' rules are
unknown. Any other actor or message that the event makes is therefore built by the event's own text.
Sizes and budgets of scopes limit nothing here: each is an unknown, a choice is any number, and a
tuple has any length, so no condition on them can fold away (see `AnyEvaluator`). Events that are
left out do not happen. Parts of the world that no other event changes therefore keep their initial
value, if this value is the same in all scopes; and an event that needs another value of such a part
does not happen either.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from operator import attrgetter
from types import FunctionType
from typing import Any

from model.language import Map, is_record
from proofs.lift.build import concrete
from proofs.lift.call_graph import reached
from proofs.lift.dag import FALSE, Node, conjunction, const, reachable
from proofs.lift.source import Model
from proofs.lift.values import Rec, scalars
from proofs.prove.engine.any_size import AnyEvaluator, AnyUnknowns
from proofs.prove.engine.sizes import Overrides, unknown_sizes
from proofs.prove.engine.step_evaluator import OwnChange, any_result, exchanged
from proofs.prove.engine.unknowns import number


@dataclass(frozen=True, slots=True)
class EventEffect:
    """`takes` are the actors' rules that an event applies; `edits` are the changes that it makes
    outside of rules; `changes` are the parts of the world that it changes."""

    takes: frozenset[Callable[..., Any]]
    edits: frozenset[OwnChange]
    changes: frozenset[tuple[str, ...]]


@lru_cache(maxsize=1024)
def has_requirements(model: Model, rule: Callable[..., Any]) -> bool:
    """Whether a rule, or a function that it calls, requires anything."""
    assert isinstance(rule, FunctionType)
    called = (
        part.func
        for function in reached(model, [rule])
        for part in ast.walk(model.tree_of(function) or ast.Pass())
        if isinstance(part, ast.Call)
    )
    return any(isinstance(name, ast.Name) and name.id == "require" for name in called)


class EventEvaluator(AnyEvaluator):
    """Evaluates an event; the results of actors' rules are unknown."""

    def take(self, rule: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """Return any value that the rule may return. The rule's own text is evaluated only for what
        it requires."""
        if has_requirements(self.model, rule):
            super().take(rule, arguments)
        return any_result(self.unknowns, rule, f"{rule.__name__}()")

    def limit(self, node: Any, condition: Node, *, by_scope: bool) -> None:
        """Note what an event requires; the limits of a scope are ignored."""
        if not by_scope:
            super().limit(node, condition, by_scope=by_scope)

    def used(self, after: Rec) -> set[Callable[..., Any]]:
        """Return the rules whose result is part of the world after the event. A rule whose result
        nothing uses does not count."""
        conditions = (limit.condition for limit in self.limits)
        names = {node.name for node in reachable([*scalars(after), *conditions])}
        left = {name.removeprefix("len(").partition("(")[0] for name in names}
        return {taken.rule for taken in self.taken if taken.rule.__name__ in left}

    @property
    def is_possible(self) -> bool:
        """Whether the evaluated event can happen."""
        return conjunction(limit.condition for limit in self.limits) is not FALSE


@dataclass(frozen=True)
class WorldEvents:
    """The events of a model in a variant, except those that are `left_out`. The `fixed` parts of
    the world are assumed to keep their initial value. Unknown in the configuration are all sizes
    except the `claimed` ones, which have values, and the rules listed in `unknown` by class and
    name."""

    model: Model
    variant: str
    unknown: frozenset[tuple[str, str]]
    left_out: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()
    claimed: frozenset[tuple[str, int]] = frozenset()

    def effects(self) -> Mapping[str, EventEffect]:
        """Return what each event does to actors, by the event's name."""
        k = self.configuration()
        first = concrete(self.model, k)
        anything = AnyUnknowns(k.bounds).record(self.model.world.World, "w")
        constant = set(self.constant_at_first(first))
        while True:
            world = with_parts(anything, {path: part_at(first, path) for path in constant})
            found = {name: self.effect(k, world, name) for name in self.included()}
            changed = {path for effect in found.values() for path in effect.changes & constant}
            changed = {path for path in changed if path[0] not in self.fixed}
            if not changed:
                return found
            constant -= changed

    def included(self) -> Iterator[str]:
        """Yield the events that are not left out."""
        return (name for name in self.model.rules if name not in self.left_out)

    def constant_at_first(self, first: Rec) -> Iterator[Path]:
        """Yield the parts that may be assumed constant: they contain no actor, and their initial
        value is the same in each scope."""
        variant = self.model.variants.parse(self.variant)
        scopes = self.model.scopes.SCOPES.values()
        worlds = [self.model.scopes.initial(s.configuration(variant)) for s in scopes]
        for path in paths_of(self.model, first):
            if path[0] in self.fixed:
                yield path
            elif not has_actor(self.model, part_at(first, path)):
                begun = {content(attrgetter(".".join(path))(world)) for world in worlds}
                if len(begun) == 1:
                    yield path

    def configuration(self) -> Any:
        """Return the configuration of the first scope, which gives worlds their shape here, with
        room for each fault."""
        scope = next(iter(self.model.scopes.SCOPES.values()))
        k = scope.configuration(self.model.variants.parse(self.variant))
        faults = type(k.bounds.faults)(**{f.name: 1 for f in fields(k.bounds.faults)})
        return replace(k, bounds=replace(k.bounds, faults=faults))

    def overrides(self, k: Any) -> Overrides:
        """Return the unknowns of the configuration: rules of the variant, and sizes of scopes."""
        rules = {key: number(".".join(key)) for key in self.unknown if key[0] == "Variant"}
        claimed = {("Bounds", name): const(value) for name, value in self.claimed}
        return {**rules, **unknown_sizes(k.bounds), **claimed}

    def effect(self, k: Any, world: Rec, name: str) -> EventEffect:
        """Return what an event does to actors, for any choice."""
        function = self.model.rules[name]
        evaluator = EventEvaluator(self.model, k, self.overrides(k))
        chosen = map(number, list(inspect.signature(function).parameters)[2:])
        after = evaluator.call(function, [k, world, *chosen])
        if not evaluator.is_possible:
            return EventEffect(frozenset(), frozenset(), frozenset())
        changes = (
            path
            for path in paths_of(self.model, world)
            if not is_same(part_at(world, path), part_at(after, path))
        )
        return EventEffect(
            frozenset(evaluator.used(after)), frozenset(evaluator.edits), frozenset(changes)
        )


def content(value: Any) -> Any:
    """Return an initial value in a form that does not depend on the scope's size: a map becomes the
    set of its values."""
    if isinstance(value, Map):
        return frozenset(map(content, value.values()))
    if isinstance(value, tuple):
        return tuple(map(content, value))
    if is_record(value):
        return tuple(content(getattr(value, f.name)) for f in fields(value))
    return value


Path = tuple[str, ...]


def paths_of(model: Model, value: Rec, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of a world's parts: its fields, and the fields of records that are not
    actors."""
    for name, inner in value.fields.items():
        if isinstance(inner, Rec) and inner.cls not in exchanged(model):
            yield from paths_of(model, inner, (*path, name))
        else:
            yield (*path, name)


def has_actor(model: Model, value: Any) -> bool:
    """Whether a value is an actor or contains one."""
    if isinstance(value, Rec):
        return value.cls in exchanged(model)
    return any(has_actor(model, inner) for inner in getattr(value, "slots", ()))


def part_at(value: Any, path: Path) -> Any:
    """Return the value at a path."""
    for name in path:
        value = value.fields[name]
    return value


def with_parts(value: Rec, parts: Mapping[Path, Any]) -> Rec:
    """Return a record with some parts replaced."""
    for path, part in parts.items():
        value = with_part(value, path, part)
    return value


def with_part(value: Rec, path: Path, part: Any) -> Rec:
    """Return a record with one part replaced."""
    name, *rest = path
    inner = with_part(value.fields[name], tuple(rest), part) if rest else part
    return value.changed(**{name: inner})


def is_same(before: Any, after: Any) -> bool:
    """Whether nothing has changed."""
    return all(old is new for old, new in zip(scalars(before), scalars(after), strict=False))


@lru_cache(maxsize=64)
def effects_of(events: WorldEvents) -> Mapping[str, EventEffect]:
    """Return what each event does to actors, by the event's name."""
    return events.effects()
