"""The codecs of hot messages as a module, which is compiled with the others (`setup.py`).

Four rules:

1. Messages are those that carry records, in their flexible versions; all others stay as they are.
2. A codec does what that of `codegen` does, with the same errors.
3. Structs and arrays have a function each, which versions share where its text is the same.
4. The module is made where `impl` is compiled, and is never kept beside its source.

Theory of operation: in Python one `struct` call for many fields is fastest. Compiled code reads and
writes each by a function of `native_primitives`, without an object of the position or the bytes. So
a field is one expression here, or one statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from impl.protocol.codegen import null_mark
from impl.protocol.message_form import MessageForm, form_of
from impl.protocol.schemas import MESSAGES, REQUIRED, ApiKey, Field

HOT: Final = (ApiKey.PRODUCE, ApiKey.FETCH)

_HEAD: Final = '''"""Codecs of hot messages, made by `impl.protocol.native_codegen`."""

from collections.abc import Callable
from typing import Any, Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from impl.protocol.codegen import WRITE_ERRORS
from impl.protocol.message_form import UNKNOWN_TAGS, MessageForm, Value
from impl.protocol.native_primitives import (
    FrameReader,
    join_parts,
    write_boolean,
    write_bytes,
    write_compact_length,
    write_compact_nullable_string,
    write_compact_string,
    write_float64,
    write_int8,
    write_int16,
    write_int32,
    write_int64,
    write_known_tags,
    write_nullable_string,
    write_string,
    write_tags,
    write_uint16,
    write_uuid,
)
'''

_FUNCTION: Final = """
def {name}({arguments}) -> {returned}:
{lines}
"""

_DECODE: Final = """
def {name}(form: MessageForm, data: bytes) -> tuple[Value, Value]:
    c = FrameReader(data)
    try:
        head = {head}(c)
        body = {body}(c)
    except IndexError:
        raise form.truncated(c.end) from None
    except UnicodeDecodeError as error:
        raise form.bad_text(error, c.position) from None
{end}    return head, body
"""
_CHECK_END: Final = """    if c.position != c.end:
        raise form.trailing(c.end - c.position, c.position)
"""

_ENCODE: Final = """
def {name}(form: MessageForm, {arguments}, value: Any) -> bytes:
    o = BytesWriter()
    parts: list[bytes] = []
    head: Value = {head}
    try:
        {write_head}(o, parts, head)
        {write_body}(o, parts, value)
    except WRITE_ERRORS as error:
        raise form.refusal(head, value, error) from error
    return join_parts(parts, o)
"""


_SCALARS: Final = {
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
    "uint16": "uint16",
    "float64": "float64",
    "bool": "boolean",
    "uuid": "uuid",
}
"""By type: the method of `FrameReader`, and the end of a writer's name."""


class _Module:
    """The text of a module: functions by what they do, under short names."""

    def __init__(self) -> None:
        self._parts = [_HEAD]
        self._names: dict[tuple[str, ...], str] = {}

    def define(self, template: str, **parts: str) -> str:
        """The name of the function, or constant, which is added unless it is there."""
        key = template, *parts.values()
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = f"_{len(self._names)}"
            self._parts.append(template.format(name=name, **parts))
        return name

    def text(self) -> str:
        """The module."""
        return "\n".join(self._parts)


class _Walk:
    """One version of the fields of a header or a body."""

    def __init__(self, module: _Module, version: int, flexible: bool) -> None:
        self.module = module
        self.version = version
        self.flexible = flexible

    def present(self, fields: Iterable[Field], *, tagged: bool = False) -> Iterator[Field]:
        """The fields of this version."""
        for field in fields:
            if self.version in field.versions and (field.tag is not None) == tagged:
                yield field

    def may_be_null(self, field: Field) -> bool:
        """In this version."""
        return self.version in field.nullable

    def define(self, arguments: str, returned: str, lines: Iterable[str]) -> str:
        """The name of a function."""
        body = "\n".join(f"    {line}" for line in lines)
        return self.module.define(_FUNCTION, arguments=arguments, returned=returned, lines=body)


class _Decoding(_Walk):
    """Makes functions of a `FrameReader` to what was read."""

    def struct(self, fields: tuple[Field, ...], path: str) -> str:
        """The function that reads a struct."""
        present = {field.name for field in self.present(fields)}
        lines = ["d: Value = {"]
        for field in fields:
            value = (
                self.value(field, path + field.name)
                if field.name in present
                else repr(field.absent)
            )
            lines.append(f"    {field.name!r}: {value},")
        lines += ["}", *self.tags(fields, path), "return d"]
        return self.define("c: FrameReader", "Value", lines)

    def value(self, field: Field, path: str) -> str:
        """The expression that reads a field."""
        if field.is_array:
            return f"{self.array(field, path)}(c)"
        if field.kind in _SCALARS:
            return f"c.{_SCALARS[field.kind]}()"
        if field.kind == "struct":
            read = f"{self.struct(field.fields, path + '.')}(c)"
            if self.may_be_null(field):
                return f"None if c.int8() <= {null_mark(field)} else {read}"
            return read
        read = "raw" if field.kind == "bytes" else "text"
        width = "int32" if field.kind == "bytes" else "int16"
        length = "compact_length" if self.flexible and field.kind != "classic" else width
        null = "nullable_" * self.may_be_null(field)
        return f"c.{null}{read}({path!r}, c.{length}())"

    def array(self, field: Field, path: str) -> str:
        """The function that reads an array."""
        length = f"{path!r}, c.{'compact_length' if self.flexible else 'int32'}()"
        element = f"items.append({self.value(field.element, path + '[]')})"
        read = ["items: list[Any] = []", "for _ in range(count):", f"    {element}", "return items"]
        if not self.may_be_null(field):
            return self.define("c: FrameReader", "list[Any]", [f"count = c.items({length})", *read])
        null = [f"count = c.nullable_items({length})", "if count < 0:", "    return None"]
        return self.define("c: FrameReader", "Any", [*null, *read])

    def tags(self, fields: tuple[Field, ...], path: str) -> list[str]:
        """The lines that read the tagged fields of `d`."""
        if not self.flexible:
            return []
        known = list(self.present(fields, tagged=True))
        return self.known_tags(known, path) if known else ["c.unknown_tags(d)"]

    def known_tags(self, known: Iterable[Field], path: str) -> list[str]:
        """The same where some are known."""
        lines = []
        for field in known:
            where = path + field.name
            lines += [
                f"        if tag == {field.tag}:",
                f"            d[{field.name!r}] = {self.value(field, where)}",
                f"            c.check_tag({where!r}, end)",
                "            continue",
            ]
        return [
            "count = c.tags()",
            "if count:",
            "    unknown: dict[int, bytes] = {}",
            "    tag: i64 = -1",
            "    for _ in range(count):",
            "        tag, end = c.tag(tag)",
            *lines,
            "        unknown[tag] = c.rest_of_tag(end)",
            "    if unknown:",
            "        d[UNKNOWN_TAGS] = unknown",
        ]


_WRITER: Final = "o: BytesWriter, parts: list[bytes], "


class _Encoding(_Walk):
    """Makes functions that write a value to a buffer."""

    def struct(self, fields: tuple[Field, ...]) -> str:
        """The function that writes a struct."""
        lines = [
            line for field in self.present(fields) for line in self.write(field, self.read(field))
        ]
        return self.define(_WRITER + "d: Value", "None", [*lines, *self.tags(fields)] or ["pass"])

    def read(self, field: Field) -> str:
        """The expression that takes a field from `d`."""
        if field.default is REQUIRED:
            return f"d[{field.name!r}]"
        return f"d.get({field.name!r}, {field.default!r})"

    def write(self, field: Field, value: str, out: str = "o, parts") -> list[str]:
        """The lines that write a field."""
        buffer = out.split(",")[0]
        if field.is_array:
            return [f"{self.array(field)}({out}, {value})"]
        if field.kind in _SCALARS:
            return [f"write_{_SCALARS[field.kind]}({buffer}, {value})"]
        if field.kind == "struct":
            return self.nested(field, value, out)
        is_compact = self.flexible and field.kind != "classic"
        if field.kind == "bytes":
            return [f"{self.sized_bytes(field, is_compact)}({out}, {value})"]
        name = "compact_" * is_compact + "nullable_" * self.may_be_null(field) + "string"
        return [f"write_{name}({buffer}, {value})"]

    def nested(self, field: Field, value: str, out: str) -> list[str]:
        """A struct; one that may be null follows a byte: 1, or `null_mark`."""
        write = f"{self.struct(field.fields)}({out}, "
        if not self.may_be_null(field):
            return [f"{write}{value})"]
        return [
            f"{field.name}: Any = {value}",
            f"write_int8({out.split(',')[0]}, {null_mark(field)} if {field.name} is None else 1)",
            f"if {field.name} is not None:",
            f"    {write}{field.name})",
        ]

    def sized_bytes(self, field: Field, is_compact: bool) -> str:
        """The function that writes bytes behind their length."""
        write = "write_compact_length(o, " if is_compact else "write_int32(o, "
        lines = [f"{write}len(value))", "write_bytes(o, parts, value)"]
        if not self.may_be_null(field):
            return self.define(_WRITER + "value: bytes", "None", lines)
        null = ["if value is None:", f"    {write}-1)", "    return"]
        return self.define(_WRITER + "value: bytes | None", "None", [*null, *lines])

    def array(self, field: Field) -> str:
        """The function that writes an array."""
        write = "write_compact_length(o, " if self.flexible else "write_int32(o, "
        element = [f"    {line}" for line in self.write(field.element, "item")]
        lines = [f"{write}len(items))", "for item in items:", *element]
        if self.may_be_null(field):
            lines = ["if items is None:", f"    {write}-1)", "    return", *lines]
        return self.define(_WRITER + "items: Any", "None", lines)

    def tags(self, fields: tuple[Field, ...]) -> list[str]:
        """The lines that write the tagged fields of `d`: those that differ from their defaults."""
        if not self.flexible:
            return []
        known = list(self.present(fields, tagged=True))
        if not known:
            return ["write_tags(o, d)"]
        lines = ["tags: dict[int, bytes] = {}"]
        for field in known:
            default = self.module.define("{name}: Final[Any] = {value}", value=repr(field.default))
            value, out, parts = f"v{field.tag}", f"o{field.tag}", f"p{field.tag}"
            lines += [
                f"{value}: Any = d.get({field.name!r}, {default})",
                f"if {value} is not {default} and {value} != {default}:",
                f"    {out} = BytesWriter()",
                f"    {parts}: list[bytes] = []",
                *(f"    {line}" for line in self.write(field, value, f"{out}, {parts}")),
                f"    tags[{field.tag}] = join_parts({parts}, {out})",
            ]
        return [*lines, "write_known_tags(o, tags, d)"]


def _decoder(module: _Module, form: MessageForm) -> str:
    header = _Decoding(module, form.header_version, form.has_flexible_header)
    body = _Decoding(module, form.version, form.is_flexible)
    return module.define(
        _DECODE,
        head=header.struct(form.header.fields, f"{form.header.name} "),
        body=body.struct(form.body.fields, f"{form.body.name} "),
        end="" if form.may_trail else _CHECK_END,
    )


def _encoder(module: _Module, form: MessageForm) -> str:
    header = _Encoding(module, form.header_version, form.has_flexible_header)
    body = _Encoding(module, form.version, form.is_flexible)
    names = [field.name for field in form.header.fields]
    return module.define(
        _ENCODE,
        arguments=", ".join(f"{name}: Any" for name in names),
        head="{" + ", ".join(f"{name!r}: {name}" for name in names) + "}",
        write_head=header.struct(form.header.fields),
        write_body=body.struct(form.body.fields),
    )


def _hot_forms() -> Iterator[MessageForm]:
    for api_key in HOT:
        for direction in ("request", "response"):
            versions = MESSAGES[api_key, direction].versions
            for version in range(versions.first, versions.last + 1):
                form = form_of(direction, api_key, version)
                if form.is_flexible:
                    yield form


def module_text() -> str:
    """The module: functions, and the table `CODECS` of those for each message and version."""
    module = _Module()
    rows = []
    for form in _hot_forms():
        for role, function in (("encode", _encoder), ("decode", _decoder)):
            key = role, form.body.name, form.version
            rows.append(f"    {key!r}: {function(module, form)},")
    table = "CODECS: Final[dict[tuple[str, str, int], Callable[..., Any]]] = {"
    return "\n".join([module.text(), table, *rows, "}", ""])
