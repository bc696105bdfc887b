"""Errors about replicas before and after the append; what each origin may append."""

import pytest

from impl.partition.errors import InvalidInSyncReplicas
from impl.partition.leader import DeleteOutcome, PartitionLeader, ProduceOutcome
from impl.partition.log_config import LogConfig
from impl.partition.origins import CHECKS, AppendOrigin
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import CONTROL, TRANSACTIONAL
from tests.impl.partition.test_leader import (
    NONE,
    NOW_MS,
    OUT_OF_ORDER,
    a_batch,
    p1,
    refuses,
    send,
    sequences,
    state,
)

TWO = LogConfig(min_insync_replicas=2)
TOO_FEW = ErrorCode.NOT_ENOUGH_REPLICAS
TOO_FEW_AFTER = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def three_replicas(in_sync: int = 3, config: LogConfig = TWO) -> PartitionLeader:
    leader = PartitionLeader(config=config, replication_factor=3)
    leader.update_in_sync_replicas(in_sync)
    return leader


# before the append


@pytest.mark.parametrize(
    ("acks", "in_sync", "error"),
    [(-1, 1, TOO_FEW), (-1, 2, NONE), (-1, 3, NONE), (0, 1, NONE), (1, 1, NONE)],
)
def test_only_acks_all_asks_for_replicas(acks: int, in_sync: int, error: ErrorCode) -> None:
    leader = three_replicas(in_sync)
    assert send(leader, p1(0), acks).error == error
    assert leader.log_end_offset == (0 if error else 1)
    assert set(leader.producers) == (set() if error else {1})


def test_more_replicas_than_there_are_cannot_be_asked_for() -> None:
    assert send(PartitionLeader(config=TWO), p1(0)).error == NONE


def test_too_few_replicas_are_refused_before_the_batch_is_checked() -> None:
    leader = PartitionLeader(config=TWO, replication_factor=3, log_start_offset=40)
    send(leader, p1(0))
    leader.update_in_sync_replicas(1)
    for data in (p1(0), p1(9), p1(-1), p1(1)):
        refuses(leader, data, TOO_FEW, start=40)
    assert send(leader, p1(0), 5).error == ErrorCode.INVALID_REQUIRED_ACKS
    assert send(leader, None).error == ErrorCode.INVALID_RECORD


def test_who_does_not_lead_appends_nothing() -> None:
    leader = three_replicas(in_sync=1)
    leader.resign()
    for acks in (-1, 0, 1):
        assert send(leader, p1(0), acks) == ProduceOutcome(NOT_LEADER, -1, -1, -1, -1)
    assert leader.delete_records(0) == DeleteOutcome(NOT_LEADER, -1)
    assert leader.log_end_offset == 0


@pytest.mark.parametrize("count", [0, 4])
def test_there_is_always_a_leader_in_sync(count: int) -> None:
    with pytest.raises(InvalidInSyncReplicas, match=f"^{count} of 3 replicas in sync; give "):
        three_replicas(count)


# after the append


@pytest.mark.parametrize("acks", [0, 1])
def test_without_acks_all_no_answer_waits(acks: int) -> None:
    leader = three_replicas()
    outcome = send(leader, p1(0), acks)
    assert leader.settle(outcome) == outcome


def test_a_refusal_does_not_wait() -> None:
    leader = three_replicas(in_sync=1)
    outcome = send(leader, p1(0))
    assert leader.settle(outcome) == outcome


def test_an_answer_waits_for_the_high_watermark() -> None:
    leader = three_replicas()
    first, second = send(leader, p1(0, 2)), send(leader, p1(2))
    leader.advance_high_watermark(2)
    assert leader.settle(first) == first
    assert leader.settle(second) is None
    leader.advance_high_watermark(3)
    assert leader.settle(second) == second


AFTER = {
    "too few replicas, replicated": (1, 1, False, TOO_FEW_AFTER),
    "too few replicas, replicated, too late": (1, 1, True, TOO_FEW_AFTER),
    "enough, too late": (3, 0, True, ErrorCode.REQUEST_TIMED_OUT),
    "too few, not replicated, too late": (1, 0, True, ErrorCode.REQUEST_TIMED_OUT),
    "enough, replicated, late": (3, 1, True, NONE),
}


@pytest.mark.parametrize("name", AFTER)
def test_the_batch_is_in_the_log_whatever_is_answered(name: str) -> None:
    in_sync, high_watermark, is_overdue, error = AFTER[name]
    leader = three_replicas()
    outcome = send(leader, p1(0))
    leader.update_in_sync_replicas(in_sync)
    leader.advance_high_watermark(high_watermark)
    assert leader.settle(outcome, is_overdue=is_overdue) == outcome._replace(error=error)
    leader.update_in_sync_replicas(3)
    before = state(leader)
    again = send(leader, p1(0))
    assert (again.error, again.base_offset, again.required_offset) == (NONE, 0, 1)
    assert state(leader) == before


def test_a_duplicate_waits_like_the_first_copy() -> None:
    leader = three_replicas()
    send(leader, p1(0, 2))
    send(leader, p1(2))
    again = send(leader, p1(0, 2))
    assert leader.settle(again) is None
    leader.advance_high_watermark(2)
    assert leader.settle(again) == again


def test_waiting_requests_are_answered_when_the_leader_resigns() -> None:
    leader = three_replicas()
    outcome = send(leader, p1(0))
    log = leader.resign()
    assert leader.settle(outcome) == outcome._replace(error=NOT_LEADER)
    again = PartitionLeader(leader_epoch=2, log=log)
    assert send(again, p1(0)).base_offset == 0
    assert sequences(again) == [(0, 0)]


# origins


def test_the_table_of_origins() -> None:
    """Header, duplicate, verification, epoch, sequence: a row each of `AppendOrigin`."""
    assert {origin: tuple(checks) for origin, checks in CHECKS.items()} == {
        AppendOrigin.CLIENT: (True, True, True, True, True),
        AppendOrigin.COORDINATOR: (False, False, True, True, False),
        AppendOrigin.REPLICATION: (False, False, False, False, False),
    }


def coordinate(leader: PartitionLeader, data: bytes) -> ProduceOutcome:
    return leader.append_as_coordinator(data, now_ms=NOW_MS)


def test_a_coordinator_is_asked_for_its_epoch_only() -> None:
    leader = PartitionLeader()
    for sequence in (0, 5, 5, -1):
        assert coordinate(leader, p1(sequence, epoch=1)).error == NONE
    assert coordinate(leader, p1(0, epoch=1, base_offset=9)).base_offset == 4
    assert coordinate(leader, p1(0, epoch=0)).error == ErrorCode.INVALID_PRODUCER_EPOCH
    assert coordinate(leader, p1(7, epoch=2)).error == NONE
    assert leader.producers[1].producer_epoch == 2


def test_a_coordinators_transaction_is_verified_like_a_clients() -> None:
    leader = PartitionLeader()
    data = p1(0, attributes=TRANSACTIONAL)
    assert coordinate(leader, data).error == ErrorCode.INVALID_TXN_STATE


def test_a_coordinators_batch_is_still_measured() -> None:
    data = a_batch()
    small = PartitionLeader(config=LogConfig(max_message_bytes=len(data) - 1))
    assert coordinate(small, data).error == ErrorCode.MESSAGE_TOO_LARGE
    assert coordinate(PartitionLeader(), data[:-1] + b"?").error == ErrorCode.CORRUPT_MESSAGE


def test_a_client_is_asked_for_everything() -> None:
    leader = PartitionLeader()
    send(leader, p1(0, epoch=1))
    refuses(leader, p1(5, epoch=1), OUT_OF_ORDER)
    refuses(leader, p1(0, attributes=CONTROL, epoch=1), ErrorCode.INVALID_RECORD)
    refuses(leader, p1(-1, epoch=1), ErrorCode.INVALID_RECORD)
