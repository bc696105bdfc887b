"""The producer id, and for each partition the sequences given to batches.

1. A sequence, once given to a batch, stays with these records until they are acknowledged, failed,
   or rewritten by an epoch bump. Nothing else ever changes it.
2. In flight means "has a sequence and is not finished": also while a batch waits for its retry.
3. A partition keeps the producer id and epoch that it uses while anything of it is in flight; only
   a partition that asked for the bump is rewritten, from sequence 0 and in sequence order.
4. After a batch of unknown outcome no new sequence is given in its partition, until the
   acknowledgements of its successors or a bump settle the matter.

Theory of operation: the sender asks `stops_drain` before and calls `assign` when it takes a
batch from the queue; each answer comes back as `on_success`, or as `can_retry` and perhaps
`on_failure`. Answers only *request* a bump; `bump_epoch` performs all requests since the last
one at once, at the beginning of a sender loop, without a word to any broker (KIP-360): the leader
sees a higher epoch that begins with sequence 0. At epoch 32767 a new producer id is asked for.

Source: `TransactionManager`, `TxnPartitionEntry` of Kafka 4.3.1, without transactions, which are in
`transactional_manager`. Its defects that show on the wire are kept and marked QUIRK, except its raw
comparison of sequences (see `sequence`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from impl.producer.batch import ProducerBatch, TopicPartition
from impl.producer.errors import (
    AuthorizationError,
    DeliveryError,
    FatalProducerError,
    TooManyPartitionsError,
)
from impl.producer.sequence import later_sequence
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import (
    INVALID_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    increment_sequence,
    is_next_sequence,
)

MAX_EPOCH: Final = 32767
"""The last epoch of an idempotent producer; a transactional one stops one before it."""


class State(Enum):
    """`TransactionManager.State`; without transactions a producer is never in one or ending one."""

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in transaction"
    COMMITTING_TRANSACTION = "committing transaction"
    ABORTING_TRANSACTION = "aborting transaction"
    ABORTABLE_ERROR = "abortable error"
    FATAL_ERROR = "fatal error"


LEGAL_SOURCES: Final[Mapping[State, frozenset[State]]] = {
    State.UNINITIALIZED: frozenset({State.READY, State.ABORTABLE_ERROR}),
    State.INITIALIZING: frozenset(
        {State.UNINITIALIZED, State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION}
    ),
    State.READY: frozenset(
        {State.INITIALIZING, State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION}
    ),
    State.IN_TRANSACTION: frozenset({State.READY}),
    State.COMMITTING_TRANSACTION: frozenset({State.IN_TRANSACTION}),
    State.ABORTING_TRANSACTION: frozenset({State.IN_TRANSACTION, State.ABORTABLE_ERROR}),
    State.ABORTABLE_ERROR: frozenset(
        {
            State.IN_TRANSACTION,
            State.COMMITTING_TRANSACTION,
            State.ABORTABLE_ERROR,
            State.INITIALIZING,
        }
    ),
    State.FATAL_ERROR: frozenset(State),
}
"""From which states a state may be entered. `TransactionManager.State.isTransitionValid`."""

FATAL_ERRORS: Final = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""Answers to Produce that end the producer. `TransactionManager.maybeTransitionToErrorState`."""

ABORTABLE_WHILE_INITIALIZING: Final = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""Answers to InitProducerId after which it is asked for again. KAFKA-13668."""


class InFlightBatch(NamedTuple):
    """A batch that has a sequence and has not ended.

    `outstanding`: a request that carries it awaits its answer (else it waits for its next attempt);
    `sequence_has_been_reset`: renumbered by a bump and not drained since; `in_retry`: at least one
    attempt has failed.
    """

    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    outstanding: bool
    sequence_has_been_reset: bool
    in_retry: bool


class PartitionState(NamedTuple):
    """What the producer knows of one partition; -1 stands for none in every field.

    `producer_id` and `producer_epoch` are those in use here, which may be older than the producer's
    own; `in_flight` is in sequence order; `unresolved_sequence` follows the last batch that expired
    with its outcome unknown.
    """

    producer_id: int
    producer_epoch: int
    next_sequence: int
    last_acked_sequence: int
    last_acked_offset: int
    in_flight: tuple[InFlightBatch, ...]
    unresolved_sequence: int


class PartitionEntry:
    """The sequences of one partition. `TxnPartitionEntry`.

    `in_flight` is in sequence order: sequences are given in order, and a bump rewrites all.
    """

    __slots__ = (
        "in_flight",
        "last_acked_offset",
        "last_acked_sequence",
        "next_sequence",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self) -> None:
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.next_sequence = 0
        self.last_acked_sequence = NO_SEQUENCE
        self.last_acked_offset = INVALID_OFFSET
        self.in_flight: list[ProducerBatch] = []

    def start_sequences_at_beginning(self, producer_id: int, producer_epoch: int) -> None:
        """Use this id and epoch from sequence 0 on, for all that is in flight first.

        Also a batch whose request is still outstanding is rewritten. QUIRK: the answer to its old
        copy is then taken for an answer to the new one.
        """
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.next_sequence = 0
        self.last_acked_sequence = NO_SEQUENCE
        for batch in self.in_flight:
            batch.reset_producer_state(producer_id, producer_epoch, self.next_sequence)
            self.next_sequence = increment_sequence(self.next_sequence, batch.record_count)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A batch that a leader refused, as the rows of `RETRY_TABLE` look at it.

    `unresolved_sequence` is -1 if the partition has none; `log_start_offset` -1 if unknown.
    """

    batch: ProducerBatch
    entry: PartitionEntry
    unresolved_sequence: int
    log_start_offset: int


def _log_start_is_unknown(refusal: Refusal) -> bool:
    return refusal.log_start_offset == -1


def _was_rewritten(refusal: Refusal) -> bool:
    return refusal.batch.sequence_has_been_reset


def _is_certain_follower(refusal: Refusal) -> bool:
    """Its predecessors fail first, so this refusal says nothing about the log."""
    return refusal.unresolved_sequence == NO_SEQUENCE and (
        refusal.batch.sequence_has_been_reset
        or not is_next_sequence(refusal.entry.last_acked_sequence, refusal.batch.base_sequence)
    )


def _shows_a_gap(refusal: Refusal) -> bool:
    """It is next in line, or directly behind the batch of unknown outcome: that one is missing."""
    return refusal.unresolved_sequence in (NO_SEQUENCE, refusal.batch.base_sequence)


def _always(refusal: Refusal) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class RetryRow:
    """Answer `error` and `when` holds: retry, after asking for a bump if `bump`.

    `renumbers`: all that is in flight in the partition begins at sequence 0, at the same epoch.
    """

    error: ErrorCode
    when: Callable[[Refusal], bool]
    bump: bool
    renumbers: bool = False


RETRY_TABLE: Final = (
    RetryRow(ErrorCode.UNKNOWN_PRODUCER_ID, _log_start_is_unknown, bump=False),
    RetryRow(ErrorCode.UNKNOWN_PRODUCER_ID, _was_rewritten, bump=False),
    RetryRow(ErrorCode.UNKNOWN_PRODUCER_ID, _always, bump=True),
    RetryRow(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, _is_certain_follower, bump=False),
    RetryRow(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, _shows_a_gap, bump=True),
    RetryRow(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, _always, bump=False),
)
"""What an idempotent producer does about lost producer state: the first row that fits. It always
retries; other errors are retried if they are retriable. `TransactionManager.canRetry`."""

_ROWS: Final = {
    error: tuple(row for row in RETRY_TABLE if row.error is error)
    for error in (ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
}


def _log_head_was_deleted(refusal: Refusal) -> bool:
    """All that the leader knew of the producer was in records that are gone."""
    return refusal.entry.last_acked_offset < refusal.log_start_offset


TRANSACTIONAL_RETRY_TABLE: Final = (
    RetryRow(ErrorCode.UNKNOWN_PRODUCER_ID, _log_start_is_unknown, bump=False),
    RetryRow(ErrorCode.UNKNOWN_PRODUCER_ID, _was_rewritten, bump=False),
    RetryRow(ErrorCode.UNKNOWN_PRODUCER_ID, _log_head_was_deleted, bump=False, renumbers=True),
    RetryRow(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, _is_certain_follower, bump=False),
)
"""The same for a transactional producer: without a row that fits, only retriable errors are
retried, and the transaction is lost."""


class TransactionManager:
    """The idempotent part of Kafka's TransactionManager: see the rules above.

    Attributes: `state`, `last_error` (in an error state), `producer_id`, `producer_epoch`
    (-1 without one), `epoch_bump_required`.
    """

    def __init__(self, max_partitions: int) -> None:
        self._max_partitions = max_partitions
        self.state = State.UNINITIALIZED
        self.last_error: DeliveryError | None = None
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.epoch_bump_required = False
        self.entries: dict[TopicPartition, PartitionEntry] = {}
        self._unresolved: dict[TopicPartition, int] = {}
        self._to_rewrite: set[TopicPartition] = set()

    def entry(self, topic_partition: TopicPartition) -> PartitionEntry:
        """The partition's entry, a fresh one at its first use. `TxnPartitionMap.getOrCreate`.

        Raises `TooManyPartitionsError`.
        """
        found = self.entries.get(topic_partition)
        if found is None:
            if len(self.entries) >= self._max_partitions:
                raise TooManyPartitionsError(self._max_partitions)
            found = self.entries[topic_partition] = PartitionEntry()
        return found

    def unresolved_sequence(self, topic_partition: TopicPartition) -> int:
        """The sequence behind the last batch of unknown outcome, -1 if there is none."""
        return self._unresolved.get(topic_partition, NO_SEQUENCE)

    def partition_state(self, topic_partition: TopicPartition) -> PartitionState:
        """A snapshot of the partition; of one never used, that of a fresh one."""
        entry = self.entries.get(topic_partition) or PartitionEntry()
        return PartitionState(
            entry.producer_id,
            entry.producer_epoch,
            entry.next_sequence,
            entry.last_acked_sequence,
            entry.last_acked_offset,
            tuple(map(_in_flight_batch, entry.in_flight)),
            self.unresolved_sequence(topic_partition),
        )

    @property
    def is_completing(self) -> bool:
        """Whether a transaction is about to end, so that nothing lingers."""
        return False

    # ---- the state machine

    def begin_initializing(self) -> None:
        """InitProducerId is about to be sent."""
        self._transition_to(State.INITIALIZING)

    def on_init_producer_id(self, error: ErrorCode, producer_id: int, producer_epoch: int) -> bool:
        """Take InitProducerId's answer; True if it must be sent again after a backoff.

        The answer comes to nothing if the producer has failed meanwhile.
        Source: `TransactionManager.InitProducerIdHandler`.
        """
        if self.state is State.FATAL_ERROR:
            return False
        if error is ErrorCode.NONE:
            self.producer_id, self.producer_epoch = producer_id, producer_epoch
            self._transition_to(State.READY)
        elif error in ABORTABLE_WHILE_INITIALIZING:
            refused = AuthorizationError(error, "InitProducerId is not authorized", False)
            self._transition_to(State.ABORTABLE_ERROR, refused)
        elif not error.is_retriable:
            self.fail(error, "InitProducerId was refused")
        return error.is_retriable

    def uninitialize(self) -> None:
        """Back to the state in which a producer id is asked for. KAFKA-13668."""
        self._transition_to(State.UNINITIALIZED)

    def fail(self, error: ErrorCode, what: str) -> None:
        """End the producer: FATAL_ERROR is legal from every state and is never left."""
        fatal = FatalProducerError(error, f"{what}: {error.name}", may_be_written=True)
        self._transition_to(State.FATAL_ERROR, fatal)

    def _transition_to(self, target: State, error: DeliveryError | None = None) -> None:
        if self.state not in LEGAL_SOURCES[target]:
            raise AssertionError(f"{self.state} -> {target} is not in LEGAL_SOURCES")
        self.state, self.last_error = target, error

    # ---- sequences for batches that are drained

    def stops_drain(self, batch: ProducerBatch, entry: PartitionEntry) -> bool:
        """Whether this head of its queue must wait for others, or for a producer id.

        Source: `RecordAccumulator.shouldStopDrainBatchesForPartition`.
        """
        if self.producer_id == NO_PRODUCER_ID:
            return True
        in_flight = entry.in_flight
        if batch.base_sequence != NO_SEQUENCE:
            # Retries go one at a time, the smallest sequence first.
            return in_flight[0] is not batch
        return (bool(in_flight) and self._is_stale(entry)) or (
            batch.topic_partition in self._unresolved
        )

    def assign(self, batch: ProducerBatch, entry: PartitionEntry) -> None:
        """Give a batch without a sequence the next one; it is in flight from now on."""
        if self._is_stale(entry):
            entry.start_sequences_at_beginning(self.producer_id, self.producer_epoch)
        batch.set_producer_state(entry.producer_id, entry.producer_epoch, entry.next_sequence)
        entry.next_sequence = increment_sequence(entry.next_sequence, batch.record_count)
        entry.in_flight.append(batch)

    def _is_stale(self, entry: PartitionEntry) -> bool:
        return entry.producer_epoch != self.producer_epoch or entry.producer_id != self.producer_id

    # ---- answers

    def on_success(self, batch: ProducerBatch, base_offset: int) -> None:
        """A leader has the batch. `base_offset` is -1 where it is not known any more.

        Runs also for a batch that has expired meanwhile: its late acknowledgement can settle an
        unresolved sequence. QUIRK: what is accounted is the sequence that the batch has now, also
        if the copy that the leader stored had another one.
        Source: `TransactionManager.handleCompletedBatch`.
        """
        entry = self.entry(batch.topic_partition)
        entry.last_acked_sequence = later_sequence(entry.last_acked_sequence, batch.last_sequence)
        if base_offset != INVALID_OFFSET:
            last_offset = base_offset + batch.record_count - 1
            entry.last_acked_offset = max(entry.last_acked_offset, last_offset)
        _remove(entry.in_flight, batch)

    def can_retry(self, batch: ProducerBatch, error: ErrorCode, log_start_offset: int) -> bool:
        """Whether the refused batch may be sent again; may request a bump. See RETRY_TABLE."""
        rows = _ROWS.get(error)
        if rows is None:
            return error.is_retriable
        topic_partition = batch.topic_partition
        unresolved = self.unresolved_sequence(topic_partition)
        refusal = Refusal(batch, self.entry(topic_partition), unresolved, log_start_offset)
        if next(row for row in rows if row.when(refusal)).bump:
            self._request_bump(topic_partition)
        return True

    def ends_with(self, error: ErrorCode) -> bool:
        """Whether this answer to Produce ends the producer."""
        return error in FATAL_ERRORS

    def on_failure(self, batch: ProducerBatch, error: ErrorCode, adjust: bool) -> None:
        """The batch is given up. `adjust`: a leader refused it, its sequence is a hole now.

        Source: `TransactionManager.handleFailedBatch`.
        """
        if self.ends_with(error):
            self.fail(error, "Produce was refused")
        _remove(self.entry(batch.topic_partition).in_flight, batch)
        if self.state is State.FATAL_ERROR:
            return
        if adjust or error in _ROWS:
            self._request_bump(batch.topic_partition)

    def mark_sequence_unresolved(self, batch: ProducerBatch) -> None:
        """The batch expired between two attempts: nobody knows whether the log has it."""
        following = increment_sequence(batch.last_sequence, 1)
        marked = self.unresolved_sequence(batch.topic_partition)
        self._unresolved[batch.topic_partition] = later_sequence(marked, following)

    def replace(self, batch: ProducerBatch, parts: Sequence[ProducerBatch]) -> None:
        """A batch in flight was split: its parts are, with its sequences. No new ones are given."""
        in_flight = self.entry(batch.topic_partition).in_flight
        place = in_flight.index(batch)
        in_flight[place : place + 1] = parts

    def forget(self, batch: ProducerBatch) -> None:
        """The batch was given up in an error state: it is not in flight any more."""
        _remove(self.entry(batch.topic_partition).in_flight, batch)

    # ---- at the beginning of a sender loop

    def maybe_resolve_sequences(self) -> None:
        """Settle unresolved partitions with nothing in flight: all acknowledged, or a bump."""
        for topic_partition in list(self._unresolved):
            entry = self.entry(topic_partition)
            if entry.in_flight:
                continue
            del self._unresolved[topic_partition]
            if not is_next_sequence(entry.last_acked_sequence, entry.next_sequence):
                self._request_bump(topic_partition)

    def bump_epoch(self) -> None:
        """Perform the requested bump: the next epoch, or no id at all after the last one.

        QUIRK: at the last epoch the batches in flight are rewritten to producer id -1, and later
        sent like that: plain data without idempotence.
        Source: `TransactionManager.bumpIdempotentProducerEpoch`, KIP-360.
        """
        if self.producer_epoch == MAX_EPOCH:
            self.producer_id, self.producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
            self.uninitialize()
        else:
            self.producer_epoch += 1
        for topic_partition in self._to_rewrite:
            entry = self.entry(topic_partition)
            entry.start_sequences_at_beginning(self.producer_id, self.producer_epoch)
            self._unresolved.pop(topic_partition, None)
        self._to_rewrite.clear()
        self.epoch_bump_required = False

    def _request_bump(self, topic_partition: TopicPartition) -> None:
        self.epoch_bump_required = True
        self._to_rewrite.add(topic_partition)


def _in_flight_batch(batch: ProducerBatch) -> InFlightBatch:
    return InFlightBatch(
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.record_count,
        batch.outstanding,
        batch.sequence_has_been_reset,
        batch.in_retry,
    )


def _remove(in_flight: list[ProducerBatch], batch: ProducerBatch) -> None:
    # An expired batch whose answer comes late is not in flight any more.
    if batch in in_flight:
        in_flight.remove(batch)
