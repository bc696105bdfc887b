"""A disk in memory that crashes: what was not flushed may be lost, torn or reordered.

Four rules:

1. Writes to a file reach the disk in any order, each one whole, in part or not at all, until the
   file is flushed; a hole reads as zeros. So do names in a folder, until the folder is flushed.
2. `crash` returns the disk as it may be afterwards. Nothing else is random: one seed, one disk.
3. `on_write` is called before each write, and each flush: every moment at which a crash differs.
4. Beyond `room_bytes` a write fails after a part of it (ENOSPC).

Theory of operation: a file has durable content and pending writes, the disk durable names and
pending changes of them. A killed process is another matter: there all writes survive
(`crash` with `CrashKind.KILLED`).
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from random import Random

from impl.log.disk import UNFINISHED, DiskSpace


class CrashKind(Enum):
    """What a crash leaves of the writes that are not flushed."""

    KILLED = "all of them: the process was killed, not the machine"
    LOST = "none of them"
    TORN = "some, some of them in part"


@dataclass(slots=True)
class _File:
    """`pending` are writes at a position; None cuts the file there."""

    durable: bytes = b""
    content: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def write(self, position: int, data: bytes | None) -> None:
        self.pending.append((position, data))
        _apply(self.content, position, data)


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of the names in a folder: these are removed, then those added."""

    folder: str
    removed: tuple[str, ...]
    added: Mapping[str, _File]


def _apply(content: bytearray, position: int, data: bytes | None) -> None:
    if data is None:
        del content[position:]
        return
    content.extend(bytes(max(position - len(content), 0)))
    content[position : position + len(data)] = data


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


class SimulatedDisk:
    """The `Disk` described above."""

    name = "simulated"
    space = DiskSpace()

    def __init__(
        self,
        files: Mapping[str, bytes] | None = None,
        *,
        on_write: Callable[[], None] = lambda: None,
        room_bytes: int | None = None,
    ) -> None:
        self.on_write = on_write
        self.room_bytes = room_bytes
        self._names = {path: _File(data, bytearray(data)) for path, data in (files or {}).items()}
        self._durable_names = dict(self._names)
        self._changes: list[_Change] = []

    def crash(self, kind: CrashKind, random: Random) -> SimulatedDisk:
        """The disk after a crash now."""
        names = dict(self._durable_names)
        for change in self._changes:
            if kind is CrashKind.KILLED or (kind is CrashKind.TORN and random.random() < 0.5):
                _rename(names, change)
        return SimulatedDisk({path: _surviving(file, kind, random) for path, file in names.items()})

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(len(file.content) for file in self._names.values())

    # ---- Disk

    def list(self, folder: str) -> list[str]:
        """`Disk.list`."""
        start = f"{folder}/" if folder else ""
        inside = (path[len(start) :] for path in self._names if path.startswith(start))
        return sorted({path.split("/")[0] for path in inside})

    def read(self, path: str) -> bytes:
        """`Disk.read`."""
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return bytes(self._names[path].content)

    def map(self, path: str) -> bytes:
        """`Disk.map`."""
        return self.read(path)

    def read_part(self, path: str, position: int, size_bytes: int) -> bytes:
        """`Disk.read_part`."""
        part = self.read(path)[position : position + size_bytes]
        if len(part) < size_bytes:
            raise OSError(errno.EIO, f"ends before byte {position + size_bytes}", path)
        return part

    def append(self, path: str, data: bytes) -> None:
        """`Disk.append`."""
        self.on_write()
        if path not in self._names:
            self._change(_folder_of(path), (), {path: _File()})
        file, room = self._names[path], self._room()
        if len(data) > room:
            file.write(len(file.content), data[:room])
            raise OSError(errno.ENOSPC, "No space left on device", path)
        if data:
            file.write(len(file.content), data)

    def truncate(self, path: str, size: int) -> None:
        """`Disk.truncate`."""
        self.on_write()
        self._names[path].write(size, None)

    def flush(self, path: str) -> None:
        """`Disk.flush`."""
        self.on_write()
        file = self._names[path]
        file.durable = bytes(file.content)
        file.pending.clear()

    def flush_folder(self, folder: str) -> None:
        """`Disk.flush_folder`."""
        self.on_write()
        for change in self._changes:
            if change.folder == folder:
                _rename(self._durable_names, change)
        self._changes = [change for change in self._changes if change.folder != folder]

    def replace(self, path: str, data: bytes) -> None:
        """`Disk.replace`."""
        unfinished = path + UNFINISHED
        self.remove(unfinished)
        self.append(unfinished, data)
        self.flush(unfinished)
        self.rename(unfinished, path)
        self.flush_folder(_folder_of(path))

    def make_folder(self, folder: str) -> None:
        """`Disk.make_folder`: a folder is there with its first file."""

    def rename(self, path: str, new_path: str) -> None:
        """`Disk.rename`."""
        self.on_write()
        moved = self._under(path)
        added = {new_path + old[len(path) :]: self._names[old] for old in moved}
        self._change(_folder_of(path), moved, added)

    def remove(self, path: str) -> None:
        """`Disk.remove`."""
        removed = self._under(path)
        if removed:
            self.on_write()
            self._change(_folder_of(path), removed, {})

    def _under(self, path: str) -> tuple[str, ...]:
        """The file, or the files of the folder."""
        return tuple(name for name in self._names if name == path or name.startswith(f"{path}/"))

    def _change(self, folder: str, removed: Iterable[str], added: Mapping[str, _File]) -> None:
        change = _Change(folder, tuple(removed), added)
        self._changes.append(change)
        _rename(self._names, change)

    def _room(self) -> int:
        return 1 << 62 if self.room_bytes is None else max(self.room_bytes - self.size_bytes, 0)


def _rename(names: dict[str, _File], change: _Change) -> None:
    for path in change.removed:
        names.pop(path, None)
    names.update(change.added)


def _surviving(file: _File, kind: CrashKind, random: Random) -> bytes:
    if kind is CrashKind.KILLED:
        return bytes(file.content)
    content = bytearray(file.durable)
    for position, data in file.pending if kind is CrashKind.TORN else ():
        chance = random.random()
        if chance < 1 / 3:
            _apply(content, position, data)
        elif chance < 2 / 3 and data:
            _apply(content, position, _tear(data, random))
    return bytes(content)


def _tear(data: bytes, random: Random) -> bytes:
    """A write whose end is missing, or a part of which was not written."""
    first, end = sorted(random.sample(range(len(data) + 1), 2))
    return data[:first] if random.random() < 0.5 else data[:first] + bytes(end - first) + data[end:]
