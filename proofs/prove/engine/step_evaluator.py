"""The evaluator of steps: it notes which actors' rules were evaluated, and what else was built.

Text outside those rules belongs to the world, or to a step of the proofs. If such text builds an
actor, or a message that actors receive, it does by itself what otherwise only a rule does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, get_args, get_origin, get_type_hints

from model.language import RECORDS, Step, is_actor_rule, is_input
from proofs.lift.dag import Node, leaf
from proofs.lift.evaluate import Evaluator
from proofs.lift.source import Model
from proofs.lift.values import Rec, Seq
from proofs.prove.engine.unknowns import Unknowns


@dataclass(frozen=True, slots=True)
class RuleApplication:
    """The evaluation of an actor's rule: its arguments, its result, and the path condition under
    which it is reached."""

    rule: Callable[..., Any]
    arguments: tuple[Any, ...]
    result: Any
    path: Node


def any_result(unknowns: Unknowns, rule: Callable[..., Any], name: str) -> Any:
    """Return any value that a rule may return, with one message at most."""
    hint = hints_of(rule)["return"]
    if get_origin(hint) is not Step:
        return unknowns.value(hint, name)
    actor, message = get_args(hint)
    sends = Seq(leaf(f"len({name})", 0, 1), (unknowns.value(message, f"{name}.sends"),))
    return Rec(Step, {"actor": unknowns.value(actor, f"{name}.actor"), "sends": sends})


@dataclass(frozen=True, slots=True)
class OwnChange:
    """A change outside rules: a function of the world builds an actor, or a message that actors
    receive."""

    function: str
    cls: type


@cache
def hints_of(rule: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the types of a rule's parameters and of its result."""
    return get_type_hints(rule)


def parameters_of(rule: Callable[..., Any]) -> list[Any]:
    """Return the types of a rule's actor and inputs."""
    hints = hints_of(rule)
    return [hints[name] for name in hints if name not in ("k", "return")]


def actor_of(rule: Callable[..., Any]) -> type:
    """Return the class of the actor to which a rule belongs."""
    found: type = parameters_of(rule)[0]
    return found


@lru_cache(maxsize=64)
def exchanged(model: Model) -> frozenset[type]:
    """Return the classes of a composition's actors, and of the messages that they receive."""
    return frozenset(_exchanged(model))


def _exchanged(model: Model) -> Iterator[type]:
    for rule in model.actor_rules.values():
        yield actor_of(rule)
        if is_input(rule):
            yield from (t for t in parameters_of(rule) if t in RECORDS)


class StepEvaluator(Evaluator):
    """An evaluator that notes the outermost rules that it meets, and the edits outside of them."""

    def __init__(
        self,
        model: Model,
        k: Any,
        overrides: Mapping[tuple[str, str], Node] | None = None,
        contracts: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        super().__init__(model, k, overrides, contracts)
        self.taken: list[RuleApplication] = []
        self.edits: set[OwnChange] = set()
        self._is_within_rule = False

    def call(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """Return the value of function(*arguments)."""
        if self._is_within_rule or not is_actor_rule(function):
            return super().call(function, arguments)
        path = self.path
        self._is_within_rule = True
        try:
            result = self.take(function, arguments)
        finally:
            self._is_within_rule = False
        self.taken.append(RuleApplication(function, tuple(arguments), result, path))
        return result

    def take(self, rule: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """Return the result of an actor's rule."""
        return super().call(rule, arguments)

    def construct(self, cls: type, values: Mapping[str, Any]) -> Rec:
        """Build a record; note an edit if an actor or a message is built outside a rule."""
        if not self._is_within_rule and self._names and cls in exchanged(self.model):
            self.edits.add(OwnChange(self._names[-1], cls))
        return super().construct(cls, values)
