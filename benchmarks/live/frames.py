"""Requests that are encoded before the clock starts, and one connection that keeps some in flight.

Answers are read as bytes while the clock runs, and decoded after it: the client costs the same for
every broker, and as little as possible.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from conformance.adapters.brokers.kafka.admin import ProducerIdentity
from conformance.adapters.brokers.kafka.connection import ANSWER_TIMEOUT_MS
from impl.protocol.message_form import Value
from impl.protocol.messages import decode_response, encode_request
from impl.protocol.primitives import frame, take_frames
from impl.protocol.record_batch import Record, client_batch, encode_batch, read_headers
from impl.protocol.schemas import ApiKey

PRODUCE_VERSION: Final = 11
FETCH_VERSION: Final = 12
"""The newest that name a topic, before transactions of KIP-890 (12) and topic ids (13)."""

IN_FLIGHT: Final = 5
VALUE: Final = bytes(100)
TIMESTAMP_MS: Final = 1_700_000_000_000
PRODUCE_TIMEOUT_MS: Final = 30_000
_CHUNK_BYTES: Final = 1 << 18


class WrongAnswer(RuntimeError):
    """A broker did not do what was requested, so nothing can be compared."""


@dataclass(frozen=True, slots=True)
class Log:
    """What one partition holds after a load: `requests` batches of `records` each."""

    topic: str
    requests: int
    records: int

    def batch(self, identity: ProducerIdentity, number: int) -> bytes:
        rows = [Record(delta, TIMESTAMP_MS, None, VALUE) for delta in range(self.records)]
        return encode_batch(
            client_batch(
                rows,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                base_sequence=number * self.records,
            )
        )

    def produce_frames(self, identity: ProducerIdentity) -> list[bytes]:
        """A Produce a batch, acks=all, in the sequence of an idempotent producer."""
        return [
            _frame(ApiKey.PRODUCE, PRODUCE_VERSION, number, self._produce_body(identity, number))
            for number in range(self.requests)
        ]

    def fetch_frames(self, identity: ProducerIdentity) -> list[bytes]:
        """A Fetch a batch, with room for just that one."""
        size_bytes = len(self.batch(identity, 0))
        return [
            _frame(ApiKey.FETCH, FETCH_VERSION, number, self._fetch_body(number, size_bytes))
            for number in range(self.requests)
        ]

    def _produce_body(self, identity: ProducerIdentity, number: int) -> Value:
        partition = {"index": 0, "records": self.batch(identity, number)}
        topics = [{"name": self.topic, "partitions": [partition]}]
        return {"acks": -1, "timeout_ms": PRODUCE_TIMEOUT_MS, "topics": topics}

    def _fetch_body(self, number: int, size_bytes: int) -> Value:
        partition = {
            "partition": 0,
            "fetch_offset": number * self.records,
            "partition_max_bytes": size_bytes,
        }
        topics = [{"topic": self.topic, "partitions": [partition]}]
        return {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": size_bytes, "topics": topics}

    def check_produced(self, answers: Sequence[bytes]) -> None:
        """Every batch has its place. Raises WrongAnswer."""
        for number, body in enumerate(_bodies(ApiKey.PRODUCE, PRODUCE_VERSION, answers)):
            [[partition]] = [topic["partitions"] for topic in body["topics"]]
            found = partition["error_code"], partition["base_offset"]
            _check((0, number * self.records), found, f"Produce {number}: error, base offset")

    def check_fetched(self, answers: Sequence[bytes]) -> int:
        """Every answer has its batch and no other; how many records there are. Raises as above."""
        total = 0
        for number, body in enumerate(_bodies(ApiKey.FETCH, FETCH_VERSION, answers)):
            [[partition]] = [topic["partitions"] for topic in body["responses"]]
            _check(0, partition["error_code"], f"Fetch {number}: error")
            headers = [header for _, header in read_headers(partition["records"])]
            found = [(header.base_offset, header.records_count) for header in headers]
            _check([(number * self.records, self.records)], found, f"Fetch {number}: batches")
            total += sum(count for _, count in found)
        return total


def exchange(
    address: tuple[str, int], frames: Sequence[bytes], in_flight: int = IN_FLIGHT
) -> list[bytes]:
    """Send all, at most `in_flight` ahead of the answers; return these. Raises OSError."""
    answers: list[bytes] = []
    buffer = bytearray()
    sent = 0
    with socket.create_connection(address, ANSWER_TIMEOUT_MS / 1000) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while len(answers) < len(frames):
            ready = frames[sent : len(answers) + in_flight]
            if ready:
                link.sendall(b"".join(ready))
                sent += len(ready)
            chunk = link.recv(_CHUNK_BYTES)
            if not chunk:
                raise WrongAnswer(f"closed after {len(answers)} of {len(frames)} answers")
            buffer += chunk
            answers += take_frames(buffer)
    return answers


def _frame(api_key: int, version: int, number: int, body: Value) -> bytes:
    return frame(encode_request(api_key, version, number, "benchmark", body))


def _bodies(api_key: int, version: int, answers: Sequence[bytes]) -> Iterator[Value]:
    for number, payload in enumerate(answers):
        header, body = decode_response(api_key, version, payload)
        _check(number, header["correlation_id"], "correlation id")
        yield body


def _check(expected: object, found: object, what: str) -> None:
    if found != expected:
        raise WrongAnswer(f"{what}: {found}, not {expected}")
