"""Flush, close, abort: the ways to come to an end."""

import pytest

from impl.producer import AbortedError, Advice, ProducerClosedError
from impl.protocol.errors import ErrorCode
from tests.impl.producer.driver import Driver, batch_of, values_of


def test_a_flush_ends_lingering_until_what_was_queued_has_ended():
    driver = Driver({("t", 0): 1, ("t", 1): 2}, linger_ms=1_000)
    driver.append()
    assert driver.poll() == ()
    assert driver.core.is_flushed
    driver.core.flush()
    assert driver.core.next_timeout_ms(driver.now_ms) == 0
    (request,) = driver.poll()
    driver.append(partition=1)
    (other,) = driver.poll()
    assert not driver.core.is_flushed
    driver.answer(request)
    assert driver.core.is_flushed
    driver.append()
    assert driver.poll() == ()
    driver.answer(other)


def test_a_flush_waits_for_all_partitions():
    driver = Driver({("t", 0): 1, ("t", 1): 2})
    requests = [driver.send(partition=partition) for partition in (0, 1)]
    driver.core.flush()
    for request in requests:
        assert not driver.core.is_flushed
        driver.answer(request)
    assert driver.core.is_flushed


def test_a_flush_of_nothing_is_over_at_once():
    driver = Driver()
    driver.core.flush()
    assert driver.core.is_flushed


def test_a_flush_waits_for_retries_and_for_parts():
    driver = Driver()
    request = driver.send(2)
    driver.core.flush()
    driver.refuse(request, ErrorCode.NOT_ENOUGH_REPLICAS)
    (request,) = driver.poll(after_ms=100)
    for _ in range(2):
        driver.refuse(request, ErrorCode.MESSAGE_TOO_LARGE)
        (request,) = driver.poll()
    assert values_of(batch_of(request)) == [b"r0"]
    driver.answer(request)
    assert not driver.core.is_flushed
    (request,) = driver.poll()
    driver.answer(request)
    assert driver.core.is_flushed


def test_a_closed_producer_sends_what_it_has_and_takes_nothing():
    driver = Driver(linger_ms=1_000)
    handle = driver.append()
    driver.core.close()
    with pytest.raises(ProducerClosedError) as refused:
        driver.append()
    assert refused.value.advice is Advice.GIVE_UP
    (request,) = driver.poll()
    assert not driver.core.is_idle
    driver.answer(request)
    assert driver.core.is_idle
    assert (handle.error, handle.offset) == (None, 0)


def test_an_aborted_producer_says_what_may_be_written():
    driver = Driver(linger_ms=1_000)
    driver.core.flush()
    sent = driver.append(100)
    driver.core.flush()
    (request,) = driver.poll()
    waiting = driver.append()
    driver.core.abort()
    assert driver.state().in_flight == ()
    assert driver.core.is_idle
    assert driver.core.is_flushed
    assert isinstance(sent.error, AbortedError)
    assert (sent.error.may_be_written, waiting.error.may_be_written) == (True, False)
    assert "the producer was closed" in str(waiting.error)
    assert sent.error.advice is Advice.GIVE_UP
    assert driver.poll() == ()
    driver.answer(request)
    driver.lose()
    assert driver.poll(after_ms=1_000) == ()
    assert driver.state().in_flight == ()
    assert driver.core._accumulator.free_bytes == 33_554_432


def test_a_closed_producer_without_records_asks_for_nothing():
    driver = Driver(initialize=False)
    driver.core.close()
    assert driver.poll() == ()
    assert driver.core.next_timeout_ms(driver.now_ms) is None
    busy = Driver(initialize=False)
    handle = busy.append()
    busy.core.close()
    busy.initialize()
    busy.answer(busy.poll()[0])
    assert handle.offset == 0
