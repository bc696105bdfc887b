"""Control records: the ends of transactions in a log.

Two rules:

1. A higher version is read like version 0, its extra bytes ignored; a negative one is corrupt.
2. An unknown type is not an error: consumers skip such records.

Theory of operation: a control batch holds one record whose key is a version and a type. A marker is
one whose type is ABORT or COMMIT; its value is a version and the epoch of the coordinator that
ended the transaction.
Sources: `ControlRecordType`, `EndTransactionMarker`, `MemoryRecords.withEndTransactionMarker`.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from impl.protocol.errors import InvalidField, InvalidRecord
from impl.protocol.record_batch import CONTROL, TRANSACTIONAL, Record, RecordBatch

_KEY: Final = Struct(">hh")
_MARKER: Final = Struct(">hi")


class ControlType(IntEnum):
    """The types of control records. Source: `ControlRecordType`."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTransactionMarker(NamedTuple):
    """How a transaction ended, and the epoch of its coordinator."""

    control_type: ControlType
    coordinator_epoch: int


def marker_batch(
    marker: EndTransactionMarker, *, producer_id: int, producer_epoch: int, timestamp: int
) -> RecordBatch:
    """The control batch that writes `marker`, without sequence. Raises `InvalidField`."""
    try:
        key = _KEY.pack(0, marker.control_type)
        value = _MARKER.pack(0, marker.coordinator_epoch)
    except StructError as error:
        raise InvalidField(str(error), "marker") from error
    return RecordBatch(
        records=(Record(0, timestamp, key, value),),
        attributes=TRANSACTIONAL | CONTROL,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def control_type(record: Record, offset: int = 0) -> int:
    """The type of a control record, a `ControlType` or not; `offset` is for the error.

    Raises `InvalidRecord`. `ControlRecordType.parseTypeId`.
    """
    key = record.key or b""
    if len(key) < _KEY.size:
        raise InvalidRecord(f"the key of a control record has {len(key)} bytes", offset)
    version: int
    number: int
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecord(f"a control record has version {version}", offset)
    return number


def read_marker(record: Record, offset: int = 0) -> EndTransactionMarker | None:
    """The marker in a control record, None if it is of another type; `offset` is for the error.

    Raises `InvalidRecord`. `EndTransactionMarker.deserialize`.
    """
    number = control_type(record, offset)
    if number not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    value = record.value or b""
    if len(value) < _MARKER.size:
        raise InvalidRecord(f"the value of a marker has {len(value)} bytes", offset)
    version, coordinator_epoch = _MARKER.unpack_from(value)
    if version < 0:
        raise InvalidRecord(f"a marker has version {version}", offset)
    return EndTransactionMarker(ControlType(number), coordinator_epoch)
