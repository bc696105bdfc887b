"""What transactions guarantee, what shows that the guarantees are not empty, and when they hold."""

from __future__ import annotations

from model.properties import Guarantee, Witness, always
from model.transactions.client_state import Client, ClientState, Outcome
from model.transactions.configuration import (
    Configuration,
    Fence,
    IdMemory,
    LeaderlessMarker,
    MarkerEpoch,
    Rotation,
    Verification,
)
from model.transactions.coordinator import (
    CoordinatorLeadership,
    Metadata,
    TransactionState,
    decided,
    is_prepared,
    overflows,
)
from model.transactions.leader import Kind, ProducerStateEntry, Stored, last_stable_offset
from model.transactions.messages import (
    NO_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Partition,
    is_of_group,
    speaks_v2,
)
from model.transactions.world import World

Log = tuple[Stored, ...]


# What became of a record


def is_marker(stored: Stored) -> bool:
    """It ends a transaction of ours."""
    return stored.kind == Kind.COMMIT or stored.kind == Kind.ABORT


def ended_by(log: Log, offset: int, kind: Kind) -> bool:
    """The first marker of the record's producer id after it is of this kind."""
    producer_id = log[offset].producer_id
    return any(
        m.kind == kind
        and m.producer_id == producer_id
        and i > offset
        and not any(
            is_marker(b) and b.producer_id == producer_id and j > offset
            for j, b in enumerate(log[:i])
        )
        for i, m in enumerate(log)
    )


def is_committed(log: Log, offset: int) -> bool:
    """Readers of committed records get it, once it is stable."""
    return ended_by(log, offset, Kind.COMMIT)


def is_aborted(log: Log, offset: int) -> bool:
    """Readers of committed records never get it."""
    return ended_by(log, offset, Kind.ABORT)


def outcome_of(w: World, stored: Stored) -> Outcome:
    """What the application asked for the record's transaction, and was told."""
    return w.clients[stored.instance].outcomes[stored.transaction]


def asked_to_commit(outcome: Outcome) -> bool:
    """The application has called commitTransaction."""
    return outcome == Outcome.COMMIT_ASKED or outcome == Outcome.COMMITTED


# Visibility


def no_aborted_read(k: Configuration, w: World) -> bool:
    """No record becomes visible whose application did not ask to commit it. P9."""
    return all(nothing_unasked(w, leader.log) for leader in w.leaders.values())


def nothing_unasked(w: World, log: Log) -> bool:
    """Each committed record was to be committed."""
    return all(
        s.kind != Kind.DATA or asked_to_commit(outcome_of(w, s)) or not is_committed(log, i)
        for i, s in enumerate(log)
    )


def no_lost_write(k: Configuration, w: World) -> bool:
    """What was sent, in a transaction whose commit succeeded, is there and is not aborted.
    P2, P7."""
    return all(nothing_lost(k, w, partition, leader.log) for partition, leader in w.leaders.items())


def nothing_lost(k: Configuration, w: World, partition: Partition, log: Log) -> bool:
    """The same, in one log."""
    kept = all(
        s.kind != Kind.DATA or outcome_of(w, s) != Outcome.COMMITTED or not is_aborted(log, i)
        for i, s in enumerate(log)
    )
    return kept and all(
        has_all_sent(k, client, instance, partition, log) for instance, client in w.clients.items()
    )


def has_all_sent(
    k: Configuration, client: Client, instance: int, partition: Partition, log: Log
) -> bool:
    """Each record that was sent in a committed transaction is in the log."""
    return all(
        client.outcomes[t] != Outcome.COMMITTED or copies(log, instance, t) >= sent
        for t, sent in client.partitions[partition].sent.items()
    )


def copies(log: Log, instance: int, transaction: int) -> int:
    """How many records of a transaction are in the log."""
    return sum(
        1
        for s in log
        if s.kind == Kind.DATA and s.instance == instance and s.transaction == transaction
    )


def all_or_none(k: Configuration, w: World) -> bool:
    """Of no transaction is one record committed and another aborted. P7."""
    return not any(
        any(is_torn(w, instance, t) for t in range(k.bounds.transactions))
        for instance, _ in w.clients.items()
    )


def is_torn(w: World, instance: int, transaction: int) -> bool:
    """A record of the transaction is committed, and another is aborted."""
    return any(
        has_ended(leader.log, instance, transaction, Kind.COMMIT) for leader in w.leaders.values()
    ) and any(
        has_ended(leader.log, instance, transaction, Kind.ABORT) for leader in w.leaders.values()
    )


def has_ended(log: Log, instance: int, transaction: int, kind: Kind) -> bool:
    """A record of the transaction was ended that way."""
    return any(
        s.kind == Kind.DATA
        and s.instance == instance
        and s.transaction == transaction
        and ended_by(log, i, kind)
        for i, s in enumerate(log)
    )


def acked_once(k: Configuration, w: World) -> bool:
    """No record is twice in its log; a group's offsets may be. P1."""
    return all(
        is_of_group(k, partition) or all_once(leader.log) for partition, leader in w.leaders.items()
    )


def all_once(log: Log) -> bool:
    """No two records are the same."""
    return all(
        a.kind != Kind.DATA
        or not any(
            b.kind == Kind.DATA
            and a.instance == b.instance
            and a.transaction == b.transaction
            and a.number == b.number
            for b in log[:i]
        )
        for i, a in enumerate(log)
    )


def offsets_with_outcome(k: Configuration, w: World) -> bool:
    """A group's offsets move if and only if their transaction commits. P10."""
    return all(
        not is_of_group(k, partition)
        or (nothing_unasked(w, leader.log) and nothing_lost(k, w, partition, leader.log))
        for partition, leader in w.leaders.items()
    )


# Decisions


def one_outcome(k: Configuration, w: World) -> bool:
    """All markers of one (producer id, epoch) say the same, in all partitions. P8."""
    return not any(any(contradicts(w, m) for m in leader.log) for leader in w.leaders.values())


def contradicts(w: World, marker: Stored) -> bool:
    """Somewhere a marker of the same epoch aborts what this one commits."""
    return marker.kind == Kind.COMMIT and any(
        any(
            m.kind == Kind.ABORT
            and m.producer_id == marker.producer_id
            and m.producer_epoch == marker.producer_epoch
            for m in leader.log
        )
        for leader in w.leaders.values()
    )


def no_write_outside(k: Configuration, w: World) -> bool:
    """What is open at a partition is open at the coordinator too: nothing hangs."""
    metadata = decided(w.coordinator)
    ends = metadata.state == TransactionState.PREPARE_COMMIT or (
        metadata.state == TransactionState.PREPARE_ABORT
    )
    is_open = ends or metadata.state == TransactionState.ONGOING
    return all(
        all(
            e.current_txn_first_offset == NO_OFFSET
            or (is_open and metadata.producer_id == producer_id and metadata.partitions[partition])
            for producer_id, e in leader.producers.items()
        )
        for partition, leader in w.leaders.items()
    )


def fenced(k: Configuration, w: World) -> bool:
    """After InitProducerId has returned, nothing of an older epoch becomes visible that was not
    written before, and all that was is decided. P5, P6."""
    return w.initialization.producer_id == NO_PRODUCER_ID or all(
        is_fenced(w, leader.log, w.initialization.log_end[partition])
        for partition, leader in w.leaders.items()
    )


def is_fenced(w: World, log: Log, log_end: int) -> bool:
    """The same, in one log."""
    return all(
        s.kind != Kind.DATA
        or not is_older(w, s)
        or (is_decided(log, i) if i < log_end else not is_committed(log, i))
        for i, s in enumerate(log)
    )


def is_older(w: World, stored: Stored) -> bool:
    """Written under an id or epoch before the last initialization: ids are given in order."""
    same = stored.producer_id == w.initialization.producer_id
    return stored.producer_id < w.initialization.producer_id or (
        same and stored.producer_epoch < w.initialization.producer_epoch
    )


def is_decided(log: Log, offset: int) -> bool:
    """Its transaction is over."""
    return is_committed(log, offset) or is_aborted(log, offset)


def epochs_unique(k: Configuration, w: World) -> bool:
    """No two instances have the same producer id and epoch."""
    return not any(
        any(same_epoch(a, b) for b in w.clients.values()[:i])
        for i, a in enumerate(w.clients.values())
    )


def same_epoch(a: Client, b: Client) -> bool:
    """Both have the same, and it is one."""
    return (
        a.producer_id != NO_PRODUCER_ID
        and a.producer_id == b.producer_id
        and a.producer_epoch == b.producer_epoch
        and a.state != ClientState.FATAL_ERROR
        and b.state != ClientState.FATAL_ERROR
    )


def no_false_fencing(k: Configuration, w: World) -> bool:
    """An instance that is alone, and on time, is never told that it is fenced."""
    return all(c.state != ClientState.FATAL_ERROR for c in w.clients.values())


def markers_are_taken(k: Configuration, w: World) -> bool:
    """No partition refuses the marker of the coordinator that leads: what is prepared completes."""
    return not (w.coordinator.is_stopped and is_prepared(w.coordinator.known.metadata))


def last_epoch_is_nobodys(k: Configuration, w: World) -> bool:
    """No transaction is open under the last epoch: no coordinator could end it of itself,
    and no client of V2."""
    return w.coordinator.known.metadata.state != TransactionState.ONGOING or not overflows(
        k, w.coordinator
    )


# What leaders and coordinators know


def leaders_know_their_logs(k: Configuration, w: World) -> bool:
    """What a leader knows of a producer id is what its log says: the epoch and the sequence of the
    newest record, and where a transaction is open."""
    return all(
        all(
            knows_epoch(leader.log, producer_id, entry)
            and knows_sequence(leader.log, producer_id, entry)
            and knows_open(leader.log, producer_id, entry)
            for producer_id, entry in leader.producers.items()
        )
        for leader in w.leaders.values()
    )


def is_of(stored: Stored, producer_id: int) -> bool:
    """A record or a marker of this producer id."""
    return stored.kind != Kind.OTHER and stored.producer_id == producer_id


def knows_epoch(log: Log, producer_id: int, entry: ProducerStateEntry) -> bool:
    """The epoch is that of the newest record or marker; none where there is nothing."""
    return all(
        not is_of(s, producer_id)
        or any(is_of(later, producer_id) for later in log[i + 1 :])
        or s.producer_epoch == entry.producer_epoch
        for i, s in enumerate(log)
    ) and (entry.producer_epoch == NO_PRODUCER_EPOCH or any(is_of(s, producer_id) for s in log))


def knows_sequence(log: Log, producer_id: int, entry: ProducerStateEntry) -> bool:
    """The sequence is that of the newest record of the present epoch; none where there is none."""
    return all(
        not is_record_of(s, producer_id, entry)
        or any(is_record_of(later, producer_id, entry) for later in log[i + 1 :])
        or s.sequence == entry.last_sequence
        for i, s in enumerate(log)
    ) and (
        entry.last_sequence == NO_SEQUENCE or any(is_record_of(s, producer_id, entry) for s in log)
    )


def is_record_of(stored: Stored, producer_id: int, entry: ProducerStateEntry) -> bool:
    """A record of this producer id, under the epoch that the leader knows."""
    return (
        stored.kind == Kind.DATA
        and stored.producer_id == producer_id
        and stored.producer_epoch == entry.producer_epoch
    )


def knows_open(log: Log, producer_id: int, entry: ProducerStateEntry) -> bool:
    """A transaction is open from the first record that no marker has ended."""
    first = entry.current_txn_first_offset
    return all(
        s.kind != Kind.DATA
        or s.producer_id != producer_id
        or is_decided(log, i)
        or (first != NO_OFFSET and first <= i)
        for i, s in enumerate(log)
    ) and (
        first == NO_OFFSET
        or any(
            i == first
            and s.kind == Kind.DATA
            and s.producer_id == producer_id
            and not is_decided(log, i)
            for i, s in enumerate(log)
        )
    )


def records_are_where_sent(k: Configuration, w: World) -> bool:
    """Each record is in the log of a partition that its application sent it to."""
    return all(
        all(s.kind != Kind.DATA or was_sent(w, partition, s) for s in leader.log)
        for partition, leader in w.leaders.items()
    )


def was_sent(w: World, partition: Partition, stored: Stored) -> bool:
    """The application has sent so many records there, in that transaction."""
    there = w.clients[stored.instance].partitions[partition]
    return stored.number < there.sent[stored.transaction]


def coordinator_epochs_rise(k: Configuration, w: World) -> bool:
    """Each coordinator has an epoch of its own, newer than all before: leaders can refuse the
    markers of a former one."""
    former = w.placement.former
    present = w.coordinator.coordinator_epoch
    is_newer = former.leadership != CoordinatorLeadership.REPLACED or (
        former.coordinator_epoch < present
    )
    return (
        is_newer
        and present >= w.faults.moves
        and all(
            all(e.coordinator_epoch <= present for e in leader.producers.values())
            for leader in w.leaders.values()
        )
    )


def coordinator_knows_its_log(k: Configuration, w: World) -> bool:
    """A coordinator that leads, and appends nothing, knows what its log says: who takes over from
    it finds the same. TransactionStateManager."""
    c = w.coordinator
    leads = c.leadership == CoordinatorLeadership.LEADS and not c.is_appending
    return not leads or is_logged(c.known.metadata, c.log.metadata)


def is_logged(known: Metadata, logged: Metadata) -> bool:
    """Both are the same, but for the partitions that have their marker: the log keeps them."""
    return (
        known.state == logged.state
        and known.producer_id == logged.producer_id
        and known.producer_epoch == logged.producer_epoch
        and all(
            logged.partitions[p] == is_in or (logged.partitions[p] and is_prepared(known))
            for p, is_in in known.partitions.items()
        )
    )


# Readers


def last_stable_offset_sound(k: Configuration, w: World) -> bool:
    """It never passes an open transaction, and never goes back."""
    return all(
        w.read_to[partition] <= last_stable_offset(k, leader)
        and all(
            e.current_txn_first_offset == NO_OFFSET
            or last_stable_offset(k, leader) <= e.current_txn_first_offset
            for e in leader.producers.values()
        )
        for partition, leader in w.leaders.items()
    )


def no_dirty_read(k: Configuration, w: World) -> bool:
    """What is below the last stable offset is decided. P9."""
    return all(
        is_decided_below(leader.log, last_stable_offset(k, leader)) for leader in w.leaders.values()
    )


def is_decided_below(log: Log, offset: int) -> bool:
    """The same, in one log."""
    return all(s.kind != Kind.DATA or i >= offset or is_decided(log, i) for i, s in enumerate(log))


# When they hold


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


def nothing_stays(k: Configuration) -> bool:
    """Leaders ask who knows, or nothing can be late; and no marker is skipped."""
    return writes_are_verified(k) and markers_wait(k) and coordinators_are_known(k)


def whole(k: Configuration) -> bool:
    """Nothing late is taken for the next transaction's, leaders ask where it could be, no marker is
    skipped, and each transaction that V2 or the coordinator ends takes the next epoch."""
    fences = k.variant.fence == Fence.NEXT_EPOCH and epochs_rotate(k)
    return nothing_is_late(k) and markers_are_known(k) and nothing_stays(k) and fences


def alone(k: Configuration) -> bool:
    """One instance; nothing is late, lasts too long, fails or moves."""
    b = k.budgets
    on_time = b.delays == 0 and b.timeouts == 0 and b.forgotten == 0
    return k.bounds.instances == 1 and on_time and b.failures == 0 and b.moves == 0


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


def is_v2(k: Configuration) -> bool:
    """Clients speak V2, and each transaction that they or the coordinator end takes the next
    epoch: an epoch is one transaction."""
    return speaks_v2(k) and whole(k)


# Sometimes


def something_committed(k: Configuration, w: World) -> bool:
    """Sometimes: a record is visible."""
    return any(
        any(s.kind == Kind.DATA and is_committed(leader.log, i) for i, s in enumerate(leader.log))
        for leader in w.leaders.values()
    )


def something_aborted(k: Configuration, w: World) -> bool:
    """Sometimes: a record never will be."""
    return any(
        any(s.kind == Kind.DATA and is_aborted(leader.log, i) for i, s in enumerate(leader.log))
        for leader in w.leaders.values()
    )


def zombie_died(k: Configuration, w: World) -> bool:
    """Sometimes: an older instance hears that it is fenced."""
    return w.clients[0].state == ClientState.FATAL_ERROR


def both_committed(k: Configuration, w: World) -> bool:
    """Sometimes: two transactions are committed."""
    told = sum(
        sum(1 for o in c.outcomes.values() if o == Outcome.COMMITTED) for c in w.clients.values()
    )
    return told >= 2


GUARANTEES: tuple[Guarantee[Configuration, World], ...] = (
    Guarantee("no_aborted_read", no_aborted_read, whole),
    Guarantee("no_lost_write", no_lost_write, whole),
    Guarantee("all_or_none", all_or_none, whole),
    Guarantee("acked_once", acked_once, always),
    Guarantee("offsets_with_outcome", offsets_with_outcome, whole),
    Guarantee("one_outcome", one_outcome, is_v2),
    Guarantee("no_write_outside", no_write_outside, nothing_stays),
    Guarantee("fenced", fenced, whole),
    Guarantee("epochs_unique", epochs_unique, always),
    Guarantee("no_false_fencing", no_false_fencing, alone),
    Guarantee("markers_are_taken", markers_are_taken, retries_are_taken),
    Guarantee("last_epoch_is_nobodys", last_epoch_is_nobodys, all_rotate),
    Guarantee("leaders_know_their_logs", leaders_know_their_logs, always),
    Guarantee("records_are_where_sent", records_are_where_sent, always),
    Guarantee("coordinator_epochs_rise", coordinator_epochs_rise, always),
    Guarantee("coordinator_knows_its_log", coordinator_knows_its_log, appends_are_true),
    Guarantee("last_stable_offset_sound", last_stable_offset_sound, always),
    Guarantee("no_dirty_read", no_dirty_read, always),
)

WITNESSES: tuple[Witness[Configuration, World], ...] = (
    Witness("something_committed", something_committed),
    Witness("something_aborted", something_aborted),
    Witness("zombie_died", zombie_died),
    Witness("both_committed", both_committed),
)
