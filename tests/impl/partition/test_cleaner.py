"""What compaction leaves of a log, and when; `tests/conformance/adapters/brokers/kafka`
compares it with Kafka's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from impl.partition.cleaner import clean, find_cleanable
from impl.partition.consuming import committed_batches
from impl.partition.leader import PartitionLeader
from impl.partition.log_config import LogConfig
from impl.partition.reading import find_end_of_epoch, find_offset, read
from impl.partition.stored_batch import store_batch
from impl.protocol.compression import Compression
from impl.protocol.control_records import ControlType
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import Isolation, Timestamp
from impl.protocol.record_batch import (
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    Record,
    client_batch,
    decode_batch,
    decode_batches,
    encode_batch,
    read_header,
)

NONE = ErrorCode.NONE
NOW_MS = 1_000_000
RETENTION_MS = 500
CONFIG = LogConfig(
    cleanup_policy="compact",
    segment_ms=1000,
    min_cleanable_dirty_ratio=0,
    delete_retention_ms=RETENTION_MS,
)
ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT
Pair = tuple[bytes, bytes | None]


class Log:
    """A leader, its producers, and a clock of records that ends segments."""

    def __init__(self, config: LogConfig = CONFIG) -> None:
        self.leader = PartitionLeader(config=config)
        self.now_ms = NOW_MS
        self.sequences: dict[int, int] = {}

    def send(self, *pairs: Pair, producer_id: int = -1, epoch: int = 0, codec: int = 0) -> int:
        """Offset of the batch; producers from 100 on are transactional."""
        records = [Record(n, self.now_ms, *pair) for n, pair in enumerate(pairs)]
        sequence = self.sequences.get(producer_id, 0)
        batch = client_batch(records)
        if producer_id >= 0:
            batch = client_batch(
                records,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                is_transactional=producer_id >= 100,
            )
        return self.append(encode_batch(batch._replace(attributes=batch.attributes | codec)))

    def append(self, data: bytes) -> int:
        header = read_header(data)
        guard = 0
        if header.producer_id >= 100:
            guard = self.leader.begin_verification(
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                supports_epoch_bump=False,
                now_ms=self.now_ms,
            ).guard
        done = self.leader.produce(data, required_acks=-1, now_ms=self.now_ms, guard=guard)
        assert not done.error, done
        self.leader.advance_high_watermark(self.leader.log_end_offset)
        self.sequences[header.producer_id] = header.base_sequence + header.records_count
        return done.base_offset

    def end(self, producer_id: int, kind: ControlType, epoch: int = 0) -> None:
        done = self.leader.write_marker(
            producer_id=producer_id,
            producer_epoch=epoch,
            control_type=kind,
            coordinator_epoch=0,
            now_ms=self.now_ms,
        )
        assert not done.error
        self.leader.advance_high_watermark(self.leader.log_end_offset)

    def roll(self) -> None:
        """End the segment; the new one begins with a record of another key."""
        self.now_ms += 2000
        self.send((b"roll", b"%d" % self.now_ms))

    def clean(self) -> None:
        """Roll, and clean all before."""
        self.roll()
        clean(self.leader.log, self.now_ms)

    def records(self) -> list[tuple[int, bytes | None, bytes | None]]:
        return [
            (batch.base_offset + record.offset_delta, record.key, record.value)
            for batch in self.batches()
            if not batch.is_control
            for record in batch.records
            if record.key != b"roll"
        ]

    def batches(self) -> list[object]:
        return decode_batches(b"".join(each.data for each in self.leader.batches))

    def committed(self) -> dict[bytes | None, bytes | None]:
        """The last value of each key, as a read_committed consumer reads it."""
        table, offset, log = {}, 0, self.leader.log
        while found := read(
            log, offset, 1 << 20, at_least_one=True, isolation=Isolation.READ_COMMITTED
        ).records:
            aborted = read(
                log, offset, 1 << 20, at_least_one=True, isolation=Isolation.READ_COMMITTED
            ).aborted_transactions
            batches = decode_batches(found)
            for batch in committed_batches(batches, [entry[:2] for entry in aborted]):
                table |= {record.key: record.value for record in batch.records}
            offset = batches[-1].last_offset + 1
        return table

    def restart(self, *, snapshots: bool = False) -> PartitionLeader:
        """Another leader from the bytes of the log."""
        log = self.leader.log
        return PartitionLeader.restart(
            [b"".join(each.data for each in (*log.deleted, *log.batches))],
            log.producer_states.snapshots if snapshots else {},
            leader_epoch=1,
            high_watermark=1 << 60,
            now_ms=self.now_ms,
            config=log.config,
            segments=log.segments,
            transaction_indexes={base: log.transaction_index(base) for base in log.segments},
        )


@pytest.fixture
def log() -> Log:
    return Log()


def test_the_latest_record_of_each_key_stays_at_its_offset(log: Log) -> None:
    log.send((b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
    log.send((b"b", b"4"))
    log.clean()
    assert log.records() == [(2, b"a", b"3"), (3, b"b", b"4")]
    assert [(each.base_offset, each.last_offset) for each in log.leader.batches[:2]] == [
        (0, 2),
        (3, 3),
    ]


def test_a_dirty_key_supersedes_a_clean_one_and_segments_become_one(log: Log) -> None:
    log.send((b"a", b"1"), (b"b", b"2"))
    log.clean()
    log.send((b"a", b"3"))
    log.clean()
    assert log.records() == [(1, b"b", b"2"), (3, b"a", b"3")]
    assert log.leader.log.segments == [0, log.leader.log.cleaned_offset]


def test_segments_that_do_not_fit_into_one_stay_apart() -> None:
    log = Log(replace(CONFIG, segment_bytes=600))
    for number in range(4):
        log.send((b"k%d" % number, b"x" * 100))
        log.roll()
    clean(log.leader.log, log.now_ms)
    assert len(log.leader.log.segments) == 3
    assert len(log.records()) == 4


def test_a_tombstone_stays_until_its_horizon(log: Log) -> None:
    log.send((b"a", b"1"))
    log.send((b"a", None), (b"b", b"2"))
    log.clean()
    assert log.records() == [(1, b"a", None), (2, b"b", b"2")]
    header = read_header(log.leader.batches[0].data)
    assert header.attributes & DELETE_HORIZON
    assert header.base_timestamp == log.now_ms + RETENTION_MS
    assert decode_batch(log.leader.batches[0].data).records[0].timestamp == NOW_MS
    log.roll()
    clean(log.leader.log, header.base_timestamp - 1)
    assert (1, b"a", None) in log.records()
    log.roll()
    clean(log.leader.log, header.base_timestamp)
    assert log.records() == [(2, b"b", b"2")]


def test_aborted_records_go_at_once_and_supersede_nothing(log: Log) -> None:
    log.send((b"a", b"1"))
    log.send((b"a", b"aborted"), producer_id=100)
    log.end(100, ABORT)
    assert log.committed()[b"a"] == b"1"
    log.clean()
    assert log.records() == [(0, b"a", b"1")]
    assert log.committed()[b"a"] == b"1"


def test_a_marker_goes_after_its_data_and_its_horizon(log: Log) -> None:
    log.send((b"a", b"1"), producer_id=100)
    log.end(100, COMMIT)
    log.send((b"a", b"2"), producer_id=100)
    log.end(100, COMMIT)
    log.clean()
    assert controls(log) == [1, 3]
    assert not log.leader.batches[0].attributes & DELETE_HORIZON
    log.send((b"a", b"3"), producer_id=100)
    log.end(100, COMMIT)
    log.clean()
    assert controls(log) == [1, 3, 6], "kept until the horizon"
    log.now_ms += RETENTION_MS
    log.clean()
    assert controls(log) == [3, 6], "the second one is met without its data now"
    log.now_ms += RETENTION_MS
    log.clean()
    assert controls(log) == [6]


def controls(log: Log) -> list[int]:
    return [each.base_offset for each in log.leader.batches if each.attributes & 0x20]


def test_the_last_batch_of_a_producer_stays_without_records(log: Log) -> None:
    log.send((b"a", b"1"), (b"a", b"2"), producer_id=7)
    log.send((b"a", b"3"))
    log.clean()
    [first, *_] = log.leader.batches
    header = read_header(first.data)
    assert (header.records_count, header.base_sequence, header.last_offset_delta) == (0, 0, 1)
    again = log.restart()
    assert again.producers[7].last_sequence == 1
    retried = client_batch(
        [Record(0, NOW_MS, b"a", b"1"), Record(1, NOW_MS, b"a", b"2")],
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
    )
    done = again.produce(encode_batch(retried), required_acks=-1, now_ms=log.now_ms)
    assert (done.error, done.base_offset) == (NONE, 0), "a duplicate, though its records are gone"


def test_the_last_marker_of_a_producer_without_data_stays(log: Log) -> None:
    """It has the epoch that fences."""
    log.send((b"a", b"1"), producer_id=100)
    log.end(100, COMMIT, epoch=5)
    log.send((b"a", b"2"))
    for _ in range(3):
        log.now_ms += RETENTION_MS
        log.clean()
    assert controls(log) == [1]
    assert read_header(log.leader.batches[0].data).records_count == 0


def test_the_last_batch_that_is_cleaned_stays_and_with_it_the_end(log: Log) -> None:
    """It is aborted, and its producer forgotten."""
    log.send((b"a", b"1"))
    log.send((b"b", b"1"), producer_id=100)
    log.now_ms += 2000
    log.end(100, ABORT)
    log.leader.remove_expired_producers(1 << 60)
    clean(log.leader.log, log.now_ms)
    assert log.leader.log.cleaned_offset == 2
    headers = [read_header(stored.data) for stored in log.leader.batches]
    assert [(header.base_offset, header.records_count) for header in headers] == [
        (0, 1),
        (1, 0),
        (2, 1),
    ]


def test_nothing_is_cleaned_from_the_last_stable_offset_on(log: Log) -> None:
    log.send((b"a", b"1"))
    log.roll()
    log.send((b"b", b"2"), producer_id=100)
    log.send((b"b", b"3"))
    log.send((b"b", b"4"))
    log.roll()
    log.clean()
    assert log.leader.log.cleaned_offset == log.leader.log.segments[1] == 1
    assert [value for _, key, value in log.records() if key == b"b"] == [b"2", b"3", b"4"]
    log.end(100, COMMIT)
    log.clean()
    assert [value for _, key, value in log.records() if key == b"b"] == [b"4"]


def test_the_active_segment_is_never_cleaned(log: Log) -> None:
    for value in (b"1", b"2"):
        log.send((b"a", value))
    clean(log.leader.log, log.now_ms)
    assert log.leader.log.cleaned_offset is None
    assert len(log.records()) == 2


@pytest.mark.parametrize(
    ("changes", "is_due"),
    [
        ({"min_cleanable_dirty_ratio": 0.4}, True),
        ({"min_cleanable_dirty_ratio": 0.9}, False),
        ({"min_cleanable_dirty_ratio": 0.9, "max_compaction_lag_ms": 1}, True),
        ({"min_compaction_lag_ms": 10_000}, False),
        ({"cleanup_policy": "delete"}, False),
        ({"cleanup_policy": ""}, False),
        ({"cleanup_policy": "compact,delete"}, True),
    ],
)
def test_when_a_log_is_cleaned(log: Log, changes: dict[str, object], is_due: bool) -> None:
    log.send((b"a", b"1" * 20))
    log.clean()
    log.send((b"a", b"2" * 20))
    log.roll()
    log.leader.log.config = replace(CONFIG, **changes)  # type: ignore[arg-type]
    assert (find_cleanable(log.leader.log, log.now_ms) is not None) is is_due


def test_the_longest_lag_ends_a_segment() -> None:
    log = Log(replace(CONFIG, max_compaction_lag_ms=10))
    log.send((b"a", b"1"))
    log.now_ms += 11
    log.send((b"a", b"2"))
    assert log.leader.log.segments == [0, 1]


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP, Compression.ZSTD])
def test_codec_and_headers_stay(log: Log, codec: Compression) -> None:
    headers = (("h", b"1"), ("é", None))
    records = [
        Record(0, NOW_MS, b"a", b"1"),
        Record(1, NOW_MS + 5, b"b", b"2", headers),
    ]
    batch = client_batch(records)
    log.append(encode_batch(batch._replace(attributes=codec)))
    log.send((b"a", b"3"))
    log.clean()
    left = decode_batch(log.leader.batches[0].data)
    assert left.records == (records[1],)
    assert (left.attributes, left.base_timestamp, left.last_offset_delta) == (codec, NOW_MS + 5, 1)


def test_the_time_of_the_log_stays() -> None:
    log = Log(replace(CONFIG, is_log_append_time=True))
    log.send((b"a", b"1"), (b"b", b"2"))
    log.send((b"a", b"3"))
    log.clean()
    left = decode_batch(log.leader.batches[0].data)
    assert left.attributes & LOG_APPEND_TIME
    assert left.max_timestamp == left.base_timestamp == NOW_MS


def test_offsets_by_time_and_by_epoch_after_compaction(log: Log) -> None:
    log.send((b"a", b"1"), producer_id=7)
    log.leader.leader_epoch = 1
    log.now_ms += 1
    log.send((b"b", b"2"))
    log.leader.leader_epoch = 2
    log.send((b"b", b"3"), (b"a", b"4"))
    log.clean()
    assert [each.base_offset for each in log.leader.batches[:2]] == [0, 2], "epoch 1 is gone"
    assert find_end_of_epoch(log.leader.log, 1, 2) == (1, 2)
    assert find_end_of_epoch(log.leader.log, 0, 2) == (0, 1)
    end = log.leader.log_end_offset
    assert find_offset(log.leader.log, NOW_MS, end, 2).offset == 2, "the next that is left"
    assert find_offset(log.leader.log, Timestamp.EARLIEST, end, 2).offset == 0


@pytest.mark.parametrize(("policy", "starts_at"), [("compact", 0), ("compact,delete", 2)])
def test_retention_of_a_compacted_log(policy: str, starts_at: int) -> None:
    log = Log(replace(CONFIG, cleanup_policy=policy, retention_ms=3000))
    log.send((b"a", b"1"))
    log.roll()
    log.clean()
    log.leader.log.delete_old_segments(log.now_ms + 1500)
    assert log.leader.log_start_offset == starts_at


def test_a_restart_has_the_same_log_and_producers(log: Log) -> None:
    for number in range(12):
        log.send((b"k%d" % (number % 3), b"%d" % number), producer_id=100 + number % 2)
        log.end(100 + number % 2, ABORT if number % 4 == 1 else COMMIT)
        log.send((b"p", b"%d" % number), producer_id=7)
        if number % 3 == 2:
            log.clean()
    before = log.leader.view()
    after = log.restart(snapshots=True)
    assert after.batches == log.leader.batches
    assert after.view().aborted == before.aborted
    assert {producer_id: entry.last_sequence for producer_id, entry in after.producers.items()} == {
        producer_id: entry.last_sequence for producer_id, entry in log.leader.producers.items()
    }


def test_a_log_that_cannot_be_read_is_left_as_it_is(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    log.send((b"a", b"1"))
    header = read_header(log.leader.batches[0].data)
    broken = log.leader.batches[0].data[:-3] + b"\xff\xff\xff"
    log.leader.batches[0] = store_batch(header, broken)
    log.clean()
    assert log.leader.batches[0].data == broken
    assert not log.leader.log.is_cleanable
    assert "cannot be read" in caplog.text
