"""A log directory: a folder for each partition, and checkpoints for all of them.

Eight rules:

1. A folder belongs to the topic whose id is in its `partition.metadata`. Any other with the name of
   a known partition is renamed to `-stray`, never deleted. One without that file is the topic's
   with its name: unlike Kafka, which takes it for stray, since it has no records then.
2. After a clean stop (`.kafka_cleanshutdown`) logs are trusted. Otherwise they are read from their
   recovery point on, cut off at the first batch that is damaged, and flushed.
3. What recovery cut off in memory is cut off on the disk before anything is appended.
4. Segments before the start of the log are removed on restart: a crash may have left them.
5. The start of a log inside a segment is stored at once, unlike Kafka's, which may forget it.
6. Checkpoints are written every minute, and when the directory is closed; what is cleaned of a log
   is noted after it is cleaned.
7. A swap of segments that a crash has stopped is ended first.
8. What a start leaves out of a log is logged: what is cut off, set aside, or no longer there.

Sources: `LogManager`, `LogLoader`, `LogDirFailureChannel`.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Final

from impl.log.checkpoint_files import (
    METADATA,
    CorruptCheckpoint,
    PartitionName,
    decode_epochs,
    decode_offsets,
    decode_partition_metadata,
    encode_offsets,
    encode_partition_metadata,
    format_id,
)
from impl.log.disk import UNFINISHED, Disk, StorageError
from impl.log.segment_indexes import SegmentIndexes
from impl.log.snapshot import snapshot_name
from impl.log.snapshot_directory import SnapshotDirectory
from impl.partition.errors import PartitionError
from impl.partition.leader import PartitionLeader
from impl.partition.log_config import LogConfig
from impl.partition.log_segments import MAX_OFFSET
from impl.partition.producer_state import BATCHES_REMEMBERED, BatchMetadata
from impl.partition.replica_log import ReplicaLog
from impl.protocol.errors import DecodeError
from impl.protocol.record_batch import CONTROL, last_sequence
from impl.storage.damaged_files import (
    DamagedFile,
    DamagedSegment,
    check_cut,
    check_end,
    check_formats,
    explain,
    missing_between_segments,
    name_damage,
    path_of,
)
from impl.storage.partition_files import LEADER_EPOCHS, PARTITION_METADATA, PartitionFiles
from impl.storage.segment_swap import (
    INDEX_SUFFIXES,
    SEGMENT,
    finish_swaps,
    remove_orphans,
    segment_path,
)

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANED_OFFSETS: Final = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
_CLEAN: Final = b'{"version":0,"brokerEpoch":-1}'

_UNUSED: Final = (UNFINISHED, ".deleted")
"""Ends of the names of files that a restart removes."""

_WITHOUT: Final = MappingProxyType(
    {
        RECOVERY_POINTS: "damage of any age is cut off logs",
        LOG_STARTS: "records deleted inside a segment may be read again",
        CLEANED_OFFSETS: "logs are compacted from their starts on",
    }
)
"""What follows when a checkpoint is damaged."""

_log = logging.getLogger(__name__)


class LogDirectory:
    """The logs of a directory. Read-only: `disk`, `was_clean`."""

    def __init__(self, disk: Disk) -> None:
        """Nothing changes before `claim` but what a restart removes. Raises `OSError`."""
        self.disk = disk
        self._logs: dict[PartitionName, ReplicaLog] = {}
        self._recovery_points = self._read_offsets(RECOVERY_POINTS)
        self._starts = self._read_offsets(LOG_STARTS)
        self._cleaned = self._read_offsets(CLEANED_OFFSETS)
        self.was_clean = CLEAN_SHUTDOWN in disk.list("")

    def claim(self) -> None:
        """From now on the directory counts as not stopped cleanly. Raises `OSError`."""
        if self.was_clean:
            self.disk.remove(CLEAN_SHUTDOWN)
            self.disk.flush_folder("")

    def _read_offsets(self, name: str) -> dict[PartitionName, int]:
        """A checkpoint that is missing or damaged is empty: then all is recovered.

        `LogManager.loadLogs`.
        """
        try:
            return decode_offsets(self.disk.read(name))
        except FileNotFoundError:
            return {}
        except CorruptCheckpoint as error:
            path = path_of(self.disk, name)
            _log.warning("%s is damaged, so %s: %s", path, _WITHOUT[name], error)
            return {}

    # ---- logs

    def new_log(self, name: PartitionName, topic_id: bytes, config: LogConfig) -> ReplicaLog:
        """An empty log, whose folder is made with its first batch.

        Raises `OSError`, and `StorageError` if the folder is that of an open log.
        """
        self._check_free(name)
        self._forget(name)
        self._forget_recovery_point(name)
        folder = str(name)
        if self.disk.list(folder):
            aside = self._set_aside(folder, "stray")
            _log.warning(
                "%s is renamed to %s, and not read: it is not of the topic %s with the id %s",
                path_of(self.disk, folder),
                aside,
                name.topic,
                format_id(topic_id),
            )
        log = ReplicaLog(config=config, snapshots=SnapshotDirectory(self.disk, folder))
        log.storage = self._files(name, topic_id)
        self._logs[name] = log
        return log

    def _check_free(self, name: PartitionName) -> None:
        """Raises `StorageError` for a log whose folder is in use: it must not be set aside."""
        files = self._by_name().get(name)
        if files is not None and files.has_folder:
            raise StorageError(f"{path_of(self.disk, str(name))} is in use: no other log can be it")

    def load(
        self, name: PartitionName, topic_id: bytes, config: LogConfig, epoch: int, now_ms: int
    ) -> PartitionLeader:
        """The leader of a partition from its folder; of an empty log if it has none.

        Raises `DamagedFile` (a `DecodeError`) for damage that must not be cut off, `OSError`,
        `StorageError`.
        """
        self._check_free(name)
        folder = str(name)
        start = self._starts.get(name, 0)
        segments: list[int] = []
        if self._owner(folder) in (None, topic_id):
            segments = self._find_kept_segments(name, start)
        if not segments:
            return PartitionLeader(leader_epoch=epoch, log=self.new_log(name, topic_id, config))
        check_formats(self.disk, folder, segments)
        self._write_owner(name, topic_id)
        files = self._files(name, topic_id)
        logs = [files.file_of(base) for base in segments]
        recovery_point = self._recovery_points.get(name, 0)
        try:
            leader = PartitionLeader.restart(
                logs,
                snapshots := SnapshotDirectory(self.disk, folder),
                leader_epoch=epoch,
                high_watermark=MAX_OFFSET,
                now_ms=now_ms,
                log_start_offset=start,
                config=config,
                store=snapshots,
                segments=segments,
                had_clean_shutdown=self.was_clean,
                recovery_point=None if self.was_clean else recovery_point,
                transaction_indexes=self._read_transaction_indexes(folder, segments),
            )
        except (DecodeError, PartitionError) as error:
            limit = f"before the recovery point {recovery_point}"
            limit = "in a log that was closed cleanly" if self.was_clean else limit
            raise name_damage(self.disk, folder, segments, error, limit) from error
        check_cut(self.disk, folder, leader.log, segments)
        check_end(self.disk, folder, leader.log, recovery_point)
        self._report(folder, leader.log)
        leader.log.cleaned_offset = self._cleaned.get(name)
        sizes = {base: len(log.map()) for base, log in zip(segments, logs, strict=True)}
        self._adopt(name, topic_id, leader.log, sizes, recovery_point)
        remember_batches(leader.log)
        return leader

    def _report(self, folder: str, log: ReplicaLog) -> None:
        """Log what recovery deleted. `LogLoader.recoverLog`."""
        path = path_of(self.disk, folder)
        snapshots, cut_bytes, damage = log.recovery
        for end, base in () if log.config.is_compacted else missing_between_segments(log):
            _log.warning(
                "%s has no records from offset %d to %d: a segment is missing, or was compacted",
                path,
                end,
                base - 1,
            )
        if damage is not None:
            _log.warning(
                "%s: recovery has cut off %d bytes, from offset %d on: %s",
                path,
                cut_bytes,
                log.log_end_offset,
                explain(damage),
            )
        for offset, error in snapshots:
            _log.warning(
                "%s/%s is damaged, and deleted: %s; producers are read from what is left",
                path,
                snapshot_name(offset),
                error.problem,
            )

    def _find_kept_segments(self, name: PartitionName, start: int) -> list[int]:
        """The base offsets of a log's files. Without any, the folder is deleted.

        A crash before the first one leaves `partition.metadata` alone.
        """
        folder = str(name)
        names = set(self.disk.list(folder)) - {PARTITION_METADATA}
        segments = self._find_segments(folder, start)
        if segments:
            return segments
        left = sorted(each for each in names if not each.endswith(_UNUSED))
        end = self._recovery_points.get(name, 0)
        if left or end > start:
            _log.warning(
                "%s has no segment, so its log is empty; recovery point %d, files left: %s",
                path_of(self.disk, folder),
                end,
                ", ".join(left) or "none",
            )
        self.delete(name)
        return []

    def _owner(self, folder: str) -> bytes | None:
        """The topic id of a folder, None if it has none. Raises `DamagedFile`."""
        path = f"{folder}/{PARTITION_METADATA}"
        try:
            return decode_partition_metadata(self.disk.read(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except CorruptCheckpoint as error:
            raise DamagedFile(path_of(self.disk, path), str(error)) from error

    def _write_owner(self, name: PartitionName, topic_id: bytes) -> None:
        """Write a folder's `partition.metadata` if it is missing."""
        folder = str(name)
        if self._owner(folder) is None:
            if name != METADATA:  # a formatted directory has a folder for it, which nobody lost
                _log.warning(
                    "%s has no %s: it is taken for that of the topic %s, with the id %s",
                    path_of(self.disk, folder),
                    PARTITION_METADATA,
                    name.topic,
                    format_id(topic_id),
                )
            data = encode_partition_metadata(topic_id)
            self.disk.replace(f"{folder}/{PARTITION_METADATA}", data)

    def find_partitions(self) -> dict[PartitionName, bytes | None]:
        """The partitions of topics that have folders, and the ids of their topics.

        Without `partition.metadata` it is None, and a folder without a segment is nobody's. Raises
        `DamagedFile`. `Log.parseTopicPartitionName`.
        """
        found = {}
        for folder in self.disk.list(""):
            topic, _, index = folder.rpartition("-")
            if folder == str(METADATA) or not topic or not index.isdecimal():
                continue
            topic_id = self._owner(folder)
            if topic_id is not None or any(map(SEGMENT.fullmatch, self.disk.list(folder))):
                found[PartitionName(topic, int(index))] = topic_id
        return found

    def last_epoch(self, name: PartitionName) -> int:
        """The newest leader epoch of a partition's folder, 0 if it has none."""
        return max(self._read_epochs(str(name)), default=0)

    def _find_segments(self, folder: str, log_start: int) -> list[int]:
        """The base offsets of the files; those that the log does not need are removed."""
        try:
            finish_swaps(self.disk, folder)
        except DecodeError as error:
            problem = f"a swap cannot be ended: {explain(error)}"
            raise DamagedSegment(path_of(self.disk, folder), problem, error.offset) from error
        remove_orphans(self.disk, folder)
        names = self.disk.list(folder)
        for name in names:
            if name.endswith(_UNUSED):
                self.disk.remove(f"{folder}/{name}")
        bases = [int(match[1]) for name in names if (match := SEGMENT.fullmatch(name))]
        while len(bases) > 1 and bases[1] <= log_start:
            self._remove_segment(folder, bases.pop(0))
        if len(bases) > 1 and not self.disk.map(f"{folder}/{bases[-1]:020d}.log"):
            self._remove_segment(folder, bases.pop())  # perhaps of a roll that failed
        return bases

    def _remove_segment(self, folder: str, base_offset: int) -> None:
        for suffix in (".log", *INDEX_SUFFIXES):
            self.disk.remove(segment_path(folder, base_offset, suffix))

    def _read_transaction_indexes(self, folder: str, segments: Sequence[int]) -> dict[int, bytes]:
        """Those of all segments. One that was not flushed is not used."""
        present = set(self.disk.list(folder))
        names = {base: f"{base:020d}.txnindex" for base in segments}
        return {
            base: self.disk.read(f"{folder}/{name}") if name in present else b""
            for base, name in names.items()
        }

    def _adopt(
        self,
        name: PartitionName,
        topic_id: bytes,
        log: ReplicaLog,
        sizes: Mapping[int, int],
        recovery_point: int,
    ) -> None:
        """Cut files where recovery has cut the log, flush them, and continue them."""
        folder = str(name)
        for base in sizes:
            if base not in log.segments:
                self._remove_segment(folder, base)
        indexes = index_segments(log)
        recovered = log.segments[max(bisect_right(log.segments, recovery_point) - 1, 0) :]
        for base in () if self.was_clean else recovered:
            path = f"{folder}/{base:020d}.log"
            if sizes.get(base) != indexes[base].size_bytes:
                self.disk.truncate(path, indexes[base].size_bytes)
            self.disk.flush(path)
        self.disk.flush_folder(folder)
        files = self._files(name, topic_id)
        end_offset = log.log_end_offset
        known = self._read_epochs(folder).items()
        log.known_epochs = {epoch: start for epoch, start in known if start < end_offset}
        files.adopt(log.segments, indexes[log.segments[-1]], log.leader_epochs(), end_offset)
        present = set(self.disk.list(folder))
        rebuilt = () if self.was_clean else recovered
        for base in log.segments:
            if base in rebuilt or f"{base:020d}.index" not in present:
                files.write_indexes_of(base, indexes[base], log.transaction_index(base))
        log.storage = files
        self._logs[name] = log

    def _read_epochs(self, folder: str) -> dict[int, int]:
        path = f"{folder}/{LEADER_EPOCHS}"
        with suppress(FileNotFoundError):
            try:
                return decode_epochs(self.disk.read(path))
            except CorruptCheckpoint as error:
                shown = path_of(self.disk, path)
                _log.warning("%s is damaged, so epochs are those of batches: %s", shown, error)
        return {}

    def _files(self, name: PartitionName, topic_id: bytes) -> PartitionFiles:
        return PartitionFiles(
            self.disk,
            str(name),
            topic_id,
            lambda offset: self._store_start(name, offset),
            lambda offset: self._store_cleaned(name, offset),
        )

    def _store_start(self, name: PartitionName, offset: int) -> None:
        starts = {**self._starts, name: offset}
        self.disk.replace(LOG_STARTS, encode_offsets(starts))
        self._starts = starts

    def _store_cleaned(self, name: PartitionName, offset: int) -> None:
        cleaned = {**self._cleaned, name: offset}
        self.disk.replace(CLEANED_OFFSETS, encode_offsets(cleaned))
        self._cleaned = cleaned

    # ---- deleting

    def delete(self, name: PartitionName) -> None:
        """Delete a partition's folder, if it has one. Raises `OSError`."""
        self._forget(name)
        if self.disk.list(str(name)):
            self.disk.remove(self._set_aside(str(name), "delete"))

    def _forget(self, name: PartitionName) -> None:
        self._logs.pop(name, None)
        if self._starts.pop(name, None) is not None:
            self.disk.replace(LOG_STARTS, encode_offsets(self._starts))
        if self._cleaned.pop(name, None) is not None:
            self.disk.replace(CLEANED_OFFSETS, encode_offsets(self._cleaned))

    def _forget_recovery_point(self, name: PartitionName) -> None:
        """A new log must not have the one of a deleted log: it would be damaged before it."""
        if name in self._recovery_points:
            points = {each: at for each, at in self._recovery_points.items() if each != name}
            self.disk.replace(RECOVERY_POINTS, encode_offsets(points))
            self._recovery_points = points

    def _set_aside(self, folder: str, why: str) -> str:
        """Rename a folder, so that its name is free; its new name."""
        taken = set(self.disk.list(""))
        number = 0
        while (aside := f"{folder}.{number:032x}-{why}") in taken:
            number += 1
        self.disk.rename(folder, aside)
        self.disk.flush_folder("")
        return aside

    # ---- checkpoints

    def checkpoint(self) -> None:
        """Write recovery points and high watermarks. Raises `OSError`."""
        files = self._by_name()
        points = {name: each.recovery_point for name, each in files.items() if each.has_folder}
        self.disk.replace(RECOVERY_POINTS, encode_offsets(points))
        self._recovery_points = points
        marks = {name: self._logs[name].high_watermark for name in points}
        self.disk.replace(HIGH_WATERMARKS, encode_offsets(marks))
        starts = {name: self._logs[name].log_start_offset for name in points}
        self._starts = {name: start for name, start in starts.items() if start}
        self.disk.replace(LOG_STARTS, encode_offsets(self._starts))

    def close(self) -> None:
        """Flush all logs, and say that they need no recovery. Raises `StorageError`, `OSError`."""
        for name, files in self._by_name().items():
            if files.has_folder:
                log = self._logs[name]
                files.flush()
                files.write_indexes(log.transaction_index(log.segments[-1]))
                log.close()
        self.checkpoint()
        self.disk.replace(CLEAN_SHUTDOWN, _CLEAN)

    def _by_name(self) -> dict[PartitionName, PartitionFiles]:
        """The files of each log."""
        return {
            name: log.storage
            for name, log in self._logs.items()
            if isinstance(log.storage, PartitionFiles)
        }


def remember_batches(log: ReplicaLog) -> None:
    """Remember of each producer as many batches as before the restart.

    Unlike Kafka, whose snapshots have the last one alone: a client that repeats several, because
    their answers were lost, would be told OUT_OF_ORDER_SEQUENCE_NUMBER, and write them twice.
    """
    entries = log.producer_states.entries
    found: dict[int, list[BatchMetadata]] = {}
    for stored in reversed(log.batches):
        entry = entries.get(stored.producer_id)
        if entry is None or stored.attributes & CONTROL:
            continue
        batches = found.setdefault(stored.producer_id, [])
        is_current = stored.producer_epoch == entry.producer_epoch and entry.batches
        if is_current and len(batches) < BATCHES_REMEMBERED:
            delta = stored.last_offset_delta
            last = last_sequence(stored.base_sequence, delta)
            batches.append(BatchMetadata(last, stored.last_offset, delta, stored.max_timestamp))
    for producer_id, batches in found.items():
        if batches:
            entry = entries[producer_id]
            entries[producer_id] = entry._replace(batches=tuple(reversed(batches)))


def index_segments(log: ReplicaLog) -> dict[int, SegmentIndexes]:
    """The indexes of all segments, by base offset."""
    indexes = {base: SegmentIndexes(base) for base in log.segments}
    for stored in (*log.deleted, *log.batches):
        base = log.segments[bisect_right(log.segments, stored.base_offset) - 1]
        indexes[base].add(stored.last_offset, stored.max_timestamp, stored.size_bytes)
    return indexes
