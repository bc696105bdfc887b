"""The cache folder: files are made once, shared by processes, and never seen incomplete."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder of jars, archives and units: KAFKA_EOS_CACHE, else XDG's cache folder."""
    named = os.environ.get("KAFKA_EOS_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-eos"


def make_once(target: Path, make: Callable[[Path], None]) -> Path:
    """Return `target`, a folder. If it is missing, `make` fills an empty folder that becomes
    `target`.

    Other processes that want the same folder wait. If `make` raises, nothing is left behind.
    """
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.with_name(f"{target.name}.lock")):
        if not target.exists():
            draft = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
            try:
                make(draft)
                draft.rename(target)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
    return target


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed
        yield
