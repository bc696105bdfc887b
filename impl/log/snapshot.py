"""The producer snapshot: a partition's producer state in a file.

Three rules:

1. The bytes are Kafka's: brokers read these files, and the other way round.
2. A producer has one batch: its last. The other four of a leader's memory are lost on restart.
3. A snapshot loads completely or not at all (`CorruptSnapshot`); its CRC is checked first.

Theory of operation: version, CRC-32C of the rest, a count, 46 bytes an entry. The offset up to
which the snapshot holds is only in the file's name. Offsets and sequences are -1 for none.
Source: `ProducerStateManager.writeSnapshot` and `readSnapshot`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from impl.protocol.crc32c import crc32c
from impl.protocol.errors import CorruptSnapshot

SNAPSHOT_VERSION: Final = 1

_NAME: Final = re.compile(r"([0-9]{20})\.snapshot")
_HEAD: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")


class SnapshotEntry(NamedTuple):
    """One producer. `last_offset` is -1 without a batch."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


def snapshot_name(offset: int) -> str:
    """The file name of the snapshot of the log below `offset`."""
    return f"{offset:020d}.snapshot"


def snapshot_offset(name: str) -> int | None:
    """The offset in a snapshot's file name, None for other files."""
    match = _NAME.fullmatch(name)
    return None if match is None else int(match[1])


def encode_snapshot(entries: Iterable[SnapshotEntry]) -> bytes:
    """The file's bytes, entries in the order given."""
    packed = [_ENTRY.pack(*entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEAD.pack(SNAPSHOT_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[SnapshotEntry]:
    """The entries of a snapshot file. Raises `CorruptSnapshot`."""
    least = _HEAD.size + _COUNT.size
    if len(data) < least:
        raise CorruptSnapshot(f"a snapshot has at least {least} bytes", len(data))
    version, crc = _HEAD.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise CorruptSnapshot(f"a snapshot has version {version}", 0)
    if crc32c(data[_HEAD.size :]) != crc:
        raise CorruptSnapshot(f"a snapshot carries crc {crc:08x}", 2)
    (count,) = _COUNT.unpack_from(data, _HEAD.size)
    if len(data) != least + count * _ENTRY.size:
        raise CorruptSnapshot(f"a snapshot announces {count} entries", _HEAD.size)
    return [SnapshotEntry._make(row) for row in _ENTRY.iter_unpack(data[least:])]
