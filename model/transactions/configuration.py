"""Variants, bounds and budgets of transactions.

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
    """The leader accepts every write."""
    ASKS = 1
    """The leader asks whether the partition is in the transaction."""


class OlderEpoch(IntEnum):
    """How a leader treats a batch of an older epoch than it knows."""

    REFUSED = 0
    """The leader refuses the batch without asking the coordinator."""
    ASKED = 1
    """The leader asks the coordinator, as for any other batch."""


class Ongoing(IntEnum):
    """The open transactions that spare a batch the verification."""

    OF_EPOCH = 0
    """A transaction of the batch's own epoch."""
    OF_PRODUCER_ID = 1
    """Any transaction of the batch's producer id."""


class MarkerEpoch(IntEnum):
    """The epochs of markers that a leader accepts."""

    NOT_OLDER = 0
    """The producer's epoch or a newer one."""
    NEWER = 1
    """With V2, only a newer epoch than the producer's; the same epoch if no transaction is open."""
    STRICTLY_NEWER = 2
    """With V2, only a newer epoch than the producer's, even if no transaction is open: the leader
    refuses the retry of a marker. KAFKA-19999."""


class FirstSequence(IntEnum):
    """How a leader treats the first batch of a producer id that it does not know."""

    ANY = 0
    """Accepts any first sequence."""
    ZERO_IN_V2 = 1
    """With V2, accepts 0 alone."""


class Fence(IntEnum):
    """The epoch under which the coordinator itself ends a transaction."""

    NEXT_EPOCH = 0
    """The next epoch, taken once. KAFKA-19367."""
    SAME_EPOCH = 1
    """The present epoch."""


class Pending(IntEnum):
    """The moment at which a coordinator checks whether the id is busy."""

    BEFORE_PRODUCER = 0
    """Before it compares producer ids and epochs."""
    AFTER_PRODUCER = 1
    """After it has compared producer ids and epochs."""


class Rotation(IntEnum):
    """The acts that take the next producer id when the last epoch is used up."""

    ANYONE = 0
    """The ends and initializations of clients, and the coordinator's own aborts."""
    CLIENTS = 1
    """Only EndTxn of V2 and InitProducerId."""


class IdMemory(IntEnum):
    """The place in which a coordinator keeps the previous and the next producer id."""

    LOGGED = 0
    """The transaction log, from level 1 on."""
    IN_MEMORY = 1
    """The memory of the broker that leads the log's partition."""


class PreviousId(IntEnum):
    """How long the coordinator remembers the previous producer id. A client that uses this id with
    its last epoch counts as the one that rotated it."""

    REPLACED = 0
    """Until a transaction begins."""
    KEPT = 1
    """Until an end of V2, or the next InitProducerId."""


class Bump(IntEnum):
    """The way in which a client of V1 goes on after a batch of unknown outcome, before its next
    transaction."""

    ASKS = 0
    """The client asks the coordinator for the next epoch."""
    GOES_ON = 1
    """The client keeps its epoch."""


class LeaderlessMarker(IntEnum):
    """How a coordinator treats the marker of a partition that has no leader."""

    WAITS = 0
    """The coordinator waits for a leader."""
    SKIPPED = 1
    """The coordinator takes the partition for deleted, and its marker for written."""


class GroupMemory(IntEnum):
    """Whether a client of V1 adds a group again before it commits more of its offsets in a
    transaction."""

    ASKS_AGAIN = 0
    """The client sends AddOffsetsToTxn each time. Java."""
    REMEMBERS = 1
    """The client remembers that the group is in the transaction."""


class LateBump(IntEnum):
    """The way in which a client of V1 goes on if it needs the next epoch only after it has begun to
    abort."""

    FORGOTTEN = 0
    """The client never asks for the epoch, and stays in INITIALIZING for ever. The Java client,
    seen of 3.9.2 and 4.3.1: its beginCompletingTransaction has already queued the requests that
    follow EndTxn."""
    ASKED = 1
    """The client asks for the epoch after the abort, as after any other."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One Kafka: a release, its level, and the requests that its clients send."""

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
"""The faults that a scope has room for by default: a user's budget may allow as many."""


@dataclass(frozen=True, slots=True)
class Bounds(scope.Sizes):
    """Sizes that shape a state.

    `begun` counts the transactions of all instances, `transactions` those that one instance can
    begin. An instance sends at most `writes` records to a partition in each transaction, and has at
    most `in_flight` of them in flight. With `epochs_end`, `max_epoch` stands for the protocol's
    last epoch, which no client may use; without, the scope merely ends there.

    With `appends`, the outcome of an append to the transaction log is an event of its own; without,
    an append succeeds at once. With `readers`, the world includes how far a reader of committed
    records has come. With `guards`, a late batch is verified first, and appended some time later.
    With `offsets`, the last partition holds the group's committed offsets. With `loads`, a
    coordinator that moves takes time to load. The former coordinator may then not know that it is
    replaced, and clients and leaders have to find the new one.

    `faults` has room for what budgets may allow. If the scope is `unbounded`, a fault with a budget
    may happen for ever.
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
        """The number of batches that may be in flight before the newest of a partition."""
        return self.in_flight - 1

    @property
    def last_write(self) -> int:
        """The last number of a record within its transaction and partition."""
        return self.writes - 1

    @property
    def max_sequence(self) -> int:
        """The last sequence that a producer can reach in one epoch."""
        return self.transactions * self.writes

    @property
    def exhausted_epoch(self) -> int:
        """The epoch at which a client needs another producer id: 32766 in Kafka."""
        return self.max_epoch - 1


@dataclass(frozen=True, slots=True)
class Budgets(Faults):
    """The number of times that each fault may happen in a run. `begun` limits the transactions that
    applications begin."""

    begun: int = 2


Configuration = scope.Configuration[Variant, Bounds, Budgets]
"""The configuration that every rule may read."""
Scope = scope.Scope[Variant, Bounds, Budgets]
"""How much is explored, and why this much."""
