"""Fair loops, against all subgraphs of small graphs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import networkx as nx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from proofs.live.fair import Edges, Loop, LoopQuestion, Strong, Weak, fair_part, shortest_loop

STATES = 4
MAX_EDGES = 7


@dataclass(frozen=True)
class Drawn:
    """A question in plain Python: sets in place of arrays."""

    edges: tuple[tuple[int, int], ...]
    states: frozenset[int]
    usable: frozenset[int]
    weak: tuple[tuple[frozenset[int], frozenset[int]], ...]
    strong: tuple[tuple[frozenset[int], frozenset[int]], ...]
    must: frozenset[int] | None


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    node = st.integers(0, STATES - 1)
    edges = tuple(draw(st.lists(st.tuples(node, node), max_size=MAX_EDGES)))
    some_edges = (
        st.frozensets(st.sampled_from(range(len(edges)))) if edges else st.just(frozenset())
    )
    some_states = st.frozensets(node)
    fairness = st.tuples(some_states, some_edges)
    return Drawn(
        edges,
        frozenset(range(STATES)) - draw(st.frozensets(node, max_size=1)),
        frozenset(range(len(edges))) - draw(some_edges),
        tuple(draw(st.lists(fairness, max_size=2))),
        tuple(draw(st.lists(st.tuples(some_edges, some_edges), max_size=2))),
        draw(st.none() | some_edges),
    )


def asked(d: Drawn) -> LoopQuestion:
    def states(chosen: frozenset[int]) -> np.ndarray:
        return np.isin(np.arange(STATES), list(chosen))

    def edges(chosen: frozenset[int]) -> np.ndarray:
        return np.isin(np.arange(len(d.edges)), list(chosen))

    ends = np.array(d.edges, dtype=np.int64).reshape(-1, 2)
    return LoopQuestion(
        Edges(STATES, ends[:, 0], ends[:, 1]),
        states(d.states),
        edges(d.usable),
        tuple(Weak(states(enabled), edges(taken)) for enabled, taken in d.weak),
        tuple(Strong(edges(often), edges(then)) for often, then in d.strong),
        None if d.must is None else edges(d.must),
    )


def keeps_all(d: Drawn, states: frozenset[int], edges: frozenset[int]) -> bool:
    """Whether a loop through just these states and edges answers the question."""
    return (
        states <= d.states
        and edges <= d.usable
        and all(not states <= enabled or edges & taken for enabled, taken in d.weak)
        and all(not edges & often or edges & then for often, then in d.strong)
        and (d.must is None or bool(edges & d.must))
    )


def loops(d: Drawn) -> Iterator[tuple[frozenset[int], frozenset[int]]]:
    """Each set of states and edges that some closed walk has; a walk may stand still."""
    for state in range(STATES):
        yield frozenset({state}), frozenset()
    for size in range(1, len(d.edges) + 1):
        for chosen in combinations(range(len(d.edges)), size):
            graph = nx.DiGraph([d.edges[e] for e in chosen])
            if nx.is_strongly_connected(graph):
                yield frozenset(graph), frozenset(chosen)


@settings(max_examples=60, deadline=None)
@given(drawn())
def test_there_is_a_fair_loop_just_where_some_subgraph_is_one(d: Drawn) -> None:
    states, _, _ = fair_part(asked(d))
    fair = [s for s, e in loops(d) if keeps_all(d, s, e)]
    assert frozenset(np.flatnonzero(states).tolist()) == frozenset().union(*fair)


@settings(max_examples=60, deadline=None)
@given(drawn())
def test_the_loop_that_is_shown_is_fair_and_closed(d: Drawn) -> None:
    loop = shortest_loop(asked(d), np.arange(STATES))
    expected = any(keeps_all(d, s, e) for s, e in loops(d))
    assert (loop is not None) == expected
    if loop is not None:
        assert keeps_all(d, *walked(d, loop))


def walked(d: Drawn, loop: Loop) -> tuple[frozenset[int], frozenset[int]]:
    """The states and edges of a loop, which is walked and must close."""
    at, states = loop.state, {loop.state}
    for edge in loop.edges:
        assert d.edges[edge][0] == at
        at = d.edges[edge][1]
        states.add(at)
    assert at == loop.state
    return frozenset(states), frozenset(loop.edges)


def test_of_two_fair_loops_the_nearer_one_is_shown() -> None:
    far = Drawn(
        ((0, 1), (1, 1), (1, 2), (2, 2)),
        frozenset({0, 1, 2}),
        frozenset(range(4)),
        (),
        (),
        frozenset({1, 3}),
    )
    assert shortest_loop(asked(far), np.arange(STATES)) == Loop(1, (1,))
