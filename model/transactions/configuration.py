"""Which Kafka's transactions, and how much of them.

`model.releases` says which release has which rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from model import scope
from model.releases import Requests
from model.transactions.faults import Faults


class Verification(IntEnum):
    """Whether a leader asks the coordinator before the first write of a transaction."""

    NONE = 0
    """It takes every write."""
    ASKS = 1
    """It asks whether the partition is in the transaction."""


class OlderEpoch(IntEnum):
    """What a leader does with a batch of an older epoch than it knows."""

    REFUSED = 0
    """It refuses it, and asks nobody."""
    ASKED = 1
    """It asks the coordinator, as for any other."""


class Ongoing(IntEnum):
    """Which transaction of a producer id is open for a batch, so that nobody has to be asked."""

    OF_EPOCH = 0
    """That of the batch's own epoch."""
    OF_PRODUCER_ID = 1
    """Any."""


class MarkerEpoch(IntEnum):
    """Which epoch a marker must have at a leader."""

    NOT_OLDER = 0
    """At least the producer's."""
    NEWER = 1
    """More than the producer's where V2 is spoken, unless nothing is open."""
    STRICTLY_NEWER = 2
    """More than the producer's, whatever is open: the marker's own retry is refused.
    KAFKA-19999."""


class FirstSequence(IntEnum):
    """What a leader does with the first batch of a producer id that it does not know."""

    ANY = 0
    """Accepts any first sequence."""
    ZERO_IN_V2 = 1
    """Where V2 is spoken it begins with 0."""


class Fence(IntEnum):
    """What happens to the epoch when the coordinator ends a transaction of itself."""

    NEXT_EPOCH = 0
    """One more; once, KAFKA-19367."""
    SAME_EPOCH = 1
    """It stays."""


class Pending(IntEnum):
    """Where a coordinator looks whether the id is busy."""

    BEFORE_PRODUCER = 0
    """Before it compares producer ids and epochs."""
    AFTER_PRODUCER = 1
    """After that."""


class Rotation(IntEnum):
    """Who takes the next producer id when the last epoch is used up."""

    ANYONE = 0
    """Also the coordinator that aborts of itself."""
    CLIENTS = 1
    """Only who ends a transaction with V2, or begins anew."""


class IdMemory(IntEnum):
    """Where a coordinator keeps the producer id before and the one after."""

    LOGGED = 0
    """In the transaction log, from level 1 on."""
    IN_MEMORY = 1
    """With whoever leads the log."""


class PreviousId(IntEnum):
    """How long the producer id before the present one is remembered: who comes with its last epoch
    is then taken for who rotated it."""

    REPLACED = 0
    """Until a transaction begins."""
    KEPT = 1
    """Until an end of V2, or the next InitProducerId."""


class Bump(IntEnum):
    """What a client of V1 does after a batch of unknown outcome, before its next transaction."""

    ASKS = 0
    """It asks the coordinator for the next epoch."""
    GOES_ON = 1
    """It goes on under the same epoch."""


class LeaderlessMarker(IntEnum):
    """What a coordinator does with the marker of a partition that has no leader."""

    WAITS = 0
    """It waits for one."""
    SKIPPED = 1
    """It takes the partition for one that was deleted, and its marker for written."""


class GroupMemory(IntEnum):
    """What a client of V1 does before it commits offsets of a group once more in a transaction."""

    ASKS_AGAIN = 0
    """It sends AddOffsetsToTxn each time. Java."""
    REMEMBERS = 1
    """It knows that the group is in the transaction, and asks no more."""


class LateBump(IntEnum):
    """What a client of V1 does that comes to want the next epoch while it aborts."""

    FORGOTTEN = 0
    """Nothing: its state says INITIALIZING for ever. The Java client, seen of 3.9.2 and 4.3.1: its
    beginCompletingTransaction has queued what is to follow EndTxn before."""
    ASKED = 1
    """It asks for the epoch when the abort is done, as it does for any other."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One Kafka: a release, its level, the requests that its clients send."""

    name: str
    release: str
    level: int = 2
    requests: Requests = Requests.V2
    verification: Verification = Verification.ASKS
    older_epoch: OlderEpoch = OlderEpoch.REFUSED
    ongoing: Ongoing = Ongoing.OF_EPOCH
    marker_epoch: MarkerEpoch = MarkerEpoch.NEWER
    first_sequence: FirstSequence = FirstSequence.ZERO_IN_V2
    fence: Fence = Fence.NEXT_EPOCH
    pending: Pending = Pending.BEFORE_PRODUCER
    rotation: Rotation = Rotation.ANYONE
    id_memory: IdMemory = IdMemory.LOGGED
    previous_id: PreviousId = PreviousId.REPLACED
    bump: Bump = Bump.ASKS
    late_bump: LateBump = LateBump.FORGOTTEN
    group_memory: GroupMemory = GroupMemory.ASKS_AGAIN
    leaderless_marker: LeaderlessMarker = LeaderlessMarker.SKIPPED


USUAL = Faults(delays=1, unheard=1)
"""What a scope has room for if it does not say: a user's budget may allow it."""


@dataclass(frozen=True, slots=True)
class Bounds(scope.Sizes):
    """Sizes. `begun` counts the transactions of all instances, `transactions` those that one can
    begin, `writes` the records that it sends to a partition in each, of which so many may be
    `in_flight` at once. `max_epoch` stands for the
    protocol's last epoch, which no client may use, where `epochs_end`; else it is only where the
    scope ends. With `appends` the outcome of an append to the transaction log is an event of its
    own, else an append succeeds at once. With `readers`, how far a reader of committed records has
    come is part of the world; with `guards` a late batch is verified first, and appended some time
    after that. With `offsets` the last partition is the one in which the group's offsets are
    committed. With `loads` a coordinator that moves takes time to load, the one before it may not
    know yet that it is replaced, and clients and leaders have to find out who it is. `faults` has
    room for what budgets may allow. Where it is `unbounded`, a fault that a budget allows may
    happen for ever.
    """

    instances: int = 2
    partitions: int = 2
    transactions: int = 2
    writes: int = 1
    in_flight: int = 1
    log: int = 6
    late: int = 1
    late_markers: int = 1
    producer_ids: int = 1
    max_epoch: int = 6
    epochs_end: bool = False
    appends: bool = False
    readers: bool = False
    guards: bool = False
    offsets: bool = False
    loads: bool = False
    unbounded: bool = False
    begun: int = 2
    faults: Faults = USUAL

    @property
    def last_instance(self) -> int:
        """The last instance."""
        return self.instances - 1

    @property
    def last_partition(self) -> int:
        """The last partition."""
        return self.partitions - 1

    @property
    def last_producer_id(self) -> int:
        """The last producer id."""
        return self.producer_ids - 1

    @property
    def last_late(self) -> int:
        """The last index of a late request."""
        return self.late - 1

    @property
    def last_late_marker(self) -> int:
        """The last index of a late marker."""
        return self.late_markers - 1

    @property
    def earlier(self) -> int:
        """How many batches may be in flight before the newest of a partition."""
        return self.in_flight - 1

    @property
    def last_write(self) -> int:
        """The last number of a record within its transaction and partition."""
        return self.writes - 1

    @property
    def max_sequence(self) -> int:
        """The last sequence that a producer can come to under one epoch."""
        return self.transactions * self.writes

    @property
    def exhausted_epoch(self) -> int:
        """From here on a client needs another producer id: 32766."""
        return self.max_epoch - 1


@dataclass(frozen=True, slots=True)
class Budgets(Faults):
    """How often each fault may happen in a run. `begun` counts the transactions that applications
    begin."""

    begun: int = 2


Configuration = scope.Configuration[Variant, Bounds, Budgets]
"""What every rule may ask."""
Scope = scope.Scope[Variant, Bounds, Budgets]
"""How much is explored, and why this much."""
