"""Pairs of events of the environment: in some run of a complete scope, both happen.

A run never loses the fact that an event has happened, so the states after an event form a second
layer over the same states: a state is in the layer of an event if some path to it contains the
event. A pair is met if one of its events happens in the layer of the other, or if one step is both.
This is exact, and the nearest such step ends a shortest run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from proofs import arrays as np
from proofs.coverage.columns import Column
from proofs.coverage.space import Space
from proofs.lift.dag import Node
from proofs.trace.format import Instance

Happens = Mapping[Instance, Node]
"""An event: the rule instances that can be it, each with the condition under which it is."""

NEVER = 2**63 - 1
"""The distance of a state that a layer does not contain."""


@dataclass(frozen=True, slots=True)
class Layer:
    """The states after an event: their distances, and the transition that enters each.

    `event` says for each transition whether it is the event.
    """

    event: Column
    distance: Column
    entered: Column


def transitions(space: Space, happens: Happens) -> Column:
    """Return for each transition whether it is the event."""
    is_it = np.zeros(len(space.fired), dtype=np.bool_)
    for number, instance in enumerate(space.instances):
        if instance in happens:
            fires = space.fired == number
            is_it |= fires & space.values(happens[instance])[space.sources]
    return is_it


def layer(space: Space, event: Column) -> Layer:
    """Return the states that are reached after an event, level by level."""
    distance = np.full(len(space.states), NEVER)
    entered = np.full(len(space.states), -1)
    seeds = np.flatnonzero(event)
    begins = space.distance[space.sources[seeds]] + 1
    frontier = np.zeros(0, dtype=np.int64)
    level = 0
    while len(frontier) or level <= begins.max(initial=-1):
        edges = np.concatenate((seeds[begins == level], space.leaving(frontier)))
        edges = edges[distance[space.targets[edges]] == NEVER]
        frontier, nearest = np.unique(space.targets[edges], return_index=True)
        distance[frontier], entered[frontier] = level, edges[nearest]
        level += 1
    return Layer(event, distance, entered)


def path(space: Space, behind: Layer, state: int) -> list[int]:
    """Return the transitions of a shortest path to a state of the layer, including the event."""
    edges: list[int] = []
    while True:
        edge = int(behind.entered[state])
        source = int(space.sources[edge])
        edges.append(edge)
        if behind.event[edge] and space.distance[source] + 1 == behind.distance[state]:
            return [*space.path(source), *reversed(edges)]
        state = source


def shortest_meeting(space: Space, first: Layer, second: Layer) -> list[int] | None:
    """Return the shortest run in which both events happen; None if there is none."""
    runs = [*together(space, first, second), *after(space, first, second)]
    return min([*runs, *after(space, second, first)], key=len, default=None)


def together(space: Space, first: Layer, second: Layer) -> Iterator[list[int]]:
    """Yield the shortest run whose last step is both events, if there is one."""
    for edge in map(int, np.flatnonzero(first.event & second.event)[:1]):
        yield [*space.path(int(space.sources[edge])), edge]


def after(space: Space, before: Layer, last: Layer) -> Iterator[list[int]]:
    """Yield the shortest run whose last step is an event after the other one, if there is one."""
    edges = np.flatnonzero(last.event)
    lengths = before.distance[space.sources[edges]]
    if lengths.min(initial=NEVER) < NEVER:
        edge = int(edges[int(np.argmin(lengths))])
        yield [*path(space, before, int(space.sources[edge])), edge]
