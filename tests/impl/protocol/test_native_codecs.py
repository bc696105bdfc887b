"""The codecs that are compiled: what they read, write and refuse is what those of Python do.

Here their text runs as Python; `tests/test_compiled.py` runs these tests where it is compiled.
"""

from collections.abc import Callable
from importlib import import_module
from struct import calcsize, pack
from struct import error as StructError
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from librt.strings import BytesWriter

from impl.form import IS_COMPILED
from impl.protocol import native_primitives
from impl.protocol.codegen import compile_decoder, compile_encoder
from impl.protocol.errors import InvalidField, InvalidTags, ProtocolError
from impl.protocol.message_form import MessageForm, Value, form_of
from impl.protocol.native_codegen import HOT, module_text
from impl.protocol.schemas import MESSAGES, SUPPORTED_VERSIONS, ApiKey
from tests.impl.protocol.damage import spoil
from tests.impl.protocol.wire_messages import FORMS, bodies, encode, name_of
from tests.sizes import sized


def native_codecs() -> dict[tuple[str, str, int], Callable[..., Any]]:
    if IS_COMPILED:
        names = vars(import_module("impl.protocol.native_codecs"))
    else:
        names = {}
        exec(compile(module_text(), "<native codecs>", "exec"), names)
    return dict(names["CODECS"])


CODECS = native_codecs()
NATIVE = [
    form for form in FORMS if form[0] in HOT and form_of(form[2], form[0], form[1]).is_flexible
]
OLDER = [form for form in NATIVE if form[1] != SUPPORTED_VERSIONS[form[0]].last]
PARAMETERS = sized([(form,) for form in NATIVE], [(form,) for form in OLDER])
"""In the suite the newest versions."""


def outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    """What it returns, or its error."""
    try:
        return function(*arguments)
    except ProtocolError as error:
        return type(error), str(error)


def header_of(form: MessageForm) -> list[Any]:
    values = {"api_key": 0, "api_version": 7, "correlation_id": 5, "client_id": "ä"}
    return [values[field.name] for field in form.header.fields]


def form_and_codecs(found: Any) -> tuple[MessageForm, Any, Any]:
    form = form_of(found[2], found[0], found[1])
    key = form.body.name, form.version
    return form, CODECS["encode", *key], CODECS["decode", *key]


def test_all_flexible_versions_of_hot_messages_are_there() -> None:
    assert len(CODECS) == 2 * len(NATIVE) > 40


@pytest.mark.parametrize("found", PARAMETERS, ids=name_of)
@settings(max_examples=30)
@given(data=st.data())
def test_the_same_is_read_and_written(found: Any, data: st.DataObject) -> None:
    form, native_encode, native_decode = form_and_codecs(found)
    body = data.draw(bodies(found))
    written = compile_encoder(form)(*header_of(form), body)
    assert native_encode(form, *header_of(form), body) == written
    assert native_decode(form, written) == compile_decoder(form)(written)


@pytest.mark.parametrize("found", PARAMETERS, ids=name_of)
@settings(max_examples=30)
@given(data=st.data())
def test_damage_is_read_or_named_alike(found: Any, data: st.DataObject) -> None:
    form, _, native_decode = form_and_codecs(found)
    damaged = spoil(data, encode(found, data.draw(bodies(found))))
    expected = outcome(compile_decoder(form), damaged)
    assert outcome(native_decode, form, damaged) == expected


WRONG = (None, -1, 1 << 70, "text", b"bytes", [], {}, [None], ["x"], "\ud800", b"")
NO_NUMBER = (1.5,) if IS_COMPILED else ()
"""What Python rounds where compiled code refuses it."""


def places(value: Value) -> list[tuple[Value, str]]:
    """Every field of a body, nested ones included."""
    found = []
    for name, field in value.items():
        found.append((value, name))
        for item in field if isinstance(field, list) else [field]:
            found += places(item) if isinstance(item, dict) else []
    return found


@pytest.mark.parametrize("found", PARAMETERS, ids=name_of)
@settings(max_examples=30)
@given(data=st.data(), wrong=st.sampled_from(WRONG + NO_NUMBER))
def test_values_that_do_not_fit_are_refused_alike(
    found: Any, data: st.DataObject, wrong: Any
) -> None:
    """Python's form writes an empty value of another type as no bytes."""
    form, native_encode, _ = form_and_codecs(found)
    body = data.draw(bodies(found))
    struct, name = data.draw(st.sampled_from(places(body)))
    struct[name] = wrong
    expected = outcome(compile_encoder(form), *header_of(form), body)
    found_here = outcome(native_encode, form, *header_of(form), body)
    assert found_here == expected or (not wrong and found_here[0] is InvalidField)


def test_large_records_stand_where_small_ones_do() -> None:
    form, native_encode, _ = form_and_codecs(NATIVE[0])
    assert form.body is MESSAGES[0, "request"]
    rows = [
        {"index": index, "records": bytes([index]) * size}
        for index, size in enumerate((10, 5000, 10, 70_000))
    ]
    body = {"acks": -1, "timeout_ms": 1, "topics": [{"name": "t", "partitions": rows}]}
    written = compile_encoder(form)(*header_of(form), body)
    assert native_encode(form, *header_of(form), body) == written


def test_a_known_tag_of_another_size_is_named() -> None:
    form, native_encode, native_decode = form_and_codecs((ApiKey.FETCH, 12, "request"))
    body = dict.fromkeys(("max_wait_ms", "min_bytes", "replica_id"), 0)
    written = native_encode(form, *header_of(form), {**body, "cluster_id": "c", "topics": []})
    tag = bytes((1, 0, 2, 2)) + b"c"
    assert written.endswith(tag)
    damaged = written[: -len(tag)] + bytes((1, 0, 3, 2)) + b"c!"
    assert outcome(native_decode, form, damaged)[0] is InvalidTags
    assert outcome(native_decode, form, damaged) == outcome(compile_decoder(form), damaged)


@pytest.mark.parametrize(
    ("name", "code"), [("int8", "b"), ("int16", "h"), ("uint16", "H"), ("int32", "i")]
)
def test_the_range_of_a_number_is_that_of_struct(name: str, code: str) -> None:
    write = getattr(native_primitives, f"write_{name}")
    bits = 8 * calcsize(code)
    edges = [0, 1 << bits - 1, 1 << bits, -(1 << bits - 1)]
    for value in (edge + near for edge in edges for near in (-1, 0, 1)):
        out = BytesWriter()
        try:
            expected = pack(f">{code}", value)
        except StructError:
            with pytest.raises(ValueError, match=f"no {name}"):
                write(out, value)
        else:
            write(out, value)
            assert out.getvalue() == expected


@pytest.mark.parametrize("found", PARAMETERS, ids=name_of)
@settings(max_examples=5)
@given(data=st.data())
def test_every_cut_is_named_alike(found: Any, data: st.DataObject) -> None:
    form, _, native_decode = form_and_codecs(found)
    decode = compile_decoder(form)
    written = encode(found, data.draw(bodies(found)))
    for end in range(len(written)):
        assert outcome(native_decode, form, written[:end]) == outcome(decode, written[:end])
