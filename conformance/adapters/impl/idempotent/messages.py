"""Messages between `impl`'s actors, and the views by which a judge compares them.

1. With `bytes` each request and answer passes through `impl`'s codec; with `values` it stays as the
   core made it.
2. The value of a record has the record's number. Views read it from the value, and never rely on
   what the judge remembers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from conformance.adapters.impl.shared.memoised import M
from conformance.judging.system import View
from impl import (
    ApiKey,
    Record,
    RecordBatch,
    SendRequest,
    decode_batch,
    decode_request,
    decode_response,
    encode_batch,
    encode_request,
    encode_response,
)
from model.idempotent.configuration import Configuration

TOPIC: Final = "t"
CLIENT_ID: Final = "c"
PRODUCE_VERSION: Final = 12
TIMEOUT_MS: Final = 2**30
"""The time-out that requests give to a broker; the model says what the broker does."""
TIMESTAMP_MS: Final = 0
"""The timestamp of every record. The model's records have no time, so equal records are equal
bytes."""
NONE: Final = -1

Body = dict[str, Any]


# Records and batches


def value_of(number: int) -> bytes:
    """The value of the record with this number."""
    return b"%d" % number


class ViewsByBytes(dict[bytes, View]):
    """Caches the views of batches by their bytes: equal bytes are parsed once.

    The limit keeps a long run small; a view that is dropped is parsed again.
    """

    LIMIT: Final = 100_000

    def __init__(self, read: Callable[[RecordBatch], View]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, data: bytes) -> View:
        if len(self) >= self.LIMIT:
            self.clear()
        view = self[data] = self._read(decode_batch(data))
        return view


class BatchViews:
    """Caches for views of batches: `requests` has batches under way, shaped as REQUEST, `stored`
    has batches in a log, shaped as STORED_BATCH."""

    def __init__(self) -> None:
        self.requests = ViewsByBytes(request_view)
        self.stored = ViewsByBytes(stored_view)


def request_view(batch: RecordBatch) -> View:
    """The view of a batch in a request. `first_record` is -1 unless the records have successive
    numbers."""
    numbers = [int(record.value or b"-1") for record in batch.records]
    first = numbers[0] if numbers else NONE
    follow = numbers == list(range(first, first + len(numbers)))
    return (
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        len(numbers),
        first if follow else NONE,
    )


def stored_view(batch: RecordBatch) -> View:
    """The view of a stored batch, with the offset that a leader gave to it."""
    return (*request_view(batch), batch.base_offset)


# Codecs


@dataclass(frozen=True, slots=True, eq=False)
class ProducePayload:
    """A Produce request under way, as its receiver reads it. No two are equal: see `Shared`."""

    correlation_id: int
    body: Body
    view: View


@dataclass(frozen=True, slots=True, eq=False)
class AnswerPayload:
    """An answer under way."""

    correlation_id: int
    body: Body


class Codec(Protocol):
    """Turns messages into the form that their receiver reads."""

    def request(self, sent: SendRequest) -> tuple[int, Body]:
        """(correlation id, body) as a broker reads them."""

    def response(
        self, version: int, api_key: int, correlation_id: int, body: Body
    ) -> AnswerPayload:
        """The answer as a client reads it."""


class Values:
    """Uses no codec: a receiver gets the sender's values."""

    def request(self, sent: SendRequest) -> tuple[int, Body]:
        """The values that were sent."""
        return sent.correlation_id, sent.body

    def response(
        self, version: int, api_key: int, correlation_id: int, body: Body
    ) -> AnswerPayload:
        """The values of the answer."""
        return AnswerPayload(correlation_id, body)


class Bytes:
    """Uses `impl`'s codec in both directions."""

    def request(self, sent: SendRequest) -> tuple[int, Body]:
        """Encoded and decoded. Raises `impl`'s ProtocolError."""
        _, correlation_id, api_key, version, body = sent
        payload = encode_request(api_key, version, correlation_id, CLIENT_ID, body)
        header, read = decode_request(payload)
        return header["correlation_id"], read

    def response(
        self, version: int, api_key: int, correlation_id: int, body: Body
    ) -> AnswerPayload:
        """Encoded and decoded. Raises `impl`'s ProtocolError."""
        payload = encode_response(api_key, version, correlation_id, body)
        header, read = decode_response(api_key, version, payload)
        return AnswerPayload(header["correlation_id"], read)


CODECS: Mapping[str, Codec] = {"bytes": Bytes(), "values": Values()}


class MessageTransform(Protocol):
    """A function applied to each message that an actor sends."""

    def __call__(self, message: M, /) -> M:
        """The same message, or an equal one."""


def as_it_is(message: M) -> M:
    """The same message."""
    return message


class Shared(NamedTuple):
    """The objects that all actors of one system share."""

    k: Configuration
    codec: Codec
    views: BatchViews
    transform: MessageTransform


# Requests of a client that the model plays


def size_of_batch(record_count: int) -> int:
    """The size in bytes of a batch that holds this many of the records that are sent here."""
    _, _, _, _, body = played_request(0, (0, 0, 0, record_count, 0))
    return len(body["topics"][0]["partitions"][0]["records"])


def played_request(partition: int, request: View) -> SendRequest:
    """A Produce request as a client would send it."""
    producer_id, producer_epoch, base_sequence, record_count, first_record = request
    batch = RecordBatch(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        last_offset_delta=record_count - 1,
        base_timestamp=TIMESTAMP_MS,
        max_timestamp=TIMESTAMP_MS,
        records=tuple(
            Record(
                offset_delta=i, timestamp=TIMESTAMP_MS, key=None, value=value_of(first_record + i)
            )
            for i in range(record_count)
        ),
    )
    data: Body = {"index": partition, "records": encode_batch(batch)}
    body: Body = {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": TIMEOUT_MS,
        "topics": [{"name": TOPIC, "partitions": [data]}],
    }
    return SendRequest(partition, 0, ApiKey.PRODUCE, PRODUCE_VERSION, body)
