"""Runs the model's own events, and records the requests, answers and faults of actors.

A script for brokers consists of the messages that the model's actors take and send in a trace. So
each event of the world runs unchanged, in a copy of its module's namespace that records the
relevant calls: a call of an actor's rule becomes a row of the tables, and a function of the world
that answers a request is noted. Guards of the scope and fault counters do nothing here, unless
asked for: a trace comes from the model already, and requests after the trace may leave the scope.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, Final, NamedTuple, get_args, get_origin

from conformance.judging.lockstep.events import two_sided
from conformance.judging.lockstep.symbols import hints_of
from conformance.judging.tables import MAX_ROWS, ActorTables, InternedState
from model import faults, language
from model.language import Step, is_actor_rule
from proofs.lift.source import Model
from proofs.trace.format import Instance

ACTOR_AND_CONFIGURATION: Final = 2
MOST_KNOWN: Final = 100_000
"""The most events that are remembered; then it begins anew."""


class ActorCall(NamedTuple):
    """An actor before a rule, and its state and messages after it. `seen` has a bit for each point
    of the model's text that the rule covered."""

    rule: Callable[..., Any]
    actor: Any
    inputs: tuple[Any, ...]
    after: Any
    sends: tuple[Any, ...]
    seen: int


class RecordedEvent(NamedTuple):
    """The worlds before and after an event, and the actors' calls in order. `answer` is the last
    message to a client that a rule, or a function of the world, returned."""

    before: Any
    world: Any
    calls: tuple[ActorCall, ...]
    answer: Any

    def seen(self, *, is_heard: bool = True) -> int:
        """The points that the event covered. If no client receives the answer, the receiver's rule
        does not count, though the event's text computes it."""
        seen = 0
        for call in self.calls:
            if is_heard or not any(given is self.answer for given in call.inputs):
                seen |= call.seen
        return seen


class RecordedEvents:
    """The events of one model, from its `initial` world on. `answers` are the types of messages
    that answer clients. If `scope` is given, the guards and faults of that configuration count."""

    def __init__(
        self,
        model: Model,
        tables: ActorTables,
        answers: Sequence[type[Any]] = (),
        *,
        scope: Any = None,
    ) -> None:
        self.initial = model.scopes.initial(tables.k)
        self._tables = tables
        self._k = tables.k if scope is None else scope
        self._calls: list[ActorCall] = []
        self._answer: Any = None
        self._known: dict[tuple[int, Instance], RecordedEvent] = {}
        self._answers = tuple(answers)
        self._actors, _ = two_sided(model)
        self._nodes: dict[int, InternedState] = {}
        self._spaces: dict[str, dict[str, Any]] = {}
        self._copies: dict[Callable[..., Any], Callable[..., Any]] = {}
        if scope is None:
            self._copies[language.within_scope] = lambda _: None
            self._copies[faults.spend] = lambda _, world, __: world
        acting = {rule.__module__ for rule in model.actor_rules.values()}
        homes = {rule.__module__ for rule in model.rules.values()}
        for module in [m for m in model.modules.values() if m.__name__ in acting]:
            for function in functions_in(module):
                if self._moves_actor(function):
                    self._copies[function] = self._recorded(function)
        for module in [m for m in model.modules.values() if m.__name__ in homes]:
            self._spaces[module.__name__] = {}
            for function in functions_in(module):
                self._copies[function] = self._copied(function)
        for module in model.modules.values():
            if module.__name__ in self._spaces:
                self._spaces[module.__name__].update(self._namespace(module))
        self._events = {name: self._copies[rule] for name, rule in model.rules.items()}

    def run(self, world: Any, instance: Instance) -> RecordedEvent:
        """Applies an event in a world. Results are remembered, because many traces begin alike.
        Raises Disabled."""
        event = self._known.get((id(world), instance))
        if event is None or event.before is not world:
            self._calls, self._answer = [], None
            rule, choice = instance
            after = self._events[rule](self._k, world, *[value for _, value in choice])
            event = RecordedEvent(world, after, tuple(self._calls), self._answer)
            if len(self._known) > MOST_KNOWN:
                self._known.clear()
            self._known[id(world), instance] = event
        return event

    # ---- copies of functions

    def _namespace(self, module: ModuleType) -> dict[str, Any]:
        """A module's names, with copies of its functions and of the functions in modules that it
        names."""
        return {name: self._copy_of(value) for name, value in vars(module).items()}

    def _copy_of(self, value: Any) -> Any:
        if isinstance(value, ModuleType):
            named = {name: self._copies.get(f, f) for name, f in functions_by_name(value)}
            return SimpleNamespace(**{**vars(value), **named})
        return self._copies.get(value, value) if isinstance(value, FunctionType) else value

    def _copied(self, function: FunctionType) -> Callable[..., Any]:
        """A function of the world."""
        space = self._spaces[function.__module__]
        copy = FunctionType(function.__code__, space, function.__name__, function.__defaults__)
        result = hints_of(function).get("return")
        if get_origin(result) is not Step or get_args(result)[1] not in self._answers:
            return copy

        def answering(*given: Any) -> Any:
            step = copy(*given)
            self._answer = step.sends[0]
            return step

        return answering

    def _moves_actor(self, function: FunctionType) -> bool:
        """Whether a function is a rule of an actor, or asks an actor about a message."""
        given = [hint for name, hint in hints_of(function).items() if name != "return"]
        takes = is_actor_rule(function) or len(given) > ACTOR_AND_CONFIGURATION
        return takes and given[1] in self._actors

    def _recorded(self, rule: FunctionType) -> Callable[..., Any]:
        """A rule of an actor, replaced by rows of the tables."""
        result = hints_of(rule)["return"]
        is_step, is_actor = get_origin(result) is Step, result in self._actors
        name, answers = rule.__name__, self._answers

        def recorded(_: Any, actor: Any, *inputs: Any) -> Any:
            node, sent, seen = self._tables.after(self._node(actor), name, *inputs)
            sends = tuple([message.value for message in sent])
            self._calls.append(ActorCall(rule, actor, inputs, node.state, sends, seen))
            if not is_step:
                return node.state if is_actor else sends[0]
            if sends and isinstance(sends[0], answers):
                self._answer = sends[0]
            return Step(node.state, sends)

        return recorded

    def _node(self, actor: Any) -> InternedState:
        """The node of an actor. It is looked up by identity first: actors come from the tables, and
        hashing one takes long."""
        node = self._nodes.get(id(actor))
        if node is None or node.state is not actor:
            if len(self._nodes) > MAX_ROWS:
                self._nodes.clear()
            node = self._tables.node(actor)
            self._nodes[id(node.state)] = node
        return node


def functions_by_name(module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
    """The functions that a module names, including imported ones."""
    for name, value in vars(module).items():
        if isinstance(value, FunctionType):
            yield name, value


def functions_in(module: ModuleType) -> Iterator[FunctionType]:
    """The functions defined in a module."""
    for _, function in functions_by_name(module):
        if function.__module__ == module.__name__ and not function.__name__.startswith("_"):
            yield function
