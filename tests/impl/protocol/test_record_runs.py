"""Timestamps that are read by columns: the same as those of the records, or the same refusal."""

from random import Random

import pytest

from impl.protocol import record_runs
from impl.protocol.errors import DecodeError
from impl.protocol.record_batch import encode_record
from impl.protocol.record_runs import read_timestamps
from impl.protocol.records import read_records

BASE_TIMESTAMP = 1_700_000_000_000


def block(random: Random, count: int) -> bytes:
    """Records that are alike for some hundreds; then widths, sizes and headers change."""
    written, timestamp, key, value = [], 0, None, b""
    for offset_delta in range(count):
        if offset_delta % 150 == 0:
            key = random.choice((None, b"", b"k", b"key" * 30))
            value = random.choice((None, b"", bytes(100), bytes(9000)))
        timestamp += random.choice((0, 0, 0, 0, 1, -1)) if timestamp < 8000 else 1
        timestamp = 8190 if offset_delta == 200 else timestamp
        headers = [("h", b"v")] if offset_delta % 301 == 300 else []
        written.append(encode_record(offset_delta, timestamp, key, value, headers))
    return b"".join(written)


def one_by_one(data: bytes, count: int, base_timestamp: int) -> set[int] | None:
    try:
        records = read_records(data, 0, len(data), count, base_timestamp, False)
    except DecodeError:
        return None
    return {record[1] for record in records}


def by_columns(data: bytes, count: int, base_timestamp: int) -> set[int] | None:
    try:
        return read_timestamps(data, 0, len(data), count, base_timestamp)
    except DecodeError:
        return None


@pytest.mark.parametrize("count", [1, 15, 16, 64, 65, 500])
@pytest.mark.parametrize("base_timestamp", [BASE_TIMESTAMP, 2**63 - 2])
def test_timestamps_are_those_of_the_records(count: int, base_timestamp: int) -> None:
    for seed in range(6):
        data = block(Random(seed), count)
        found = by_columns(data, count, base_timestamp)
        assert found is not None
        assert found == one_by_one(data, count, base_timestamp)
        for wrong in (-1, count - 1, count + 1):
            assert by_columns(data, wrong, base_timestamp) is None


def damage_agrees() -> bool:
    """Whether each changed byte of one record of a run is judged as reading judges it."""
    random = Random(1)
    data = b"".join(encode_record(delta, delta % 70, b"k", bytes(5)) for delta in range(90))
    for _ in range(2000):
        damaged = bytearray(data)
        damaged[random.randrange(len(data))] = random.randrange(256)
        found = bytes(damaged)
        if by_columns(found, 90, 0) != one_by_one(found, 90, 0):
            return False
    return True


def test_a_damaged_run_is_judged_as_its_records_are() -> None:
    assert damage_agrees()


@pytest.mark.parametrize("name", ["_same", "_number"])
def test_a_check_of_columns_that_is_missing_is_found(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_runs, name, lambda *_: [])
    assert not damage_agrees()
