"""Segments as they are: whole, cut, damaged, allocated in advance, of older formats, with
markers."""

import pytest

from conformance.audit.headers import read_batches
from impl.protocol.control_records import ControlType, EndTransactionMarker, marker_batch
from impl.protocol.record_batch import CONTROL, Record, RecordBatch, encode_batch

MARKER = marker_batch(
    EndTransactionMarker(ControlType.COMMIT, 7), producer_id=3, producer_epoch=2, timestamp=5
)


def data(offset, **more):
    record = Record(0, 1, None, b"value")
    return encode_batch(RecordBatch((record,), offset, base_timestamp=1, max_timestamp=1, **more))


def test_what_a_header_says():
    batch = data(4, producer_id=9, producer_epoch=1, base_sequence=8)
    [row] = read_batches(batch + b"").rows
    assert (row["base_offset"], row["producer_id"], row["producer_epoch"]) == (4, 9, 1)
    assert (row["base_sequence"], row["record_count"], row["control_type"]) == (8, 1, -1)


def test_markers_of_the_usual_and_of_another_form():
    usual, unusual = MARKER, MARKER.records[0]._replace(value=MARKER.records[0].value + b"more")
    other = MARKER._replace(records=(unusual,), base_offset=1)
    leader_change = MARKER.records[0]._replace(key=b"\0\0\0\2")
    neither = MARKER._replace(records=(leader_change,), base_offset=2, attributes=CONTROL)
    rows = read_batches(b"".join(map(encode_batch, (usual, other, neither)))).rows
    assert list(rows["control_type"]) == [1, 1, -1]
    assert list(rows["coordinator_epoch"]) == [7, 7, -1]


@pytest.mark.parametrize("kept", [1, 11, 30, 70])
def test_a_batch_that_the_file_cuts(kept):
    whole = data(0)
    segment = read_batches(whole + data(1)[:kept])
    assert (len(segment.rows), segment.torn_off_at, segment.damaged_at) == (1, len(whole), None)


def test_what_is_no_batch():
    whole = data(0)
    segment = read_batches(whole + bytes(8) + b"\xff" * 80)
    assert (len(segment.rows), segment.damaged_at) == (1, len(whole))


def test_bytes_that_were_allocated_in_advance():
    segment = read_batches(data(0) + bytes(4096))
    assert (len(segment.rows), segment.torn_off_at, segment.damaged_at) == (1, None, None)


def test_a_wrong_checksum_takes_the_batch_out():
    whole = data(0)
    segment = read_batches(data(0) + data(1)[:-1] + b"?" + data(2))
    assert list(segment.rows["base_offset"]) == [0, 2]
    assert segment.corrupt == ((1, len(whole)),)


def test_batches_of_older_formats_are_counted():
    old = bytearray(data(0))
    old[16] = 1
    segment = read_batches(bytes(old) + data(1))
    assert (list(segment.rows["base_offset"]), segment.older_batches) == ([1], 1)
