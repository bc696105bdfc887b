"""Drives `impl`'s producer core as the model says.

1. Time moves only where the model lets something become due: before a retry, by the backoff.
2. A producer knows the leader of a partition only while the model lets it send there. So one poll
   drains one batch of one partition, and a poll that may only bump the epoch sends nothing.

Theory of operation. The model's `send_new` is `append` for each record, then `poll`. `send_again`
is a `poll` after the backoff has passed. `bump_epoch` is a `poll` while no leader is known, since
the core bumps at the beginning of its sender loop. Answers go to `receive`; a broken connection is
`disconnected`. This module answers InitProducerId, with the producer ids of the model. Records that
must wait are tested too: `poll` and `offer` give the producer the chance to send what it must not.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from conformance.adapters.impl.idempotent.messages import (
    NONE,
    PRODUCE_VERSION,
    TIMESTAMP_MS,
    TOPIC,
    AnswerPayload,
    ProducePayload,
    Shared,
    value_of,
)
from conformance.adapters.impl.idempotent.refused_batches import RETRIES as REFUSALS
from conformance.adapters.impl.idempotent.refused_batches import differences_when_refused
from conformance.adapters.impl.shared.last_epoch import last_epoch_of
from conformance.adapters.impl.shared.snapshots import PicklableActor
from conformance.judging.system import Reaction, View
from impl import (
    DeliveryHandle,
    Disconnect,
    ErrorCode,
    IdempotentProducerCore,
    ProducerConfig,
    SendRequest,
)
from impl.producer import InFlightBatch, State
from impl.producer.batch import ProducerBatch
from impl.producer.sequence_manager import PartitionEntry, SequenceManager
from impl.protocol.record_batch import INVALID_OFFSET, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from model.idempotent.configuration import Acks, Configuration, Idempotence, Retries

INIT_PRODUCER_ID_VERSION: Final = 5
BACKOFF_MS: Final = 1
DELIVERY_TIMEOUT_MS: Final = 2**29
LONGEST_STEP_MS: Final = 2**28
"""The longest step of the clock. It is halved with each batch, which leaves room for twenty
batches."""
MAX_INT32: Final = 2**31 - 1
NO_ANSWERS: Final = 0
"""The value of acks with which brokers send no answers."""
MOST_ASKED: Final = 100_000
"""The number of views whose copies are tested."""
UNUSED: Final = PartitionEntry()
"""The state of a partition that a producer has not used."""


class UnexpectedEffects(Exception):
    """A poll did not send what this step should send: one request, or nothing."""


class Clock:
    """The clock of one producer. It lets the delivery time of each batch run out separately.

    Records are handed over at ever shorter intervals: between the times at which two records expire
    there is room for everything that comes after. All other steps take a millisecond.
    """

    __slots__ = ("_step_ms", "now_ms")

    def __init__(self) -> None:
        self.now_ms = 0
        self._step_ms = LONGEST_STEP_MS

    def ticks(self) -> int:
        """Advance by a millisecond."""
        self.now_ms += BACKOFF_MS
        return self.now_ms

    def hands_over(self) -> int:
        """Advance to the time of the next batch."""
        self._step_ms //= 2
        self.now_ms += self._step_ms
        return self.now_ms

    def reaches(self, now_ms: int) -> int:
        """Advance to this time, unless it is past."""
        self.now_ms = max(self.now_ms, now_ms)
        return self.now_ms


class ImplClient(PicklableActor):
    """One `IdempotentProducerCore`, driven as the model says."""

    SHARED = frozenset(
        [
            "_k",
            "_codec",
            "_views",
            "_transform",
            "_producer",
            "_partitions",
            "_places",
            "_config",
            "_splits",
            "_asked",
        ]
    )

    def __init__(self, shared: Shared, producer: int) -> None:
        self._k, self._codec, self._views, self._transform = shared
        self._producer = producer
        self._partitions = range(self._k.bounds.partitions)
        self._places = [(TOPIC, partition) for partition in self._partitions]
        self._config = self._configured(producer_config(self._k))
        self._splits = self._k.bounds.splits
        self._asked: set[View] = set()
        self.reset()

    def reset(self) -> None:
        """Begin with a new producer, which has its id if it has one initially."""
        self._clock = Clock()
        self._core = self._new_core()
        self._open: list[dict[int, DeliveryHandle]] = [{} for _ in self._partitions]
        self._created: list[dict[int, int]] = [{} for _ in self._partitions]
        self._sent = [0] * len(self._partitions)
        self._acknowledged = [0] * len(self._partitions)
        self._failed = [0] * len(self._partitions)
        self._known: int | None = None
        self._let_send(0)
        if self._k.bounds.begun and self._config.enable_idempotence:
            self.receive_producer_id(0 if self._k.bounds.shared_producer_id else self._producer)

    def _configured(self, config: ProducerConfig) -> ProducerConfig:
        """The configuration that the scope stands for."""
        return config

    def _new_core(self) -> IdempotentProducerCore:
        """A new core, without a producer id."""
        return new_core(self._config)

    def begin_at(self, partition: int, sequence: int) -> None:
        """Let the next batch begin with this sequence: see the theory of operation."""
        entry = self._core._manager.entry((TOPIC, partition))
        entry.start_sequences_at_beginning(self._core.producer_id, self._core.producer_epoch)
        entry.next_sequence = sequence

    def view(self) -> View:
        """The state of the producer, shaped as CLIENT. Every step makes a view, so it reads the
        core's state directly, without the copies that `partition_state` makes."""
        manager = self._core._manager
        partitions = tuple([self._partition_view(manager, p) for p in self._partitions])
        bump_is_due = manager.epoch_bump_required
        return manager.producer_id, manager.producer_epoch, bump_is_due, partitions

    def send_new(self, partition: int, record_count: int) -> Reaction:
        """`append` and one `poll`."""
        now_ms = self._clock.hands_over()
        first_record = self._sent[partition]
        for number in range(first_record, first_record + record_count):
            self._created[partition][number] = now_ms
            self._open[partition][number] = self._append(partition, number, now_ms)
            if self._splits:
                now_ms = self._clock.hands_over()
        self._sent[partition] += record_count
        return self._sends(partition)

    def _append(self, partition: int, number: int, now_ms: int) -> DeliveryHandle:
        handle = self._core.append(
            TOPIC, partition, value=value_of(number), timestamp_ms=TIMESTAMP_MS, now_ms=now_ms
        )
        if self._splits:
            # The parts of a batch that is refused the first time are packed by batch.size, which
            # gives the same batch again; the parts of a part are smaller (KAFKA-8350). The model
            # leaves out the first refusal, so here a batch begins as such a part.
            handle._batch.is_split = True
        return handle

    def send_again(self, partition: int) -> Reaction:
        """One `poll` after the backoff."""
        self._clock.ticks()
        return self._sends(partition)

    def bump_epoch(self) -> Reaction:
        """One `poll` while no leader is known."""
        self._let_send(None)
        with last_epoch_of(self._k.bounds):
            self._polls_in_vain()
        return self.view(), ()

    def resolve_sequences(self) -> Reaction:
        """One `poll` while no leader is known."""
        self._let_send(None)
        self._polls_in_vain()
        return self.view(), ()

    def expire_batch(self, partition: int, first_record: int) -> Reaction:
        """One `poll` while no leader is known, when the delivery time of this batch, the oldest, is
        up."""
        self._is_overdue(partition, first_record)
        self._let_send(None)
        self._polls_in_vain()
        self._hear(partition)
        return self.view(), ()

    def receive_producer_id(self, producer_id: int) -> Reaction:
        """One `poll` that asks for a producer id, answered with the model's id. The node that is
        asked leads no partition of the scope, because nodes that do may have the maximum of
        requests in flight."""
        self._let_send(len(self._partitions))
        asked = only_request(self._core.poll(self._clock.now_ms))
        correlation_id, _ = self._codec.request(asked)
        body = {"error_code": ErrorCode.NONE, "producer_id": producer_id, "producer_epoch": 0}
        answer = self._codec.response(asked.api_version, asked.api_key, correlation_id, body)
        self._core.receive(answer.correlation_id, answer.body, self._clock.now_ms)
        return self.view(), ()

    def on_answer(self, partition: int, answer: AnswerPayload, overdue: int) -> Reaction:
        """`receive`, after the delivery time of the oldest batch if `overdue`."""
        if overdue:
            self._is_overdue(partition, min(self._open[partition]))
        self._core.receive(answer.correlation_id, answer.body, self._clock.now_ms)
        told = answer.body["topics"][0]["partitions"][0]
        self._hear(partition, INVALID_OFFSET if told["error_code"] else told["base_offset"])
        if self._splits:
            self._separate_parts(partition)
        return self.view(), ()

    def _separate_parts(self, partition: int) -> None:
        """Give each part of a batch the delivery time of its own first record, or a new time if
        that is past. The parts would otherwise share the batch's time and expire together, at once
        if it is up; in the model they expire one after the other, and later."""
        created, open_records = self._created[partition], self._open[partition]
        for number in open_records:
            if created[number] + DELIVERY_TIMEOUT_MS <= self._clock.now_ms:
                created[number] = self._clock.hands_over()
        for number, handle in reversed(open_records.items()):
            handle._current().created_ms = created[number]

    def on_disconnect(self, partition: int, overdue: int) -> Reaction:
        """`disconnected`, after the delivery time of the oldest batch if `overdue`."""
        if overdue:
            self._is_overdue(partition, min(self._open[partition]))
        self._core.disconnected(partition, self._clock.now_ms)
        self._hear(partition)
        return self.view(), ()

    def wait(self, partition: int) -> None:
        """One `poll` after the backoff. Raises UnexpectedEffects if it sends anything."""
        self._let_send(partition)
        self._clock.ticks()
        self._polls_in_vain()

    def offer(self, partition: int) -> None:
        """`append` and one `poll`; a producer that has failed takes no record. Raises
        UnexpectedEffects."""
        if self._core._manager.last_error is not None:
            return
        with self._playing(self._copied()):
            self._append(partition, self._sent[partition], self._clock.ticks())
            self.wait(partition)

    def ask_copies(self) -> None:
        """Give copies of the producer inputs that no scope has: overdue requests, and for a new
        producer the errors of InitProducerId. Done once for each view. Raises UnexpectedEffects."""
        if not self._asked:
            self._ask_new_producers()
        view = self.view()
        if view not in self._asked and len(self._asked) < MOST_ASKED:
            self._ask_overdue()
            self._asked.add(view)

    def _ask_overdue(self) -> None:
        """An overdue request fails as if its connection broke, and the connection is closed."""
        now_ms = self._clock.now_ms
        broken, overdue = self._copied(), self._copied()
        overdue._in_flight._request_timeout_ms = -1
        nodes = overdue._in_flight.overdue_nodes(now_ms)
        for node_id in nodes:
            broken.disconnected(node_id, now_ms)
        views = []
        for core in (broken, overdue):
            core.update_metadata({})
            closed = core.poll(now_ms)
            with self._playing(core):
                views.append(self.view())
        if views[0] != views[1] or closed[: len(nodes)] != tuple(map(Disconnect, nodes)):
            raise UnexpectedEffects(f"{nodes} overdue: {closed}, {views[1]} and not {views[0]}")

    def _ask_new_producers(self) -> None:
        """Test new producers, once. Raises UnexpectedEffects."""
        self._ask_initializing()
        self._ask_refused()

    def _ask_initializing(self) -> None:
        """For each error of InitProducerId, check the state that follows, and that the producer
        asks again if it may go on."""
        if not self._config.enable_idempotence:
            return
        for error, (state, is_asked_again) in INITIALIZING.items():
            core = self._new_core()
            core.update_metadata({place: place[1] for place in self._places})
            asked = only_request(core.poll(0))
            core.receive(asked.correlation_id, REFUSED | {"error_code": error}, 0)
            found = core.state, [isinstance(e, SendRequest) for e in asks_again(core)]
            if found != (state, [True] * is_asked_again):
                raise UnexpectedEffects(f"InitProducerId is answered {error.name}: {found}")

    def _ask_refused(self) -> None:
        """Test batches that are refused again and again, at new producers: see
        `refused_batches`."""
        if self._config.acks == NO_ANSWERS:
            return
        config = replace(self._config, retries=REFUSALS)
        if found := differences_when_refused(lambda: new_core(config)):
            raise UnexpectedEffects("; ".join(found))

    def _copied(self) -> IdempotentProducerCore:
        """A copy of the core, in half the time of copy.deepcopy."""
        core: IdempotentProducerCore = pickle.loads(
            pickle.dumps(self._core, pickle.HIGHEST_PROTOCOL)
        )
        return core

    @contextmanager
    def _playing(self, core: IdempotentProducerCore) -> Iterator[None]:
        """Within this context, steps act on another core."""
        kept = self._core, self._known
        self._core = core
        try:
            yield
        finally:
            self._core, self._known = kept

    def _is_overdue(self, partition: int, number: int) -> None:
        """Advance to the time at which this record has waited too long."""
        self._clock.reaches(self._created[partition][number] + DELIVERY_TIMEOUT_MS)

    def _hear(self, partition: int, base_offset: int = INVALID_OFFSET) -> None:
        """Note the outcomes that the application receives. If the base offset is known, the records
        are stored from it on. Raises UnexpectedEffects."""
        handles, offset = self._open[partition], base_offset
        for number in [number for number, handle in handles.items() if handle.done]:
            handle = handles.pop(number)
            told = self._acknowledged if handle.error is None else self._failed
            told[partition] |= 1 << number
            if handle.error is None and handle.offset != offset:
                raise UnexpectedEffects(f"record {number} has offset {handle.offset}: {offset}")
            offset += base_offset != INVALID_OFFSET

    def _polls_in_vain(self) -> None:
        effects = self._core.poll(self._clock.now_ms)
        if effects:
            raise UnexpectedEffects(f"poll gives {effects}")

    def _let_send(self, partition: int | None) -> None:
        """Make the leader of this partition, and of no other, known to the producer. Each node
        leads one partition."""
        if partition != self._known:
            self._known = partition
            leaders = {} if partition is None else {(TOPIC, partition): partition}
            self._core.update_metadata(leaders)

    def _sends(self, partition: int) -> Reaction:
        if partition != self._known:
            self._let_send(partition)
        polled = only_request(self._core.poll(self._clock.now_ms))
        correlation_id, body = self._codec.request(polled)
        if not self._config.acks:
            self._core.confirm_sent(polled.correlation_id, self._clock.now_ms)
            self._hear(partition)
        view = self._views.requests[body["topics"][0]["partitions"][0]["records"]]
        return self.view(), ((view, self._transform(ProducePayload(correlation_id, body, view))),)

    def _partition_view(self, manager: SequenceManager, partition: int) -> View:
        """A partition in the producer's view. An entry that is not used yet, or without
        idempotence, has no epoch; in the model it has the first epoch."""
        topic_partition = self._places[partition]
        has_epoch = self._config.enable_idempotence and self._sent[partition]
        entry = manager.entries.get(topic_partition, UNUSED)
        in_flight = entry.in_flight
        return (
            entry.producer_epoch if has_epoch else 0,
            entry.next_sequence,
            entry.last_acked_sequence,
            manager.unresolved_sequence(topic_partition),
            in_flight_view(in_flight, list(self._open[partition])) if in_flight else (),
            self._sent[partition],
            self._acknowledged[partition],
            self._failed[partition],
        )


INITIALIZING: Final[Mapping[ErrorCode, tuple[State, bool]]] = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: (State.INITIALIZING, True),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (State.ABORTABLE_ERROR, True),
    ErrorCode.UNKNOWN_SERVER_ERROR: (State.FATAL_ERROR, False),
}
"""Errors of InitProducerId, and the states that follow: `TransactionManager.InitProducerIdHandler`.
After an authorization error, a producer without transactions begins anew (KAFKA-13668)."""
REFUSED: Final = {"producer_id": NO_PRODUCER_ID, "producer_epoch": NO_PRODUCER_EPOCH}


def new_core(config: ProducerConfig) -> IdempotentProducerCore:
    """A core without a producer id."""
    return IdempotentProducerCore(
        config,
        produce_version=PRODUCE_VERSION,
        init_producer_id_version=INIT_PRODUCER_ID_VERSION,
    )


def asks_again(core: IdempotentProducerCore) -> Sequence[Any]:
    """The requests that a producer sends by itself after a backoff, in two polls."""
    return [effect for _ in range(2) for effect in core.poll(BACKOFF_MS)]


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


def producer_config(k: Configuration) -> ProducerConfig:
    """The configuration that the model's variant and bounds stand for.

    No request times out by itself: a time-out would break the connection, and the model says when
    that happens. `ProducerConfig` would refuse more than five requests in flight, which a scope may
    have.
    """
    config = ProducerConfig.of(
        acks=ACKS[k.variant.acks],
        retries=RETRIES[k.variant.retries],
        enable_idempotence=k.variant.idempotence == Idempotence.ENABLED,
        linger_ms=0,
        retry_backoff_ms=BACKOFF_MS,
        retry_backoff_max_ms=BACKOFF_MS,
    )
    return replace(
        config,
        max_in_flight_requests_per_connection=k.bounds.in_flight,
        request_timeout_ms=MAX_INT32,
        delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
    )


def in_flight_view(in_flight: Iterable[InFlightBatch | ProducerBatch], numbers: list[int]) -> View:
    """The batches in flight: their records without an outcome, in the order in which they were
    sent."""
    views = []
    position = 0
    for batch in in_flight:
        count = batch.record_count
        views.append(
            (
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                count,
                numbers[position] if position < len(numbers) else NONE,
                batch.outstanding,
                batch.sequence_has_been_reset,
            )
        )
        position += count
    return tuple(views)
