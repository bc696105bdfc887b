"""The leader of a partition, through `produce` alone."""

from typing import Any

import pytest

from impl.log.snapshot import SnapshotEntry, decode_snapshot, encode_snapshot
from impl.partition.errors import (
    HighWatermarkOutOfRange,
    OffsetsNotContiguous,
)
from impl.partition.leader import PartitionLeader, ProduceOutcome
from impl.partition.log_config import LogConfig
from impl.protocol.errors import CrcMismatch, ErrorCode
from impl.protocol.record_batch import (
    CONTROL,
    LOG_APPEND_TIME,
    MAX_SEQUENCE,
    TRANSACTIONAL,
    Record,
    RecordBatch,
    decode_batch,
    decode_batches,
    encode_batch,
    restamp_batch,
)
from impl.settings import LONG_MAX

NOW_MS = 1_000_000
NONE = ErrorCode.NONE
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def a_batch(
    base_sequence: int = -1,
    count: int = 1,
    *,
    producer_id: int = -1,
    epoch: int = -1,
    timestamp: int = NOW_MS,
    **changes: Any,
) -> bytes:
    fields: dict[str, Any] = {
        "records": tuple(Record(i, timestamp, None, b"v") for i in range(count)),
        "last_offset_delta": count - 1,
        "base_timestamp": timestamp,
        "max_timestamp": timestamp,
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "base_sequence": base_sequence,
    }
    return encode_batch(RecordBatch(**{**fields, **changes}))


def p1(base_sequence: int, count: int = 1, *, epoch: int = 0, **changes: Any) -> bytes:
    return a_batch(base_sequence, count, producer_id=1, epoch=epoch, **changes)


def send(leader: PartitionLeader, data: bytes | None, acks: int = -1) -> ProduceOutcome:
    return leader.produce(data, required_acks=acks, now_ms=NOW_MS)


def state(leader: PartitionLeader) -> tuple[Any, ...]:
    return (
        leader.log_end_offset,
        leader.high_watermark,
        dict(leader.producers),
        list(leader.batches),
    )


def refuses(leader: PartitionLeader, data: bytes | None, error: ErrorCode, start: int = 0) -> None:
    """The batch earns `error`, and nothing has changed."""
    before = state(leader)
    refused = send(leader, data)._replace(record_errors=())
    assert refused == ProduceOutcome(error, -1, -1, start, -1)
    assert state(leader) == before


def sequences(leader: PartitionLeader, producer_id: int = 1) -> list[tuple[int, int]]:
    entry = leader.producers[producer_id]
    return [(batch.first_sequence, batch.last_sequence) for batch in entry.batches]


# appending


def test_offsets_are_assigned_one_after_the_other() -> None:
    leader = PartitionLeader(leader_epoch=7)
    assert send(leader, a_batch(count=3)).base_offset == 0
    assert send(leader, a_batch(count=2)).base_offset == 3
    assert leader.log_end_offset == 5
    stored = [decode_batch(batch.data) for batch in leader.batches]
    assert [batch.base_offset for batch in stored] == [0, 3]
    assert [batch.partition_leader_epoch for batch in stored] == [7, 7]
    assert leader.producers == {}


def test_plain_batches_are_appended_as_often_as_they_come() -> None:
    leader = PartitionLeader()
    assert [send(leader, a_batch()).base_offset for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize(("acks", "required"), [(-1, 2), (0, -1), (1, -1)])
def test_only_acks_all_waits_for_the_high_watermark(acks: int, required: int) -> None:
    leader = PartitionLeader()
    outcome = send(leader, p1(0, 2), acks)
    assert outcome == ProduceOutcome(NONE, 0, -1, 0, required)
    assert send(leader, p1(0, 2), acks).required_offset == required
    assert leader.high_watermark == 0
    leader.advance_high_watermark(2)
    assert leader.high_watermark == 2


@pytest.mark.parametrize("offset", [-1, 0, 3])
def test_the_high_watermark_stays_between_itself_and_the_end(offset: int) -> None:
    leader = PartitionLeader()
    send(leader, a_batch(count=2))
    leader.advance_high_watermark(1)
    with pytest.raises(HighWatermarkOutOfRange):
        leader.advance_high_watermark(offset)
    assert leader.high_watermark == 1


@pytest.mark.parametrize("acks", [-2, 2, 5])
def test_other_acks_are_refused(acks: int) -> None:
    leader = PartitionLeader()
    outcome = send(leader, p1(0), acks)
    assert outcome == ProduceOutcome(ErrorCode.INVALID_REQUIRED_ACKS, -1, -1, -1, -1)
    assert leader.log_end_offset == 0


# sequences


def test_sequences_follow_each_other() -> None:
    leader = PartitionLeader()
    send(leader, p1(0, 3))
    send(leader, p1(3, 2))
    assert sequences(leader) == [(0, 2), (3, 4)]
    refuses(leader, p1(6), OUT_OF_ORDER)


@pytest.mark.parametrize("first", [0, 1, 77, MAX_SEQUENCE])
def test_an_unknown_producer_may_begin_anywhere(first: int) -> None:
    leader = PartitionLeader()
    assert send(leader, p1(first)).error == NONE
    assert sequences(leader) == [(first, first)]


def test_a_new_epoch_begins_at_zero_and_forgets() -> None:
    leader = PartitionLeader()
    send(leader, p1(5, epoch=3))
    refuses(leader, p1(6, epoch=4), OUT_OF_ORDER)
    assert send(leader, p1(0, epoch=4)).error == NONE
    assert leader.producers[1].producer_epoch == 4
    assert sequences(leader) == [(0, 0)]


def test_an_older_epoch_is_fenced_whatever_its_sequence() -> None:
    leader = PartitionLeader()
    send(leader, p1(0, epoch=3))
    send(leader, p1(0, epoch=4))
    for sequence in (0, 1, 9):
        refuses(leader, p1(sequence, epoch=3), ErrorCode.INVALID_PRODUCER_EPOCH)


def test_a_client_without_an_epoch_is_never_out_of_order() -> None:
    """Epoch -1 is what an unknown producer has; a broker does not ask a client for more."""
    leader = PartitionLeader()
    assert send(leader, p1(5, epoch=-1)).error == NONE
    assert send(leader, p1(9, epoch=-1)).error == NONE
    assert send(leader, p1(9, epoch=-1)).base_offset == 1
    refuses(leader, p1(9, epoch=-2), ErrorCode.INVALID_PRODUCER_EPOCH)


def test_a_batch_may_lie_across_the_wrap() -> None:
    leader = PartitionLeader()
    send(leader, p1(MAX_SEQUENCE - 2, 5))
    assert sequences(leader) == [(MAX_SEQUENCE - 2, 1)]
    refuses(leader, p1(0), OUT_OF_ORDER)
    assert send(leader, p1(2)).error == NONE
    assert send(leader, p1(MAX_SEQUENCE - 2, 5)).base_offset == 0


def test_zero_follows_the_largest_sequence() -> None:
    leader = PartitionLeader()
    send(leader, p1(MAX_SEQUENCE))
    refuses(leader, p1(1), OUT_OF_ORDER)
    assert send(leader, p1(0)).error == NONE


def test_producers_do_not_disturb_each_other() -> None:
    leader = PartitionLeader()
    send(leader, a_batch(0, producer_id=1, epoch=0))
    send(leader, a_batch(0, producer_id=2, epoch=5))
    assert send(leader, a_batch(1, producer_id=1, epoch=0)).base_offset == 2
    assert send(leader, a_batch(1, producer_id=2, epoch=5)).base_offset == 3


# duplicates


def test_a_duplicate_succeeds_and_appends_nothing() -> None:
    leader = PartitionLeader()
    send(leader, p1(0, 3, timestamp=5))
    send(leader, p1(3, 2, timestamp=6))
    before = state(leader)
    assert send(leader, p1(0, 3)) == ProduceOutcome(NONE, 0, 5, 0, 3)
    assert send(leader, p1(3, 2)) == ProduceOutcome(NONE, 3, 6, 0, 5)
    assert state(leader) == before


def test_five_batches_are_remembered() -> None:
    leader = PartitionLeader()
    for sequence in range(6):
        send(leader, p1(sequence))
    assert sequences(leader) == [(i, i) for i in range(1, 6)]
    refuses(leader, p1(0), OUT_OF_ORDER)
    assert [send(leader, p1(i)).base_offset for i in range(1, 6)] == [1, 2, 3, 4, 5]
    assert leader.log_end_offset == 6


@pytest.mark.parametrize(("first", "count"), [(0, 2), (1, 2), (0, 4), (1, 3), (2, 1), (0, 1)])
def test_an_overlap_is_no_duplicate(first: int, count: int) -> None:
    leader = PartitionLeader()
    send(leader, p1(0, 3))
    refuses(leader, p1(first, count), OUT_OF_ORDER)


def test_a_duplicate_of_another_epoch_is_none() -> None:
    leader = PartitionLeader()
    send(leader, p1(0))
    assert send(leader, p1(0, epoch=1)).base_offset == 1
    refuses(leader, p1(0), ErrorCode.INVALID_PRODUCER_EPOCH)


def test_a_transactional_duplicate_succeeds_before_it_is_judged() -> None:
    leader = PartitionLeader()
    send(leader, p1(0))
    assert send(leader, p1(0, attributes=TRANSACTIONAL)).base_offset == 0


def test_transactional_batches_without_a_guard_belong_to_no_transaction() -> None:
    leader = PartitionLeader()
    refuses(leader, p1(0, attributes=TRANSACTIONAL), ErrorCode.INVALID_TXN_STATE)
    send(leader, p1(0, epoch=1))
    refuses(leader, p1(9, epoch=1, attributes=TRANSACTIONAL), ErrorCode.INVALID_TXN_STATE)
    refuses(leader, p1(0, attributes=TRANSACTIONAL), ErrorCode.INVALID_PRODUCER_EPOCH)


# the batch itself

GOOD = p1(0, 2)


def damaged(at: int, value: int, size: int) -> bytes:
    return GOOD[:at] + value.to_bytes(size, "big", signed=True) + GOOD[at + size :]


def sealed(data: bytes) -> bytes:
    """`data` with the checksum that fits it."""
    attributes = int.from_bytes(data[21:23], "big", signed=True)
    return restamp_batch(data, attributes, int.from_bytes(data[35:43], "big", signed=True))


UNREADABLE = {
    "null": (None, ErrorCode.INVALID_RECORD),
    "nothing": (b"", ErrorCode.INVALID_RECORD),
    "too few bytes for a batch": (GOOD[:16], ErrorCode.INVALID_RECORD),
    "cut": (GOOD[:-1], ErrorCode.INVALID_RECORD),
    "two batches": (GOOD + GOOD, ErrorCode.INVALID_RECORD),
    "a corrupt second batch": (GOOD + damaged(8, 3, 4), ErrorCode.CORRUPT_MESSAGE),
    "magic 1": (damaged(16, 1, 1), ErrorCode.INVALID_RECORD),
    "magic 3": (damaged(16, 3, 1), ErrorCode.CORRUPT_MESSAGE),
    "magic -1": (damaged(16, -1, 1), ErrorCode.CORRUPT_MESSAGE),
    "length 13": (damaged(8, 13, 4), ErrorCode.CORRUPT_MESSAGE),
    "length -1": (damaged(8, -1, 4), ErrorCode.CORRUPT_MESSAGE),
    "length 13 and cut": (damaged(8, 13, 4)[:20], ErrorCode.CORRUPT_MESSAGE),
    "length 14 and cut": (damaged(8, 14, 4)[:20], ErrorCode.INVALID_RECORD),
    "length 48": (damaged(8, 48, 4)[:60], ErrorCode.CORRUPT_MESSAGE),
    "checksum": (damaged(len(GOOD) - 1, 1, 1), ErrorCode.CORRUPT_MESSAGE),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_batches(name: str) -> None:
    data, error = UNREADABLE[name]
    refuses(PartitionLeader(), data, error, start=-1)


def test_bytes_too_few_for_another_batch_are_cut_off() -> None:
    leader = PartitionLeader()
    assert send(leader, GOOD + b"\0" * 11).error == NONE
    assert send(leader, GOOD + GOOD[:40]).error == NONE
    assert len(leader.batches) == 1
    assert len(leader.batches[0].data) == len(GOOD)


INVALID = {
    "base offset 1": (damaged(7, 1, 1), ErrorCode.INVALID_RECORD),
    "no records": (p1(0, 0), ErrorCode.INVALID_RECORD),
    "negative count": (sealed(damaged(57, -1, 4)), ErrorCode.INVALID_RECORD),
    "count and offsets differ": (p1(0, 2, last_offset_delta=2), ErrorCode.INVALID_RECORD),
    "negative offset range": (p1(0, 2, last_offset_delta=-1), ErrorCode.INVALID_RECORD),
    "control": (p1(0, attributes=CONTROL), ErrorCode.INVALID_RECORD),
    "no sequence": (p1(-1), ErrorCode.INVALID_RECORD),
    "too few records": (
        sealed(damaged(57, 3, 4)[:23] + (2).to_bytes(4, "big") + damaged(57, 3, 4)[27:]),
        ErrorCode.INVALID_RECORD,
    ),
    "a record beyond the batch": (sealed(damaged(61, 126, 1)), ErrorCode.INVALID_RECORD),
    "from the future": (p1(0, timestamp=NOW_MS + 3_600_001), ErrorCode.INVALID_TIMESTAMP),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_batches(name: str) -> None:
    data, error = INVALID[name]
    refuses(PartitionLeader(), data, error)


LARGE = len(GOOD) - 1
TWO_FAULTS: dict[str, tuple[bytes | None, int, int, ErrorCode]] = {
    "shape, then acks": (None, 5, LARGE, ErrorCode.INVALID_RECORD),
    "acks, then offset": (damaged(7, 1, 1), 5, LARGE, ErrorCode.INVALID_REQUIRED_ACKS),
    "offset, then size": (damaged(7, 1, 1), -1, LARGE, ErrorCode.INVALID_RECORD),
    "size, then checksum": (damaged(57, 9, 4), -1, LARGE, ErrorCode.MESSAGE_TOO_LARGE),
    "checksum, then count": (damaged(57, 9, 4), -1, 1 << 20, ErrorCode.CORRUPT_MESSAGE),
    "count, then timestamp": (
        p1(0, 2, last_offset_delta=2, timestamp=NOW_MS * 10),
        -1,
        1 << 20,
        ErrorCode.INVALID_RECORD,
    ),
    "timestamp, then duplicate": (
        p1(0, 2, timestamp=NOW_MS * 10),
        -1,
        1 << 20,
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "duplicate, then transaction": (p1(0, 2, attributes=TRANSACTIONAL), -1, 1 << 20, NONE),
    "epoch, then sequence": (p1(9, epoch=-1), -1, 1 << 20, ErrorCode.INVALID_PRODUCER_EPOCH),
}


@pytest.mark.parametrize("name", TWO_FAULTS)
def test_of_two_faults_kafkas_first_is_answered(name: str) -> None:
    data, acks, max_message_bytes, error = TWO_FAULTS[name]
    old = PartitionLeader()
    assert send(old, GOOD).error == NONE
    config = LogConfig(max_message_bytes=max_message_bytes)
    leader = PartitionLeader.elect(old.batches, leader_epoch=1, high_watermark=0, config=config)
    assert send(leader, data, acks).error == error
    assert leader.log_end_offset == 2


def test_an_hour_ahead_is_still_good() -> None:
    assert send(PartitionLeader(), p1(0, timestamp=NOW_MS + 3_600_000)).error == NONE
    assert send(PartitionLeader(), p1(0, timestamp=-1)).error == NONE


@pytest.mark.parametrize("codec", range(1, 5))
def test_compressed_batches_are_stored_as_they_came(codec: int) -> None:
    leader = PartitionLeader()
    for base_offset in (0, 3):
        assert send(leader, p1(base_offset, 3, attributes=codec)).base_offset == base_offset
    first, second = (decode_batch(batch.data) for batch in leader.batches)
    assert (first.compression, second.compression) == (codec, codec)
    assert second.records == decode_batch(p1(3, 3)).records
    assert leader.log_end_offset == 6


@pytest.mark.parametrize("codec", range(1, 5))
def test_records_in_a_compressed_batch_are_validated(codec: int) -> None:
    late = p1(0, 1, timestamp=NOW_MS + 3_600_001, attributes=codec)
    refuses(PartitionLeader(), late, ErrorCode.INVALID_TIMESTAMP)
    uncompressed = restamp_batch(GOOD, codec, NOW_MS)
    refuses(PartitionLeader(), uncompressed, ErrorCode.UNKNOWN_SERVER_ERROR)


def test_a_small_batch_has_no_more_records_than_a_large_one() -> None:
    """Those of seven bytes each that fit uncompressed: a bomb would keep the broker busy."""
    leader = PartitionLeader(config=LogConfig(max_message_bytes=7 * 300))
    refuses(leader, p1(0, 301, attributes=4), ErrorCode.MESSAGE_TOO_LARGE, start=-1)
    assert len(p1(0, 301, attributes=4)) < 7 * 300
    assert send(leader, p1(0, 300, attributes=4)).error == NONE


@pytest.mark.parametrize("codec", range(5, 8))
def test_an_unassigned_codec_is_refused(codec: int) -> None:
    compressed = restamp_batch(GOOD, codec, NOW_MS)
    refuses(PartitionLeader(), compressed, ErrorCode.UNKNOWN_SERVER_ERROR)


def test_sizes_have_limits() -> None:
    size = len(GOOD)
    exact = PartitionLeader(config=LogConfig(max_message_bytes=size, segment_bytes=size))
    assert send(exact, GOOD).error == NONE
    small = PartitionLeader(config=LogConfig(max_message_bytes=size - 1))
    refuses(small, GOOD, ErrorCode.MESSAGE_TOO_LARGE, start=-1)
    segment = PartitionLeader(config=LogConfig(segment_bytes=size - 1))
    refuses(segment, GOOD, ErrorCode.RECORD_LIST_TOO_LARGE, start=-1)
    full = PartitionLeader(config=LogConfig(max_log_bytes=size))
    assert send(full, GOOD).error == NONE
    refuses(full, p1(2, 2), ErrorCode.KAFKA_STORAGE_ERROR, start=-1)
    assert send(full, GOOD).error == NONE


def test_a_wrong_maximum_timestamp_is_corrected() -> None:
    leader = PartitionLeader()
    send(leader, p1(0, timestamp=500, max_timestamp=900))
    stored = decode_batch(leader.batches[0].data)
    assert stored.max_timestamp == 500
    assert leader.producers[1].last_timestamp == 500


def test_a_producers_log_append_time_is_corrected_on_create_time_topics() -> None:
    leader = PartitionLeader()
    send(leader, p1(0, attributes=LOG_APPEND_TIME, max_timestamp=600))
    stored = decode_batch(leader.batches[0].data)
    assert (stored.attributes, stored.max_timestamp) == (0, 600)


def test_log_append_time_topics_stamp_the_brokers_clock() -> None:
    leader = PartitionLeader(config=LogConfig(is_log_append_time=True))
    assert send(leader, p1(0, timestamp=5)) == ProduceOutcome(NONE, 0, NOW_MS, 0, 1)
    stored = decode_batch(leader.batches[0].data)
    assert (stored.attributes, stored.max_timestamp) == (LOG_APPEND_TIME, NOW_MS)
    refuses(leader, p1(1, attributes=LOG_APPEND_TIME), ErrorCode.INVALID_TIMESTAMP)


def test_timestamps_beyond_int64_are_refused_even_without_a_range() -> None:
    config = LogConfig(message_timestamp_after_max_ms=LONG_MAX)
    leader = PartitionLeader(config=config)
    late = (Record(0, LONG_MAX + 1, None, None),)
    data = encode_batch(
        RecordBatch(late, base_timestamp=LONG_MAX, max_timestamp=LONG_MAX),
    )
    refuses(leader, data, ErrorCode.INVALID_TIMESTAMP)


def test_refusals_after_the_size_check_carry_the_log_start() -> None:
    leader = PartitionLeader(log_start_offset=40)
    assert send(leader, p1(0)).base_offset == 40
    refuses(leader, p1(5), OUT_OF_ORDER, start=40)
    refuses(leader, p1(-1), ErrorCode.INVALID_RECORD, start=40)
    refuses(leader, damaged(len(GOOD) - 1, 1, 1), ErrorCode.CORRUPT_MESSAGE, start=-1)


# failover, snapshot, restart


def with_seven_batches() -> PartitionLeader:
    leader = PartitionLeader()
    for sequence in range(7):
        send(leader, p1(sequence, timestamp=NOW_MS + sequence))
    leader.advance_high_watermark(4)
    return leader


def test_a_failover_keeps_five_batches() -> None:
    old = with_seven_batches()
    new = PartitionLeader.elect(old.batches, leader_epoch=1, high_watermark=4)
    assert state(new) == state(old)
    send(new, p1(7))
    assert decode_batch(new.batches[-1].data).partition_leader_epoch == 1
    assert len(old.batches) == 7


def test_a_failover_loses_what_was_not_replicated() -> None:
    old = with_seven_batches()
    new = PartitionLeader.elect(old.batches[:5], leader_epoch=1, high_watermark=4)
    assert new.log_end_offset == 5
    refuses(new, p1(6), OUT_OF_ORDER)
    assert send(new, p1(5)).base_offset == 5


def test_replicated_batches_are_not_judged() -> None:
    """A follower only logs what a leader of another opinion accepted."""
    old = PartitionLeader()
    for data in (p1(0, epoch=2), a_batch(0, producer_id=2, epoch=0)):
        send(old, data)
    odd = [old.batches[0], old.batches[1]._replace(producer_id=1, producer_epoch=1)]
    new = PartitionLeader.elect(odd, leader_epoch=1, high_watermark=0)
    assert new.producers[1].producer_epoch == 1
    assert sequences(new) == [(0, 0)]


def test_a_prefix_with_a_gap_is_refused() -> None:
    old = with_seven_batches()
    with pytest.raises(OffsetsNotContiguous):
        PartitionLeader.elect(old.batches[1:], leader_epoch=1, high_watermark=0)
    with pytest.raises(HighWatermarkOutOfRange):
        PartitionLeader.elect(old.batches, leader_epoch=1, high_watermark=8)


def restart(leader: PartitionLeader, snapshots: dict[int, bytes], now_ms: int = NOW_MS) -> Any:
    log = b"".join(batch.data for batch in leader.batches)
    return PartitionLeader.restart(
        [log],
        snapshots,
        leader_epoch=1,
        high_watermark=leader.high_watermark,
        now_ms=now_ms,
        log_start_offset=leader.log_start_offset,
        config=leader.config,
    )


def test_a_snapshot_keeps_one_batch() -> None:
    old = with_seven_batches()
    assert decode_snapshot(old.snapshot()) == [SnapshotEntry(1, 0, 6, 6, 0, NOW_MS + 6, -1, -1)]
    new = restart(old, {7: old.snapshot()})
    assert new.batches == old.batches
    assert sequences(new) == [(6, 6)]
    assert send(new, p1(6)).base_offset == 6
    refuses(new, p1(5), OUT_OF_ORDER)
    assert send(new, p1(7)).base_offset == 7


def test_replay_after_a_snapshot_adds_batches() -> None:
    old = PartitionLeader()
    snapshots = {}
    for sequence in range(7):
        send(old, p1(sequence))
        snapshots[old.log_end_offset] = old.snapshot()
    new = restart(old, {5: snapshots[5]})
    assert sequences(new) == [(4, 4), (5, 5), (6, 6)]


def test_without_a_snapshot_the_whole_log_is_replayed() -> None:
    old = with_seven_batches()
    assert state(restart(old, {})) == state(old)


def test_the_newest_snapshot_in_reach_that_is_whole_is_taken() -> None:
    old = with_seven_batches()
    entry = [SnapshotEntry(9, 0, 1, 1, 0, NOW_MS, -1, -1)]
    beyond, older = encode_snapshot(entry), encode_snapshot([])
    new = restart(old, {8: beyond, 7: old.snapshot()[:-1], 6: older, 3: beyond, 0: beyond})
    assert sequences(new) == [(6, 6)]
    assert set(new.producers) == {1}
    assert set(restart(old, {8: beyond, 0: beyond}).producers) == {1}


def test_a_snapshot_without_a_batch_leaves_only_sequence_zero() -> None:
    old = with_seven_batches()
    marked = encode_snapshot([SnapshotEntry(9, 4, -1, -1, 0, NOW_MS, 2, -1)])
    new = restart(old, {7: marked})
    assert new.producers[9].batches == ()
    assert new.producers[9].coordinator_epoch == 2
    refuses(new, a_batch(3, producer_id=9, epoch=4), OUT_OF_ORDER)
    assert send(new, a_batch(0, producer_id=9, epoch=4)).error == NONE
    assert new.producers[9].coordinator_epoch == 2


def test_a_damaged_log_is_named() -> None:
    old = with_seven_batches()
    log = bytearray(b"".join(batch.data for batch in old.batches))
    log[-1] ^= 1
    with pytest.raises(CrcMismatch):
        PartitionLeader.restart([bytes(log)], {}, leader_epoch=1, high_watermark=0, now_ms=NOW_MS)


# expiry

DAY_MS = 86_400_000


def test_an_idle_producer_is_forgotten_after_a_day_by_its_own_clock() -> None:
    leader = PartitionLeader()
    send(leader, p1(0, timestamp=100))
    leader.remove_expired_producers(100 + DAY_MS - 1)
    refuses(leader, p1(5), OUT_OF_ORDER)
    leader.remove_expired_producers(100 + DAY_MS)
    assert leader.producers == {}
    assert send(leader, p1(5)).base_offset == 1


def test_a_restart_does_not_load_expired_producers() -> None:
    old = PartitionLeader()
    send(old, p1(0, timestamp=100))
    late_ms = 100 + DAY_MS
    assert restart(old, {1: old.snapshot()}, late_ms).producers == {}
    assert set(restart(old, {}, late_ms).producers) == {1}


def test_the_log_is_kafkas_own_bytes() -> None:
    leader = with_seven_batches()
    log = b"".join(batch.data for batch in leader.batches)
    assert [batch.base_sequence for batch in decode_batches(log)] == list(range(7))
