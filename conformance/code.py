"""Which code judged: results of other code are not gone on with."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

PACKAGES: Final = ("model", "proofs", "impl", "conformance")
SUFFIXES: Final = frozenset((".py", ".c", ".h"))


def package_folder(name: str, roots: Sequence[Path]) -> Path:
    """The folder of one of our packages, from the first root that has it."""
    return next(root / name for root in roots if (root / name).is_dir())


def code_digest(roots: Sequence[Path]) -> str:
    """One hash of all our source, wherever it is installed."""
    total = hashlib.sha256()
    for name in PACKAGES:
        folder = package_folder(name, roots)
        for path in sorted(p for p in folder.rglob("*") if p.suffix in SUFFIXES):
            total.update(f"{name}/{path.relative_to(folder).as_posix()}\0".encode())
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()
