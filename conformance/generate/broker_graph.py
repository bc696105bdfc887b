"""The part of a scope that can be brought about at a server which sends its markers by itself.

Where a marker can be written it is written next, in partition order, and its answer is heard; a
test that sends markers itself may keep a copy of one before. Rules that nobody can bring about do
not happen. What is left is a graph of its own, whose states are
numbered breadth first.

Where nodes are stopped, too, the leader of the last partition may be gone: its marker waits until
it is back, and whatever does not need that leader happens meanwhile. In a scope whose leaders leave
that is all there is: elsewhere markers are written at once, or skipped.
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
"""The means at one broker whose coordinator and leaders are judged."""
AT_NODES: Final = CLIENTS | {Wire.CLUSTER}
"""The means at three."""


def events_at(means: Means) -> frozenset[str]:
    """The events of transactions that a test with these means brings about."""
    return events_by(load_model("transactions"), means)


UNASKED: Final = events_at({Wire.BROKERS})
SELDOM: Final[Mapping[str, float]] = {
    **dict.fromkeys(events_at({Wire.CLUSTER}) | {TIMES_OUT}, 0.1),
    MARKER: 0.05,
}
"""How often a hunt at nodes takes these beside others: it would move a coordinator at once, and
release a leader at once, as both can be done in almost every state."""
NEEDS_LEADER: Final = frozenset({"batch_is_produced", "late_batch_arrives"})
"""The rules that nothing comes of while the leader of their partition is gone."""

Rules = Sequence[tuple[str, dict[str, int]]]
"""The rule instances by number."""


@dataclass(frozen=True, slots=True)
class BrokerEdges:
    """Which rule instances are brought about: `unasked` are those that brokers do at once, `copied`
    those in which a test keeps a copy of a marker before that, `held` those beside which the marker
    of a leader that is gone waits."""

    unasked: frozenset[int]
    copied: frozenset[int]
    held: frozenset[int]
    others: frozenset[int]
    beside_held: frozenset[int]

    @staticmethod
    def of(rules: Rules, means: Means, *, leaders_leave: bool) -> BrokerEdges:
        """Those of a test with these means."""
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
        """Of a state's edges those that are taken."""
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
