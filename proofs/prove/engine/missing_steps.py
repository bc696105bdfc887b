"""Checks that the steps of a theorem cover everything that an event of the world can do.

An event changes actors only by their rules, or by a text of the world that builds an actor or a
message (see `world_events.py`). A theorem is therefore about every run of the world if its steps
evaluate each of those rules and texts, for the actors that its clauses read and the events that no
assumption of the theorem leaves out. Whether inputs satisfy what the steps assume is checked in
scopes (`actor_simulation.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, get_origin

from model.language import Step
from proofs.lift.call_graph import name_of
from proofs.lift.containers import FocusMap, FunctionMap, FunctionSeq, PredicateSet
from proofs.lift.dag import Node, reachable
from proofs.lift.source import Model
from proofs.lift.values import MapValue, Rec, Seq, SetValue
from proofs.prove.engine.induction import ProofStep
from proofs.prove.engine.smt import Formula
from proofs.prove.engine.step_evaluator import actor_of, exchanged, hints_of
from proofs.prove.engine.unknowns import bound
from proofs.prove.engine.world_events import WorldEvents, effects_of


class MissingSteps(ValueError):
    """A theorem has no step for something that an event of the world does."""


@dataclass(frozen=True, slots=True)
class MissingStep:
    """Something that an event does and no step covers: an actor's rule, or a function of the world
    that builds an actor or a message."""

    event: str
    what: str


def missing_steps(
    events: WorldEvents, steps: Iterable[ProofStep], actors: Collection[type]
) -> Iterator[MissingStep]:
    """Yield everything that no step covers. Only what can change one of the `actors` counts: a rule
    of the actor, or a text that builds the actor or a message. Messages of ANYBODY_SENDS are
    exempt, because they arrive in the steps of all theorems whoever sends them."""
    given = tuple(steps)
    taken = {t.rule for step in given for t in step.taken}
    edits = {edit for step in given for edit in step.edits}
    messages = messages_of(events.model)
    for event, effect in effects_of(events).items():
        for rule in sorted(effect.takes - taken, key=name_of):
            if actor_of(rule) in actors and changes_actor(rule):
                yield MissingStep(event, f"takes {name_of(rule)}")
        for edit in sorted(effect.edits - edits, key=str):
            if edit.cls in actors or edit.cls in messages:
                yield MissingStep(event, f"builds a {edit.cls.__name__} in {edit.function}")


def messages_of(model: Model) -> set[type]:
    """Return the classes of messages that actors receive, except those that anybody may send."""
    known = {actor_of(rule) for rule in model.actor_rules.values()}
    return {cls for cls in exchanged(model) - known if cls.__name__ not in ANYBODY_SENDS}


def changes_actor(rule: Callable[..., Any]) -> bool:
    """Whether a rule can change its actor: whether the returned value contains the actor."""
    returned = hints_of(rule)["return"]
    return returned is actor_of(rule) or get_origin(returned) is Step


def actors_read(state: Any, formulas: Iterable[Formula], among: Collection[type]) -> set[type]:
    """Return the classes of the actors in a state of unknowns that formulas read."""
    spoken = {node.name for node in reachable(body for _, body in formulas)} - {""}
    actors = (getattr(state, name, None) for name in ("client", "coordinator", "leader"))
    return {
        actor.cls
        for actor in actors
        if isinstance(actor, Rec) and actor.cls in among and spoken & names_in(actor)
    }


def names_in(value: Any) -> set[str]:
    """Return the names of the unknowns and functions in a value of unknowns."""
    return {node.name for node in reachable(scalars_of(value))} - {"", PROBE.name}


ANYBODY_SENDS = frozenset({"Request"})
"""Messages that arrive in the steps of all theorems, because anybody may send them."""
PROBE = bound("any")
"""Stands for any key of a map, or any place of a log."""


def scalars_of(value: Any) -> Iterator[Node]:
    """Yield the scalars of a value; a function contributes its values at any key."""
    for part in parts_of(value):
        if isinstance(part, Node):
            yield part
        else:
            yield from scalars_of(part)


def parts_of(value: Any) -> tuple[Any, ...]:
    """Return the parts of a value."""
    match value:
        case Node():
            return (value,)
        case Rec():
            return tuple(value.fields.values())
        case Seq():
            return (value.length, *value.slots)
        case MapValue():
            return value.slots
        case SetValue():
            return value.bits
        case FunctionSeq():
            return (value.at(PROBE),)
        case FunctionMap():
            return (value.at(PROBE),)
        case FocusMap():
            return value.value, value.elsewhere
        case PredicateSet():
            return (value.holds(PROBE),)
    raise TypeError(f"{value!r} has no parts")


def demand_all_steps(theorem: str, missing: Iterable[MissingStep]) -> None:
    """Raise MissingSteps, naming everything that is missing, if anything is."""
    lines = [f"  {m.event} {m.what}" for m in missing]
    if lines:
        told = "\n".join(lines)
        raise MissingSteps(
            f"{theorem} has no step for what happens in the world:\n{told}\n"
            "Add a step (proofs/prove/idempotent/steps.py, proofs/prove/transactions/steps.py),"
            " or an assumption that leaves the event out."
        )
