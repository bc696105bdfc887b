"""A replica's log: segments, deletion at the head, truncation, followers, ways to come back."""

from collections.abc import Sequence
from typing import Any

import pytest

from impl.log.snapshot import SnapshotEntry, decode_snapshot, encode_snapshot
from impl.partition.errors import (
    BatchTooLarge,
    HighWatermarkOutOfRange,
    InvalidOffset,
    OffsetsNotContiguous,
    PartitionError,
)
from impl.partition.leader import HIGH_WATERMARK, DeleteOutcome, PartitionLeader
from impl.partition.log_config import LogConfig
from impl.partition.replica_log import ReplicaLog
from impl.protocol.errors import CrcMismatch, ErrorCode, TruncatedBatch
from impl.protocol.record_batch import MAX_SEQUENCE
from tests.impl.partition.test_leader import (
    NONE,
    NOW_MS,
    OUT_OF_ORDER,
    a_batch,
    p1,
    refuses,
    send,
    sequences,
    state,
)

SIZE = len(p1(0))
PAIRS = LogConfig(segment_bytes=2 * SIZE)
"""Two batches of one record a segment."""

OUT_OF_RANGE = DeleteOutcome(ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def a_leader(batches: int, config: LogConfig = LogConfig()) -> PartitionLeader:  # noqa: B008
    """All replicated: producer 1 has sent so many batches of one record."""
    leader = PartitionLeader(config=config)
    for sequence in range(batches):
        assert send(leader, p1(sequence)).error == NONE
    leader.advance_high_watermark(batches)
    return leader


def snapshots(leader: PartitionLeader) -> dict[int, bytes]:
    return dict(leader.log.producer_states.snapshots)


def log_bytes(leader: PartitionLeader) -> bytes:
    return b"".join(batch.data for batch in leader.batches)


def restart(leader: PartitionLeader, **changes: Any) -> PartitionLeader:
    arguments: dict[str, Any] = {
        "files": [log_bytes(leader)],
        "snapshots": snapshots(leader),
        "leader_epoch": 1,
        "high_watermark": leader.high_watermark,
        "now_ms": NOW_MS,
        "log_start_offset": leader.log_start_offset,
        "config": leader.config,
        "segments": leader.log.segments,
    }
    return PartitionLeader.restart(**{**arguments, **changes})


# segments


def test_a_snapshot_is_taken_where_a_segment_begins() -> None:
    leader = a_leader(5, PAIRS)
    assert leader.log.segments == [0, 2, 4]
    assert list(snapshots(leader)) == [2, 4]
    assert decode_snapshot(snapshots(leader)[4]) == [SnapshotEntry(1, 0, 3, 3, 0, NOW_MS, -1, -1)]


def test_closing_takes_one_more_unless_there_is_one_already() -> None:
    leader = a_leader(5, PAIRS)
    leader.log.close()
    assert list(snapshots(leader)) == [2, 4, 5]
    leader.producers.clear()
    leader.log.close()
    assert decode_snapshot(snapshots(leader)[5])


@pytest.mark.parametrize("sequence", [9, 1], ids=["refused", "duplicate"])
def test_a_batch_that_is_not_appended_begins_a_segment_all_the_same(sequence: int) -> None:
    leader = a_leader(2, PAIRS)
    send(leader, p1(sequence))
    assert leader.log.segments == [0, 2]
    assert leader.log_end_offset == 2
    assert list(snapshots(leader)) == [2]


@pytest.mark.parametrize(("later_ms", "segments"), [(500, [0]), (501, [0, 1])])
def test_a_segment_ends_with_its_time(later_ms: int, segments: list[int]) -> None:
    leader = PartitionLeader(config=LogConfig(segment_ms=500))
    send(leader, p1(0, timestamp=100))
    send(leader, p1(1, timestamp=100 + later_ms))
    assert leader.log.segments == segments


def test_a_segment_has_offsets_of_four_bytes() -> None:
    leader = PartitionLeader()
    leader.log.truncate_fully_and_start_at(10)
    leader.log.roll_if_full(1, 10 + MAX_SEQUENCE, -1)
    assert leader.log.segments == [10]
    leader.log.roll_if_full(1, 11 + MAX_SEQUENCE, -1)
    assert leader.log.segments == [10, 10]


# deletion at the head


def test_deleted_records_stay_in_memory_until_a_restart() -> None:
    """Memory and disk diverge: entries are kept (KAFKA-7190), snapshots go with their segments."""
    old = a_leader(5, PAIRS)
    assert old.delete_records(5) == DeleteOutcome(NONE, 5)
    assert old.batches == []
    assert sequences(old) == [(i, i) for i in range(5)]
    assert send(old, p1(4)).base_offset == 4
    refuses(old, p1(9), OUT_OF_ORDER, start=5)
    assert list(snapshots(old)) == [4]
    new = restart(old)
    assert new.producers == {}
    assert send(new, p1(9)).base_offset == 5


def test_what_is_left_of_the_log_is_what_a_restart_knows() -> None:
    old = a_leader(5, PAIRS)
    send(old, a_batch(7, producer_id=2, epoch=0))
    old.delete_records(4)
    assert (set(old.producers), old.log.segments) == ({1, 2}, [4])
    new = restart(old)
    assert sequences(new) == [(4, 4)]
    assert new.log.segments == [4]
    refuses(new, p1(3), OUT_OF_ORDER, start=4)
    assert send(new, p1(4)).base_offset == 4


def test_whole_segments_go_and_the_last_one_stays() -> None:
    leader = a_leader(6, PAIRS)
    leader.delete_records(3)
    assert leader.log.segments == [2, 4]
    assert [batch.base_offset for batch in leader.batches] == [3, 4, 5]
    assert [batch.base_offset for batch in leader.log.deleted] == [2]
    assert leader.log.size_bytes == 4 * SIZE
    leader.delete_records(HIGH_WATERMARK)
    assert (leader.log_start_offset, leader.log.segments) == (6, [4])
    assert send(leader, p1(6)).base_offset == 6


def test_a_batch_around_the_start_of_the_log_stays_whole() -> None:
    old = PartitionLeader()
    send(old, p1(0, 3))
    send(old, p1(3, 3))
    old.advance_high_watermark(6)
    assert old.delete_records(4).low_watermark == 4
    assert [batch.base_offset for batch in old.batches] == [3]
    for new in (
        restart(old),
        PartitionLeader.elect(old.batches, leader_epoch=1, high_watermark=6, log_start_offset=4),
    ):
        assert (new.log_start_offset, new.log_end_offset) == (4, 6)
        assert sequences(new) == [(3, 5)]
        assert send(new, p1(3, 3)).base_offset == 3


def test_a_follower_remembers_what_was_deleted_since() -> None:
    old = a_leader(5)
    new = PartitionLeader.elect(old.batches, leader_epoch=1, high_watermark=5, log_start_offset=4)
    assert [batch.base_offset for batch in new.batches] == [4]
    assert sequences(new) == sequences(old)
    with pytest.raises(OffsetsNotContiguous):
        PartitionLeader.elect(old.batches, leader_epoch=1, high_watermark=6, log_start_offset=6)


@pytest.mark.parametrize(
    ("before", "outcome"),
    [
        (-2, OUT_OF_RANGE),
        (4, OUT_OF_RANGE),
        (3, DeleteOutcome(NONE, 3)),
        (0, DeleteOutcome(NONE, 0)),
    ],
)
def test_only_what_is_replicated_can_be_deleted(before: int, outcome: DeleteOutcome) -> None:
    leader = a_leader(3)
    send(leader, p1(3))
    assert leader.delete_records(before) == outcome
    assert leader.log_start_offset == max(0, outcome.low_watermark)
    with pytest.raises(HighWatermarkOutOfRange):
        leader.log.advance_log_start(4)


def test_the_start_of_the_log_never_moves_back() -> None:
    leader = a_leader(3)
    leader.delete_records(2)
    assert leader.delete_records(1) == DeleteOutcome(NONE, 2)


def aged(config: LogConfig, replicated: int = 6) -> PartitionLeader:
    """Three segments of two batches, written at 0, 10 ... 50 ms."""
    leader = PartitionLeader(config=config)
    for sequence in range(6):
        send(leader, p1(sequence, timestamp=10 * sequence))
    leader.advance_high_watermark(replicated)
    return leader


@pytest.mark.parametrize(
    ("now_ms", "start"), [(110, 0), (111, 2), (130, 2), (131, 4), (150, 4), (151, 6)]
)
def test_a_segment_is_as_old_as_its_youngest_record(now_ms: int, start: int) -> None:
    leader = aged(LogConfig(segment_bytes=2 * SIZE, retention_ms=100))
    leader.log.delete_old_segments(now_ms)
    assert leader.log_start_offset == start
    assert leader.log.segments[0] == start
    assert leader.log.size_bytes == (6 - start) * SIZE
    assert sequences(leader) == [(i, i) for i in range(1, 6)]
    assert send(leader, p1(6)).base_offset == 6


@pytest.mark.parametrize(
    ("retention_bytes", "start"),
    [(-1, 0), (6 * SIZE, 0), (4 * SIZE + 1, 0), (4 * SIZE, 2), (1, 4), (0, 6)],
)
def test_so_many_bytes_are_kept(retention_bytes: int, start: int) -> None:
    leader = aged(LogConfig(segment_bytes=2 * SIZE, retention_bytes=retention_bytes))
    leader.log.delete_old_segments(0)
    assert leader.log_start_offset == start


@pytest.mark.parametrize(("replicated", "start"), [(0, 0), (3, 2), (5, 4), (6, 6)])
def test_what_is_not_replicated_is_kept(replicated: int, start: int) -> None:
    config = LogConfig(segment_bytes=2 * SIZE, retention_ms=0, retention_bytes=0)
    leader = aged(config, replicated)
    leader.log.delete_old_segments(1_000)
    assert leader.log_start_offset == start


def test_a_log_without_records_keeps_its_segment() -> None:
    log = ReplicaLog(config=LogConfig(retention_ms=0, retention_bytes=0))
    log.delete_old_segments(1_000)
    assert (log.segments, log.log_start_offset) == ([0], 0)
    undated = PartitionLeader(config=LogConfig(retention_ms=0))
    send(undated, a_batch(timestamp=-1))
    undated.advance_high_watermark(1)
    undated.log.delete_old_segments(1_000)
    assert undated.log_start_offset == 0


def test_after_retention_and_a_restart_a_producer_is_unknown() -> None:
    old = aged(LogConfig(segment_bytes=2 * SIZE, retention_ms=0))
    old.log.delete_old_segments(1_000)
    assert set(old.producers) == {1}
    assert restart(old).producers == {}


# truncation


def truncated(leader: PartitionLeader, offset: int) -> PartitionLeader:
    assert leader.log.truncate_to(offset, NOW_MS)
    return leader


@pytest.mark.parametrize("kept", range(7))
def test_a_truncated_log_is_one_that_was_never_longer(kept: int) -> None:
    """Without a snapshot inside, every batch of what is left is replayed."""
    leader = truncated(a_leader(7), kept)
    prefix = a_leader(7).batches[:kept]
    other = PartitionLeader.elect(prefix, leader_epoch=0, high_watermark=kept)
    assert state(leader) == state(other)
    assert leader.log.size_bytes == kept * SIZE
    assert list(snapshots(leader)) == ([kept] if kept else [])
    assert send(leader, p1(kept)).base_offset == kept


def test_the_newest_snapshot_inside_the_log_is_reloaded() -> None:
    leader = truncated(a_leader(10, PAIRS), 7)
    assert leader.log.segments == [0, 2, 4, 6]
    assert sequences(leader) == [(5, 5), (6, 6)]
    assert list(snapshots(leader)) == [2, 4, 6, 7]
    send(leader, p1(7))
    assert leader.log.segments == [0, 2, 4, 6]
    send(leader, p1(8))
    assert leader.log.segments == [0, 2, 4, 6, 8]


def test_a_corrupt_snapshot_is_skipped_and_reported() -> None:
    leader = a_leader(9, PAIRS)
    states = leader.log.producer_states
    states.snapshots[6] = states.snapshots[6][:-1] + b"?"
    states.snapshots[4] = b"\0\2" + states.snapshots[4][2:]
    truncated(leader, 7)
    assert [skipped.offset for skipped in states.corrupt_snapshots] == [6, 4]
    assert [skipped.error.offset for skipped in states.corrupt_snapshots] == [2, 0]
    assert sequences(leader) == [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)][-5:]
    assert list(snapshots(leader)) == [2, 4, 6, 7]
    assert all(decode_snapshot(data) for data in snapshots(leader).values())


def test_nothing_lies_behind_the_end() -> None:
    leader = a_leader(3)
    before = state(leader)
    assert not leader.log.truncate_to(3, NOW_MS)
    assert not leader.log.truncate_to(9, NOW_MS)
    with pytest.raises(InvalidOffset):
        leader.log.truncate_to(-1, NOW_MS)
    assert state(leader) == before


def test_the_high_watermark_follows_the_end_back() -> None:
    leader = a_leader(5)
    assert truncated(leader, 2).high_watermark == 2


def test_a_batch_around_the_cut_goes_as_a_whole() -> None:
    leader = PartitionLeader()
    send(leader, p1(0, 2))
    send(leader, p1(2, 3))
    truncated(leader, 3)
    assert leader.log_end_offset == 3
    assert sequences(leader) == [(0, 1)]
    assert send(leader, p1(2, 3)).base_offset == 3


def test_truncation_before_the_log_begins_empties_it() -> None:
    leader = a_leader(6, PAIRS)
    leader.delete_records(5)
    truncated(leader, 1)
    assert (leader.log_start_offset, leader.log_end_offset, leader.high_watermark) == (1, 1, 1)
    assert (leader.producers, leader.batches, snapshots(leader)) == ({}, [], {})
    assert send(leader, p1(9)).base_offset == 1


def test_truncation_into_deleted_records_moves_the_start_back() -> None:
    leader = a_leader(6, PAIRS)
    leader.delete_records(5)
    truncated(leader, 4)
    assert (leader.log_start_offset, leader.log_end_offset) == (4, 4)
    assert leader.producers == {}


def test_starting_again_elsewhere_forgets_everything() -> None:
    leader = a_leader(6, PAIRS)
    leader.log.truncate_fully_and_start_at(100)
    assert (leader.log_start_offset, leader.log_end_offset, leader.high_watermark) == (100,) * 3
    assert (leader.producers, snapshots(leader), leader.log.size_bytes) == ({}, {}, 0)
    assert send(leader, p1(3)).base_offset == 100


def test_truncation_does_not_reload_expired_producers() -> None:
    leader = a_leader(5, PAIRS)
    assert leader.log.truncate_to(4, NOW_MS + leader.config.producer_id_expiration_ms)
    assert leader.producers == {}


def test_without_producers_in_memory_nothing_is_replayed() -> None:
    """Kafka's quirk: a log is taken to have none if none is remembered, expired ones included."""
    leader = a_leader(5)
    leader.remove_expired_producers(NOW_MS + leader.config.producer_id_expiration_ms)
    assert truncated(leader, 3).producers == {}


# followers


def followed(batches: Sequence[Any], config: LogConfig = PAIRS) -> ReplicaLog:
    log = ReplicaLog(config=config)
    log.append_as_follower(b"".join(batch.data for batch in batches), leader_epoch=0)
    return log


def test_a_follower_has_what_its_leader_has() -> None:
    leader = a_leader(7, PAIRS)
    log = followed(leader.batches)
    assert (log.batches, log.segments) == (leader.batches, leader.log.segments)
    assert log.producer_states.entries == leader.producers
    assert log.producer_states.snapshots == snapshots(leader)
    log.advance_high_watermark(7)
    promoted = PartitionLeader(leader_epoch=3, log=log)
    assert send(promoted, p1(6)).base_offset == 6
    assert send(promoted, p1(7)).base_offset == 7


def test_a_follower_that_diverged_truncates_and_follows() -> None:
    leader = a_leader(4)
    log = followed(leader.batches, LogConfig())
    log.truncate_to(2, NOW_MS)
    other = PartitionLeader.elect(leader.batches[:2], leader_epoch=0, high_watermark=2)
    send(other, a_batch(0, producer_id=2, epoch=0))
    log.append_as_follower(other.batches[-1].data, leader_epoch=0)
    assert log.batches == other.batches
    assert log.producer_states.entries == other.producers


def test_a_follower_leaves_out_what_a_later_leader_wrote() -> None:
    """KAFKA-18723: a fetch answer may reach beyond the epoch of the leader that was asked."""
    old = a_leader(2)
    new = PartitionLeader.elect(old.batches, leader_epoch=5, high_watermark=2)
    send(new, p1(2))
    assert followed(new.batches).log_end_offset == 2
    log = ReplicaLog()
    log.append_as_follower(log_bytes(new), leader_epoch=5)
    assert log.log_end_offset == 3


def test_a_follower_takes_a_fetch_answer_whole_or_not_at_all() -> None:
    leader = a_leader(3)
    log = followed(leader.batches[:1])
    whole = b"".join(batch.data for batch in leader.batches[1:])
    with pytest.raises(CrcMismatch):
        log.append_as_follower(whole[:-1] + b"?", leader_epoch=0)
    with pytest.raises(TruncatedBatch):
        log.append_as_follower(whole[:-1], leader_epoch=0)
    with pytest.raises(OffsetsNotContiguous):
        log.append_as_follower(leader.batches[2].data, leader_epoch=0)
    assert log.log_end_offset == 1
    small = ReplicaLog(config=LogConfig(segment_bytes=SIZE - 1))
    with pytest.raises(BatchTooLarge):
        small.append_as_follower(log_bytes(leader), leader_epoch=0)


# coming back


def test_the_newest_usable_snapshot_and_what_follows_it() -> None:
    old = a_leader(9, PAIRS)
    assert list(snapshots(old)) == [2, 4, 6, 8]
    damaged = snapshots(old)
    damaged[8] = damaged[8][:9]
    new = restart(old, snapshots=damaged)
    assert sequences(new) == [(5, 5), (6, 6), (7, 7), (8, 8)]
    (skipped,) = new.recovery.corrupt_snapshots
    assert skipped.offset == 8
    assert "at byte 9" in str(skipped.error)
    assert list(snapshots(new)) == [2, 4, 6, 8, 9]
    assert damaged[8] == snapshots(old)[8][:9]
    assert sequences(restart(old, snapshots={})) == [(i, i) for i in range(4, 9)]


def test_a_corrupt_snapshot_is_deleted() -> None:
    old = a_leader(7)
    new = restart(old, snapshots={5: b"", 3: a_leader(3).snapshot()}, segments=())
    assert list(snapshots(new)) == [3, 7]
    assert sequences(new) == [(i, i) for i in range(2, 7)]


def test_a_clean_log_without_any_snapshot_had_no_producers() -> None:
    """Only empty snapshots are written: a broker does not scan its logs after an upgrade."""
    old = a_leader(5, PAIRS)
    new = restart(old, snapshots={}, had_clean_shutdown=True)
    assert new.producers == {}
    assert snapshots(new) == dict.fromkeys([2, 4, 5], encode_snapshot([]))
    closed = snapshots(old)
    again = restart(old, snapshots=closed, had_clean_shutdown=True)
    assert sequences(again) == [(3, 3), (4, 4)]


def test_after_a_kill_one_batch_is_remembered() -> None:
    """The segments that may not be on disk are replayed, but into a snapshot: it is what is loaded.

    Snapshots behind the first of them are not believed.
    """
    old = a_leader(8, PAIRS)
    wrong = {5: encode_snapshot([SnapshotEntry(9, 0, 1, 1, 0, NOW_MS, -1, -1)])}
    killed = restart(old, snapshots=snapshots(old) | wrong, recovery_point=5)
    assert set(killed.producers) == {1}
    assert sequences(killed) == [(7, 7)]
    assert list(snapshots(killed)) == [2, 4, 6, 8]
    refuses(killed, p1(6), OUT_OF_ORDER)
    assert send(killed, p1(7)).base_offset == 7


def test_after_a_kill_the_damaged_end_is_cut_off() -> None:
    old = a_leader(7, PAIRS)
    log = bytearray(log_bytes(old))
    log[6 * SIZE - 1] ^= 1
    new = restart(old, files=[bytes(log)], recovery_point=4)
    assert (new.log_end_offset, new.high_watermark) == (5, 5)
    assert new.log.segments == [0, 2, 4]
    assert sequences(new) == [(4, 4)]
    assert new.recovery.cut_bytes == 2 * SIZE
    assert isinstance(new.recovery.damage, CrcMismatch)
    assert send(new, p1(5)).base_offset == 5
    moved = log_bytes(old)[: 6 * SIZE] + b"\1" + log_bytes(old)[6 * SIZE + 1 :]
    elsewhere = restart(old, files=[moved], recovery_point=4)
    assert (elsewhere.log_end_offset, elsewhere.recovery.cut_bytes) == (6, SIZE)
    assert isinstance(elsewhere.recovery.damage, OffsetsNotContiguous)
    torn = restart(old, files=[log_bytes(old)[:-1]], recovery_point=4)
    assert (torn.log_end_offset, torn.recovery.cut_bytes) == (6, SIZE - 1)
    assert isinstance(torn.recovery.damage, TruncatedBatch)


def test_damage_before_the_recovery_point_is_no_tail() -> None:
    old = a_leader(7, PAIRS)
    log = bytearray(log_bytes(old))
    log[4 * SIZE - 1] ^= 1
    for point in (None, 4):
        with pytest.raises(CrcMismatch):
            restart(old, files=[bytes(log)], recovery_point=point)


def test_a_log_that_ends_before_it_starts_is_begun_again() -> None:
    old = a_leader(5)
    old.delete_records(4)
    new = restart(old, files=[], segments=())
    assert (new.log_start_offset, new.log_end_offset) == (4, 4)
    lost = restart(
        a_leader(2), log_start_offset=4, high_watermark=4, snapshots={2: b""}, segments=()
    )
    assert (lost.log_start_offset, lost.log_end_offset, lost.batches) == (4, 4, [])
    assert (lost.producers, snapshots(lost)) == ({}, {})


def test_stray_snapshots_go_but_for_the_last_one_of_a_closed_log() -> None:
    old = a_leader(5, PAIRS)
    kept = {offset: a_leader(offset).snapshot() for offset in (1, 2, 3, 4, 5)}
    assert list(snapshots(restart(old, snapshots=kept))) == [2, 4, 5]
    assert sequences(restart(old, snapshots=kept)) == [(4, 4)]
    del kept[5]
    del kept[4]
    assert sequences(restart(old, snapshots=kept)) == [(1, 1), (2, 2), (3, 3), (4, 4)]


@pytest.mark.parametrize("segments", [[1, 3], [0, 3, 2], [0, 0]])
def test_segments_cover_the_log_in_order(segments: list[int]) -> None:
    with pytest.raises(InvalidOffset):
        restart(a_leader(5), segments=segments)


def test_a_closed_log_has_nothing_to_recover() -> None:
    with pytest.raises(PartitionError, match=r"has no recovery point; correct the call$"):
        restart(a_leader(5), had_clean_shutdown=True, recovery_point=0)
