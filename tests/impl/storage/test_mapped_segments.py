"""Segments that a restart found are read where they lie, whatever becomes of their files."""

from __future__ import annotations

import shutil
from pathlib import Path

from impl import Broker
from impl.partition.leader import PartitionLeader
from impl.partition.reading import read
from impl.protocol.record_batch import (
    Record,
    client_batch,
    decode_batches,
    encode_batch,
)

SEGMENT_BYTES = 4_000
BATCHES = 60


def append(leader: PartitionLeader, first: int, count: int) -> None:
    for number in range(first, first + count):
        records = [Record(delta, number, None, b"%d" % number * 50) for delta in range(3)]
        batch = client_batch(records, producer_id=7, producer_epoch=0, base_sequence=3 * number)
        assert not leader.produce(encode_batch(batch), required_acks=-1, now_ms=number).error
    leader.advance_high_watermark(leader.log_end_offset)


def content(leader: PartitionLeader) -> list[tuple[int, bytes]]:
    """What readers see, segment by segment."""
    found: list[tuple[int, bytes]] = []
    offset = leader.log_start_offset
    while offset < leader.log_end_offset:
        part = read(leader.log, offset, 1 << 20, at_least_one=True)
        for batch in decode_batches(part.records):
            found += [(batch.base_offset + each.offset_delta, each.value) for each in batch.records]
        offset = found[-1][0] + 1
    return found


def partition(broker: Broker) -> PartitionLeader:
    topic = broker.cluster.topics.get("t")
    assert topic is not None
    return topic.partitions[0]


def killed(broker: Broker, folder: Path, copy: Path) -> Path:
    """The directory as a kill would leave it now."""
    shutil.copytree(folder, copy)
    return copy


def test_what_a_restart_found_outlives_its_files(tmp_path: Path) -> None:
    with Broker(directory=tmp_path / "a") as broker:
        broker.create_topic("t", segment_bytes=str(SEGMENT_BYTES))
        append(partition(broker), 0, BATCHES)
        whole = content(partition(broker))
        assert len(whole) == 3 * BATCHES
        copy = killed(broker, tmp_path / "a", tmp_path / "b")
    with Broker(directory=copy) as broker:
        leader = partition(broker)
        assert len(leader.log.segments) > 3
        assert content(leader) == whole
        append(leader, BATCHES, 1)
        assert content(leader)[: len(whole)] == whole
        held = leader.log.batches[:]
        bytes_before = [batch.data for batch in held]
        leader.delete_records(whole[-1][0])
        assert len(leader.log.segments) == 1
        assert content(leader)[0] == whole[-3]
        assert [batch.data for batch in held] == bytes_before
        later = content(leader)
        copy = killed(broker, copy, tmp_path / "c")
    with Broker(directory=copy) as broker:
        assert content(partition(broker)) == later
