"""Covers take every labelled transition, and hardly more steps than any cover must."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.generate.cover import Cover, bound, cover
from conformance.generate.graph import ScopeTooLargeForCover, TransitionGraph, explored, machine_of
from proofs.lift.source import load_model
from proofs.trace.replay import configuration_of

pytestmark = [pytest.mark.fast, pytest.mark.xdist_group("cover")]  # what is explored is cached


@cache
def graph_of(scope: str) -> TransitionGraph:
    return explored(
        machine_of(configuration_of(load_model("idempotent"), scope, "4.3.1"), scope),
        lambda _: None,
    )


def graph(edges: list[tuple[int, int]]) -> TransitionGraph:
    """A graph of (source, target), renumbered breadth first; what is not reached is left out."""
    order = [0]
    for state in order:
        for source, target in edges:
            if source == state and target not in order:
                order.append(target)
    number = {state: i for i, state in enumerate(order)}
    kept = sorted((number[a], number[b]) for a, b in edges if a in number)
    counts = np.bincount([a for a, _ in kept], minlength=len(order))
    return TransitionGraph(
        np.concatenate(([0], np.cumsum(counts))).astype(np.uint32),
        np.arange(len(kept), dtype=np.uint16),
        np.array([b for _, b in kept], dtype=np.uint32),
    )


def is_cover(graph: TransitionGraph, walks: Cover) -> bool:
    """Whether each trace is a walk from state 0 and every edge is in one."""
    sources, targets = graph.sources, graph.targets
    before = np.concatenate(([0], targets[walks.edges[:-1]])).astype(np.int64)
    before[walks.first[:-1].astype(np.int64)] = 0
    complete = len(np.unique(walks.edges)) == graph.edges
    return complete and bool((sources[walks.edges] == before).all())


EDGES = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=40)


@given(EDGES)
def test_every_edge_of_any_graph_is_covered(edges: list[tuple[int, int]]) -> None:
    """Loops, circuits and parallel edges included."""
    asked = graph(edges)
    found = cover(asked)
    if asked.edges:
        assert is_cover(asked, found)
        assert found.steps >= bound(asked) >= asked.edges
    else:
        assert (found.traces, found.steps) == (0, 0)


@pytest.mark.parametrize(
    ("edges", "least"),
    [
        ([(0, 1), (1, 2), (1, 3)], 4),
        ([(0, 0), (0, 1), (0, 1), (1, 1)], 4),
        ([(0, 1), (1, 0), (1, 0), (1, 0)], 6),
        ([(0, 1), (1, 2), (2, 1), (1, 3), (1, 4)], 6),
    ],
    ids=["fork", "loops and parallel edges", "circuits only", "a circuit on the way"],
)
def test_the_bound_of_small_graphs(edges: list[tuple[int, int]], least: int) -> None:
    asked = graph(edges)
    assert bound(asked) == least
    assert cover(asked).steps == least


@pytest.mark.parametrize("scope", ["idempotent-tiny", "idempotent-default"])
def test_covers_of_scopes_are_complete_and_short(scope: str) -> None:
    asked = graph_of(scope)
    found = cover(asked)
    assert is_cover(asked, found)
    assert found.steps <= 1.02 * bound(asked)


def test_the_same_graph_gives_the_same_cover() -> None:
    asked = graph_of("idempotent-tiny")
    again = TransitionGraph(asked.first_edge.copy(), asked.rules.copy(), asked.targets.copy())
    one, other = cover(asked), cover(again)
    assert one.edges.tolist() == other.edges.tolist()
    assert one.first.tolist() == other.first.tolist()


def test_depths_are_distances() -> None:
    assert graph([(0, 1), (1, 2), (0, 2), (2, 3), (3, 0)]).depths().tolist() == [0, 1, 1, 2]


def test_a_scope_with_too_many_states_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformance.generate.graph.MAX_STATES", 100)
    with pytest.raises(ScopeTooLargeForCover, match="more than 100"):
        explored(
            machine_of(configuration_of(load_model("idempotent"), "idempotent-tiny", "4.3.1"), "x"),
            lambda _: None,
        )
