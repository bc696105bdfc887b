"""Histories of clients, failovers and restarts against what Kafka promises of any of them."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from impl.partition.leader import PartitionLeader
from impl.partition.producer_state import BATCHES_REMEMBERED
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import (
    MAX_SEQUENCE,
    Record,
    client_batch,
    decode_batch,
    encode_batch,
    increment_sequence,
    is_next_sequence,
)

pytestmark = pytest.mark.slow  # thousands of generated steps

NOW_MS = 5
PRODUCERS = (1, 2)
EXPECTED = {
    ErrorCode.NONE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
}


class Histories(RuleBasedStateMachine):
    """Producers send any sequence near the wrap; leaders fail over and restart."""

    @initialize()
    def begin(self) -> None:
        self.leader = PartitionLeader()
        self.snapshots: dict[int, bytes] = {}
        self.next: dict[tuple[int, int], int] = {}
        self.epoch = 0
        self.is_memory_whole = True

    @rule(count=st.integers(1, 3), times=st.integers(1, 6))
    def send_in_order(self, count: int, times: int) -> None:
        end = self.leader.log_end_offset
        for _ in range(times):
            epoch = max((e for p, e in self.next if p == 1), default=0)
            self.send(1, epoch, 0, 0, count, -1)
        assert self.leader.log_end_offset == end + times * count

    @rule(
        producer_id=st.sampled_from(PRODUCERS),
        producer_epoch=st.sampled_from([0, 0, 0, 0, 1, 1, 2]),
        like=st.sampled_from([0, 0, 0, 1]),
        back=st.sampled_from([0, 0, 0, 0, 0, 1, 2, 5, 7, -1]),
        count=st.integers(1, 3),
        acks=st.sampled_from([-1, 1]),
    )
    def send(
        self, producer_id: int, producer_epoch: int, like: int, back: int, count: int, acks: int
    ) -> None:
        """`back` steps behind what follows in this epoch, or in the one `like` before it."""
        following = self.next.get((producer_id, producer_epoch - like), MAX_SEQUENCE - 5)
        base = 0 if back < 0 else (following - back) & MAX_SEQUENCE
        records = [Record(i, NOW_MS, None, None) for i in range(count)]
        batch = client_batch(
            records, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base
        )
        before = self.observed()
        outcome = self.leader.produce(encode_batch(batch), required_acks=acks, now_ms=NOW_MS)
        assert outcome.error in EXPECTED
        if outcome.error or outcome.base_offset < before[0]:
            assert self.observed() == before
        if outcome.error:
            return
        stored = next(b for b in self.leader.batches if b.base_offset == outcome.base_offset)
        assert (stored.producer_id, stored.producer_epoch) == (producer_id, producer_epoch)
        assert (stored.base_sequence, stored.last_offset_delta) == (base, count - 1)
        last = outcome.base_offset + count - 1
        assert outcome.required_offset == (last + 1 if acks == -1 else -1)
        if outcome.base_offset == before[0]:
            self.next[producer_id, producer_epoch] = increment_sequence(base, count)

    @rule()
    def take_snapshot(self) -> None:
        self.snapshots[self.leader.log_end_offset] = self.leader.snapshot()

    @rule(data=st.data())
    def replicate(self, data: st.DataObject) -> None:
        leader = self.leader
        leader.advance_high_watermark(
            data.draw(st.integers(leader.high_watermark, leader.log_end_offset))
        )

    @rule(data=st.data())
    def fail_over(self, data: st.DataObject) -> None:
        old = self.leader
        kept = [b for b in old.batches if b.base_offset < old.high_watermark]
        lost = old.batches[len(kept) :]
        kept += lost[: data.draw(st.integers(0, len(lost)))]
        self.epoch += 1
        self.leader = PartitionLeader.elect(
            kept,
            leader_epoch=self.epoch,
            high_watermark=old.high_watermark,
            log_start_offset=old.log_start_offset,
        )
        self.forget_what_was_lost()
        self.is_memory_whole = True

    @rule()
    def restart(self) -> None:
        old = self.leader
        self.epoch += 1
        self.leader = PartitionLeader.restart(
            [b"".join(batch.data for batch in old.batches)],
            self.snapshots,
            leader_epoch=self.epoch,
            high_watermark=old.high_watermark,
            now_ms=NOW_MS,
            log_start_offset=old.log_start_offset,
        )
        assert self.leader.batches == old.batches
        self.is_memory_whole = False
        for producer_id in self.producers_of_the_log():
            assert (
                self.leader.producers[producer_id].batches[-1:]
                == old.producers[producer_id].batches[-1:]
            )
        self.forget_what_was_lost()

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        leader = self.leader
        before = dict(leader.producers)
        offset = data.draw(st.integers(leader.log_start_offset, leader.high_watermark))
        assert leader.delete_records(offset).low_watermark == offset
        assert leader.producers == before
        assert all(stored.last_offset >= offset for stored in leader.batches)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        """What a follower does that fetched from another leader; batches go as a whole."""
        leader, old = self.leader, list(self.leader.batches)
        cuts = [stored.base_offset for stored in old] + [leader.log_end_offset]
        cut = data.draw(st.sampled_from([c for c in cuts if c >= leader.log_start_offset]))
        leader.log.truncate_to(cut, NOW_MS)
        assert leader.batches == [stored for stored in old if stored.base_offset < cut]
        assert leader.log_end_offset == cut
        self.is_memory_whole = False
        assert self.producers_of_the_log() <= set(leader.producers)
        self.forget_what_was_lost()

    def producers_of_the_log(self) -> set[int]:
        return {stored.producer_id for stored in self.leader.batches}

    def forget_what_was_lost(self) -> None:
        end = self.leader.log_end_offset
        self.snapshots = {o: data for o, data in self.snapshots.items() if o <= end}
        self.next = {
            (producer_id, entry.producer_epoch): increment_sequence(entry.last_sequence, 1)
            for producer_id, entry in self.leader.producers.items()
        }

    def observed(self) -> tuple[Any, ...]:
        leader = self.leader
        return leader.log_end_offset, dict(leader.producers), len(leader.batches)

    @invariant()
    def each_producer_and_epoch_has_one_unbroken_chain(self) -> None:
        """No duplicate and no gap: each batch begins where the one before it ended."""
        last: dict[int, tuple[int, int]] = {}
        for stored in self.leader.batches:
            batch = decode_batch(stored.data)
            assert batch.base_offset == stored.base_offset
            epoch, sequence = last.get(batch.producer_id, (-1, -1))
            assert batch.producer_epoch >= epoch
            if epoch == batch.producer_epoch:
                assert is_next_sequence(sequence, batch.base_sequence)
            elif epoch >= 0:
                assert batch.base_sequence == 0
            last[batch.producer_id] = batch.producer_epoch, batch.last_sequence

    @invariant()
    def memory_is_a_tail_of_the_log(self) -> None:
        for producer_id, entry in self.leader.producers.items():
            offsets = [
                b.base_offset
                for b in self.leader.batches
                if (b.producer_id, b.producer_epoch) == (producer_id, entry.producer_epoch)
            ]
            assert 1 <= len(entry.batches) <= BATCHES_REMEMBERED
            start = self.leader.log_start_offset
            remembered = [b.first_offset for b in entry.batches if b.last_offset >= start]
            assert offsets[len(offsets) - len(remembered) :] == remembered
            if self.is_memory_whole:
                assert remembered == offsets[-BATCHES_REMEMBERED:]


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=100, stateful_step_count=40)
