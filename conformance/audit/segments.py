"""Partitions in log directories of brokers: a folder `TOPIC-PARTITION` each, of segments `*.log`.

Indexes are ignored. Folders that a broker is about to delete, or that move between directories, are
left out. Where several directories hold replicas of a partition, the longest is audited.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from proofs.run import BadUse

FOLDER: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)")
SEGMENT: Final = re.compile(r"\d{20}\.log")


class PartitionSource(NamedTuple):
    """The segments of one partition, in their order; `replicas` counts the folders of it."""

    topic: str
    partition: int
    folder: str
    segments: tuple[str, ...]
    bytes: int
    replicas: int = 1

    @property
    def paths(self) -> Iterator[Path]:
        """The files."""
        return (Path(self.folder) / name for name in self.segments)

    @property
    def end(self) -> tuple[str, int]:
        """Which of two replicas is longer: the last segment's name, then the bytes."""
        return (self.segments[-1], self.bytes)


def find_partitions(
    directories: Iterable[Path], topics: str | None = None
) -> list[PartitionSource]:
    """All partitions of topics whose name matches, by name. Raises BadUse where there are none."""
    given = list(directories)
    found = dict[tuple[str, int], PartitionSource]()
    for log in (log for directory in given for log in logs_in(directory)):
        known = found.get(log[:2])
        longest = log if known is None else max(known, log, key=lambda one: one.end)
        found[log[:2]] = longest._replace(replicas=1 if known is None else known.replicas + 1)
    named = [found[key] for key in sorted(found) if topics is None or re.fullmatch(topics, key[0])]
    if not named:
        places = ", ".join(map(str, given))
        raise BadUse(f"no partition in {places}: --log-dir names a folder of TOPIC-N/*.log")
    return named


def logs_in(directory: Path) -> Iterator[PartitionSource]:
    """The partitions of one log directory, or the one that the directory is. Raises BadUse."""
    if not directory.is_dir():
        raise BadUse(f"--log-dir {directory}: there is no such folder")
    for folder in (directory, *sorted(directory.iterdir())):
        name = FOLDER.fullmatch(folder.name)
        if name is None or not folder.is_dir():
            continue
        files = sorted(path for path in folder.iterdir() if SEGMENT.fullmatch(path.name))
        if files:
            yield PartitionSource(
                name["topic"],
                int(name["partition"]),
                str(folder),
                tuple(path.name for path in files),
                sum(path.stat().st_size for path in files),
            )
