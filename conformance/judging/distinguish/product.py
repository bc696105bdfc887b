"""The product of two variants of a model: finds the shortest trace on which observations differ.

A node is a pair of states that the two variants reach by the same events, with equal observations
on the way. If two variants agree in all nodes of a scope, no trace of this scope tells them apart.
The search is breadth first, so the first difference that it finds has a shortest trace.
"""

from __future__ import annotations

import time
from collections.abc import Container, Hashable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from model.language import Disabled
from proofs.trace.format import Instance
from proofs.trace.shrink import Steps

World = Hashable
Node = tuple[World, World]


class Observed(NamedTuple):
    """The world after an event, the `inputs` of the system in that event, and the observation."""

    world: World
    inputs: Hashable
    observation: Hashable


class VariantObserver(Protocol):
    """One variant in one scope, and its observer."""

    @property
    def initial(self) -> World:
        """The initial world of the scope."""

    @property
    def instances(self) -> Sequence[Instance]:
        """The events that a test brings about."""

    @property
    def unasked(self) -> Container[str]:
        """The rules that a system follows by itself, so that an observer sees whether it does."""

    @property
    def taken_whole(self) -> Container[str]:
        """The rules that a system is told to follow, so that an observer sees if it cannot."""

    def after(self, world: World, instance: Instance) -> Observed:
        """Apply one event. Raises Disabled."""

    def behind(self, world: World) -> Hashable:
        """The observation at a world in which a trace ends."""

    def trace(self, steps: Steps) -> Steps:
        """The steps, completed by those that the system takes by itself in between."""


class Visibility(StrEnum):
    """The outcome of a search."""

    FOUND = "found"
    NOT_VISIBLE = "not visible"
    """The whole product was searched."""
    NOT_FOUND = "not found"
    """The time was up before the whole product was searched."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search: `steps` are empty unless a difference was found."""

    answer: Visibility
    pairs: int
    steps: Steps = ()


class _Arrival(NamedTuple):
    """The edge by which the search reached a pair: the number of the previous pair, and the
    event."""

    parent: int
    instance: Instance | None


def search(first: VariantObserver, second: VariantObserver, seconds: float) -> SearchResult:
    """The shortest trace that tells the variants apart; `seconds` limits processor time."""
    deadline = time.process_time() + seconds
    begin = (first.initial, second.initial)
    nodes, arrivals, known = [begin], [_Arrival(-1, None)], {begin}
    for number, node in enumerate(nodes):
        if time.process_time() > deadline:
            return SearchResult(Visibility.NOT_FOUND, len(nodes))
        for instance, after in _successors(first, second, node, first.instances):
            if after in known:
                continue
            if after is None or first.behind(after[0]) != second.behind(after[1]):
                steps = (*_way(arrivals, number), instance)
                return SearchResult(Visibility.FOUND, len(nodes), steps)
            known.add(after)
            nodes.append(after)
            arrivals.append(_Arrival(number, instance))
    return SearchResult(Visibility.NOT_VISIBLE, len(nodes))


def _successors(
    first: VariantObserver, second: VariantObserver, node: Node, instances: Sequence[Instance]
) -> Iterator[tuple[Instance, Node | None]]:
    """The events that both variants can take, each with the pair that it leads to, or None if an
    observer sees a difference. An event that only one variant can take is seen if the system takes
    it by itself, or is told to take it. If the two systems get different inputs, they are not
    compared: then an actor differs that is not under test."""
    for instance in instances:
        one = _after(first, node[0], instance)
        if isinstance(one, Disabled) and instance[0] not in first.unasked:
            continue
        other = _after(second, node[1], instance)
        if isinstance(one, Disabled) or isinstance(other, Disabled):
            rule = instance[0]
            only_first = rule in first.taken_whole and not isinstance(one, Disabled)
            if (only_first or rule in first.unasked) and _only_one(one, other):
                yield instance, None
            continue
        if one.inputs == other.inputs:
            yield (
                instance,
                (one.world, other.world) if one.observation == other.observation else None,
            )


def _after(observer: VariantObserver, world: World, instance: Instance) -> Observed | Disabled:
    try:
        return observer.after(world, instance)
    except Disabled as disabled:
        return disabled
    except IndexError:  # only the other variant's scope has this choice
        return Disabled(by_scope=True)


def _only_one(one: Observed | Disabled, other: Observed | Disabled) -> bool:
    """Whether one variant can take an event, and the other is not merely kept from it by a limit of
    scope."""
    disabled = [d for d in (one, other) if isinstance(d, Disabled)]
    return len(disabled) == 1 and not disabled[0].by_scope


def distinguishes(first: VariantObserver, second: VariantObserver, steps: Steps) -> bool:
    """Whether a trace of the first variant shows a difference. Steps that the first variant cannot
    take are left out."""
    node = (first.initial, second.initial)
    for step in steps:
        for _, after in _successors(first, second, node, (step,)):
            if after is None:
                return True
            node = after
    return first.behind(node[0]) != second.behind(node[1])


def _way(arrivals: Sequence[_Arrival], number: int) -> Steps:
    """The events that lead to a pair."""
    steps: list[Any] = []
    while arrivals[number].instance is not None:
        steps.append(arrivals[number].instance)
        number = arrivals[number].parent
    return tuple(reversed(steps))
