"""Transactional batches, guards and markers, as a broker hands them to a leader."""

from typing import Any

from impl.partition.leader import PartitionLeader, ProduceOutcome
from impl.partition.rules import RULES
from impl.partition.verification import NO_GUARD, VerificationStart
from impl.protocol.control_records import ControlType
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import (
    TRANSACTIONAL,
    decode_batch,
)
from tests.impl.partition.test_leader import NOW_MS, p1

NONE = ErrorCode.NONE
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
BAD_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH
NOT_IN_TRANSACTION = ErrorCode.INVALID_TXN_STATE
FENCED = ErrorCode.TRANSACTION_COORDINATOR_FENCED
COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT
LAST_EPOCH = 32_767

BEFORE_3_6 = RULES["2.8"]
IN_3_9 = RULES["3.6"]


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
) -> VerificationStart:
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
