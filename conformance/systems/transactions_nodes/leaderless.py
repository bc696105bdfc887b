"""A partition that nobody leads when its marker is due: does the marker wait, or is it skipped?

Up to 4.2 `KRaftMetadataCache.getPartitionLeaderEndpoint` answers "no node" for such a partition,
and the coordinator looks again until there is one. In 4.3 it answers nothing, which also stands for
a partition that was deleted: the coordinator counts that as done, and completes the transaction
(KAFKA-20734). What was committed there stays open, and the next transaction of the same producer
decides about it.

Each run asks its brokers. Where markers are skipped, leaders are frozen and not killed in traces,
but in scopes whose leaders leave: these say what becomes of a partition without a leader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from conformance.kafka.admin import TopicPartition
from conformance.systems.transactions_nodes.nodes import HOLD, MOVE, RELEASE, Nodes
from conformance.transactions.facts.lab import Fact, Lab, eventually, newest_of
from conformance.transactions.ground import FAR, HOME, SEAT
from conformance.transactions.observed import see_partition
from conformance.transactions.wire import Conversation, Producer

COMMIT, ABORT = True, False
SKIPPED_SINCE: Final = "4.3"

BEFORE: Final = "before"
BETWEEN: Final = "behind"
LOADED: Final = "loaded"
ORDERS: Final = (BEFORE, BETWEEN, LOADED)
"""The leader is gone before the commit; it dies behind PrepareCommit; and the coordinator dies with
it, so that the next one loads PrepareCommit."""

LATER_LOG: Final = "the leader is back, its partition"
"""The fact that tells whether the marker was written."""

WRITTEN: Final = "written when its leader is back"
SKIPPED: Final = "never written: KAFKA-20734"
EXPECTED: Final = {"0": WRITTEN, SKIPPED_SINCE: SKIPPED}
"""What becomes of the marker, by the release since which it does."""
BROKEN: Final[Mapping[str, bool]] = {
    "all_or_none": COMMIT,
    "no_lost_write": COMMIT,
    "no_write_outside": COMMIT,
    "no_aborted_read": ABORT,
}
"""The guarantees that it breaks, and the outcome whose marker is skipped: what was committed here
is
aborted there, with the next transaction; or what was aborted is committed with it."""


@dataclass(frozen=True, slots=True)
class Leaderless:
    """What was seen, in order, by the outcome whose marker nobody could take."""

    facts: Mapping[bool, Sequence[Fact]]

    @property
    def marker(self) -> str:
        """What became of the marker."""
        [log] = [fact.observed for fact in self.facts[COMMIT] if fact.name == LATER_LOG]
        return WRITTEN if "!COMMIT" in log else SKIPPED

    @property
    def broken(self) -> frozenset[str]:
        """The guarantees that these brokers break by it."""
        return frozenset(BROKEN if self.marker == SKIPPED else ())

    def rows(self, guarantee: str) -> list[dict[str, str]]:
        """What was asked and seen, of a guarantee that is broken."""
        facts = self.facts[BROKEN[guarantee]]
        return [{"asked": fact.name, "seen": fact.observed} for fact in facts]


def expected_of(version: str) -> str:
    """What is known of a release."""
    return newest_of(version, EXPECTED)


def leaderless(nodes: Nodes, speaks: Conversation) -> Leaderless:
    """Decide while a partition has no leader. Raises KafkaError, JavaError."""
    return Leaderless({o: decide_without_leader(nodes, speaks, BEFORE, o) for o in (COMMIT, ABORT)})


def decide_without_leader(
    nodes: Nodes, c: Conversation, order: str, committed: bool
) -> Sequence[Fact]:
    """End what was written near and far while nobody leads what is far; then let one more
    transaction there end the other way. Afterwards all nodes are there.

    Raises KafkaError, JavaError.
    """
    turn = _Turn(nodes, c, order, committed)
    turn.decides()
    turn.looks_without()
    nodes.do(RELEASE, gently=False)
    turn.looks_behind()
    turn.goes_on()
    if order == LOADED:
        nodes.rest()
        nodes.do(MOVE, gently=True)
        nodes.ground.await_takeover(HOME)
    return turn.lab.facts


class _Turn:
    """One transactional id, a partition at HOME and one at FAR, and two transactions."""

    def __init__(self, nodes: Nodes, c: Conversation, order: str, committed: bool) -> None:
        self.lab = Lab(nodes.ground, order)
        self._nodes, self._c, self._order, self._committed = nodes, c, order, committed
        self._first, self._next = ("Commit", "Abort") if committed else ("Abort", "Commit")
        self._is_v2 = c.end_txn_version >= 5
        self._ended = 2 if self._is_v2 else 1
        [self._near], [self._far] = nodes.ground.topic(on=HOME), nodes.ground.topic(on=FAR)
        self._who = self.lab.begin(c)
        for partition in (self._near, self._far):
            self.lab.open(c, self._who, partition)
        self.lab.mark_log()

    def decides(self) -> None:
        """Nobody leads what is far, and the outcome is decided."""
        lab = self.lab
        self._nodes.do(HOLD, gently=self._order != BEFORE)
        told = lab.ground.coordinator().ask(self._c.end_txn(self._who, self._committed))
        expected = "NONE P:2" if self._is_v2 else "NONE"
        lab.fact(f"EndTxn({self._first.lower()})", expected, lab.names.answer(told))
        if self._order == BEFORE:
            return
        prepared = self._shown("Prepare")
        lab.fact("the leader is frozen, the state", prepared, lab.state(self._who))
        lab.fact("the leader is frozen, the log of transactions", prepared, lab.log(self._who))
        lab.stable(self._near)
        self._nodes.lose(moving=self._order == LOADED)
        if self._order == LOADED:
            lab.ground.await_takeover(SEAT)

    def looks_without(self) -> None:
        """Is it complete though one partition has no marker?"""
        lab = self.lab
        state = eventually(lambda: lab.state(self._who), lambda seen: seen.startswith("Complete"))
        expected = self._since(self._shown("Prepare"), self._shown("Complete"))
        lab.fact("nobody leads, the state", expected, state)
        expected = self._since(self._shown("Prepare"), self._shown("Prepare", "Complete"))
        lab.fact("nobody leads, the log of transactions", expected, lab.log(self._who))
        # The next coordinator sends all markers of what it finds prepared.
        markers = " ".join([self._marker] * (2 if self._order == LOADED else 1))
        near = lab.stable(self._near)
        lab.fact("nobody leads, the other partition", f"P:1#0 {markers}, stable", near)

    def looks_behind(self) -> None:
        """The leader is back: has the partition its marker?"""
        lab = self.lab
        expected = self._since(f"P:1#0 {self._marker}, stable", "P:1#0, open from 0")
        lab.fact(LATER_LOG, expected, lab.stable(self._far))
        lab.fact("the leader is back, the state", self._shown("Complete"), lab.settled(self._who))
        expected, log = self._shown("Prepare", "Complete"), lab.log(self._who)
        lab.fact("the leader is back, the log of transactions", expected, log)

    def goes_on(self) -> None:
        """The next transaction writes there, and ends the other way: what else ends with it?"""
        lab, epoch = self.lab, self._ended
        sequence = 0 if self._is_v2 else 1
        who = Producer(self._who.transactional_id, self._who.producer_id, epoch)
        lab.open(self._c, who, self._far, sequence)
        lab.end(self._c, who, not self._committed)
        ended = f"P:{epoch}#{sequence} P:{epoch + self._is_v2}!{self._next.upper()}, stable"
        expected = self._since(f"P:1#0 {self._marker} {ended}", f"P:1#0 {ended}")
        what = f"the next one {self._next.lower()}s"
        lab.fact(f"{what}, the partition", expected, lab.stable(self._far))
        near, skipped = (1, 0) if self._committed else (0, 2)
        expected = self._since(_records(1), _records(skipped))
        lab.fact(f"{what}, committed in the partition", expected, self._committed_in(self._far))
        committed = self._committed_in(self._near)
        lab.fact(f"{what}, committed in the other partition", _records(near), committed)

    def _committed_in(self, partition: TopicPartition) -> str:
        return _records(len(see_partition(self.lab.ground, partition).committed))

    @property
    def _marker(self) -> str:
        return f"P:{self._ended}!{self._first.upper()}"

    def _shown(self, *prefixes: str) -> str:
        """`PrepareCommit P:2, CompleteCommit P:2`."""
        return ", ".join(f"{prefix}{self._first} P:{self._ended}" for prefix in prefixes)

    def _since(self, waits: str, skips: str) -> str:
        by_release: Mapping[str, str] = {"0": waits, SKIPPED_SINCE: skips}
        return self.lab.since(by_release)


def _records(count: int) -> str:
    return f"{count} record{'s' * (count != 1)}"
