"""Histories of two producers' transactions against what a partition promises of any of them."""

from collections import defaultdict
from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from impl.partition.consuming import committed_batches
from impl.partition.leader import LeaderView, PartitionLeader
from impl.partition.log_config import LogConfig
from impl.partition.reading import read
from impl.protocol.control_records import ControlType
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import Isolation
from impl.protocol.record_batch import (
    TRANSACTIONAL,
    RecordBatch,
    decode_whole_batches,
)
from tests.impl.partition.test_leader import NOW_MS, a_batch

pytestmark = pytest.mark.slow  # thousands of generated steps

CONFIG = LogConfig(segment_bytes=400)
PRODUCERS = (1, 2)


class Histories(RuleBasedStateMachine):
    """A coordinator that keeps its rules, producers of V1 and V2, leaders that come and go.

    `written` is what the clients were told of; what became of it is known here as to the one that
    decides: open, committed, aborted. Nothing else is taken from the leader.
    """

    @initialize()
    def begin(self) -> None:
        self.leader = PartitionLeader(config=CONFIG)
        self.epochs = dict.fromkeys(PRODUCERS, 0)
        self.sequences = dict.fromkeys(PRODUCERS, 0)
        self.open: defaultdict[int, list[int]] = defaultdict(list)
        self.fates: dict[int, str] = {}
        self.snapshots: dict[int, bytes] = {}
        self.stable = 0
        self.is_memory_whole = True

    # ---- producers

    def append(self, producer_id: int, count: int, attributes: int, guard: int = 0) -> int:
        data = a_batch(
            self.sequences[producer_id],
            count,
            producer_id=producer_id,
            epoch=self.epochs[producer_id],
            attributes=attributes,
        )
        done = self.leader.produce(data, required_acks=-1, now_ms=NOW_MS, guard=guard)
        assert done.error == ErrorCode.NONE
        self.sequences[producer_id] += count
        return done.base_offset

    @rule(producer_id=st.sampled_from(PRODUCERS), count=st.integers(1, 2), v2=st.booleans())
    def write(self, producer_id: int, count: int, v2: bool) -> None:
        begun = self.leader.begin_verification(
            producer_id,
            self.epochs[producer_id],
            self.sequences[producer_id],
            supports_epoch_bump=v2,
            now_ms=NOW_MS,
        )
        assert begun.error == ErrorCode.NONE
        assert (begun.guard == 0) == bool(self.open[producer_id])
        offset = self.append(producer_id, count, TRANSACTIONAL, begun.guard)
        self.open[producer_id].append(offset)

    @rule(producer_id=st.sampled_from(PRODUCERS))
    def write_plainly(self, producer_id: int) -> None:
        if not self.open[producer_id]:
            self.fates[self.append(producer_id, 1, 0)] = "committed"

    @rule()
    def write_without_a_producer(self) -> None:
        done = self.leader.produce(a_batch(), required_acks=-1, now_ms=NOW_MS)
        self.fates[done.base_offset] = "committed"

    @rule(producer_id=st.sampled_from(PRODUCERS), abort=st.booleans(), v2=st.booleans())
    def end(self, producer_id: int, abort: bool, v2: bool) -> None:
        epoch = self.epochs[producer_id] + v2
        kind = ControlType.ABORT if abort else ControlType.COMMIT
        self.mark(producer_id, epoch, kind, 2 if v2 else 0, ErrorCode.NONE)
        if v2:
            self.epochs[producer_id] = epoch
            self.sequences[producer_id] = 0
        for offset in self.open.pop(producer_id, ()):
            self.fates[offset] = "aborted" if abort else "committed"

    def mark(
        self, producer_id: int, epoch: int, kind: ControlType, version: int, error: ErrorCode
    ) -> None:
        done = self.leader.write_marker(
            producer_id=producer_id,
            producer_epoch=epoch,
            control_type=kind,
            coordinator_epoch=1,
            now_ms=NOW_MS,
            transaction_version=version,
        )
        assert done.error == error

    @rule(producer_id=st.sampled_from(PRODUCERS), abort=st.booleans())
    def a_marker_of_the_past_comes_again(self, producer_id: int, abort: bool) -> None:
        """Of V2: the marker of the last transaction has the epoch of the open one."""
        kind = ControlType.ABORT if abort else ControlType.COMMIT
        if self.open[producer_id]:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
            self.mark(producer_id, self.epochs[producer_id], kind, 2, error)

    @rule(producer_id=st.sampled_from(PRODUCERS))
    def a_batch_of_the_past_comes_late(self, producer_id: int) -> None:
        """Nobody asked about it: outside a transaction it is refused."""
        if self.open[producer_id]:
            return
        before = self.leader.view()
        data = a_batch(
            self.sequences[producer_id],
            producer_id=producer_id,
            epoch=self.epochs[producer_id],
            attributes=TRANSACTIONAL,
        )
        done = self.leader.produce(data, required_acks=-1, now_ms=NOW_MS)
        assert done.error == ErrorCode.INVALID_TXN_STATE
        assert self.leader.view() == before

    # ---- replicas

    @rule(data=st.data())
    def replicate(self, data: st.DataObject) -> None:
        ends = [stored.last_offset + 1 for stored in self.leader.batches]
        ahead = [end for end in ends if end > self.leader.high_watermark]
        if ahead:
            self.leader.advance_high_watermark(data.draw(st.sampled_from(ahead)))

    @rule()
    def take_snapshot(self) -> None:
        self.snapshots[self.leader.log_end_offset] = self.leader.snapshot()

    def rebuilt(self) -> Iterator[PartitionLeader]:
        """The same log again: at a follower, from disk, from disk with snapshots, after a kill."""
        old = self.leader
        log = b"".join(stored.data for stored in old.batches)
        same = {"leader_epoch": old.leader_epoch, "high_watermark": old.high_watermark}
        yield PartitionLeader.elect(old.batches, config=CONFIG, **same)  # type: ignore[arg-type]
        for snapshots in ({}, self.snapshots):
            for point in (None, old.high_watermark):
                yield PartitionLeader.restart(
                    [log],
                    snapshots,
                    now_ms=NOW_MS,
                    config=CONFIG,
                    segments=old.log.segments,
                    recovery_point=point,
                    **same,  # type: ignore[arg-type]
                )

    @rule()
    def memory_follows_from_the_log(self) -> None:
        """A follower knows all of it. A restart may know fewer batches, but the last one of each;
        of transactions it knows all that are open or were aborted.
        """
        expected = self.leader.view()
        elected, *restarted = self.rebuilt()
        if self.is_memory_whole:
            assert elected.view() == expected._replace(verifications=())
        for leader in (elected, *restarted):
            view = leader.view()
            assert briefly(view) == briefly(expected)
            assert view.last_stable_offset <= view.high_watermark

    @rule(number=st.integers(0, 4))
    def fail_over(self, number: int) -> None:
        self.leader = list(self.rebuilt())[number]
        self.leader.leader_epoch += 1
        self.is_memory_whole = number == 0
        self.stable = 0

    # ---- what is promised

    def consumed(self, isolation: Isolation, max_bytes: int) -> list[RecordBatch]:
        """All that a consumer gets that fetches so much at a time."""
        offset, given = 0, []
        while True:
            found = read(self.leader.log, offset, max_bytes, at_least_one=True, isolation=isolation)
            batches = list(decode_whole_batches(found.records))
            if not batches:
                return given
            aborted = [entry[:2] for entry in found.aborted_transactions]
            given += committed_batches(batches, aborted)
            offset = batches[-1].last_offset + 1

    @rule(max_bytes=st.sampled_from([1, 150, 300, 1 << 20]))
    def read_committed_is_what_was_committed(self, max_bytes: int) -> None:
        given = [b.base_offset for b in self.consumed(Isolation.READ_COMMITTED, max_bytes)]
        stable = self.leader.last_stable_offset
        assert given == sorted(
            offset for offset, fate in self.fates.items() if fate == "committed" and offset < stable
        )

    @invariant()
    def the_last_stable_offset_is_sound(self) -> None:
        """Never past an open transaction, never back, never past the high watermark."""
        stable = self.leader.last_stable_offset
        opened = [offset for offsets in self.open.values() for offset in offsets]
        assert stable <= min([self.leader.high_watermark, *opened])
        assert stable >= self.stable
        self.stable = stable
        if not opened and self.leader.high_watermark == self.leader.log_end_offset:
            assert stable == self.leader.high_watermark

    @invariant()
    def what_is_open_is_known(self) -> None:
        expected = sorted((offsets[0], p) for p, offsets in self.open.items() if offsets)
        assert list(self.leader.view().ongoing) == expected


def briefly(view: LeaderView) -> LeaderView:
    """What a restart may not know is left out: older batches, verifications, and whose marker is
    not replicated, if the snapshot is behind it.
    """
    producers = tuple(
        (producer_id, entry._replace(batches=entry.batches[-1:]))
        for producer_id, entry in view.producers
    )
    return view._replace(
        producers=producers, verifications=(), unreplicated=(), last_stable_offset=0
    )


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=100, stateful_step_count=40)
