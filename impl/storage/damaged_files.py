"""What is wrong with a file of a log directory: which file, where in it, and what to do.

Three rules:

1. Damage that recovery may cut off is reported, and damage that it may not is an error.
2. Both name the file and the offset from which on records are lost, or would be.
3. Messages of formats before 2 are no damage, and are refused: nothing may cut them off.

Sources: `LogLoader.recoverLog`, `LogManager.loadLogs`, `PartitionMetadataFile.read`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import Final
from zlib import crc32

from impl.log.disk import Disk
from impl.partition.errors import OffsetsNotContiguous
from impl.partition.replica_log import MAX_RELATIVE_OFFSET, ReplicaLog
from impl.protocol.errors import CrcMismatch, DecodeError
from impl.protocol.record_batch import (
    LOG_OVERHEAD_BYTES,
    MAGIC_OFFSET,
    LogFile,
    check_crc,
    read_header,
)
from impl.storage.segment_swap import segment_path

_LEGACY_MESSAGE: Final = Struct(">qiIb")
"""Offset, size of what follows it, CRC-32 of what follows that, and the format."""
_LEGACY_LEAST_BYTES: Final = 14
"""CRC, format, attributes, and the lengths of key and value."""


class DamagedFile(DecodeError):
    """A file that no broker writes, and whose loss would not be noticed.

    Restore it, or delete it: it is written anew.
    """

    advice = "restore it, or delete it: it is written anew"

    def __init__(self, path: str, problem: str, offset: int = 0) -> None:
        super().__init__(f"{path}: {problem}", offset)
        self.args = (f"{self.problem}; {self.advice}",)


class DamagedSegment(DamagedFile):
    """Records that were flushed are damaged, so a restart must not cut them off.

    Restore the file, or delete the partition's folder.
    """

    advice = "restore the file, or delete the folder to give up the partition"


class LegacyMessages(DamagedSegment):
    """Messages of a format before 2, as brokers write them that are told so, until 4.0.

    They are not served, and never taken for damage: recovery would cut them off.
    """

    advice = (
        "let its own broker copy the topic to one with message format 2, or delete the folder to"
        " give up the partition"
    )


class IncompleteMetadata(DamagedFile):
    """Topics, ids, settings or access that a directory had are not in what is left of its metadata.

    Restore the files, or give up what they had.
    """

    advice = (
        "restore the files; without them, delete this folder and meta.properties, and topics are"
        " those of the other folders, without settings"
    )


class TopicIdMismatch(DamagedFile):
    """Folders with the name of one topic are of two, and no metadata says which of them is left.

    Move those of the other one away.
    """

    advice = "move the folders of all but one of them away"


class MissingPartitions(DamagedFile):
    """Some partitions of a topic are in another log directory, or on another broker.

    Serving them as empty would lose them.
    """

    advice = "copy the folders here that are in other directories, or of other brokers"


def path_of(disk: Disk, path: str) -> str:
    """A path as users know it."""
    return f"{disk.name}/{path}"


def explain(damage: Exception) -> str:
    """Damage in plain words, without advice for other places where it occurs."""
    if isinstance(damage, CrcMismatch):
        return "its CRC is wrong"
    if isinstance(damage, OffsetsNotContiguous):
        return str(damage.args[0])
    return damage.problem if isinstance(damage, DecodeError) else str(damage)


def name_damage(
    disk: Disk, folder: str, segments: Iterable[int], damage: Exception, limit: str
) -> DamagedSegment:
    """The error for damage that no recovery may cut off; `limit` says why it may not.

    Reads the segments again to find the file and the offset. Raises `OSError`.
    """
    for base in segments:
        path = segment_path(folder, base, ".log")
        data = disk.map(path)
        found = _find_damage(data, base)
        if found is not None:
            offset, position, cause = found
            if is_legacy_message(data, position):
                return _legacy_messages(path_of(disk, path), data, position)
            where = f"the batch at offset {offset} (byte {position}), {limit}, is damaged"
            return DamagedSegment(path_of(disk, path), f"{where}: {explain(cause)}", position)
    return DamagedSegment(path_of(disk, folder), f"cannot be loaded: {explain(damage)}")


def check_formats(disk: Disk, folder: str, segments: Iterable[int]) -> None:
    """Raises `LegacyMessages` for a segment that begins with a message of a format before 2."""
    for base in segments:
        path = segment_path(folder, base, ".log")
        data = disk.map(path)
        if is_legacy_message(data, 0):
            raise _legacy_messages(path_of(disk, path), data, 0)


def check_cut(disk: Disk, folder: str, log: ReplicaLog, segments: Sequence[int]) -> None:
    """Raises `LegacyMessages` if what recovery would cut off begins with such a message."""
    if log.recovery.damage is not None:
        error = name_damage(disk, folder, segments, log.recovery.damage, "")
        if isinstance(error, LegacyMessages):
            raise error


def is_legacy_message(data: LogFile, position: int) -> bool:
    """Whether a whole message of format 0 or 1 begins here. `LegacyRecord.isValid`."""
    if len(data) - position < _LEGACY_MESSAGE.size:
        return False
    offset, size, crc, magic = _LEGACY_MESSAGE.unpack_from(data, position)
    end = position + LOG_OVERHEAD_BYTES + size
    is_whole = offset >= 0 and size >= _LEGACY_LEAST_BYTES and end <= len(data)
    return magic in (0, 1) and is_whole and crc32(data[position + MAGIC_OFFSET : end]) == crc


def _legacy_messages(path: str, data: LogFile, position: int) -> LegacyMessages:
    offset, _, _, magic = _LEGACY_MESSAGE.unpack_from(data, position)
    return LegacyMessages(
        path, f"it has messages of format {magic}, from offset {offset} on", position
    )


def check_end(disk: Disk, folder: str, log: ReplicaLog, recovery_point: int) -> None:
    """Raises `DamagedSegment` for a log that ends before its recovery point: it was flushed."""
    if log.log_end_offset < recovery_point:
        path = path_of(disk, segment_path(folder, log.segments[-1], ".log"))
        problem = f"the log ends at offset {log.log_end_offset}, before its recovery point"
        raise DamagedSegment(
            path, f"{problem} {recovery_point}: records that were flushed are gone"
        )


def missing_between_segments(log: ReplicaLog) -> Iterator[tuple[int, int]]:
    """Where a segment does not begin with the offset after the one before: both offsets."""
    for base in log.segments[1:]:
        before = log.index_at(base) - 1
        if before >= 0 and (end := log.batches[before].last_offset + 1) < base:
            yield end, base


def _find_damage(data: LogFile, base_offset: int) -> tuple[int, int, Exception] | None:
    """The first damage of a segment: its offset in the log, its byte, and what it is."""
    position, offset = 0, base_offset
    while position < len(data):
        try:
            header = read_header(data, position)
            check_crc(data, header, position)
        except DecodeError as error:
            return offset, position, error
        if not 0 <= header.base_offset - offset <= MAX_RELATIVE_OFFSET:
            return offset, position, OffsetsNotContiguous(f"it has offset {header.base_offset}")
        position, offset = position + header.size_bytes, header.last_offset + 1
    return None
