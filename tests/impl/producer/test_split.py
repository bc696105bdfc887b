"""A batch that a leader finds too large goes again in smaller ones (MESSAGE_TOO_LARGE)."""

import pytest

from impl.partition.leader import PartitionLeader
from impl.partition.log_config import LogConfig
from impl.producer import Advice, BufferExhaustedError, DeliveryTimeoutError
from impl.protocol.errors import ErrorCode
from tests.impl.producer.driver import Driver, batch_of, values_of

TOO_LARGE = ErrorCode.MESSAGE_TOO_LARGE
MAX = 2**31 - 1


def numbers(driver):
    return [(b.base_sequence, b.record_count) for b in driver.state().in_flight]


def small_leader(driver, max_message_bytes):
    config = LogConfig(max_message_bytes=max_message_bytes)
    driver.leaders["t", 0] = PartitionLeader(config=config)


def send_all(driver):
    """Until nothing is due; (base sequence, records) of each request."""
    sent = []
    while effects := driver.poll():
        (request,) = effects
        batch = batch_of(request)
        sent.append((batch.base_sequence, len(batch.records)))
        driver.answer(request)
    return sent


def test_the_parts_have_batch_size_the_old_sequences_and_no_backoff():
    driver = Driver(batch_size=1000)
    for _ in range(8):
        driver.core.append("t", 0, value=bytes(100), now_ms=driver.now_ms)
    (request,) = driver.poll()
    assert len(batch_of(request).records) == 8
    driver.refuse(request, TOO_LARGE)
    assert numbers(driver) == [(0, 8)]
    assert not driver.state().in_flight[0].in_retry
    (part,) = driver.poll()
    assert batch_of(part) == batch_of(request)


def test_a_part_that_is_too_large_is_halved():
    """KAFKA-8350: batch_size alone would make the same batch for ever."""
    driver = Driver()
    small_leader(driver, 300)
    handles = [
        driver.core.append("t", 0, value=bytes([n]) * 80, now_ms=driver.now_ms) for n in range(8)
    ]
    assert send_all(driver) == [
        (0, 8),
        (0, 8),
        *((0, 3), (0, 1), (1, 1), (2, 1)),
        *((3, 3), (3, 1), (4, 1), (5, 1)),
        (6, 2),
    ]
    assert [handle.offset for handle in handles] == list(range(8))
    assert driver.log() == [bytes([n]) * 80 for n in range(8)]
    assert driver.state().next_sequence == 8
    assert driver.core.producer_epoch == 0


def test_a_record_that_no_leader_takes_fails_alone_and_bumps():
    driver = Driver()
    small_leader(driver, 300)
    small, large, after = (
        driver.core.append("t", 0, value=bytes(size), now_ms=driver.now_ms) for size in (9, 290, 9)
    )
    assert send_all(driver)[:5] == [(0, 3), (0, 3), (0, 2), (0, 1), (1, 1)]
    assert (small.error, after.error) == (None, None)
    assert large.error.error_code is TOO_LARGE
    assert (large.error.advice, large.error.may_be_written) == (Advice.ABORT, False)
    assert driver.core.producer_epoch == 1
    assert driver.log() == [bytes(9), bytes(9)]


def test_halves_that_are_the_whole_become_single_records():
    """Kafka's estimate of a record is wider than the record, and half a batch the batch again."""
    driver = Driver()
    small_leader(driver, 78)
    driver.append(2)
    assert send_all(driver) == [(0, 2), (0, 2), (0, 1), (1, 1)]


def test_a_single_record_is_not_split():
    driver = Driver()
    handle = driver.append()
    (request,) = driver.poll()
    driver.refuse(request, TOO_LARGE)
    assert handle.error.error_code is TOO_LARGE
    assert driver.state().in_flight == ()
    assert driver.core.epoch_bump_required


def test_splits_are_no_attempts():
    driver = Driver(retries=1)
    request = driver.send(4)
    for _ in range(2):
        driver.refuse(request, TOO_LARGE)
        (request,) = driver.poll()
    driver.refuse(request, ErrorCode.NOT_ENOUGH_REPLICAS)
    (again,) = driver.poll(after_ms=100)
    assert batch_of(again) == batch_of(request)
    driver.refuse(again, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert driver.state().in_flight[0].base_sequence > 0


def test_the_batches_behind_stay_behind():
    driver = Driver()
    small_leader(driver, 85)
    driver.answer(driver.send())
    first, second = driver.send(3), driver.send(2)
    waiting = driver.append()
    driver.answer(first)
    assert numbers(driver) == [(1, 3), (4, 2)]
    driver.answer(second)
    driver.now_ms += 100
    assert send_all(driver) == [(1, 3), (1, 2), (3, 1), (4, 2), (6, 1)]
    assert driver.log() == [b"r%d" % n for n in range(7)]
    assert waiting.offset == 6


def test_a_leader_that_does_not_know_the_producer_takes_the_batch_behind():
    """Kafka's quirk (KAFKA-14359): then the parts are out of order until they expire."""
    driver = Driver()
    small_leader(driver, 85)
    first, second = driver.send(3), driver.send(2)
    driver.answer(first)
    driver.answer(second)
    assert send_all(driver) == [(0, 3), (0, 2)]
    assert driver.log() == [b"r3", b"r4"]
    assert not driver.core.epoch_bump_required


def test_each_record_hears_of_its_own_part():
    driver = Driver()
    small_leader(driver, 85)
    handles = [driver.append() for _ in range(4)]
    for _ in range(2):
        (request,) = driver.poll()
        driver.answer(request)
    (request,) = driver.poll()
    assert values_of(batch_of(request)) == [b"r0", b"r1"]
    driver.answer(request)
    assert [(handle.done, handle.offset) for handle in handles] == [
        (True, 0),
        (True, 1),
        (False, -1),
        (False, -1),
    ]
    send_all(driver)
    assert [handle.offset for handle in handles] == [0, 1, 2, 3]
    assert repr(handles[3]) == "DeliveryHandle(t-0, succeeded, offset=3)"


def test_a_retried_part_is_a_duplicate_of_itself():
    driver = Driver()
    small_leader(driver, 85)
    for _ in range(2):
        driver.answer(driver.send(4) if not driver.appended else driver.poll()[0])
    (request,) = driver.poll()
    driver.deliver(request)
    driver.lose()
    driver.now_ms += 100
    assert send_all(driver) == [(0, 2), (2, 2)]
    assert driver.log() == [b"r0", b"r1", b"r2", b"r3"]


def test_parts_lie_across_the_wrap():
    """Kafka adds plain numbers here, and would give a part a negative sequence."""
    driver = Driver()
    driver.answer(driver.send())
    entry = driver.core._manager.entry(("t", 0))
    entry.next_sequence, entry.last_acked_sequence = MAX - 1, MAX - 2
    small_leader(driver, 85)
    driver.append(4)
    assert send_all(driver)[2:] == [(MAX - 1, 2), (0, 2)]
    assert driver.state().last_acked_sequence == 1
    assert driver.log() == [b"r1", b"r2", b"r3", b"r4"]


def test_a_rewritten_batch_is_split_with_its_new_numbers():
    driver = Driver()
    first, second = driver.send(), driver.send(4)
    driver.refuse(first, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    driver.poll()
    driver.refuse(second, TOO_LARGE)
    assert [(b.producer_epoch, b.base_sequence) for b in driver.state().in_flight] == [
        (1, 0),
        (1, 1),
    ]
    assert not driver.state().in_flight[1].sequence_has_been_reset


def test_parts_are_as_old_as_the_batch():
    """Also among those of other partitions: what is oldest expires first, and on time."""
    driver = Driver({("t", 0): 1, ("t", 1): 2})
    older = driver.append(partition=1)
    driver.poll(after_ms=1)
    request = driver.send(4)
    driver.now_ms += 1
    younger = driver.append(partition=1)
    driver.refuse(request, TOO_LARGE)
    driver.core.update_metadata({})
    driver.poll()
    driver.lose(2)
    driver.poll(after_ms=119_997)
    assert not older.done
    driver.poll(after_ms=1)
    assert isinstance(older.error, DeliveryTimeoutError)
    assert len(driver.state().in_flight) == 1
    driver.poll(after_ms=1)
    assert driver.state().in_flight == ()
    assert not younger.done
    driver.poll(after_ms=1)
    assert driver.state().unresolved_sequence == -1
    assert isinstance(younger.error, DeliveryTimeoutError)


def test_the_memory_of_the_batch_is_free_and_its_parts_take_none():
    driver = Driver(batch_size=200, buffer_memory=200)
    request = driver.send(2)
    with pytest.raises(BufferExhaustedError):
        driver.append()
    driver.refuse(request, TOO_LARGE)
    driver.append()
    with pytest.raises(BufferExhaustedError):
        driver.core.append("t", 9, value=b"v", now_ms=driver.now_ms)
    send_all(driver)
    assert driver.core._accumulator.free_bytes == 200


def test_a_batch_that_has_expired_is_not_split():
    driver = Driver(request_timeout_ms=200, delivery_timeout_ms=200)
    request = driver.send(4)
    driver.poll(after_ms=200)
    driver.refuse(request, TOO_LARGE)
    assert driver.state().in_flight == ()
    assert driver.poll() == ()


def test_a_muted_partition_may_send_its_parts():
    driver = Driver(max_in_flight_requests_per_connection=1)
    small_leader(driver, 85)
    driver.append(4)
    assert send_all(driver) == [(0, 4), (0, 4), (0, 2), (2, 2)]
