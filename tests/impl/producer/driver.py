"""The producer's core between leader cores, each step under the test's control."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from impl.partition.leader import PartitionLeader
from impl.producer import IdempotentProducerCore, ProducerConfig, SendRequest
from impl.protocol.errors import ErrorCode
from impl.protocol.messages import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from impl.protocol.record_batch import RecordBatch, decode_batch
from impl.protocol.schemas import ApiKey

NODE = 1
Answer = dict[str, Any]


def batches_of(request: SendRequest) -> dict[tuple[str, int], RecordBatch]:
    return {
        (topic["name"], data["index"]): decode_batch(data["records"])
        for topic in request.body["topics"]
        for data in topic["partitions"]
    }


def batch_of(request: SendRequest) -> RecordBatch:
    (batch,) = batches_of(request).values()
    return batch


def values_of(batch: RecordBatch) -> list[bytes | None]:
    return [record.value for record in batch.records]


def through_the_wire(request: SendRequest) -> tuple[int, Answer]:
    """(api key, body) as a broker decodes them."""
    payload = encode_request(
        request.api_key, request.api_version, request.correlation_id, "test", request.body
    )
    header, body = decode_request(payload)
    assert header["correlation_id"] == request.correlation_id
    return header["api_key"], body


class Driver:
    """One client, one leader a partition, no network: requests and answers are in the test's hand.

    `config` is what the user sets; linger is off unless given.
    """

    def __init__(
        self,
        leaders: Mapping[tuple[str, int], int] | None = None,
        *,
        producer_epoch: int = 0,
        initialize: bool = True,
        **config: object,
    ) -> None:
        leaders = {("t", 0): NODE} if leaders is None else leaders
        self.now_ms = 1_000
        self.leaders = {topic_partition: PartitionLeader() for topic_partition in leaders}
        self.core = IdempotentProducerCore(ProducerConfig.of(**({"linger_ms": 0} | config)))
        self.core.update_metadata(leaders)
        self.appended = 0
        if initialize:
            self.initialize(producer_epoch=producer_epoch)

    def initialize(self, producer_id: int = 7, producer_epoch: int = 0) -> None:
        (request,) = self.poll()
        assert request.api_key == ApiKey.INIT_PRODUCER_ID
        through_the_wire(request)
        body = {"error_code": 0, "producer_id": producer_id, "producer_epoch": producer_epoch}
        self.core.receive(request.correlation_id, body, self.now_ms)

    def append(self, count: int = 1, partition: int = 0):
        """Append `count` records with values r0, r1, ...; the handle of the last one."""
        for _ in range(count):
            value = b"r%d" % self.appended
            handle = self.core.append("t", partition, value=value, now_ms=self.now_ms)
            self.appended += 1
        return handle

    def poll(self, after_ms: int = 0) -> tuple[Any, ...]:
        self.now_ms += after_ms
        return self.core.poll(self.now_ms)

    def send(self, count: int = 1, partition: int = 0) -> SendRequest:
        """Append, poll, and the one request that comes of it."""
        self.append(count, partition)
        (request,) = self.poll()
        return request

    def deliver(self, request: SendRequest) -> Answer:
        """The leaders' answer to a Produce request, through the codec both ways."""
        _, body = through_the_wire(request)
        topics = [
            {
                "name": topic["name"],
                "partitions": [self._produce(topic["name"], data) for data in topic["partitions"]],
            }
            for topic in body["topics"]
        ]
        payload = encode_response(
            request.api_key, request.api_version, request.correlation_id, {"topics": topics}
        )
        return decode_response(request.api_key, request.api_version, payload)[1]

    def _produce(self, topic: str, data: Answer) -> Answer:
        leader = self.leaders[topic, data["index"]]
        done = leader.produce(data["records"], required_acks=-1, now_ms=self.now_ms)
        return {
            "index": data["index"],
            "error_code": done.error,
            "base_offset": done.base_offset,
            "log_start_offset": done.log_start_offset,
        }

    def receive(self, request: SendRequest, answer: Answer) -> None:
        self.core.receive(request.correlation_id, answer, self.now_ms)

    def answer(self, request: SendRequest) -> None:
        """Deliver and receive."""
        self.receive(request, self.deliver(request))

    def refuse(self, request: SendRequest, error: ErrorCode, **more: object) -> None:
        """The same error for all partitions of the request."""
        self.receive(request, refusal(request, error, **more))

    def lose(self, node_id: int = NODE) -> None:
        self.core.disconnected(node_id, self.now_ms)

    def state(self, partition: int = 0):
        return self.core.partition_state("t", partition)

    def log(self, partition: int = 0) -> list[bytes | None]:
        """The values in the partition's log."""
        stored = self.leaders["t", partition].batches
        return [value for batch in stored for value in values_of(decode_batch(batch.data))]


def refusal(request: SendRequest, error: ErrorCode, **more: object) -> Answer:
    topics: dict[str, list[Answer]] = {}
    for topic, partition in batches_of(request):
        data = {"index": partition, "error_code": int(error), "base_offset": -1, **more}
        topics.setdefault(topic, []).append(data)
    return {"topics": [{"name": name, "partitions": data} for name, data in topics.items()]}


class Wire:
    """An in-order connection that can break.

    Requests travel in `forward`, answers in `backward`. A break loses all answers; the requests
    on their way arrive later from `late`, in their order, or never.
    """

    def __init__(self) -> None:
        self.forward: deque[SendRequest] = deque()
        self.backward: deque[tuple[SendRequest, Answer]] = deque()
        self.late: deque[SendRequest] = deque()

    def break_off(self) -> None:
        self.late = self.forward
        self.forward = deque()
        self.backward.clear()
