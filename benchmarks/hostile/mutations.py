"""Changes of a request's frame, each of which some decoder of some broker did not expect.

A mutation takes a random source and a request, and gives the bytes that go to the broker, with
their size in front. What it changes besides a size, it changes in the payload; then the size is
that of the changed payload.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from struct import Struct
from types import MappingProxyType
from typing import Any, Final

from benchmarks.hostile.batches import draw_bomb
from benchmarks.hostile.requests import UNKNOWN_TAGS, Form
from impl.protocol.message_form import Value
from impl.protocol.primitives import encode_uvarint
from impl.protocol.schemas import ApiKey, request_header_version

HEADER_BYTES: Final = 8
"""API key, version and correlation id."""
_SIZE: Final = Struct(">i")
_BYTES: Final = (0, 1, 0x7F, 0x80, 0xFE, 0xFF)
_LENGTHS: Final = (-(2**31), -2, -1, 0, 1, 2**15, 104_857_600, 104_857_601, 2**31 - 1)
_VARINTS: Final = (
    b"\xff\xff\xff\xff\x07",  # 2^31 - 1
    b"\xff\xff\xff\xff\x0f",  # 2^32 - 1
    b"\xff\xff\xff\xff\x1f",  # more than 32 bits
    b"\xff" * 10 + b"\1",
    b"\x80\x80\x80\x80\x00",  # zero in five bytes
    b"\x80",
)

Mutation = Callable[[Random, Form], bytes]


def with_size(payload: bytes) -> bytes:
    """A frame, of any payload."""
    return _SIZE.pack(len(payload)) + payload


def _changed(change: Callable[[Random, bytearray], Any]) -> Mutation:
    """The mutation that changes the payload's bytes."""

    def mutate(random: Random, form: Form) -> bytes:
        payload = bytearray(form.encode())
        change(random, payload)
        return with_size(bytes(payload))

    return mutate


def _flip_bits(random: Random, payload: bytearray) -> None:
    for _ in range(random.randrange(1, 5)):
        payload[random.randrange(len(payload))] ^= 1 << random.randrange(8)


def _set_bytes(random: Random, payload: bytearray) -> None:
    for _ in range(random.randrange(1, 4)):
        payload[random.randrange(len(payload))] = random.choice(_BYTES)


def _set_length(random: Random, payload: bytearray) -> None:
    width = random.choice((2, 4))
    place = random.randrange(HEADER_BYTES, len(payload))
    length = random.choice(_LENGTHS) & (1 << 8 * width) - 1
    payload[place : place + width] = length.to_bytes(width, "big")


def _put_varint(random: Random, payload: bytearray) -> None:
    place = random.randrange(HEADER_BYTES, len(payload) + 1)
    payload[place : place + random.randrange(2)] = random.choice(_VARINTS)


def _truncate(random: Random, payload: bytearray) -> None:
    del payload[random.randrange(len(payload)) :]


def _append(random: Random, payload: bytearray) -> None:
    payload += random.randbytes(random.randrange(1, 40))


def _cut_out(random: Random, payload: bytearray) -> None:
    place = random.randrange(len(payload))
    del payload[place : place + random.randrange(1, 9)]


def _repeat_part(random: Random, payload: bytearray) -> None:
    place = random.randrange(HEADER_BYTES, len(payload) + 1)
    payload[place:place] = payload[place : place + random.randrange(1, 40)] * random.randrange(1, 9)


def _change_api(random: Random, payload: bytearray) -> None:
    key = random.choice((-1, 4, 5, 6, 7, 76, 2**15 - 1, *ApiKey))
    payload[:2] = key.to_bytes(2, "big", signed=True)


def _change_version(random: Random, payload: bytearray) -> None:
    payload[2:4] = random.choice((-1, 99, 2**15 - 1, *range(20))).to_bytes(2, "big", signed=True)


def _change_client_id(random: Random, payload: bytearray) -> None:
    length = random.choice((-1, -2, 0, 1, 2**15 - 1))
    payload[HEADER_BYTES : HEADER_BYTES + 2] = length.to_bytes(2, "big", signed=True)


def _replace_all(random: Random, payload: bytearray) -> None:
    payload[HEADER_BYTES:] = random.randbytes(random.randrange(60))


def _break_text(random: Random, payload: bytearray) -> None:
    place = random.randrange(HEADER_BYTES, len(payload))
    payload[place : place + 2] = random.choice((b"\xc3\x28", b"\xed\xa0", b"\0\0"))


def _leave(random: Random, form: Form) -> bytes:
    return with_size(form.encode())


def _no_client_id(random: Random, form: Form) -> bytes:
    return with_size(form.encode(client_id=None))


def _other_header(random: Random, form: Form) -> bytes:
    """A flexible header's tagged fields where there should be none, or none where they should."""
    payload = bytearray(form.encode())
    end = HEADER_BYTES + 2 + int.from_bytes(payload[HEADER_BYTES : HEADER_BYTES + 2], "big")
    if request_header_version(form.api_key, form.version) == 2:
        del payload[end]
    else:
        payload.insert(end, 0)
    return with_size(bytes(payload))


def _add_tags(random: Random, form: Form) -> bytes:
    """Tagged fields that are unknown, which a broker has to ignore (KIP-482)."""
    tags = {random.choice((0, 1, 9, 2**20)): random.randbytes(random.randrange(40))}
    body = {**form.body, UNKNOWN_TAGS: tags}
    return with_size(form._replace(body=body).encode())


def _break_tags(random: Random, form: Form) -> bytes:
    """A last section of tagged fields that repeats, goes back, or announces what is not there."""
    tag = encode_uvarint(random.choice((0, 1, 2**31)))
    size = encode_uvarint(random.choice((0, 1, 2**31 - 1)))
    count = encode_uvarint(random.choice((1, 2, 2**31 - 1)))
    return with_size(form.encode()[:-1] + count + (tag + size) * random.randrange(1, 3))


def _change_count(random: Random, form: Form) -> bytes:
    """An array, at any depth, that announces another number of elements than it has."""
    arrays = list(_arrays(form.body))
    payload = bytearray(form.encode())
    if not arrays:
        return with_size(bytes(payload))
    array = random.choice(arrays)
    array.append(array[-1])
    longer = form.encode()
    array.pop()
    pairs = zip(payload, longer, strict=False)
    place = next((at for at, (one, other) in enumerate(pairs) if one != other), len(payload) - 1)
    if request_header_version(form.api_key, form.version) == 2:
        payload[place : place + 1] = random.choice((b"\0", b"\1", b"\2", b"\x7f", *_VARINTS))
    else:
        payload[place - 3 : place + 1] = _SIZE.pack(random.choice(_LENGTHS))
    return with_size(bytes(payload))


def _arrays(value: Any) -> list[list[Any]]:
    """All arrays in a body that have elements."""
    if isinstance(value, dict):
        return [array for part in value.values() for array in _arrays(part)]
    if isinstance(value, list) and value:
        return [value, *(array for part in value for array in _arrays(part))]
    return []


def _bomb(random: Random, form: Form) -> bytes:
    """A Produce request with a batch that is far larger than it looks."""
    partition: Value = {"index": 0, "records": draw_bomb(random)}
    topic = {"name": "t", "partitions": [partition]}
    body = {"acks": 1, "timeout_ms": 1000, "topics": [topic]}
    return with_size(Form(ApiKey.PRODUCE, 9, body).encode())


def _wrong_size(random: Random, form: Form) -> bytes:
    """A size that is not that of the payload: the connection's next frame begins elsewhere."""
    payload = form.encode()
    near = len(payload) + random.choice((-9, -1, 1, 9))
    return _SIZE.pack(random.choice((near, near, *_LENGTHS))) + payload


MUTATIONS: Final[Mapping[str, tuple[int, Mutation]]] = MappingProxyType(
    {
        "none": (4, _leave),
        "no client id": (1, _no_client_id),
        "bits": (8, _changed(_flip_bits)),
        "bytes": (8, _changed(_set_bytes)),
        "length": (8, _changed(_set_length)),
        "varint": (8, _changed(_put_varint)),
        "count": (8, _change_count),
        "tags": (4, _add_tags),
        "broken tags": (4, _break_tags),
        "truncated": (4, _changed(_truncate)),
        "appended": (4, _changed(_append)),
        "cut out": (4, _changed(_cut_out)),
        "repeated": (4, _changed(_repeat_part)),
        "api": (4, _changed(_change_api)),
        "version": (6, _changed(_change_version)),
        "header": (3, _other_header),
        "client id": (2, _changed(_change_client_id)),
        "text": (4, _changed(_break_text)),
        "noise": (4, _changed(_replace_all)),
        "size": (6, _wrong_size),
    }
)
"""Each with how often it is drawn."""
BOMB_EVERY: Final = 5_000
"""One frame of so many is a bomb: it takes as long as a thousand others."""

_NAMES: Final = [name for name, (often, _) in MUTATIONS.items() for _ in range(often)]


def draw_frame(number: int, seed: int, draw_form: Callable[[Random], Form]) -> tuple[str, bytes]:
    """The mutation's name and the bytes of frame `number`: a function of both numbers alone."""
    random = Random(seed << 40 | number)
    form = draw_form(random)
    if number % BOMB_EVERY == BOMB_EVERY - 1:
        return "bomb", _bomb(random, form)
    name = random.choice(_NAMES)
    return name, MUTATIONS[name][1](random, form)
