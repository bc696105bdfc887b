"""Checks in scopes that the steps of the proofs contain every transition of the actors.

Theory of operation. Each transition of a scope is taken once more, and each actor's rule that it
applies is recorded with its arguments. For every actor that a theorem watches, some step must
evaluate this rule. The arguments give the step's unknowns their values; the step's assumptions must
hold in the state before; and the actor that the step computes must equal the actor that the rule
returned. Nothing else may change the actor. Assumptions ask whether ghosts that are sets have
certain members, so these ghosts are given everything that the next state has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Any, Protocol

from model.language import Map, is_record
from proofs.explore.source import SourceGraph
from proofs.lift.call_graph import name_of
from proofs.lift.containers import FocusMap, FunctionMap, FunctionSeq, PredicateSet
from proofs.lift.dag import Node, const, reachable
from proofs.lift.source import Model
from proofs.lift.values import MapValue, Rec, Seq, SetValue
from proofs.prove.engine.induction import ProofStep
from proofs.prove.engine.valuation import compiled
from proofs.trace.messages import RuleCall, recorded_calls
from proofs.trace.replay import Stepper

ROLES = ("client", "coordinator", "leader")
"""The actors in the states of steps, by name."""
MOST_FREE = 7
"""The largest number of unknowns without a given value for which both 0 and 1 are tried."""
Bindings = dict[tuple[Any, ...], int]
"""The values of unknowns by name, and of functions of numbers by name and arguments."""


class NoMatch(Exception):
    """The arguments with which a rule was applied do not fit those with which a step evaluates
    it."""


class ScopeValues(Protocol):
    """A state of a scope, as the unknowns and functions of the proofs."""

    def value_of(self, name: str, arguments: tuple[int, ...]) -> int:
        """Return the value of an unknown, or of a function of numbers. Raises KeyError."""


@dataclass(frozen=True, slots=True)
class MissingMatch:
    """A transition that applied a rule in a way that no step contains, with the reason."""

    event: str
    rule: str
    why: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.event} takes {self.rule}: {'; '.join(self.why)}"


@dataclass(slots=True)
class SimulationResult:
    """The result of a comparison: how often each step matched a rule, and the first application of
    each kind that no step contains."""

    matched: Counter[str] = field(default_factory=Counter)
    unmatched: dict[tuple[str, str], MissingMatch] = field(default_factory=dict)

    def refuse(self, event: str, rule: str, *why: str) -> None:
        """Record a transition that no step contains, unless one of its kind is already recorded."""
        self.unmatched.setdefault((event, rule), MissingMatch(event, rule, why))


def unify(pattern: Any, value: Any, found: Bindings, later: list[tuple[Node, int]]) -> None:
    """Bind the unknowns in an argument's pattern to the values that they had. Comparisons that need
    all values to be known are added to `later`. Raises NoMatch."""
    match pattern:
        case Node():
            unify_scalar(pattern, int(value), found, later)
        case Rec():
            for name, inner in pattern.fields.items():
                unify(inner, getattr(value, name), found, later)
        case Seq():
            unify(pattern.length, len(value), found, later)
            for inner, item in zip(pattern.slots, value, strict=False):
                unify(inner, item, found, later)
        case MapValue():
            for inner, item in zip(pattern.slots, value.values(), strict=False):
                unify(inner, item, found, later)
        case SetValue():
            for i, bit in enumerate(pattern.bits):
                unify(bit, i in value, found, later)
        case FunctionMap():
            for i, item in value.items():
                unify(pattern.at(const(i)), item, found, later)


def unify_scalar(pattern: Node, value: int, found: Bindings, later: list[tuple[Node, int]]) -> None:
    """Bind the unknowns in the pattern of a number, as `unify` does. Raises NoMatch."""
    if pattern.is_const:
        if int(pattern.value) != value:
            raise NoMatch
    elif pattern.op in ("leaf", "apply") and all(a.is_const for a in pattern.args):
        if found.setdefault((pattern.name, *(a.value for a in pattern.args)), value) != value:
            raise NoMatch
    else:
        later.append((pattern, value))


Expected = tuple[str, Node, int]
"""A scalar of an actor: its path, the term that the step computes, and the value that the rule
returned."""


def expected(pattern: Any, value: Any, path: str) -> Iterator[Expected]:
    """Yield the scalars of an actor to compare, without the unused slots of bounded tuples."""
    match pattern:
        case Node():
            yield path, pattern, int(value)
        case Rec():
            for name, inner in pattern.fields.items():
                yield from expected(inner, getattr(value, name), f"{path}.{name}")
        case Seq():
            yield f"len({path})", pattern.length, len(value)
            yield from expected_items(pattern.slots, value, path)
        case MapValue():
            yield from expected_items(pattern.slots, value.values(), path)
        case SetValue():
            for i, bit in enumerate(pattern.bits):
                yield f"{i} in {path}", bit, i in value
        case _:
            yield from expected_of_any_size(pattern, value, path)


def expected_of_any_size(pattern: Any, value: Any, path: str) -> Iterator[Expected]:
    """Yield the scalars to compare of a container of any size, at the places in use."""
    match pattern:
        case FunctionSeq():
            yield f"len({path})", pattern.length, len(value)
            yield from expected_items(map(pattern.at, map(const, range(len(value)))), value, path)
        case FunctionMap():
            places = map(const, range(len(value.values())))
            yield from expected_items(map(pattern.at, places), value.values(), path)
        case FocusMap():
            yield from expected(pattern.value, value[0], path)
        case PredicateSet():
            for i in range(value._bits.bit_length() + 1):
                yield f"{i} in {path}", pattern.holds(const(i)), i in value


def expected_items(patterns: Iterable[Any], items: Sequence[Any], path: str) -> Iterator[Expected]:
    """Yield the scalars to compare of the items of a sequence, in order."""
    for i, (inner, item) in enumerate(zip(patterns, items, strict=False)):
        yield from expected(inner, item, f"{path}[{i}]")


@dataclass(frozen=True, slots=True)
class WatchedCall:
    """An application of a rule by a watched actor, with the actor's name in the states of steps."""

    role: str
    call: RuleCall


Actors = dict[str, Any]
"""The actors that a theorem watches, by their names in the states of steps."""


@dataclass(frozen=True, slots=True)
class StepMatch:
    """A step prepared for comparison with transitions."""

    step: ProofStep

    def match(
        self, calls: Sequence[WatchedCall], state: ScopeValues, now: Actors
    ) -> tuple[list[WatchedCall], str]:
        """Return the calls that the step contains, or an empty list and the reason."""
        found, later = Bindings(), list[tuple[Node, int]]()
        taken = list(self.consumed(calls, found, later))
        if not taken:
            return [], ""
        then = {**now, **{call.role: call.call.after for call in taken}}
        guards = [("what it assumes", body, 1) for bound, body in self.step.assumed if not bound]
        wanted = [*guards, *(("an input", node, value) for node, value in later)]
        for role in sorted(self.changed(taken) & now.keys()):
            wanted += expected(getattr(self.step.after, role), then[role], f"the {role}")
        terms = tuple(node for _, node, _ in wanted)
        why = ""
        for more in self.free(found, state, wanted):
            reason = self.compare(terms, wanted, found | more, state)
            if not reason:
                return taken, ""
            why = reason
        return [], why

    def consumed(
        self, calls: Sequence[WatchedCall], found: Bindings, later: list[tuple[Node, int]]
    ) -> Iterator[WatchedCall]:
        """Yield the calls of the rules that the step evaluates, in order. Some rules are not
        called, because their branch is not taken. No call of an actor overtakes another call of the
        same actor."""
        left = iter(self.step.taken)
        passed_over = set[str]()
        for call in calls:
            if call.role in passed_over:
                continue
            before = list(left)
            for position, taken in enumerate(before):
                if name_of(taken.rule) != call.call.name:
                    continue
                try:
                    bound, more = dict(found), list(later)
                    for pattern, value in zip(taken.arguments[2:], call.call.inputs, strict=True):
                        unify(pattern, value, bound, more)
                except NoMatch:
                    continue
                found |= bound
                later[:] = more
                left = iter(before[position + 1 :])
                yield call
                break
            else:
                passed_over.add(call.role)
                left = iter(before)

    def changed(self, taken: Iterable[WatchedCall]) -> set[str]:
        """Return the names of the actors that the step or one of the calls changes."""
        names = {call.role for call in taken}
        before, after = self.step.before, self.step.after
        return names | {
            name for name in ROLES if getattr(after, name, None) is not getattr(before, name, None)
        }

    def free(
        self, found: Bindings, state: ScopeValues, wanted: Iterable[Expected]
    ) -> Iterator[Bindings]:
        """Try values for the unknowns that neither an argument nor the state gives: 0, 1, and each
        value of an input that may be this unknown. Unknowns that stand in a choice between
        alternatives are searched least."""
        given = list(wanted)
        leaves = (n for n in reachable([node for _, node, _ in given]) if n.op == "leaf")
        names = [n.name for n in leaves if (n.name,) not in found and not knows(state, n.name)]
        hints: dict[str, set[int]] = {name: {0, 1} for name in names}
        for _, node, value in given:
            for leaf in branches(node):
                if leaf.name in hints:
                    hints[leaf.name].add(int(value))
        tried = sorted(names, key=lambda name: "[" in name)[:MOST_FREE]
        for values in product(*(sorted(hints[name]) for name in tried)):
            chosen = zip(tried, values, strict=True)
            yield {(name,): 0 for name in names} | {(name,): value for name, value in chosen}

    def compare(
        self,
        terms: tuple[Node, ...],
        wanted: Sequence[Expected],
        found: Bindings,
        state: ScopeValues,
    ) -> str:
        """Return the first difference between the step, with these values, and the transition; ""
        if they agree."""

        def value(name: str, *arguments: int) -> int:
            key = (name, *arguments)
            return found[key] if key in found else state.value_of(name, arguments)

        for got, (what, _, want) in zip(compiled(terms)(value), wanted, strict=True):
            if int(got) != int(want):
                return f"of {self.step.rule} {what} is {int(got)}, not {int(want)}"
        return ""


def branches(node: Node) -> Iterator[Node]:
    """Yield the unknowns among which the conditions of a term choose."""
    if node.op == "ite":
        yield from branches(node.args[1])
        yield from branches(node.args[2])
    elif node.op == "leaf":
        yield node


def knows(state: ScopeValues, name: str) -> bool:
    """Whether a state has a value for an unknown."""
    try:
        state.value_of(name, ())
    except KeyError:
        return False
    return True


View = Callable[[Any, Any, Actors, RuleCall], ScopeValues]
"""Builds the state before a call from a world, its past, the watched actors at this point, and the
call."""


class Simulation:
    """Compares the transitions of one model with steps. `actors` finds the actors that the theorems
    watch."""

    def __init__(
        self,
        model: Model,
        k: Any,
        steps: Iterable[ProofStep],
        actors: Callable[[Any], Actors],
        view: View,
    ) -> None:
        self.stepper = Stepper(model, k)
        self.actors, self.view = actors, view
        self.steps = [StepMatch(step) for step in steps]
        self.seen = SimulationResult()

    def run(self, found: SourceGraph, pasts: Sequence[Any]) -> SimulationResult:
        """Compare each transition of a scope. `pasts` holds the past of each world."""
        with recorded_calls(self.stepper.model) as calls:
            for before, instance, _ in found.edges:
                rule, choice = found.instances[instance]
                calls.clear()
                world = distinct(found.worlds[before])
                moved = self.stepper.after(rule, choice, world)
                self.transition(rule, (world, pasts[before]), moved, tuple(calls))
        return self.seen

    def transition(
        self, event: str, first: tuple[Any, Any], moved: Any, calls: Sequence[RuleCall]
    ) -> None:
        """Compare the rules that one transition applies. `first` is the world before it, with its
        past."""
        now, then = self.actors(first[0]), self.actors(moved)
        left = self.watched(calls, now, then)
        while left:
            taken, why = self.matched(left, self.view(*first, now, left[0].call), now)
            if not taken:
                self.seen.refuse(event, left[0].call.name, *why)
                return
            now |= {call.role: call.call.after for call in taken}
            left = [call for call in left if not any(call is other for other in taken)]
        for name, actor in then.items():
            if actor != now[name]:
                self.seen.refuse(event, name, "no rule of it has changed it")

    def watched(self, calls: Sequence[RuleCall], now: Actors, then: Actors) -> list[WatchedCall]:
        """Return the calls of watched actors, without those whose result nothing uses, if there are
        such calls."""
        found, end = followed(calls, now)
        if end == then:
            return found
        left = [call for call in calls if is_used(call, calls, then.values())]
        return followed(left, now)[0]

    def matched(
        self, calls: Sequence[WatchedCall], state: ScopeValues, now: Actors
    ) -> tuple[list[WatchedCall], list[str]]:
        """Return calls that one step contains, or an empty list and the reasons of all steps."""
        reasons = []
        for step in self.steps:
            taken, why = step.match(calls, state, now)
            if taken:
                self.seen.matched[step.step.rule] += len(taken)
                return taken, []
            reasons += [why] if why else []
        return [], reasons or ["no step evaluates it"]


def followed(calls: Iterable[RuleCall], now: Actors) -> tuple[list[WatchedCall], Actors]:
    """Return the calls that change watched actors, and these actors afterwards. (A message that a
    call sends is compared when it arrives.)"""
    actors, found = dict(now), []
    for call in calls:
        role = next((name for name, actor in actors.items() if actor is call.actor), None)
        if role is None:
            continue
        actors[role] = call.after
        if call.after != call.actor:
            found.append(WatchedCall(role, call))
    return found, actors


def is_used(call: RuleCall, calls: Sequence[RuleCall], then: Iterable[Any]) -> bool:
    """Whether anything uses the result of a call: the actor that it returned, or a message that it
    sent."""
    later = calls[next(i for i, other in enumerate(calls) if other is call) + 1 :]
    taken = {id(value) for other in later for value in other.inputs}
    return (
        any(actor is call.after for actor in then)
        or any(other.actor is call.after for other in later)
        or any(id(value) in taken for value in call.sends)
    )


def distinct(world: Any) -> Any:
    """Return an equal world in which each actor is an object of its own."""
    parts = {field.name: getattr(world, field.name) for field in fields(world)}
    return type(world)(**{name: copied(value) for name, value in parts.items()})


def copied(value: Any) -> Any:
    """Copy a record, or a map of records."""
    if isinstance(value, Map):
        return Map(tuple(map(copied, value.values())))
    return replace(value) if is_record(value) else value
