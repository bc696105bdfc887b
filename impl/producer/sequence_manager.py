"""The producer id, and for each partition the sequences given to batches.

1. A sequence, once given to a batch, stays with these records until they are acknowledged, failed,
   or renumbered by an epoch bump. Nothing else ever changes it.
2. In flight means "has a sequence and is not finished", also while a batch waits for its retry.
3. A partition keeps the producer id and epoch that it uses while anything of it is in flight; only
   a partition that asked for the bump is renumbered, from sequence 0 and in sequence order.
4. After a batch of unknown outcome its partition gives no new sequence, until acknowledgements of
   the following batches, or a bump, resolve it.
5. Sequences are compared as serial numbers (RFC 1982): the later one is less than half the range
   ahead of the other.

Theory of operation: the sender asks `stops_drain` before and calls `assign` when it takes a batch
from the queue; each answer comes back as `on_success`, or as `can_retry` and perhaps `on_failure`.
Answers only *request* a bump; `bump_epoch` performs all requests since the last one together, at
the start of a sender loop, without a request to any broker (KIP-360): the leader sees a higher
epoch that begins with sequence 0. At epoch 32767 a new producer id is requested.

Source: `TransactionManager`, `TxnPartitionEntry` of Kafka 4.3.1, without transactions, which are in
`transaction_manager`. Its defects that show on the wire are kept and marked QUIRK, with one
exception, rule 5. Kafka compares raw integers, which differs only across the wrap from 2147483647
to 0: there batches that wait for a retry would change places and block each other until they
expire, and the last acknowledged sequence would stay at its maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from impl.producer.batch import ProducerBatch
from impl.producer.errors import (
    AuthorizationError,
    DeliveryError,
    FatalProducerError,
    TooManyPartitionsError,
)
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import TopicPartition
from impl.protocol.record_batch import (
    INVALID_OFFSET,
    LAST_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    decrement_sequence,
    increment_sequence,
    is_next_sequence,
)

_HALF_RANGE: Final = 1 << 30


def precedes(sequence: int, other: int) -> bool:
    """Whether `sequence` comes before `other`; neither is NO_SEQUENCE."""
    return sequence != other and decrement_sequence(other, sequence) < _HALF_RANGE


def later_sequence(sequence: int, other: int) -> int:
    """The later of two sequences; NO_SEQUENCE as the first one comes before all others."""
    return other if sequence == NO_SEQUENCE or precedes(sequence, other) else sequence


class State(Enum):
    """`TransactionManager.State`. The three transaction states need a transactional producer."""

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
"""The states from which each state may be entered. `TransactionManager.State.isTransitionValid`."""

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
"""Answers to InitProducerId after which the request is repeated. KAFKA-13668."""


class InFlightBatch(NamedTuple):
    """A batch that has a sequence and is not finished.

    `outstanding`: its request is in flight (else it waits for its next attempt);
    `sequence_has_been_reset`: renumbered by a bump and not drained since; `in_retry`: an attempt
    has failed.
    """

    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    outstanding: bool
    sequence_has_been_reset: bool
    in_retry: bool


class PartitionState(NamedTuple):
    """A snapshot of a partition's sequences; -1 stands for none in every field.

    `producer_id` and `producer_epoch` are those in use in the partition, perhaps older than the
    producer's own; `in_flight` is in sequence order; `unresolved_sequence` is the one after the
    last batch that expired with an unknown outcome.
    """

    producer_id: int
    producer_epoch: int
    next_sequence: int
    last_acked_sequence: int
    last_acked_offset: int
    in_flight: tuple[InFlightBatch, ...]
    unresolved_sequence: int


class PartitionEntry:
    """The sequences of one partition; `in_flight` is in their order. `TxnPartitionEntry`."""

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
        """Renumber the batches in flight from sequence 0 of this id and epoch.

        That includes batches whose request is outstanding. QUIRK: the answer to the old copy is
        then taken for an answer to the new one.
        """
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.next_sequence = 0
        self.last_acked_sequence = NO_SEQUENCE
        for batch in self.in_flight:
            batch.reset_producer_state(producer_id, producer_epoch, self.next_sequence)
            self.next_sequence = increment_sequence(self.next_sequence, batch.record_count)


@dataclass(frozen=True, slots=True)
class RefusedBatch:
    """A batch that a leader refused, as the rows of `RETRY_TABLE` look at it.

    `unresolved_sequence` is -1 if the partition has none; `log_start_offset` -1 if unknown.
    """

    batch: ProducerBatch
    entry: PartitionEntry
    unresolved_sequence: int
    log_start_offset: int


def _log_start_is_unknown(refusal: RefusedBatch) -> bool:
    return refusal.log_start_offset == -1


def _was_rewritten(refusal: RefusedBatch) -> bool:
    return refusal.batch.sequence_has_been_reset


def _is_certain_follower(refusal: RefusedBatch) -> bool:
    """Earlier batches fail first, so this refusal does not show a gap in the log."""
    return refusal.unresolved_sequence == NO_SEQUENCE and (
        refusal.batch.sequence_has_been_reset
        or not is_next_sequence(refusal.entry.last_acked_sequence, refusal.batch.base_sequence)
    )


def _shows_a_gap(refusal: RefusedBatch) -> bool:
    """The batch is next in line, or follows the batch of unknown outcome, which is missing."""
    return refusal.unresolved_sequence in (NO_SEQUENCE, refusal.batch.base_sequence)


def _always(refusal: RefusedBatch) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class RetryRow:
    """If the answer is `error` and `when` holds: retry, and request a bump if `bump`.

    `renumbers`: batches in flight are renumbered from sequence 0, in the same epoch.
    """

    error: ErrorCode
    when: Callable[[RefusedBatch], bool]
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
"""What an idempotent producer does about lost producer state: the first row that matches. Other
errors are retried if they are retriable. `TransactionManager.canRetry`."""

_ROWS: Final = {
    error: tuple(row for row in RETRY_TABLE if row.error is error)
    for error in (ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
}


def _log_head_was_deleted(refusal: RefusedBatch) -> bool:
    """The leader forgot the producer because its records were deleted."""
    return refusal.entry.last_acked_offset < refusal.log_start_offset


TRANSACTIONAL_RETRY_TABLE: Final = (
    RetryRow(ErrorCode.UNKNOWN_PRODUCER_ID, _log_start_is_unknown, bump=False),
    RetryRow(ErrorCode.UNKNOWN_PRODUCER_ID, _was_rewritten, bump=False),
    RetryRow(ErrorCode.UNKNOWN_PRODUCER_ID, _log_head_was_deleted, bump=False, renumbers=True),
    RetryRow(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, _is_certain_follower, bump=False),
)
"""The same for a transactional producer. Without a matching row a retriable error is retried, and
any other fails the transaction."""


class SequenceManager:
    """The idempotent part of Kafka's SequenceManager: see the rules above.

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
        self._to_renumber: set[TopicPartition] = set()

    def entry(self, topic_partition: TopicPartition) -> PartitionEntry:
        """The partition's entry, created on first use. `TxnPartitionMap.getOrCreate`.

        Raises `TooManyPartitionsError`.
        """
        found = self.entries.get(topic_partition)
        if found is None:
            if len(self.entries) >= self._max_partitions:
                raise TooManyPartitionsError(self._max_partitions)
            found = self.entries[topic_partition] = PartitionEntry()
        return found

    def check_send(self) -> None:
        """Check that a record may be sent now. Raises the error of an error state."""
        if self.last_error is not None:
            raise self.last_error.restate(str(self.last_error), may_be_written=False)

    def add_partition(self, topic_partition: TopicPartition) -> None:
        """A batch is created for this partition. Raises `TooManyPartitionsError`."""
        self.entry(topic_partition)

    def fail_send(self, error: ErrorCode, what: str) -> None:
        """A record could not be queued; only a transaction fails because of it (KAFKA-9279)."""

    def unresolved_sequence(self, topic_partition: TopicPartition) -> int:
        """The sequence after the last batch of unknown outcome, -1 if there is none."""
        return self._unresolved.get(topic_partition, NO_SEQUENCE)

    def partition_state(self, topic_partition: TopicPartition) -> PartitionState:
        """A snapshot of the partition; initial values if it was never used."""
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
        """Whether a transaction is ending, so that batches do not linger."""
        return False

    # ---- the state machine

    def begin_initializing(self) -> None:
        """InitProducerId is about to be sent."""
        self._transition_to(State.INITIALIZING)

    def on_init_producer_id(self, error: ErrorCode, producer_id: int, producer_epoch: int) -> bool:
        """Process InitProducerId's answer; True if it must be sent again after a backoff.

        In FATAL_ERROR the answer has no effect.
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
        """Return to the state in which a producer id is requested. KAFKA-13668."""
        self._transition_to(State.UNINITIALIZED)

    def fail(self, error: ErrorCode, what: str) -> None:
        """Enter FATAL_ERROR, which is legal from every state and final."""
        fatal = FatalProducerError(error, f"{what}: {error.name}", may_be_written=True)
        self._transition_to(State.FATAL_ERROR, fatal)

    def _transition_to(self, target: State, error: DeliveryError | None = None) -> None:
        if self.state not in LEGAL_SOURCES[target]:
            raise AssertionError(f"{self.state} -> {target} is not in LEGAL_SOURCES")
        self.state, self.last_error = target, error

    # ---- sequences

    def stops_drain(self, batch: ProducerBatch, entry: PartitionEntry) -> bool:
        """Whether the head of a queue must wait for other batches, or for a producer id.

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
        """Give a batch its sequence; it is in flight from now on."""
        if self._is_stale(entry):
            entry.start_sequences_at_beginning(self.producer_id, self.producer_epoch)
        batch.set_producer_state(entry.producer_id, entry.producer_epoch, entry.next_sequence)
        entry.next_sequence = increment_sequence(entry.next_sequence, batch.record_count)
        entry.in_flight.append(batch)

    def _is_stale(self, entry: PartitionEntry) -> bool:
        return entry.producer_epoch != self.producer_epoch or entry.producer_id != self.producer_id

    # ---- answers

    def on_success(self, batch: ProducerBatch, base_offset: int) -> None:
        """A leader has the batch. `base_offset` is -1 if it is unknown.

        Also called for a batch that expired before: its late acknowledgement can resolve a
        sequence. QUIRK: the batch's current sequence counts, even if the leader stored a copy with
        another one.
        Source: `TransactionManager.handleCompletedBatch`.
        """
        entry = self.entry(batch.topic_partition)
        entry.last_acked_sequence = later_sequence(entry.last_acked_sequence, batch.last_sequence)
        if base_offset != INVALID_OFFSET:
            last_offset = base_offset + batch.record_count - 1
            entry.last_acked_offset = max(entry.last_acked_offset, last_offset)
        _remove(entry.in_flight, batch)

    def can_retry(self, batch: ProducerBatch, error: ErrorCode, log_start_offset: int) -> bool:
        """Whether the refused batch may be sent again; may request a bump. See `RETRY_TABLE`."""
        rows = _ROWS.get(error)
        if rows is None:
            return error.is_retriable
        topic_partition = batch.topic_partition
        unresolved = self.unresolved_sequence(topic_partition)
        refusal = RefusedBatch(batch, self.entry(topic_partition), unresolved, log_start_offset)
        if next(row for row in rows if row.when(refusal)).bump:
            self._request_bump(topic_partition)
        return True

    def is_fatal(self, error: ErrorCode) -> bool:
        """Whether this answer to Produce is fatal for the producer."""
        return error in FATAL_ERRORS

    def on_failure(self, batch: ProducerBatch, error: ErrorCode, adjust: bool) -> None:
        """A batch failed. `adjust`: a leader refused it, so its sequences are a gap.

        Source: `TransactionManager.handleFailedBatch`.
        """
        if self.is_fatal(error):
            self.fail(error, "Produce was refused")
        _remove(self.entry(batch.topic_partition).in_flight, batch)
        if self.state is State.FATAL_ERROR:
            return
        if adjust or error in _ROWS:
            self._request_bump(batch.topic_partition)

    def mark_sequence_unresolved(self, batch: ProducerBatch) -> None:
        """A batch expired between two attempts: whether the log has it is unknown."""
        following = increment_sequence(batch.last_sequence, 1)
        marked = self.unresolved_sequence(batch.topic_partition)
        self._unresolved[batch.topic_partition] = later_sequence(marked, following)

    def replace(self, batch: ProducerBatch, parts: Sequence[ProducerBatch]) -> None:
        """Replace a split batch in flight by its parts, which keep its sequences."""
        in_flight = self.entry(batch.topic_partition).in_flight
        place = in_flight.index(batch)
        in_flight[place : place + 1] = parts

    def forget(self, batch: ProducerBatch) -> None:
        """Remove a batch that was aborted in an error state."""
        _remove(self.entry(batch.topic_partition).in_flight, batch)

    # ---- at the start of a sender loop

    def maybe_resolve_sequences(self) -> None:
        """Resolve partitions with nothing in flight: all was acknowledged, or request a bump."""
        for topic_partition in list(self._unresolved):
            entry = self.entry(topic_partition)
            if entry.in_flight:
                continue
            del self._unresolved[topic_partition]
            if not is_next_sequence(entry.last_acked_sequence, entry.next_sequence):
                self._request_bump(topic_partition)

    def bump_epoch(self) -> None:
        """Perform the requested bumps: the next epoch, or no producer id after the last epoch.

        QUIRK: at the last epoch batches in flight get producer id -1, and are sent without
        idempotence.
        Source: `TransactionManager.bumpIdempotentProducerEpoch`, KIP-360.
        """
        if self.producer_epoch == LAST_EPOCH:
            self.producer_id, self.producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
            self.uninitialize()
        else:
            self.producer_epoch += 1
        for topic_partition in self._to_renumber:
            entry = self.entry(topic_partition)
            entry.start_sequences_at_beginning(self.producer_id, self.producer_epoch)
            self._unresolved.pop(topic_partition, None)
        self._to_renumber.clear()
        self.epoch_bump_required = False

    def _request_bump(self, topic_partition: TopicPartition) -> None:
        self.epoch_bump_required = True
        self._to_renumber.add(topic_partition)


class NullSequenceManager(SequenceManager):
    """A producer without idempotence: no producer id, no sequences, nothing to recover.

    With several requests in flight a retry may overtake or be overtaken, and a lost answer makes a
    duplicate. A failed batch goes back to the head of its queue, because none there has a sequence.
    Source: `Sender`, `RecordAccumulator` where `transactionManager == null`.
    """

    def __init__(self, max_partitions: int) -> None:
        super().__init__(max_partitions)
        self.state = State.READY

    def stops_drain(self, batch: ProducerBatch, entry: PartitionEntry) -> bool:
        """Nothing has to wait for another batch."""
        return False

    def assign(self, batch: ProducerBatch, entry: PartitionEntry) -> None:
        """No producer id, no sequence."""

    def on_success(self, batch: ProducerBatch, base_offset: int) -> None:
        """No sequence to account for."""

    def can_retry(self, batch: ProducerBatch, error: ErrorCode, log_start_offset: int) -> bool:
        """Whatever is retriable."""
        return error.is_retriable

    def is_fatal(self, error: ErrorCode) -> bool:
        """No answer ends this producer."""
        return False

    def on_failure(self, batch: ProducerBatch, error: ErrorCode, adjust: bool) -> None:
        """No sequence is missing."""

    def mark_sequence_unresolved(self, batch: ProducerBatch) -> None:
        """No sequence is in doubt."""

    def replace(self, batch: ProducerBatch, parts: Sequence[ProducerBatch]) -> None:
        """Nothing is tracked."""

    def forget(self, batch: ProducerBatch) -> None:
        """Nothing is tracked."""


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
    # The late answer to an expired batch finds it removed.
    if batch in in_flight:
        in_flight.remove(batch)
