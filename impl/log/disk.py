"""A disk: the few operations on files that a log needs.

Four rules:

1. Paths are relative to the disk's root, with `/` between their parts.
2. What is written may be lost, torn or reordered in a crash until `flush` (a file's content) or
   `flush_folder` (which names a folder has) has returned.
3. `replace` is atomic and durable: after a crash the file has its old content or its new one.
4. Operations raise `OSError`. After one that failed, a file may have a part of what was written.

Theory of operation: `DirectoryDisk` is a folder. It keeps some files open, those used last.
`impl.simulator.disk` has one in memory, which crashes.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections import OrderedDict
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from pathlib import Path

OPEN_FILES: Final = 200
"""Kept open by a `DirectoryDisk`; a process may usually have 1024."""

UNFINISHED: Final = ".tmp"
"""The end of the name of a file that `replace` has not renamed yet."""


class StorageError(Exception):
    """A log could not be written: make room, or replace the disk. Answered KAFKA_STORAGE_ERROR."""


class DirectoryInUse(OSError):
    """Another broker serves this directory: stop it, or choose another one."""


class DiskSpace(NamedTuple):
    """The size of a volume, and what a broker may still use of it, bytes; -1 is unknown."""

    total_bytes: int = -1
    usable_bytes: int = -1


_FLOCK: Final = Struct("@hhqqi")
"""`struct flock`: type, whence, first byte, number of bytes (0: all), process (0: none)."""


def lock(descriptor: int) -> None:
    """Lock a file until the descriptor is closed. Raises `OSError` if somebody has it.

    The lock is one of `fcntl`, which a real broker's `FileLock` takes, too: `flock` would not keep
    them apart. It belongs to the descriptor, so that it is also kept between brokers of this
    process. Systems other than Linux have no such lock: there it is `flock`.
    """
    if hasattr(fcntl, "F_OFD_SETLK"):
        wanted = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, wanted)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Disk(Protocol):
    """See the rules above."""

    @property
    def name(self) -> str:
        """What users call it."""

    @property
    def space(self) -> DiskSpace:
        """That of its volume."""

    def list(self, folder: str) -> list[str]:
        """The names in a folder, sorted; none if there is no such folder."""

    def read(self, path: str) -> bytes:
        """A file's content. Raises `FileNotFoundError`."""

    def map(self, path: str) -> bytes | mmap.mmap:
        """A large file's content, to be looked through before the file is changed."""

    def read_part(self, path: str, position: int, size_bytes: int) -> bytes:
        """So many bytes of a file. Raises `OSError` if it has fewer."""

    def append(self, path: str, data: bytes) -> None:
        """Write at the end of a file, which is created if there is none."""

    def truncate(self, path: str, size: int) -> None:
        """Cut a file to `size` bytes."""

    def flush(self, path: str) -> None:
        """Make a file's content durable."""

    def flush_folder(self, folder: str) -> None:
        """Make the creations, renames and removals in a folder durable."""

    def replace(self, path: str, data: bytes) -> None:
        """Replace a file's content, atomically and durably."""

    def make_folder(self, folder: str) -> None:
        """Make a folder, durably, unless it exists."""

    def rename(self, path: str, new_path: str) -> None:
        """Rename a file or a folder."""

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with its files, if it exists."""


class DirectoryDisk:
    """The `Disk` in a folder, which is made if there is none.

    Held by one broker at a time: raises `DirectoryInUse`. `close` ends that, and `discard`.
    """

    def __init__(self, root: Path) -> None:
        self._made = [folder for folder in (root, *root.parents) if not folder.exists()]
        root.mkdir(parents=True, exist_ok=True)
        self._was_empty = not any(root.iterdir())
        self.name = str(root.absolute())
        self._root = root
        self._open: OrderedDict[str, int] = OrderedDict()
        self._lock = os.open(root / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            lock(self._lock)
        except OSError as error:
            os.close(self._lock)
            raise DirectoryInUse(
                f"another broker, of this process or of another one, serves {root}: stop it, or "
                "choose another directory"
            ) from error

    @property
    def space(self) -> DiskSpace:
        """`Disk.space`."""
        import shutil  # few ask for it

        volume = shutil.disk_usage(self._root)
        return DiskSpace(volume.total, volume.free)

    def close(self) -> None:
        """Close all files, and let others use the folder."""
        for path in list(self._open):
            self._forget(path)
        os.close(self._lock)

    def discard(self) -> None:
        """Close, and leave what was found: nothing in a folder that was empty, no folder that is
        new."""
        if self._was_empty:
            for name in self.list(""):
                self.remove(name)
            for folder in self._made:
                folder.rmdir()
        self.close()

    def list(self, folder: str) -> list[str]:
        """`Disk.list`."""
        with suppress(FileNotFoundError, NotADirectoryError):
            return sorted(path.name for path in (self._root / folder).iterdir())
        return []

    def read(self, path: str) -> bytes:
        """`Disk.read`."""
        return (self._root / path).read_bytes()

    def map(self, path: str) -> bytes | mmap.mmap:
        """`Disk.map`."""
        with (self._root / path).open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return b""
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def read_part(self, path: str, position: int, size_bytes: int) -> bytes:
        """`Disk.read_part`."""
        part = os.pread(self._descriptor(path, os.O_RDWR), size_bytes, position)
        if len(part) < size_bytes:
            raise OSError(errno.EIO, f"ends before byte {position + size_bytes}", path)
        return part

    def append(self, path: str, data: bytes) -> None:
        """`Disk.append`."""
        rest = memoryview(data)
        descriptor = self._descriptor(path)
        while rest:
            rest = rest[os.write(descriptor, rest) :]

    def truncate(self, path: str, size: int) -> None:
        """`Disk.truncate`."""
        os.ftruncate(self._descriptor(path), size)

    def flush(self, path: str) -> None:
        """`Disk.flush`."""
        os.fsync(self._descriptor(path))

    def flush_folder(self, folder: str) -> None:
        """`Disk.flush_folder`."""
        descriptor = os.open(self._root / folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def replace(self, path: str, data: bytes) -> None:
        """`Disk.replace` (KAFKA-9892 describes the alternative)."""
        unfinished = self._root / (path + UNFINISHED)
        with unfinished.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self._forget(path)
        unfinished.replace(self._root / path)
        self.flush_folder(path.rpartition("/")[0])

    def make_folder(self, folder: str) -> None:
        """`Disk.make_folder`."""
        path = self._root / folder
        if not path.is_dir():
            path.mkdir()
            self.flush_folder(folder.rpartition("/")[0])

    def rename(self, path: str, new_path: str) -> None:
        """`Disk.rename`."""
        self._forget_all(path)
        self._forget_all(new_path)
        (self._root / path).replace(self._root / new_path)

    def remove(self, path: str) -> None:
        """`Disk.remove`."""
        self._forget_all(path)
        full = self._root / path
        if full.is_dir():
            import shutil

            shutil.rmtree(full)
        else:
            full.unlink(missing_ok=True)

    def _descriptor(self, path: str, flags: int = os.O_RDWR | os.O_CREAT) -> int:
        descriptor = self._open.get(path)
        if descriptor is not None:
            self._open.move_to_end(path)
            return descriptor
        while len(self._open) >= OPEN_FILES:
            self._forget(next(iter(self._open)))
        self._open[path] = os.open(self._root / path, flags | os.O_APPEND, 0o644)
        return self._open[path]

    def _forget(self, path: str) -> None:
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    def _forget_all(self, path: str) -> None:
        """Close the file, or those of the folder."""
        for opened in list(self._open):
            if opened == path or opened.startswith(f"{path}/"):
                self._forget(opened)
