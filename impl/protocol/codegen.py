"""From the table of schemas to Python functions, one per (message, version).

Three rules:

1. No message has code of its own: everything is compiled from the table.
2. Adjacent fields of fixed width share one `struct` call; loops are inlined.
3. A compiled function raises only the errors of `errors.py`, for any input.

Theory of operation: `_Encoder` and `_Decoder` walk the fields of one version and emit lines. Both
collect a *run* of fixed-width items (a string's length is such an item) and flush it as one
`struct` call before anything of variable width. An encoder appends byte strings to a list and
joins them once. A decoder keeps its position in `p`; the single handler around the body asks its
`MessageForm` what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from struct import Struct, pack, unpack_from
from struct import error as StructError
from typing import Any, Final

from impl.protocol.errors import (
    DecodeError,
    InvalidLength,
    InvalidTags,
    NullNotAllowed,
    TruncatedFrame,
)
from impl.protocol.message_form import UNKNOWN_TAGS, MessageForm, Value
from impl.protocol.primitives import (
    UVARINT,
    decode_tag,
    decode_tags,
    decode_uvarint,
    encode_tags,
)
from impl.protocol.schemas import REQUIRED, Field

_FIXED: Final = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "float64": "d",
    "bool": "?",
    "uuid": "16s",
}
WRITE_ERRORS: Final = (
    KeyError,
    TypeError,
    AttributeError,
    StructError,
    UnicodeEncodeError,
    ValueError,
)
"""What is raised where a value cannot be written."""


def _uuid16(value: bytes) -> bytes:
    """Guard `struct`'s `16s`, which silently pads and truncates."""
    if len(value) != 16:
        raise ValueError("a uuid has 16 bytes")
    return value


def bad_length(path: str, length: int, position: int) -> DecodeError:
    """A length is negative, and not -1 where null is allowed."""
    if length == -1:
        return NullNotAllowed(f"{path} is null", position)
    return InvalidLength(f"{path} announces {length}", position)


def short(path: str, end: int, position: int) -> DecodeError:
    """A length goes beyond the end of the bytes."""
    return TruncatedFrame(f"{path} would end at byte {end}", position)


def _decode_length(data: bytes, position: int) -> tuple[int, int]:
    """A compact length, -1 for null, and where it ends."""
    coded, position = decode_uvarint(data, position)
    return coded - 1, position


class _Source:
    """Lines of one function, the constants they name, and the current run of fixed items."""

    def __init__(self, form: MessageForm) -> None:
        self.form = form
        self.version, self.flexible = form.header_version, form.has_flexible_header
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.depth = 1
        self.run: list[tuple[str, str]] = []
        self._counter = 0

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def fresh(self, prefix: str) -> str:
        self._counter += 1
        return f"{prefix}{self._counter}"

    def add(self, code: str, item: str) -> None:
        self.run.append((code, item))

    def take_run(self) -> tuple[str, Struct, list[str]]:
        """The `struct` codes of the run as a name, the compiled layout, and its items."""
        codes = "".join(code for code, _ in self.run)
        items = [item for _, item in self.run]
        self.run = []
        return codes.replace("?", "o"), Struct(">" + codes), items

    def present(self, fields: tuple[Field, ...], tagged: bool) -> Iterator[Field]:
        for field in fields:
            if self.version in field.versions and (field.tag is not None) == tagged:
                yield field

    def begin_body(self) -> None:
        """What follows is of the body, not of the header any more."""
        self.version, self.flexible = self.form.version, self.form.is_flexible

    def compile(self, *arguments: str) -> Callable[..., Any]:
        """The function of these arguments, for the message's form."""
        signature = ", ".join(["form", *arguments])
        source = "\n".join([f"def generated({signature}):", *self.lines])
        names = {**_RUNTIME, **self.names}
        exec(compile(source, "<schema>", "exec"), names)
        return partial(names["generated"], self.form)


def null_mark(field: Field) -> int:
    """The byte before a struct that is null; a tagged one has an unsigned number there.

    `MessageDataGenerator.generateTaggedFieldWriter`, `ConsumerGroupMemberMetadataValue` (4.3).
    """
    return -1 if field.tag is None else 0


class _Encoder(_Source):
    """Emits the writer of one message version; `append` names the list's bound method."""

    append = "o.append"

    def flush(self) -> None:
        if self.run:
            codes, layout, items = self.take_run()
            self.names[f"pack_{codes}"] = layout.pack
            self.emit(f"{self.append}(pack_{codes}({', '.join(items)}))")

    def variable(self, expression: str) -> None:
        self.flush()
        self.emit(f"{self.append}({expression})")

    def compact_length(self, length: str) -> None:
        self.variable(f"UVARINT[{length}]")

    def read(self, field: Field, owner: str) -> str:
        """The expression that fetches a field from the caller's dict (a local in headers)."""
        if not owner:
            return field.name
        if field.default is REQUIRED:
            return f"{owner}[{field.name!r}]"
        return f"{owner}.get({field.name!r}, {field.default!r})"

    def struct(self, fields: tuple[Field, ...], owner: str) -> None:
        for field in self.present(fields, tagged=False):
            self.field(field, self.read(field, owner))
        if self.flexible:
            self.tags(fields, owner)

    def field(self, field: Field, value: str) -> None:
        if field.is_array:
            self.array(field, value)
        elif field.kind in _FIXED:
            self.add(_FIXED[field.kind], f"uuid16({value})" if field.kind == "uuid" else value)
        elif field.kind == "struct":
            self.nested(field, value)
        else:
            self.text(field, value)

    def nested(self, field: Field, value: str) -> None:
        """A struct; one that may be null follows a byte: 1, or `null_mark`."""
        name = self.fresh("d")
        self.flush()
        self.emit(f"{name} = {value}")
        if self.version not in field.nullable:
            self.struct(field.fields, name)
            return
        self.add("b", f"{null_mark(field)} if {name} is None else 1")
        self.flush()
        self.emit(f"if {name} is not None:")
        self.depth += 1
        self.struct(field.fields, name)
        self.flush()
        self.depth -= 1

    def text(self, field: Field, value: str) -> None:
        """A string or bytes: its length, then itself."""
        name = self.fresh("s")
        self.emit(f"{name} = {value}")
        null = self.version in field.nullable
        if field.kind != "bytes":
            self.emit(f"{name} = {name}.encode()" + (f" if {name} is not None else None" * null))
        if self.flexible and field.kind != "classic":
            self.compact_length(f"len({name}) + 1" + f" if {name} is not None else 0" * null)
        else:
            code = "i" if field.kind == "bytes" else "h"
            self.add(code, f"len({name})" + f" if {name} is not None else -1" * null)
        self.variable(f"{name} or b''" if null else name)

    def array(self, field: Field, value: str) -> None:
        name, item = self.fresh("x"), self.fresh("e")
        self.emit(f"{name} = {value}")
        null = f" if {name} is not None else " * (self.version in field.nullable)
        if self.flexible:
            self.compact_length(f"len({name}) + 1{null}" + "0" * bool(null))
        else:
            self.add("i", f"len({name}){null}" + "-1" * bool(null))
            self.flush()
        items = f"({name} or ())" if null else name
        if field.kind in _FIXED and field.kind != "uuid":
            self.emit(f"{self.append}(pack(f'>{{len({items})}}{_FIXED[field.kind]}', *{items}))")
            return
        self.emit(f"for {item} in {items}:")
        self.depth += 1
        if field.kind == "struct":
            self.struct(field.fields, item)
        else:
            self.field(field.element, item)
        self.flush()
        self.depth -= 1

    def tags(self, fields: tuple[Field, ...], owner: str) -> None:
        """The tagged-field section. The tags are collected first: KIP-482 wants them ascending."""
        known = list(self.present(fields, tagged=True))
        if not owner:
            self.add("b", "0")
            return
        name = self.fresh("t")
        unknown, has_unknown = f"{owner}[{UNKNOWN_TAGS!r}]", f"{UNKNOWN_TAGS!r} in {owner}"
        if not known:
            self.variable(f"encode_tags({unknown}) if {has_unknown} else ZERO")
            return
        self.emit(f"{name} = dict({unknown}) if {has_unknown} else {{}}")
        self.flush()
        for field in known:
            self.tag(field, name, owner)
        self.variable(f"encode_tags({name}) if {name} else ZERO")

    def tag(self, field: Field, tags: str, owner: str) -> None:
        value, parts, outer = self.fresh("v"), self.fresh("o"), self.append
        default = f"default_{value}"
        self.names[default] = field.default
        self.emit(f"{value} = {owner}.get({field.name!r}, {default})")
        self.emit(f"if {value} is not {default} and {value} != {default}:")
        self.depth += 1
        self.append = f"{parts}.append"
        self.emit(f"{parts}: list[bytes] = []")
        self.field(field, value)
        self.flush()
        self.emit(f"{tags}[{field.tag}] = b''.join({parts})")
        self.append = outer
        self.depth -= 1


class _Decoder(_Source):
    """Emits the reader of one message version; the position is `p`, the data `b`."""

    def flush(self) -> None:
        if self.run:
            codes, layout, items = self.take_run()
            self.names[f"unpack_{codes}"] = layout.unpack_from
            self.emit(f"{', '.join(items)}, = unpack_{codes}(b, p)")
            self.emit(f"p += {layout.size}")

    def struct(self, fields: tuple[Field, ...], path: str) -> str:
        """Read a struct; the name of the local that then holds its dict."""
        held: dict[str, str] = {}
        for field in self.present(fields, tagged=False):
            held[field.name] = self.field(field, f"{path}{field.name}")
        self.flush()
        name = self.fresh("d")
        pairs = (f"{f.name!r}: {held.get(f.name, repr(f.absent))}" for f in fields)
        self.emit(f"{name}: Value = {{{', '.join(pairs)}}}")
        if self.flexible:
            self.tags(fields, path, name)
        return name

    def field(self, field: Field, path: str) -> str:
        if field.is_array:
            return self.array(field, path)
        if field.kind in _FIXED:
            name = self.fresh("v")
            self.add(_FIXED[field.kind], name)
            return name
        if field.kind == "struct":
            return self.nested(field, path + ".")
        return self.text(field, path)

    def nested(self, field: Field, path: str) -> str:
        """Read a struct; one that may be null follows a byte: up to `null_mark` it is null."""
        self.flush()
        if self.version not in field.nullable:
            return self.struct(field.fields, path)
        flag, value = self.fresh("n"), self.fresh("v")
        self.add("b", flag)
        self.flush()
        self.emit(f"{value}: Any = None")
        self.emit(f"if {flag} > {null_mark(field)}:")
        self.depth += 1
        self.emit(f"{value} = {self.struct(field.fields, path)}")
        self.depth -= 1
        return value

    def length(self, code: str) -> str:
        """Read a length or count, -1 for null, compact in flexible versions."""
        name = self.fresh("n")
        if code:
            self.add(code, name)
            self.flush()
            return name
        self.flush()
        self.emit(f"{name} = b[p] - 1")
        self.emit("p += 1")
        self.emit(f"if {name} > 126: {name}, p = decode_length(b, p - 1)")
        return name

    def null_guard(self, field: Field, path: str, length: str, value: str) -> None:
        """Emit the null branch and open the one for a present value."""
        self.emit(f"if {length} < 0:")
        if self.version in field.nullable:
            self.emit(f"    if {length} < -1: raise bad_length({path!r}, {length}, p)")
            self.emit(f"    {value} = None")
        else:
            self.emit(f"    raise bad_length({path!r}, {length}, p)")
        self.emit("else:")
        self.depth += 1

    def text(self, field: Field, path: str) -> str:
        compact = self.flexible and field.kind != "classic"
        length = self.length("" if compact else "i" if field.kind == "bytes" else "h")
        value, end = self.fresh("v"), self.fresh("q")
        self.null_guard(field, path, length, value)
        self.emit(f"{end} = p + {length}")
        self.emit(f"if {end} > end: raise short({path!r}, {end}, p)")
        self.emit(f"{value} = b[p:{end}]" + ".decode()" * (field.kind != "bytes"))
        self.emit(f"p = {end}")
        self.depth -= 1
        return value

    def array(self, field: Field, path: str) -> str:
        length = self.length("" if self.flexible else "i")
        value = self.fresh("x")
        self.null_guard(field, path, length, value)
        self.emit(f"if {length} > end - p: raise short({path!r}, p + {length}, p)")
        if field.kind in _FIXED and field.kind != "uuid":
            code = _FIXED[field.kind]
            self.emit(f"{value} = list(unpack_from(f'>{{{length}}}{code}', b, p))")
            self.emit(f"p += {length} * {Struct('>' + code).size}")
        else:
            self.emit(f"{value}: list[Any] = []")
            self.emit(f"for _ in range({length}):")
            self.depth += 1
            element = self.field(field.element, path + "[]")
            self.flush()  # a uuid is read with the fixed fields around it
            self.emit(f"{value}.append({element})")
            self.depth -= 1
        self.depth -= 1
        return value

    def tags(self, fields: tuple[Field, ...], path: str, owner: str) -> None:
        """Read the tagged-field section into the dict `owner`."""
        known = list(self.present(fields, tagged=True))
        unknown, count = self.fresh("u"), self.fresh("n")
        self.emit(f"{count} = b[p]")
        self.emit("p += 1")
        self.emit(f"if {count}:")
        self.depth += 1
        self.emit(f"if {count} > 127: {count}, p = decode_uvarint(b, p - 1)")
        if known:
            self.known_tags(known, path, owner, unknown, count)
        else:
            self.emit(f"{unknown}, p = decode_tags(b, p, {count})")
        self.emit(f"if {unknown}: {owner}[UNKNOWN_TAGS] = {unknown}")
        self.depth -= 1

    def known_tags(
        self, known: list[Field], path: str, owner: str, unknown: str, count: str
    ) -> None:
        tag, stop = self.fresh("g"), self.fresh("q")
        self.emit(f"{unknown}: Any = {{}}")
        self.emit(f"{tag} = -1")
        self.emit(f"for _ in range({count}):")
        self.depth += 1
        self.emit(f"{tag}, p, {stop} = decode_tag(b, p, {tag})")
        for field in known:
            self.emit(f"if {tag} == {field.tag}:")
            self.depth += 1
            value = self.field(field, path + field.name)
            self.flush()
            self.emit(f"{owner}[{field.name!r}] = {value}")
            self.emit(f"if p != {stop}: raise InvalidTags({path + field.name!r} + ' fills not', p)")
            self.emit("continue")
            self.depth -= 1
        self.emit(f"{unknown}[{tag}] = b[p:{stop}]")
        self.emit(f"p = {stop}")
        self.depth -= 1


_RUNTIME: Final = {
    "UVARINT": UVARINT,
    "UNKNOWN_TAGS": UNKNOWN_TAGS,
    "WRITE_ERRORS": WRITE_ERRORS,
    "ZERO": b"\0",
    "InvalidTags": InvalidTags,
    "StructError": StructError,
    "bad_length": bad_length,
    "decode_length": _decode_length,
    "decode_tag": decode_tag,
    "decode_tags": decode_tags,
    "decode_uvarint": decode_uvarint,
    "encode_tags": encode_tags,
    "pack": pack,
    "short": short,
    "unpack_from": unpack_from,
    "uuid16": _uuid16,
}


def compile_encoder(form: MessageForm) -> Callable[..., bytes]:
    """A function of the header's fields, in table order, and the body's dict to a frame's payload.

    It raises `EncodeError` for values that do not fit.
    """
    code = _Encoder(form)
    code.emit("try:")
    code.depth += 1
    code.emit("o: list[bytes] = []")
    code.struct(form.header.fields, "")
    code.begin_body()
    code.struct(form.body.fields, "d")
    code.flush()
    code.emit("return b''.join(o)")
    code.depth -= 1
    names = [field.name for field in form.header.fields]
    head = ", ".join(f"{name!r}: {name}" for name in names)
    code.emit(f"except WRITE_ERRORS as error: raise form.refusal({{{head}}}, d, error) from error")
    return code.compile(*names, "d")


def compile_decoder(form: MessageForm) -> Callable[[bytes], tuple[Value, Value]]:
    """A function of a frame's payload to (header, body). It raises `DecodeError`."""
    code = _Decoder(form)
    code.emit("end = len(b)")
    code.emit("p = 0")
    code.emit("try:")
    code.depth += 1
    head = code.struct(form.header.fields, f"{form.header.name} ")
    code.begin_body()
    value = code.struct(form.body.fields, f"{form.body.name} ")
    code.depth -= 1
    code.emit("except (StructError, IndexError): raise form.truncated(end) from None")
    code.emit("except UnicodeDecodeError as error: raise form.bad_text(error, p) from None")
    if not form.may_trail:
        code.emit("if p != end: raise form.trailing(end - p, p)")
    code.emit(f"return {head}, {value}")
    return code.compile("b")
