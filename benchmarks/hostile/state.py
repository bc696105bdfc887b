"""What a node knows, as one number: it is the same as long as nothing in the node has changed.

Every object that the node reaches is walked, field by field: logs with their bytes, producers,
transactions, groups, topics, ACLs, timers. Nothing has to be named here to be watched; what may
change without meaning is named in `IGNORED`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Set
from enum import Enum
from hashlib import blake2b
from typing import Any, Final

from impl import Node

IGNORED: Final = frozenset({"_correlation_ids", "_due_ms", "verifications", "_last_guard"})
"""Fields that a refused request may change, as in Kafka: the next number of a request to another
broker, when periodic checks are due, and which producers were asked about at their coordinator."""
_PLAIN: Final = (int, str, bytes, float, type(None), Enum)
_SEQUENCES: Final = (list, tuple, deque)


def fingerprint(node: Node) -> bytes:
    """A digest of all that the node holds."""
    digest = blake2b(digest_size=16)
    for piece in _walk(node, {}):
        digest.update(piece)
    return digest.digest()


def _walk(value: Any, seen: dict[int, int]) -> Iterator[bytes]:
    """The pieces of a value; an object that was met before is its number."""
    if isinstance(value, _PLAIN):
        yield repr(value).encode()
        return
    number = seen.setdefault(id(value), len(seen))
    if number < len(seen) - 1:
        yield b"#%d" % number
        return
    yield type(value).__name__.encode()
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _walk(key, seen)
            yield from _walk(part, seen)
    elif isinstance(value, Set):
        yield from sorted(b"".join(_walk(part, {})) for part in value)
    elif isinstance(value, _SEQUENCES):
        for part in value:
            yield from _walk(part, seen)
    elif isinstance(value, (bytearray, memoryview)):
        yield bytes(value)
    elif not callable(value):
        for name in _fields(value):
            yield name.encode()
            yield from _walk(getattr(value, name, None), seen)


def _fields(value: Any) -> list[str]:
    slots = [name for kind in type(value).__mro__ for name in (vars(kind).get("__slots__") or ())]
    return [name for name in (*slots, *getattr(value, "__dict__", ())) if name not in IGNORED]
