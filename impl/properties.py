"""Files of properties, as Java writes and reads them. Source: `java.util.Properties.load`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_PROPERTY: Final = re.compile(r"((?:[^\\=: \t\f]|\\.)+)(?:[ \t\f]*[=:]|[ \t\f])(.*)")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


class InvalidProperty(ValueError):
    """A line that is no property."""


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """A file of properties whose names and values need no escapes."""
    return "".join(f"{key}={value}\n" for key, value in properties.items()).encode()


def decode_properties(data: bytes) -> dict[str, str]:
    """The properties of a file in UTF-8; lines that begin with # or ! are comments.

    Raises `InvalidProperty`, also for a line without a separator, which Java takes for a name.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InvalidProperty(f"properties begin {data[:40]!r}") from error
    properties = {}
    for line in _join_lines(text):
        found = _PROPERTY.fullmatch(line)
        if found is None:
            raise InvalidProperty(f"{line[:40]!r} is no property")
        name, value = (_ESCAPE.sub(_unescape, part.strip()) for part in found.groups())
        properties[name] = value
    return properties


def _join_lines(text: str) -> Iterator[str]:
    """The lines of a text without comments; one that ends with a backslash goes on in the next."""
    lines = iter(_LINE_END.split(text))
    for line in lines:
        joined = line.strip()
        if not joined or joined[0] in "#!":
            continue
        while (len(joined) - len(joined.rstrip("\\"))) % 2:
            joined = joined[:-1] + next(lines, "").strip()
        yield joined


def _unescape(found: re.Match[str]) -> str:
    escaped = found[1]
    return chr(int(escaped[1:], 16)) if len(escaped) > 1 else _ESCAPED.get(escaped, escaped)
