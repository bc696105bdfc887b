"""The offset records of `__consumer_offsets`: values to bytes and back.

Three rules:

1. Keys are written in version 1; values in version 4 (3 before release 4.1), or in 1 if the commit
   sets an expiry.
2. Values of versions 0 to 4 are read; their topic ids are ignored.
3. A key of another version is another kind of record, and is skipped.

Sources: `GroupCoordinatorRecordHelpers.newOffsetCommitRecord`, `GroupCoordinatorRecordSerde`;
release 4.3.1.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from impl.coordinator.group_config import OFFSET_VALUE_VERSION
from impl.protocol.errors import InvalidRecord, UnknownRecordVersion
from impl.protocol.record_batch import INVALID_OFFSET
from impl.protocol.state_records import decode_record, encode_record

KEY: Final = "OFFSET_COMMIT_KEY"
VALUE: Final = "OFFSET_COMMIT_VALUE"

EXPIRING_VALUE_VERSION: Final = 1
"""The only version with an expiry time; it has no leader epoch."""

NO_LEADER_EPOCH: Final = -1
NO_EXPIRY: Final = -1
NO_METADATA: Final = ""


class OffsetKey(NamedTuple):
    """The group and partition of an offset."""

    group_id: str
    topic: str
    partition: int


class CommittedOffset(NamedTuple):
    """A committed offset; times in ms since the epoch. `OffsetAndMetadata`.

    `record_offset` is that of its record in `__consumer_offsets`, -1 before the append.
    """

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = NO_METADATA
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int = NO_EXPIRY
    record_offset: int = INVALID_OFFSET


def encode_key(key: OffsetKey) -> bytes:
    """The key of an offset's records. Raises `EncodeError`."""
    group, topic, partition = key
    return encode_record(KEY, 1, {"group": group, "topic": topic, "partition": partition})


def decode_key(data: bytes | None) -> OffsetKey | None:
    """The key of a record, None if it is of another kind. Raises `DecodeError`."""
    if data is None:
        raise InvalidRecord("a record of __consumer_offsets has no key", 0)
    return _read_key(data)


@lru_cache(maxsize=1_024)  # a log has the same keys again and again
def _read_key(data: bytes) -> OffsetKey | None:
    try:
        _, body = decode_record(KEY, data)
    except UnknownRecordVersion:
        return None
    return OffsetKey(body["group"], body["topic"], body["partition"])


def encode_value(committed: CommittedOffset, version: int = OFFSET_VALUE_VERSION) -> bytes:
    """The value of an offset's record, in this version unless it has an expiry time.

    Raises `EncodeError`.
    """
    expires = committed.expire_timestamp_ms != NO_EXPIRY
    return encode_record(
        VALUE,
        EXPIRING_VALUE_VERSION if expires else version,
        {
            "offset": committed.offset,
            "leader_epoch": committed.leader_epoch,
            "metadata": committed.metadata,
            "commit_timestamp": committed.commit_timestamp_ms,
            "expire_timestamp": committed.expire_timestamp_ms,
        },
    )


def decode_value(data: bytes, record_offset: int) -> CommittedOffset:
    """The offset in the value of the record at `record_offset`. Raises `DecodeError`."""
    _, body = decode_record(VALUE, data)
    return CommittedOffset(
        body["offset"],
        body["leader_epoch"],
        body["metadata"],
        body["commit_timestamp"],
        body["expire_timestamp"],
        record_offset,
    )
