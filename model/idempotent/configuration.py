"""Which Kafka, and how much of it: variants, bounds, budgets, and the configuration they make.

`model.releases` says which release has which rule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Self

from model import scope
from model.idempotent.faults import Faults
from model.releases import MAX_BATCHES_TO_REMEMBER, Requests


class FirstSequence(IntEnum):
    """What a leader does with the first batch of a producer id that it does not know."""

    ANY = 0
    """Accepts any first sequence."""
    STRICT = 1
    """Refuses all but 0 as out of order."""
    UNKNOWN_PRODUCER_ID = 2
    """Refuses all but 0, and says that it does not know the producer id."""


class RestartWindow(IntEnum):
    """How many batches of each producer id a leader still remembers after a restart."""

    ONE = 0
    """The last: a snapshot holds no more. KAFKA-9199."""
    FULL = 1
    """As many as before."""


class HeadTruncation(IntEnum):
    """What becomes of a producer id whose last batch is deleted from the log's head."""

    KEEPS = 0
    """It stays known until it expires."""
    EVICTS = 1
    """It is forgotten with its records."""


class Validation(IntEnum):
    """What a leader asks of a batch, by its origin. AppendOrigin; before 2.4.1 ValidationType."""

    FULL = 0
    """Duplicates, epoch and sequence: a client's batch."""
    EPOCH_ONLY = 1
    """The epoch: a batch of a coordinator."""
    NONE = 2
    """Nothing: a batch that another leader has accepted before."""


class Acks(IntEnum):
    """How many replicas must have a batch before it is acknowledged."""

    ALL = 0
    """All that are in sync."""
    LEADER = 1
    """The leader."""
    NONE = 2
    """None: the broker does not answer."""


class Idempotence(IntEnum):
    """Whether producers have producer ids."""

    ENABLED = 0
    DISABLED = 1
    """No producer id, no sequence, and a batch that is sent again goes to the head of its queue."""


class Retries(IntEnum):
    """How often a producer sends a batch again. The number is how often, but for ENDLESS."""

    NONE = 0
    ONE = 1
    ENDLESS = 2


class Recovery(IntEnum):
    """What an idempotent producer does where its sequences went astray."""

    LOCAL_BUMP = 0
    """It takes the next epoch by itself."""
    RESET_2_3 = 1
    """It asks for a new producer id and uses it at once; what it hears of batches of the old one
    changes nothing."""
    RESET_2_0 = 2
    """The same, but an old batch that fails closes a gap in the new id's sequences."""


class Expiry(IntEnum):
    """Which batches a producer gives up after a time."""

    DELIVERY_TIMEOUT = 0
    """All, the oldest first."""
    QUEUED_ONLY = 1
    """Those that are not on their way."""


class SequenceOrder(IntEnum):
    """How a producer orders sequences: what is in flight, and the last that was acknowledged."""

    RAW = 0
    """As plain numbers, also across the wrap. TransactionManager, TxnPartitionEntry."""
    WRAPS = 1
    """In the order of the sequences: 0 comes after the last."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One Kafka: a release, or a release with some of its rules replaced by name."""

    name: str
    release: str
    level: int = 2
    requests: Requests = Requests.V2
    first_sequence: FirstSequence = FirstSequence.ANY
    restart_window: RestartWindow = RestartWindow.ONE
    head_truncation: HeadTruncation = HeadTruncation.KEEPS
    validation: Validation = Validation.FULL
    recovery: Recovery = Recovery.LOCAL_BUMP
    expiry: Expiry = Expiry.DELIVERY_TIMEOUT
    retries: Retries = Retries.ENDLESS
    acks: Acks = Acks.ALL
    idempotence: Idempotence = Idempotence.ENABLED
    sequence_order: SequenceOrder = SequenceOrder.RAW


USUAL = Faults(breaks=1, refusals=1, restarts=1, failovers=1)
"""What a scope has room for if it does not say: a user's budget may allow it."""


@dataclass(frozen=True, slots=True)
class Bounds(scope.Sizes):
    """Sizes that shape a state: how many of each, and how far numbers go.

    `max_sequence` and `max_epoch` are the last of their kind; after the last sequence comes 0.
    `first_sequence` is where the producers' first epoch begins: with 0 nothing has happened yet,
    else the scope begins with one record, stored at that sequence and acknowledged.
    `max_message` is how many records a leader takes in one batch. With `epochs_end` the last epoch
    is the protocol's own last, else it is only where the scope ends. Producers that are `begun`
    have a producer id, each its own unless it is a `shared_producer_id`; `more_producer_ids` are to
    be had. `faults` has room for what budgets may allow. Where it is `unbounded`, a fault that a
    budget allows may happen for ever; where it `streams`, producers send for ever too, and
    `records` is how many may be under way.
    """

    producers: int = 1
    more_producer_ids: int = 0
    shared_producer_id: bool = False
    partitions: int = 1
    records: int = 4
    in_flight: int = 2
    max_batch: int = 2
    max_message: int = 2
    window: int = MAX_BATCHES_TO_REMEMBER
    log: int = 4
    broken_connections: int = 1
    max_sequence: int = 31
    first_sequence: int = 0
    max_epoch: int = 0
    replicas: int = 1
    epochs_end: bool = False
    begun: bool = True
    unbounded: bool = False
    streams: bool = False
    without_producer_id: bool = False
    faults: Faults = USUAL

    def suited_to(self, variant: Variant) -> Self:
        """A producer that recovers by another producer id needs more of them, and must do without
        one meanwhile."""
        resets = variant.recovery != Recovery.LOCAL_BUMP
        without_producer_id = (
            resets
            or self.epochs_end
            or not self.begun
            or variant.idempotence == Idempotence.DISABLED
        )
        more = self.more_producer_ids + (self.max_epoch if resets else 0)
        return replace(self, more_producer_ids=more, without_producer_id=without_producer_id)

    @property
    def max_offset(self) -> int:
        """The last offset that can be a log's end."""
        return self.log * self.max_batch

    @property
    def last_broken(self) -> int:
        """The last index of a broken connection."""
        return self.broken_connections - 1

    @property
    def max_delta(self) -> int:
        """The last offset delta in a batch."""
        return self.max_batch - 1

    @property
    def unfinished(self) -> int:
        """How many batches a producer can have in flight: a split makes one out of each record."""
        return self.in_flight * (self.max_batch if self.splits else 1)

    @property
    def splits(self) -> bool:
        """Whether a batch can be too large for its leader."""
        return self.max_message < self.max_batch

    @property
    def given_up(self) -> int:
        """How many batches can be on their way that their producer has given up."""
        return self.in_flight if self.faults.timeouts > 0 else 0

    @property
    def producer_ids(self) -> int:
        """How many producer ids there are."""
        return (1 if self.shared_producer_id else self.producers) + self.more_producer_ids

    @property
    def wraps(self) -> bool:
        """Whether sequences come to their last, and to 0 again."""
        return self.first_sequence > 0

    @property
    def last_producer_id(self) -> int:
        """The last producer id."""
        return self.producer_ids - 1

    @property
    def least_producer_id(self) -> int:
        """-1 where a batch can lack a producer id."""
        return -1 if self.without_producer_id else 0

    @property
    def least_epoch(self) -> int:
        """-1 where a batch can lack a producer id."""
        return self.least_producer_id

    @property
    def least_sequence(self) -> int:
        """-1 where a batch can lack a producer id."""
        return self.least_producer_id


@dataclass(frozen=True, slots=True)
class Budgets(Faults):
    """How often each fault may happen in a run. `records` counts those that an application sends
    to each partition."""

    records: int = 2


Configuration = scope.Configuration[Variant, Bounds, Budgets]
"""What every rule may ask."""
Scope = scope.Scope[Variant, Bounds, Budgets]
"""How much is explored, and why this much."""
