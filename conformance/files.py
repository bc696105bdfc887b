"""Files that are whole or not there at all, whenever the process is killed."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Busy(ValueError):
    """Another run is at work in the directory."""


def write_whole(path: Path, text: str) -> None:
    """Put `text` into the file at once: a reader sees the old content or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    with fresh.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def pretty(value: Any) -> str:
    """JSON for people and programs: sorted keys, so that equal values are equal bytes."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def digest(text: str) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def alone_in(directory: Path) -> Iterator[None]:
    """One run at a time; the lock goes with its process. Raises Busy."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Busy(
                f"another run is at work in {directory}; wait, or use another --out"
            ) from error
        yield
