"""Packs a real broker's directory and its answers into one small file.

The file is a `.tar.xz` with `about.json` and the log directories. Kafka's files are mostly zeros,
so the archive has a few kilobytes.
"""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final

from conformance.campaigns.directories.kafka_directory import KafkaDirectory
from conformance.campaigns.directories.questions import Answers

SUFFIX: Final = ".tar.xz"
MAX_BYTES: Final = 100 * 1024
_ABOUT: Final = "about.json"


class TooLarge(ValueError):
    """The directory is too large for a repository: its scenario must be smaller."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A directory that was unpacked; `stopped_ms` is the time when its broker was stopped."""

    scenario: str
    release: str
    stopped_ms: int
    answers: Answers
    folders: tuple[Path, ...]


def record(made: KafkaDirectory, folder: Path) -> Path:
    """Pack a directory into a file in `folder`; returns its path. Raises `TooLarge`."""
    about = {
        "scenario": made.scenario.name,
        "release": made.release,
        "stopped_ms": made.stopped_ms,
        "folders": [path.name for path in made.folders],
        "answers": made.answers,
    }
    path = folder / f"{made.scenario.name}-{made.release}{SUFFIX}"
    text = json.dumps(about, sort_keys=True).encode()
    with tarfile.open(path, "w:xz", preset=9) as packed:
        entry = tarfile.TarInfo(_ABOUT)
        entry.size = len(text)
        packed.addfile(entry, BytesIO(text))
        for each in made.folders:
            packed.add(each, each.name, filter=_anonymous)
    if path.stat().st_size > MAX_BYTES:
        raise TooLarge(f"{path} has {path.stat().st_size} bytes, at most {MAX_BYTES} are kept")
    return path


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """The entry without the name of this machine's user."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def unpack(path: Path, folder: Path) -> Recorded:
    """Unpack a file that `record` has packed, with its files in `folder`."""
    with tarfile.open(path) as packed:
        packed.extractall(folder, filter="data")
    about = json.loads((folder / _ABOUT).read_text())
    folders = tuple(folder / name for name in about["folders"])
    return Recorded(
        about["scenario"], about["release"], about["stopped_ms"], about["answers"], folders
    )
