"""The configurations in which each guarantee of transactions holds.

A condition reads the variant, the bounds and the budgets, never a world.
"""

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
    """No request of V1 arrives after its sender has given it up; with V2 a late request does no
    harm. KAFKA-17754."""
    return speaks_v2(k) or k.budgets.delays == 0


def markers_are_known(k: Configuration) -> bool:
    """No leader takes a late marker for one of the next transaction. KIP-1228."""
    sound = k.variant.marker_epoch != MarkerEpoch.NOT_OLDER
    return k.budgets.marker_delays == 0 or (sound and speaks_v2(k))


def writes_are_verified(k: Configuration) -> bool:
    """Leaders verify transactions, or no request is late."""
    asks = k.variant.verification == Verification.ASKS or speaks_v2(k)
    return asks or k.budgets.delays == 0


def coordinators_are_known(k: Configuration) -> bool:
    """No leader asks a former coordinator about a late batch of V1; with V2 such a batch has an
    older epoch."""
    unknown = k.bounds.loads and k.budgets.moves > 0 and k.budgets.delays > 0
    return speaks_v2(k) or not unknown


def markers_wait(k: Configuration) -> bool:
    """No coordinator skips the marker of a partition without a leader. KAFKA-20734."""
    return k.variant.leaderless_marker == LeaderlessMarker.WAITS or k.budgets.leaves == 0


def gaps_are_met(k: Configuration) -> bool:
    """A leader knows each producer id under which V1 goes on after a gap, because the marker of the
    given-up batches came before. V2 begins each transaction at 0, and leaders enforce it. A batch
    in flight behind one that was turned away may reach a leader that knows neither. Such a leader
    accepts any first sequence, except from V2 since 4.1."""
    strict = k.variant.first_sequence == FirstSequence.ZERO_IN_V2 and speaks_v2(k)
    is_alone = k.bounds.in_flight == 1 or k.budgets.leaves == 0
    goes_on = speaks_v2(k) or (coordinators_are_known(k) and markers_wait(k))
    return goes_on and (strict or is_alone)


def nothing_stays(k: Configuration) -> bool:
    """Leaders verify writes with the present coordinator, or no request is late; and no marker is
    skipped."""
    return writes_are_verified(k) and markers_wait(k) and coordinators_are_known(k)


def whole(k: Configuration) -> bool:
    """No late message is taken for one of the next transaction, leaders verify writes, no marker is
    skipped, and each end by V2 or by the coordinator itself takes the next epoch."""
    fences = k.variant.fence == Fence.NEXT_EPOCH and epochs_rotate(k)
    return nothing_is_late(k) and markers_are_known(k) and nothing_stays(k) and fences


def refusals_are_true(k: Configuration) -> bool:
    """No stored batch is refused for good. Otherwise its sequence would be used again under the
    same epoch, and the leader would take the next batch for a duplicate. With V2 the epoch ends
    with the transaction."""
    b = k.budgets
    return speaks_v2(k) or b.rejections == 0 or b.unheard == 0


def writes_count(k: Configuration) -> bool:
    """Transactions are whole, and each record that is sent is stored, or its sender knows that it
    is not."""
    return whole(k) and refusals_are_true(k)


def alone(k: Configuration) -> bool:
    """There is one instance; no request is late, no transaction lasts too long, no append fails,
    and no coordinator moves."""
    b = k.budgets
    on_time = b.delays == 0 and b.timeouts == 0 and b.forgotten == 0
    return k.bounds.instances == 1 and on_time and b.failures == 0 and b.moves == 0


def untroubled(k: Configuration) -> bool:
    """The instance is alone, no batch expires or is refused for good, and no marker is skipped."""
    b = k.budgets
    return alone(k) and b.expirations == 0 and b.rejections == 0 and markers_wait(k)


def epochs_rotate(k: Configuration) -> bool:
    """No client writes under the last epoch, which has no next one. Each act that uses up the
    epochs takes the next producer id, and no failover forgets that id. KAFKA-20090, KAFKA-20310."""
    ends = k.bounds.epochs_end and speaks_v2(k)
    stays = k.variant.rotation == Rotation.CLIENTS and k.budgets.timeouts > 0
    forgets = k.variant.id_memory == IdMemory.IN_MEMORY and k.budgets.moves > 0
    return not ends or not (stays or forgets)


def all_rotate(k: Configuration) -> bool:
    """Each act that uses up the epochs takes the next producer id, the coordinator's own aborts
    included, and no failover forgets that id. KAFKA-20090, KAFKA-20310, from level 2 on."""
    rotates = k.variant.level == 2 and k.variant.rotation == Rotation.ANYONE
    forgets = k.variant.id_memory == IdMemory.IN_MEMORY and k.budgets.moves > 0
    return (rotates and not forgets) or not k.bounds.epochs_end


def retries_are_taken(k: Configuration) -> bool:
    """No leader refuses the retry of a marker as a zombie's, or for the last epoch. KAFKA-19999."""
    lenient = k.variant.marker_epoch == MarkerEpoch.NOT_OLDER or not speaks_v2(k)
    return lenient or (k.variant.marker_epoch == MarkerEpoch.NEWER and epochs_rotate(k))


def appends_are_true(k: Configuration) -> bool:
    """No append is in the log although it was reported as failed."""
    return k.budgets.failures == 0


def late_bumps_are_asked(k: Configuration) -> bool:
    """No client forgets an epoch that it comes to need during an abort; if no batch expires, no
    client of V1 comes to need one."""
    asks = k.variant.late_bump == LateBump.ASKED
    return asks or speaks_v2(k) or k.budgets.expirations == 0


def is_v2(k: Configuration) -> bool:
    """Clients speak V2, and each end, by a client or by the coordinator, takes the next epoch: one
    epoch is one transaction."""
    return speaks_v2(k) and whole(k)


def has_offsets(k: Configuration) -> bool:
    """Transactions commit offsets of a group."""
    return k.bounds.offsets
