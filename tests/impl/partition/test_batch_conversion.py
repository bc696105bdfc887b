"""Batches that get the codec of their topic: what of them stays, what a level does."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from impl.partition.leader import PartitionLeader
from impl.partition.log_config import COMPRESSION_TYPES, LogConfig
from impl.protocol.compression import Compression
from impl.protocol.control_records import ControlType
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import (
    LOG_APPEND_TIME,
    Record,
    RecordBatch,
    client_batch,
    decode_batch,
    encode_batch,
    read_header,
)
from impl.settings import InvalidSetting

NOW_MS = 1_700_000_000_000
TEXT = b"".join(b"%d," % (i * 7919 % 10007) for i in range(6000))
RECORDS = [
    Record(0, NOW_MS + 5, b"k", TEXT[:99], (("h", b"1"), ("é", None))),
    Record(1, NOW_MS, None, None),
]


def leader(**config: str | int | bool) -> PartitionLeader:
    return PartitionLeader(config=replace(LogConfig(), **config))


def append(to: PartitionLeader, batch: RecordBatch) -> RecordBatch:
    """The batch as it is stored."""
    guard = 0
    if batch.is_transactional:
        begun = to.begin_verification(
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            supports_epoch_bump=True,
            now_ms=NOW_MS,
        )
        guard = begun.guard
    outcome = to.produce(encode_batch(batch), required_acks=1, now_ms=NOW_MS, guard=guard)
    assert outcome.error is ErrorCode.NONE
    return decode_batch(to.batches[-1].data)


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("kind", COMPRESSION_TYPES)
def test_a_batch_gets_the_codec_of_its_topic(kind: str, codec: Compression) -> None:
    sent = client_batch(RECORDS, producer_id=7, producer_epoch=1, base_sequence=0)
    target = leader(compression_type=kind)
    stored = append(target, sent._replace(attributes=codec))
    wanted = {"producer": codec, "uncompressed": Compression.NONE}
    assert stored.compression == (wanted[kind] if kind in wanted else Compression[kind.upper()])
    assert stored == sent._replace(attributes=stored.attributes, partition_leader_epoch=0)
    assert target.producers[7].batches[-1].last_offset == 1
    assert target.log.size_bytes == read_header(target.batches[0].data).size_bytes


def test_a_transaction_stays_one_and_its_marker_is_not_compressed() -> None:
    target = leader(compression_type="gzip")
    sent = client_batch(
        RECORDS, producer_id=7, producer_epoch=1, base_sequence=0, is_transactional=True
    )
    assert append(target, sent).is_transactional
    target.write_marker(
        producer_id=7,
        producer_epoch=1,
        control_type=ControlType.COMMIT,
        coordinator_epoch=0,
        now_ms=NOW_MS,
    )
    marker = decode_batch(target.batches[-1].data)
    assert (marker.is_control, marker.compression) == (True, Compression.NONE)
    assert target.log.producer_states.ongoing == {}


def test_the_time_of_a_record_is_that_which_consumers_see() -> None:
    """A producer may write its own LogAppendTime where the topic has CreateTime."""
    stored = append(
        leader(compression_type="lz4"),
        client_batch(RECORDS)._replace(attributes=LOG_APPEND_TIME, max_timestamp=NOW_MS + 9),
    )
    assert not stored.attributes & LOG_APPEND_TIME
    assert {record.timestamp for record in stored.records} == {NOW_MS + 9}


def test_log_append_time_is_set_after_the_conversion() -> None:
    stored = append(leader(compression_type="zstd", is_log_append_time=True), client_batch(RECORDS))
    assert stored.attributes == LOG_APPEND_TIME | Compression.ZSTD
    assert (stored.base_timestamp, stored.max_timestamp) == (NOW_MS + 5, NOW_MS)


@pytest.mark.parametrize(
    ("kind", "levels"), [("gzip", (1, 9)), ("lz4", (1, 9)), ("zstd", (-5, 1, 3, 22))]
)
def test_a_higher_level_compresses_more(kind: str, levels: tuple[int, ...]) -> None:
    sizes = []
    for level in levels:
        config = {"compression_type": kind, f"compression_{kind}_level": level}
        target = leader(**config)
        stored = append(target, client_batch([Record(0, NOW_MS, None, TEXT)]))
        assert stored.records[0].value == TEXT
        sizes.append(target.log.size_bytes)
    assert sizes == sorted(set(sizes), reverse=True)


def test_a_codec_that_is_not_installed_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic is of a directory that was written where it was."""
    target = leader(compression_type="snappy")
    monkeypatch.setitem(sys.modules, "cramjam", None)
    data = encode_batch(client_batch(RECORDS))
    outcome = target.produce(data, required_acks=1, now_ms=NOW_MS)
    assert outcome.error is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert target.batches == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compression_type", "none"),
        ("compression_gzip_level", 10),
        ("compression_lz4_level", 0),
        ("compression_zstd_level", 23),
    ],
)
def test_other_codecs_and_levels_are_no_settings(name: str, value: str | int) -> None:
    with pytest.raises(InvalidSetting, match=name):
        LogConfig(**{name: value})
