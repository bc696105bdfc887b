"""From PrepareX to CompleteX: which markers are still to be written, and what each answer means.

Three rules:

1. A completion is done when each of its partitions has its marker, or is gone; then it is logged.
2. What may succeed later is tried again without end. A marker that is fenced ends the attempt:
   another coordinator has taken over, and the transaction is its now.
3. At most one completion per transactional id; a newer one takes the place of the old.

Sources: `TransactionMarkerChannelManager`, `TransactionMarkerRequestCompletionHandler`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final

from impl.coordinator.effects import SendMarkers
from impl.coordinator.metadata import ProducerIdAndEpoch, TopicPartition, TransactionImage
from impl.protocol.errors import ErrorCode


class Action(Enum):
    """What to do with a partition after its leader's answer."""

    DONE = "done"
    AGAIN = "again"
    STOP = "stop"


_E = ErrorCode

ACTIONS: Final[Mapping[ErrorCode, Action]] = MappingProxyType(
    {
        _E.NONE: Action.DONE,
        _E.UNSUPPORTED_FOR_MESSAGE_FORMAT: Action.DONE,
        _E.UNSUPPORTED_VERSION: Action.DONE,
        _E.UNKNOWN_TOPIC_OR_PARTITION: Action.AGAIN,
        _E.NOT_LEADER_OR_FOLLOWER: Action.AGAIN,
        _E.NOT_ENOUGH_REPLICAS: Action.AGAIN,
        _E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Action.AGAIN,
        _E.REQUEST_TIMED_OUT: Action.AGAIN,
        _E.KAFKA_STORAGE_ERROR: Action.AGAIN,
        _E.NETWORK_EXCEPTION: Action.AGAIN,  # no answer came: the connection broke
        _E.INVALID_PRODUCER_EPOCH: Action.STOP,
        _E.TRANSACTION_COORDINATOR_FENCED: Action.STOP,
    }
)
"""Any other answer stops the completion, too: in Kafka it ends the thread that sends."""


class Logging(Enum):
    """How far CompleteX is."""

    NOT_YET = "markers are missing"
    UNDER_WAY = "its append is not answered"
    AGAIN = "its append failed; to be tried again"


@dataclass(slots=True)
class Completion:
    """One transaction whose end is logged, until CompleteX is."""

    token: int
    transactional_id: str
    log_partition: int
    coordinator_epoch: int
    image: TransactionImage
    producer: ProducerIdAndEpoch
    commit: bool
    transaction_version: int
    sent: set[TopicPartition] = field(default_factory=set)
    waiting: set[TopicPartition] = field(default_factory=set)
    logging: Logging = Logging.NOT_YET

    def send(self) -> SendMarkers:
        """Markers for all that wait."""
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

    def take(self, partition: TopicPartition, error: ErrorCode) -> Action:
        """What the answer of a partition's leader means."""
        self.sent.discard(partition)
        action = ACTIONS.get(error, Action.STOP)
        if action is Action.AGAIN:
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
        """Begin, in the place of any other of this id."""
        self._by_id[completion.transactional_id] = completion

    def find(self, transactional_id: str, coordinator_epoch: int) -> Completion | None:
        """The completion that was begun under this epoch, or None."""
        found = self._by_id.get(transactional_id)
        return found if found and found.coordinator_epoch == coordinator_epoch else None

    def remove(self, completion: Completion) -> None:
        """It is logged, or given up."""
        if self._by_id.get(completion.transactional_id) is completion:
            del self._by_id[completion.transactional_id]

    def remove_partition(self, log_partition: int) -> None:
        """This broker coordinates that partition's ids no more, or loads them afresh."""
        for completion in self:
            if completion.log_partition == log_partition:
                self.remove(completion)
