"""The batches of older segments, and those that a restart found, are read from their files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from impl import Broker
from impl.log.disk import DirectoryDisk
from impl.partition.cleaner import clean
from impl.partition.leader import PartitionLeader
from impl.partition.reading import read
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import Record, client_batch, decode_batches, encode_batch

SEGMENT_BYTES = 4_000
BATCHES = 60


def append(leader: PartitionLeader, first: int, count: int) -> None:
    """Batches of three records: the keys of every other batch come again after ten."""
    for number in range(first, first + count):
        key = b"%d-" % (number if number % 2 else number % 10)
        value = b"%d" % number * 50
        records = [Record(delta, number, key + b"%d" % delta, value) for delta in range(3)]
        batch = client_batch(records, producer_id=7, producer_epoch=0, base_sequence=3 * number)
        assert not leader.produce(encode_batch(batch), required_acks=-1, now_ms=number).error
    leader.advance_high_watermark(leader.log_end_offset)


def content(leader: PartitionLeader) -> list[tuple[int, bytes | None]]:
    """What readers see, segment by segment."""
    found: list[tuple[int, bytes | None]] = []
    offset = leader.log_start_offset
    while offset < leader.log_end_offset:
        part = read(leader.log, offset, 1 << 20, at_least_one=True)
        assert not part.error
        for batch in decode_batches(part.records):
            found += [(batch.base_offset + each.offset_delta, each.value) for each in batch.records]
            offset = batch.last_offset + 1
    return found


def partition(broker: Broker) -> PartitionLeader:
    topic = broker.cluster.topics.get("t")
    assert topic is not None
    return topic.partitions[0]


def count_in_memory(leader: PartitionLeader) -> int:
    return sum(isinstance(batch.place, bytes) for batch in leader.log.batches)


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(directory=tmp_path / "a")


def fill(broker: Broker, **settings: str) -> PartitionLeader:
    broker.create_topic("t", segment_bytes=str(SEGMENT_BYTES), **settings)
    append(partition(broker), 0, BATCHES)
    return partition(broker)


def test_only_the_last_segment_is_in_memory(broker: Broker) -> None:
    with broker:
        leader = fill(broker)
        assert content(leader) == [(n, b"%d" % (n // 3) * 50) for n in range(3 * BATCHES)]
        last = [row for row in leader.log.batches if row.base_offset >= leader.log.segments[-1]]
        assert len(leader.log.segments) > 3
        assert count_in_memory(leader) == len(last) < BATCHES // 3


def test_a_killed_brokers_batches_stay_in_their_files(broker: Broker, tmp_path: Path) -> None:
    with broker:
        whole = content(fill(broker))
        shutil.copytree(tmp_path / "a", tmp_path / "b")
    with Broker(directory=tmp_path / "b") as again:
        leader = partition(again)
        assert count_in_memory(leader) == 0
        assert content(leader) == whole
        append(leader, BATCHES, 1)
        leader.delete_records(whole[-1][0])
        assert content(leader)[:3] == whole[-3:]
        shutil.copytree(tmp_path / "b", tmp_path / "c")
        later = content(leader)
    with Broker(directory=tmp_path / "c") as again:
        assert content(partition(again)) == later


def test_compaction_leaves_no_batch_in_a_file_that_is_gone(broker: Broker) -> None:
    with broker:
        leader = fill(broker, cleanup_policy="compact")
        whole = dict(content(leader))
        clean(leader.log, 10**12)
        after = content(leader)
        assert len(after) < len(whole)
        assert after == [(offset, whole[offset]) for offset, _ in after]
        assert count_in_memory(leader) < BATCHES // 3


def test_deleted_batches_keep_their_places_in_a_segment_that_ends(broker: Broker) -> None:
    with broker:
        broker.create_topic("t", segment_bytes=str(SEGMENT_BYTES))
        leader = partition(broker)
        append(leader, 0, 5)
        leader.delete_records(7)
        append(leader, 5, BATCHES)
        assert leader.log.segments[:1] == [0] != leader.log.segments
        assert content(leader) == [(n, b"%d" % (n // 3) * 50) for n in range(6, 3 * BATCHES + 15)]


def test_a_file_that_takes_anothers_name_is_read(tmp_path: Path) -> None:
    disk = DirectoryDisk(tmp_path)
    for name in ("old", "new"):
        disk.append(name, name.encode())
    assert disk.read_part("old", 0, 3) == b"old"
    disk.rename("new", "old")
    assert disk.read_part("old", 0, 3) == b"new"
    disk.close()


def test_a_file_that_is_damaged_is_a_storage_error(broker: Broker, tmp_path: Path) -> None:
    with broker:
        leader = fill(broker)
        first = min((tmp_path / "a" / "t-0").glob("*.log"))
        first.write_bytes(first.read_bytes()[:100])
        part = read(leader.log, 0, 1 << 20, at_least_one=True)
        assert part.error is ErrorCode.KAFKA_STORAGE_ERROR
        assert part.records == b""
