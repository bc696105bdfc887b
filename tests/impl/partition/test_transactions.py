"""Transactions at the leader, rule by rule: verification, markers, what is stable, what is told."""

from typing import Any

import pytest

from impl.log.snapshot import SnapshotEntry, encode_snapshot
from impl.log.transaction_index import AbortedTransaction, encode_transaction_index
from impl.partition.errors import PlainBatchInTransaction, TransactionNotOngoing
from impl.partition.leader import PartitionLeader, ProduceOutcome
from impl.partition.reading import Isolation, Timestamp, fetch_bound, find_offset, read
from impl.partition.replica_log import ReplicaLog
from impl.partition.rules import TransactionRules
from impl.partition.validation import LogConfig
from impl.partition.verification import NO_GUARD, BegunVerification
from impl.protocol.control_records import ControlType
from impl.protocol.errors import ErrorCode, InvalidField, InvalidRecord
from impl.protocol.record_batch import (
    CONTROL,
    MAX_SEQUENCE,
    TRANSACTIONAL,
    Record,
    decode_batch,
    read_headers,
)
from tests.impl.partition.test_leader import NOW_MS, a_batch, p1

NONE = ErrorCode.NONE
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
BAD_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH
NOT_IN_TRANSACTION = ErrorCode.INVALID_TXN_STATE
FENCED = ErrorCode.TRANSACTION_COORDINATOR_FENCED
COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT
LAST_EPOCH = 32_767

BEFORE_3_6 = TransactionRules(verifies=False)
IN_3_9 = TransactionRules(
    ongoing_needs_epoch=False,
    checks_epoch_before_guard=False,
    checks_epoch_at_begin=False,
    marker_keeps_verification=False,
    first_sequence_is_zero=False,
    strict_marker_epoch=False,
)


def t1(base_sequence: int, count: int = 1, *, epoch: int = 0, **changes: Any) -> bytes:
    return p1(base_sequence, count, epoch=epoch, attributes=TRANSACTIONAL, **changes)


def begin(
    leader: PartitionLeader,
    sequence: int = 0,
    *,
    producer_id: int = 1,
    epoch: int = 0,
    v2: bool = True,
    now_ms: int = NOW_MS,
) -> BegunVerification:
    return leader.begin_verification(
        producer_id, epoch, sequence, supports_epoch_bump=v2, now_ms=now_ms
    )


def send(leader: PartitionLeader, data: bytes, guard: int = NO_GUARD) -> ProduceOutcome:
    return leader.produce(data, required_acks=-1, now_ms=NOW_MS, guard=guard)


def send_verified(leader: PartitionLeader, data: bytes, **how: Any) -> ProduceOutcome:
    """The first batch of a transaction, as a broker does it."""
    batch = decode_batch(data)
    begun = begin(
        leader,
        batch.base_sequence,
        producer_id=batch.producer_id,
        epoch=batch.producer_epoch,
        **how,
    )
    assert begun.error == NONE
    return send(leader, data, begun.guard)


def mark(
    leader: PartitionLeader,
    kind: ControlType = COMMIT,
    *,
    producer_id: int = 1,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    version: int = 0,
) -> ErrorCode:
    return leader.write_marker(
        producer_id=producer_id,
        producer_epoch=epoch,
        control_type=kind,
        coordinator_epoch=coordinator_epoch,
        now_ms=NOW_MS,
        transaction_version=version,
    ).error


def replicate(leader: PartitionLeader) -> None:
    leader.advance_high_watermark(leader.log_end_offset)


def open_leader(epoch: int = 0, **how: Any) -> PartitionLeader:
    """Producer 1 has a transaction open at offset 0."""
    leader = PartitionLeader(**how)
    assert send_verified(leader, t1(0, epoch=epoch)).error == NONE
    return leader


def refuses(leader: PartitionLeader, data: bytes, error: ErrorCode, guard: int = NO_GUARD) -> None:
    before = leader.view()
    assert send(leader, data, guard).error == error
    assert leader.view() == before


# verification


def test_the_first_batch_needs_its_guard_and_the_next_ones_do_not() -> None:
    leader = PartitionLeader()
    refuses(leader, t1(0), NOT_IN_TRANSACTION)
    begun = begin(leader)
    assert begun.guard != NO_GUARD
    refuses(leader, t1(0), NOT_IN_TRANSACTION)
    refuses(leader, t1(0), NOT_IN_TRANSACTION, begun.guard + 1)
    assert send(leader, t1(0), begun.guard).error == NONE
    assert begin(leader, 1) == BegunVerification(NONE, NO_GUARD)
    assert send(leader, t1(1)).error == NONE
    assert leader.view().verifications == ()


def test_who_asks_again_gets_the_same_guard() -> None:
    leader = PartitionLeader()
    assert begin(leader, 3).guard == begin(leader, 2, epoch=1).guard
    assert begin(leader, producer_id=2).guard != begin(leader).guard


@pytest.mark.parametrize(
    ("then", "kept"),
    [
        ((2, 5), (2, 5)),
        ((4, 5), (3, 5)),
        ((9, 6), (9, 6)),
        ((1, 4), (3, 5)),
    ],
)
def test_the_lowest_sequence_of_the_newest_epoch_is_kept(
    then: tuple[int, int], kept: tuple[int, int]
) -> None:
    leader = PartitionLeader()
    begin(leader, 3, epoch=5)
    begin(leader, then[0], epoch=then[1])
    ((_, entry),) = leader.view().verifications
    assert (entry.lowest_sequence, entry.producer_epoch) == kept


def test_no_batch_overtakes_one_that_is_being_verified() -> None:
    leader = PartitionLeader()
    guard = begin(leader, 0, v2=False).guard
    begin(leader, 1, v2=False)
    refuses(leader, t1(1), OUT_OF_ORDER, guard)
    assert send(leader, t1(0), guard).error == NONE
    assert send(leader, t1(1)).error == NONE


@pytest.mark.parametrize(
    ("v2", "rules", "error"),
    [
        (True, TransactionRules(), OUT_OF_ORDER),
        (False, TransactionRules(), NONE),
        (True, TransactionRules(first_sequence_is_zero=False), NONE),
    ],
)
def test_with_v2_an_unknown_producer_begins_at_zero(
    v2: bool, rules: TransactionRules, error: ErrorCode
) -> None:
    leader = PartitionLeader(rules=rules)
    assert send_verified(leader, t1(5), v2=v2).error == error


def test_a_marker_takes_the_guard_away() -> None:
    """KAFKA-14884: the coordinator's yes is about a transaction that has ended since."""
    leader = PartitionLeader()
    guard = begin(leader, v2=False).guard
    assert mark(leader, ABORT) == NONE
    refuses(leader, t1(0), NOT_IN_TRANSACTION, guard)
    again = begin(leader, v2=False).guard
    assert again != guard
    refuses(leader, t1(0), NOT_IN_TRANSACTION, guard)
    assert send(leader, t1(0), again).error == NONE


@pytest.mark.parametrize(
    ("v2", "epoch", "rules", "is_kept"),
    [
        (True, 1, TransactionRules(), True),
        (False, 1, TransactionRules(), False),
        (True, 0, TransactionRules(), False),
        (True, 1, TransactionRules(marker_keeps_verification=False), False),
    ],
)
def test_with_v2_the_next_transaction_may_ask_before_the_marker_comes(
    v2: bool, epoch: int, rules: TransactionRules, is_kept: bool
) -> None:
    """KAFKA-18575: the marker carries the epoch of the transaction that follows."""
    leader = open_leader(rules=rules)
    guard = leader.begin_verification(1, 1, 0, supports_epoch_bump=v2, now_ms=NOW_MS).guard
    assert guard != NO_GUARD
    assert mark(leader, epoch=epoch, version=2 if epoch else 0) == NONE
    expected = NONE if is_kept else NOT_IN_TRANSACTION
    assert send(leader, t1(0, epoch=1), guard).error == expected


def test_an_open_transaction_of_another_epoch_vouches_for_nothing() -> None:
    leader = open_leader()
    refuses(leader, t1(0, epoch=1), NOT_IN_TRANSACTION)
    old = open_leader(rules=TransactionRules(ongoing_needs_epoch=False))
    assert send(old, t1(0, epoch=1)).error == NONE
    assert begin(old, epoch=7) == BegunVerification(NONE, NO_GUARD)


def test_without_verification_no_guard_is_asked_for() -> None:
    leader = PartitionLeader(rules=BEFORE_3_6)
    assert send(leader, t1(7)).error == NONE
    assert leader.view().ongoing == ((0, 1),)


def test_an_older_epoch_is_named_before_the_guard() -> None:
    leader = open_leader(epoch=3)
    mark(leader, epoch=3)
    refuses(leader, t1(0, epoch=2), BAD_EPOCH)
    assert begin(leader, epoch=2) == BegunVerification(BAD_EPOCH)
    old = open_leader(epoch=3, rules=IN_3_9)
    mark(old, epoch=3)
    refuses(old, t1(0, epoch=2), NOT_IN_TRANSACTION)
    guard = begin(old, epoch=2).guard
    refuses(old, t1(0, epoch=2), BAD_EPOCH, guard)


def test_a_coordinators_batch_needs_a_guard_but_no_sequence() -> None:
    leader = PartitionLeader()
    data = t1(0)
    assert leader.append_as_coordinator(data, now_ms=NOW_MS).error == NOT_IN_TRANSACTION
    guard = begin(leader, -1).guard
    for _ in range(2):
        done = leader.append_as_coordinator(data, now_ms=NOW_MS, guard=guard)
        assert done.error == NONE
    assert leader.log_end_offset == 2


def test_a_verification_that_came_to_nothing_is_forgotten() -> None:
    leader = PartitionLeader()
    begin(leader, now_ms=100)
    day_ms = leader.config.producer_id_expiration_ms
    begin(leader, 5, now_ms=200)
    leader.remove_expired_producers(100 + day_ms - 1)
    assert leader.view().verifications
    leader.remove_expired_producers(100 + day_ms)
    assert leader.view().verifications == ()


def test_a_follower_gives_no_guards() -> None:
    leader = PartitionLeader()
    leader.resign()
    assert begin(leader) == BegunVerification(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert mark(leader) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_duplicate_is_answered_before_all_of_this() -> None:
    leader = open_leader()
    mark(leader)
    before = leader.view()
    assert send(leader, t1(0)).base_offset == 0
    assert send(leader, p1(0)).base_offset == 0
    assert leader.view() == before


# batches inside


def test_plain_batches_are_not_let_into_a_transaction() -> None:
    leader = open_leader()
    refuses(leader, p1(1), NOT_IN_TRANSACTION)
    refuses(leader, p1(5), OUT_OF_ORDER)
    mark(leader)
    assert send(leader, p1(1)).error == NONE


def test_control_batches_are_never_accepted_from_clients() -> None:
    leader = open_leader()
    marker = decode_batch(t1(-1))._replace(attributes=TRANSACTIONAL | CONTROL)
    for attributes in (CONTROL, TRANSACTIONAL | CONTROL):
        refuses(leader, p1(1, attributes=attributes), ErrorCode.INVALID_RECORD)
    assert marker.is_control


# markers


def test_with_v1_sequences_go_on_after_the_marker() -> None:
    leader = open_leader()
    assert mark(leader) == NONE
    assert leader.producers[1].last_sequence == 0
    assert leader.producers[1].current_txn_first_offset == -1
    guard = begin(leader, 1, v2=False).guard
    refuses(leader, t1(2), OUT_OF_ORDER, guard)
    assert send(leader, t1(1), guard).error == NONE


def test_a_marker_of_a_new_epoch_forgets_the_sequences() -> None:
    leader = open_leader()
    assert mark(leader, epoch=1, version=2) == NONE
    assert leader.producers[1].batches == ()
    guard = begin(leader, 0, epoch=1).guard
    refuses(leader, t1(1, epoch=1), OUT_OF_ORDER, guard)
    refuses(leader, t1(0), BAD_EPOCH)
    assert send(leader, t1(0, epoch=1), guard).error == NONE


def test_a_marker_makes_an_unknown_producer_known() -> None:
    leader = PartitionLeader()
    assert mark(leader, epoch=4, coordinator_epoch=7) == NONE
    entry = leader.producers[1]
    assert (entry.producer_epoch, entry.coordinator_epoch, entry.batches) == (4, 7, ())
    assert entry.last_timestamp == NOW_MS
    refuses(leader, p1(3, epoch=4), OUT_OF_ORDER)


LOOSE, STRICT = 0, 2
MARKER_EPOCHS = {
    # (epoch of the producer, is open, epoch of the marker, version): what it earns
    (5, True, 4, LOOSE): BAD_EPOCH,
    (5, True, 5, LOOSE): NONE,
    (5, True, 6, LOOSE): NONE,
    (5, False, 4, LOOSE): BAD_EPOCH,
    (5, False, 5, LOOSE): NONE,
    (5, True, 5, 1): NONE,
    (5, True, 4, STRICT): BAD_EPOCH,
    (5, True, 5, STRICT): BAD_EPOCH,
    (5, True, 6, STRICT): NONE,
    (5, False, 4, STRICT): BAD_EPOCH,
    (5, False, 5, STRICT): NONE,
    (5, False, 6, STRICT): NONE,
    (LAST_EPOCH, True, LAST_EPOCH, STRICT): NONE,
    (LAST_EPOCH, False, LAST_EPOCH, STRICT): NONE,
    (LAST_EPOCH, True, LAST_EPOCH - 1, STRICT): BAD_EPOCH,
}


@pytest.mark.parametrize("row", MARKER_EPOCHS)
def test_epochs_of_markers(row: tuple[int, bool, int, int]) -> None:
    entry_epoch, is_open, epoch, version = row
    leader = open_leader(epoch=entry_epoch)
    if not is_open:
        mark(leader, epoch=entry_epoch)
    before = leader.view()
    assert mark(leader, epoch=epoch, version=version) == MARKER_EPOCHS[row]
    assert (leader.view() == before) == bool(MARKER_EPOCHS[row])


def test_before_the_strict_rule_a_late_marker_ended_the_next_transaction() -> None:
    """KAFKA-19446: the marker of one transaction, sent twice, has the epoch of the next."""
    old = TransactionRules(strict_marker_epoch=False)
    for rules, error in ((TransactionRules(), BAD_EPOCH), (old, NONE)):
        leader = open_leader(rules=rules)
        assert mark(leader, COMMIT, epoch=1, version=2) == NONE
        assert send_verified(leader, t1(0, epoch=1)).error == NONE
        assert mark(leader, COMMIT, epoch=1, version=2) == error
        assert (leader.view().ongoing == ()) == (error == NONE)


def test_the_last_epoch_cannot_be_bumped() -> None:
    rules = TransactionRules(accepts_last_epoch=False)
    leader = open_leader(epoch=LAST_EPOCH, rules=rules)
    assert mark(leader, epoch=LAST_EPOCH, version=2) == BAD_EPOCH


def test_a_coordinator_of_the_past_is_fenced() -> None:
    leader = open_leader()
    assert mark(leader, coordinator_epoch=5) == NONE
    assert mark(leader, coordinator_epoch=4) == FENCED
    assert mark(leader, coordinator_epoch=5) == NONE
    assert mark(leader, epoch=-1, coordinator_epoch=4) == BAD_EPOCH
    assert mark(leader, producer_id=2, coordinator_epoch=0) == NONE


def test_a_marker_may_be_repeated_and_is_written_again() -> None:
    leader = open_leader()
    for _ in range(3):
        assert mark(leader, ABORT) == NONE
    assert leader.log_end_offset == 4
    assert leader.view().aborted == (AbortedTransaction(1, 0, 1, 2),)


def test_a_marker_is_kafkas_own_bytes() -> None:
    leader = open_leader()
    mark(leader, coordinator_epoch=5)
    stored = leader.batches[-1]
    assert len(stored.data) == 78
    batch = decode_batch(stored.data)
    assert (batch.attributes, batch.base_sequence) == (TRANSACTIONAL | CONTROL, -1)
    assert batch.records == (Record(0, NOW_MS, b"\0\0\0\1", b"\0\0\0\0\0\5"),)


def test_markers_wait_for_replicas_like_batches() -> None:
    config = LogConfig(min_insync_replicas=2)
    leader = PartitionLeader(config=config, replication_factor=2)
    leader.update_in_sync_replicas(1)
    assert mark(leader) == ErrorCode.NOT_ENOUGH_REPLICAS
    leader.update_in_sync_replicas(2)
    done = leader.write_marker(
        producer_id=1,
        producer_epoch=0,
        control_type=COMMIT,
        coordinator_epoch=0,
        now_ms=NOW_MS,
    )
    assert (done.error, done.required_offset) == (NONE, 1)
    assert leader.settle(done) is None
    replicate(leader)
    assert leader.settle(done) == done


def test_numbers_that_no_marker_can_hold_are_named() -> None:
    with pytest.raises(InvalidField):
        mark(PartitionLeader(), coordinator_epoch=1 << 31)


def test_a_coordinators_control_batch_without_a_marker_is_stored_and_means_nothing() -> None:
    leader = open_leader()
    control = TRANSACTIONAL | CONTROL
    cleaned = p1(-1, 0, attributes=control, last_offset_delta=0)
    other = p1(-1, attributes=control, records=(Record(0, NOW_MS, b"\0\0\0\2", b""),))
    for data in (cleaned, other):
        assert leader.append_as_coordinator(data, now_ms=NOW_MS).error == NONE
    assert leader.view().ongoing == ((0, 1),)
    broken = p1(-1, attributes=control, records=(Record(0, NOW_MS, b"\0", b""),))
    refused = leader.append_as_coordinator(broken, now_ms=NOW_MS)
    assert refused.error == ErrorCode.INVALID_RECORD


# what is stable


def stable(leader: PartitionLeader) -> tuple[int, int]:
    return leader.high_watermark, leader.last_stable_offset


def test_an_open_transaction_holds_everything_behind_it_back() -> None:
    leader = PartitionLeader()
    send(leader, a_batch(count=2))
    send_verified(leader, t1(0))
    send(leader, a_batch())
    assert stable(leader) == (0, 0)
    leader.advance_high_watermark(2)
    assert stable(leader) == (2, 2)
    replicate(leader)
    assert stable(leader) == (4, 2)
    mark(leader)
    assert stable(leader) == (4, 2)
    replicate(leader)
    assert stable(leader) == (5, 5)


def test_what_is_decided_counts_only_once_the_marker_is_replicated() -> None:
    leader = open_leader()
    mark(leader)
    leader.advance_high_watermark(1)
    assert leader.view().unreplicated == ((0, 1),)
    assert stable(leader) == (1, 0)
    leader.advance_high_watermark(2)
    assert leader.view().unreplicated == ()
    assert stable(leader) == (2, 2)


def test_the_first_of_several_transactions_counts() -> None:
    leader = open_leader()
    send_verified(leader, a_batch(0, producer_id=2, epoch=0, attributes=TRANSACTIONAL))
    mark(leader, ABORT)
    replicate(leader)
    assert stable(leader) == (3, 1)
    mark(leader, producer_id=2)
    leader.advance_high_watermark(3)
    assert stable(leader) == (3, 1)
    replicate(leader)
    assert stable(leader) == (4, 4)


def test_deleted_records_are_not_waited_for() -> None:
    leader = PartitionLeader()
    send_verified(leader, t1(0, 3))
    send(leader, a_batch(count=2))
    replicate(leader)
    leader.delete_records(3)
    assert stable(leader) == (5, 3)
    leader.delete_records(5)
    assert stable(leader) == (5, 5)
    assert leader.view().ongoing == ((0, 1),)


def test_an_open_transaction_keeps_its_producer() -> None:
    leader = open_leader()
    late_ms = NOW_MS + leader.config.producer_id_expiration_ms
    leader.remove_expired_producers(late_ms)
    assert 1 in leader.producers
    mark(leader)
    leader.remove_expired_producers(late_ms)
    assert leader.producers == {}


# reading


def read_bases(leader: PartitionLeader, offset: int, isolation: int) -> list[int]:
    found = read(leader.log, offset, 1 << 20, at_least_one=True, isolation=isolation)
    return [header.base_offset for _, header in read_headers(found.records)]


def test_read_committed_stops_at_the_last_stable_offset() -> None:
    """It is an exclusive bound: the batch that begins there is not given."""
    leader = PartitionLeader()
    send(leader, a_batch())
    send_verified(leader, t1(0, 2))
    send(leader, a_batch())
    replicate(leader)
    assert read_bases(leader, 0, Isolation.READ_UNCOMMITTED) == [0, 1, 3]
    assert read_bases(leader, 0, Isolation.READ_COMMITTED) == [0]
    assert read_bases(leader, 1, Isolation.READ_COMMITTED) == []
    assert fetch_bound(leader.log, Isolation.READ_COMMITTED) == 1
    assert fetch_bound(leader.log, Isolation.READ_UNCOMMITTED) == 4


def three_aborted() -> PartitionLeader:
    """Offsets: 0 p1, 1 p2, 2 abort p1, 3 p1, 4 abort p2, 5 abort p1, 6 plain."""
    leader = open_leader()
    send_verified(leader, a_batch(0, producer_id=2, epoch=0, attributes=TRANSACTIONAL))
    mark(leader, ABORT)
    send_verified(leader, t1(1), v2=False)
    mark(leader, ABORT, producer_id=2)
    mark(leader, ABORT)
    send(leader, a_batch())
    replicate(leader)
    return leader


def test_the_index_has_what_the_marker_found() -> None:
    assert three_aborted().view().aborted == (
        AbortedTransaction(1, 0, 2, 1),
        AbortedTransaction(2, 1, 4, 3),
        AbortedTransaction(1, 3, 5, 6),
    )


@pytest.mark.parametrize(
    ("offset", "max_bytes", "told"),
    [
        (0, 1 << 20, [(1, 0), (2, 1), (1, 3)]),
        (0, 1, [(1, 0)]),
        (1, 1, [(1, 0), (2, 1)]),
        (3, 1, [(2, 1), (1, 3)]),
        (5, 1 << 20, [(1, 3)]),
        (6, 1 << 20, []),
        (7, 1 << 20, []),
    ],
)
def test_aborted_transactions_are_told_where_they_reach(
    offset: int, max_bytes: int, told: list[tuple[int, int]]
) -> None:
    leader = three_aborted()
    isolation = Isolation.READ_COMMITTED
    found = read(leader.log, offset, max_bytes, at_least_one=True, isolation=isolation)
    assert [entry[:2] for entry in found.aborted_transactions] == told
    plain = read(leader.log, offset, max_bytes, at_least_one=True)
    assert (plain.records, plain.aborted_transactions) == (found.records, ())


def test_the_latest_offset_is_the_isolations_own() -> None:
    leader = open_leader()
    send(leader, a_batch())
    replicate(leader)
    for isolation, latest in ((Isolation.READ_UNCOMMITTED, 2), (Isolation.READ_COMMITTED, 0)):
        bound = fetch_bound(leader.log, isolation)
        assert find_offset(leader.log, Timestamp.LATEST, bound, 0).offset == latest
        found = find_offset(leader.log, NOW_MS, bound, 0).offset
        assert found == (0 if latest else -1)


# rebuilding


def restarted(leader: PartitionLeader, **how: Any) -> PartitionLeader:
    log = leader.log
    return PartitionLeader.restarted(
        b"".join(stored.data for stored in log.deleted + log.batches),
        how.pop("snapshots", {}),
        leader_epoch=leader.leader_epoch,
        high_watermark=leader.high_watermark,
        now_ms=NOW_MS,
        log_start_offset=leader.log_start_offset,
        segments=log.segments,
        **how,
    )


def with_much() -> PartitionLeader:
    """Transactions open, committed, aborted, replicated and not; three segments."""
    leader = PartitionLeader(config=LogConfig(segment_bytes=250))
    send_verified(leader, t1(0))
    send_verified(leader, a_batch(0, producer_id=2, epoch=0, attributes=TRANSACTIONAL))
    mark(leader, ABORT)
    mark(leader, producer_id=2, epoch=1, version=2)
    replicate(leader)
    send_verified(leader, t1(1), v2=False)
    send_verified(leader, a_batch(0, producer_id=2, epoch=1, attributes=TRANSACTIONAL))
    send_verified(leader, a_batch(0, producer_id=3, epoch=0, attributes=TRANSACTIONAL))
    mark(leader, ABORT, producer_id=3)
    send(leader, t1(2))
    assert len(leader.log.segments) == 3
    return leader


def test_a_follower_knows_the_same() -> None:
    leader = with_much()
    high_watermark = leader.high_watermark
    elected = PartitionLeader.elected(leader.batches, leader_epoch=0, high_watermark=high_watermark)
    assert elected.view() == leader.view()
    follower = ReplicaLog()
    follower.append_as_follower(b"".join(stored.data for stored in leader.batches), 0)
    follower.advance_high_watermark(high_watermark)
    assert PartitionLeader(log=follower).view() == leader.view()


def test_a_restart_knows_the_same_without_a_snapshot() -> None:
    leader = with_much()
    assert restarted(leader).view() == leader.view()


def test_a_restart_from_a_snapshot_knows_one_batch_and_the_same_transactions() -> None:
    leader = with_much()
    again = restarted(leader, snapshots={leader.log_end_offset: leader.snapshot()})
    before, after = leader.view(), again.view()
    assert after.ongoing == before.ongoing
    assert after.aborted == before.aborted
    assert after.last_stable_offset == before.last_stable_offset
    assert [len(entry.batches) for _, entry in after.producers] == [1, 1, 1]


def test_a_restart_after_a_kill_finds_the_aborted_again() -> None:
    leader = with_much()
    for point in range(leader.log_end_offset + 1):
        assert restarted(leader, recovery_point=point).view().aborted == leader.view().aborted


def test_indexes_are_believed_where_they_are_whole() -> None:
    leader = with_much()
    bases = leader.log.segments
    files = {base: leader.log.transaction_index(base) for base in bases}
    assert restarted(leader, transaction_indexes=files).view() == leader.view()
    told = AbortedTransaction(9, -5, 2, 3)
    odd = files | {bases[0]: encode_transaction_index([told])}
    assert restarted(leader, transaction_indexes=odd).view().aborted[0] == told
    torn = files | {bases[0]: b"\0" * 33}
    assert restarted(leader, transaction_indexes=torn).view() == leader.view()


def test_truncation_takes_back_what_the_marker_decided() -> None:
    leader = open_leader()
    leader.advance_high_watermark(1)
    mark(leader, ABORT)
    leader.log.truncate_to(1, NOW_MS)
    view = leader.view()
    assert (view.ongoing, view.unreplicated, view.aborted) == (((0, 1),), (), ())
    assert view.last_stable_offset == 0
    leader.log.truncate_to(0, NOW_MS)
    assert leader.view().ongoing == ()
    assert leader.last_stable_offset == 0


def test_truncation_does_not_hold_back_what_was_decided_and_replicated() -> None:
    leader = open_leader()
    mark(leader)
    send(leader, a_batch())
    leader.advance_high_watermark(2)
    assert stable(leader) == (2, 2)
    leader.log.truncate_to(2, NOW_MS)
    assert stable(leader) == (2, 2)


def test_an_empty_log_knows_no_transaction() -> None:
    leader = with_much()
    leader.log.truncate_fully_and_start_at(50)
    view = leader.view()
    assert view[6:] == ((), view.verifications, (), (), ())
    assert view.last_stable_offset == 50


def test_the_head_of_an_aborted_transaction_may_be_deleted() -> None:
    leader = PartitionLeader(config=LogConfig(segment_bytes=100))
    send_verified(leader, t1(0))
    send(leader, t1(1))
    mark(leader, ABORT)
    replicate(leader)
    leader.delete_records(1)
    (entry,) = restarted(leader).view().aborted
    assert entry == AbortedTransaction(1, 1, 2, 3)
    assert leader.view().aborted == (AbortedTransaction(1, 0, 2, 3),)


def test_what_no_leader_wrote_is_named() -> None:
    leader = open_leader()
    data = leader.batches[0]
    plain = data._replace(base_offset=1, attributes=0)
    with pytest.raises(PlainBatchInTransaction):
        PartitionLeader.elected([data, plain], leader_epoch=0, high_watermark=0)
    broken = p1(-1, attributes=TRANSACTIONAL | CONTROL, base_offset=0)
    with pytest.raises(InvalidRecord):
        ReplicaLog().append_as_follower(broken, 0)


def test_a_marker_of_a_transaction_that_shares_its_offset_is_named() -> None:
    """A snapshot of nobody's making: two producers began at one offset."""
    leader = PartitionLeader()
    send(leader, a_batch())
    rows = [SnapshotEntry(i, 0, 0, 0, 0, NOW_MS, -1, 0) for i in (1, 2)]
    again = restarted(leader, snapshots={1: encode_snapshot(rows)})
    assert mark(again, producer_id=1) == NONE
    with pytest.raises(TransactionNotOngoing):
        mark(again, producer_id=2)


def test_sequences_wrap_inside_a_transaction() -> None:
    leader = PartitionLeader(rules=BEFORE_3_6)
    send(leader, t1(MAX_SEQUENCE))
    assert send(leader, t1(0)).error == NONE
