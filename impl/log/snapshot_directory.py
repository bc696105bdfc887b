"""The producer snapshots of one partition as files in its folder.

Three rules:

1. A file is complete or absent: it is written under another name, synced, and renamed
   (KAFKA-9892 describes the alternative).
2. The names are Kafka's, so that brokers find these files, and the other way round.
3. Files with other names are ignored.

Theory of operation: a mapping from offset to bytes, like the dict of a log in memory. Each access
reads the disk; nothing is cached. Source: `ProducerStateManager.loadSnapshots`,
`LogFileUtils.producerSnapshotFile`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from impl.log.snapshot import snapshot_name, snapshot_offset


class SnapshotDirectory(MutableMapping[int, bytes]):
    """`{offset: snapshot bytes}` in the files of an existing folder. Raises `OSError`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __getitem__(self, offset: int) -> bytes:
        try:
            return self._path(offset).read_bytes()
        except FileNotFoundError:
            raise KeyError(offset) from None

    def __setitem__(self, offset: int, data: bytes) -> None:
        path = self._path(offset)
        unfinished = path.with_suffix(".tmp")
        with unfinished.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        self._sync_folder()

    def __delitem__(self, offset: int) -> None:
        try:
            self._path(offset).unlink()
        except FileNotFoundError:
            raise KeyError(offset) from None

    def __iter__(self) -> Iterator[int]:
        found = (snapshot_offset(path.name) for path in self._folder.iterdir())
        return iter(sorted(offset for offset in found if offset is not None))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _path(self, offset: int) -> Path:
        return self._folder / snapshot_name(offset)

    def _sync_folder(self) -> None:
        """Sync the folder, which makes a rename durable."""
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
