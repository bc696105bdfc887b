"""Transactions at the leader, rule by rule: verification, and markers."""

import pytest

from impl.log.transaction_index import AbortedTransaction
from impl.partition.leader import PartitionLeader
from impl.partition.log_config import LogConfig
from impl.partition.rules import TransactionRules
from impl.partition.verification import NO_GUARD, VerificationStart
from impl.protocol.errors import ErrorCode, InvalidField
from impl.protocol.record_batch import (
    CONTROL,
    TRANSACTIONAL,
    Record,
    decode_batch,
)
from tests.impl.partition.test_leader import NOW_MS, p1
from tests.impl.partition.transactional import (
    ABORT,
    BAD_EPOCH,
    BEFORE_3_6,
    COMMIT,
    FENCED,
    IN_3_9,
    LAST_EPOCH,
    NONE,
    NOT_IN_TRANSACTION,
    OUT_OF_ORDER,
    begin,
    mark,
    open_leader,
    refuses,
    replicate,
    send,
    send_verified,
    t1,
)

# verification


def test_the_first_batch_needs_its_guard_and_the_next_ones_do_not() -> None:
    leader = PartitionLeader()
    refuses(leader, t1(0), NOT_IN_TRANSACTION)
    begun = begin(leader)
    assert begun.guard != NO_GUARD
    refuses(leader, t1(0), NOT_IN_TRANSACTION)
    refuses(leader, t1(0), NOT_IN_TRANSACTION, begun.guard + 1)
    assert send(leader, t1(0), begun.guard).error == NONE
    assert begin(leader, 1) == VerificationStart(NONE, NO_GUARD)
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
    leader = PartitionLeader(config=LogConfig(rules=rules))
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
    leader = open_leader(config=LogConfig(rules=rules))
    guard = leader.begin_verification(1, 1, 0, supports_epoch_bump=v2, now_ms=NOW_MS).guard
    assert guard != NO_GUARD
    assert mark(leader, epoch=epoch, version=2 if epoch else 0) == NONE
    expected = NONE if is_kept else NOT_IN_TRANSACTION
    assert send(leader, t1(0, epoch=1), guard).error == expected


def test_an_open_transaction_of_another_epoch_vouches_for_nothing() -> None:
    leader = open_leader()
    refuses(leader, t1(0, epoch=1), NOT_IN_TRANSACTION)
    old = open_leader(config=LogConfig(rules=TransactionRules(ongoing_needs_epoch=False)))
    assert send(old, t1(0, epoch=1)).error == NONE
    assert begin(old, epoch=7) == VerificationStart(NONE, NO_GUARD)


def test_without_verification_no_guard_is_asked_for() -> None:
    leader = PartitionLeader(config=LogConfig(rules=BEFORE_3_6))
    assert send(leader, t1(7)).error == NONE
    assert leader.view().ongoing == ((0, 1),)


def test_an_older_epoch_is_named_before_the_guard() -> None:
    leader = open_leader(epoch=3)
    mark(leader, epoch=3)
    refuses(leader, t1(0, epoch=2), BAD_EPOCH)
    assert begin(leader, epoch=2) == VerificationStart(BAD_EPOCH)
    old = open_leader(epoch=3, config=LogConfig(rules=IN_3_9))
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
    assert begin(leader) == VerificationStart(ErrorCode.NOT_LEADER_OR_FOLLOWER)
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
        leader = open_leader(config=LogConfig(rules=rules))
        assert mark(leader, COMMIT, epoch=1, version=2) == NONE
        assert send_verified(leader, t1(0, epoch=1)).error == NONE
        assert mark(leader, COMMIT, epoch=1, version=2) == error
        assert (leader.view().ongoing == ()) == (error == NONE)


def test_the_last_epoch_cannot_be_bumped() -> None:
    rules = TransactionRules(accepts_last_epoch=False)
    leader = open_leader(epoch=LAST_EPOCH, config=LogConfig(rules=rules))
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
