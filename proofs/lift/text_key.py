"""A key for all text that what is lifted depends on: the model's, and the lifter's own."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path

from proofs.lift.source import Model, model_folder

LIFTED_FROM = ("lift", "explore", "trace")
"""The folders of `proofs` that read the model's text and search in what they read."""


def text_key(model: Model) -> str:
    """The key of a model with its patches, of the language, and of what lifts and explores."""
    return key_of(files_key(), model.package, repr(model.patches))


def key_of(*parts: str) -> str:
    """A short text that stands for some texts in their order."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]


@functools.cache
def files_key() -> str:
    """The key of the files as they were when they were first asked for."""
    return key_of(*(f"{path.name}\0{path.read_text(encoding='utf-8')}" for path in files()))


def files() -> Iterator[Path]:
    """The files that count, in a fixed order."""
    yield from sorted(model_folder().rglob("*.py"))
    for folder in LIFTED_FROM:
        below = Path(__file__).parent.parent / folder
        yield from sorted(path for path in below.iterdir() if path.suffix in (".py", ".c", ".h"))
