"""Whether the steps of the proofs contain what really happens, looked at in scopes.

Theory of operation. Each transition of a scope is taken once more, and each rule of an actor that
it takes is noted, with its arguments. For an actor that a theorem looks at there must be a step
that evaluates this rule: the arguments give the step's unknowns their values, what the step assumes
must hold in the state before, and what it makes of the actor must be what the rule returned. No
actor is changed by anything else. The ghosts that are sets, which assumptions ask for members, have
all that the next state has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import product
from typing import Any, Protocol

from model.language import Map, is_record
from proofs.explore.source import SourceGraph
from proofs.lift.containers import FocusMap, FunctionMap, FunctionSeq, PredicateSet
from proofs.lift.dag import Node, const, reachable
from proofs.lift.source import Model
from proofs.lift.values import MapValue, Rec, Seq, SetValue
from proofs.prove.induction import ProofStep
from proofs.prove.missing_steps import name_of
from proofs.prove.step_evaluator import RuleApplication, actor_of
from proofs.trace.messages import RuleCall, recorded_calls
from proofs.trace.replay import Stepper

Bindings = dict[str, int]


class NoMatch(Exception):
    """A rule was taken with other arguments than those that a step evaluates it with."""


class StateOfScope(Protocol):
    """A state of a scope, as the unknowns and functions of the proofs."""

    def value_of(self, name: str, arguments: tuple[int, ...]) -> int:
        """The value of an unknown, or of a function of numbers. Raises KeyError."""


@dataclass(frozen=True, slots=True)
class MissingMatch:
    """A transition in which a rule was taken that no step contains, and why not."""

    event: str
    rule: str
    why: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.event} takes {self.rule}: {'; '.join(self.why)}"


@dataclass(slots=True)
class SimulationResult:
    """What was compared: rules that were taken, by step; and what no step contains, the first of
    each kind."""

    matched: Counter[str] = field(default_factory=Counter)
    unmatched: dict[tuple[str, str], MissingMatch] = field(default_factory=dict)

    def refuse(self, event: str, rule: str, *why: str) -> None:
        """One more that no step contains."""
        self.unmatched.setdefault((event, rule), MissingMatch(event, rule, why))


def unify(pattern: Any, value: Any, found: Bindings, later: list[tuple[Node, int]]) -> None:
    """Give unknowns of an argument the values that they had. `later` gets what is to be compared
    once all are known. Raises NoMatch."""
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


def unify_scalar(pattern: Node, value: int, found: Bindings, later: list[tuple[Node, int]]) -> None:
    """The same for a number. Raises NoMatch."""
    if pattern.is_const:
        if int(pattern.value) != value:
            raise NoMatch
    elif pattern.op == "leaf" and found.setdefault(pattern.name, value) != value:
        raise NoMatch
    elif pattern.op != "leaf":
        later.append((pattern, value))


OPERATIONS: Mapping[str, str] = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "mod": "{0} % {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "eq": "{0} == {1}",
    "not": "not {0}",
    "and": "{0} and {1}",
    "or": "{0} or {1}",
    "ite": "({1} if {0} else {2})",
}


def compiled(nodes: Sequence[Node]) -> Callable[[Callable[..., int]], tuple[int, ...]]:
    """Terms as a function of what gives an unknown, or a function of numbers, its value."""
    lines, names = ["def evaluate(value):"], dict[int, str]()
    for node in reachable(nodes):
        names[node.serial] = f"n{node.serial}"
        arguments = [names[a.serial] for a in node.args]
        lines.append(f"    n{node.serial} = {in_python(node, arguments)}")
    lines.append(f"    return ({''.join(f'{names[n.serial]}, ' for n in nodes)})")
    scope: dict[str, Any] = {}
    exec("\n".join(lines), scope)
    made: Callable[[Callable[..., int]], tuple[int, ...]] = scope["evaluate"]
    return made


def in_python(node: Node, arguments: Sequence[str]) -> str:
    """One operation."""
    if node.op == "const":
        return repr(node.value)
    if node.op in ("leaf", "apply"):
        return f"value({', '.join([repr(node.name), *arguments])})"
    return OPERATIONS[node.op].format(*arguments)


Expected = tuple[str, Node, int]
"""A scalar of an actor: where it is, as a step leaves it, and what the rule returned."""


def expected(pattern: Any, value: Any, path: str) -> Iterator[Expected]:
    """The scalars of an actor; of what is unused of a bounded tuple, none."""
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
    """The same of containers of any size: at the places that there are."""
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
    """The same, of what stands in order."""
    for i, (inner, item) in enumerate(zip(patterns, items, strict=False)):
        yield from expected(inner, item, f"{path}[{i}]")


@lru_cache(maxsize=1024)
def compiled_once(nodes: tuple[Node, ...]) -> Callable[[Callable[..., int]], tuple[int, ...]]:
    """See `compiled`: the same terms are asked for in many states."""
    return compiled(nodes)


@dataclass(frozen=True, slots=True)
class StepMatch:
    """A step as it is compared with transitions: what it takes, and what it makes of that actor."""

    step: ProofStep
    taken: RuleApplication
    after: Rec

    def match(self, call: RuleCall, state: StateOfScope) -> str:
        """Why the call is not an instance of the step; nothing if it is one."""
        found, later = Bindings(), list[tuple[Node, int]]()
        try:
            for pattern, value in zip(self.taken.arguments[2:], call.inputs, strict=True):
                unify(pattern, value, found, later)
        except NoMatch:
            return f"{self.step.rule} has other arguments"
        guards = [("what it assumes", body, 1) for bound, body in self.step.assumed if not bound]
        inputs = [("an input", node, value) for node, value in later]
        wanted = (*guards, *inputs, *expected(self.after, call.after, "the actor"))
        terms = tuple(node for _, node, _ in wanted)
        reasons = [
            self.compare(terms, wanted, found | more, state)
            for more in self.free(found, state, terms)
        ]
        return "" if "" in reasons else reasons[0]

    def free(
        self, found: Bindings, state: StateOfScope, terms: Iterable[Node]
    ) -> Iterator[Bindings]:
        """All values of the unknowns that neither an argument nor the state gives: bits."""
        leaves = (node for node in reachable(terms) if node.op == "leaf")
        names = [n.name for n in leaves if n.name not in found and not knows(state, n.name)]
        for bits in product((0, 1), repeat=len(names)):
            yield dict(zip(names, bits, strict=True))

    def compare(
        self,
        terms: tuple[Node, ...],
        wanted: Sequence[Expected],
        found: Bindings,
        state: StateOfScope,
    ) -> str:
        """Why the state, with these values, is none in which the step does that."""

        def value(name: str, *arguments: int) -> int:
            return found[name] if name in found else state.value_of(name, arguments)

        for got, (what, _, want) in zip(compiled_once(terms)(value), wanted, strict=True):
            if int(got) != int(want):
                return f"of {self.step.rule} {what} is {int(got)}, not {int(want)}"
        return ""


def knows(state: StateOfScope, name: str) -> bool:
    """Whether a state has a value for an unknown."""
    try:
        state.value_of(name, ())
    except KeyError:
        return False
    return True


View = Callable[[Any, Any, Mapping[str, Any], RuleCall], StateOfScope]
"""The state before a call: a world, what was before it, the actors that the theorem looks at as
they are by then, by name, and the call."""


class Simulation:
    """Compares the transitions of one model with steps. `actors` finds those that the theorems look
    at in a world, by the names of the steps' states."""

    def __init__(
        self,
        model: Model,
        k: Any,
        steps: Iterable[ProofStep],
        actors: Callable[[Any], dict[str, Any]],
        view: View,
    ) -> None:
        self.stepper = Stepper(model, k)
        self.actors, self.view = actors, view
        self.steps: dict[str, list[StepMatch]] = {}
        for step in steps:
            for taken in step.taken:
                self.add(step, taken)
        self.seen = SimulationResult()

    def add(self, step: ProofStep, taken: RuleApplication) -> None:
        """One more rule that a step takes."""
        cls = actor_of(taken.rule)
        states = (getattr(step.after, name, None) for name in ("client", "leader", "coordinator"))
        after = next(s for s in states if isinstance(s, Rec) and s.cls is cls)
        self.steps.setdefault(name_of(taken.rule), []).append(StepMatch(step, taken, after))

    def run(self, found: SourceGraph, pasts: Sequence[Any]) -> SimulationResult:
        """Compare each transition of a scope; each world has a past."""
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
        """Compare the rules that one transition takes, in their order; `first` is the world before
        it, with its past."""
        now = self.actors(first[0])
        for call in calls:
            name = next((n for n, actor in now.items() if actor is call.actor), None)
            if name is None:
                continue
            self.compare(event, call, self.view(*first, now, call))
            now[name] = call.after
        for name, actor in self.actors(moved).items():
            if actor != now[name]:
                self.seen.refuse(event, name, "no rule of it has changed it")

    def compare(self, event: str, call: RuleCall, state: StateOfScope) -> None:
        """Find a step that contains what a rule did."""
        reasons = []
        for step in self.steps.get(call.name, ()):
            reason = step.match(call, state)
            if not reason:
                self.seen.matched[step.step.rule] += 1
                return
            reasons.append(reason)
        self.seen.refuse(event, call.name, *(reasons or ["no step evaluates it"]))


def distinct(world: Any) -> Any:
    """The same world, each of whose actors is an object of its own."""
    parts = {field.name: getattr(world, field.name) for field in fields(world)}
    return type(world)(**{name: copied(value) for name, value in parts.items()})


def copied(value: Any) -> Any:
    """A record, or a map of records, as other objects."""
    if isinstance(value, Map):
        return Map(tuple(map(copied, value.values())))
    return replace(value) if is_record(value) else value
