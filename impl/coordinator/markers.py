"""From PrepareX to CompleteX: the markers that are missing, and what each answer means.

Three rules:

1. A completion is done when each partition has its marker, or was deleted; then it is logged.
2. Retriable errors are retried without a limit. A fenced marker stops the completion: another
   coordinator owns the transaction now.
3. A transactional id has at most one completion; a newer one replaces it.

Sources: `TransactionMarkerChannelManager`, `TransactionMarkerRequestCompletionHandler`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final

from impl.coordinator.effects import SendMarkers
from impl.coordinator.metadata import TopicPartition, TransactionImage, TransactionMetadata
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import ProducerIdAndEpoch


class MarkerAction(Enum):
    """What to do with a partition after its leader's answer."""

    DONE = "done"
    RETRY = "retry"
    STOP = "stop"


_E = ErrorCode

ACTIONS: Final[Mapping[ErrorCode, MarkerAction]] = MappingProxyType(
    {
        _E.NONE: MarkerAction.DONE,
        _E.UNSUPPORTED_FOR_MESSAGE_FORMAT: MarkerAction.DONE,
        _E.UNSUPPORTED_VERSION: MarkerAction.DONE,
        _E.UNKNOWN_TOPIC_OR_PARTITION: MarkerAction.RETRY,
        _E.NOT_LEADER_OR_FOLLOWER: MarkerAction.RETRY,
        _E.NOT_ENOUGH_REPLICAS: MarkerAction.RETRY,
        _E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: MarkerAction.RETRY,
        _E.REQUEST_TIMED_OUT: MarkerAction.RETRY,
        _E.KAFKA_STORAGE_ERROR: MarkerAction.RETRY,
        _E.NETWORK_EXCEPTION: MarkerAction.RETRY,  # no answer: the connection broke
        _E.INVALID_PRODUCER_EPOCH: MarkerAction.STOP,
        _E.TRANSACTION_COORDINATOR_FENCED: MarkerAction.STOP,
    }
)
"""Any other answer stops the completion; in Kafka it ends the sending thread."""


class CompletionState(Enum):
    """The progress of CompleteX."""

    AWAITING_MARKERS = "markers are missing"
    APPENDING = "its append is pending"
    APPEND_FAILED = "its append failed and will be retried"


@dataclass(slots=True)
class Completion:
    """One transaction between PrepareX and CompleteX."""

    token: int
    metadata: TransactionMetadata
    log_partition: int
    coordinator_epoch: int
    image: TransactionImage
    producer: ProducerIdAndEpoch
    commit: bool
    transaction_version: int
    sent: set[TopicPartition] = field(default_factory=set)
    waiting: set[TopicPartition] = field(default_factory=set)
    state: CompletionState = CompletionState.AWAITING_MARKERS

    @property
    def transactional_id(self) -> str:
        """Whose transaction it is."""
        return self.metadata.transactional_id

    def send(self) -> SendMarkers:
        """Markers for all waiting partitions."""
        partitions, self.waiting = frozenset(self.waiting), set()
        self.sent |= partitions
        return SendMarkers(
            self.token,
            self.transactional_id,
            self.coordinator_epoch,
            self.producer,
            self.commit,
            self.transaction_version,
            partitions,
        )

    def apply_answer(self, partition: TopicPartition, error: ErrorCode) -> MarkerAction:
        """Apply a leader's answer for a partition."""
        self.sent.discard(partition)
        action = ACTIONS.get(error, MarkerAction.STOP)
        if action is MarkerAction.RETRY:
            self.waiting.add(partition)
        return action


class Completions:
    """All completions of a coordinator, by transactional id."""

    __slots__ = ("_by_id",)

    def __init__(self) -> None:
        self._by_id: dict[str, Completion] = {}

    def __iter__(self) -> Iterator[Completion]:
        return iter(list(self._by_id.values()))

    def add(self, completion: Completion) -> None:
        """Add a completion; it replaces another one of its id."""
        self._by_id[completion.transactional_id] = completion

    def find(self, transactional_id: str, coordinator_epoch: int) -> Completion | None:
        """The completion of this coordinator epoch, or None."""
        found = self._by_id.get(transactional_id)
        return found if found and found.coordinator_epoch == coordinator_epoch else None

    def remove(self, completion: Completion) -> None:
        """Remove a completion that is logged or abandoned."""
        if self._by_id.get(completion.transactional_id) is completion:
            del self._by_id[completion.transactional_id]

    def remove_partition(self, log_partition: int) -> None:
        """Remove a partition's completions: its leader changed, or it is loaded again."""
        for completion in self:
            if completion.log_partition == log_partition:
                self.remove(completion)
