"""The product of two variants of a model: the shortest trace on which what is observed differs.

A node is a pair of states to which the same events lead, with equal observations on the way. So two
variants that agree in all nodes of a scope cannot be told apart in it; a difference that is found
breadth first has a shortest trace.
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
    """The world behind an event, the `inputs` of the system in it, and what is observed of it."""

    world: World
    inputs: Hashable
    observation: Hashable


class VariantObserver(Protocol):
    """One variant in one scope, and what is observed of it."""

    @property
    def initial(self) -> World:
        """The world that the scope begins in."""

    @property
    def instances(self) -> Sequence[Instance]:
        """The events that are brought about."""

    @property
    def unasked(self) -> Container[str]:
        """The rules that a system follows of itself, so that it is seen whether it does."""

    @property
    def taken_whole(self) -> Container[str]:
        """The rules that a system is told to follow, so that it is seen where it cannot."""

    def after(self, world: World, instance: Instance) -> Observed:
        """One event. Raises Disabled."""

    def behind(self, world: World) -> Hashable:
        """What is observed of a world where a trace ends."""

    def trace(self, steps: Steps) -> Steps:
        """The steps, with what the system does between them of itself."""


class Visibility(StrEnum):
    """How a search ended."""

    FOUND = "found"
    NOT_VISIBLE = "not visible"
    """All of the product was searched."""
    NOT_FOUND = "not found"
    """Its time was up before that."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search gave: `steps` are empty unless something was found."""

    answer: Visibility
    pairs: int
    steps: Steps = ()


class _Arrival(NamedTuple):
    """How the search came to a pair: from the pair of that number, by an event."""

    parent: int
    instance: Instance | None


def search(first: VariantObserver, second: VariantObserver, seconds: float) -> SearchResult:
    """The shortest trace that tells the variants apart; `seconds` are those of the processor."""
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
    """What both can do, and the pair to which it leads: None where an observer sees a difference on
    the way. What only one of them can do is seen if it does that of itself. What is given other
    things is not compared: then others differ, whom nobody judges."""
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
    except IndexError:  # a choice that only the other variant's scope has, as another producer id
        return Disabled(by_scope=True)


def _only_one(one: Observed | Disabled, other: Observed | Disabled) -> bool:
    """One can do it, and it is no limit of the scope that keeps the other from it."""
    disabled = [d for d in (one, other) if isinstance(d, Disabled)]
    return len(disabled) == 1 and not disabled[0].by_scope


def distinguishes(first: VariantObserver, second: VariantObserver, steps: Steps) -> bool:
    """Whether a trace of the first variant shows a difference; steps that it cannot do are left
    out."""
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
