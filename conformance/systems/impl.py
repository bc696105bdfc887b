"""`impl` in process: its producers and its partition leaders, with or without its codec.

1. Nothing of `impl` is changed or guessed: its cores are called as a driver would call them. On
   bytes each message passes its codec, request and answer; on values it stays what the core gave.
2. Time moves only where the model lets something become due: before a retry, by the backoff.
3. A producer knows a leader only while the model lets it send there. So one poll drains one batch
   of one partition, and a poll that may only bump the epoch sends nothing.
4. What a record says is in its value: its number. Views take it from there, never from memory of
   what was asked.

Theory of operation. A model's `send_new` is `append` for each record, then `poll`; `send_again` a
`poll` once the backoff has passed; `bump_epoch` a `poll` while no leader is known, since the core
bumps at the beginning of its sender loop; answers are `receive`, a broken connection is
`disconnected`. A leader's `produce` is called with what the request carried; with one replica the
high watermark follows at once. A restart writes log and snapshot as bytes and reads them back; an
election replays a prefix of the log. InitProducerId is answered here, with the producer ids of the
model.

No requests bring a producer near the wrap in reasonable time (2^31 records): where a scope begins
there, the adapter sets the sequence that the producer gives next, and the first record of the
scope is then sent, stored and acknowledged for real.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, Protocol

from conformance.systems.base import Payload, Reaction, View, WireNumbers
from impl import (
    ApiKey,
    DeliveryHandle,
    ErrorCode,
    IdempotentProducerCore,
    PartitionLeader,
    ProduceOutcome,
    ProducerConfig,
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
from impl.partition.producer_state import UNKNOWN_PRODUCER, ProducerStateEntry
from impl.partition.stored_batch import StoredBatch
from impl.partition.validation import LogConfig
from impl.producer import InFlightBatch
from model.setting import Acks, Idempotence, Retries, Setting

TOPIC: Final = "t"
CLIENT_ID: Final = "c"
PRODUCE_VERSION: Final = 12
INIT_PRODUCER_ID_VERSION: Final = 5
BACKOFF_MS: Final = 1
TIMEOUT_MS: Final = 2**30
"""What requests say that a broker may take; the model says what it does."""
DELIVERY_TIMEOUT_MS: Final = 2**29
LONGEST_STEP_MS: Final = 2**28
"""Halved with each batch, it leaves room for twenty of them."""
TIMESTAMP_MS: Final = 0
"""Of every record: the model's records have no time, so equal ones are equal bytes."""
BROKER_NOW_MS: Final = 0
MAX_INT32: Final = 2**31 - 1
NEVER_MS: Final = 2**62
"""Longer than anything lasts."""
REPLICAS: Final = 2
"""Of each partition, and so many must be in sync; the model's layout says how long that takes."""
NONE: Final = -1

Body = dict[str, Any]


class UnexpectedEffects(Exception):
    """A poll did not send what it should send in this step: one request, or nothing."""


# Records and batches


def value_of(number: int) -> bytes:
    """What the record of that number says."""
    return b"%d" % number


class BatchViews:
    """Views of batches by their bytes: equal bytes are read once.

    The limit keeps a long run small; what is dropped is read again.
    """

    LIMIT: Final = 100_000

    def __init__(self) -> None:
        self._requests: dict[bytes, View] = {}
        self._stored: dict[bytes, View] = {}

    def request(self, data: bytes) -> View:
        """A batch on its way, shaped as REQUEST. `first_record` is -1 unless numbers follow."""
        view = self._requests.get(data)
        if view is None:
            view = self._remember(self._requests, data, self._read(decode_batch(data)))
        return view

    def stored(self, data: bytes) -> View:
        """A batch in a log, shaped as STORED_BATCH."""
        view = self._stored.get(data)
        if view is None:
            batch = decode_batch(data)
            view = self._remember(self._stored, data, (*self._read(batch), batch.base_offset))
        return view

    def _remember(self, views: dict[bytes, View], data: bytes, view: View) -> View:
        if len(views) >= self.LIMIT:
            views.clear()
        views[data] = view
        return view

    @staticmethod
    def _read(batch: RecordBatch) -> View:
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


# Codecs


class Request(NamedTuple):
    """A Produce request on its way: what its receiver reads."""

    correlation_id: int
    body: Body
    view: View


class Answer(NamedTuple):
    """An answer on its way."""

    correlation_id: int
    body: Body


class Codec(Protocol):
    """How messages become what their receiver reads."""

    def request(self, sent: SendRequest) -> tuple[int, Body]:
        """(correlation id, body) as a broker reads them."""

    def response(self, version: int, api_key: int, correlation_id: int, body: Body) -> Answer:
        """An answer as a client reads it."""


class Values:
    """No codec: a receiver gets the sender's values."""

    def request(self, sent: SendRequest) -> tuple[int, Body]:
        """As sent."""
        return sent.correlation_id, sent.body

    def response(self, version: int, api_key: int, correlation_id: int, body: Body) -> Answer:
        """As answered."""
        return Answer(correlation_id, body)


class Bytes:
    """`impl`'s codec both ways."""

    def request(self, sent: SendRequest) -> tuple[int, Body]:
        """Encoded and decoded. Raises `impl`'s ProtocolError."""
        _, correlation_id, api_key, version, body = sent
        payload = encode_request(api_key, version, correlation_id, CLIENT_ID, body)
        header, read = decode_request(payload)
        return header["correlation_id"], read

    def response(self, version: int, api_key: int, correlation_id: int, body: Body) -> Answer:
        """Encoded and decoded. Raises `impl`'s ProtocolError."""
        payload = encode_response(api_key, version, correlation_id, body)
        header, read = decode_response(api_key, version, payload)
        return Answer(header["correlation_id"], read)


CODECS: Mapping[str, Codec] = {"bytes": Bytes(), "values": Values()}


class Shared(NamedTuple):
    """What all actors of one system share."""

    k: Setting
    codec: Codec
    views: BatchViews


# The producer


class Clock:
    """The time of one producer, such that each batch can be given up alone.

    Records are handed over ever closer to each other: between the times at which two of them are
    given up there is room for all that comes after. Everything else takes a millisecond.
    """

    __slots__ = ("_step_ms", "now_ms")

    def __init__(self) -> None:
        self.now_ms = 0
        self._step_ms = LONGEST_STEP_MS

    def ticks(self) -> int:
        """A moment later."""
        self.now_ms += BACKOFF_MS
        return self.now_ms

    def hands_over(self) -> int:
        """The time of the next batch."""
        self._step_ms //= 2
        self.now_ms += self._step_ms
        return self.now_ms

    def reaches(self, now_ms: int) -> int:
        """That time, or what it is if that is past."""
        self.now_ms = max(self.now_ms, now_ms)
        return self.now_ms


class ImplClient:
    """One `IdempotentProducerCore`, driven as the model says."""

    def __init__(self, shared: Shared, producer: int) -> None:
        self._k, self._codec, self._views = shared
        self._producer = producer
        self._partitions = range(self._k.layout.partitions)
        self._config = producer_config(self._k)
        self.reset()

    def reset(self) -> None:
        """A new producer, with its id if it has one at first."""
        self._clock = Clock()
        self._core = IdempotentProducerCore(
            self._config,
            produce_version=PRODUCE_VERSION,
            init_producer_id_version=INIT_PRODUCER_ID_VERSION,
        )
        self._open: list[dict[int, DeliveryHandle]] = [{} for _ in self._partitions]
        self._created: list[dict[int, int]] = [{} for _ in self._partitions]
        self._sent = [0 for _ in self._partitions]
        self._acknowledged = [0 for _ in self._partitions]
        self._failed = [0 for _ in self._partitions]
        self._asked: SendRequest | None = None
        self._known: int | None = None
        self._let_send(0)
        if self._k.layout.begun and self._config.enable_idempotence:
            self.receive_producer_id(self._producer)

    def begin_at(self, partition: int, sequence: int) -> None:
        """The next batch begins with this sequence: see the theory of operation."""
        entry = self._core._transaction_manager.entry((TOPIC, partition))
        entry.start_sequences_at_beginning(self._core.producer_id, self._core.producer_epoch)
        entry.next_sequence = sequence

    def view(self) -> View:
        """Shaped as CLIENT."""
        core = self._core
        partitions = tuple([self._partition_view(p) for p in self._partitions])
        return core.producer_id, core.producer_epoch, core.epoch_bump_required, partitions

    def send_new(self, partition: int, first_record: int, record_count: int) -> Reaction:
        """`append` and one `poll`."""
        handles = self._open[partition]
        now_ms = self._clock.hands_over()
        for number in range(first_record, first_record + record_count):
            self._created[partition][number] = now_ms
            handles[number] = self._core.append(
                TOPIC,
                partition,
                value=value_of(number),
                timestamp_ms=TIMESTAMP_MS,
                now_ms=now_ms,
            )
        self._sent[partition] += record_count
        return self._sends(partition)

    def send_again(self, partition: int) -> Reaction:
        """One `poll` after the backoff."""
        self._clock.ticks()
        return self._sends(partition)

    def bump_epoch(self) -> Reaction:
        """One `poll` that has nobody to send to. After the last epoch it asks for a producer id."""
        self._let_send(None)
        effects = self._core.poll(self._clock.now_ms)
        if effects:
            self._asked = only_request(effects)
        return Reaction(self.view())

    def resolve_sequences(self) -> Reaction:
        """One `poll` that has nobody to send to."""
        return self._polls_in_vain()

    def expire_batch(self, partition: int, first_record: int) -> Reaction:
        """One `poll`, with nobody to send to, when the time of this batch, the oldest, is up."""
        self._is_overdue(partition, first_record)
        self._polls_in_vain()
        self._hear(partition)
        return Reaction(self.view())

    def receive_producer_id(self, producer_id: int) -> Reaction:
        """Ask for a producer id, unless that is done, and get the model's."""
        asked = self._asked or self._polled()
        self._asked = None
        correlation_id, _ = self._codec.request(asked)
        body = {"error_code": ErrorCode.NONE, "producer_id": producer_id, "producer_epoch": 0}
        answer = self._codec.response(asked.api_version, asked.api_key, correlation_id, body)
        self._core.receive(answer.correlation_id, answer.body, self._clock.now_ms)
        return Reaction(self.view())

    def on_answer(self, partition: int, answer: Answer, overdue: int) -> Reaction:
        """`receive`, maybe when the time of the oldest batch is up."""
        if overdue:
            self._is_overdue(partition, min(self._open[partition]))
        self._core.receive(answer.correlation_id, answer.body, self._clock.now_ms)
        self._hear(partition)
        return Reaction(self.view())

    def on_disconnect(self, partition: int, overdue: int) -> Reaction:
        """`disconnected`, maybe when the time of the oldest batch is up."""
        if overdue:
            self._is_overdue(partition, min(self._open[partition]))
        self._core.disconnected(partition, self._clock.now_ms)
        self._hear(partition)
        return Reaction(self.view())

    def _is_overdue(self, partition: int, number: int) -> None:
        """The time comes at which the record has been waiting for too long."""
        self._clock.reaches(self._created[partition][number] + DELIVERY_TIMEOUT_MS)

    def _hear(self, partition: int) -> None:
        """What the application is told of its records."""
        handles = self._open[partition]
        for number in [number for number, handle in handles.items() if handle.done]:
            told = self._acknowledged if handles.pop(number).error is None else self._failed
            told[partition] |= 1 << number

    def _polls_in_vain(self) -> Reaction:
        self._let_send(None)
        effects = self._core.poll(self._clock.now_ms)
        if effects:
            raise UnexpectedEffects(f"poll gives {effects}")
        return Reaction(self.view())

    def _let_send(self, partition: int | None) -> None:
        """Only this partition has a leader that the producer knows. A node leads one partition."""
        if partition != self._known:
            self._known = partition
            leaders = {} if partition is None else {(TOPIC, partition): partition}
            self._core.update_metadata(leaders)

    def _polled(self) -> SendRequest:
        """The one request of a poll. Raises UnexpectedEffects."""
        return only_request(self._core.poll(self._clock.now_ms))

    def _sends(self, partition: int) -> Reaction:
        self._let_send(partition)
        polled = self._polled()
        correlation_id, body = self._codec.request(polled)
        if not self._config.acks:
            self._core.sent(polled.correlation_id, self._clock.now_ms)
            self._hear(partition)
        view = self._views.request(body["topics"][0]["partitions"][0]["records"])
        return Reaction(self.view(), ((view, Request(correlation_id, body, view)),))

    def _partition_view(self, partition: int) -> View:
        """An entry of a partition not used yet has no epoch; in the model it has the first."""
        state = self._core.partition_state(TOPIC, partition)
        _, producer_epoch, next_sequence, last_acked_sequence, _, in_flight, unresolved = state
        return (
            max(producer_epoch, 0),
            next_sequence,
            last_acked_sequence,
            unresolved,
            in_flight_view(in_flight, list(self._open[partition])) if in_flight else (),
            self._sent[partition],
            self._acknowledged[partition],
            self._failed[partition],
        )


def only_request(effects: Sequence[Any]) -> SendRequest:
    """The one request of a poll. Raises UnexpectedEffects."""
    if len(effects) != 1 or not isinstance(effects[0], SendRequest):
        raise UnexpectedEffects(f"poll gives {effects}")
    request: SendRequest = effects[0]
    return request


ACKS: Final[Mapping[Acks, object]] = {Acks.ALL: "all", Acks.LEADER: 1, Acks.NONE: 0}
RETRIES: Final[Mapping[Retries, int]] = {
    Retries.NONE: 0,
    Retries.ONE: 1,
    Retries.ENDLESS: 2**31 - 1,
}


def producer_config(k: Setting) -> ProducerConfig:
    """The configuration that the model's variant and layout mean.

    No request times out by itself: that would be a broken connection, and the model says when.
    """
    config = ProducerConfig.of(
        acks=ACKS[k.variant.acks],
        retries=RETRIES[k.variant.retries],
        enable_idempotence=k.variant.idempotence == Idempotence.ENABLED,
        max_in_flight_requests_per_connection=k.layout.in_flight,
        linger_ms=0,
        retry_backoff_ms=BACKOFF_MS,
        retry_backoff_max_ms=BACKOFF_MS,
    )
    return replace(config, request_timeout_ms=MAX_INT32, delivery_timeout_ms=DELIVERY_TIMEOUT_MS)


def in_flight_view(in_flight: tuple[InFlightBatch, ...], numbers: list[int]) -> View:
    """Batches in flight; they have the records that have not ended, in the order of sending."""
    views = []
    position = 0
    for batch in in_flight:
        producer_id, producer_epoch, base_sequence, record_count, outstanding, reset, _ = batch
        first = numbers[position] if position < len(numbers) else NONE
        batch_view = (producer_id, producer_epoch, base_sequence, record_count, first)
        views.append((*batch_view, outstanding, reset))
        position += record_count
    return tuple(views)


# The leader


class ImplLeader:
    """One `PartitionLeader` of a topic with two replicas, and what a broker does around it.

    `_stored` has every batch that was ever kept, also those that were deleted since: a follower
    that fetched them all remembers their producers.
    """

    def __init__(self, shared: Shared, partition: int) -> None:
        self._k, self._codec, self._views = shared
        self._partition = partition
        self._producers = range(self._k.layout.producer_ids)
        self._entries: dict[int, tuple[ProducerStateEntry, View]] = {}
        self.reset()

    def reset(self) -> None:
        """An empty log."""
        self._leader = PartitionLeader(config=self._config, replication_factor=REPLICAS)
        self._stored: list[StoredBatch] = []

    @property
    def _config(self) -> LogConfig:
        """A batch of more records than `max_message` is too large for the topic."""
        layout = self._k.layout
        if not layout.splits:
            return LogConfig(min_insync_replicas=REPLICAS)
        largest = size_of_batch(layout.max_message)
        return LogConfig(min_insync_replicas=REPLICAS, max_message_bytes=largest)

    def view(self) -> View:
        """Shaped as LEADER."""
        leader = self._leader
        stored = self._views.stored
        start = leader.log_start_offset
        return (
            tuple([stored(b.data) for b in leader.batches if b.base_offset >= start]),
            start,
            leader.high_watermark,
            tuple([self._entry_view(producer) for producer in self._producers]),
        )

    def on_produce(self, request: Request) -> Reaction:
        """The request's batch goes to `produce`."""
        outcome = self._produced(request)
        self._replicate()
        return self._answers(request, outcome)

    def on_produce_then_unreplicated(self, request: Request, timed_out: int) -> Reaction:
        """The batch goes to `produce`; then a replica is slow, or no longer in sync."""
        leader = self._leader
        outcome = self._produced(request)
        if timed_out:
            settled = leader.settle(outcome, is_overdue=True)
        else:
            leader.update_in_sync_replicas(1)
            leader.advance_high_watermark(leader.log_end_offset)
            settled = leader.settle(outcome)
            leader.update_in_sync_replicas(REPLICAS)
        self._replicate()
        return self._answers(request, settled or outcome)

    def on_produce_without_replicas(self, request: Request) -> Reaction:
        """One of two replicas is in sync: the broker refuses, and nothing is written."""
        self._leader.update_in_sync_replicas(1)
        outcome = self._produced(request)
        self._leader.update_in_sync_replicas(REPLICAS)
        return self._answers(request, outcome)

    def advance_high_watermark(self) -> Reaction:
        """To the end of the log."""
        self._leader.advance_high_watermark(self._leader.log_end_offset)
        return Reaction(self.view())

    def restart(self) -> Reaction:
        """Log and snapshot as bytes, read back."""
        return self._restarted({self._leader.log_end_offset: self._leader.snapshot()})

    def recover(self, covered: int) -> Reaction:
        """Killed: log and an older snapshot, taken where a segment begins, as bytes, read back."""
        earlier = self._elected(covered)
        flushed = earlier.log_end_offset
        segments = (0, flushed) if covered else (0,)
        snapshots = {flushed: earlier.snapshot()} if covered else {}
        return self._restarted(snapshots, segments, recovery_point=flushed)

    def fail_over(self, kept: int) -> Reaction:
        """A prefix of the log, replayed."""
        self._leader = self._elected(kept)
        del self._stored[kept:]
        return Reaction(self.view())

    def expire_producer(self, producer_id: int) -> Reaction:
        """The time comes at which all that the leader knows is too old."""
        self._leader.remove_expired_producers(BROKER_NOW_MS + NEVER_MS)
        return Reaction(self.view())

    def delete_records(self, deleted: int) -> Reaction:
        """`delete_records` up to the end of a batch."""
        last = self._stored[deleted - 1]
        self._leader.delete_records(last.base_offset + last.last_offset_delta + 1)
        return Reaction(self.view())

    def _produced(self, request: Request) -> ProduceOutcome:
        """The request's batch goes to `produce`; what is new in the log is noted."""
        leader, body = self._leader, request.body
        before = leader.log_end_offset
        records = body["topics"][0]["partitions"][0]["records"]
        outcome = leader.produce(records, required_acks=body["acks"], now_ms=BROKER_NOW_MS)
        if leader.log_end_offset > before:
            self._stored.append(leader.batches[-1])
        return outcome

    def _replicate(self) -> None:
        """With one replica in the model, the high watermark follows at once."""
        if self._k.layout.replicas == 1:
            self._leader.advance_high_watermark(self._leader.log_end_offset)

    def _restarted(
        self,
        snapshots: dict[int, bytes],
        segments: tuple[int, ...] = (),
        recovery_point: int | None = None,
    ) -> Reaction:
        leader = self._leader
        self._leader = PartitionLeader.restarted(
            b"".join(batch.data for batch in leader.batches),
            snapshots,
            leader_epoch=leader.leader_epoch + 1,
            high_watermark=leader.high_watermark,
            log_start_offset=leader.log_start_offset,
            now_ms=BROKER_NOW_MS,
            config=self._config,
            replication_factor=REPLICAS,
            segments=segments,
            recovery_point=recovery_point,
        )
        return Reaction(self.view())

    def _elected(self, kept: int) -> PartitionLeader:
        leader, stored = self._leader, self._stored[:kept]
        end = stored[-1].base_offset + stored[-1].last_offset_delta + 1 if stored else 0
        elected = PartitionLeader.elected(
            stored,
            leader_epoch=leader.leader_epoch + 1,
            high_watermark=min(leader.high_watermark, end),
            config=self._config,
            replication_factor=REPLICAS,
        )
        if leader.log_start_offset <= end:
            elected.delete_records(leader.log_start_offset)
        return elected

    def _answers(self, request: Request, outcome: ProduceOutcome) -> Reaction:
        row = {
            "index": self._partition,
            "error_code": outcome.error,
            "base_offset": outcome.base_offset,
            "log_append_time_ms": outcome.log_append_time_ms,
            "log_start_offset": outcome.log_start_offset,
        }
        body = {"topics": [{"name": TOPIC, "partitions": [row]}]}
        correlation_id = request.correlation_id
        answer = self._codec.response(PRODUCE_VERSION, ApiKey.PRODUCE, correlation_id, body)
        read = answer.body["topics"][0]["partitions"][0]
        # An answer that waits for nothing needs high watermark 0 in the model, -1 here.
        required_offset = 0 if outcome.error else max(outcome.required_offset, 0)
        view = (
            request.view[4],
            int(read["error_code"]),
            read["base_offset"],
            required_offset,
            read["log_start_offset"],
        )
        return Reaction(self.view(), ((view, answer),))

    def _entry_view(self, producer: int) -> View:
        """Entries are values that an append replaces: the same one has the same view."""
        entry = self._leader.producers.get(producer, UNKNOWN_PRODUCER)
        known = self._entries.get(producer)
        if known is not None and known[0] is entry:
            return known[1]
        batches = tuple([(b.last_sequence, b.last_offset, b.offset_delta) for b in entry.batches])
        view = (entry.producer_epoch, batches)
        self._entries[producer] = entry, view
        return view


# The system


class ImplSystem:
    """`impl`'s leaders, and its producers if they are under test. `on` is "bytes" or "values"."""

    def __init__(self, k: Setting, actors: frozenset[str], on: str) -> None:
        shared = Shared(k, CODECS[on], BatchViews())
        self._k = k
        self._codec = shared.codec
        self._payloads: dict[tuple[int, View], SendRequest] = {}
        self.leaders = tuple(ImplLeader(shared, p) for p in range(k.layout.partitions))
        producers = range(k.layout.producers) if "client" in actors else ()
        self.clients = tuple(ImplClient(shared, producer) for producer in producers)

    def reset(self) -> None:
        """All new, and the prefix of the scope executed."""
        for leader in self.leaders:
            leader.reset()
        for client in self.clients:
            client.reset()
        first = self._k.layout.first_sequence
        if first > 0:
            self._begin(WireNumbers(self._k)[first])

    def request(self, partition: int, request: View) -> Payload:
        """A request with the batch that the view describes."""
        sent = self._payloads.get((partition, request))
        if sent is None:
            if len(self._payloads) >= BatchViews.LIMIT:
                self._payloads.clear()
            sent = self._payloads[partition, request] = played_request(partition, request)
        correlation_id, body = self._codec.request(sent)
        return Request(correlation_id, body, request)

    def _begin(self, first: int) -> None:
        """Record 0 of each partition is sent at `first`, stored and acknowledged."""
        for partition, leader in enumerate(self.leaders):
            if self.clients:
                self.clients[0].begin_at(partition, first)
                payload = self.clients[0].send_new(partition, 0, 1).sent[0][1]
            else:
                payload = self.request(partition, (0, 0, first, 1, 0))
            answer = leader.on_produce(payload).sent[0][1]
            leader.advance_high_watermark()
            if self.clients:
                self.clients[0].on_answer(partition, answer, 0)


def size_of_batch(record_count: int) -> int:
    """Bytes of the batch that holds so many of the records that are sent here."""
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
