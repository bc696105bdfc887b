"""Batches that librdkafka writes, caught on a socket in front of a node of ours."""

import socket
import threading
import time
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from confluent_kafka import Producer

from impl.broker.config import NodeConfig
from impl.broker.node import Node
from impl.broker.outputs import CloseConnection
from impl.protocol.messages import decode_request
from impl.protocol.primitives import frame, take_frames
from impl.protocol.record_batch import RecordBatch, decode_batches, encode_batch
from impl.protocol.schemas import ApiKey

pytestmark = pytest.mark.slow  # a client in C

Sent = list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]]
TOPIC = "t"
SECONDS = 20
START_MS = 1_700_000_000_000


class Server:
    """One node on a socket; keeps the records of every Produce request."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._node = Node(NodeConfig(host="127.0.0.1", port=self.port))
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        buffer = bytearray()
        with connection:
            while data := connection.recv(1 << 16):
                buffer += data
                for payload in take_frames(buffer):
                    try:
                        answer = self._handle(payload)
                    except CloseConnection:
                        return
                    connection.sendall(frame(answer))

    def _handle(self, payload: bytes) -> bytes:
        with self._lock:
            answer = self._node.handle(payload, int(time.time() * 1000))
            if int.from_bytes(payload[:2], "big") == ApiKey.PRODUCE:
                body = decode_request(payload)[1]
                self.records += [p["records"] for t in body["topics"] for p in t["partitions"]]
        assert answer is not None
        return answer

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.close()


def rows(random: Random) -> Sent:
    """Records of all widths, null and empty keys and values, some with headers."""
    names = ["trace-id", "", "ключ"]
    return [
        (
            random.choice([None, b"", random.randbytes(random.randrange(70))]),
            random.choice([None, b"", random.randbytes(random.choice([5, 63, 64, 300, 8192]))]),
            [
                (random.choice(names), random.choice([None, b"", random.randbytes(70)]))
                for _ in range(random.choice([0, 0, 1, 3]))
            ],
        )
        for _ in range(150)
    ]


def produce(server: Server, sent: Sent, compression: str) -> None:
    errors: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{server.port}",
            "enable.idempotence": True,
            "linger.ms": 100,
            "compression.type": compression,
        }
    )
    for index, (key, value, headers) in enumerate(sent):
        producer.produce(
            TOPIC,
            key=key,
            value=value,
            headers=headers,
            partition=0,
            timestamp=START_MS + index * 7,
            on_delivery=lambda error, message: errors.append(error),
        )
    assert producer.flush(SECONDS) == 0
    assert errors == [None] * len(sent)


def caught(server: Server) -> list[RecordBatch]:
    """The batches of the one partition, each once, in the order of their sequences."""
    batches = [batch for records in server.records for batch in decode_batches(records)]
    return sorted({batch.base_sequence: batch for batch in batches}.values(), key=by_sequence)


def by_sequence(batch: RecordBatch) -> int:
    return batch.base_sequence


def without_leader_epoch(data: bytes) -> bytes:
    """A client may write any; it lies outside the checksum."""
    return data[:12] + data[16:]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy"])
def test_we_read_what_librdkafka_writes(server: Server, compression: str) -> None:
    """Lz4 and zstd it keeps for brokers that offer FindCoordinator and Fetch."""
    sent = rows(Random(compression))
    produce(server, sent, compression)
    batches = caught(server)
    found = [record for batch in batches for record in batch.records]
    assert [(r.key, r.value, list(r.headers)) for r in found] == sent
    assert [r.timestamp for r in found] == [START_MS + index * 7 for index in range(len(sent))]
    assert any(batch.compression for batch in batches) == (compression != "none")
    assert batches[-1].last_sequence == len(sent) - 1
    if compression == "none":
        ours = {without_leader_epoch(encode_batch(batch)) for batch in batches}
        assert ours == set(map(without_leader_epoch, server.records))
