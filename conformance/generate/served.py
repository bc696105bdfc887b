"""The part of a scope that can be brought about at a server which sends its markers by itself.

Where a marker can be written it is written next, in partition order, and its answer is heard; rules
that nobody can bring about do not happen. What is left is a graph of its own, whose states are
numbered breadth first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from conformance.generate.graph import Graph

MARKER: Final = "marker_is_written"
PLAYED: Final = frozenset(
    {
        "instance_begins",
        "transaction_begins",
        "record_is_sent",
        "commit_is_asked",
        "abort_is_asked",
        "batch_expires",
        "producer_id_is_asked",
        "partitions_are_added",
        "transaction_is_ended",
        "batch_is_produced",
        "init_is_delayed",
        "addition_is_delayed",
        "end_is_delayed",
        "batch_is_delayed",
        "late_init_arrives",
        "late_addition_arrives",
        "late_end_arrives",
        "late_batch_arrives",
        MARKER,
    }
)
"""The rules of the world that can be brought about from outside."""


def served(graph: Graph, rules: Sequence[tuple[str, dict[str, int]]]) -> Graph:
    """The graph's part; `rules` are the rule instances by number."""
    markers = {i for i, (rule, choice) in enumerate(rules) if rule == MARKER and choice["heard"]}
    others = {i for i, (rule, _) in enumerate(rules) if rule in PLAYED and rule != MARKER}
    number, queue = {0: 0}, [0]
    first_edge: list[int] = [0]
    kept_rules: list[int] = []
    targets: list[int] = []
    for state in queue:
        edges = range(int(graph.first_edge[state]), int(graph.first_edge[state + 1]))
        marking = [e for e in edges if int(graph.rules[e]) in markers]
        for edge in marking[:1] or [e for e in edges if int(graph.rules[e]) in others]:
            target = int(graph.targets[edge])
            if target not in number:
                number[target] = len(queue)
                queue.append(target)
            kept_rules.append(int(graph.rules[edge]))
            targets.append(number[target])
        first_edge.append(len(targets))
    return Graph(
        first_edge=np.array(first_edge, np.uint32),
        rules=np.array(kept_rules, np.uint16),
        targets=np.array(targets, np.uint32),
        shows=graph.shows[np.array(queue)] if len(graph.shows) else graph.shows,
    )
