"""Segments as they are: whole, cut, damaged, allocated in advance, of older formats, with
markers."""

import random
import struct
import zlib

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


def old(offset):
    """A message of format 1: its checksum stands where format 2 has the leader epoch."""
    body = bytes([1, 0]) + struct.pack(">qi", 5, -1) + struct.pack(">i", 5) + b"value"
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def test_batches_of_older_formats_are_counted():
    segment = read_batches(old(0) + data(1))
    assert (list(segment.rows["base_offset"]), segment.older_batches) == ([1], 1)
    assert segment.corrupt == ()


@pytest.mark.parametrize("magic", [0, 1, 3, 127])
def test_a_wrong_magic_is_no_older_format(magic):
    changed = bytearray(data(1))
    changed[16] = magic
    segment = read_batches(data(0) + bytes(changed) + data(2))
    assert list(segment.rows["base_offset"]) == [0, 2]
    assert (segment.corrupt, segment.older_batches) == (((1, len(data(0))),), 0)


@pytest.mark.parametrize("place", [8, 9, 10])
def test_a_length_that_has_changed_is_no_tail(place):
    """Batches behind it show that the file does not end there."""
    whole, changed = data(0), bytearray(data(1))
    changed[place] ^= 0x40
    for behind, is_damaged in ((data(2) + data(3), True), (data(2)[:-1], False), (b"", False)):
        segment = read_batches(whole + bytes(changed) + behind)
        assert list(segment.rows["base_offset"]) == [0]
        found = (segment.damaged_at, segment.torn_off_at)
        assert found == ((len(whole), None) if is_damaged else (None, len(whole)))


def test_a_tail_that_is_no_batch_is_damage():
    noise = random.Random(1).randbytes(3_000)
    segment = read_batches(data(0) + b"\0\0" + noise)
    assert (segment.damaged_at, segment.torn_off_at) == (len(data(0)), None)
