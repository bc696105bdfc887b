"""Model values as plain data, which traces, reports and pictures show, and digests hash.

A record becomes an object, a map an object by key, a set a sorted list, a tuple a list, an enum its
name. Equal values have equal projections, whichever copy of the model they come from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from model.faults import counts_faults
from model.language import Map, Set

DIGEST_LENGTH = 12
"""Hex digits of a digest: 48 bits are enough, as digests compare a state with one other, never with
many."""


def elements(value: Set[Any]) -> list[int]:
    """Return the elements of a `Set`, ascending."""
    bits: int = value.__reduce__()[1][0]
    return [i for i in range(bits.bit_length()) if bits >> i & 1]


def project(value: Any) -> Any:
    """Return the value as JSON-able data. Raises TypeError for what is not a value of the model."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, (bool, int)):
        return value
    if isinstance(value, Map):
        return {str(key): project(inner) for key, inner in value.items()}
    if isinstance(value, Set):
        return elements(value)
    if isinstance(value, tuple):
        return [project(inner) for inner in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: project(getattr(value, f.name)) for f in fields(value)}
    raise TypeError(f"{value!r} is not a value of the model")


def digest(value: Any) -> str:
    """Return a short hash of the value's projection, equal on all machines."""
    text = json.dumps(project(value), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]


def places(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values of a map, and of maps within it, each with its place: `links[0][1]`."""
    if isinstance(value, Map):
        for key, inner in value.items():
            yield from places(f"{name}[{key}]", inner)
    else:
        yield name, value


def acts(world: Any, value: Any) -> bool:
    """Whether a value is a record with rules of its own: not a count of faults, and not a record
    that the world's module defines for guarantees."""
    if not is_dataclass(value) or counts_faults(value):
        return False
    return type(value).__module__ not in (type(world).__module__, "model.language")


def actors(world: Any) -> dict[str, Any]:
    """Return actors and links by place: everything in the world except what only counts for a
    budget."""
    values = ((f.name, getattr(world, f.name)) for f in fields(world))
    return {
        place: value
        for name, inner in values
        if isinstance(inner, Map) or acts(world, inner)
        for place, value in places(name, inner)
    }


def digests(world: Any) -> dict[str, str]:
    """Return the digest of each actor and link."""
    return {place: digest(value) for place, value in actors(world).items()}
