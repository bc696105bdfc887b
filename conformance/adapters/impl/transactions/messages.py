"""Messages between the actors of `impl`, and the views by which they are compared.

1. A payload is bytes. With `bytes` they are those of `impl`'s codec, header included; with `values`
   they are the pickled body that the core made.
2. The value of a record has instance, transaction and number. A committed offset has them in its
   metadata.
3. Producer ids are `impl`'s own, given in order from FIRST_PRODUCER_ID on.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

from conformance.judging.system import View
from impl import (
    ApiKey,
    SendRequest,
    decode_batch,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from impl.coordinator.metadata import TopicPartition
from impl.coordinator.placement import OFFSETS_TOPIC
from impl.protocol.record_batch import ProducerIdAndEpoch, read_header

TOPIC: Final = "t"
GROUP: Final = "g"
"""The group whose offsets are committed, all of them for one partition, SOURCE."""
SOURCE: Final = ("in", 0)
TRANSACTIONAL_ID: Final = "x"
CLIENT_ID: Final = "c"
FIRST_PRODUCER_ID: Final = 4000
NONE: Final = -1
UNSTABLE: Final = "UNSTABLE_OFFSET_COMMIT"
TRANSACTIONAL: Final = 0x10
"""The bit in a batch's attributes that marks it as transactional."""

V2_FROM: Final[Mapping[int, int]] = {
    ApiKey.PRODUCE: 12,
    ApiKey.TXN_OFFSET_COMMIT: 5,
    ApiKey.END_TXN: 5,
}
"""The first version of each API that speaks V2. KIP-890."""

Places = tuple[TopicPartition, ...]
"""The model's partitions, by number."""
Body = dict[str, Any]


class Payload(NamedTuple):
    """A request or an answer under way."""

    api_key: int
    api_version: int
    data: bytes


Sent = tuple[tuple[View, Any], ...]
"""The messages of an actor: each as its view, and as the actor made it. If the view is None, the
message is not compared: it is an answer for which no client waits."""


class TransactionCodec(Protocol):
    """Turns messages into the form that their receiver reads."""

    def pack(self, sent: SendRequest) -> Payload:
        """A request in the form in which it is sent."""

    def unpack(self, request: Payload) -> tuple[int, Body]:
        """(correlation id, body) as a broker reads them."""

    def pack_answer(self, request: Payload, body: Body) -> Payload:
        """The answer to a request, in the form in which it is sent."""

    def unpack_answer(self, answer: Payload) -> tuple[int, Body]:
        """(correlation id, body) as a client reads them."""


class TransactionBytes:
    """Uses `impl`'s codec in both directions."""

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


class TransactionValues:
    """Uses no codec of `impl`: a receiver gets the sender's values."""

    def pack(self, sent: SendRequest) -> Payload:
        """The values that were sent."""
        _, correlation_id, api_key, version, body = sent
        return Payload(api_key, version, pickle.dumps((correlation_id, body)))

    def unpack(self, request: Payload) -> tuple[int, Body]:
        """The values that were sent."""
        read: tuple[int, Body] = pickle.loads(request.data)
        return read

    def pack_answer(self, request: Payload, body: Body) -> Payload:
        """The values of the answer."""
        correlation_id, _ = self.unpack(request)
        return request._replace(data=pickle.dumps((correlation_id, body)))

    def unpack_answer(self, answer: Payload) -> tuple[int, Body]:
        """The values of the answer."""
        return self.unpack(answer)


CODECS: Final[Mapping[str, TransactionCodec]] = {
    "bytes": TransactionBytes(),
    "values": TransactionValues(),
}


def value_of(instance: int, transaction: int, number: int) -> bytes:
    """The value of a record."""
    return b"%d/%d/%d" % (instance, transaction, number)


def record_of(value: bytes | None) -> tuple[int, ...]:
    """The numbers in a record's value."""
    return tuple(int(part) for part in (value or b"-1").split(b"/"))


def models_id(producer_id: int) -> int:
    """The model's number of a producer id of `impl`."""
    return producer_id - FIRST_PRODUCER_ID if producer_id >= 0 else producer_id


def produced(body: Body) -> tuple[int, bytes]:
    """The one partition of a Produce request, and its batch."""
    row = body["topics"][0]["partitions"][0]
    return row["index"], row["records"]


WRITES: Final = (ApiKey.PRODUCE, ApiKey.TXN_OFFSET_COMMIT)
"""The requests that carry a batch for a leader."""


def written_by(api_key: int, body: Body) -> ProducerIdAndEpoch:
    """The producer of a request in WRITES."""
    header = read_header(produced(body)[1]) if api_key == ApiKey.PRODUCE else None
    if header is None:
        return ProducerIdAndEpoch(body["producer_id"], body["producer_epoch"])
    return ProducerIdAndEpoch(header.producer_id, header.producer_epoch)


def written_to(api_key: int, body: Body, places: Places) -> int:
    """The model's partition of a request in WRITES."""
    return produced(body)[0] if api_key == ApiKey.PRODUCE else group_partition(places)


def places_of(partitions: int, *, has_group: bool) -> Places:
    """This many partitions; the last may be the partition of the group's offsets."""
    topics = [TopicPartition(TOPIC, p) for p in range(partitions)]
    return (*topics[:-1], TopicPartition(OFFSETS_TOPIC, 0)) if has_group else tuple(topics)


def group_partition(places: Places) -> int:
    """The number of the group's partition, -1 if there is none."""
    return len(places) - 1 if places[-1].topic == OFFSETS_TOPIC else NONE


def added(body: Body) -> set[TopicPartition]:
    """The partitions that AddPartitionsToTxn adds; AddOffsetsToTxn adds the group's."""
    if "group_id" in body:
        assert body["group_id"] == GROUP, "there is one group"
        return {TopicPartition(OFFSETS_TOPIC, 0)}
    return {
        TopicPartition(topic["name"], p)
        for topic in body["v3_and_below_topics"]
        for p in topic["partitions"]
    }


def committed_record(body: Body) -> tuple[int, ...]:
    """The record that the one committed offset of TxnOffsetCommit stands for."""
    [topic] = body["topics"]
    [row] = topic["partitions"]
    assert (topic["name"], row["partition_index"]) == SOURCE, "there is one source"
    return record_of(row["committed_metadata"].encode())


def requests_of(api_key: int, is_v2: bool) -> str | None:
    """The conversation that a request belongs to; None if it is the same in both."""
    return ("V2" if is_v2 else "V1") if api_key in V2_FROM else None


def request_view(api_key: int, api_version: int, body: Body, places: Places) -> View:
    """A request, shaped as REQUEST."""
    spoken = requests_of(api_key, api_version >= V2_FROM.get(api_key, 0))
    return (api_key, spoken, *_content(api_key, body, places))


def _content(api_key: int, body: Body, places: Places) -> View:
    """The content of a request, from REQUEST's `producer_id` on."""
    if api_key == ApiKey.PRODUCE:
        partition, data = produced(body)
        batch = decode_batch(data)
        records = [record_of(record.value) for record in batch.records]
        record = records[0] if len(records) == 1 else tuple(records)
        sequence = batch.base_sequence if batch.attributes & TRANSACTIONAL else NONE
        who = models_id(batch.producer_id), batch.producer_epoch
        return (*who, None, None, partition, sequence, record)
    if api_key == ApiKey.ADD_PARTITIONS_TO_TXN:
        who = models_id(body["v3_and_below_producer_id"]), body["v3_and_below_producer_epoch"]
        wanted = added(body)
        return (*who, tuple(p in wanted for p in places), None, None, None, None)
    who = models_id(body["producer_id"]), body["producer_epoch"]
    if api_key == ApiKey.ADD_OFFSETS_TO_TXN:
        wanted = added(body)
        return (*who, tuple(p in wanted for p in places), None, None, None, None)
    if api_key == ApiKey.TXN_OFFSET_COMMIT:
        where = group_partition(places)
        return (*who, None, None, where, NONE, committed_record(body))
    committed = body["committed"] if api_key == ApiKey.END_TXN else None
    return (*who, None, committed, None, None, None)


def answer_view(api_key: int, body: Body) -> View:
    """An answer, shaped as ANSWER."""
    if api_key == ApiKey.PRODUCE:
        row = body["topics"][0]["partitions"][0]
        return (int(row["error_code"]), NONE, NONE, row["base_offset"])
    if api_key == ApiKey.ADD_PARTITIONS_TO_TXN:
        rows = body["results_by_topic_v3_and_below"][0]["results_by_partition"]
        errors = {int(row["partition_error_code"]) for row in rows}
        return (errors.pop() if len(errors) == 1 else tuple(errors), NONE, NONE, NONE)
    if api_key == ApiKey.TXN_OFFSET_COMMIT:
        return (int(body["topics"][0]["partitions"][0]["error_code"]), NONE, NONE, NONE)
    who = models_id(body.get("producer_id", NONE)), body.get("producer_epoch", NONE)
    return (int(body["error_code"]), *who, NONE)
