"""Producer snapshots: Kafka's bytes, and damage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impl.log.snapshot import SnapshotEntry, decode_snapshot, encode_snapshot, snapshot_name
from impl.protocol.crc32c import crc32c
from impl.protocol.errors import CorruptSnapshot

GOLDEN = bytes.fromhex(
    "0001 f280cf9e 00000001 00000000000003e8 0000 00000008 0000000000000029 00000001"
    "00000000000003e9 ffffffff 0000000000000028"
)
ENTRY = SnapshotEntry(1000, 0, 8, 41, 1, 1001, -1, 40)


def test_golden_bytes() -> None:
    assert encode_snapshot([ENTRY]) == GOLDEN
    assert decode_snapshot(GOLDEN) == [ENTRY]
    assert encode_snapshot([]) == bytes.fromhex("0001 48674bc7 00000000")
    assert decode_snapshot(encode_snapshot([])) == []


def test_the_name_carries_the_offset() -> None:
    assert snapshot_name(42) == "00000000000000000042.snapshot"


def number(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


entries = st.builds(
    SnapshotEntry,
    *(number(bits) for bits in (64, 16, 32, 64, 32, 64, 32, 64)),
)


@given(st.lists(entries, max_size=5))
def test_what_is_written_is_read_again(rows: list[SnapshotEntry]) -> None:
    assert decode_snapshot(encode_snapshot(rows)) == rows


def test_every_cut_and_every_flipped_bit_is_corrupt() -> None:
    for size in range(len(GOLDEN)):
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(GOLDEN[:size])
    for bit in range(len(GOLDEN) * 8):
        damaged = bytearray(GOLDEN)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(bytes(damaged))


@pytest.mark.parametrize("count", [-1, 0, 2, 2147483647])
def test_a_wrong_count_is_corrupt_even_with_a_right_checksum(count: int) -> None:
    body = count.to_bytes(4, "big", signed=True) + GOLDEN[10:]
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(GOLDEN[:2] + crc32c(body).to_bytes(4, "big") + body)
