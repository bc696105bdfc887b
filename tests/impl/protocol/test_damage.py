"""Damaged frames and batches: only named errors come out, each at a byte of what was read."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from impl.protocol import records as records_module
from impl.protocol.compression import MAX_DECOMPRESSED_BYTES, Compression
from impl.protocol.control_records import control_type, read_marker
from impl.protocol.errors import DecodeError, DecompressedTooLarge, FrameTooLarge, InvalidRecord
from impl.protocol.messages import decode_request
from impl.protocol.primitives import frame, take_frames
from impl.protocol.record_batch import (
    HEADER_BYTES,
    Record,
    RecordBatch,
    assemble_batch,
    client_batch,
    decode_batch,
    decode_batches,
    encode_batch,
    read_header,
    read_headers,
    restamp_batch,
    scan_records,
    scan_timestamps,
)
from tests.impl.protocol.damage import spoil
from tests.impl.protocol.wire_batches import stored_batches
from tests.impl.protocol.wire_messages import FORMS, Form, bodies, decode, encode

pytestmark = pytest.mark.slow  # thousands of generated steps


def check(error: DecodeError, size: int) -> None:
    assert type(error) is not DecodeError
    assert 0 <= error.offset <= size
    assert error.advice in str(error)


def read_or_named(read: Callable[[bytes], Any], damaged: bytes) -> Any:
    """What is read, or None after an error with a name, a place in the data and advice."""
    try:
        return read(damaged)
    except DecodeError as error:
        check(error, len(damaged))
    return None


@settings(max_examples=600)
@given(st.data())
def test_a_damaged_message_is_read_or_named(data: st.DataObject) -> None:
    form: Form = data.draw(st.sampled_from(FORMS))
    damaged = spoil(data, encode(form, data.draw(bodies(form))))
    read_or_named(lambda payload: decode(form, payload), damaged)
    read_or_named(decode_request, damaged)


def everything(data: bytes) -> None:
    for offset, header in read_headers(data):
        scan_timestamps(data, header, offset)
        scan_records(data, header, offset)
    decode_batches(data)


@settings(max_examples=200)
@given(stored_batches(), st.data())
def test_a_damaged_batch_is_read_or_named(batch: RecordBatch, data: st.DataObject) -> None:
    read_or_named(everything, spoil(data, encode_batch(batch)))


def sealed(data: bytes) -> bytes:
    """A length and a checksum that fit whatever the bytes have become: damage goes deeper."""
    sized = data[:8] + (len(data) - 12).to_bytes(4, "big") + data[12:]
    attributes, top = (
        int.from_bytes(data[i:j], "big", signed=True) for i, j in ((21, 23), (35, 43))
    )
    return restamp_batch(sized, attributes, top)


@settings(max_examples=400)
@given(stored_batches(), st.data())
def test_damage_behind_a_fitting_checksum_is_read_or_named(
    batch: RecordBatch, data: st.DataObject
) -> None:
    damaged = sealed(spoil(data, encode_batch(batch), HEADER_BYTES))
    read_or_named(everything, damaged)


def test_a_record_that_is_cut_off_before_another_is_named_where_the_data_ends() -> None:
    """The next record would begin behind the end."""
    first = Record(offset_delta=0, timestamp=0, key=None, value=b"", headers=(("", b"\0\0"),))
    batch = RecordBatch(
        (first, first._replace(offset_delta=1)), last_offset_delta=1, base_timestamp=0
    )
    whole = encode_batch(batch)
    for size in range(HEADER_BYTES, len(whole)):
        assert read_or_named(everything, sealed(whole[:size])) is None


def byte_by_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """No record is read by the fast path any more."""
    none = records_module._NO_LAYOUT
    monkeypatch.setattr(records_module, "_NARROW", none)
    monkeypatch.setattr(records_module, "_measure", lambda data, position: none)


@settings(max_examples=300)
@given(stored_batches(), st.data(), st.booleans())
def test_the_fast_path_reads_what_is_read_byte_by_byte(
    batch: RecordBatch, data: st.DataObject, is_damaged: bool
) -> None:
    good = encode_batch(batch._replace(attributes=batch.attributes & ~7))
    read = sealed(spoil(data, good, HEADER_BYTES)) if is_damaged else good
    header = read_header(read)
    fast = read_or_named(decode_batch, read), read_or_named(lambda r: scan_records(r, header), read)
    with pytest.MonkeyPatch.context() as monkeypatch:
        byte_by_byte(monkeypatch)
        slow = (
            read_or_named(decode_batch, read),
            read_or_named(lambda r: scan_records(r, header), read),
        )
    assert fast == slow
    assert is_damaged or fast[0] is not None


@pytest.mark.parametrize("step_ms", [0, 1, 700, 10**6, -1])
def test_typical_records_take_the_fast_path(step_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for those where a width changes, and the one after."""
    seen: list[int] = []
    slow = records_module._read_record

    def count(data: bytes, first: int, *rest: Any) -> Any:
        seen.append(first)
        return slow(data, first, *rest)

    monkeypatch.setattr(records_module, "_read_record", count)
    batch = client_batch(
        [
            Record(index, 10**12 + index * step_ms, b"key-%d" % index, bytes(index % 300))
            for index in range(500)
        ]
    )
    assert decode_batch(encode_batch(batch)) == batch
    assert len(seen) <= 5


@settings(max_examples=100)
@given(st.lists(st.binary(max_size=20), max_size=3), st.data())
def test_damaged_frames_are_taken_or_named(payloads: list[bytes], data: st.DataObject) -> None:
    good = b"".join(len(payload).to_bytes(4, "big") + payload for payload in payloads)
    buffer = bytearray(spoil(data, good))
    before = bytes(buffer)
    try:
        taken = take_frames(buffer)
    except FrameTooLarge as error:
        check(error, len(before))
        taken, buffer = [], bytearray(before)
    assert b"".join(map(frame, taken)) + buffer == before


@given(st.binary(max_size=8) | st.none(), st.binary(max_size=8) | st.none())
def test_any_control_record_is_read_or_named(key: bytes | None, value: bytes | None) -> None:
    record = Record(0, 0, key, value)
    for read in (control_type, read_marker):
        try:
            read(record, 61)
        except DecodeError as error:
            assert error.offset == 61  # noqa: PT017 - it may as well be readable


@pytest.mark.parametrize("codec", [Compression.LZ4, Compression.ZSTD])
def test_a_bomb_in_a_batch_is_named(codec: Compression) -> None:
    zeros = bytes(MAX_DECOMPRESSED_BYTES + 1)
    bomb = assemble_batch([zeros], base_timestamp=0, max_timestamp=0, attributes=codec)
    assert len(bomb) < 1 << 20
    with pytest.raises(DecompressedTooLarge) as caught:
        decode_batch(bomb)
    assert caught.value.offset == HEADER_BYTES


@pytest.mark.parametrize("count", [(1 << 31) - 1, -1, 0, 2])
def test_a_wrong_count_of_records_is_named(count: int) -> None:
    good = encode_batch(client_batch([Record(0, 0, b"k", b"v")]))
    with pytest.raises(InvalidRecord):
        decode_batch(sealed(good[:57] + count.to_bytes(4, "big", signed=True) + good[61:]))
