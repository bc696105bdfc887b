"""Records that are read by columns, or their timestamps: as `read_records`, errors included."""

from collections.abc import Iterator
from random import Random

import pytest

from impl.protocol import record_runs
from impl.protocol.errors import DecodeError
from impl.protocol.record_batch import encode_record
from impl.protocol.record_runs import read_rows, read_timestamps
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


@pytest.fixture(autouse=True)
def forget_shapes() -> Iterator[None]:
    """None is kept from before a bug is planted, or from after."""
    record_runs._shape.cache_clear()
    yield
    record_runs._shape.cache_clear()


def one_by_one(data: bytes, count: int, base_timestamp: int) -> list[object] | str:
    try:
        return read_records(data, 0, len(data), count, base_timestamp, True)
    except DecodeError as error:
        return str(error)


def by_columns(data: bytes, count: int, base_timestamp: int) -> list[object] | str:
    """The records, whose timestamps are found without them, too."""
    arguments = (data, 0, len(data), count, base_timestamp)
    try:
        timestamps = read_timestamps(*arguments)
    except DecodeError:
        timestamps = None
    try:
        found = read_rows(*arguments, True)
    except DecodeError as error:
        assert timestamps is None
        return str(error)
    assert timestamps == {row[1] for row in found}
    return found


@pytest.mark.parametrize("count", [1, 15, 16, 64, 65, 500])
@pytest.mark.parametrize("base_timestamp", [BASE_TIMESTAMP, 2**63 - 2])
def test_records_are_those_of_reading_one_by_one(count: int, base_timestamp: int) -> None:
    for seed in range(6):
        data = block(Random(seed), count)
        found = by_columns(data, count, base_timestamp)
        assert not isinstance(found, str)
        assert found == one_by_one(data, count, base_timestamp)
        for wrong in (-1, count - 1, count + 1):
            refused = by_columns(data, wrong, base_timestamp)
            assert isinstance(refused, str)
            assert refused == one_by_one(data, wrong, base_timestamp)


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
