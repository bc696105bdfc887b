"""What is read back: aborted data is left out, markers and log records are read as written."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.adapters.brokers.reading import (
    Fetched,
    ObservedBatch,
    OffsetRecord,
    Status,
    TransactionRecord,
    committed_values,
    offset_records,
    see,
    transaction_records,
)
from impl.protocol.control_records import ControlType, EndTransactionMarker, marker_batch
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import Record, RecordBatch, client_batch
from impl.protocol.state_records import encode_record

pytestmark = pytest.mark.fast

NOW = 1_700_000_000_000


def data(producer_id: int, offset: int, value: str, is_transactional: bool = True) -> RecordBatch:
    batch = client_batch(
        [Record(0, NOW, None, value.encode())],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=is_transactional,
    )
    return replace_offset(batch, offset)


def marker(producer_id: int, offset: int, kind: ControlType) -> RecordBatch:
    batch = marker_batch(
        EndTransactionMarker(kind, 4), producer_id=producer_id, producer_epoch=0, timestamp=NOW
    )
    return replace_offset(batch, offset)


def replace_offset(batch: RecordBatch, offset: int) -> RecordBatch:
    return batch._replace(base_offset=offset)


def fetched(batches: list[RecordBatch], aborted: list[tuple[int, int]]) -> Fetched:
    end = len(batches)
    return Fetched(ErrorCode.NONE, end, end, 0, tuple(aborted), tuple(batches))


steps = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["write", "plain", "COMMIT", "ABORT"])),
    max_size=30,
)


@given(steps)
def test_a_reader_gets_what_committed_and_plain_in_the_order_of_the_log(steps):
    """The oracle knows each value's fate from the markers; the reader from the aborted list."""
    batches: list[RecordBatch] = []
    opened: dict[int, list[int]] = {}
    fate: dict[int, bool] = {}
    aborted: list[tuple[int, int]] = []

    def end(producer: int, kind: ControlType) -> None:
        offsets = opened.pop(producer)
        fate.update(dict.fromkeys(offsets, kind is ControlType.COMMIT))
        if kind is ControlType.ABORT:
            aborted.append((producer, offsets[0]))
        batches.append(marker(producer, len(batches), kind))

    for producer, what in steps:
        offset = len(batches)
        if what == "write":
            opened.setdefault(producer, []).append(offset)
            batches.append(data(producer, offset, str(offset)))
        elif what == "plain":
            fate[offset] = True
            batches.append(data(9, offset, str(offset), is_transactional=False))
        elif producer in opened:
            end(producer, ControlType[what])
    for producer in list(opened):
        end(producer, ControlType.COMMIT)
    expected = tuple(str(offset) for offset in sorted(fate) if fate[offset])
    assert committed_values(fetched(batches, aborted)) == expected


def test_a_reader_that_is_not_told_what_was_aborted_hands_it_on():
    batches = [data(1, 0, "lost"), marker(1, 1, ControlType.ABORT)]
    assert committed_values(fetched(batches, [(1, 0)])) == ()
    assert committed_values(fetched(batches, [])) == ("lost",)


def test_a_marker_is_seen_with_its_coordinator():
    seen = see(marker(7, 3, ControlType.ABORT))
    assert seen == ObservedBatch(3, 3, 7, 0, -1, True, "ABORT", 4, ())


def test_the_log_of_transactions_has_states_and_tombstones():
    key = bytes.fromhex("0000000154")  # "T"
    ongoing = bytes.fromhex(
        "000000000000000003e800000000ea60010000000100016100000001000000000000000000000005"
        "0000000000000005"
    )
    rows = [Record(0, NOW, key, ongoing), Record(1, NOW, key, None)]
    batch = client_batch(rows)
    assert transaction_records(fetched([batch], [])) == (
        TransactionRecord("T", Status.Ongoing, 0, 1000, 0, -1, -1, 0, (("a", 0),)),
        TransactionRecord("T", None),
    )


def test_the_log_of_offsets_leaves_out_what_groups_say_of_themselves():
    key = encode_record("OFFSET_COMMIT_KEY", 1, {"group": "g", "topic": "a", "partition": 2})
    value = encode_record(
        "OFFSET_COMMIT_VALUE", 3, {"offset": 7, "metadata": "", "commit_timestamp": NOW}
    )
    metadata_of_a_group = (2).to_bytes(2, "big") + b"\0\1g"
    rows = [
        Record(0, NOW, key, value),
        Record(1, NOW, metadata_of_a_group, b"?"),
        Record(2, NOW, key, None),
    ]
    batch = replace_offset(
        client_batch(rows, producer_id=5, producer_epoch=1, base_sequence=0, is_transactional=True),
        0,
    )
    end = marker(5, 3, ControlType.COMMIT)
    assert offset_records(fetched([batch, end], [])) == (
        OffsetRecord("g", ("a", 2), 7, 5, 1),
        OffsetRecord("g", ("a", 2), None, 5, 1),
        see(end),
    )
    assert see(end).marker == "COMMIT"
    assert replace(see(end), marker=None) != see(end)
