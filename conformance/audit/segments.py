"""Partitions in log directories of brokers: a folder `TOPIC-PARTITION` each, of segments `*.log`.

Directories are local folders, or folders at a URI that Arrow knows; workers read them themselves.

Indexes are ignored. Folders that a broker is about to delete, or that move between directories, are
left out. If several directories have replicas of a partition, the longest replica is audited.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from pyarrow import fs

from conformance.judging.file_systems import find_folder
from impl.storage.log_directory import CLEAN_SHUTDOWN
from proofs.run import BadUse

OPTION: Final = "--log-dir"

FOLDER: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)")
SEGMENT: Final = re.compile(r"\d{20}\.log")


class PartitionSource(NamedTuple):
    """The segments of one partition, in order, in a folder or at a URI. `replicas` counts the
    folders of the partition; `modified_ns` is the time of the last change, 0 if unknown."""

    topic: str
    partition: int
    folder: str
    segments: tuple[str, ...]
    bytes: int
    replicas: int = 1
    modified_ns: int = 0

    def read(self) -> Iterator[memoryview]:
        """The content of each segment. Raises OSError, BadUse."""
        files, folder = find_folder(OPTION, self.folder)
        for name in self.segments:
            with files.open_input_file(f"{folder}/{name}") as file:
                yield memoryview(file.read_buffer())

    @property
    def end(self) -> tuple[str, int]:
        """Orders replicas by length: the last segment's name, then the bytes."""
        return (self.segments[-1], self.bytes)


NAMED: Final = 20
"""The most topics that an error message names."""


def no_such_topic(topics: str | None, where: str, names: Iterable[str]) -> BadUse:
    """The error for an expression that matches no topic, with the names of existing topics."""
    known = sorted(names)
    more = [f"and {len(known) - NAMED:,} more"] if len(known) > NAMED else []
    return BadUse(
        f"no topic of {where} matches --topics {topics!r} as a whole; there are:"
        f" {', '.join([*known[:NAMED], *more]) or 'none'}"
    )


def find_partitions(directories: Iterable[str], topics: str | None = None) -> list[PartitionSource]:
    """All partitions of topics with matching names, sorted by name. Raises BadUse if there are
    none."""
    given = list(directories)
    found = dict[tuple[str, int], PartitionSource]()
    for log in (log for directory in given for log in logs_in(directory.rstrip("/"))):
        known = found.get(log[:2])
        longest = log if known is None else max(known, log, key=lambda one: one.end)
        found[log[:2]] = longest._replace(replicas=1 if known is None else known.replicas + 1)
    named = [found[key] for key in sorted(found) if topics is None or re.fullmatch(topics, key[0])]
    places = ", ".join(given)
    if found and not named:
        raise no_such_topic(topics, places, {topic for topic, _ in found})
    if not named:
        raise BadUse(f"no partition in {places}: {OPTION} names a folder of TOPIC-N/*.log")
    return named


def logs_in(directory: str) -> Iterator[PartitionSource]:
    """The partitions of a log directory; if the folder is itself a partition, that one. Raises
    BadUse."""
    files, root = find_folder(OPTION, directory)
    try:
        there = files.get_file_info(root)
        inside = files.get_file_info(fs.FileSelector(root)) if is_folder(there) else None
    except OSError as error:
        raise BadUse(f"{OPTION} {directory}: {error}") from error
    if inside is None:
        raise BadUse(f"{OPTION} {directory}: there is no such folder")
    for folder in (there, *sorted(inside, key=lambda one: one.base_name)):
        name = FOLDER.fullmatch(folder.base_name)
        if name is None or not is_folder(folder):
            continue
        segments = files.get_file_info(fs.FileSelector(folder.path))
        segments = [one for one in segments if one.is_file and SEGMENT.fullmatch(one.base_name)]
        if segments:
            yield PartitionSource(
                name["topic"],
                int(name["partition"]),
                directory if folder is there else f"{directory}/{folder.base_name}",
                tuple(sorted(one.base_name for one in segments)),
                sum(one.size for one in segments),
                modified_ns=max(one.mtime_ns or 0 for one in segments),
            )


def was_stopped_cleanly(directory: str) -> bool:
    """Whether a broker shut down cleanly in this log directory; the folder of a partition cannot
    say so.

    Raises BadUse. `LogManager.CLEAN_SHUTDOWN_FILE`.
    """
    files, root = find_folder(OPTION, directory.rstrip("/"))
    if FOLDER.fullmatch(Path(root).name):
        return True
    return bool(files.get_file_info(f"{root}/{CLEAN_SHUTDOWN}").is_file)


def is_folder(found: fs.FileInfo) -> bool:
    """Whether it exists, and is a folder."""
    return bool(found.type == fs.FileType.Directory)
