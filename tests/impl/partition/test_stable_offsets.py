"""Transactions at the leader, as they are read: what is stable, what is told, what a restart
knows."""

from typing import Any

import pytest

from impl.log.snapshot import SnapshotEntry, encode_snapshot
from impl.log.transaction_index import AbortedTransaction, encode_transaction_index
from impl.partition.errors import PlainBatchInTransaction, TransactionNotOngoing
from impl.partition.leader import PartitionLeader
from impl.partition.log_config import LogConfig
from impl.partition.reading import fetch_bound, find_offset, read
from impl.partition.replica_log import ReplicaLog
from impl.protocol.errors import InvalidRecord
from impl.protocol.fields import Isolation, Timestamp
from impl.protocol.record_batch import (
    CONTROL,
    MAX_SEQUENCE,
    TRANSACTIONAL,
    read_headers,
)
from tests.impl.partition.test_leader import NOW_MS, a_batch, p1
from tests.impl.partition.transactional import (
    ABORT,
    BEFORE_3_6,
    NONE,
    mark,
    open_leader,
    replicate,
    send,
    send_verified,
    t1,
)

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
def test_aborted_transactions_are_listed_where_they_overlap(
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
    return PartitionLeader.restart(
        [b"".join(stored.data for stored in log.deleted + log.batches)],
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
    elected = PartitionLeader.elect(leader.batches, leader_epoch=0, high_watermark=high_watermark)
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


def test_valid_transaction_indexes_are_used() -> None:
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
    said = "^a plain batch inside a transaction at offset 1; check its writer"
    with pytest.raises(PlainBatchInTransaction, match=said):
        PartitionLeader.elect([data, plain], leader_epoch=0, high_watermark=0)
    broken = p1(-1, attributes=TRANSACTIONAL | CONTROL, base_offset=0)
    with pytest.raises(InvalidRecord):
        ReplicaLog().append_as_follower(broken, 0)


def test_a_marker_of_a_transaction_that_shares_its_offset_is_named() -> None:
    """A contradictory snapshot: two transactions begin at one offset."""
    leader = PartitionLeader()
    send(leader, a_batch())
    rows = [SnapshotEntry(i, 0, 0, 0, 0, NOW_MS, -1, 0) for i in (1, 2)]
    again = restarted(leader, snapshots={1: encode_snapshot(rows)})
    assert mark(again, producer_id=1) == NONE
    said = "^no ongoing transaction of producer 2 from offset 0 on; delete the snapshots"
    with pytest.raises(TransactionNotOngoing, match=said):
        mark(again, producer_id=2)


def test_sequences_wrap_inside_a_transaction() -> None:
    leader = PartitionLeader(config=LogConfig(rules=BEFORE_3_6))
    send(leader, t1(MAX_SEQUENCE))
    assert send(leader, t1(0)).error == NONE
