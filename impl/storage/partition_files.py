"""The files of one partition: segments, their indexes, and the leader epochs.

Eight rules:

1. A batch is in its file before it is in memory, and flushed if `flush.messages` says so. A batch
   that could not be written is cut off again, and refused; the log stays as it was.
2. A log that cannot be flushed, or whose file cannot be cut, is offline until a restart: nobody
   knows what of it is on disk. All appends to it fail.
3. A segment is flushed as a whole, and its indexes written, before the next one begins: only the
   last one can be torn.
4. Indexes of the last segment are written by `write_indexes`: a restart rebuilds what is missing.
5. Segments are removed oldest first, one after the other, so that no crash leaves a gap.
6. Cleaned segments are swapped in (`segment_swap`). One that was not swapped whole takes the log
   offline: a restart ends the swap.
7. A folder is made with the first batch. Before it, `partition.metadata` says whose it is.
8. What cannot be done is logged when it begins to fail and when it works again, not each time.

Sources: `LogSegment`, `LocalLog`, `LogFileUtils`, `UnifiedLog.flush`, `LogDirFailureChannel`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from mmap import mmap
from typing import Final

from impl.log.checkpoint_files import encode_epochs, encode_partition_metadata
from impl.log.disk import Disk, StorageError
from impl.log.segment_indexes import SegmentIndexes
from impl.log.transaction_index import encode_transaction_index
from impl.partition.log_storage import CleanedSegment
from impl.partition.stored_batch import StoredBatch
from impl.storage.segment_swap import (
    INDEX_SUFFIXES,
    TRANSACTION_INDEX,
    segment_path,
    swap_in,
    write_cleaned,
)

PARTITION_METADATA: Final = "partition.metadata"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"

_APPEND: Final = "appended to"
_ROLL: Final = "given another segment"
_DELETE: Final = "deleted from"
_CLEAN: Final = "cleaned"

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class StoredSegment:
    """`SegmentFile`: the file of `disk` with this path."""

    disk: Disk
    path: str
    _is_failing: bool = False

    def map(self) -> bytes | mmap:
        """`SegmentFile.map`."""
        try:
            return self.disk.map(self.path)
        except OSError as error:
            raise self._fail(error) from error

    def read(self, position: int, size_bytes: int) -> bytes:
        """`SegmentFile.read`."""
        try:
            return self.disk.read_part(self.path, position, size_bytes)
        except OSError as error:
            raise self._fail(error) from error

    def _fail(self, error: OSError) -> StorageError:
        """The error to raise; logged once, as clients ask for the same records again and again."""
        if not self._is_failing:
            self._is_failing = True
            _log.error("%s/%s cannot be read: %s", self.disk.name, self.path, error)
        return StorageError(f"{self.path} cannot be read: {error}")


class PartitionFiles:
    """The `LogStorage` of one partition, in a folder of `disk`.

    Read-only: `folder`; `recovery_point`, up to which all is flushed.
    """

    def __init__(
        self,
        disk: Disk,
        folder: str,
        topic_id: bytes,
        store_start: Callable[[int], None],
        store_cleaned: Callable[[int], None],
    ) -> None:
        """`store_start` stores the start of a log that does not begin with a segment.

        `store_cleaned` stores up to where it is cleaned.
        """
        self.folder = folder
        self.recovery_point = 0
        self._disk = disk
        self._topic_id = topic_id
        self._store_start = store_start
        self._store_cleaned = store_cleaned
        self._segments: list[int] = []
        self._indexes = SegmentIndexes(0)
        self._end_offset = 0
        self._epochs: dict[int, int] = {}
        self._is_offline = False
        self._failing: dict[str, int] = {}

    # ---- LogStorage

    def append(self, stored: StoredBatch, flush_messages: int) -> None:
        """Write a batch. Raises `StorageError`; then the log is as before."""
        if self._is_offline:
            raise StorageError(f"{self.folder} is offline: restart the broker")
        epoch = stored.partition_leader_epoch
        try:
            if not self._segments:
                self._make_folder()
                self._begin_segment(stored.base_offset)
            if epoch not in self._epochs:
                self._write_epochs({**self._epochs, epoch: stored.base_offset})
            self._disk.append(self._log_path, stored.data)
        except OSError as error:
            self._cut_off(error, stored.size_bytes)
        end_offset = stored.last_offset + 1
        if end_offset - self.recovery_point >= flush_messages:
            self._flush(end_offset)
        self._indexes.add(stored.last_offset, stored.max_timestamp, stored.size_bytes)
        self._end_offset = end_offset
        if self._failing:
            self._work(_APPEND, stored.size_bytes)

    def roll(self, base_offset: int, transaction_index: bytes) -> None:
        """Begin a segment; the last one has this transaction index. Raises `StorageError`."""
        if not self._segments or self._segments[-1] == base_offset:
            return
        self.flush()
        self.write_indexes(transaction_index)
        try:
            self._begin_segment(base_offset)
        except OSError as error:
            raise self._fail(_ROLL, f"a segment of {self.folder}: {error}") from error
        self._work(_ROLL)

    def advance_start(self, log_start_offset: int, removed: Sequence[int]) -> None:
        """Store the start of the log, then remove segments. Raises `StorageError`."""
        kept = self._segments[len(removed) :]
        try:
            if kept and kept[0] != log_start_offset:
                self._store_start(log_start_offset)
            for base in removed:
                for suffix in (".log", *INDEX_SUFFIXES):
                    self._disk.remove(self._path(base, suffix))
                self._disk.flush_folder(self.folder)
        except OSError as error:
            raise self._fail(_DELETE, f"the start of {self.folder}: {error}") from error
        self._segments = kept
        self._work(_DELETE)

    def replace(self, cleaned: CleanedSegment, replaced: Sequence[int]) -> None:
        """Swap in a cleaned segment. Raises `StorageError`."""
        files = _files_of(cleaned)
        try:
            write_cleaned(self._disk, self.folder, cleaned.base_offset, files)
        except OSError as error:
            raise self._fail(_CLEAN, f"a segment of {self.folder}: {error}") from error
        try:
            swap_in(self._disk, self.folder, cleaned.base_offset, list(files), replaced)
        except OSError as error:
            raise self._go_offline(f"a swap in {self.folder}: {error}") from error
        self._segments = [base for base in self._segments if base not in replaced[1:]]

    def note_cleaned(self, end_offset: int) -> None:
        """Store up to where the log is cleaned. Raises `StorageError`."""
        try:
            self._store_cleaned(end_offset)
        except OSError as error:
            raise self._fail(_CLEAN, f"the cleaned offset of {self.folder}: {error}") from error
        self._work(_CLEAN)

    def file_of(self, base_offset: int) -> StoredSegment:
        """The file of a segment."""
        return StoredSegment(self._disk, self._path(base_offset, ".log"))

    # ---- the log directory

    def flush(self) -> None:
        """Flush what is not flushed yet. Raises `StorageError`."""
        if self._segments and self.recovery_point < self._end_offset:
            self._flush(self._end_offset)

    def write_indexes(self, transaction_index: bytes) -> None:
        """Write the last segment's indexes. Raises `StorageError`."""
        if self._segments:
            self.write_indexes_of(self._segments[-1], self._indexes, transaction_index)

    def write_indexes_of(
        self, base_offset: int, indexes: SegmentIndexes, transaction_index: bytes
    ) -> None:
        """Write a segment's indexes. Raises `StorageError`."""
        texts = indexes.encode_offset_index(), indexes.encode_time_index(), transaction_index
        try:
            for suffix, data in zip(INDEX_SUFFIXES, texts, strict=True):
                path = self._path(base_offset, suffix)
                if data or suffix != TRANSACTION_INDEX:
                    self._disk.replace(path, data)
                else:
                    self._disk.remove(path)  # as Kafka, which has none without transactions
        except OSError as error:
            raise self._fail(_ROLL, f"an index of {self.folder}: {error}") from error

    @property
    def has_folder(self) -> bool:
        """Whether there is anything on the disk."""
        return bool(self._segments)

    def adopt(
        self,
        segments: Sequence[int],
        indexes: SegmentIndexes,
        epochs: Mapping[int, int],
        end_offset: int,
    ) -> None:
        """Continue files that a restart found, all flushed; `indexes` are the last segment's."""
        self._segments = list(segments)
        self._indexes = indexes
        self._epochs = dict(epochs)
        self._end_offset = self.recovery_point = end_offset

    @property
    def _log_path(self) -> str:
        return self._path(self._segments[-1], ".log")

    def _path(self, base_offset: int, suffix: str) -> str:
        return segment_path(self.folder, base_offset, suffix)

    def _make_folder(self) -> None:
        self._disk.make_folder(self.folder)
        data = encode_partition_metadata(self._topic_id)
        self._disk.replace(f"{self.folder}/{PARTITION_METADATA}", data)

    def _begin_segment(self, base_offset: int) -> None:
        self._disk.append(self._path(base_offset, ".log"), b"")
        self._disk.flush_folder(self.folder)
        self._segments.append(base_offset)
        self._end_offset = self.recovery_point = base_offset
        self._indexes = SegmentIndexes(base_offset)

    def _write_epochs(self, epochs: dict[int, int]) -> None:
        self._disk.replace(f"{self.folder}/{LEADER_EPOCHS}", encode_epochs(epochs))
        self._epochs = epochs

    def _flush(self, end_offset: int) -> None:
        try:
            self._disk.flush(self._log_path)
        except OSError as error:
            raise self._go_offline(f"{self._log_path} cannot be flushed: {error}") from error
        self.recovery_point = end_offset

    def _cut_off(self, error: OSError, size_bytes: int) -> None:
        """Cut off what was written of a batch. Raises `StorageError`, always."""
        try:
            if self._segments:
                self._disk.truncate(self._log_path, self._indexes.size_bytes)
        except OSError as second:
            raise self._go_offline(f"{self._log_path} cannot be cut: {second}") from error
        raise self._fail(_APPEND, f"a batch of {self.folder}: {error}", size_bytes) from error

    # ---- what fails

    def _fail(self, activity: str, problem: str, size_bytes: int = 0) -> StorageError:
        """The error to raise; logged if the activity has worked so far."""
        if activity not in self._failing:
            self._failing[activity] = size_bytes
            _log.warning("%s cannot be %s: %s", self._place, activity, problem)
        return StorageError(problem)

    def _work(self, activity: str, size_bytes: int = 0) -> None:
        """An activity works; logged if it did not before.

        What is smaller than what failed tells nothing: on a full disk there may be room for it.
        """
        if activity in self._failing and size_bytes >= self._failing[activity]:
            del self._failing[activity]
            _log.warning("%s can be %s again", self._place, activity)

    def _go_offline(self, problem: str) -> StorageError:
        """The error to raise; from now on all appends fail. `LogDirFailureChannel`."""
        self._is_offline = True
        _log.error("%s is offline until the broker is started again: %s", self._place, problem)
        return StorageError(problem)

    @property
    def _place(self) -> str:
        return f"{self._disk.name}/{self.folder}"


def _files_of(cleaned: CleanedSegment) -> dict[str, bytes]:
    """The files of a segment, by suffix; no transaction index without transactions."""
    indexes = SegmentIndexes(cleaned.base_offset)
    for stored in cleaned.batches:
        indexes.add(stored.last_offset, stored.max_timestamp, stored.size_bytes)
    index, time_index, transactions = INDEX_SUFFIXES
    files = {
        ".log": b"".join(stored.data for stored in cleaned.batches),
        index: indexes.encode_offset_index(),
        time_index: indexes.encode_time_index(),
    }
    if cleaned.aborted:
        files[transactions] = encode_transaction_index(cleaned.aborted)
    return files
