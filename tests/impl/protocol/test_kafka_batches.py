"""Record batches, read and written by ours and by the Java client, values and bytes compared."""

from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from impl.protocol.compression import Compression
from impl.protocol.control_records import ControlType, EndTransactionMarker, marker_batch
from impl.protocol.record_batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    Record,
    RecordBatch,
    decode_batch,
    decode_batches,
    encode_batch,
)
from tests.impl.protocol.kafka_clients import KafkaBatches
from tests.impl.protocol.wire_batches import as_pairs, client_batches, stored_batches

pytestmark = pytest.mark.slow  # Java


@pytest.fixture(scope="module")
def client() -> Iterator[KafkaBatches]:
    started = KafkaBatches()
    yield started
    started.close()


def raw(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def in_java(batch: RecordBatch, record: Record) -> dict[str, Any]:
    """How Java shows a record; a broker's time stands in the batch."""
    offset_delta, timestamp, key, value, pairs = as_pairs(record)
    stamped = batch.attributes & LOG_APPEND_TIME
    return {
        "offset": batch.base_offset + offset_delta,
        "timestamp": batch.max_timestamp if stamped else timestamp,
        "key": key,
        "value": value,
        "headers": [list(pair) for pair in pairs],
    }


def shown(record: dict[str, Any]) -> dict[str, Any]:
    headers = [[key, raw(value)] for key, value in record["headers"]]
    return {
        **record,
        "key": raw(record["key"]),
        "value": raw(record["value"]),
        "headers": headers,
    }


@settings(max_examples=150)
@given(st.lists(stored_batches(), min_size=1, max_size=2))
def test_java_reads_what_we_write(client: KafkaBatches, batches: list[RecordBatch]) -> None:
    data = b"".join(map(encode_batch, batches))
    assert decode_batches(data) == batches
    found = client.read(data)
    assert "error" not in found
    for theirs, batch in zip(found["batches"], batches, strict=True):
        records = theirs.pop("records")
        assert theirs == {
            "base_offset": batch.base_offset,
            "partition_leader_epoch": batch.partition_leader_epoch,
            "last_offset": batch.last_offset,
            "base_timestamp": batch.base_timestamp,
            "max_timestamp": batch.max_timestamp,
            "producer_id": batch.producer_id,
            "producer_epoch": batch.producer_epoch,
            "base_sequence": batch.base_sequence,
            "last_sequence": batch.last_sequence,
            "compression": batch.compression,
            "is_transactional": batch.is_transactional,
            "is_control": False,
            "is_log_append_time": bool(batch.attributes & LOG_APPEND_TIME),
        }
        assert list(map(shown, records)) == [in_java(batch, record) for record in batch.records]


def described(batch: RecordBatch) -> dict[str, Any]:
    """What `KafkaBatches.java` needs to write the same."""
    return {
        "compression": batch.compression,
        "base_offset": batch.base_offset,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "is_transactional": batch.is_transactional,
        "partition_leader_epoch": batch.partition_leader_epoch,
        "records": [in_java(batch, record) for record in batch.records],
    }


@settings(max_examples=150)
@given(client_batches(), st.sampled_from(Compression))
def test_we_read_what_java_writes(
    client: KafkaBatches, batch: RecordBatch, codec: Compression
) -> None:
    batch = batch._replace(attributes=batch.attributes | codec)
    found = client.write(described(batch))
    assert "error" not in found
    theirs, ours = b64decode(found["written"]), encode_batch(batch)
    assert decode_batch(theirs) == batch
    if codec == Compression.NONE:
        assert theirs == ours
    else:
        assert theirs[:8] + theirs[12:17] == ours[:8] + ours[12:17]
        assert theirs[21:HEADER_BYTES] == ours[21:HEADER_BYTES]


@settings(max_examples=20)
@given(
    st.sampled_from([ControlType.ABORT, ControlType.COMMIT]),
    st.integers(0, (1 << 31) - 1),
    st.integers(0, 1 << 60),
    st.integers(0, 32767),
    st.integers(0, 1 << 50),
)
def test_markers_are_the_same_bytes(
    client: KafkaBatches, kind: ControlType, epoch: int, pid: int, producer_epoch: int, now_ms: int
) -> None:
    batch = marker_batch(
        EndTransactionMarker(kind, epoch),
        producer_id=pid,
        producer_epoch=producer_epoch,
        timestamp=now_ms,
    )
    marker = {"control_type": kind.name, "coordinator_epoch": epoch}
    written = client.write(described(batch) | marker)
    assert b64decode(written["written"]) == encode_batch(batch)
    (theirs,) = client.read(encode_batch(batch))["batches"]
    assert theirs["is_control"]
    assert theirs["is_transactional"]
    assert {key: theirs["records"][0][key] for key in marker} == marker


def test_java_refuses_what_we_refuse(client: KafkaBatches) -> None:
    good = encode_batch(
        marker_batch(
            EndTransactionMarker(ControlType.COMMIT, 5),
            producer_id=1,
            producer_epoch=0,
            timestamp=0,
        )
    )
    assert "CorruptRecordException" in client.read(good[:-1] + b"\1")["error"]
