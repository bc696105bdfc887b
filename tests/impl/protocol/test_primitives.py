"""Variable-length integers, tags, frames, checksums."""

import importlib
import sys
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impl.protocol import crc32c as crc_module
from impl.protocol import primitives
from impl.protocol.crc32c import (
    crc32c,
    crc32c_in_python,
    extend_crc32c,
    extend_crc32c_in_python,
)
from impl.protocol.errors import FrameTooLarge, InvalidVarint, TruncatedFrame
from impl.protocol.primitives import (
    MAX_FRAME_BYTES,
    UVARINT,
    VARINT,
    decode_uvarint,
    decode_varint,
    decode_varlong,
    frame,
    take_frames,
)

ZIG_ZAG = {
    0: "00",
    -1: "01",
    1: "02",
    -2: "03",
    63: "7e",
    64: "8001",
    300: "d804",
    2147483647: "feffffff0f",
    -2147483648: "ffffffff0f",
}


@pytest.mark.parametrize("number", ZIG_ZAG)
def test_zig_zag_golden_bytes(number: int) -> None:
    encoded = bytes.fromhex(ZIG_ZAG[number])
    assert VARINT[number] == encoded
    assert decode_varint(encoded, 0) == (number, len(encoded))


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_varlongs_return(number: int) -> None:
    encoded = VARINT[number]
    assert len(encoded) <= 10
    assert decode_varlong(b"?" + encoded, 1) == (number, 1 + len(encoded))


@given(st.integers(0, (1 << 32) - 1))
def test_unsigned_varints_return(number: int) -> None:
    encoded = UVARINT[number]
    assert len(encoded) <= 5
    assert decode_uvarint(encoded, 0) == (number, len(encoded))


def test_the_memo_of_varints_is_bounded() -> None:
    for number in range(0, 1 << 20, 7):
        assert UVARINT[number]
    assert len(UVARINT) <= 1 << 14


@pytest.mark.parametrize(
    ("decode", "longest"), [(decode_uvarint, 5), (decode_varint, 5), (decode_varlong, 10)]
)
def test_overlong_varints_are_named(decode, longest: int) -> None:
    with pytest.raises(InvalidVarint):
        decode(b"\x80" * longest + b"\x01", 0)
    with pytest.raises(InvalidVarint):
        decode(b"\xff" * (longest - 1) + b"\x7f", 0)
    with pytest.raises(TruncatedFrame):
        decode(b"\x80" * (longest - 1), 0)


@given(st.lists(st.binary(max_size=20), max_size=5), st.data())
def test_frames_come_out_however_they_arrive(payloads: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(frame(payload) for payload in payloads)
    buffer, taken, position = bytearray(), [], 0
    while position < len(stream):
        size = data.draw(st.integers(1, 9))
        buffer += stream[position : position + size]
        position += size
        taken += take_frames(buffer)
    assert taken == payloads
    assert buffer == b""


@pytest.mark.parametrize("size", [-1, MAX_FRAME_BYTES + 1, 0x7FFFFFFF])
def test_a_size_beyond_the_limit_is_refused_and_nothing_taken(size: int) -> None:
    buffer = bytearray(frame(b"ok") + size.to_bytes(4, "big", signed=True))
    before = bytes(buffer)
    with pytest.raises(FrameTooLarge):
        take_frames(buffer)
    assert buffer == before


def test_a_payload_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(primitives, "MAX_FRAME_BYTES", 10)
    with pytest.raises(FrameTooLarge):
        frame(bytes(11))


def test_crc_check_value() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c_in_python(b"123456789") == 0xE3069283


@given(st.binary(max_size=64), st.integers(0, 64))
def test_both_checksums_agree(data: bytes, place: int) -> None:
    whole = crc32c_in_python(data)
    assert crc32c(data) == whole
    for extend in (extend_crc32c, extend_crc32c_in_python):
        assert extend(crc32c(data[:place]), data[place:]) == whole


def test_without_the_compiled_checksum_there_is_one_warning() -> None:
    kept = sys.modules.get("google_crc32c")
    sys.modules["google_crc32c"] = None  # type: ignore[assignment]
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            slow = importlib.reload(crc_module)
            assert slow.crc32c(b"123456789") == 0xE3069283
            assert slow.extend_crc32c(slow.crc32c(b"1234"), b"56789") == 0xE3069283
        assert [warning.category for warning in caught] == [RuntimeWarning]
    finally:
        sys.modules["google_crc32c"] = kept  # type: ignore[assignment]
        importlib.reload(crc_module)
