"""Decides whether a changed function has the same values as before, for all arguments.

Both texts are lifted over unknown arguments, and both solvers are asked whether they can differ:

- A number has any value that its type allows; a size that a type or the text names is any number.
- Each rule of the variant has any of its values, and a budget is any number, so the answer is for
  all of them.
- A tuple has any length up to its capacity, and a map has as many keys as `SIZES` say. The answer
  depends on sizes only for containers.

Conditions that the old text needs to be defined (an index within its tuple) are assumed; those of
the new text must be proved. Arguments that no run reaches count too, so a change without any effect
on runs often differs here.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import IntEnum
from types import GenericAlias
from typing import Any, Final

from model.language import Step
from model.releases import NEWEST
from proofs.lift import dag
from proofs.lift.annotations import LiftError
from proofs.lift.dag import INFINITE, Node
from proofs.lift.evaluate import Evaluator
from proofs.lift.patch import Patch
from proofs.lift.source import Model, load_model
from proofs.lift.values import MapValue, Rec, Seq, SetValue, Span, bits_of, shapes_of
from proofs.prove.engine.smt import Formula, ProofObligation, obligation
from proofs.prove.engine.solvers import SOLVERS, ask
from proofs.systematic_mutants.calls import function_of
from proofs.systematic_mutants.static_types import hints_of

TIMEOUT_S: Final = 5.0
"""The time for one solver; a question that takes longer stays undecided."""

SIZES: Final[Mapping[str, Mapping[str, int]]] = {
    "idempotent": {"producers": 2, "partitions": 2, "broken_connections": 2, "max_message": 1},
    "producer_ids": {"brokers": 3, "producers": 3},
    "processing": {"members": 3},
    "transactions": {"in_flight": 3, "producer_ids": 2, "late": 2, "late_markers": 2},
}
"""The sizes of containers that are not the usual ones, by composition."""

ANY_TUPLE: Final = 4
"""The most elements of a tuple whose type names no capacity."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The value of a function for unknown arguments, with the conditions that it is enabled and
    defined."""

    value: Any
    enabled: Node
    defined: Node


class UnknownArguments:
    """The arguments of a composition's functions: any values that their types allow."""

    def __init__(self, model: Model) -> None:
        bounds = model.configuration.Bounds(**SIZES[model.name])
        faults = replace(bounds.faults, **{field.name: 1 for field in fields(bounds.faults)})
        self._k = model.configuration.Configuration(
            variant=model.variants.parse(NEWEST),
            bounds=replace(bounds, faults=faults),
            budgets=model.configuration.Budgets(),
        )
        self._shapes = shapes_of(self._k.bounds)
        self._sizes = self._unknown_sizes(model)
        self._overrides = {**self._sizes, **self._unknown_rules()}
        self._between: dict[Node, None] = {}

    def _unknown_sizes(self, model: Model) -> dict[tuple[str, str], Node]:
        """Return unknowns for the sizes that are not sizes of containers."""
        bounds, kept = self._k.bounds, set(container_sizes(model.world.World))
        public = (name for name in dir(bounds) if not name.startswith("_"))
        named = {name: getattr(bounds, name) for name in public if name not in kept}
        return {
            ("Bounds", name): unknown(f"bounds.{name}", is_bool=isinstance(value, bool))
            for name, value in named.items()
            if isinstance(value, int)
        }

    def _unknown_rules(self) -> dict[tuple[str, str], Node]:
        """Return unknowns for all rules of a variant."""
        variant: Any = type(self._k.variant)
        hints = hints_of(variant)
        ranges = {
            name: (min(hint), max(hint)) if issubclass(hint, IntEnum) else (0, 2)
            for name, hint in hints.items()
            if issubclass(hint, int)
        }
        return {("Variant", n): dag.leaf(f"variant.{n}", *ends) for n, ends in ranges.items()}

    def evaluate(self, model: Model, name: str) -> Evaluation:
        """Evaluate a function of the model. Raises LiftError."""
        function = function_of(model, name)
        evaluator = Evaluator(model, self._k, self._overrides)
        hints = {n: hint for n, hint in hints_of(function).items() if n != "return"}
        arguments = [self._k if n == "k" else self._argument(hint, n) for n, hint in hints.items()]
        value = evaluator.call(function, arguments)
        return Evaluation(
            value,
            dag.conjunction(limit.condition for limit in evaluator.limits),
            dag.conjunction(noted.holds for noted in evaluator.obligations),
        )

    @property
    def known(self) -> list[Node]:
        """Return that each number of the arguments is between the sizes that its type names."""
        return list(self._between)

    def _argument(self, hint: Any, name: str) -> Any:
        """Return any value of a type. Raises LiftError for a type variable."""
        if typing.get_origin(hint) is tuple and typing.get_args(hint)[1:] == (...,):
            inner = typing.get_args(hint)[0]
            slots = tuple(self._argument(inner, f"{name}[{i}]") for i in range(ANY_TUPLE))
            return Seq(dag.leaf(f"len({name})", 0, ANY_TUPLE), slots)
        if typing.get_origin(hint) is Step:
            actor, message = typing.get_args(hint)
            sends = self._argument(GenericAlias(tuple, (message, ...)), f"{name}.sends")
            return Rec(Step, {"actor": self._argument(actor, f"{name}.actor"), "sends": sends})
        if self._shapes.kind(hint) == "open":
            raise LiftError(f"{name} has no type that says what its values are")
        return self._shapes.build(hint, self._scalar, name)

    def _scalar(self, name: str, hint: Any) -> Node:
        """Return any value of a scalar type."""
        if hint is int:
            return dag.leaf(name, -INFINITE, INFINITE)
        ends = ends_of(hint)
        if not any(isinstance(end, str) for end in ends):
            return dag.leaf(name, *self._shapes.bounds(hint), is_bool=hint is bool)
        node = dag.leaf(name, -INFINITE, INFINITE)
        lo, hi = map(self._end, ends)
        self._between |= {dag.le(lo, node): None, dag.le(node, hi): None}
        return node

    def size(self, name: str) -> int:
        """Return the size of a container."""
        return self._shapes.size(name)

    def _end(self, end: int | str) -> Node:
        """Return an end of a range: a number, or a size, which is known only for containers."""
        if isinstance(end, int):
            return dag.const(end)
        unknown_size = self._sizes.get(("Bounds", end))
        return dag.const(self.size(end)) if unknown_size is None else unknown_size


def unknown(name: str, *, is_bool: bool = False) -> Node:
    """Return any size or truth value; no size is less than -1, which stands for none."""
    return dag.leaf(name, 0, 1, is_bool=True) if is_bool else dag.leaf(name, -1, INFINITE)


def ends_of(hint: Any) -> tuple[int | str, ...]:
    """Return the ends of a range as its type writes them; () for another scalar."""
    marks = getattr(hint, "__metadata__", ())
    return tuple(
        getattr(mark, end) for mark in marks if hasattr(mark, "lo") for end in ("lo", "hi")
    )


def container_sizes(hint: Any) -> Iterator[str]:
    """Yield the sizes of the containers within a type."""
    for mark in getattr(hint, "__metadata__", ()):
        size = getattr(mark, "size", getattr(mark, "capacity", None))
        if isinstance(size, str):
            yield size
    cls: Any = hint
    inner = hints_of(cls).values() if is_dataclass(hint) else typing.get_args(hint)
    for part in inner:
        yield from container_sizes(part)


def same(a: Any, b: Any) -> Node:
    """Return that two values are equal; the contents of unused slots of tuples do not count."""
    if isinstance(a, Node) and isinstance(b, Node):
        return dag.eq(a, b)
    if isinstance(a, Rec) and isinstance(b, Rec):
        return dag.conjunction(same(a.fields[name], b.fields[name]) for name in a.fields)
    if isinstance(a, MapValue) and isinstance(b, MapValue):
        return dag.conjunction(map(same, a.slots, b.slots))
    if isinstance(a, Seq) and isinstance(b, Seq):
        slots = (
            dag.either(dag.le(a.length, dag.const(i)), same(one, other))
            for i, (one, other) in enumerate(zip(a.slots, b.slots, strict=False))
        )
        return dag.both(dag.eq(a.length, b.length), dag.conjunction(slots))
    if isinstance(a, (SetValue, Span)) and isinstance(b, (SetValue, Span)):
        size = max(len(s.bits) for s in (a, b, NOTHING) if isinstance(s, SetValue))
        return dag.conjunction(map(dag.eq, bits_of(a, size), bits_of(b, size)))
    raise LiftError(f"{a!r} and {b!r} cannot be compared")


NOTHING: Final = SetValue(())


def question(group: str, patch: Patch) -> ProofObligation:
    """Return the obligation that the changed function has the value of the unchanged one. Raises
    LiftError."""
    before, after = load_model(group), load_model(group, [patch])
    unknowns = UnknownArguments(before)
    was, is_ = unknowns.evaluate(before, patch.function), unknowns.evaluate(after, patch.function)
    alike = dag.both(dag.eq(was.enabled, is_.enabled), is_.defined)
    alike = dag.both(alike, dag.either(dag.negate(was.enabled), same(was.value, is_.value)))
    assumed: list[Formula] = [((), node) for node in (*unknowns.known, was.defined)]
    return obligation(f"{patch.function}/as it was", assumed, ((), alike))


def has_equal_values(group: str, patch: Patch) -> bool:
    """Whether both solvers prove the values equal. False also if a solver finds a difference or
    cannot decide, or the text cannot be lifted."""
    try:
        text = question(group, patch).text
    except (LiftError, OverflowError):
        return False
    return all(ask(name, text, timeout_s=TIMEOUT_S).result == "proved" for name in SOLVERS)
