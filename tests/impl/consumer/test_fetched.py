"""What a consumer sees of a log with open, committed and aborted transactions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impl.consumer.fetched import FetchedPartition
from impl.protocol.control_records import ControlType, EndTransactionMarker, marker_batch
from impl.protocol.errors import CrcMismatch
from impl.protocol.record_batch import LOG_APPEND_TIME, Record, client_batch, encode_batch


class Log:
    """Batches one behind the other, and what a broker would say was aborted."""

    def __init__(self):
        self.data = b""
        self.end = 0
        self.aborted = []
        self.first = {}
        self.visible = []
        self.open = {}

    def _append(self, batch):
        self.data += encode_batch(batch._replace(base_offset=self.end))
        self.end += batch.last_offset_delta + 1

    def write(self, producer_id, *values, transactional=True):
        records = [Record(i, 0, None, value) for i, value in enumerate(values)]
        written = [(self.end + i, value) for i, value in enumerate(values)]
        if transactional:
            self.first.setdefault(producer_id, self.end)
            self.open.setdefault(producer_id, []).extend(written)
        else:
            self.visible.extend(written)
        sequence = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
        self._append(client_batch(records, **sequence, is_transactional=transactional))

    def end_transaction(self, producer_id, kind):
        first = self.first.pop(producer_id, None)
        written = self.open.pop(producer_id, [])
        if kind is ControlType.ABORT and first is not None:
            self.aborted.append((producer_id, first))
        if kind is ControlType.COMMIT:
            self.visible.extend(written)
        marker = EndTransactionMarker(kind, 0)
        self._append(marker_batch(marker, producer_id=producer_id, producer_epoch=0, timestamp=0))


def fetched(data, offset=0, aborted=()):
    return FetchedPartition(("t", 0), data, offset, aborted)


def values(log, offset=0, aborted=None):
    found = fetched(log.data, offset, log.aborted if aborted is None else aborted)
    delivered = [(record.offset, record.value) for record in found.take()]
    assert found.is_empty
    assert found.next_offset == found.end_offset
    return delivered, found.next_offset


@pytest.mark.parametrize(("attributes", "times"), [(0, [5, 9]), (LOG_APPEND_TIME, [70, 70])])
def test_the_brokers_time_is_that_of_all_records_of_a_batch(attributes, times):
    batch = client_batch([Record(0, 5, None, b"a"), Record(1, 9, None, b"b")])
    data = encode_batch(batch._replace(attributes=attributes, max_timestamp=70))
    assert [record.timestamp for record in fetched(data).take()] == times


def test_read_uncommitted_sees_all_but_markers():
    log = Log()
    log.write(1, b"a", b"b")
    log.end_transaction(1, ControlType.ABORT)
    log.write(2, b"c", transactional=False)
    assert values(log, aborted=[]) == ([(0, b"a"), (1, b"b"), (3, b"c")], 4)


def test_read_committed_leaves_out_what_was_aborted():
    log = Log()
    log.write(1, b"a")
    log.write(2, b"b")
    log.end_transaction(1, ControlType.ABORT)
    log.write(1, b"c")
    log.end_transaction(1, ControlType.COMMIT)
    log.end_transaction(2, ControlType.COMMIT)
    assert values(log) == ([(1, b"b"), (3, b"c")], 6)


def test_plain_records_of_the_same_producer_are_delivered():
    log = Log()
    log.write(1, b"a")
    log.write(1, b"b", transactional=False)
    log.end_transaction(1, ControlType.ABORT)
    assert values(log)[0] == [(1, b"b")]


def test_an_abort_before_the_offset_still_counts_in_its_rest():
    log = Log()
    log.write(1, b"a")
    log.write(1, b"b")
    log.end_transaction(1, ControlType.ABORT)
    log.write(1, b"c")
    assert values(log, offset=1) == ([(3, b"c")], 4)


def test_what_was_fetched_may_begin_and_end_inside_a_batch():
    log = Log()
    log.write(1, b"a", b"b", b"c", transactional=False)
    whole = len(log.data)
    log.write(1, b"d", transactional=False)
    for end in range(whole, len(log.data)):
        cut = fetched(log.data[:end], 1)
        assert cut.end_offset == 3
        assert [record.value for record in cut.take()] == [b"b", b"c"]
        assert cut.next_offset == 3
    assert fetched(b"", 7).next_offset == 7


def test_records_are_taken_in_portions_and_the_position_follows():
    log = Log()
    log.write(1, b"a", b"b", b"c", transactional=False)
    log.write(1, b"d")
    log.end_transaction(1, ControlType.ABORT)
    part = fetched(log.data, 0, log.aborted)
    taken = []
    for count, position in ((2, 2), (5, 5), (1, 5)):
        taken += [record.value for record in part.take(count)]
        assert part.next_offset == position
    assert taken == [b"a", b"b", b"c"]


def test_a_batch_that_cannot_be_read_ends_what_is_delivered():
    log = Log()
    log.write(1, b"a", transactional=False)
    whole = len(log.data)
    log.write(1, b"b", transactional=False)
    damaged = bytearray(log.data)
    damaged[whole + 30] ^= 1
    part = fetched(bytes(damaged))
    assert [record.value for record in part.take()] == [b"a"]
    assert (part.is_empty, part.next_offset, type(part.error)) == (True, 1, CrcMismatch)


STEPS = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from(["write", "plain", "commit", "abort"])),
    max_size=25,
)


@given(STEPS)
def test_only_committed_records_are_delivered_in_offset_order(steps):
    log = Log()
    for count, (producer_id, what) in enumerate(steps):
        if what in ("write", "plain"):
            if what == "plain" and producer_id in log.first:
                continue
            log.write(producer_id, b"%d" % count, transactional=what == "write")
        else:
            log.end_transaction(producer_id, ControlType[what.upper()])
    for producer_id in list(log.first):
        log.end_transaction(producer_id, ControlType.ABORT)
    assert values(log) == (sorted(log.visible), log.end)
