"""Records whose bytes almost fit another reading: what is fast must not take them for it."""

from typing import Any

import pytest

from impl.protocol.errors import InvalidField, InvalidRecord
from impl.protocol.record_batch import (
    HEADER_BYTES,
    Record,
    RecordBatch,
    assemble_batch,
    decode_batch,
    encode_batch,
    encode_record,
    restamp_batch,
)

PLAIN = "0e 00 00 00 01 02 56 00"
"""Offset 0, the base timestamp, no key, value V."""


def read(*records: str, base_timestamp: int = 0) -> tuple[Record, ...]:
    parts = [bytes.fromhex(record) for record in records]
    return decode_batch(
        assemble_batch(parts, base_timestamp=base_timestamp, max_timestamp=0)
    ).records


def test_a_plain_record() -> None:
    assert read(PLAIN) == (Record(0, 0, None, b"V"),)


def test_an_offset_of_two_bytes_among_those_of_one() -> None:
    """With one byte for the offset, the key would be K."""
    assert read("10 00 00 85 02 4b 02 56 00") == (Record(-131, 0, None, b"V"),)


def test_a_timestamp_of_one_byte_among_those_of_two() -> None:
    """With two bytes for the timestamp, the key would be empty."""
    two = "10 00 80 01 00 01 02 56 00"
    tricky = "10 00 02 04 02 00 02 56 00"
    assert read(two, two, tricky) == (
        Record(0, 64, None, b"V"),
        Record(0, 64, None, b"V"),
        Record(2, 1, b"\0", b"V"),
    )


def test_a_timestamp_of_two_bytes_among_those_of_three() -> None:
    """With three bytes for the timestamp, the key would be empty."""
    three = "12 00 80 80 01 00 01 02 56 00"
    tricky = "12 00 80 01 04 02 00 02 56 00"
    assert read(three, three, tricky) == (
        Record(0, 8192, None, b"V"),
        Record(0, 8192, None, b"V"),
        Record(2, 64, b"\0", b"V"),
    )


EDGES = (-(1 << 31), -8193, -8192, -64, -1, 0, 63, 64, 8191, 8192, (1 << 31) - 1)
"""Where a number takes one byte more, and where tables end."""


@pytest.mark.parametrize("timestamp", EDGES)
@pytest.mark.parametrize("offset_delta", EDGES)
def test_numbers_are_read_as_they_were_written(offset_delta: int, timestamp: int) -> None:
    record = Record(offset_delta, timestamp, b"k", b"v")
    batch = RecordBatch((record,), base_timestamp=0)
    assert decode_batch(encode_batch(batch)) == batch


@pytest.mark.parametrize("size", [0, 1, 63, 64, 127, 128, 8191, 8192])
def test_sizes_are_read_as_they_were_written(size: int) -> None:
    field, name = bytes(size), "n" * size
    for headers in ((), ((name, field), ("a", None)), (("a", field), (name, b""))):
        record = Record(0, 0, field, field, headers)
        batch = RecordBatch((record, record), base_timestamp=0)
        assert decode_batch(encode_batch(batch)) == batch


def test_a_repeated_header_is_written_like_the_first_one() -> None:
    first = encode_record(0, 0, None, None, [("seen before", b"x")])
    assert first == encode_record(0, 0, None, None, [("seen before", b"x")])
    assert first.endswith(b"\x02\x16seen before\x02x")


UNWRITABLE: dict[str, dict[str, Any]] = {
    "an empty text for a key": {"key": ""},
    "a text for a value": {"value": "text"},
    "a text in a header": {"headers": [("a", "text")]},
    "no name of a header": {"headers": [(None, b"")]},
    "a name that is bytes": {"headers": [(b"a", b"")]},
    "a timestamp beyond int64": {"timestamp_delta": 1 << 63},
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_what_no_record_can_have_is_named(name: str) -> None:
    encode_record(0, 0, b"k", b"v", [("a", b"seen before")])
    fields = {"timestamp_delta": 0, "key": b"k", "value": b"v"} | UNWRITABLE[name]
    with pytest.raises(InvalidField, match=r"^record 7: "):
        encode_record(7, **fields)


@pytest.mark.parametrize("headers", [(), [("a", None)]])
@pytest.mark.parametrize("value", [None, b"", b"v"])
@pytest.mark.parametrize("key", [None, b"", b"k"])
def test_null_is_not_empty(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    assert read(encode_record(0, 0, key, value, headers).hex()) == (
        Record(0, 0, key, value, tuple(headers)),
    )


WRONG = {
    "a size of -8 before 7 bytes": ("0f 00 00 00 01 02 56 00", 0),
    "a size of -65 before 64 bytes": ("81 01 00 00 00 01 74" + "56" * 58 + "00", 0),
    "a null header key": ("14 00 00 00 01 02 56 02 01 02 58", 8),
    "-1 headers": ("0e 00 00 00 01 02 56 01", 8),
    "a value of -65 bytes before 64": ("8e 01 00 00 00 01 81 01 00" + "56" * 63 + "00", 0),
}
"""The record, and where in it the error is."""


@pytest.mark.parametrize("name", WRONG)
def test_what_adds_up_but_is_negative_is_named(name: str) -> None:
    wrong, place = WRONG[name]
    for before in ([], [PLAIN]):
        with pytest.raises(InvalidRecord) as caught:
            read(*before, wrong)
        assert caught.value.offset == HEADER_BYTES + 8 * len(before) + place


def test_a_null_of_two_bytes_is_null() -> None:
    assert read("0e 00 00 00 01 81 01 00") == (Record(0, 0, None, None),)


@pytest.mark.parametrize(("delta", "timestamp"), [("02", -(1 << 63)), ("01", (1 << 63) - 2)])
def test_timestamps_wrap_as_java_longs(delta: str, timestamp: int) -> None:
    """`DefaultRecord.readFrom` adds without a look at the sum."""
    (record,) = read(f"0e 00 {delta} 00 01 02 56 00", base_timestamp=(1 << 63) - 1)
    assert record.timestamp == timestamp


def test_a_record_that_is_longer_than_its_batch_is_named_where_it_begins() -> None:
    with pytest.raises(InvalidRecord, match="announces 8 bytes") as caught:
        read(PLAIN, "10 00 00 00 01 02 56 00")
    assert caught.value.offset == HEADER_BYTES + 8


def test_a_batch_of_minus_one_records_is_named() -> None:
    empty = bytearray(assemble_batch([], base_timestamp=0, max_timestamp=0))
    empty[57:61] = b"\xff" * 4
    with pytest.raises(InvalidRecord, match="-1 records"):
        decode_batch(restamp_batch(bytes(empty), 0, 0))
