"""A small producer that speaks the lines of `conformance.adapters.clients`, and can be told to
misbehave.

It sends one record at a time and waits for its answer: `python small_client.py MODE`. Modes:
`right`; `skips` leaves a sequence out; `renumbers` gives a record that it sends again a new
sequence; `overtakes` sends the next record before the one that was refused; `pretends` says of a
refused record that it is stored; `asks` for another producer id when a connection ends;
`refreshes` its producer id, and counts from 0 again, when a record is surely not stored;
`hurries`, and waits for the leader alone.
"""

from __future__ import annotations

import socket
import sys
import time
from collections import defaultdict, deque
from contextlib import suppress
from typing import Any

from impl.protocol.errors import ErrorCode
from impl.protocol.messages import decode_response, encode_request
from impl.protocol.primitives import frame
from impl.protocol.record_batch import Record, client_batch, encode_batch
from impl.protocol.schemas import ApiKey

PRODUCE_VERSION, METADATA_VERSION, INIT_VERSION = 7, 5, 1
TIMEOUT_S = 0.3


class SmallClient:
    """One run."""

    def __init__(self, mode: str, bootstrap: str, topic: str) -> None:
        self.mode = mode
        self.topic = topic
        host, _, port = bootstrap.rpartition(":")
        self.address = (host, int(port))
        self.socket: socket.socket | None = None
        self.correlation_id = 0
        self.producer_id = -1
        self.sequences: dict[int, int] = defaultdict(int)
        self.learn()

    def learn(self) -> None:
        """Where the node is, and which producer id is ours."""
        body = {"topics": [{"name": self.topic}], "allow_auto_topic_creation": True}
        broker = self.ask(ApiKey.METADATA, METADATA_VERSION, body)["brokers"][0]
        self.hang_up()
        self.address = (broker["host"], broker["port"])
        self.ask_producer_id()

    def ask_producer_id(self) -> None:
        body = {"transactional_id": None, "transaction_timeout_ms": 1_000}
        while True:
            with suppress(OSError):
                answer = self.ask(ApiKey.INIT_PRODUCER_ID, INIT_VERSION, body)
                if answer["error_code"] == ErrorCode.NONE:
                    self.producer_id = answer["producer_id"]
                    return
            time.sleep(0.01)

    def ask(self, api_key: int, version: int, body: dict[str, Any]) -> Any:
        """One answer. Raises OSError when the connection ends before."""
        if self.socket is None:
            self.socket = socket.create_connection(self.address, TIMEOUT_S)
        self.correlation_id += 1
        request = encode_request(api_key, version, self.correlation_id, "small", body)
        try:
            self.socket.sendall(frame(request))
            payload = self.exactly(int.from_bytes(self.exactly(4), "big"))
        except OSError:
            self.hang_up()
            raise
        return decode_response(api_key, version, payload)[1]

    def exactly(self, count: int) -> bytes:
        assert self.socket is not None
        data = b""
        while len(data) < count:
            chunk = self.socket.recv(count - len(data))
            if not chunk:
                raise OSError("closed")
            data += chunk
        return data

    def hang_up(self) -> None:
        if self.socket is not None:
            self.socket.close()
        self.socket = None

    def produce(self, partition: int, number: int, sequence: int) -> Any:
        """The answer to one record. Raises OSError."""
        batch = client_batch(
            [Record(0, int(time.time() * 1000), None, b"%d" % number)],
            producer_id=self.producer_id,
            producer_epoch=0,
            base_sequence=sequence,
        )
        body = {
            "transactional_id": None,
            "acks": 1 if self.mode == "hurries" else -1,
            "timeout_ms": 1_000,
            "topics": [
                {
                    "name": self.topic,
                    "partitions": [{"index": partition, "records": encode_batch(batch)}],
                }
            ],
        }
        answer = self.ask(ApiKey.PRODUCE, PRODUCE_VERSION, body)
        return answer["topics"][0]["partitions"][0]

    def send_all(self, run: str, records: list[tuple[int, int]]) -> None:
        """All records, each until it is stored."""
        waiting = deque(records)
        may_be_stored: set[tuple[int, int]] = set()
        numbered: dict[tuple[int, int], int] = {}
        while waiting:
            partition, number = record = waiting.popleft()
            if record not in numbered:
                numbered[record] = self.next_sequence(partition)
            try:
                row = self.produce(partition, number, numbered[record])
            except OSError:
                waiting.appendleft(record)
                may_be_stored.add(record)
                if self.mode == "renumbers":
                    numbered[record] = self.next_sequence(partition)
                if self.mode == "asks":
                    self.ask_producer_id()
                continue
            error = ErrorCode(row["error_code"])
            if error == ErrorCode.NONE or self.mode == "pretends":
                print(run, partition, number, "stored", row["base_offset"], flush=True)
            elif error.is_retriable and self.mode == "refreshes" and record not in may_be_stored:
                self.ask_producer_id()
                self.sequences.clear()
                del numbered[record]
                waiting.appendleft(record)
            elif error.is_retriable:
                waiting.insert(2 if self.mode == "overtakes" else 0, record)
            else:
                print(run, partition, number, "failed", error.name, flush=True)
        print(run, "closed", flush=True)

    def next_sequence(self, partition: int) -> int:
        sequence = self.sequences[partition]
        self.sequences[partition] += 2 if self.mode == "skips" and sequence == 3 else 1
        return sequence


def main() -> None:
    for line in sys.stdin:
        run, bootstrap, topic, _configurations, records = line.split()
        pairs = [word.split(":") for word in records.split(",") if not word.startswith("+")]
        numbers = [(int(partition), int(number)) for partition, number in pairs]
        client = SmallClient(sys.argv[1], bootstrap, topic)
        client.send_all(run, numbers)
        client.hang_up()


if __name__ == "__main__":
    main()
