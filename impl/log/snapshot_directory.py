"""The producer snapshots of one partition as files in its folder.

Three rules:

1. A file is complete or absent: `Disk.replace`.
2. The names are Kafka's, so that brokers find these files, and the other way round.
3. Files with other names are ignored.

Theory of operation: a mapping from offset to bytes, like the dict of a log in memory. Each access
reads the disk; nothing is cached. Source: `ProducerStateManager.loadSnapshots`,
`LogFileUtils.producerSnapshotFile`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, MutableMapping

from impl.log.disk import Disk, StorageError
from impl.log.snapshot import snapshot_name, snapshot_offset

_log = logging.getLogger(__name__)


class SnapshotDirectory(MutableMapping[int, bytes]):
    """`{offset: snapshot bytes}` in the files of a folder. Raises `StorageError`."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder

    def __getitem__(self, offset: int) -> bytes:
        try:
            return self._disk.read(self._path(offset))
        except FileNotFoundError:
            raise KeyError(offset) from None

    def __setitem__(self, offset: int, data: bytes) -> None:
        try:
            self._disk.make_folder(self._folder)
            self._disk.replace(self._path(offset), data)
        except OSError as error:
            _log.warning("%s/%s cannot be written: %s", self._disk.name, self._path(offset), error)
            raise StorageError(f"a snapshot in {self._folder}: {error}") from error

    def __delitem__(self, offset: int) -> None:
        if offset not in set(self):
            raise KeyError(offset)
        self._disk.remove(self._path(offset))

    def __iter__(self) -> Iterator[int]:
        found = (snapshot_offset(name) for name in self._disk.list(self._folder))
        return iter(sorted(offset for offset in found if offset is not None))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _path(self, offset: int) -> str:
        return f"{self._folder}/{snapshot_name(offset)}"
