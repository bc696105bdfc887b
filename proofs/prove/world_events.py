"""What each event of a world does to actors: which of their rules it takes, and what else it does.

Theory of operation. An event's text is evaluated for any world, with each rule of an actor replaced
by one of which nothing is known. What the event makes of an actor, or of a message, besides is then
in its own text. Rules of the variant are unknown, so that each branch is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, get_args, get_origin, get_type_hints

from model.language import Step
from proofs.lift.build import choices, symbolic_world
from proofs.lift.dag import Node, leaf
from proofs.lift.source import Model
from proofs.lift.values import Rec, Seq, Shapes
from proofs.prove.step_evaluator import Edit, StepEvaluator
from proofs.prove.unknowns import Unknowns, number


@dataclass(frozen=True, slots=True)
class EventEffect:
    """`takes` are the rules of actors that an event takes; `edits` what it makes by itself."""

    takes: frozenset[Callable[..., Any]]
    edits: frozenset[Edit]


class EventEvaluator(StepEvaluator):
    """Evaluates an event; of what a rule of an actor does nothing is known."""

    def __init__(self, model: Model, k: Any) -> None:
        super().__init__(model, k, any_variant(k))
        self.unknowns = Unknowns(k.bounds)

    def take(self, rule: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """Any value that the rule may return; it sends one message at most."""
        hint, name = get_type_hints(rule)["return"], f"{rule.__name__}()"
        if get_origin(hint) is not Step:
            return self.unknowns.value(hint, name)
        actor, message = get_args(hint)
        sends = Seq(leaf(f"len({name})", 0, 1), (self.unknowns.value(message, f"{name}.sends"),))
        return Rec(Step, {"actor": self.unknowns.value(actor, f"{name}.actor"), "sends": sends})


def any_variant(k: Any) -> dict[tuple[str, str], Node]:
    """Each rule of the variant, unknown."""
    names = [field.name for field in fields(k.variant)]
    return {("Variant", n): number(f"variant.{n}") for n in names if n not in ("name", "release")}


@lru_cache(maxsize=16)
def effects(model: Model, k: Any) -> Mapping[str, EventEffect]:
    """What each event of a world does to actors, by the event's name, in a configuration."""
    world = symbolic_world(model, Shapes(k.bounds))
    found = {}
    for name, function in model.rules.items():
        evaluator = EventEvaluator(model, k)
        for choice in choices(evaluator.shapes, function):
            evaluator.call(function, [k, world, *(evaluator.lift(value) for _, value in choice)])
        takes = frozenset(taken.rule for taken in evaluator.taken)
        found[name] = EventEffect(takes, frozenset(evaluator.edits))
    return found
