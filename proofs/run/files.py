"""Writes files so that they are complete or absent, whenever the process is killed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).resolve().parents[2]
"""The folder that holds our packages."""

PACKAGES: Final = ("model", "proofs", "impl", "conformance")

SOURCES: Final = frozenset((".py", ".c", ".h", ".go", ".java", ".js", ".toml", ".story"))


def write_whole(path: Path, text: str) -> None:
    """Replace the content of a file at once: a reader sees the old content or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    with fresh.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def pretty(value: Any) -> str:
    """Return JSON for people and programs; sorted keys make equal values equal bytes."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def line(value: Any) -> str:
    """Return canonical JSON on one line: equal values give equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def write_json(path: Path | None, value: Any) -> None:
    """Write a report to the file of `--json`, if one is given."""
    if path is not None:
        write_whole(path, pretty(value))


def digest(text: str) -> str:
    """Return SHA-256 in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def code_digest(packages: Iterable[str] = PACKAGES) -> str:
    """Return one hash of the source of some of our packages, wherever they are installed."""
    total = hashlib.sha256()
    for folder in (REPOSITORY / name for name in packages):
        for path in sorted(p for p in folder.rglob("*") if p.suffix in SOURCES):
            total.update(f"{path.relative_to(REPOSITORY).as_posix()}\0".encode())
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()
