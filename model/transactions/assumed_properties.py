"""Properties that users of transactions may take for guaranteed, and no Kafka gives.

Each is an invariant with the condition that would make it true; for some, no configuration does.
They are checked by name only.
"""

from __future__ import annotations

from model.properties import Guarantee
from model.transactions.client_state import Client, ClientState, Outcome
from model.transactions.conditions import nothing_stays, whole
from model.transactions.configuration import Configuration
from model.transactions.coordinator import CoordinatorLeadership, TransactionState
from model.transactions.fates import Log, is_aborted, is_committed, is_marker, outcome_of
from model.transactions.guarantees import is_older
from model.transactions.leader import Kind, Leader, Stored, last_stable_offset
from model.transactions.world import World


def is_visible(k: Configuration, leader: Leader, offset: int) -> bool:
    """Whether readers of committed records get the record."""
    return offset < last_stable_offset(k, leader) and is_committed(leader.log, offset)


def same_transaction(a: Stored, b: Stored) -> bool:
    """Whether both are records of one transaction."""
    records = a.kind == Kind.DATA and b.kind == Kind.DATA
    return records and a.instance == b.instance and a.transaction == b.transaction


# The answer to a commit


def committed_is_visible(k: Configuration, w: World) -> bool:
    """When commitTransaction has returned, readers of committed records get its whole
    transaction."""
    return all(
        all(
            s.kind != Kind.DATA or outcome_of(w, s) != Outcome.COMMITTED or is_visible(k, leader, i)
            for i, s in enumerate(leader.log)
        )
        for leader in w.leaders.values()
    )


def unconfirmed_is_not_committed(k: Configuration, w: World) -> bool:
    """As long as commitTransaction has not returned, no record of the transaction is committed: if
    it takes too long, the application may do its work again elsewhere."""
    return all(
        all(
            s.kind != Kind.DATA
            or outcome_of(w, s) != Outcome.COMMIT_ASKED
            or not is_committed(leader.log, i)
            for i, s in enumerate(leader.log)
        )
        for leader in w.leaders.values()
    )


def failed_commit_is_not_committed(k: Configuration, w: World) -> bool:
    """When commitTransaction throws, no record of the transaction is committed."""
    return all(
        all(
            s.kind != Kind.DATA
            or outcome_of(w, s) != Outcome.COMMIT_ASKED
            or not has_failed(w.clients[s.instance])
            or not is_committed(leader.log, i)
            for i, s in enumerate(leader.log)
        )
        for leader in w.leaders.values()
    )


def has_failed(client: Client) -> bool:
    """Whether the client's calls throw."""
    return client.state == ClientState.ABORTABLE_ERROR or client.state == ClientState.FATAL_ERROR


def refused_commit_is_not_logged(k: Configuration, w: World) -> bool:
    """A commit that the coordinator has answered with an error is not in its log: the next
    coordinator does not find the commit there, and does not complete it."""
    c = w.coordinator
    is_open = c.known.metadata.state == TransactionState.ONGOING and not c.is_appending
    commits = c.log.metadata.state == TransactionState.PREPARE_COMMIT
    return c.leadership != CoordinatorLeadership.LEADS or not is_open or not commits


# The view of readers


def seen_whole(k: Configuration, w: World) -> bool:
    """A reader that sees one record of a transaction can see all of them, in all partitions."""
    return all(
        all(
            not is_visible(k, leader, i)
            or all(shows_all_of(k, other, s) for other in w.leaders.values())
            for i, s in enumerate(leader.log)
            if s.kind == Kind.DATA
        )
        for leader in w.leaders.values()
    )


def shows_all_of(k: Configuration, leader: Leader, record: Stored) -> bool:
    """Each record of this one's transaction that is in the log is visible."""
    return all(
        not same_transaction(s, record) or is_visible(k, leader, i)
        for i, s in enumerate(leader.log)
    )


def seen_whole_in_its_partition(k: Configuration, w: World) -> bool:
    """A reader that sees one record of a transaction can see all of them in the same partition."""
    return all(
        all(
            not is_visible(k, leader, i) or shows_all_of(k, leader, s)
            for i, s in enumerate(leader.log)
            if s.kind == Kind.DATA
        )
        for leader in w.leaders.values()
    )


def earlier_is_seen_first(k: Configuration, w: World) -> bool:
    """A reader that sees a producer's transaction can see its earlier ones, in all partitions."""
    return all(
        all(
            not is_visible(k, leader, i)
            or all(shows_all_before(k, other, s) for other in w.leaders.values())
            for i, s in enumerate(leader.log)
            if s.kind == Kind.DATA
        )
        for leader in w.leaders.values()
    )


def shows_all_before(k: Configuration, leader: Leader, record: Stored) -> bool:
    """Each committed record of its instance's earlier transactions is visible."""
    return all(
        s.kind != Kind.DATA
        or s.instance != record.instance
        or s.transaction >= record.transaction
        or not is_committed(leader.log, i)
        or is_visible(k, leader, i)
        for i, s in enumerate(leader.log)
    )


def marked_is_visible(k: Configuration, w: World) -> bool:
    """A record is visible as soon as its partition has the marker."""
    return all(
        all(
            s.kind != Kind.DATA or not is_committed(leader.log, i) or is_visible(k, leader, i)
            for i, s in enumerate(leader.log)
        )
        for leader in w.leaders.values()
    )


def aborted_is_gone(k: Configuration, w: World) -> bool:
    """No aborted record is in a log, so that no reader of any isolation level gets one."""
    return all(
        all(s.kind != Kind.DATA or not is_aborted(leader.log, i) for i, s in enumerate(leader.log))
        for leader in w.leaders.values()
    )


def offsets_count_records(k: Configuration, w: World) -> bool:
    """A reader of committed records that has read up to an offset has as many records: each earlier
    offset has one."""
    return all(
        all(
            i >= last_stable_offset(k, leader) or s.kind == Kind.OTHER or is_visible(k, leader, i)
            for i, s in enumerate(leader.log)
        )
        for leader in w.leaders.values()
    )


# Isolation from other writers


def nothing_comes_between(k: Configuration, w: World) -> bool:
    """Between the records of a committed transaction and its marker, no other producer has written
    to its partitions: conflicting transactions are aborted."""
    return all(
        all(
            s.kind != Kind.DATA or not is_committed(leader.log, i) or is_undisturbed(leader.log, i)
            for i, s in enumerate(leader.log)
        )
        for leader in w.leaders.values()
    )


def is_undisturbed(log: Log, offset: int) -> bool:
    """Whether no record of another producer stands between the record and the next marker."""
    return not any(
        other.kind == Kind.OTHER
        and i > offset
        and not any(is_marker(m) and j > offset for j, m in enumerate(log[:i]))
        for i, other in enumerate(log)
    )


def older_instances_are_silent(k: Configuration, w: World) -> bool:
    """After initTransactions has returned, no record of an older instance is appended anywhere."""
    return all(
        all(
            s.kind != Kind.DATA
            or i < w.initialization.log_end[partition]
            or not is_older(w, s)
            or not is_replaced(w, w.clients[s.instance])
            for i, s in enumerate(leader.log)
        )
        for partition, leader in w.leaders.items()
    )


def is_replaced(w: World, client: Client) -> bool:
    """Whether another instance has taken the client's transactional id."""
    same = client.producer_id == w.initialization.producer_id
    return client.producer_id < w.initialization.producer_id or (
        same and client.producer_epoch < w.initialization.producer_epoch
    )


# Conditions that would make them true


def never_as_prepared_comes_first(k: Configuration) -> bool:
    """In no configuration: the answer is sent once PREPARE is in the transaction log, and each
    partition gets its marker at its own time. Only initTransactions waits for all markers (see
    `fenced`)."""
    return False


def never_as_logs_only_grow(k: Configuration) -> bool:
    """In no configuration: a log only grows, and an abort is a marker behind the records that it
    ends. Readers of committed records are told which records to skip; compaction removes them in
    the end."""
    return False


def never_as_markers_have_offsets(k: Configuration) -> bool:
    """In no configuration: each transaction leaves a marker in each of its partitions. The marker
    has an offset, and no reader gets it."""
    return False


def each_end_is_heard(k: Configuration) -> bool:
    """No answer is lost, no request is late, no append to the transaction log fails, and no
    coordinator moves."""
    b = k.budgets
    return b.unheard == 0 and b.delays == 0 and b.failures == 0 and b.moves == 0


def appends_tell_the_truth(k: Configuration) -> bool:
    """No append is in the transaction log although it was reported as failed."""
    return k.budgets.failures == 0


def nobody_else_writes(k: Configuration) -> bool:
    """No other transactional id writes to the same partitions."""
    return k.budgets.others == 0


def nothing_holds_a_part_back(k: Configuration) -> bool:
    """No other transactional id writes to the same partitions, or a transaction has one record in
    each; and no transaction is torn."""
    return (nobody_else_writes(k) or k.bounds.writes == 1) and whole(k)


def one_partition_at_once(k: Configuration) -> bool:
    """Nothing holds a part of a transaction back, and there is one partition: with more, another
    one's marker comes later."""
    return k.bounds.partitions == 1 and nothing_holds_a_part_back(k)


def one_after_another(k: Configuration) -> bool:
    """No other transactional id holds a partition back, or there is one partition: a transaction
    begins only when the one before has all its markers."""
    return (nobody_else_writes(k) or k.bounds.partitions == 1) and whole(k)


ASSUMED_PROPERTIES: tuple[Guarantee[Configuration, World], ...] = (
    Guarantee("committed_is_visible", committed_is_visible, never_as_prepared_comes_first),
    Guarantee("unconfirmed_is_not_committed", unconfirmed_is_not_committed, each_end_is_heard),
    Guarantee("failed_commit_is_not_committed", failed_commit_is_not_committed, each_end_is_heard),
    Guarantee("refused_commit_is_not_logged", refused_commit_is_not_logged, appends_tell_the_truth),
    Guarantee("seen_whole", seen_whole, one_partition_at_once),
    Guarantee(
        "seen_whole_in_its_partition", seen_whole_in_its_partition, nothing_holds_a_part_back
    ),
    Guarantee("earlier_is_seen_first", earlier_is_seen_first, one_after_another),
    Guarantee("marked_is_visible", marked_is_visible, nobody_else_writes),
    Guarantee("aborted_is_gone", aborted_is_gone, never_as_logs_only_grow),
    Guarantee("offsets_count_records", offsets_count_records, never_as_markers_have_offsets),
    Guarantee("nothing_comes_between", nothing_comes_between, nobody_else_writes),
    Guarantee("older_instances_are_silent", older_instances_are_silent, nothing_stays),
)
