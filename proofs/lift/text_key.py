"""A key for all text that the results of lifting depend on: the model's, and the lifter's own."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path

from proofs.lift.source import Model, model_folder

LIFTED_FROM = ("lift", "explore", "trace")
"""The folders of `proofs` that read the model's text, or explore what was read."""


def text_key(model: Model) -> str:
    """Return the key of a model with its patches, of the language, and of the lifter and the
    explorer."""
    return key_of(files_key(), model.package, repr(model.patches))


def key_of(*parts: str) -> str:
    """Return a hash of some texts in their order."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]


@functools.cache
def files_key() -> str:
    """Return the key of the files as they were at the first call."""
    return key_of(*(f"{path.name}\0{path.read_text(encoding='utf-8')}" for path in files()))


def files() -> Iterator[Path]:
    """Yield the files that count, in a fixed order."""
    yield from sorted(model_folder().rglob("*.py"))
    for folder in LIFTED_FROM:
        below = Path(__file__).parent.parent / folder
        yield from sorted(path for path in below.iterdir() if path.suffix in (".py", ".c", ".h"))
