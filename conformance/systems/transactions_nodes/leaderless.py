"""Whether a marker waits for a partition that has no leader, asked of the brokers in each run.

4.3 takes such a partition for one that was deleted, and completes the transaction without its
marker (KAFKA-20734): what was committed there stays open, and the next transaction of the same
producer decides about it. Where that is so, leaders are frozen and not killed in traces: the model
has no partition without a leader.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, Final

from conformance.kafka.admin import TopicPartition
from conformance.systems.transactions_nodes.nodes import FAR, HOLD, HOME, RELEASE, Nodes
from conformance.transactions.facts.lab import newest_of
from conformance.transactions.reading import Isolation, describe_transactions, fetch, see
from conformance.transactions.wire import Call, Conversation, Producer, error_in

WRITTEN: Final = "written when its leader is back"
SKIPPED: Final = "never written: KAFKA-20734"
EXPECTED: Final = {"0": WRITTEN, "4.3": SKIPPED}
"""What becomes of the marker, by the release since which it does."""
BROKEN: Final = frozenset({"all_or_none", "no_lost_write", "no_write_outside"})
"""The promises that it breaks: what is committed near is open far, and aborted there in the end."""

COMMIT, ABORT = True, False
WAIT_S: Final = 3.0
_PAUSE_S: Final = 0.05


@dataclass(slots=True)
class Leaderless:
    """What was asked and seen, in order; and what became of the marker."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    marker: str = ""

    @property
    def is_skipped(self) -> bool:
        """The brokers have this defect."""
        return self.marker == SKIPPED


def expected_of(version: str) -> str:
    """What is known of a release."""
    return newest_of(version, EXPECTED)


def leaderless(nodes: Nodes, speaks: Conversation) -> Leaderless:
    """Commit while a partition has no leader. Raises KafkaError, JavaError."""
    return _Story(nodes, speaks).told()


class _Story:
    """One transactional id, a partition that is near and one that is far."""

    def __init__(self, nodes: Nodes, speaks: Conversation) -> None:
        self._nodes = nodes
        self._speaks = speaks
        self._seen = Leaderless()
        [self._near], [self._far] = nodes.ground.topic(on=HOME), nodes.ground.topic(on=FAR)
        self._who = Producer(nodes.ground.fresh("leaderless"), -1, -1)

    def told(self) -> Leaderless:
        """All of it."""
        begun = self._asks("InitProducerId", self._speaks.init_producer_id(self._name))
        self._who = replace(
            self._who, producer_id=begun.producer_id, producer_epoch=begun.producer_epoch
        )
        self._opens({self._near: HOME, self._far: FAR}, 0)
        self._nodes.do(HOLD, gently=False)
        self._notes("SIGKILL of the far partition's leader", "the partition has no leader")
        self._ends(COMMIT)
        self._rests()
        self._nodes.do(RELEASE, gently=False)
        self._notes("return of the far partition's leader", "it leads again")
        self._rests()
        is_written = "COMMIT" in self._looks("far", self._far, FAR)
        self._seen.marker = WRITTEN if is_written else SKIPPED
        if not is_written:
            self._goes_on()
        return self._seen

    def _goes_on(self) -> None:
        """The next transaction aborts: which records are aborted by it?"""
        self._opens({self._far: FAR}, 0 if self._is_v2 else 1)
        self._ends(ABORT)
        self._rests()
        self._looks("near", self._near, HOME)
        self._looks("far", self._far, FAR)

    @property
    def _name(self) -> str:
        return self._who.transactional_id

    @property
    def _is_v2(self) -> bool:
        return self._speaks.end_txn_version >= 5

    def _opens(self, partitions: dict[TopicPartition, int], sequence: int) -> None:
        if not self._is_v2:
            self._asks("AddPartitionsToTxn", self._speaks.add_partitions(self._who, partitions))
        for partition, node in partitions.items():
            call = self._speaks.produce(self._who, partition, sequence, "record")
            self._asks(f"Produce {partition}", call, node)

    def _ends(self, committed: bool) -> None:
        word = "commit" if committed else "abort"
        ended = self._asks(f"EndTxn({word})", self._speaks.end_txn(self._who, committed))
        if self._is_v2:
            self._who = self._who.at(ended.producer_epoch)

    def _asks(self, what: str, call: Call[Any], node: int | None = None) -> Any:
        answer = self._nodes.ground.wire(node or self._nodes.coordinator).retry(call)
        self._notes(what, error_in(answer).name)
        return answer

    def _rests(self) -> None:
        """What the coordinator shows once it is complete, or after a while."""
        deadline = time.monotonic() + WAIT_S
        call = describe_transactions([self._name])
        wire = self._nodes.ground.wire(self._nodes.coordinator)
        while (seen := wire.ask(call)[self._name]).state.startswith("Prepare"):
            if time.monotonic() > deadline:
                break
            time.sleep(_PAUSE_S)
        self._notes("DescribeTransactions", f"{seen.state}, {len(seen.partitions)} partitions left")

    def _looks(self, where: str, partition: TopicPartition, node: int) -> list[str]:
        """A log's batches and markers, and what readers of committed records see of it."""
        call = fetch(partition, 0, Isolation.READ_COMMITTED)
        everything = fetch(partition, 0, Isolation.READ_UNCOMMITTED)
        wire = self._nodes.ground.wire(node)
        stable, log = wire.ask(call), wire.ask(everything)
        words = [batch.marker or "record" for batch in map(see, log.batches)]
        told = f"last stable offset {stable.last_stable_offset} of {log.high_watermark}"
        aborted = [first for _, first in stable.aborted]
        self._notes(f"Fetch {where}", f"{words}, {told}, aborted from {aborted}")
        return words

    def _notes(self, what: str, seen: str) -> None:
        self._seen.rows.append({"asked": what, "seen": seen})
