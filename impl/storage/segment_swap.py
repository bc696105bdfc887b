"""One segment in the place of several, whatever moment the process or the machine stops at.

Five rules:

1. The new files are written as `.cleaned`, flushed, and renamed to `.swap`. Until all of them have
   that name, a restart goes back: it removes them, and the old segments are untouched.
2. From then on it goes forward: it removes the old segments that the new one covers, and gives the
   new files their names.
3. Old segments go oldest first, each before the next. One after the new one's last offset may be
   left by a crash, and is cleaned again; were a later one gone before it, the tombstone that
   deletes its records might be.
4. The indexes of old segments go last: aborted records that are left need theirs.
5. Names are flushed between all these steps. Kafka flushes them once, at the end.

Sources: `LocalLog.replaceSegments`, `LogLoader.removeTempFilesAndCollectSwapFiles`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from impl.log.disk import Disk
from impl.protocol.record_batch import read_headers

SEGMENT: Final = re.compile(r"([0-9]{20})\.log")
TRANSACTION_INDEX: Final = ".txnindex"
INDEX_SUFFIXES: Final = (".index", ".timeindex", TRANSACTION_INDEX)
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
_FILE: Final = re.compile(r"([0-9]{20})(\.[a-z]+)")


def segment_path(folder: str, base_offset: int, suffix: str) -> str:
    """A file of a segment."""
    return f"{folder}/{base_offset:020d}{suffix}"


def write_cleaned(disk: Disk, folder: str, base_offset: int, files: Mapping[str, bytes]) -> None:
    """Write the new segment's files, by suffix. Raises `OSError`: then none of them is left."""
    paths = [segment_path(folder, base_offset, suffix) + CLEANED for suffix in files]
    try:
        for path, data in zip(paths, files.values(), strict=True):
            disk.remove(path)
            disk.append(path, data)
            disk.flush(path)
        disk.flush_folder(folder)
    except OSError:
        for path in paths:
            disk.remove(path)
        raise


def swap_in(
    disk: Disk, folder: str, base_offset: int, suffixes: Sequence[str], replaced: Sequence[int]
) -> None:
    """Put what `write_cleaned` wrote in the place of segments. Raises `OSError`."""
    paths = [segment_path(folder, base_offset, suffix) for suffix in suffixes]
    for path in paths:
        disk.rename(path + CLEANED, path + SWAP)
    disk.flush_folder(folder)
    for base in replaced:
        disk.remove(segment_path(folder, base, ".log"))
        disk.flush_folder(folder)
    for base in replaced:
        for suffix in INDEX_SUFFIXES:
            disk.remove(segment_path(folder, base, suffix))
    disk.flush_folder(folder)
    for path in paths:
        disk.rename(path + SWAP, path)
    disk.flush_folder(folder)


def finish_swaps(disk: Disk, folder: str) -> None:
    """After a restart: go back or forward. Raises `OSError`, `DecodeError`."""
    names = disk.list(folder)
    cleaned = [name for name in names if name.endswith(CLEANED)]
    swapped = [name for name in names if name.endswith(SWAP)]
    if not cleaned and not swapped:
        return
    if cleaned:
        for some in (swapped, cleaned):
            for name in some:
                disk.remove(f"{folder}/{name}")
            disk.flush_folder(folder)
        return
    for base, end in (_range_of(disk, folder, name) for name in swapped if ".log" in name):
        _remove_covered(disk, folder, base, end)
    disk.flush_folder(folder)
    for name in swapped:
        disk.rename(f"{folder}/{name}", f"{folder}/{name.removesuffix(SWAP)}")
    disk.flush_folder(folder)


def _range_of(disk: Disk, folder: str, name: str) -> tuple[int, int]:
    """The base offset of a file, and the offset after its last record."""
    base = int(name[:20])
    headers = [header for _, header in read_headers(disk.map(f"{folder}/{name}"))]
    return base, headers[-1].last_offset + 1 if headers else base + 1


def _remove_covered(disk: Disk, folder: str, base: int, end: int) -> None:
    for name in disk.list(folder):
        match = _FILE.fullmatch(name)
        if match and match[2] in (".log", *INDEX_SUFFIXES) and base <= int(match[1]) < end:
            disk.remove(f"{folder}/{name}")


def remove_orphans(disk: Disk, folder: str) -> None:
    """Remove indexes without a segment. `LogLoader.loadSegmentFiles`."""
    names = disk.list(folder)
    bases = {match[1] for name in names if (match := SEGMENT.fullmatch(name))}
    for name in names:
        match = _FILE.fullmatch(name)
        if match and match[2] in INDEX_SUFFIXES and match[1] not in bases:
            disk.remove(f"{folder}/{name}")
