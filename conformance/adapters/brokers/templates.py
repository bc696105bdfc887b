"""The bytes of a request as a template, with holes for values that vary from run to run.

A hole is found by encoding: the request is written twice, the second time with other values of the
same width; the bytes that differ are the hole. So this module need not know where a version has a
field.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from conformance.adapters.brokers.kafka.connection import WireRequest
from impl.protocol.messages import encode_request

Change = Callable[[str, Any], Any]
"""Returns the other value of a field, given its name."""

NAMES: Final = frozenset(
    {
        "name",
        "topic",
        "transactional_id",
        "transactional_ids",
        "v3_and_below_transactional_id",
        "group_id",
        "key",
    }
)
CORRELATION_ID: Final = 4
"""The place of the correlation id in a request, after API and version."""
CRC, TIMES, PRODUCER, BEHIND_CRC = 17, 27, 43, 21
"""Places in a record batch: the checksum, two timestamps, and the producer id. KIP-98."""
OTHER: Final = 0x5A


def template_of(request: WireRequest, producers: Sequence[int], names: list[str]) -> str:
    """The request in hexadecimal, with holes. `producers` are the ids that answers gave, `names`
    those that requests had so far; new names are added."""
    payload = encoded(request.body, request)
    holes = [(CORRELATION_ID, 4, "{correlation}")]
    for name in sorted(names_in(request.body)):
        names += [name] if name not in names else []
        text = f"{{name {names.index(name)} {len(name)}}}"
        holes += [(at, size, text) for at, size in changed(request, swap_name(name))]
    for number, producer_id in enumerate(producers):
        text = f"{{producer {number}}}"
        holes += [(at, size, text) for at, size in changed(request, swap_producer(producer_id))]
    times = changed(request, in_batches(TIMES, 16))
    holes += [(at + half, 8, "{now}") for at, _ in times for half in (0, 8)]
    sizes = [len(batch) - BEHIND_CRC for batch in batches_in(request.body)]
    sums = changed(request, in_batches(CRC, 4))
    holes += [(at, 4, f"{{crc {covered}}}") for (at, _), covered in zip(sums, sizes, strict=True)]
    return filled(payload, sorted(holes))


def filled(payload: bytes, holes: Sequence[tuple[int, int, str]]) -> str:
    """The text of bytes with holes."""
    text, begin = "", 0
    for at, size, word in holes:
        text += payload[begin:at].hex() + word
        begin = at + size
    return text + payload[begin:].hex()


def encoded(body: Any, request: WireRequest) -> bytes:
    """The bytes as a client without a client id sends them."""
    return encode_request(request.api_key, request.api_version, 0, None, body)


def changed(request: WireRequest, change: Change) -> list[tuple[int, int]]:
    """The places at which the bytes differ with another body, and their sizes."""
    one = encoded(request.body, request)
    other = encoded(changed_body("", request.body, change), request)
    differs = [at for at in range(len(one)) if one[at] != other[at]]
    runs = groupby(enumerate(differs), key=lambda pair: pair[1] - pair[0])
    found = [[at for _, at in run] for _, run in runs]
    return [(run[0], len(run)) for run in found]


def changed_body(key: str, value: Any, change: Change) -> Any:
    """The same body with other values of some fields."""
    if isinstance(value, Mapping):
        return {name: changed_body(name, inner, change) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [changed_body(key, inner, change) for inner in value]
    return change(key, value)


def swap_name(name: str) -> Change:
    """Another name that differs in every letter."""
    other = "".join(chr(ord(letter) ^ 1) for letter in name)
    return lambda key, value: other if key in NAMES and value == name else value


def swap_producer(producer_id: int) -> Change:
    """Another producer id that differs in every byte; also in batches."""
    own = struct.pack(">q", producer_id)

    def change(key: str, value: Any) -> Any:
        if key.endswith("producer_id") and value == producer_id:
            return ~value
        if key == "records" and value and value[PRODUCER : PRODUCER + 8] == own:
            return flipped(value, PRODUCER, 8)
        return value

    return change


def in_batches(place: int, size: int) -> Change:
    """Other bytes at a place in each batch."""
    return lambda key, value: flipped(value, place, size) if key == "records" and value else value


def flipped(data: bytes, place: int, size: int) -> bytes:
    """The data with all of these bytes changed."""
    part = bytes(byte ^ OTHER for byte in data[place : place + size])
    return data[:place] + part + data[place + size :]


def names_in(value: Any, key: str = "") -> set[str]:
    """The names that belong to the trace, without those of Kafka's topics."""
    return {
        text
        for name, text in leaves(key, value)
        if name in NAMES and isinstance(text, str) and text and not text.startswith("__")
    }


def batches_in(value: Any) -> list[bytes]:
    """The record batches of a request, in order."""
    return [data for name, data in leaves("", value) if name == "records" and data]


def leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yields each field without parts, with its name."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from leaves(name, inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from leaves(key, inner)
    else:
        yield key, value
