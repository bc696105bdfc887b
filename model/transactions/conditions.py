"""When the guarantees of transactions hold: what a configuration must have, or must not."""

from __future__ import annotations

from model.transactions.configuration import (
    Configuration,
    Fence,
    FirstSequence,
    IdMemory,
    LateBump,
    LeaderlessMarker,
    MarkerEpoch,
    Rotation,
    Verification,
)
from model.transactions.messages import speaks_v2


def nothing_is_late(k: Configuration) -> bool:
    """No request of V1 arrives after its sender gave it up: what V1 lacks, and V2 does not need.
    KAFKA-17754."""
    return speaks_v2(k) or k.budgets.delays == 0


def markers_are_known(k: Configuration) -> bool:
    """No marker arrives late that a leader takes for the next transaction's. KIP-1228."""
    sound = k.variant.marker_epoch != MarkerEpoch.NOT_OLDER
    return k.budgets.marker_delays == 0 or (sound and speaks_v2(k))


def writes_are_verified(k: Configuration) -> bool:
    """Leaders ask, or nothing can be late."""
    asks = k.variant.verification == Verification.ASKS or speaks_v2(k)
    return asks or k.budgets.delays == 0


def coordinators_are_known(k: Configuration) -> bool:
    """No leader asks a former coordinator about a batch of V1 that is late: under V2 such a batch
    has an older epoch."""
    unknown = k.bounds.loads and k.budgets.moves > 0 and k.budgets.delays > 0
    return speaks_v2(k) or not unknown


def markers_wait(k: Configuration) -> bool:
    """No marker is skipped where a partition has no leader. KAFKA-20734."""
    return k.variant.leaderless_marker == LeaderlessMarker.WAITS or k.budgets.leaves == 0


def gaps_are_met(k: Configuration) -> bool:
    """A leader knows each producer id that V1 goes on with after a gap: the marker of what it gave
    up came before. V2 begins each transaction at 0, and leaders see to it. A batch in flight behind
    one that was turned away may come to a leader that knows nothing of either: it takes any first
    sequence, but of V2 since 4.1."""
    strict = k.variant.first_sequence == FirstSequence.ZERO_IN_V2 and speaks_v2(k)
    is_alone = k.bounds.in_flight == 1 or k.budgets.leaves == 0
    goes_on = speaks_v2(k) or (coordinators_are_known(k) and markers_wait(k))
    return goes_on and (strict or is_alone)


def nothing_stays(k: Configuration) -> bool:
    """Leaders ask who knows, or nothing can be late; and no marker is skipped."""
    return writes_are_verified(k) and markers_wait(k) and coordinators_are_known(k)


def whole(k: Configuration) -> bool:
    """Nothing late is taken for the next transaction's, leaders ask where it could be, no marker is
    skipped, and each transaction that V2 or the coordinator ends takes the next epoch."""
    fences = k.variant.fence == Fence.NEXT_EPOCH and epochs_rotate(k)
    return nothing_is_late(k) and markers_are_known(k) and nothing_stays(k) and fences


def refusals_are_true(k: Configuration) -> bool:
    """No batch is refused for good that is stored: its sequence would be given again, under the
    same epoch, and the leader would take the next batch for it. V2 ends the epoch with the
    transaction."""
    b = k.budgets
    return speaks_v2(k) or b.rejections == 0 or b.unheard == 0


def writes_count(k: Configuration) -> bool:
    """What is sent is stored, or its sender knows that it is not."""
    return whole(k) and refusals_are_true(k)


def alone(k: Configuration) -> bool:
    """One instance; nothing is late, lasts too long, fails or moves."""
    b = k.budgets
    on_time = b.delays == 0 and b.timeouts == 0 and b.forgotten == 0
    return k.bounds.instances == 1 and on_time and b.failures == 0 and b.moves == 0


def untroubled(k: Configuration) -> bool:
    """The same, no batch expires or is refused for good, and no marker is skipped."""
    b = k.budgets
    return alone(k) and b.expirations == 0 and b.rejections == 0 and markers_wait(k)


def epochs_rotate(k: Configuration) -> bool:
    """Nobody writes under the last epoch, which has no next one: whoever uses it up takes the next
    producer id, and no failover forgets which. KAFKA-20090, KAFKA-20310."""
    ends = k.bounds.epochs_end and speaks_v2(k)
    stays = k.variant.rotation == Rotation.CLIENTS and k.budgets.timeouts > 0
    forgets = k.variant.id_memory == IdMemory.IN_MEMORY and k.budgets.moves > 0
    return not ends or not (stays or forgets)


def all_rotate(k: Configuration) -> bool:
    """Whoever uses up the last epoch takes the next producer id, also the coordinator, and no
    failover forgets which. KAFKA-20090, KAFKA-20310, from level 2 on."""
    rotates = k.variant.level == 2 and k.variant.rotation == Rotation.ANYONE
    forgets = k.variant.id_memory == IdMemory.IN_MEMORY and k.budgets.moves > 0
    return (rotates and not forgets) or not k.bounds.epochs_end


def retries_are_taken(k: Configuration) -> bool:
    """A marker that is sent again is no zombie's, nor one of the last epoch. KAFKA-19999."""
    lenient = k.variant.marker_epoch == MarkerEpoch.NOT_OLDER or not speaks_v2(k)
    return lenient or (k.variant.marker_epoch == MarkerEpoch.NEWER and epochs_rotate(k))


def appends_are_true(k: Configuration) -> bool:
    """No append is reported as failed that came into the log all the same."""
    return k.budgets.failures == 0


def late_bumps_are_asked(k: Configuration) -> bool:
    """No client forgets the epoch that it comes to want while it aborts: none of V1 does if no
    batch expires."""
    asks = k.variant.late_bump == LateBump.ASKED
    return asks or speaks_v2(k) or k.budgets.expirations == 0


def is_v2(k: Configuration) -> bool:
    """Clients speak V2, and each transaction that they or the coordinator end takes the next
    epoch: an epoch is one transaction."""
    return speaks_v2(k) and whole(k)


def has_offsets(k: Configuration) -> bool:
    """Transactions commit offsets of a group."""
    return k.bounds.offsets
