"""A partition has no leader when its marker is due: does the marker wait, or is it skipped?

The story `leaderless` shows what brokers do, and has the expectation for each release
(KAFKA-20734). Each run asks its own brokers first. If they skip markers, traces freeze leaders
instead of killing them, except in scopes whose leaders leave: these show the fate of a partition
without a leader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from conformance.adapters.brokers.kafka.errors import RequestRefused
from conformance.adapters.brokers.transactions.cluster_nodes import ClusterNodes
from conformance.adapters.brokers.wire import Conversation
from conformance.campaigns.stories.player import play, rehearse
from conformance.campaigns.stories.session import Fact
from conformance.campaigns.stories.story import Experiment, stories

COMMIT, ABORT = True, False
STORIES: Final = {COMMIT: "leaderless_{}", ABORT: "leaderless_abort_{}"}
ONCE: Final = {"orders": "before"}
"""The leader is gone before the end of the transaction."""

LATER_LOG: Final = "before: the leader is back, its partition"
"""The fact that says whether the marker was written."""

WRITTEN: Final = "written when its leader is back"
SKIPPED: Final = "never written: KAFKA-20734"
BROKEN: Final[Mapping[str, bool]] = {
    "all_or_none": COMMIT,
    "no_lost_write": COMMIT,
    "no_write_outside": COMMIT,
    "no_aborted_read": ABORT,
}
"""The guarantees that a skipped marker breaks, by its outcome. A transaction that is committed here
is aborted there, with the next transaction; or an aborted one is committed with it."""


@dataclass(frozen=True, slots=True)
class Leaderless:
    """The facts, by the outcome of the marker that found no leader; `expected` is the known fate in
    the release."""

    facts: Mapping[bool, Sequence[Fact]]
    expected: str = ""

    @property
    def marker(self) -> str:
        """The fate of the marker."""
        [log] = [fact.observed for fact in self.facts[COMMIT] if fact.name == LATER_LOG]
        return WRITTEN if "!COMMIT" in log else SKIPPED

    @property
    def broken(self) -> frozenset[str]:
        """The guarantees that these brokers break by it."""
        return frozenset(BROKEN if self.marker == SKIPPED else ())

    def rows(self, guarantee: str) -> list[dict[str, str]]:
        """The requests and observations about a guarantee that is broken."""
        facts = self.facts[BROKEN[guarantee]]
        return [{"asked": fact.name, "seen": fact.observed} for fact in facts]


def expected_of(version: str) -> str:
    """The known fate in a release."""
    return Leaderless({COMMIT: rehearse(_experiment(COMMIT, "v1"), version, 0)}).marker


def leaderless(nodes: ClusterNodes, speaks: Conversation) -> Leaderless:
    """Play the story both ways, once. Raises KafkaError, JavaError."""
    requests = "v2" if speaks.end_txn_version >= 5 else "v1"
    facts = {outcome: _facts(nodes, outcome, requests) for outcome in STORIES}
    return Leaderless(facts, expected_of(nodes.kafka.release.version))


def _facts(nodes: ClusterNodes, outcome: bool, requests: str) -> Sequence[Fact]:
    played = play(_experiment(outcome, requests), nodes.kafka, times=1, variables=ONCE)
    if played.failure:
        raise RequestRefused(played.failure)
    return played.facts


def _experiment(outcome: bool, requests: str) -> Experiment:
    return stories()[STORIES[outcome].format(requests)]
