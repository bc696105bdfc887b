"""Tombstones of coordinators: too many for one batch are several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def chunks(
    items: Iterable[T], limit_bytes: int, *, key_size: Callable[[T], int]
) -> Iterator[tuple[T, ...]]:
    """Items in order, in groups whose keys fit into one batch, at least one item each."""
    chunk: list[T] = []
    size = 0
    for item in items:
        size += key_size(item)
        if chunk and size > limit_bytes:
            yield tuple(chunk)
            chunk, size = [], key_size(item)
        chunk.append(item)
    if chunk:
        yield tuple(chunk)
