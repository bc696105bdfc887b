"""Types of the model's text, as far as printing TLA+ depends on them."""

from __future__ import annotations

import typing
from dataclasses import is_dataclass
from typing import Any

from model.language import Map, Set


def kind_of(hint: Any) -> str:
    """Return the kind of a type: bool, int, tuple, map, set, record, or open if it is not known."""
    if typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    origin = typing.get_origin(hint) or hint
    if not isinstance(origin, type):
        return "open"
    if origin in (Map, Set):
        return "map" if origin is Map else "set"
    if origin in (bool, tuple):
        return origin.__name__
    if issubclass(origin, int):
        return "int"
    return "record" if is_dataclass(origin) else "open"


def arguments_of(hint: Any) -> tuple[Any, ...]:
    """Return the types that a type is made of: `(X, ...)` of `tuple[X, ...]`."""
    if typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    return typing.get_args(hint)


def element_of(hint: Any) -> Any:
    """Return the type of a tuple's elements or of a map's values; None if not known."""
    inner = arguments_of(hint)
    if len(inner) < 2:
        return None
    return inner[0] if kind_of(hint) == "tuple" else inner[1]


def tuple_of(hint: Any) -> Any:
    """Return the type of tuples of such elements."""
    return tuple if hint is None else tuple[hint, ...]


def field_type(hint: Any, name: str) -> Any:
    """Return the type of a record's field; KeyError if it has no such field.

    Type variables are identified by name, because those of a patched model's classes differ from
    those that the hints name.
    """
    cls = typing.get_origin(hint) or hint
    # The namespace the class was made in: a loaded model's modules are not in sys.modules.
    namespace = cls.__init__.__globals__
    declared = typing.get_type_hints(cls, namespace, include_extras=True)[name]
    names = [p.__name__ for p in getattr(cls, "__parameters__", ())]
    given = dict(zip(names, typing.get_args(hint), strict=False))
    if isinstance(declared, typing.TypeVar):
        return given.get(declared.__name__)
    free = getattr(declared, "__parameters__", ())
    return declared[tuple(given[p.__name__] for p in free)] if free and given else declared
