"""Records of members of consumer groups, as 4.3.1 has written them."""

from __future__ import annotations

import pytest

from impl.coordinator.consumer_group import ConsumerGroup
from impl.coordinator.consumer_group_records import (
    decode_consumer_group_record,
    encode_group_record,
)

KEY = bytes.fromhex("00050001670016") + b"wwNFprdKQXWnYzMVYIj3Mw"
_FIELDS = bytes.fromhex("00000000") + b"\x0akafka-eos" + b"\x0b/127.0.0.1"
_FIELDS += bytes.fromhex("02027401000493e000")
WITHOUT = _FIELDS + bytes.fromhex("01000100")
"""A tag whose struct is null: one byte, an unsigned 0."""
OURS_AT_FIRST = _FIELDS + bytes.fromhex("00")
"""No tag, which is a new struct to Kafka. Our broker meant none."""
PROTOCOL = b"\x06range\x03ab\x00"
CLASSIC = b"\x01" + bytes.fromhex("0000afc8") + b"\x02" + PROTOCOL + b"\x00"
WITH = _FIELDS + b"\x01\x00" + bytes([len(CLASSIC)]) + CLASSIC


@pytest.mark.parametrize("value", [WITHOUT, WITH])
def test_a_member_is_read_and_written_as_kafka_writes_it(value: bytes) -> None:
    found = decode_consumer_group_record(KEY, value)
    assert found is not None
    group_id, record = found
    assert encode_group_record(group_id, record) == (KEY, value)


@pytest.mark.parametrize(
    ("value", "protocols"), [(WITHOUT, None), (OURS_AT_FIRST, None), (WITH, (("range", b"ab"),))]
)
def test_only_a_member_with_protocols_is_a_classic_one(
    value: bytes, protocols: tuple[tuple[str, bytes], ...] | None
) -> None:
    found = decode_consumer_group_record(KEY, value)
    assert found is not None
    group = ConsumerGroup("g")
    group.apply(found[1])
    [member] = group.members.values()
    assert (member.classic and member.classic.protocols) == protocols
