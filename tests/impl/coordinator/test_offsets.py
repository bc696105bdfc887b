"""Group offsets: commits, pending ones, fetches."""

import pytest

from impl.coordinator.group_config import OffsetsConfig
from impl.coordinator.offsets import FetchedOffset, OffsetToCommit, RowError
from impl.coordinator.offsets_records import (
    CommittedOffset,
    OffsetKey,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import (
    TRANSACTIONAL,
    Record,
    RecordBatch,
    decode_batch,
    encode_batch,
)
from tests.impl.coordinator.shard import ABORT, COMMIT, NOBODY, NONE, NOW_MS, UNSTABLE, Shard

# visible and pending


def test_a_plain_commit_is_visible_at_once() -> None:
    shard = Shard()
    assert shard.fetch() == -1
    assert shard.commit(5) == NONE
    assert shard.fetch() == 5
    assert shard.commit(3) == NONE
    assert shard.fetch(stable=True) == 3


def test_a_transactions_offset_waits_for_its_marker() -> None:
    shard = Shard()
    shard.commit(5)
    assert shard.commit_in_transaction(9) == NONE
    assert shard.fetch() == 5
    assert shard.fetch(stable=True) == UNSTABLE
    assert shard.fetch(stable=True, partition=1) == -1
    shard.mark(COMMIT)
    assert (shard.fetch(), shard.fetch(stable=True)) == (9, 9)


def test_an_aborted_one_is_dropped() -> None:
    shard = Shard()
    shard.commit(5)
    shard.commit_in_transaction(9)
    shard.mark(ABORT)
    assert (shard.fetch(), shard.fetch(stable=True)) == (5, 5)
    shard.commit_in_transaction(10, group="h")
    shard.mark(ABORT)
    assert shard.fetch(group="h", stable=True) == -1


def test_a_plain_commit_that_came_later_stays() -> None:
    shard = Shard()
    shard.commit_in_transaction(9)
    shard.commit(5)
    shard.mark(COMMIT)
    assert shard.fetch() == 5
    shard.commit(6)
    shard.commit_in_transaction(4)
    shard.mark(COMMIT)
    assert shard.fetch() == 4


def test_each_producer_has_pending_offsets_of_its_own() -> None:
    shard = Shard()
    shard.commit_in_transaction(1)
    shard.commit_in_transaction(2, producer_id=2)
    shard.commit_in_transaction(3, partition=1)
    shard.mark(ABORT, producer_id=2)
    assert shard.fetch(stable=True) == UNSTABLE
    shard.mark(COMMIT)
    assert (shard.fetch(stable=True), shard.fetch(partition=1)) == (1, 3)


def test_the_last_of_several_commits_of_a_transaction_counts() -> None:
    shard = Shard()
    for offset in (4, 9, 7):
        shard.commit_in_transaction(offset)
    shard.mark(COMMIT)
    assert shard.fetch() == 7


def test_a_marker_without_pending_offsets_changes_nothing() -> None:
    shard = Shard()
    shard.commit(5)
    before = shard.offsets.view()
    shard.mark(COMMIT)
    shard.mark(ABORT, producer_id=9)
    assert shard.offsets.view() == before


def test_a_tombstone_takes_the_pending_ones_too() -> None:
    shard = Shard()
    shard.commit(5)
    shard.commit_in_transaction(9)
    key = OffsetKey("g", "t", 0)
    tombstone = RecordBatch((Record(0, NOW_MS, encode_key(key), None),), base_sequence=0)
    shard.leader.append_as_coordinator(encode_batch(tombstone), now_ms=NOW_MS)
    shard.coordinator.replay(0, shard.leader.batches[-1].data)
    assert shard.fetch(stable=True) == -1
    shard.mark(COMMIT)
    assert shard.fetch() == -1
    assert shard.offsets.groups == {"g"}


def test_topics_that_are_deleted_leave_no_offsets() -> None:
    shard = Shard()
    assert shard.coordinator.forget_topics(["t"], now_ms=NOW_MS) == ()
    shard.commit(5)
    shard.commit_in_transaction(9, partition=1, group="h")
    assert shard.coordinator.forget_topics(["u"], now_ms=NOW_MS) == ()
    ((partition, batch),) = shard.coordinator.forget_topics(["t", "u"], now_ms=NOW_MS)
    assert len(decode_batch(batch).records) == 2
    assert shard.leader.append_as_coordinator(batch, now_ms=NOW_MS).error == NONE
    shard.coordinator.replay(partition, shard.leader.batches[-1].data)
    shard.mark(COMMIT)
    assert (shard.fetch(), shard.fetch(partition=1, group="h")) == (-1, -1)
    shard.coordinator.begin_loading(0)
    assert shard.coordinator.forget_topics(["t"], now_ms=NOW_MS) == ()


def test_a_late_commit_is_kept_out_by_the_leader() -> None:
    """KAFKA-15449: no marker would follow to end it."""
    shard = Shard()
    shard.commit_in_transaction(9)
    shard.mark(ABORT, epoch=1)
    assert shard.commit_in_transaction(10) == ErrorCode.INVALID_PRODUCER_EPOCH
    rows = [OffsetToCommit("t", 0, 10)]
    late = shard.coordinator.commit_in_transaction(
        "g", NOBODY, rows, producer_id=1, producer_epoch=1, now_ms=NOW_MS
    )
    assert late.batch is not None
    refused = shard.leader.append_as_coordinator(late.batch, now_ms=NOW_MS)
    assert refused.error == ErrorCode.INVALID_TXN_STATE
    assert shard.offsets.pending == {}


# the batch


def test_a_transactional_batch_has_sequence_zero() -> None:
    rows = [OffsetToCommit("t", p, p + 5, 2, "m") for p in range(2)]
    decision = Shard().coordinator.commit_in_transaction(
        "g", NOBODY, rows, producer_id=7, producer_epoch=3, now_ms=NOW_MS
    )
    assert decision.batch is not None
    batch = decode_batch(decision.batch)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 3, 0)
    assert (batch.attributes, batch.last_offset_delta) == (TRANSACTIONAL, 1)
    assert [decode_key(record.key) for record in batch.records] == [
        OffsetKey("g", "t", 0),
        OffsetKey("g", "t", 1),
    ]
    values = [decode_value(record.value or b"", 0) for record in batch.records]
    assert values == [CommittedOffset(p + 5, 2, "m", NOW_MS, -1, 0) for p in range(2)]


def test_records_are_kafkas_own_bytes() -> None:
    key = encode_key(OffsetKey("g", "t", 2))
    assert key.hex() == "000100016700017400000002"
    value = encode_value(CommittedOffset(5, 1, "m", 7))
    assert value.hex() == "0004" + "0000000000000005" + "00000001" + "026d" + f"{7:016x}" + "00"
    older = encode_value(CommittedOffset(5, 1, "m", 7), 3)
    assert older.hex() == "0003" + "0000000000000005" + "00000001" + "00016d" + f"{7:016x}"
    expiring = encode_value(CommittedOffset(5, 1, "", 7, 9))
    assert expiring.hex() == "00010000000000000005000000000000000000070000000000000009"


@pytest.mark.parametrize(
    ("retention_time_ms", "expire_timestamp_ms"),
    [(50, NOW_MS + 50), (-(2**63), NOW_MS - 2**63), (2**63 - 1, NOW_MS - 2**63 - 1)],
)
def test_old_retention_and_timestamps_are_kept(
    retention_time_ms: int, expire_timestamp_ms: int
) -> None:
    shard = Shard()
    rows = [OffsetToCommit("t", 0, 5, 3, None, 77), OffsetToCommit("t", 1, 6, 3)]
    decision = shard.coordinator.commit(
        "g", NOBODY, rows, now_ms=NOW_MS, api_version=4, retention_time_ms=retention_time_ms
    )
    assert decision.batch is not None
    records = decode_batch(decision.batch).records
    assert [decode_value(record.value or b"", 0) for record in records] == [
        CommittedOffset(5, -1, "", 77, expire_timestamp_ms, 0),
        CommittedOffset(6, -1, "", NOW_MS, expire_timestamp_ms, 0),
    ]


@pytest.mark.parametrize(("metadata", "is_too_long"), [("xx", False), ("xxx", True), ("💡", False)])
def test_metadata_has_a_limit_of_its_own(metadata: str, is_too_long: bool) -> None:
    coordinator = Shard(OffsetsConfig(num_partitions=1, offset_metadata_max_bytes=2)).coordinator
    rows = [OffsetToCommit("t", 0, 5, metadata=metadata), OffsetToCommit("t", 1, 5)]
    decision = coordinator.commit("g", NOBODY, rows, now_ms=NOW_MS)
    error = ErrorCode.OFFSET_METADATA_TOO_LARGE if is_too_long else NONE
    assert decision.rows == (RowError("t", 0, error), RowError("t", 1, NONE))
    assert decision.batch is not None
    assert len(decode_batch(decision.batch).records) == 2 - is_too_long
    alone = coordinator.commit("g", NOBODY, rows[:1], now_ms=NOW_MS)
    assert (alone.batch is None) == is_too_long


# fetching


def test_all_of_a_groups_offsets() -> None:
    shard = Shard()
    shard.commit(5)
    shard.commit(6, partition=3)
    shard.commit(7, group="h")
    shard.commit_in_transaction(8, partition=3)
    shard.commit_in_transaction(9, partition=4)
    found = shard.coordinator.fetch("g", None, require_stable=True)
    assert found.rows == (FetchedOffset("t", 0, NONE, 5), FetchedOffset("t", 3, UNSTABLE))
    assert found.required_offset == shard.leader.log_end_offset
    assert shard.coordinator.fetch("nobody", None, require_stable=True).rows == ()
