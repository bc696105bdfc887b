"""Control records: golden bytes, other versions and types, damage."""

import pytest

from impl.protocol.control_records import (
    ControlType,
    EndTransactionMarker,
    control_type,
    marker_batch,
    read_marker,
)
from impl.protocol.errors import InvalidField, InvalidRecord
from impl.protocol.record_batch import Record, decode_batch, encode_batch

GOLDEN = {
    ControlType.COMMIT: (
        "0000000000000000 00000042 ffffffff 02 6eb21b54 0030 00000000 0000000000000000"
        "0000000000000000 00000000000003e8 0000 ffffffff 00000001 20 00 00 00 08 00000001"
        "0c 000000000005 00"
    ),
    ControlType.ABORT: (
        "0000000000000000 00000042 ffffffff 02 9a8ccd1c 0030 00000000 0000000000000000"
        "0000000000000000 00000000000003e8 0000 ffffffff 00000001 20 00 00 00 08 00000000"
        "0c 000000000005 00"
    ),
}


@pytest.mark.parametrize("kind", GOLDEN)
def test_markers_have_the_golden_bytes(kind: ControlType) -> None:
    marker = EndTransactionMarker(kind, coordinator_epoch=5)
    batch = marker_batch(marker, producer_id=1000, producer_epoch=0, timestamp=0)
    golden = bytes.fromhex(GOLDEN[kind])
    assert len(golden) == 78
    assert encode_batch(batch) == golden
    read = decode_batch(golden)
    assert read == batch
    assert read.is_control
    assert read.is_transactional
    assert read_marker(read.records[0]) == marker


def control(key: str | None, value: str | None = "000000000005") -> Record:
    key_bytes = None if key is None else bytes.fromhex(key)
    return Record(0, 0, key_bytes, None if value is None else bytes.fromhex(value))


def test_a_higher_version_is_read_like_the_lowest() -> None:
    newer = control("0007 0001 ff", "0003 00000009 ffff")
    assert read_marker(newer) == EndTransactionMarker(ControlType.COMMIT, 9)


@pytest.mark.parametrize("number", [2, 3, 4, 5, 6, 7, 300, -1])
def test_other_types_are_no_markers(number: int) -> None:
    record = control("0000" + number.to_bytes(2, "big", signed=True).hex(), None)
    assert control_type(record) == number
    assert read_marker(record) is None


@pytest.mark.parametrize(
    "record",
    [
        control(None),
        control("000000"),
        control("ffff 0001"),
        control("00000001", None),
        control("00000001", "0000000000"),
        control("00000001", "ffff 00000005"),
    ],
    ids=["no key", "short key", "key version", "no value", "short value", "value version"],
)
def test_damage_is_named_with_its_offset(record: Record) -> None:
    with pytest.raises(InvalidRecord) as caught:
        read_marker(record, offset=61)
    assert caught.value.offset == 61


def test_an_epoch_that_does_not_fit_is_named() -> None:
    marker = EndTransactionMarker(ControlType.ABORT, 1 << 31)
    with pytest.raises(InvalidField, match="marker"):
        marker_batch(marker, producer_id=1, producer_epoch=0, timestamp=0)
