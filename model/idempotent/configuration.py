"""Variants, bounds and budgets of the idempotent producer.

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
    """How a leader treats the first batch of a producer id that it does not know."""

    ANY = 0
    """Accepts any first sequence."""
    STRICT = 1
    """Refuses every first sequence but 0, as out of order."""
    UNKNOWN_PRODUCER_ID = 2
    """Refuses every first sequence but 0, with UNKNOWN_PRODUCER_ID."""


class RestartWindow(IntEnum):
    """The number of batches of each producer id that a leader remembers after a restart."""

    ONE = 0
    """The last batch: a snapshot holds no more. KAFKA-9199."""
    FULL = 1
    """As many as before."""


class HeadTruncation(IntEnum):
    """How a leader treats a producer id whose last batch is deleted from the log's head."""

    KEEPS = 0
    """The leader remembers it until it expires."""
    EVICTS = 1
    """The leader forgets it with its records."""


class Validation(IntEnum):
    """The checks that a leader makes, by the batch's origin. AppendOrigin; before 2.4.1
    ValidationType."""

    FULL = 0
    """Duplicates, epoch and sequence: for a batch of a client."""
    EPOCH_ONLY = 1
    """The epoch alone: for a batch of a coordinator."""
    NONE = 2
    """No check: for a batch that another leader has accepted before."""


class Acks(IntEnum):
    """The replicas that must have a batch before it is acknowledged."""

    ALL = 0
    """All replicas in sync."""
    LEADER = 1
    """The leader alone."""
    NONE = 2
    """No replica: the broker does not answer."""


class Idempotence(IntEnum):
    """Whether producers are idempotent: only then do they have producer ids."""

    ENABLED = 0
    DISABLED = 1
    """Batches have no producer id and no sequence; a batch that is sent again goes to the head of
    its queue."""


class Retries(IntEnum):
    """The number of times that a producer sends a batch again; ENDLESS has no limit."""

    NONE = 0
    ONE = 1
    ENDLESS = 2


class Recovery(IntEnum):
    """The way in which an idempotent producer recovers when its sequences are in doubt."""

    LOCAL_BUMP = 0
    """The producer takes the next epoch by itself."""
    RESET_2_3 = 1
    """The producer asks for a new producer id and uses it at once; answers to batches of the old id
    change nothing."""
    RESET_2_0 = 2
    """As RESET_2_3, but an old batch that fails closes a gap in the new id's sequences."""


class Expiry(IntEnum):
    """The batches that a producer gives up when their time is up."""

    DELIVERY_TIMEOUT = 0
    """Any batch, the oldest first."""
    QUEUED_ONLY = 1
    """Only batches that are not in flight at the time."""


class SequenceOrder(IntEnum):
    """The order in which a producer keeps sequences: those in flight, and the last acknowledged
    one."""

    RAW = 0
    """As plain numbers, even across the wrap. TransactionManager, TxnPartitionEntry."""
    WRAPS = 1
    """As sequences: 0 comes after the last."""


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
"""The faults that a scope has room for by default: a user's budget may allow as many."""


@dataclass(frozen=True, slots=True)
class Bounds(scope.Sizes):
    """Sizes that shape a state: the number of each kind of thing, and how far numbers go.

    `max_sequence` and `max_epoch` are the last of their kind; after the last sequence comes 0. With
    `epochs_end`, the last epoch is the protocol's own last; without, the scope merely ends there.
    `first_sequence` is the sequence at which the producers' first epoch begins. If it is 0, nothing
    has happened yet; if not, the scope begins with one record that is stored at that sequence and
    acknowledged. A leader accepts at most `max_message` records in one batch.

    Producers that have `begun` have a producer id, each its own unless it is a
    `shared_producer_id`; `more_producer_ids` can still be given out. `faults` has room for what
    budgets may allow. If the scope is `unbounded`, a fault with a budget may happen for ever. If it
    `streams`, producers also send for ever, and `records` limits how many are under way.
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
        """These bounds for a variant. A producer that recovers by a new producer id needs more of
        them, and has none in between."""
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
        """The largest offset that a log's end can have."""
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
        """The number of batches that a producer can have in flight: a split makes one of each
        record."""
        return self.in_flight * (self.max_batch if self.splits else 1)

    @property
    def splits(self) -> bool:
        """Whether a batch can be too large for its leader."""
        return self.max_message < self.max_batch

    @property
    def given_up(self) -> int:
        """The number of batches in flight that their producer may have given up."""
        return self.in_flight if self.faults.timeouts > 0 else 0

    @property
    def producer_ids(self) -> int:
        """The number of producer ids."""
        return (1 if self.shared_producer_id else self.producers) + self.more_producer_ids

    @property
    def wraps(self) -> bool:
        """Whether sequences reach their last, and 0 again."""
        return self.first_sequence > 0

    @property
    def last_producer_id(self) -> int:
        """The last producer id."""
        return self.producer_ids - 1

    @property
    def least_producer_id(self) -> int:
        """-1 if a batch can lack a producer id, else 0."""
        return -1 if self.without_producer_id else 0

    @property
    def least_epoch(self) -> int:
        """-1 if a batch can lack a producer id, else 0."""
        return self.least_producer_id

    @property
    def least_sequence(self) -> int:
        """-1 if a batch can lack a producer id, else 0."""
        return self.least_producer_id


@dataclass(frozen=True, slots=True)
class Budgets(Faults):
    """The number of times that each fault may happen in a run. `records` limits the records that an
    application sends to each partition."""

    records: int = 2


Configuration = scope.Configuration[Variant, Bounds, Budgets]
"""The configuration that every rule may read."""
Scope = scope.Scope[Variant, Bounds, Budgets]
"""How much is explored, and why this much."""
