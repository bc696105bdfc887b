"""The state of one transactional id, and the two steps in which it changes.

Three rules:

1. `prepare_*` makes the image of the next state and marks it pending; nothing else changes.
2. The image is appended to the log. Then `complete` makes it the state, or `cancel` clears the
   pending mark.
3. One transition at a time: while one is pending, every `prepare_*` raises `IllegalTransition`.

Theory of operation: the state is one frozen `TransactionImage`; a transition replaces it. The log
holds images, so memory equals the last logged image, except for `last_producer_epoch`, a failed
fence, and the partitions whose markers are written already.
Source: `TransactionMetadata` of Kafka 4.3.1 (`prepareTransitionTo`, `completeTransitionTo`);
KIP-98, KIP-360, KIP-890.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple

from impl.coordinator.config import EPOCH_BUMP_FROM, TransactionConfig
from impl.coordinator.states import IDLE, PREPARED, PREVIOUS_STATES, TransactionState
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import (
    LAST_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerIdAndEpoch,
)

NO_START: Final = -1
"""The start time without a transaction."""

_S = TransactionState


class IllegalTransition(Exception):
    """A transition that Kafka answers with an internal error; nothing was logged."""

    error: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR


class UnwritableImage(IllegalTransition):
    """At level 0 log values have no field for the client's transaction version.

    QUIRK: the transition stays pending, until another coordinator loads the id.
    """

    error = ErrorCode.UNSUPPORTED_VERSION


class TopicPartition(NamedTuple):
    """A partition by the name of its topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """`topic-partition`, as in Kafka's logs."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class TransactionImage:
    """One state of a transactional id, as logged; times in ms since the epoch.

    `TxnTransitMetadata`.
    """

    producer_id: int
    producer_epoch: int
    transaction_timeout_ms: int
    state: TransactionState = _S.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_timestamp_ms: int = NO_START
    last_update_timestamp_ms: int = NO_START
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    client_transaction_version: int = 0

    @property
    def bumps_epoch(self) -> bool:
        """Whether the end of the transaction bumps the epoch (V2)."""
        return self.client_transaction_version >= EPOCH_BUMP_FROM

    @property
    def identity(self) -> ProducerIdAndEpoch:
        """Producer id and epoch."""
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)


def is_epoch_exhausted(producer_epoch: int) -> bool:
    """Whether clients cannot get a higher epoch. `TransactionMetadata.isEpochExhausted`."""
    return producer_epoch >= LAST_EPOCH - 1


class TransactionMetadata:
    """One transactional id. Read-only: the slots without underscore."""

    __slots__ = (
        "_config",
        "current",
        "has_failed_epoch_fence",
        "pending_state",
        "transactional_id",
    )

    def __init__(
        self, transactional_id: str, image: TransactionImage, config: TransactionConfig
    ) -> None:
        self.transactional_id = transactional_id
        self.current = image
        self.pending_state: TransactionState | None = None
        self.has_failed_epoch_fence = False
        self._config = config

    # ---- first step

    def prepare_epoch_bump(
        self, timeout_ms: int, expected_epoch: int | None, now_ms: int
    ) -> TransactionImage | None:
        """InitProducerId with the same producer id; None if the producer is fenced.

        A producer with the last epoch lost the answer to its bump: it gets the same epoch again.
        `prepareIncrementProducerEpoch`, KIP-360.
        """
        now = self.current
        if is_epoch_exhausted(now.producer_epoch):
            raise IllegalTransition(f"no epoch left after {now.producer_epoch}")
        epoch, last = now.producer_epoch + 1, NO_PRODUCER_EPOCH
        if expected_epoch is None:
            pass
        elif now.producer_epoch in (NO_PRODUCER_EPOCH, expected_epoch):
            last = now.producer_epoch
        elif expected_epoch == now.last_producer_epoch:
            epoch, last = now.producer_epoch, now.last_producer_epoch
        else:
            return None
        bumped = replace(now, producer_epoch=epoch, last_producer_epoch=last)
        return self._prepare_empty(bumped, timeout_ms, now_ms)

    def prepare_rotation(
        self, producer_id: int, timeout_ms: int, now_ms: int, *, keep_last: bool
    ) -> TransactionImage:
        """A new producer id, as the epochs are exhausted. `prepareProducerIdRotation`.

        `keep_last`: the producer sent its epoch, so that its retry can be recognized.
        """
        last = self.current.producer_epoch if keep_last else NO_PRODUCER_EPOCH
        rotated = replace(
            self.current, producer_id=producer_id, producer_epoch=0, last_producer_epoch=last
        )
        return self._prepare_empty(rotated, timeout_ms, now_ms)

    def _prepare_empty(
        self, producer: TransactionImage, timeout_ms: int, now_ms: int
    ) -> TransactionImage:
        return self._prepare(
            replace(
                producer,
                state=_S.EMPTY,
                transaction_timeout_ms=timeout_ms,
                partitions=frozenset(),
                start_timestamp_ms=NO_START,
                last_update_timestamp_ms=now_ms,
            )
        )

    def prepare_add_partitions(
        self, partitions: frozenset[TopicPartition], client_transaction_version: int, now_ms: int
    ) -> TransactionImage:
        """Add partitions; the first ones start the timeout. `prepareAddPartitions`."""
        now = self.current
        return self._prepare(
            replace(
                now,
                state=_S.ONGOING,
                partitions=now.partitions | partitions,
                start_timestamp_ms=now_ms if now.state in IDLE else now.start_timestamp_ms,
                last_update_timestamp_ms=now_ms,
                client_transaction_version=client_transaction_version,
            )
        )

    def prepare_fence(self) -> int:
        """Begin an abort by the coordinator; returns the fencing epoch.

        The epoch of a failed fence is reused: no producer ever got it.
        `prepareFenceProducerEpoch`.
        """
        epoch = self.current.producer_epoch
        if epoch == LAST_EPOCH and not self._config.tolerates_last_epoch:
            raise IllegalTransition("no epoch left to fence with")
        self._check_edge(_S.PREPARE_EPOCH_FENCE)
        self.pending_state = _S.PREPARE_EPOCH_FENCE
        return epoch if self.has_failed_epoch_fence or epoch == LAST_EPOCH else epoch + 1

    def take_fenced_epoch(self, producer_epoch: int) -> None:
        """Set the fencing epoch before it is logged, if the abort itself does not bump it."""
        self.current = replace(
            self.current, producer_epoch=producer_epoch, last_producer_epoch=NO_PRODUCER_EPOCH
        )

    def prepare_end(
        self, state: TransactionState, client_transaction_version: int, next_id: int, now_ms: int
    ) -> TransactionImage:
        """PrepareCommit or PrepareAbort; in V2 with the next epoch. `prepareAbortOrCommit`."""
        now = self.current
        image = replace(
            now,
            state=state,
            next_producer_id=next_id,
            start_timestamp_ms=now_ms if now.state in IDLE else now.start_timestamp_ms,
            last_update_timestamp_ms=now_ms,
            client_transaction_version=client_transaction_version,
        )
        if not image.bumps_epoch:
            return self._prepare(image)
        stays = (
            now.producer_epoch == LAST_EPOCH
            and state is _S.PREPARE_ABORT
            and self._config.tolerates_last_epoch
        )
        epoch = now.producer_epoch if stays else now.producer_epoch + 1
        return self._prepare(
            replace(image, producer_epoch=epoch, last_producer_epoch=now.producer_epoch)
        )

    def prepare_complete(self, now_ms: int) -> TransactionImage:
        """CompleteCommit or CompleteAbort; with the next producer id, if there is one.

        `prepareComplete`.
        """
        self.has_failed_epoch_fence = False
        now = self.current
        commits = now.state is _S.PREPARE_COMMIT
        image = replace(
            now,
            state=_S.COMPLETE_COMMIT if commits else _S.COMPLETE_ABORT,
            partitions=frozenset(),
            next_producer_id=NO_PRODUCER_ID,
            last_update_timestamp_ms=now_ms,
        )
        if now.bumps_epoch and now.next_producer_id != NO_PRODUCER_ID:
            image = replace(image, producer_id=now.next_producer_id, producer_epoch=0)
        return self._prepare(image)

    def prepare_dead(self) -> TransactionImage:
        """Prepare to forget the id, with a tombstone. `prepareDead`."""
        return self._prepare(replace(self.current, state=_S.DEAD, partitions=frozenset()))

    def _prepare(self, image: TransactionImage) -> TransactionImage:
        self._check_edge(image.state)
        if image.producer_id < 0:
            raise IllegalTransition(f"producer id {image.producer_id}")
        if image.state is not _S.DEAD and not 0 <= image.producer_epoch <= LAST_EPOCH:
            raise IllegalTransition(f"producer epoch {image.producer_epoch}")
        self.pending_state = image.state
        return replace(image, previous_producer_id=self.current.producer_id)

    def _check_edge(self, target: TransactionState) -> None:
        if self.pending_state is not None:
            raise IllegalTransition(f"{self.pending_state.title} is pending")
        if self.current.state not in PREVIOUS_STATES[target]:
            raise IllegalTransition(f"{target.title} after {self.current.state.title}")

    # ---- second step

    def complete(self, image: TransactionImage) -> None:
        """Make a logged image the state. `completeTransitionTo`."""
        may_follow = _MAY_COMPLETE.get(image.state)
        if self.pending_state is not image.state or may_follow is None:
            raise IllegalTransition(f"{image.state.title} was not prepared")
        if not may_follow(self.current, image):
            raise IllegalTransition(f"{image} after {self.current}")
        if self._config.transition_assigns == "by_target":
            image = _with_kept_fields(self.current, image)
        self.current = image
        self.pending_state = None

    def cancel(self) -> None:
        """Drop the pending transition: its append failed, or its result is unknown."""
        self.pending_state = None

    def remove_partition(self, partition: TopicPartition) -> None:
        """Remove a partition with its marker. Not logged: after a failover all are sent again."""
        if self.current.state not in PREPARED:
            raise IllegalTransition(f"a marker in {self.current.state.title}")
        self.current = replace(self.current, partitions=self.current.partitions - {partition})


def _may_be_empty(now: TransactionImage, image: TransactionImage) -> bool:
    is_bump = image.producer_epoch == now.producer_epoch + 1
    is_rotation = image.producer_epoch == 0 and image.producer_id != now.producer_id
    is_epoch_legal = image.producer_epoch == now.producer_epoch or is_bump or is_rotation
    return is_epoch_legal and not image.partitions and image.start_timestamp_ms == NO_START


def _may_be_ongoing(now: TransactionImage, image: TransactionImage) -> bool:
    return (
        image.identity == now.identity
        and image.partitions >= now.partitions
        and image.transaction_timeout_ms == now.transaction_timeout_ms
    )


def _may_be_prepared(now: TransactionImage, image: TransactionImage) -> bool:
    is_bump = image.producer_id == now.producer_id and image.last_producer_epoch == (
        now.producer_epoch
    )
    is_empty_abort = image.bumps_epoch and now.state in IDLE
    return (
        (is_bump if image.bumps_epoch else image.identity == now.identity)
        and image.partitions == now.partitions
        and image.transaction_timeout_ms == now.transaction_timeout_ms
        and (image.start_timestamp_ms == now.start_timestamp_ms or is_empty_abort)
    )


def _may_be_complete(now: TransactionImage, image: TransactionImage) -> bool:
    is_rotation = (
        image.last_producer_epoch == now.last_producer_epoch
        and image.previous_producer_id == now.producer_id
    )
    rotates = image.bumps_epoch and image.producer_epoch == 0
    return (
        (is_rotation if rotates else image.identity == now.identity)
        and image.transaction_timeout_ms == now.transaction_timeout_ms
        and image.start_timestamp_ms != NO_START
    )


_MAY_COMPLETE: Final[
    Mapping[TransactionState, Callable[[TransactionImage, TransactionImage], bool]]
] = MappingProxyType(
    {
        _S.EMPTY: _may_be_empty,
        _S.ONGOING: _may_be_ongoing,
        _S.PREPARE_COMMIT: _may_be_prepared,
        _S.PREPARE_ABORT: _may_be_prepared,
        _S.COMPLETE_COMMIT: _may_be_complete,
        _S.COMPLETE_ABORT: _may_be_complete,
    }
)
"""Conditions on the state and the image that replaces it."""

_IDS: Final = ("previous_producer_id", "next_producer_id", "last_producer_epoch")
_KEPT: Final[Mapping[TransactionState, tuple[str, ...]]] = MappingProxyType(
    {
        _S.EMPTY: ("next_producer_id", "start_timestamp_ms"),
        _S.ONGOING: _IDS,
        _S.PREPARE_COMMIT: ("previous_producer_id",),
        _S.PREPARE_ABORT: ("previous_producer_id",),
        _S.COMPLETE_COMMIT: (),
        _S.COMPLETE_ABORT: (),
    }
)
"""The fields that a transition kept before 4.1; an end in V1 keeps all of `_IDS`."""


def _with_kept_fields(now: TransactionImage, image: TransactionImage) -> TransactionImage:
    ends_as_v1 = image.state not in (_S.EMPTY, _S.ONGOING) and not image.bumps_epoch
    kept = _IDS if ends_as_v1 else _KEPT[image.state]
    return replace(image, **{name: getattr(now, name) for name in kept})
