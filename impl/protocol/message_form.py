"""One message in one version, and what its codec says of bytes and values that it refuses.

Three rules:

1. Bytes that cannot be read are a `DecodeError` with their position.
2. A value that cannot be written is an `EncodeError` with the path of its first invalid field.
3. Nothing here runs for a message that can be read or written.

Theory of operation: a codec notices that something is wrong, not what. It calls a method of its
`MessageForm`, which walks the value along the table of schemas.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from impl.protocol.errors import (
    DecodeError,
    EncodeError,
    InvalidField,
    InvalidText,
    MissingField,
    TrailingBytes,
    TruncatedFrame,
)
from impl.protocol.schemas import (
    MESSAGES,
    REQUIRED,
    Field,
    MessageSchema,
    request_header_version,
    response_header_version,
)

Value = dict[str, Any]
"""A message or struct: plain dict, snake_case keys in Kafka's words."""

UNKNOWN_TAGS: Final = "unknown_tagged_fields"
"""The key under which a struct keeps tagged fields that the table lacks, as `{tag: bytes}`."""

_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


class MessageForm(NamedTuple):
    """A message in one version: the schemas of its header and its body."""

    header: MessageSchema
    header_version: int
    body: MessageSchema
    version: int

    @property
    def has_flexible_header(self) -> bool:
        """Whether the header ends in tagged fields."""
        return self.header_version >= self.header.flexible

    @property
    def is_flexible(self) -> bool:
        """Whether lengths of the body are compact, and its structs end in tagged fields."""
        return self.version >= self.body.flexible

    @property
    def may_trail(self) -> bool:
        """Whether bytes after the last field are ignored, as Kafka does with requests."""
        return self.header.name == "request_header"

    def truncated(self, end: int) -> DecodeError:
        """The bytes end before the message."""
        return TruncatedFrame(f"{self.body.name} v{self.version} needs more bytes", end)

    def bad_text(self, error: UnicodeDecodeError, position: int) -> DecodeError:
        """A string at `position` is no UTF-8."""
        return InvalidText(f"{self.body.name}: {error.reason}", position + error.start)

    def trailing(self, count: int, position: int) -> DecodeError:
        """Bytes follow the last field."""
        return TrailingBytes(f"{count} bytes after {self.body.name} v{self.version}", position)

    def refusal(self, header: Value, value: Any, error: Exception) -> EncodeError:
        """Why header and body cannot be written, which failed with `error`."""
        return (
            _invalid_field(self.header.fields, self.header_version, False, header, self.header.name)
            or _invalid_field(
                self.body.fields, self.version, self.is_flexible, value, self.body.name
            )
            or InvalidField(str(error), self.body.name)
        )


_HEADER_VERSIONS: Final = {"request": request_header_version, "response": response_header_version}


def form_of(direction: str, api_key: int, api_version: int) -> MessageForm:
    """That of a "request" or "response"."""
    return MessageForm(
        MESSAGES["header", direction],
        _HEADER_VERSIONS[direction](api_key, api_version),
        MESSAGES[api_key, direction],
        api_version,
    )


def _invalid_field(
    fields: tuple[Field, ...], version: int, flexible: bool, value: Any, path: str
) -> EncodeError | None:
    """The first field of `value` that cannot be written, as the error to raise, or None."""
    if not isinstance(value, dict):
        return InvalidField(f"{type(value).__name__} is not a dict", path)
    for field in fields:
        if version not in field.versions:
            continue
        where = f"{path}.{field.name}"
        if field.name not in value:
            if field.default is REQUIRED:
                return MissingField("is missing", where)
            continue
        problem = _invalid_value(field, version, flexible, value[field.name], where)
        if problem is not None:
            return problem
    tags = value.get(UNKNOWN_TAGS, {})
    if not isinstance(tags, dict) or not all(
        isinstance(tag, int) and tag >= 0 and isinstance(raw, bytes) for tag, raw in tags.items()
    ):
        return InvalidField("is not {tag: bytes}", f"{path}.{UNKNOWN_TAGS}")
    return None


def _invalid_value(
    field: Field, version: int, flexible: bool, value: Any, where: str
) -> EncodeError | None:
    if value is None:
        return None if version in field.nullable else InvalidField("may not be null", where)
    if not field.is_array:
        return _invalid_scalar(field, version, flexible, value, where)
    if not isinstance(value, list | tuple):
        return InvalidField(f"{type(value).__name__} is not a list", where)
    for index, item in enumerate(value):
        problem = _invalid_scalar(field, version, flexible, item, f"{where}[{index}]")
        if problem is not None:
            return problem
    return None


def _is_writable_text(text: str, compact: bool) -> bool:
    try:
        return len(text.encode()) < (1 << 31 if compact else 1 << 15)
    except UnicodeEncodeError:
        return False


def _invalid_scalar(
    field: Field, version: int, flexible: bool, value: Any, where: str
) -> EncodeError | None:
    if field.kind == "struct":
        return _invalid_field(field.fields, version, flexible, value, where)
    if field.kind in _BITS:
        half = 1 << _BITS[field.kind] - 1
        fits = isinstance(value, int) and -half <= value < half
    elif field.kind == "uint16":
        fits = isinstance(value, int) and 0 <= value < 1 << 16
    elif field.kind == "float64":
        fits = isinstance(value, float | int)
    elif field.kind in ("string", "classic"):
        fits = isinstance(value, str) and _is_writable_text(
            value, flexible and field.kind == "string"
        )
    elif field.kind == "uuid":
        fits = isinstance(value, bytes) and len(value) == 16
    else:
        fits = field.kind == "bool" or isinstance(value, bytes)
    return None if fits else InvalidField(f"{value!r:.80} is no {field.kind}", where)
