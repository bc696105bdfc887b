"""The guarantees of transactions, and witnesses that their antecedents happen.

The numbers P1 to P10 are those of the protocol's properties. The conditions are in `conditions.py`;
guarantees about the state of brokers are in `broker_guarantees.py`, properties that no Kafka gives
in `assumed_properties.py`.
"""

from __future__ import annotations

from model.properties import Guarantee, Witness, WorldPart, always
from model.transactions.broker_guarantees import (
    coordinator_epochs_rise,
    coordinator_knows_its_log,
    epochs_have_causes,
    leaders_know_their_logs,
    newer_coordinators_fence,
    nothing_joins_prepared,
    records_are_where_sent,
)
from model.transactions.client import present
from model.transactions.client_state import Client, ClientState, Outcome
from model.transactions.conditions import (
    all_rotate,
    alone,
    appends_are_true,
    gaps_are_met,
    has_offsets,
    is_v2,
    nothing_stays,
    retries_are_taken,
    untroubled,
    whole,
    writes_count,
)
from model.transactions.configuration import Configuration, LateBump
from model.transactions.coordinator import TransactionState, decided, is_prepared, overflows
from model.transactions.fates import (
    Log,
    asked_to_abort,
    asked_to_commit,
    ended_by,
    is_aborted,
    is_committed,
    is_decided,
    outcome_of,
)
from model.transactions.leader import Kind, Stored, last_stable_offset
from model.transactions.messages import NO_OFFSET, NO_PRODUCER_ID, Partition, is_of_group
from model.transactions.world import World

# Visibility


def no_aborted_read(k: Configuration, w: World) -> bool:
    """No record becomes visible unless its application asked to commit it. P9."""
    return all(nothing_unasked(w, leader.log) for leader in w.leaders.values())


def nothing_unasked(w: World, log: Log) -> bool:
    """Each committed record is of a transaction that its application asked to commit."""
    return all(
        s.kind != Kind.DATA or asked_to_commit(outcome_of(w, s)) or not is_committed(log, i)
        for i, s in enumerate(log)
    )


def no_lost_write(k: Configuration, w: World) -> bool:
    """Each record that was sent in a successfully committed transaction is in the log and is not
    aborted. P2, P7."""
    return all(nothing_lost(k, w, partition, leader.log) for partition, leader in w.leaders.items())


def nothing_lost(k: Configuration, w: World, partition: Partition, log: Log) -> bool:
    """In this log, no record of a committed transaction is missing or aborted."""
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
    """The number of records of a transaction in the log."""
    return sum(
        1
        for s in log
        if s.kind == Kind.DATA and s.instance == instance and s.transaction == transaction
    )


def all_or_none(k: Configuration, w: World) -> bool:
    """No transaction has both a committed and an aborted record. P7."""
    return not any(
        any(is_torn(w, instance, t) for t in range(k.bounds.transactions))
        for instance, _ in w.clients.items()
    )


def is_torn(w: World, instance: int, transaction: int) -> bool:
    """Whether the transaction has both a committed and an aborted record."""
    return any(
        has_ended(leader.log, instance, transaction, Kind.COMMIT) for leader in w.leaders.values()
    ) and any(
        has_ended(leader.log, instance, transaction, Kind.ABORT) for leader in w.leaders.values()
    )


def has_ended(log: Log, instance: int, transaction: int, kind: Kind) -> bool:
    """Whether a marker of this kind has ended a record of the transaction."""
    return any(
        s.kind == Kind.DATA
        and s.instance == instance
        and s.transaction == transaction
        and ended_by(log, i, kind)
        for i, s in enumerate(log)
    )


def acked_once(k: Configuration, w: World) -> bool:
    """No record is in its log twice; offsets of a group may be. P1."""
    return all(
        is_of_group(k, partition) or all_once(leader.log) for partition, leader in w.leaders.items()
    )


def all_once(log: Log) -> bool:
    """No record is in the log twice."""
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


def no_gap(k: Configuration, w: World) -> bool:
    """Under one producer id and epoch, the sequences of a log are 0, 1, 2, ...: no record stands
    behind a gap. A group's offsets have no sequences."""
    return all(
        is_of_group(k, partition) or all(follows(leader.log, i) for i, _ in enumerate(leader.log))
        for partition, leader in w.leaders.items()
    )


def follows(log: Log, offset: int) -> bool:
    """The record's sequence is the number of records of its epoch before it."""
    stored = log[offset]
    return stored.kind != Kind.DATA or stored.sequence == sum(
        1
        for s in log[:offset]
        if s.kind == Kind.DATA
        and s.producer_id == stored.producer_id
        and s.producer_epoch == stored.producer_epoch
    )


def order_kept(k: Configuration, w: World) -> bool:
    """The records of a transaction are in each log in the order in which they were sent; offsets of
    a group need not be. P3."""
    return all(
        is_of_group(k, partition) or in_order(leader.log) for partition, leader in w.leaders.items()
    )


def in_order(log: Log) -> bool:
    """No record stands behind a later one of its transaction."""
    return all(
        not any(
            a.kind == Kind.DATA
            and b.kind == Kind.DATA
            and a.instance == b.instance
            and a.transaction == b.transaction
            and a.number > b.number
            for a in log[:i]
        )
        for i, b in enumerate(log)
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
    """All markers of one (producer id, epoch) have the same outcome, in all partitions. P8."""
    return not any(any(contradicts(w, m) for m in leader.log) for leader in w.leaders.values())


def contradicts(w: World, marker: Stored) -> bool:
    """Whether a marker of the same epoch aborts, in some partition, what this marker commits."""
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
    """A transaction that is open at a partition is also open at the coordinator: none hangs."""
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
    """After InitProducerId has returned, no record that is written under an older epoch becomes
    visible, and each record that was written before is decided. P5, P6."""
    return w.initialization.producer_id == NO_PRODUCER_ID or all(
        is_fenced(w, leader.log, w.initialization.log_end[partition])
        for partition, leader in w.leaders.items()
    )


def is_fenced(w: World, log: Log, log_end: int) -> bool:
    """In this log, records of older epochs before the end are decided, and those after it are not
    committed."""
    return all(
        s.kind != Kind.DATA
        or not is_older(w, s)
        or (is_decided(log, i) if i < log_end else not is_committed(log, i))
        for i, s in enumerate(log)
    )


def is_older(w: World, stored: Stored) -> bool:
    """Whether the record was written under an id or epoch from before the last initialization.
    Producer ids are given in order."""
    same = stored.producer_id == w.initialization.producer_id
    return stored.producer_id < w.initialization.producer_id or (
        same and stored.producer_epoch < w.initialization.producer_epoch
    )


def epochs_unique(k: Configuration, w: World) -> bool:
    """No two instances have the same producer id and epoch."""
    return not any(
        any(same_epoch(a, b) for b in w.clients.values()[:i])
        for i, a in enumerate(w.clients.values())
    )


def same_epoch(a: Client, b: Client) -> bool:
    """Whether both have the same producer id and epoch, and are not finished."""
    return (
        a.producer_id != NO_PRODUCER_ID
        and a.producer_id == b.producer_id
        and a.producer_epoch == b.producer_epoch
        and a.state != ClientState.FATAL_ERROR
        and b.state != ClientState.FATAL_ERROR
    )


def no_false_fencing(k: Configuration, w: World) -> bool:
    """An instance that is alone, and in time, is never told that it is fenced."""
    return all(c.state != ClientState.FATAL_ERROR for c in w.clients.values())


def stuck_only_while_aborting(k: Configuration, w: World) -> bool:
    """An instance waits for an epoch that it never requests only if a batch has expired during an
    abort. A client that loses a batch before it aborts gets the next epoch."""
    forgets = k.variant.late_bump == LateBump.FORGOTTEN
    return all(
        not c.too_late or (forgets and asked_to_abort(c.outcomes[present(c)]))
        for c in w.clients.values()
    )


def untroubled_commits(k: Configuration, w: World) -> bool:
    """An instance that is alone, and meets no fault, is refused nothing, and no transaction is
    aborted unless its application asked for it. A commit then succeeds, because it returns
    (`ends_return`)."""
    return all(
        c.state != ClientState.ABORTABLE_ERROR and c.state != ClientState.FATAL_ERROR
        for c in w.clients.values()
    ) and all(
        all(
            s.kind != Kind.DATA or asked_to_abort(outcome_of(w, s)) or not is_aborted(leader.log, i)
            for i, s in enumerate(leader.log)
        )
        for leader in w.leaders.values()
    )


def markers_are_taken(k: Configuration, w: World) -> bool:
    """No partition refuses the leading coordinator's marker: a prepared transaction completes."""
    return not (w.coordinator.is_stopped and is_prepared(w.coordinator.known.metadata))


def last_epoch_is_nobodys(k: Configuration, w: World) -> bool:
    """No transaction is open under the last epoch, in which neither the coordinator itself nor a
    client of V2 could end it."""
    return w.coordinator.known.metadata.state != TransactionState.ONGOING or not overflows(
        k, w.coordinator
    )


# Readers


def last_stable_offset_sound(k: Configuration, w: World) -> bool:
    """The last stable offset never passes an open transaction, and never goes back."""
    return all(
        w.read_to[partition] <= last_stable_offset(k, leader)
        and all(
            e.current_txn_first_offset == NO_OFFSET
            or last_stable_offset(k, leader) <= e.current_txn_first_offset
            for e in leader.producers.values()
        )
        for partition, leader in w.leaders.items()
    )


def last_stable_offset_waits_for_others(k: Configuration, w: World) -> bool:
    """The last stable offset passes no open transaction of another transactional id."""
    return all(
        all(
            stored.kind != Kind.OTHER
            or last_stable_offset(k, leader) <= offset
            or is_ended_or_ends(leader.log, offset)
            for offset, stored in enumerate(leader.log)
        )
        for leader in w.leaders.values()
    )


def is_ended_or_ends(log: Log, offset: int) -> bool:
    """Whether the other id's entry is a marker, or a marker follows it: the other id writes a
    record and a marker in turn."""
    earlier = sum(1 for s in log[:offset] if s.kind == Kind.OTHER)
    return earlier % 2 == 1 or any(s.kind == Kind.OTHER for s in log[offset + 1 :])


def no_dirty_read(k: Configuration, w: World) -> bool:
    """Each record below the last stable offset is decided. P9."""
    return all(
        is_decided_below(leader.log, last_stable_offset(k, leader)) for leader in w.leaders.values()
    )


def is_decided_below(log: Log, offset: int) -> bool:
    """In this log, each record below the offset is decided."""
    return all(s.kind != Kind.DATA or i >= offset or is_decided(log, i) for i, s in enumerate(log))


# Sometimes


def other_is_open(k: Configuration, w: World) -> bool:
    """Sometimes: another transactional id has an open transaction, and records stand behind it."""
    return any(
        leader.other_first_offset != NO_OFFSET and leader.other_first_offset + 1 < len(leader.log)
        for leader in w.leaders.values()
    )


def something_committed(k: Configuration, w: World) -> bool:
    """Sometimes: a record is committed."""
    return any(
        any(s.kind == Kind.DATA and is_committed(leader.log, i) for i, s in enumerate(leader.log))
        for leader in w.leaders.values()
    )


def something_aborted(k: Configuration, w: World) -> bool:
    """Sometimes: a record is aborted."""
    return any(
        any(s.kind == Kind.DATA and is_aborted(leader.log, i) for i, s in enumerate(leader.log))
        for leader in w.leaders.values()
    )


def zombie_died(k: Configuration, w: World) -> bool:
    """Sometimes: an older instance is told that it is fenced."""
    return w.clients[0].state == ClientState.FATAL_ERROR


def both_committed(k: Configuration, w: World) -> bool:
    """Sometimes: two transactions are committed."""
    told = sum(
        sum(1 for o in c.outcomes.values() if o == Outcome.COMMITTED) for c in w.clients.values()
    )
    return told >= 2


GUARANTEES: tuple[Guarantee[Configuration, World], ...] = (
    Guarantee("no_aborted_read", no_aborted_read, whole, witness=something_aborted),
    Guarantee("no_lost_write", no_lost_write, writes_count, witness=something_committed),
    Guarantee("all_or_none", all_or_none, whole, witness=something_committed),
    Guarantee("acked_once", acked_once, always, witness=something_committed),
    Guarantee("no_gap", no_gap, gaps_are_met, witness=something_committed),
    Guarantee("order_kept", order_kept, always, witness=something_committed),
    Guarantee(
        "offsets_with_outcome",
        offsets_with_outcome,
        whole,
        witness=something_committed,
        needs=has_offsets,
    ),
    Guarantee("one_outcome", one_outcome, is_v2, witness=something_committed),
    Guarantee("no_write_outside", no_write_outside, nothing_stays, witness=something_committed),
    Guarantee("fenced", fenced, whole, witness=zombie_died),
    Guarantee("epochs_unique", epochs_unique, always, witness=zombie_died),
    Guarantee("no_false_fencing", no_false_fencing, alone, witness=something_committed),
    Guarantee(
        "stuck_only_while_aborting", stuck_only_while_aborting, always, witness=something_aborted
    ),
    Guarantee("untroubled_commits", untroubled_commits, untroubled, witness=something_committed),
    Guarantee(
        "markers_are_taken", markers_are_taken, retries_are_taken, witness=something_committed
    ),
    Guarantee(
        "last_epoch_is_nobodys", last_epoch_is_nobodys, all_rotate, witness=something_aborted
    ),
    Guarantee(
        "leaders_know_their_logs", leaders_know_their_logs, always, witness=something_committed
    ),
    Guarantee(
        "records_are_where_sent", records_are_where_sent, always, witness=something_committed
    ),
    Guarantee(
        "coordinator_epochs_rise", coordinator_epochs_rise, always, witness=something_committed
    ),
    Guarantee(
        "newer_coordinators_fence", newer_coordinators_fence, always, witness=something_committed
    ),
    Guarantee(
        "coordinator_knows_its_log",
        coordinator_knows_its_log,
        appends_are_true,
        witness=something_committed,
    ),
    Guarantee(
        "nothing_joins_prepared", nothing_joins_prepared, always, witness=something_committed
    ),
    Guarantee(
        "epochs_have_causes",
        epochs_have_causes,
        always,
        witness=something_committed,
        about=(WorldPart.FAULTS,),
    ),
    Guarantee(
        "last_stable_offset_sound", last_stable_offset_sound, always, witness=something_committed
    ),
    Guarantee(
        "last_stable_offset_waits_for_others",
        last_stable_offset_waits_for_others,
        always,
        witness=other_is_open,
    ),
    Guarantee("no_dirty_read", no_dirty_read, always, witness=something_committed),
)

WITNESSES: tuple[Witness[Configuration, World], ...] = (
    Witness("something_committed", something_committed),
    Witness("something_aborted", something_aborted),
    Witness("zombie_died", zombie_died),
    Witness("both_committed", both_committed),
    Witness("other_is_open", other_is_open),
)
