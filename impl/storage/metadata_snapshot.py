"""Snapshots of a metadata log: what a real broker keeps in place of the records before an offset.

Four rules:

1. A snapshot is the file `END-EPOCH.checkpoint` beside the segments, END the first offset that it
   does not cover. The newest one and the log from its END on are all of the metadata.
2. A snapshot is whole: it begins with a header, ends with a footer, and each CRC is right.
3. A directory that was formatted, and whose broker has not run yet, has `bootstrap.checkpoint`,
   and perhaps a snapshot of nothing, which ends at 0 and names the controllers that vote.
4. A log that begins behind 0 without a snapshot, or behind its snapshot's end, or that ends before
   it, is incomplete. Nothing is served then, because topics, ids and access would be missing.

Sources: `Snapshots`, `RecordsSnapshotReader`, `RecordsBatchReader`, `KafkaMetadataLog`,
`BootstrapDirectory`; KIP-630, KIP-853.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from impl.log.disk import UNFINISHED, Disk
from impl.protocol.control_records import ControlType, control_type
from impl.protocol.errors import DecodeError
from impl.protocol.record_batch import CONTROL, RecordBatch, check_crc, decode_batch, read_headers
from impl.storage.damaged_files import IncompleteMetadata, explain, path_of
from impl.storage.partition_files import PARTITION_METADATA
from impl.storage.segment_swap import SEGMENT, segment_path

_SNAPSHOT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class MetadataSnapshot(NamedTuple):
    """The metadata before `end_offset`: `values` of records, as they stand in the log."""

    name: str
    end_offset: int
    values: tuple[bytes, ...]


BOOTSTRAP: Final = "bootstrap.checkpoint"
"""What `kafka-storage format` writes: features, and users if it was told some."""

NO_SNAPSHOT: Final = MetadataSnapshot("", 0, ())


def read_newest_snapshot(disk: Disk, folder: str) -> MetadataSnapshot:
    """The newest snapshot in a folder, `NO_SNAPSHOT` if there are none.

    Raises `IncompleteMetadata` if it is damaged, `OSError`.
    """
    found = [match for name in disk.list(folder) if (match := _SNAPSHOT.fullmatch(name))]
    if not found:
        return NO_SNAPSHOT
    newest = max(found, key=lambda match: (int(match[1]), int(match[2])))
    values = _read_file(disk, f"{folder}/{newest[0]}")
    return MetadataSnapshot(newest[0], int(newest[1]), values)


def read_bootstrap(disk: Disk) -> tuple[bytes, ...]:
    """The values of the records with which a formatted directory begins, none without the file.

    Raises `IncompleteMetadata`, `OSError`.
    """
    return _read_file(disk, BOOTSTRAP) if BOOTSTRAP in disk.list("") else ()


def _read_file(disk: Disk, path: str) -> tuple[bytes, ...]:
    try:
        return _read_values(disk.read(path))
    except DecodeError as error:
        raise IncompleteMetadata(path_of(disk, path), explain(error), error.offset) from error


def prepare_folder(disk: Disk, folder: str) -> None:
    """Begin the log of a directory that was formatted, beside its snapshot of nothing.

    Raises `IncompleteMetadata` for any other log without a segment, unless a crash has left the
    folder before its first one; `OSError`.
    """
    names = {name for name in disk.list(folder) if not name.endswith(UNFINISHED)}
    left = names - {PARTITION_METADATA}
    if not left or any(map(SEGMENT.fullmatch, names)):
        return
    if not all((match := _SNAPSHOT.fullmatch(name)) and int(match[1]) == 0 for name in left):
        raise IncompleteMetadata(path_of(disk, folder), "it has no segment")
    disk.append(segment_path(folder, 0, ".log"), b"")
    disk.flush_folder(folder)


def check_continuation(
    disk: Disk, folder: str, snapshot: MetadataSnapshot, start: int, end: int
) -> None:
    """Raises `IncompleteMetadata` unless the log from `start` to `end` goes on where the snapshot
    ends."""
    covered = snapshot.end_offset
    if start > covered:
        what = f"{snapshot.name} ends before it" if snapshot.name else "there is no checkpoint"
        problem = f"the log begins at offset {start}, and {what}"
    elif end < covered:
        problem = f"the log ends at offset {end}, before {snapshot.name}"
    else:
        return
    raise IncompleteMetadata(path_of(disk, folder), problem)


def _read_values(data: bytes) -> tuple[bytes, ...]:
    """The values of a whole snapshot's records. Raises `DecodeError`."""
    batches = []
    for position, header in read_headers(data):
        check_crc(data, header, position)
        batches.append(decode_batch(data, position))
    ends = [_control_type_at(batches, position) for position in (0, -1)]
    if ends != [ControlType.SNAPSHOT_HEADER, ControlType.SNAPSHOT_FOOTER]:
        raise DecodeError("it has no header, or no footer", len(data))
    plain = (batch for batch in batches if not batch.attributes & CONTROL)
    return tuple(row.value or b"" for batch in plain for row in batch.records)


def _control_type_at(batches: Sequence[RecordBatch], position: int) -> int | None:
    """The type of the control record at an end of a snapshot."""
    if not batches or not batches[position].attributes & CONTROL:
        return None
    return control_type(batches[position].records[position])
