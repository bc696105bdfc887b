"""What happened in a trace, read off its worlds: who sent what to whom, and what changed.

Nothing here knows a rule by name. Messages are followed through the links (`requests`, `answers`,
`broken`) by comparing each world with the next; a rule that moves no message is told by the first
sentence of its docstring. Text, Mermaid and the page are three prints of the same `Story`.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

from model.language import Map
from proofs.lift.source import Model
from proofs.trace.format import Header, TraceStep
from proofs.trace.project import actors, acts, project
from proofs.trace.replay import World, grown

ON_ITS_WAY = "on its way"
"""What changes are of that no actor has: messages that will still arrive."""


class MessageFate(Enum):
    """What became of a message in a step."""

    SENT = "sent"
    DELIVERED = "delivered"
    DELIVERED_LATE = "delivered late"
    ANSWERED = "answered"
    RECEIVED = "received"
    LOST = "lost"
    CUT = "cut off, still to arrive"


@dataclass(frozen=True, slots=True)
class StoryMessage:
    """One message, numbered in the order of sending; `link` is (producer, partition)."""

    kind: MessageFate
    number: int
    link: tuple[int, int]
    message: str
    value: Any
    is_answer: bool


@dataclass(frozen=True, slots=True)
class Change:
    """A place of an actor that a step changed, with plain values; `what` as text."""

    actor: str
    place: str
    what: str


@dataclass(frozen=True, slots=True)
class StoryEvent:
    """One step of a story. `lanes` are the actors that its choice names."""

    number: int
    rule: str
    label: str
    doc: str
    lanes: tuple[str, ...]
    moves: tuple[StoryMessage, ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Story:
    """A trace told. `worlds` are projections: the first, and one after each event."""

    header: Header
    lanes: tuple[str, ...]
    events: tuple[StoryEvent, ...]
    worlds: tuple[Any, ...]


# Messages as text


def flat(value: Any) -> Iterator[tuple[str, Any]]:
    """The scalar fields of a record's projection, those of inner records included."""
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from flat(inner)
        else:
            yield name, inner


def message_text(message: Any) -> str:
    """`ProduceRequest(producer_id=0 base_sequence=0 ...)`."""
    inside = " ".join(f"{name}={value}" for name, value in flat(project(message)))
    return f"{type(message).__name__}({inside})"


# Following messages


class _Followed:
    """The messages of one link, each known by its number, through the network's own verbs."""

    def __init__(self, link: tuple[int, int], numbers: Iterator[int]) -> None:
        self.link = link
        self.numbers = numbers
        self.requests: list[int] = []
        self.answers: list[int] = []
        self.broken: list[list[int]] = []
        self.messages: dict[int, tuple[Any, bool]] = {}

    def move(self, kind: MessageFate, number: int) -> StoryMessage:
        """A move of a message that is known."""
        message, is_answer = self.messages[number]
        text = message_text(message)
        return StoryMessage(kind, number, self.link, text, project(message), is_answer)

    def new(self, queue: list[int], message: Any) -> int:
        """A message sets out."""
        number = next(self.numbers)
        self.messages[number] = (message, queue is self.answers)
        queue.append(number)
        return number

    def send(self, _choice: dict[str, int], _before: Any, after: Any) -> Iterator[StoryMessage]:
        """A request leaves its producer."""
        yield self.move(MessageFate.SENT, self.new(self.requests, after.requests[-1]))

    def answered(self, _choice: dict[str, int], before: Any, after: Any) -> Iterator[StoryMessage]:
        """A request is handled; its answer sets out."""
        yield self.move(MessageFate.DELIVERED, self.requests.pop(0))
        for message in grown(before.answers, after.answers):
            yield self.move(MessageFate.ANSWERED, self.new(self.answers, message))

    def received(
        self, _choice: dict[str, int], _before: Any, _after: Any
    ) -> Iterator[StoryMessage]:
        """An answer reaches its producer."""
        yield self.move(MessageFate.RECEIVED, self.answers.pop(0))

    def arrived_late(
        self, choice: dict[str, int], _before: Any, _after: Any
    ) -> Iterator[StoryMessage]:
        """A request of a broken connection is handled."""
        yield self.move(MessageFate.DELIVERED_LATE, self.broken[choice["connection"]].pop(0))
        self.broken = [queue for queue in self.broken if queue]

    def breaks(self, choice: dict[str, int], _before: Any, _after: Any) -> Iterator[StoryMessage]:
        """The open connection breaks: its first requests still arrive."""
        survivors = self.requests[: choice["survivors"]]
        del self.requests[: choice["survivors"]]
        lost = [*self.requests, *self.answers]
        yield from (self.move(MessageFate.CUT, number) for number in survivors)
        yield from (self.move(MessageFate.LOST, number) for number in lost)
        self.requests, self.answers = [], []
        if survivors:
            self.broken.append(survivors)

    def gone(self, _choice: dict[str, int], _before: Any, _after: Any) -> Iterator[StoryMessage]:
        """All that travelled is lost."""
        lost = [*self.requests, *self.answers, *(n for queue in self.broken for n in queue)]
        yield from (self.move(MessageFate.LOST, number) for number in lost)
        self.requests, self.answers, self.broken = [], [], []


NETWORK_VERBS = {
    "send": _Followed.send,
    "answered": _Followed.answered,
    "received": _Followed.received,
    "arrived_late": _Followed.arrived_late,
    "broken": _Followed.breaks,
}
"""What each function of the model's network does to the messages of a link."""


def network_calls(model: Model, function: ast.FunctionDef) -> Iterator[str]:
    """The network's functions that a rule calls, itself or through others of the world."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called = model.functions.get(("world", node.func.id))
            if called is not None:
                yield from network_calls(model, called)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "network":
            yield node.attr


@functools.lru_cache(maxsize=1024)
def network_verb(model: Model, rule: str) -> Any:
    """What a rule does to a link, by the function of the network that its text calls."""
    tree = model.tree_of(model.rules[rule])
    called = set(network_calls(model, tree)) if tree else set()
    return next((verb for name, verb in NETWORK_VERBS.items() if name in called), _Followed.gone)


def links(world: World) -> dict[tuple[int, int], Any]:
    """All links, by producer and partition; none in a world without a network."""
    if not hasattr(world, "links"):
        return {}
    return {
        (producer, partition): link
        for producer, by_partition in world.links.items()
        for partition, link in by_partition.items()
    }


# What changed


def short(value: Any) -> str:
    """A plain value as text: objects in braces, without quotes."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}={short(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(short(v) for v in value) + "]"
    return str(value)


def changed(place: str, before: Any, after: Any) -> Iterator[tuple[str, str]]:
    """The smallest places where two plain values differ, each with what happened there."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        for key in before:
            inner = f"[{key}]" if key.isdecimal() else f".{key}"
            yield from changed(f"{place}{inner}", before[key], after[key])
    elif isinstance(before, list) and isinstance(after, list):
        yield from changed_list(place, before, after)
    else:
        yield place, f"{short(before)} -> {short(after)}"


def changed_list(place: str, before: list[Any], after: list[Any]) -> Iterator[tuple[str, str]]:
    """Lists that grew, lost some elements, or changed in place."""
    if len(after) > len(before) and after[: len(before)] == before:
        yield place, f"+ {', '.join(map(short, after[len(before) :]))}"
    elif len(after) < len(before) and all(element in before for element in after):
        gone = [element for element in before if element not in after]
        yield place, f"- {', '.join(map(short, gone))}"
    elif len(after) == len(before):
        for i, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from changed(f"{place}[{i}]", old, new)
    else:
        yield place, f"{short(before)} -> {short(after)}"


def changes(before: World, after: World, names: Mapping[str, str]) -> tuple[Change, ...]:
    """What a step changed in actors and in what is late; links are told as moves of messages."""
    places = {place: (names[place], "") for place in names}
    places |= {f.name: (ON_ITS_WAY, f.name) for f in fields(after) if is_late(after, f.name)}
    earlier, later = all_places(before), all_places(after)
    return tuple(
        Change(actor, inner.lstrip("."), what)
        for place, (actor, shown) in places.items()
        for inner, what in changed(shown, project(earlier[place]), project(later[place]))
    )


def is_late(world: World, field: str) -> bool:
    """Messages in no link."""
    return type(getattr(world, field)) is tuple


def all_places(world: World) -> dict[str, Any]:
    """Actors, and what is late."""
    late = {f.name: getattr(world, f.name) for f in fields(world) if is_late(world, f.name)}
    return {**actors(world), **late}


def index_name(hint: Any) -> str:
    """`producer` for a map by `Annotated[int, Index("producers")]`."""
    (index,) = typing.get_args(hint)[0].__metadata__
    size: str = index.size
    return size.removesuffix("s")


def lane_names(model: Model, world: World) -> dict[str, str]:
    """Who acts, by place: `producer 0` for `clients[0]`, `coordinator` for the only one."""
    hints = typing.get_type_hints(type(world), vars(model.world), include_extras=True)
    names: dict[str, str] = {}
    for f in fields(world):
        value = getattr(world, f.name)
        if acts(world, value):
            names[f.name] = f.name
        elif isinstance(value, Map) and all(acts(world, inner) for inner in value.values()):
            named = index_name(hints[f.name])
            names |= {f"{f.name}[{key}]": f"{named} {key}" for key, _ in value.items()}
    return names


# The story


def first_sentence(model: Model, rule: str) -> str:
    """What a rule says of itself."""
    return inspect.cleandoc(model.rules[rule].__doc__ or rule).partition("\n\n")[0]


def sentence(model: Model, step: TraceStep, world: World, lanes: Collection[str]) -> str:
    """What happened, where no messages are followed with the choices that name no actor."""
    doc = first_sentence(model, step.rule)
    others = [f"{name}={n}" for name, n in step.choice if f"{name} {n}" not in lanes]
    return doc if hasattr(world, "links") or not others else f"{doc} ({', '.join(others)})"


def touched(step: TraceStep, lanes: Sequence[str], changed_now: Sequence[Change]) -> Iterator[str]:
    """The actors that a step's choice names, and those without a number that it changed."""
    named = {f"{name} {value}" for name, value in step.choice}
    moved = {change.actor for change in changed_now}
    alone = {lane for lane in lanes if " " not in lane}
    yield from (lane for lane in lanes if lane in named or lane in moved & alone)


def tell(
    model: Model, header: Header, steps: Sequence[TraceStep], worlds: Sequence[World]
) -> Story:
    """The story of a trace that was replayed to `worlds` (the first one included)."""
    numbers = itertools.count(1)
    followed = {link: _Followed(link, numbers) for link in links(worlds[0])}
    names = lane_names(model, worlds[0])
    lanes = tuple(names.values())
    events = []
    for number, step in enumerate(steps, start=1):
        before, after = worlds[number - 1], worlds[number]
        now, choice = links(after), dict(step.choice)
        verb = network_verb(model, step.rule)
        moves = tuple(
            move
            for link, was in links(before).items()
            if was != now[link]
            for move in verb(followed[link], choice, was, now[link])
        )
        changed_now = changes(before, after, names)
        doc = sentence(model, step, after, lanes)
        acting = tuple(touched(step, lanes, changed_now))
        events.append(StoryEvent(number, step.rule, step.label, doc, acting, moves, changed_now))
    return Story(header, lanes, tuple(events), tuple(project(world) for world in worlds))
