"""What a read_committed consumer leaves out of what it fetched."""

from impl.partition.consuming import committed_batches
from impl.protocol.control_records import ControlType, EndTransactionMarker, marker_batch
from impl.protocol.record_batch import CONTROL, TRANSACTIONAL, Record, RecordBatch

COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT


def data(offset: int, producer_id: int = -1, attributes: int = 0) -> RecordBatch:
    record = Record(0, 0, None, b"v")
    return RecordBatch((record,), offset, 0, attributes, producer_id=producer_id)


def txn(offset: int, producer_id: int) -> RecordBatch:
    return data(offset, producer_id, TRANSACTIONAL)


def end(offset: int, producer_id: int, kind: ControlType) -> RecordBatch:
    marker = EndTransactionMarker(kind, 0)
    batch = marker_batch(marker, producer_id=producer_id, producer_epoch=0, timestamp=0)
    return batch._replace(base_offset=offset)


def seen(batches: list[RecordBatch], aborted: list[tuple[int, int]]) -> list[int]:
    return [batch.base_offset for batch in committed_batches(batches, aborted)]


def test_an_aborted_transaction_is_left_out_up_to_its_marker() -> None:
    log = [txn(0, 1), data(1), txn(2, 1), end(3, 1, ABORT), txn(4, 1), end(5, 1, COMMIT)]
    assert seen(log, [(1, 0)]) == [1, 4]


def test_the_list_may_come_in_any_order() -> None:
    log = [txn(0, 1), txn(1, 2), end(2, 2, ABORT), txn(3, 2), end(4, 1, ABORT), end(5, 2, ABORT)]
    assert seen(log, [(2, 3), (1, 0), (2, 1)]) == []


def test_a_transaction_that_is_aborted_later_does_not_touch_the_one_before() -> None:
    log = [txn(0, 1), end(1, 1, COMMIT), txn(2, 1), end(3, 1, ABORT)]
    assert seen(log, [(1, 2)]) == [0]


def test_a_commit_marker_ends_nothing_that_was_left_out() -> None:
    log = [txn(0, 1), end(1, 1, COMMIT), txn(2, 1)]
    assert seen(log, [(1, 0)]) == []


def test_plain_batches_of_an_aborted_producer_are_read() -> None:
    assert seen([txn(0, 1), end(1, 1, ABORT), data(2, 1)], [(1, 0)]) == [2]
    assert seen([data(0, 1), txn(1, 1)], [(1, 0)]) == [0]


def test_reading_may_begin_inside_a_transaction() -> None:
    assert seen([txn(5, 1), end(6, 1, ABORT), txn(7, 1)], [(1, 2)]) == [7]


def test_control_batches_are_never_given() -> None:
    cleaned = RecordBatch((), 1, 0, TRANSACTIONAL | CONTROL, producer_id=1)
    assert seen([txn(0, 1), cleaned, end(2, 1, COMMIT)], []) == [0]
