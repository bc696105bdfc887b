"""Covers: traces from state 0 that together take every labelled transition.

1. Each edge is taken at least once. So a cover is a flow of at least 1 on every edge that leaves
   state 0; a trace ends in each state that receives more than it sends. The length of a cover is
   the sum of its flow.
2. The flow is balanced from the deepest state up. A state that must send more than it receives gets
   the difference through edges from shallower states, first from those that themselves receive more
   than they send.
3. The flow is then cut into walks. All walks advance together, each along edges of its own, until
   no walk stands in a state with an edge left. Circuits that no walk took are spliced in.

Theory of operation: rule 2 costs at most what shortest paths cost. It is within a few percent of
the least flow, which `bound` computes by linear programming (the matrix is totally unimodular, so
the least flow is integral). Edges that no walk reaches form circuits: each state receives at least
what it sends, and as many walks end in it as it has surplus. Each circuit touches a walk, since
every state on it is entered by an edge from a state that some walk reaches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from conformance.generate.graph import Numbers, TransitionGraph
from proofs import arrays as np


@dataclass(frozen=True, eq=False)
class Cover:
    """Traces as arrays of edges: trace t is edges[first[t]] ... edges[first[t + 1] - 1]."""

    edges: Numbers
    first: Numbers

    @property
    def traces(self) -> int:
        """The number of traces."""
        return len(self.first) - 1

    @property
    def steps(self) -> int:
        """The number of steps of all traces together."""
        return len(self.edges)


def cover(graph: TransitionGraph) -> Cover:
    """A cover of all labelled transitions of the graph. The same graph gives the same cover."""
    if graph.edges == 0:
        return Cover(np.zeros(0, np.uint32), np.zeros(1, np.uint64))
    flow = balanced(graph)
    walks, left = peeled(graph, flow)
    return spliced(graph, walks, left) if left.any() else walks


# The flow


def balanced(graph: TransitionGraph) -> Numbers:
    """The number of times that the cover takes each edge."""
    depths = graph.depths()
    sources = graph.sources
    rises = np.flatnonzero(depths[sources] < depths[graph.targets])
    rises = rises[np.argsort(graph.targets[rises], kind="stable")]
    first_in = np.searchsorted(graph.targets[rises], np.arange(graph.states + 1)).tolist()
    into = np.bincount(graph.targets, minlength=graph.states)
    surplus = (into - np.diff(graph.first_edge.astype(np.int64))).tolist()
    added = dict[int, int]()
    rising, rising_from = rises.tolist(), sources[rises].tolist()
    order = np.argsort(depths, kind="stable")[:0:-1].tolist()
    for state in order:
        if surplus[state] < 0:
            edges = range(first_in[state], first_in[state + 1])
            ranked = sorted(edges, key=lambda e: -surplus[rising_from[e]])
            for edge, more in shared(-surplus[state], ranked, rising_from, surplus):
                surplus[rising_from[edge]] -= more
                added[rising[edge]] = added.get(rising[edge], 0) + more
            surplus[state] = 0
    flow = np.ones(graph.edges, dtype=np.int64)
    np.add.at(flow, np.fromiter(added.keys(), np.int64), np.fromiter(added.values(), np.int64))
    return flow


def shared(
    needed: int, ranked: list[int], sources: list[int], surplus: list[int]
) -> Iterator[tuple[int, int]]:
    """Divides the units that are needed among the sources, the first ones first: (edge, units)."""
    for edge in ranked:
        spare = min(needed, surplus[sources[edge]])
        if spare <= 0:
            break
        yield edge, spare
        needed -= spare
    if needed > 0:
        yield ranked[0], needed


# The walks


def peeled(graph: TransitionGraph, flow: Numbers) -> tuple[Cover, Numbers]:
    """Walks from state 0, and the part of the flow that they leave.

    Each edge gives its state as many units as the cover takes it. A state's units are used in the
    order of its edges; walks that stand in one state at the same time take them in the order of the
    walks.
    """
    units = np.repeat(np.arange(graph.edges, dtype=np.int64), flow)
    ends = np.concatenate(([0], np.cumsum(flow)))[graph.first_edge]
    used, last = ends[:-1].copy(), ends[1:]
    surplus = int(np.diff(ends)[0] - flow[graph.targets == 0].sum())
    # If everything that leaves state 0 comes back to it, one walk begins and ends there.
    count = max(surplus, 1)
    walks = np.arange(count)
    states = np.zeros(count, dtype=np.int64)
    taken: list[tuple[Numbers, Numbers]] = []
    while len(walks) > 0:
        order = np.argsort(states, kind="stable")
        walks, states = walks[order], states[order]
        begins = np.flatnonzero(np.diff(states, prepend=-1))
        counts = np.diff(np.append(begins, len(states)))
        unit = used[states] + np.arange(len(states)) - np.repeat(begins, counts)
        goes_on = unit < last[states]
        here = states[begins]
        used[here] = np.minimum(used[here] + counts, last[here])
        walks, edges = walks[goes_on], units[unit[goes_on]]
        taken.append((walks, edges))
        states = graph.targets[edges].astype(np.int64)
    left = flow - np.bincount(
        np.concatenate([edges for _, edges in taken]), minlength=graph.edges
    ).astype(np.int64)
    return joined(taken, count), left


def joined(taken: list[tuple[Numbers, Numbers]], walks: int) -> Cover:
    """Assembles the walks from the edges that they took, step by step."""
    lengths = np.zeros(walks, dtype=np.int64)
    for going, _ in taken:
        lengths[going] += 1
    first = np.concatenate(([0], np.cumsum(lengths)))
    edges = np.empty(int(first[-1]), dtype=np.uint32)
    for step, (going, chosen) in enumerate(taken):
        edges[first[going] + step] = chosen
    return Cover(edges, first.astype(np.uint64))


def spliced(graph: TransitionGraph, walks: Cover, left: Numbers) -> Cover:
    """The walks, with each remaining circuit inserted where a walk first meets it."""
    units: dict[int, list[int]] = {}
    sources = graph.sources
    for edge in np.flatnonzero(left).tolist()[::-1]:
        units.setdefault(int(sources[edge]), []).extend([edge] * int(left[edge]))
    edges: list[int] = []
    first = [0]
    for trace in range(walks.traces):
        edges += around(graph, units, 0)
        for edge in walks.edges[int(walks.first[trace]) : int(walks.first[trace + 1])].tolist():
            edges.append(edge)
            edges += around(graph, units, int(graph.targets[edge]))
        first.append(len(edges))
    return Cover(np.array(edges, dtype=np.uint32), np.array(first, dtype=np.uint64))


def around(graph: TransitionGraph, units: dict[int, list[int]], state: int) -> list[int]:
    """All remaining circuits through a state and through the states on them (Hierholzer's
    algorithm)."""
    if not units.get(state):
        return []
    backwards: list[int] = []
    stack: list[tuple[int, int]] = [(state, -1)]
    while stack:
        here, came_by = stack[-1]
        if units.get(here):
            edge = units[here].pop()
            stack.append((int(graph.targets[edge]), edge))
        else:
            stack.pop()
            if came_by >= 0:
                backwards.append(came_by)
    return backwards[::-1]


# The bound


def bound(graph: TransitionGraph) -> int:
    """The least number of steps of any cover from state 0. Takes minutes for a million edges.

    The linear program minimises a flow x of repetitions over the graph without parallel edges and
    loops, such that no state but state 0 sends more than it receives.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    into = np.bincount(graph.targets, minlength=graph.states)
    needed = np.diff(graph.first_edge.astype(np.int64)) - into
    pairs = np.unique(graph.sources * graph.states + graph.targets)
    sources, targets = pairs // graph.states, pairs % graph.states
    straight = sources != targets
    sources, targets = sources[straight], targets[straight]
    if len(sources) == 0:
        return graph.edges
    columns = np.arange(len(sources))
    rows = np.concatenate((sources, targets))
    signs = np.concatenate((np.ones(len(sources)), -np.ones(len(sources))))
    shape = (graph.states, len(sources))
    matrix = coo_array((signs, (rows, np.tile(columns, 2))), shape=shape).tocsr()
    # Row s: units sent minus units received, beyond one pass of every edge, are at most 0.
    result = linprog(
        np.ones(len(sources)), A_ub=matrix[1:], b_ub=-needed[1:], bounds=(0, None), method="highs"
    )
    if not result.success:
        raise ArithmeticError(f"the linear program was not solved: {result.message}")
    return graph.edges + round(float(result.fun))
