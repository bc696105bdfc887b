"""`impl`'s producer core, driven as the model says.

1. Time moves only where the model lets something become due: before a retry, by the backoff.
2. A producer knows a leader only while the model lets it send there. So one poll drains one batch
   of one partition, and a poll that may only bump the epoch sends nothing.

Theory of operation. A model's `send_new` is `append` for each record, then `poll`; `send_again` a
`poll` once the backoff has passed; `bump_epoch` a `poll` while no leader is known, since the core
bumps at the beginning of its sender loop; answers are `receive`, a broken connection is
`disconnected`. InitProducerId is answered here, with the producer ids of the model. What must wait
is asked for, too: `poll` and `offer` give the producer the chance to send what it must not.
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
"""Halved with each batch, it leaves room for twenty of them."""
MAX_INT32: Final = 2**31 - 1
NO_ANSWERS: Final = 0
"""acks=0."""
MOST_ASKED: Final = 100_000
"""Views in which copies are asked."""
UNUSED: Final = PartitionEntry()
"""What a producer knows of a partition that it has not used."""


class UnexpectedEffects(Exception):
    """A poll did not send what it should send in this step: one request, or nothing."""


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
        """A new producer, with its id if it has one at first."""
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
        """The configuration that the scope means."""
        return config

    def _new_core(self) -> IdempotentProducerCore:
        """Without a producer id."""
        return new_core(self._config)

    def begin_at(self, partition: int, sequence: int) -> None:
        """The next batch begins with this sequence: see the theory of operation."""
        entry = self._core._manager.entry((TOPIC, partition))
        entry.start_sequences_at_beginning(self._core.producer_id, self._core.producer_epoch)
        entry.next_sequence = sequence

    def view(self) -> View:
        """Shaped as CLIENT. Every step makes one: it is read where it is kept, without the copies
        of `partition_state`."""
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
            # gives the same batch again; those of a part are smaller (KAFKA-8350). The model does
            # without the first refusal, so that here a batch begins as such a part.
            handle._batch.is_split = True
        return handle

    def send_again(self, partition: int) -> Reaction:
        """One `poll` after the backoff."""
        self._clock.ticks()
        return self._sends(partition)

    def bump_epoch(self) -> Reaction:
        """One `poll` that has nobody to send to."""
        self._let_send(None)
        with last_epoch_of(self._k.bounds):
            self._polls_in_vain()
        return self.view(), ()

    def resolve_sequences(self) -> Reaction:
        """One `poll` that has nobody to send to."""
        self._let_send(None)
        self._polls_in_vain()
        return self.view(), ()

    def expire_batch(self, partition: int, first_record: int) -> Reaction:
        """One `poll`, with nobody to send to, when the time of this batch, the oldest, is up."""
        self._is_overdue(partition, first_record)
        self._let_send(None)
        self._polls_in_vain()
        self._hear(partition)
        return self.view(), ()

    def receive_producer_id(self, producer_id: int) -> Reaction:
        """One `poll` that asks for a producer id, and the model's as the answer. The node that is
        asked leads no partition of the scope: those may have as many requests as one may have."""
        self._let_send(len(self._partitions))
        asked = only_request(self._core.poll(self._clock.now_ms))
        correlation_id, _ = self._codec.request(asked)
        body = {"error_code": ErrorCode.NONE, "producer_id": producer_id, "producer_epoch": 0}
        answer = self._codec.response(asked.api_version, asked.api_key, correlation_id, body)
        self._core.receive(answer.correlation_id, answer.body, self._clock.now_ms)
        return self.view(), ()

    def on_answer(self, partition: int, answer: AnswerPayload, overdue: int) -> Reaction:
        """`receive`, maybe when the time of the oldest batch is up."""
        if overdue:
            self._is_overdue(partition, min(self._open[partition]))
        self._core.receive(answer.correlation_id, answer.body, self._clock.now_ms)
        told = answer.body["topics"][0]["partitions"][0]
        self._hear(partition, INVALID_OFFSET if told["error_code"] else told["base_offset"])
        if self._splits:
            self._separate_parts(partition)
        return self.view(), ()

    def _separate_parts(self, partition: int) -> None:
        """The parts of a batch have its time, and would be given up together, at once if it is up;
        the model gives them up one after the other, and later. So each gets the time of its own
        first record, a new one if that is past."""
        created, open_records = self._created[partition], self._open[partition]
        for number in open_records:
            if created[number] + DELIVERY_TIMEOUT_MS <= self._clock.now_ms:
                created[number] = self._clock.hands_over()
        for number, handle in reversed(open_records.items()):
            handle._current().created_ms = created[number]

    def on_disconnect(self, partition: int, overdue: int) -> Reaction:
        """`disconnected`, maybe when the time of the oldest batch is up."""
        if overdue:
            self._is_overdue(partition, min(self._open[partition]))
        self._core.disconnected(partition, self._clock.now_ms)
        self._hear(partition)
        return self.view(), ()

    def wait(self, partition: int) -> None:
        """One `poll` after the backoff. Raises UnexpectedEffects."""
        self._let_send(partition)
        self._clock.ticks()
        self._polls_in_vain()

    def offer(self, partition: int) -> None:
        """`append` and one `poll`; a producer that has failed takes nothing. Raises
        UnexpectedEffects."""
        if self._core._manager.last_error is not None:
            return
        with self._playing(self._copied()):
            self._append(partition, self._sent[partition], self._clock.ticks())
            self.wait(partition)

    def ask_copies(self) -> None:
        """What a scope does not have comes to copies: requests that are overdue, and at a new
        producer the errors of InitProducerId. Asked once a view. Raises UnexpectedEffects."""
        if not self._asked:
            self._ask_new_producers()
        view = self.view()
        if view not in self._asked and len(self._asked) < MOST_ASKED:
            self._ask_overdue()
            self._asked.add(view)

    def _ask_overdue(self) -> None:
        """What is overdue fails as if its connection broke, and the connection is closed."""
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
        """Asked once. Raises UnexpectedEffects."""
        self._ask_initializing()
        self._ask_refused()

    def _ask_initializing(self) -> None:
        """Each error of InitProducerId: the state that follows, and that is asked again if one may
        go on."""
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
        """What is refused again and again, at new producers: see `refused_batches`."""
        if self._config.acks == NO_ANSWERS:
            return
        config = replace(self._config, retries=REFUSALS)
        if found := differences_when_refused(lambda: new_core(config)):
            raise UnexpectedEffects("; ".join(found))

    def _copied(self) -> IdempotentProducerCore:
        """Half as long as copy.deepcopy takes."""
        core: IdempotentProducerCore = pickle.loads(
            pickle.dumps(self._core, pickle.HIGHEST_PROTOCOL)
        )
        return core

    @contextmanager
    def _playing(self, core: IdempotentProducerCore) -> Iterator[None]:
        """What is done meanwhile is done to another core."""
        kept = self._core, self._known
        self._core = core
        try:
            yield
        finally:
            self._core, self._known = kept

    def _is_overdue(self, partition: int, number: int) -> None:
        """The time comes at which the record has been waiting for too long."""
        self._clock.reaches(self._created[partition][number] + DELIVERY_TIMEOUT_MS)

    def _hear(self, partition: int, base_offset: int = INVALID_OFFSET) -> None:
        """What the application is told of its records; they are stored from an offset on, if that
        is known. Raises UnexpectedEffects."""
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
        """Only this partition has a leader that the producer knows. A node leads one partition."""
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
        """An entry not used yet, or without idempotence, has no epoch; in the model it has the
        first."""
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
"""`TransactionManager.InitProducerIdHandler`; after an error of authorization, a producer without
transactions begins anew (KAFKA-13668)."""
REFUSED: Final = {"producer_id": NO_PRODUCER_ID, "producer_epoch": NO_PRODUCER_EPOCH}


def new_core(config: ProducerConfig) -> IdempotentProducerCore:
    """A producer without an id."""
    return IdempotentProducerCore(
        config,
        produce_version=PRODUCE_VERSION,
        init_producer_id_version=INIT_PRODUCER_ID_VERSION,
    )


def asks_again(core: IdempotentProducerCore) -> Sequence[Any]:
    """What a producer sends by itself after a backoff, in two turns."""
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
    """The configuration that the model's variant and bounds mean.

    No request times out by itself: that would be a broken connection, and the model says when.
    `ProducerConfig` would refuse more requests in flight than five, which a scope may have.
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
    """Batches in flight; they have the records that have not ended, in the order of sending."""
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
