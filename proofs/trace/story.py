"""The story of a trace, read from its worlds: who sent what to whom, and what changed.

This module knows no rule by name. Messages are followed through the calls of actors' rules
(`proofs.trace.messages`), and each rule is described by the first sentence of its docstring. Text,
Mermaid and the page are three prints of the same `Story`.
"""

from __future__ import annotations

import inspect
import itertools
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from model.language import Map
from proofs.lift.source import Model
from proofs.trace.breach import Breach, breaches
from proofs.trace.format import Header, TraceStep
from proofs.trace.messages import HAPPENS_TO_MESSAGES, MessageFollower, MessageMove, recorded_calls
from proofs.trace.project import actors, acts, project
from proofs.trace.replay import Stepper, World, configuration_of

ON_ITS_WAY = "on its way"
"""The owner of changes that belong to no actor: messages that will still arrive."""


@dataclass(frozen=True, slots=True)
class Change:
    """A place of an actor that a step changed, with plain values; `what` is the change as text."""

    actor: str
    place: str
    what: str


@dataclass(frozen=True, slots=True)
class StoryEvent:
    """One step of a story. `lanes` are the actors that its choice names. `is_told_by_messages` says
    that the step does nothing but carry messages over connections."""

    number: int
    rule: str
    label: str
    doc: str
    lanes: tuple[str, ...]
    moves: tuple[MessageMove, ...]
    changes: tuple[Change, ...]
    is_told_by_messages: bool


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """The content of a log, as plain values, and the offsets that are marked in it, by name."""

    partition: str
    entries: tuple[Any, ...]
    marks: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Story:
    """A trace told. `logs` are those of all partitions, initially and after each event. `breaches`
    are the guarantees that are broken at its end."""

    header: Header
    lanes: tuple[str, ...]
    events: tuple[StoryEvent, ...]
    logs: tuple[tuple[PartitionLog, ...], ...]
    breaches: tuple[Breach, ...] = ()


# Changes


def short(value: Any) -> str:
    """Return a plain value as text: objects in braces, without quotes."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}={short(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(short(v) for v in value) + "]"
    return str(value)


def changed(place: str, before: Any, after: Any) -> Iterator[tuple[str, str]]:
    """Yield the smallest places where two plain values differ, each with what happened there."""
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
    """Yield changes of a list that grew, lost some elements, or changed in place."""
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
    """Return what a step changed in actors and in late messages; changes of links are told as moves
    of messages."""
    places = {place: (names[place], "") for place in names}
    places |= {f.name: (ON_ITS_WAY, f.name) for f in fields(after) if is_late(after, f.name)}
    earlier, later = all_places(before), all_places(after)
    return tuple(
        Change(actor, inner.lstrip("."), what)
        for place, (actor, shown) in places.items()
        for inner, what in changed(shown, project(earlier[place]), project(later[place]))
    )


def is_late(world: World, field: str) -> bool:
    """Whether a field of the world holds messages that are in no link."""
    return type(getattr(world, field)) is tuple


def all_places(world: World) -> dict[str, Any]:
    """Return actors and late messages, by place."""
    late = {f.name: getattr(world, f.name) for f in fields(world) if is_late(world, f.name)}
    return {**actors(world), **late}


def index_name(hint: Any) -> str:
    """Return `producer` for a map by `Annotated[int, Index("producers")]`."""
    (index,) = typing.get_args(hint)[0].__metadata__
    size: str = index.size
    return size.removesuffix("s")


def lane_names(model: Model, world: World) -> dict[str, str]:
    """Return the names of actors by place: `producer 0` for `clients[0]`, `coordinator` for the
    only one."""
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


def actor_types(model: Model) -> set[Any]:
    """Return the types of the actors that rules change."""
    return {
        next(itertools.islice(typing.get_type_hints(rule).values(), 1, None))
        for rule in model.actor_rules.values()
    }


def partition_logs(
    model: Model, k: Any, world: World, names: Mapping[str, str]
) -> Iterator[PartitionLog]:
    """Yield the logs of a world, which leaders have."""
    last_stable_offset = getattr(model.modules.get("leader"), "last_stable_offset", None)
    for place, leader in actors(world).items():
        if not isinstance(getattr(leader, "log", None), tuple):
            continue
        marks = []
        if hasattr(leader, "high_watermark"):
            marks.append(("high watermark", leader.high_watermark))
        if last_stable_offset is not None:
            marks.append(("last stable offset", last_stable_offset(k, leader)))
        entries = tuple(project(entry) for entry in leader.log)
        yield PartitionLog(names[place], entries, tuple(marks))


# The story


def first_sentence(model: Model, rule: str) -> str:
    """Return the first paragraph of a rule's docstring."""
    return inspect.cleandoc(model.rules[rule].__doc__ or rule).partition("\n\n")[0]


def sentence(model: Model, step: TraceStep, world: World, lanes: Collection[str]) -> str:
    """Return what happened, followed by the choices that name no actor if no messages are
    followed."""
    doc = first_sentence(model, step.rule)
    others = [f"{name}={n}" for name, n in step.choice if f"{name} {n}" not in lanes]
    return doc if hasattr(world, "links") or not others else f"{doc} ({', '.join(others)})"


def named_by(step: TraceStep) -> set[str]:
    """Return the actors that a step's choice names."""
    return {f"{name} {value}" for name, value in step.choice}


def touched(step: TraceStep, lanes: Sequence[str], changed_now: Sequence[Change]) -> Iterator[str]:
    """Yield the actors that a step's choice names, and those without a number that it changed."""
    named = named_by(step)
    moved = {change.actor for change in changed_now}
    alone = {lane for lane in lanes if " " not in lane}
    yield from (lane for lane in lanes if lane in named or lane in moved & alone)


def tell(
    model: Model,
    header: Header,
    steps: Sequence[TraceStep],
    worlds: Sequence[World],
    stepper: Stepper | None = None,
) -> Story:
    """Return the story of a trace that was replayed to `worlds` (the first one included); `stepper`
    made them, if not the one of the trace's header."""
    if stepper is None:
        stepper = Stepper(model, configuration_of(model, header.scope, header.variant))
    names = lane_names(model, worlds[0])
    types = actor_types(model)
    acting = {place for place, value in actors(worlds[0]).items() if type(value) in types}
    by_place = {place: name for place, name in names.items() if place in acting}
    lanes, follower = tuple(by_place.values()), MessageFollower(by_place, types)
    before, events = worlds[0], []
    for number, step in enumerate(steps, start=1):
        with recorded_calls(model) as calls:
            after = stepper.apply(step.rule, step.choice, before)
        changed_now = changes(before, after, names)
        doc = sentence(model, step, after, lanes)
        moves = follower.follow(before, after, calls, [x for x in lanes if x in named_by(step)])
        carried = hasattr(after, "links") and bool({m.kind for m in moves} - HAPPENS_TO_MESSAGES)
        lanes_now = tuple(touched(step, lanes, changed_now))
        events.append(
            StoryEvent(number, step.rule, step.label, doc, lanes_now, moves, changed_now, carried)
        )
        before = after
    logs = tuple(tuple(partition_logs(model, stepper.k, world, names)) for world in worlds)
    return Story(
        header, lanes, tuple(events), logs, tuple(breaches(model, stepper.k, steps, worlds))
    )
