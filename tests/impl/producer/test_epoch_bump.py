"""The local epoch bump (KIP-360): who asks for it, what it rewrites, what comes back late."""

import pytest

from impl.producer.sequence_manager import (
    LEGAL_SOURCES,
    SequenceManager,
    State,
    later_sequence,
    precedes,
)
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import increment_sequence
from impl.protocol.schemas import ApiKey
from tests.impl.producer.driver import Driver, batch_of

OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
UNKNOWN = ErrorCode.UNKNOWN_PRODUCER_ID
MAX = 2**31 - 1
ACKNOWLEDGED = {
    "topics": [{"name": "t", "partitions": [{"index": 0, "error_code": 0, "base_offset": 50}]}]
}


def numbers(driver, partition=0):
    return [(b.producer_epoch, b.base_sequence) for b in driver.state(partition).in_flight]


# ---- which answer asks for a bump (the table of canRetry)


@pytest.mark.parametrize(
    ("error", "log_start_offset", "bump"),
    [(OUT_OF_ORDER, 0, True), (UNKNOWN, -1, False), (UNKNOWN, 0, True), (UNKNOWN, 5, True)],
)
def test_the_next_batch_in_line(error, log_start_offset, bump):
    driver = Driver()
    request = driver.send()
    driver.refuse(request, error, log_start_offset=log_start_offset)
    assert driver.core.epoch_bump_required is bump
    assert driver.state().in_flight[0].in_retry


def test_a_follower_is_only_sent_again():
    driver = Driver()
    first, second = driver.send(), driver.send()
    driver.refuse(first, ErrorCode.NOT_ENOUGH_REPLICAS)
    driver.refuse(second, OUT_OF_ORDER)
    assert not driver.core.epoch_bump_required
    driver.now_ms += 100
    while effects := driver.poll():
        driver.answer(effects[0])
    assert driver.log() == [b"r0", b"r1"]
    assert driver.core.producer_epoch == 0


@pytest.mark.parametrize("error", [OUT_OF_ORDER, UNKNOWN])
def test_a_rewritten_batch_is_only_sent_again(error):
    driver = Driver()
    first, second = driver.send(), driver.send()
    driver.refuse(first, OUT_OF_ORDER)
    driver.poll()
    assert driver.core.producer_epoch == 1
    driver.refuse(second, error, log_start_offset=0)
    assert not driver.core.epoch_bump_required


@pytest.mark.parametrize(("follows", "bump"), [(True, True), (False, False)])
def test_behind_an_unresolved_sequence(follows, bump):
    """Only the batch directly behind the expired one proves the gap."""
    driver = Driver(request_timeout_ms=600, delivery_timeout_ms=600)
    driver.answer(driver.send())
    driver.send()
    driver.now_ms += 450
    driver.send()
    driver.send()
    driver.now_ms += 100
    driver.lose()
    driver.poll(after_ms=50)
    assert driver.state().unresolved_sequence == 2
    (follower,) = driver.poll(after_ms=50)
    if not follows:
        driver.receive(follower, ACKNOWLEDGED)
        (follower,) = driver.poll()
    driver.refuse(follower, OUT_OF_ORDER)
    assert driver.core.epoch_bump_required is bump


def test_lost_state_that_gives_up_its_retries_bumps_all_the_same():
    driver = Driver(retries=1)
    request = driver.send()
    driver.refuse(request, UNKNOWN, log_start_offset=-1)
    (request,) = driver.poll(after_ms=100)
    driver.refuse(request, UNKNOWN, log_start_offset=-1)
    assert driver.core.epoch_bump_required
    assert driver.state().in_flight == ()


# ---- what a bump does


def test_all_in_flight_batches_of_the_partition_start_again_at_zero():
    driver = Driver()
    driver.answer(driver.send(4))
    requests = [driver.send(n) for n in (2, 3, 1)]
    driver.refuse(requests[0], OUT_OF_ORDER)
    assert numbers(driver) == [(0, 4), (0, 6), (0, 9)]
    assert driver.poll() == ()
    state = driver.state()
    assert numbers(driver) == [(1, 0), (1, 2), (1, 5)]
    assert (state.producer_epoch, state.next_sequence, state.last_acked_sequence) == (1, 6, -1)
    assert [b.sequence_has_been_reset for b in state.in_flight] == [True] * 3
    assert [b.outstanding for b in state.in_flight] == [False, True, True]
    assert state.last_acked_offset == 3


def test_the_mark_of_a_rewritten_batch_ends_with_its_next_drain():
    driver = Driver()
    driver.refuse(driver.send(), OUT_OF_ORDER)
    (again,) = driver.poll(after_ms=100)
    assert (batch_of(again).producer_epoch, batch_of(again).base_sequence) == (1, 0)
    assert not driver.state().in_flight[0].sequence_has_been_reset


def test_all_requests_since_the_last_bump_make_one():
    driver = Driver({("t", 0): 1, ("t", 1): 2})
    requests = [driver.send(partition=partition) for partition in (0, 1)]
    for request in requests:
        driver.refuse(request, OUT_OF_ORDER)
    driver.poll()
    assert driver.core.producer_epoch == 1
    assert numbers(driver, 0) == numbers(driver, 1) == [(1, 0)]


def test_another_partition_moves_to_the_new_epoch_once_it_is_empty():
    driver = Driver({("t", 0): 1, ("t", 1): 2})
    driver.answer(driver.send(3, partition=1))
    busy = driver.send(partition=1)
    driver.refuse(driver.send(partition=0), OUT_OF_ORDER)
    driver.append(partition=1)
    assert driver.poll() == ()
    assert driver.core.producer_epoch == 1
    assert numbers(driver, 1) == [(0, 3)]
    driver.answer(busy)
    (moved,) = driver.poll()
    assert (batch_of(moved).producer_epoch, batch_of(moved).base_sequence) == (1, 0)
    driver.answer(moved)
    assert len(driver.log(1)) == 5


def test_success_of_an_old_copy_is_accounted_with_the_new_sequence():
    """Kafka's quirk: the next batch leaves a gap at the new epoch, and a second bump closes it."""
    driver = Driver()
    driver.answer(driver.send())
    refused, stored = driver.send(), driver.send()
    # The leader lost what it knew: it takes any sequence of a producer that it does not know.
    driver.leaders["t", 0].producers.clear()
    driver.refuse(refused, OUT_OF_ORDER)
    driver.poll()
    assert numbers(driver) == [(1, 0), (1, 1)]
    driver.answer(stored)
    assert driver.state().last_acked_sequence == 1
    assert numbers(driver) == [(1, 0)]
    (rewritten,) = driver.poll(after_ms=100)
    assert (batch_of(rewritten).producer_epoch, batch_of(rewritten).base_sequence) == (1, 0)
    driver.answer(rewritten)
    follower = driver.send()
    assert (batch_of(follower).producer_epoch, batch_of(follower).base_sequence) == (1, 2)
    driver.answer(follower)
    assert driver.core.epoch_bump_required
    (again,) = driver.poll(after_ms=100)
    assert (batch_of(again).producer_epoch, batch_of(again).base_sequence) == (2, 0)
    driver.answer(again)
    assert sorted(driver.log()) == [b"r0", b"r1", b"r2", b"r3"]


def test_failure_of_an_old_copy_sends_the_new_one():
    driver = Driver()
    first, second = driver.send(), driver.send()
    driver.refuse(first, OUT_OF_ORDER)
    driver.poll()
    driver.deliver(second)
    driver.lose()
    sent = []
    driver.now_ms += 100
    while effects := driver.poll():
        batch = batch_of(effects[0])
        sent.append((batch.producer_epoch, batch.base_sequence))
        driver.answer(effects[0])
    assert sent == [(1, 0), (1, 1)]
    assert driver.log() == [b"r1", b"r0", b"r1"]


# ---- the end of the epochs


def test_the_last_epoch_is_followed_by_a_new_producer_id():
    driver = Driver(producer_epoch=32_767)
    driver.refuse(driver.send(), ErrorCode.INVALID_RECORD)
    driver.append()
    (init,) = driver.poll()
    assert init.api_key == ApiKey.INIT_PRODUCER_ID
    assert (driver.core.producer_id, driver.core.producer_epoch) == (-1, -1)
    assert driver.poll() == ()
    body = {"error_code": 0, "producer_id": 8, "producer_epoch": 0}
    driver.core.receive(init.correlation_id, body, driver.now_ms)
    (request,) = driver.poll()
    batch = batch_of(request)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (8, 0, 0)


def test_at_the_last_epoch_rewritten_batches_lose_their_producer_id():
    """Kafka's quirk: they are sent as plain data; the new id is used behind them."""
    driver = Driver(producer_epoch=32_767)
    driver.refuse(driver.send(2), OUT_OF_ORDER)
    driver.append()
    driver.initialize(producer_id=8)
    (plain,) = driver.poll(after_ms=100)
    batch = batch_of(plain)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, 0)
    assert driver.poll() == ()
    driver.answer(plain)
    (request,) = driver.poll()
    batch = batch_of(request)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (8, 0, 0)
    driver.answer(request)
    assert driver.log() == [b"r0", b"r1", b"r2"]


def test_one_epoch_before_the_last_is_no_end():
    driver = Driver(producer_epoch=32_766)
    driver.refuse(driver.send(), OUT_OF_ORDER)
    assert driver.poll() == ()
    assert (driver.core.producer_id, driver.core.producer_epoch) == (7, 32_767)


# ---- the end of the sequences


def near_the_wrap(driver, next_sequence):
    """A client and a leader that have come this far together."""
    request = driver.send()
    driver.answer(request)
    entry = driver.core._manager.entry(("t", 0))
    entry.next_sequence = next_sequence
    entry.last_acked_sequence = next_sequence - 1
    driver.leaders["t", 0].producers.clear()


def test_sequences_wrap_and_go_on():
    driver = Driver()
    near_the_wrap(driver, MAX - 1)
    for expected, last in ((MAX - 1, 1), (2, 3)):
        request = driver.send(count=4 if expected > 2 else 2)
        assert (batch_of(request).base_sequence, batch_of(request).last_sequence) == (
            expected,
            last,
        )
        driver.answer(request)
    assert driver.state().last_acked_sequence == 3
    assert len(driver.log()) == 7


def test_retries_keep_their_order_across_the_wrap():
    """Kafka's client compares raw numbers here, and sends 0 before 2147483647."""
    driver = Driver()
    near_the_wrap(driver, MAX - 1)
    driver.answer(driver.send())
    for _ in range(3):
        driver.send()
    driver.lose()
    sent = []
    driver.now_ms += 100
    while effects := driver.poll():
        sent.append(batch_of(effects[0]).base_sequence)
        driver.answer(effects[0])
    assert sent == [MAX, 0, 1]
    assert driver.log()[-3:] == [b"r2", b"r3", b"r4"]


def test_a_gap_is_detected_across_the_wrap():
    driver = Driver()
    near_the_wrap(driver, MAX)
    driver.answer(driver.send())
    assert driver.state().last_acked_sequence == MAX
    driver.refuse(driver.send(), OUT_OF_ORDER)
    assert driver.core.epoch_bump_required


@pytest.mark.parametrize("sequence", [0, 1, 5, 2**30, MAX - 1, MAX])
@pytest.mark.parametrize("ahead", [1, 2, 1000, 2**30 - 1])
def test_later_means_less_than_half_the_range_ahead(sequence, ahead):
    later = increment_sequence(sequence, ahead)
    assert precedes(sequence, later)
    assert not precedes(later, sequence)
    assert not precedes(sequence, sequence)
    assert later_sequence(sequence, later) == later_sequence(later, sequence) == later
    assert later_sequence(-1, sequence) == sequence


# ---- the state machine


def test_every_edge_outside_the_table_is_refused():
    for source in State:
        for target in State:
            manager = SequenceManager(max_partitions=1)
            manager.state = source
            if source in LEGAL_SOURCES[target]:
                manager._transition_to(target)
                assert manager.state is target
            else:
                with pytest.raises(AssertionError):
                    manager._transition_to(target)
                assert manager.state is source


def test_an_answer_after_the_end_does_not_revive_the_producer():
    driver = Driver(producer_epoch=32_767)
    first, second = driver.send(), driver.send()
    driver.refuse(first, ErrorCode.INVALID_RECORD)
    (init,) = driver.poll()
    driver.refuse(second, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    body = {"error_code": 0, "producer_id": 8, "producer_epoch": 0}
    driver.core.receive(init.correlation_id, body, driver.now_ms)
    assert driver.core.state is State.FATAL_ERROR
    assert driver.core.producer_id == -1
