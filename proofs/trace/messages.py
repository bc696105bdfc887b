"""Follows messages between actors through the calls that the model's own events make.

While an event runs, each call of an actor's rule is recorded: the actor, the inputs and the
outputs. A message goes from the actor whose rule sends it to the actor whose rule takes it in, in
the same event or in a later one. This module knows no event, actor or network by name.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any
from unittest import mock

from model.language import Map, Step, is_actor_rule
from proofs.lift.call_graph import name_of
from proofs.lift.source import Model
from proofs.trace.project import actors, project


class MessageFate(Enum):
    """The fate of a message in a step."""

    SENT = "sent"
    DELIVERED = "delivered"
    DELIVERED_LATE = "delivered late"
    ANSWERED = "answered"
    RECEIVED = "received"
    LOST = "lost"
    DELAYED = "still to arrive"


SETS_OUT = frozenset({MessageFate.SENT, MessageFate.ANSWERED})
HAPPENS_TO_MESSAGES = frozenset({MessageFate.LOST, MessageFate.DELAYED})
ARRIVES = frozenset({MessageFate.DELIVERED, MessageFate.DELIVERED_LATE, MessageFate.RECEIVED})


@dataclass(eq=False, slots=True)
class SentMessage:
    """One message, numbered in the order of sending. `sender` and `receiver` are lanes; the
    receiver is empty if the message never arrives and its event names no other actor."""

    number: int
    value: Any
    sender: str
    receiver: str = ""
    answers: SentMessage | None = None
    is_open: bool = True
    is_delayed: bool = False
    path: str = ""


@dataclass(frozen=True, slots=True)
class MessageMove:
    """The fate of a message in one step. `is_within` marks a message that set out and arrived
    in this step."""

    kind: MessageFate
    message: SentMessage
    is_within: bool = False


@dataclass(frozen=True, slots=True)
class RuleCall:
    """An application of an actor's rule, by its name: the actor's state before and after, the
    inputs, and the messages it sends."""

    name: str
    receives: bool
    actor: Any
    inputs: tuple[Any, ...]
    after: Any
    sends: tuple[Any, ...]


def rule_call(rule: Any, actor: Any, inputs: tuple[Any, ...], result: Any) -> RuleCall:
    """Return the call; a result that is not a state of the actor is what it sends."""
    receives = vars(rule)["kind"] == "receives"
    if isinstance(result, Step):
        return RuleCall(name_of(rule), receives, actor, inputs, result.actor, result.sends)
    if type(result) is type(actor):
        return RuleCall(name_of(rule), receives, actor, inputs, result, ())
    sends = (result,) if is_dataclass(result) or isinstance(result, Enum) else ()
    return RuleCall(name_of(rule), receives, actor, inputs, actor, sends)


@contextmanager
def recorded_calls(model: Model) -> Iterator[list[RuleCall]]:
    """Record the calls of actors' rules while the context lasts; a call inside another one counts
    as its part."""
    calls: list[RuleCall] = []
    depth = 0

    def recorded(rule: Any) -> Any:
        def call(k: Any, actor: Any, *inputs: Any) -> Any:
            nonlocal depth
            depth += 1
            try:
                result = rule(k, actor, *inputs)
            finally:
                depth -= 1
            if not depth:
                calls.append(rule_call(rule, actor, inputs, result))
            return result

        return call

    in_place_of = {rule: recorded(rule) for rule in model.actor_rules.values()}
    with ExitStack() as stack:
        for space in map(vars, model.modules.values()):
            found = {n: in_place_of[v] for n, v in space.items() if is_actor_rule(v)}
            stack.enter_context(mock.patch.dict(space, found))
        yield calls


def records_in(
    value: Any, path: str = "", without: Collection[Any] = ()
) -> Iterator[tuple[str, Any]]:
    """Yield all records in a value of the model, including itself, with the names that lead to
    them. `without` are types that are left out, with everything in them."""
    if isinstance(value, (tuple, Map)):
        for inner in value if isinstance(value, tuple) else value.values():
            yield from records_in(inner, path, without)
    elif is_dataclass(value) and type(value) not in without:
        yield path, value
        for field in fields(value):
            yield from records_in(getattr(value, field.name), f"{path}.{field.name}", without)


def took_place(call: RuleCall, later: Sequence[RuleCall], state: Any) -> bool:
    """Whether the effect of a call was used: `state`, its actor's after the event, or what it
    sent."""
    used = {id(value) for other in later for value in other.inputs}
    return (
        call.after is call.actor
        or state is not call.actor
        or any(id(value) in used for value in call.sends)
    )


class MessageFollower:
    """Follows the messages of one run. `lanes` names the actors, by their places in the world;
    `types` are those of actors."""

    def __init__(self, lanes: Mapping[str, str], types: Collection[Any]) -> None:
        self._lanes = lanes
        self._types = types
        self._numbers = itertools.count(1)
        self._open: list[SentMessage] = []
        self._known: dict[int, SentMessage] = {}
        self._kept: list[Any] = []  # so that no other object gets the id of a known one
        self._moves: list[tuple[MessageFate, SentMessage]] = []

    def follow(
        self, before: Any, after: Any, calls: Sequence[RuleCall], named: Collection[str]
    ) -> tuple[MessageMove, ...]:
        """Return what happens to messages in one event; `named` are the lanes that its choices
        name."""
        self._moves = []
        states = dict(self._states(after))
        asker = ""
        for i, (lane, call) in enumerate(self._with_lanes(before, calls, named)):
            if took_place(call, calls[i + 1 :], states.get(lane)):
                self._receive_answers(lane)
                taken = self._take_in(lane, call, asker)
                self._send(lane, call, taken, named)
                asker = lane
        self._leave(after)
        out = {message.number for kind, message in self._moves if kind in SETS_OUT}
        back = {message.number for kind, message in self._moves if kind in ARRIVES}
        return tuple(MessageMove(k, m, m.number in out & back) for k, m in self._moves)

    def _states(self, world: Any) -> Iterator[tuple[str, Any]]:
        return ((self._lanes[p], a) for p, a in actors(world).items() if p in self._lanes)

    def _with_lanes(
        self, before: Any, calls: Sequence[RuleCall], named: Collection[str]
    ) -> Iterator[tuple[str, RuleCall]]:
        """Yield each call with the lane of its actor: the actor that had this state, else one of
        its type, preferably one that the event names. At first, actors may share a state."""
        states = list(self._states(before))
        owners = Counter(id(state) for _, state in states)
        lanes = {id(s): lane for lane, s in states if owners[id(s)] == 1 or lane in named}
        for call in calls:
            alike = [lane for lane, state in states if type(state) is type(call.actor)]
            likely = [lane for lane in alike if lane in named] or [*alike, ""]
            lane = lanes.get(id(call.actor), likely[0])
            lanes[id(call.after)] = lane
            yield lane, call

    def _move(self, kind: MessageFate, message: SentMessage) -> None:
        self._moves.append((kind, message))
        message.is_open = kind in SETS_OUT or kind is MessageFate.DELAYED

    def _know(self, message: SentMessage, value: Any) -> None:
        message.value = value
        self._kept.append(value)
        self._known[id(value)] = message
        for _, part in records_in(value):
            self._known.setdefault(id(part), message)

    def _new(self, kind: MessageFate, value: Any, sender: str, receiver: str) -> SentMessage:
        message = SentMessage(next(self._numbers), value, sender, receiver)
        self._know(message, value)
        self._open.append(message)
        self._move(kind, message)
        return message

    def _take_in(self, lane: str, call: RuleCall, asker: str) -> SentMessage | None:
        """Return the message that a call takes in."""
        for value in call.inputs:
            message = self._known.get(id(value))
            if message is None and call.receives and is_dataclass(value):
                message = self._passed_on(value, lane, asker)
            if message is not None and message.sender != lane:
                if message.is_open:
                    self._arrive(message, lane)
                return message
        return None

    def _passed_on(self, value: Any, lane: str, asker: str) -> SentMessage | None:
        """Return a message that the world makes for an actor on behalf of another: the one that
        has received a part of the message, else the one that moved last."""
        for _, part in records_in(value):
            message = self._known.get(id(part))
            if message is not None and message.is_open and message.receiver not in ("", lane):
                asker = message.receiver
                self._arrive(message, asker)
        return self._new(MessageFate.SENT, value, asker, lane) if asker else None

    def _arrive(self, message: SentMessage, lane: str) -> None:
        message.receiver = lane
        if message.answers is not None:
            self._move(MessageFate.RECEIVED, message)
        elif message.is_delayed:
            self._move(MessageFate.DELIVERED_LATE, message)
        else:
            self._move(MessageFate.DELIVERED, message)

    def _receive_answers(self, lane: str) -> None:
        """Mark answers as received: the world may pass on only a field of an answer, so an asking
        actor that moves has it."""
        for kind, message in list(self._moves):
            if kind is MessageFate.ANSWERED and message.is_open and message.receiver == lane:
                self._arrive(message, lane)

    def _send(
        self, lane: str, call: RuleCall, taken: SentMessage | None, named: Collection[str]
    ) -> None:
        for value in call.sends:
            if taken is None:
                others = [other for other in named if other != lane]
                self._new(MessageFate.SENT, value, lane, others[0] if others else "")
            else:
                self._new(MessageFate.ANSWERED, value, lane, taken.sender).answers = taken

    def _leave(self, after: Any) -> None:
        """Keep the messages that are in the world as still to arrive; all others are lost."""
        found = records_in(after, without=self._types)
        there = {id(record): (path, record) for path, record in found}
        self._open = [message for message in self._open if message.is_open]
        for message in self._open:
            path, _ = there.get(id(message.value)) or self._copy(message, there)
            if not path:
                self._move(MessageFate.LOST, message)
            elif message.path and message.path != path:
                message.is_delayed = True
                self._move(MessageFate.DELAYED, message)
            message.path = path

    def _copy(self, message: SentMessage, there: Mapping[int, tuple[str, Any]]) -> tuple[str, Any]:
        """Return the message as another object, if the world has one instead: equal, or with other
        fields."""
        alike = [
            (path, record)
            for path, record in there.values()
            if type(record) is type(message.value) and id(record) not in self._known and path
        ]
        same = [found for found in alike if found[1] == message.value]
        path, record = next(iter(same or alike), ("", None))
        if path:
            self._know(message, record)
        return path, record


def message_text(value: Any) -> str:
    """Return `ProduceRequest(producer_id=0 base_sequence=0 ...)`; an error code is its name."""
    if isinstance(value, Enum):
        return value.name
    inside = " ".join(f"{name}={inner}" for name, inner in flat(project(value)))
    return f"{type(value).__name__}({inside})"


def flat(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the scalar fields of a record's projection, including those of inner records."""
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from flat(inner)
        else:
            yield name, inner
