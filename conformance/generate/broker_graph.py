"""The part of a scope that a test can bring about at a server that sends its markers by itself.

Such a server writes a marker as soon as it can. So wherever the scope allows a marker to be
written, the graph writes it next, in partition order, and the coordinator receives the answer. A
test that can send markers itself may keep a copy of a marker before the server writes it. Events
that no test can bring about are left out. The result is a graph of its own, whose states are
numbered breadth first.

If a test can stop nodes, the leader of the last partition may be down. Its marker then waits
until the leader is back, and everything that does not need this leader may happen meanwhile. This
is done only in scopes whose leaders leave; in other scopes a marker is written at once, or skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from conformance.generate.faults import CLIENTS, Means, events_by
from conformance.generate.graph import Numbers, TransitionGraph
from model.language import Wire
from proofs import arrays as np
from proofs.lift.source import load_model

MARKER: Final = "marker_is_written"
SKIP: Final = "marker_is_skipped"
LEAVES: Final = "leader_leaves"
RETURNS: Final = "leader_returns"
DELAYS_MARKER: Final = "marker_is_delayed"
LATE_MARKER_ARRIVES: Final = "late_marker_arrives"
TIMES_OUT: Final = "transaction_times_out"
FORGOTTEN: Final = "transactional_id_is_forgotten"

AT_ONE: Final = CLIENTS | {Wire.STATIC_CONFIGS, Wire.MARKERS}
"""The means of a test at one broker whose coordinator and leaders are judged."""
AT_NODES: Final = CLIENTS | {Wire.CLUSTER}
"""The means of a test at three nodes."""


def events_at(means: Means) -> frozenset[str]:
    """The events of the transactions model that a test with these means brings about."""
    return events_by(load_model("transactions"), means)


UNASKED: Final = events_at({Wire.BROKERS})
SELDOM: Final[Mapping[str, float]] = {
    **dict.fromkeys(events_at({Wire.CLUSTER}) | {TIMES_OUT}, 0.1),
    MARKER: 0.05,
}
"""How often a hunt at nodes takes these events, relative to others. Without it a hunt would move a
coordinator, or release a leader, at almost every step: nearly every state allows both."""
NEEDS_LEADER: Final = frozenset({"batch_is_produced", "late_batch_arrives"})
"""Rules that have no effect while the leader of their partition is down."""

Rules = Sequence[tuple[str, dict[str, int]]]
"""Rule instances by number."""


@dataclass(frozen=True, slots=True)
class BrokerEdges:
    """The roles of rule instances at a server. A broker takes the `unasked` ones at once and by
    itself. A test keeps a copy of a marker in the `copied` ones, before the broker writes it.
    Beside the `held` ones, the marker of a leader that is down waits."""

    unasked: frozenset[int]
    copied: frozenset[int]
    held: frozenset[int]
    others: frozenset[int]
    beside_held: frozenset[int]

    @staticmethod
    def of(rules: Rules, means: Means, *, leaders_leave: bool) -> BrokerEdges:
        """The roles for a test with these means."""
        played = events_by(load_model("transactions"), means) - UNASKED
        unasked = {
            i for i, (r, choice) in enumerate(rules) if r in UNASKED and choice.get("heard", 1)
        }
        far = max((rules[i][1].get("partition", 0) for i in unasked), default=0)
        is_far = {i for i, (_, choice) in enumerate(rules) if choice.get("partition") == far}
        of_leaders = {i for i, (r, _) in enumerate(rules) if r in (LEAVES, RETURNS)}
        can_hold = Wire.CLUSTER in means and not leaders_leave
        held = unasked & is_far if can_hold else set()
        others = {i for i, (r, _) in enumerate(rules) if r in played} - (of_leaders - is_far)
        needs_far = {i for i in others & is_far if rules[i][0] in NEEDS_LEADER}
        copied = {i for i in others if rules[i][0] == DELAYS_MARKER}
        parts = (unasked - held, copied, held, others, others - needs_far)
        return BrokerEdges(*map(frozenset, parts))

    def chosen(self, edges: range, rule_of: Numbers) -> list[int]:
        """The edges of a state that the graph keeps."""
        unasked = [e for e in edges if int(rule_of[e]) in self.unasked]
        if unasked:
            return unasked[:1] + [e for e in edges if int(rule_of[e]) in self.copied]
        release = [e for e in edges if int(rule_of[e]) in self.held]
        others = self.beside_held if release else self.others
        return release + [e for e in edges if int(rule_of[e]) in others]


def graph_at_brokers(graph: TransitionGraph, rules: Rules, means: Means) -> TransitionGraph:
    """The part of the graph that a test with these means reaches."""
    leaders_leave = any(rules[i][0] == LEAVES for i in np.unique(graph.rules))
    taken = BrokerEdges.of(rules, means, leaders_leave=leaders_leave)
    number, queue = {0: 0}, [0]
    first_edge: list[int] = [0]
    kept_rules: list[int] = []
    targets: list[int] = []
    for state in queue:
        edges = range(int(graph.first_edge[state]), int(graph.first_edge[state + 1]))
        for edge in taken.chosen(edges, graph.rules):
            target = int(graph.targets[edge])
            if target not in number:
                number[target] = len(queue)
                queue.append(target)
            kept_rules.append(int(graph.rules[edge]))
            targets.append(number[target])
        first_edge.append(len(targets))
    return TransitionGraph(
        first_edge=np.array(first_edge, np.uint32),
        rules=np.array(kept_rules, np.uint16),
        targets=np.array(targets, np.uint32),
        shows=graph.shows[np.array(queue)] if len(graph.shows) else graph.shows,
    )
