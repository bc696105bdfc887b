"""A producer without idempotence: acks 0, 1 and all, what it retries, what it does not."""

import pytest

from impl.producer import Advice, State, UnexpectedAnswerError
from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import ApiKey
from tests.impl.producer.driver import Driver, batch_of, refusal, values_of

TOO_FEW = ErrorCode.NOT_ENOUGH_REPLICAS


def plain(leaders=None, **config):
    """No linger, idempotence off."""
    return Driver(leaders, initialize=False, enable_idempotence=False, **config)


def test_nothing_is_asked_for_and_nothing_is_numbered():
    driver = plain()
    request = driver.send(2)
    assert request.api_key == ApiKey.PRODUCE
    assert request.body["acks"] == -1
    batch = batch_of(request)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)
    driver.answer(request)
    assert driver.log() == [b"r0", b"r1"]
    assert (driver.core.producer_id, driver.core.state) == (-1, State.READY)
    assert driver.state() == plain().state()
    assert driver.core.next_timeout_ms(driver.now_ms) == 0
    assert driver.poll() == ()


@pytest.mark.parametrize("broken", [{"acks": "1"}, {"acks": "0"}, {"retries": 0}])
def test_a_broken_demand_makes_a_plain_producer(broken):
    driver = Driver(initialize=False, **broken)
    assert batch_of(driver.send()).producer_id == -1


@pytest.mark.parametrize(("acks", "wire"), [("1", 1), ("0", 0), ("all", -1)])
def test_acks_travel(acks, wire):
    assert plain(acks=acks).send().body["acks"] == wire


def test_a_lost_answer_makes_a_duplicate():
    driver = plain()
    request = driver.send()
    driver.deliver(request)
    driver.lose()
    (again,) = driver.poll(after_ms=100)
    driver.answer(again)
    assert driver.log() == [b"r0", b"r0"]


def test_a_retry_is_overtaken_by_what_was_sent_behind_it():
    driver = plain()
    first, second = driver.send(), driver.send()
    driver.refuse(first, TOO_FEW)
    driver.answer(second)
    (again,) = driver.poll(after_ms=100)
    driver.answer(again)
    assert driver.log() == [b"r1", b"r0"]


def test_one_request_in_flight_keeps_the_order():
    driver = plain(max_in_flight_requests_per_connection=1)
    first = driver.send()
    driver.append()
    assert driver.poll() == ()
    driver.refuse(first, TOO_FEW)
    assert driver.poll(after_ms=99) == ()
    sent = []
    driver.now_ms += 1
    while effects := driver.poll():
        sent.append(values_of(batch_of(effects[0])))
        driver.answer(effects[0])
    assert sent == [[b"r0"], [b"r1"]]


def test_what_failed_last_is_sent_again_first():
    """Kafka's quirk: each goes to the head of the queue, so that they change places."""
    driver = plain()
    for request in (driver.send(), driver.send()):
        driver.refuse(request, TOO_FEW)
    driver.append()
    sent = []
    driver.now_ms += 100
    while effects := driver.poll():
        sent.append(values_of(batch_of(effects[0])))
        driver.answer(effects[0])
    assert sent == [[b"r1"], [b"r0"], [b"r2"]]


def test_without_retries_the_first_refusal_is_the_last():
    driver = plain(retries=0)
    handle = driver.append()
    (request,) = driver.poll()
    driver.refuse(request, TOO_FEW)
    assert handle.error.error_code is TOO_FEW
    assert driver.poll(after_ms=1_000) == ()


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_RECORD,
    ],
)
def test_what_is_not_retriable_fails_the_batch_and_nothing_else(error):
    driver = plain()
    handle = driver.append()
    (request,) = driver.poll()
    driver.refuse(request, error, log_start_offset=0)
    assert (handle.error.error_code, handle.error.advice) == (error, Advice.ABORT)
    assert not handle.error.may_be_written
    assert (driver.core.state, driver.core.epoch_bump_required) == (State.READY, False)
    driver.answer(driver.send())
    assert driver.log() == [b"r1"]


def test_a_duplicate_of_unknown_offset_is_a_success():
    driver = plain()
    handle = driver.append()
    (request,) = driver.poll()
    driver.refuse(request, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert (handle.done, handle.offset, handle.error) == (True, -1, None)


def test_expiry_leaves_nothing_unresolved():
    driver = plain(request_timeout_ms=200, delivery_timeout_ms=200)
    driver.refuse(driver.send(), TOO_FEW)
    (again,) = driver.poll(after_ms=200)
    assert driver.state().unresolved_sequence == -1
    driver.refuse(again, TOO_FEW)
    driver.answer(driver.send())
    assert driver.log() == [b"r1"]


def test_a_batch_that_is_too_large_is_split_at_its_place():
    driver = plain()
    request = driver.send(4)
    driver.append()
    driver.refuse(request, ErrorCode.MESSAGE_TOO_LARGE)
    (part,) = driver.poll()
    driver.refuse(part, ErrorCode.MESSAGE_TOO_LARGE)
    sent = []
    while effects := driver.poll():
        sent.append(values_of(batch_of(effects[0])))
        driver.answer(effects[0])
    assert sent == [[b"r0", b"r1"], [b"r2", b"r3"], [b"r4"]]


# ---- acks=0


def test_what_is_not_answered_is_done_when_it_is_sent():
    driver = plain(acks=0)
    handle = driver.append()
    (request,) = driver.poll()
    assert not handle.done
    driver.core.confirm_sent(request.correlation_id, driver.now_ms)
    assert (handle.done, handle.offset, handle.error) == (True, -1, None)
    with pytest.raises(UnexpectedAnswerError):
        driver.core.confirm_sent(request.correlation_id, driver.now_ms)


def test_what_could_not_be_sent_is_sent_again():
    driver = plain(acks=0)
    driver.send()
    driver.lose()
    (again,) = driver.poll(after_ms=100)
    driver.core.confirm_sent(again.correlation_id, driver.now_ms)
    assert driver.poll() == ()


def test_only_requests_with_acks_0_are_complete_without_an_answer():
    silent = plain(acks=0)
    request = silent.send()
    with pytest.raises(UnexpectedAnswerError, match="acks=0"):
        silent.receive(request, refusal(request, ErrorCode.NONE))
    silent.core.confirm_sent(request.correlation_id, silent.now_ms)
    for driver in (plain(acks=1), Driver()):
        request = driver.send()
        with pytest.raises(UnexpectedAnswerError, match="awaits"):
            driver.core.confirm_sent(request.correlation_id, driver.now_ms)
        driver.answer(request)
    waiting = Driver(initialize=False)
    (init,) = waiting.poll()
    with pytest.raises(UnexpectedAnswerError, match="awaits"):
        waiting.core.confirm_sent(init.correlation_id, waiting.now_ms)
