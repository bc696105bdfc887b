"""What travels between the actors of `impl`, and how it is seen.

1. A payload is bytes: on bytes those of `impl`'s codec, header included; on values the body as the
   core gave it, pickled.
2. What a record says is in its value: instance, transaction, number.
3. Producer ids are `impl`'s own, given in order from FIRST_PRODUCER_ID on.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

from conformance.systems.base import View
from impl import (
    ApiKey,
    SendRequest,
    decode_batch,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)

TOPIC: Final = "t"
TRANSACTIONAL_ID: Final = "x"
CLIENT_ID: Final = "c"
FIRST_PRODUCER_ID: Final = 4000
NONE: Final = -1

Body = dict[str, Any]


class Payload(NamedTuple):
    """A request or an answer on its way."""

    api_key: int
    api_version: int
    data: bytes


class Codec(Protocol):
    """How messages become what their receiver reads."""

    def pack(self, sent: SendRequest) -> Payload:
        """A request as it leaves."""

    def unpack(self, request: Payload) -> tuple[int, Body]:
        """(correlation id, body) as a broker reads them."""

    def pack_answer(self, request: Payload, body: Body) -> Payload:
        """The answer to a request as it leaves."""

    def unpack_answer(self, answer: Payload) -> tuple[int, Body]:
        """(correlation id, body) as a client reads them."""


class Bytes:
    """`impl`'s codec both ways."""

    def pack(self, sent: SendRequest) -> Payload:
        """Encoded. Raises `impl`'s ProtocolError."""
        _, correlation_id, api_key, version, body = sent
        data = encode_request(api_key, version, correlation_id, CLIENT_ID, body)
        return Payload(api_key, version, data)

    def unpack(self, request: Payload) -> tuple[int, Body]:
        """Decoded. Raises `impl`'s ProtocolError."""
        header, body = decode_request(request.data)
        return header["correlation_id"], body

    def pack_answer(self, request: Payload, body: Body) -> Payload:
        """Encoded. Raises `impl`'s ProtocolError."""
        api_key, version, _ = request
        correlation_id, _ = self.unpack(request)
        return Payload(api_key, version, encode_response(api_key, version, correlation_id, body))

    def unpack_answer(self, answer: Payload) -> tuple[int, Body]:
        """Decoded. Raises `impl`'s ProtocolError."""
        header, body = decode_response(*answer)
        return header["correlation_id"], body


class Values:
    """No codec of `impl`'s: a receiver gets the sender's values."""

    def pack(self, sent: SendRequest) -> Payload:
        """As sent."""
        _, correlation_id, api_key, version, body = sent
        return Payload(api_key, version, pickle.dumps((correlation_id, body)))

    def unpack(self, request: Payload) -> tuple[int, Body]:
        """As sent."""
        read: tuple[int, Body] = pickle.loads(request.data)
        return read

    def pack_answer(self, request: Payload, body: Body) -> Payload:
        """As answered."""
        correlation_id, _ = self.unpack(request)
        return request._replace(data=pickle.dumps((correlation_id, body)))

    def unpack_answer(self, answer: Payload) -> tuple[int, Body]:
        """As answered."""
        return self.unpack(answer)


CODECS: Final[Mapping[str, Codec]] = {"bytes": Bytes(), "values": Values()}


def value_of(instance: int, transaction: int, number: int) -> bytes:
    """What a record says."""
    return b"%d/%d/%d" % (instance, transaction, number)


def record_of(value: bytes | None) -> tuple[int, ...]:
    """What a record says, as numbers."""
    return tuple(int(part) for part in (value or b"-1").split(b"/"))


def models_id(producer_id: int) -> int:
    """The model's number of a producer id of `impl`."""
    return producer_id - FIRST_PRODUCER_ID if producer_id >= 0 else producer_id


def produced(body: Body) -> tuple[int, bytes]:
    """The one partition of a Produce request, and its batch."""
    row = body["topics"][0]["partitions"][0]
    return row["index"], row["records"]


def flags(partitions: set[int], count: int) -> tuple[bool, ...]:
    """A set of partitions."""
    return tuple(p in partitions for p in range(count))


def added(body: Body) -> set[int]:
    """The partitions of AddPartitionsToTxn."""
    return {p for topic in body["v3_and_below_topics"] for p in topic["partitions"]}


def request_view(api_key: int, body: Body, partitions: int) -> View:
    """A request, shaped as REQUEST."""
    if api_key == ApiKey.PRODUCE:
        partition, data = produced(body)
        batch = decode_batch(data)
        records = [record_of(record.value) for record in batch.records]
        record = records[0] if len(records) == 1 else tuple(records)
        sequence = batch.base_sequence if batch.attributes & TRANSACTIONAL else NONE
        who = models_id(batch.producer_id), batch.producer_epoch
        return (api_key, *who, None, None, partition, sequence, record)
    if api_key == ApiKey.ADD_PARTITIONS_TO_TXN:
        who = models_id(body["v3_and_below_producer_id"]), body["v3_and_below_producer_epoch"]
        return (api_key, *who, flags(added(body), partitions), None, None, None, None)
    who = models_id(body["producer_id"]), body["producer_epoch"]
    committed = body["committed"] if api_key == ApiKey.END_TXN else None
    return (api_key, *who, None, committed, None, None, None)


def answer_view(api_key: int, body: Body) -> View:
    """An answer, shaped as ANSWER."""
    if api_key == ApiKey.PRODUCE:
        row = body["topics"][0]["partitions"][0]
        return (int(row["error_code"]), NONE, NONE, row["base_offset"])
    if api_key == ApiKey.ADD_PARTITIONS_TO_TXN:
        rows = body["results_by_topic_v3_and_below"][0]["results_by_partition"]
        errors = {int(row["partition_error_code"]) for row in rows}
        return (errors.pop() if len(errors) == 1 else tuple(errors), NONE, NONE, NONE)
    who = models_id(body.get("producer_id", NONE)), body.get("producer_epoch", NONE)
    return (int(body["error_code"]), *who, NONE)


TRANSACTIONAL: Final = 0x10
"""The bit of a batch's attributes."""
