"""Lost answers, refused batches, expiry: what is sent again, and when."""

import pytest

from impl.producer import (
    Advice,
    AuthorizationError,
    DeliveryError,
    DeliveryTimeoutError,
    Disconnect,
    FatalProducerError,
    IdempotentProducerCore,
    MalformedAnswerError,
    ProducerConfig,
    State,
    UnexpectedAnswerError,
)
from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import ApiKey
from tests.impl.producer.driver import Driver, batch_of, batches_of, refusal, values_of


def test_a_lost_answer_is_answered_as_a_duplicate():
    driver = Driver()
    handle = driver.append(3)
    (request,) = driver.poll()
    driver.deliver(request)
    driver.lose()
    assert driver.state().in_flight[0].in_retry
    assert not driver.state().in_flight[0].outstanding
    assert driver.poll(after_ms=99) == ()
    (again,) = driver.poll(after_ms=1)
    assert batch_of(again) == batch_of(request)
    driver.answer(again)
    assert handle.offset == 2
    assert driver.log() == [b"r0", b"r1", b"r2"]


def test_backoff_doubles_up_to_its_maximum():
    driver = Driver()
    request = driver.send()
    for backoff_ms in (100, 200, 400, 800, 1000, 1000):
        driver.refuse(request, ErrorCode.NOT_ENOUGH_REPLICAS)
        assert driver.poll(after_ms=backoff_ms - 1) == ()
        assert driver.core.next_timeout_ms(driver.now_ms) == 1
        (request,) = driver.poll(after_ms=1)


def test_jitter_is_injected():
    core = IdempotentProducerCore(ProducerConfig.of(linger_ms=0), jitter=lambda ms: ms * 1.2)
    driver = Driver()
    driver.core = core
    core.update_metadata({("t", 0): 1})
    driver.initialize()
    driver.refuse(driver.send(), ErrorCode.NOT_ENOUGH_REPLICAS)
    assert driver.poll(after_ms=119) == ()
    assert len(driver.poll(after_ms=1)) == 1


def test_nothing_new_passes_a_retry_that_waits():
    driver = Driver()
    driver.refuse(driver.send(), ErrorCode.NOT_ENOUGH_REPLICAS)
    driver.append()
    assert driver.poll(after_ms=50) == ()
    (again,) = driver.poll(after_ms=50)
    assert batch_of(again).base_sequence == 0
    (new,) = driver.poll()
    assert batch_of(new).base_sequence == 1


def test_a_head_that_backs_off_hides_its_partition_only():
    driver = Driver({("t", 0): 1, ("t", 1): 1})
    driver.refuse(driver.send(partition=0), ErrorCode.NOT_ENOUGH_REPLICAS)
    request = driver.send(partition=1)
    assert set(batches_of(request)) == {("t", 1)}


def test_retries_go_one_at_a_time_in_sequence_order():
    driver = Driver()
    for _ in range(3):
        driver.send()
    driver.append()
    driver.lose()
    driver.now_ms += 100
    for value in (b"r0", b"r1"):
        (request,) = driver.poll()
        assert values_of(batch_of(request)) == [value]
        assert driver.poll() == ()
        driver.answer(request)
    (last,) = driver.poll()
    (new,) = driver.poll()
    assert [values_of(batch_of(request)) for request in (last, new)] == [[b"r2"], [b"r3"]]


def test_batches_come_back_into_sequence_order_whatever_order_they_fail_in():
    driver = Driver({("t", 0): 1})
    first, second = driver.send(), driver.send()
    driver.core.update_metadata({("t", 0): 2})
    third = driver.send()
    driver.refuse(third, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    driver.refuse(first, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    driver.refuse(second, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    sent = []
    while effects := driver.poll(after_ms=100):
        sent.append(batch_of(effects[0]).base_sequence)
        driver.answer(effects[0])
    assert sent == [0, 1, 2]
    assert driver.log() == [b"r0", b"r1", b"r2"]


def test_a_new_leader_gets_the_retry_without_backoff():
    driver = Driver()
    driver.core.update_metadata({("t", 0): 1}, {("t", 0): 4})
    driver.refuse(driver.send(), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert driver.core.metadata_update_requested
    driver.core.update_metadata({("t", 0): 2}, {("t", 0): 4})
    assert driver.poll() == ()
    driver.core.update_metadata({("t", 0): 2}, {("t", 0): 5})
    (again,) = driver.poll()
    assert again.node_id == 2
    driver.refuse(again, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert driver.poll(after_ms=199) == ()
    assert len(driver.poll(after_ms=1)) == 1


@pytest.mark.parametrize(("leader", "sent_to"), [((2, 5), [2]), ((2, 4), []), ((3, 5), [])])
def test_an_answer_may_name_the_new_leader(leader, sent_to):
    """The hint counts if it names a known node with a newer epoch."""
    driver = Driver({("t", 0): 1, ("t", 1): 2})
    driver.core.update_metadata({("t", 0): 1, ("t", 1): 2}, {("t", 0): 4})
    leader_id, leader_epoch = leader
    hint = {"current_leader": {"leader_id": leader_id, "leader_epoch": leader_epoch}}
    driver.refuse(driver.send(), ErrorCode.NOT_LEADER_OR_FOLLOWER, **hint)
    assert [request.node_id for request in driver.poll()] == sent_to


def test_one_request_in_flight_mutes_its_partition_even_for_a_new_leader():
    driver = Driver(max_in_flight_requests_per_connection=1)
    first = driver.send()
    driver.core.update_metadata({("t", 0): 2})
    driver.append()
    assert driver.poll() == ()
    driver.answer(first)
    (second,) = driver.poll()
    assert second.node_id == 2


def test_a_throttled_node_is_left_alone():
    driver = Driver()
    request = driver.send()
    driver.receive(request, driver.deliver(request) | {"throttle_time_ms": 40})
    driver.append()
    assert driver.poll(after_ms=39) == ()
    assert driver.core.next_timeout_ms(driver.now_ms) == 1
    assert len(driver.poll(after_ms=1)) == 1


def test_a_duplicate_of_unknown_offset_is_a_success():
    driver = Driver()
    handle = driver.append()
    (request,) = driver.poll()
    driver.refuse(request, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert (handle.done, handle.offset, handle.error) == (True, -1, None)
    assert (driver.state().last_acked_sequence, driver.state().last_acked_offset) == (0, -1)


# ---- answers that are not accepted


def test_answers_of_a_broken_connection_are_never_accepted():
    driver = Driver()
    request = driver.send()
    late = driver.deliver(request)
    driver.lose()
    before = driver.state()
    with pytest.raises(UnexpectedAnswerError):
        driver.receive(request, late)
    assert driver.state() == before


def test_answers_come_in_the_order_of_requests():
    driver = Driver()
    first, second = driver.send(), driver.send()
    answers = [driver.deliver(first), driver.deliver(second)]
    before = driver.state()
    with pytest.raises(UnexpectedAnswerError, match="must answer"):
        driver.receive(second, answers[1])
    assert driver.state() == before
    driver.receive(first, answers[0])
    driver.receive(second, answers[1])
    with pytest.raises(UnexpectedAnswerError, match="no request in flight"):
        driver.receive(second, answers[1])


@pytest.mark.parametrize(
    "topics",
    [
        [],
        [{"name": "t", "partitions": [{"index": 1, "error_code": 0, "base_offset": 0}]}],
        [{"name": "t", "partitions": [{"index": 0, "error_code": 0, "base_offset": 0}] * 2}],
    ],
)
def test_an_answer_must_name_the_partitions_of_its_request(topics):
    driver = Driver()
    request = driver.send()
    before = driver.state()
    with pytest.raises(MalformedAnswerError):
        driver.receive(request, {"topics": topics})
    assert driver.state() == before
    driver.answer(request)


def test_an_overdue_answer_closes_the_connection():
    driver = Driver()
    first, second = driver.send(), driver.send()
    assert driver.poll(after_ms=30_000) == ()
    assert driver.poll(after_ms=1) == (Disconnect(1),)
    assert [b.outstanding for b in driver.state().in_flight] == [False, False]
    assert driver.core.metadata_update_requested
    for request in (first, second):
        with pytest.raises(UnexpectedAnswerError):
            driver.receive(request, refusal(request, ErrorCode.NONE))
    (again,) = driver.poll(after_ms=100)
    assert batch_of(again).base_sequence == 0


def test_an_unknown_node_may_disconnect():
    driver = Driver()
    driver.lose(node_id=9)
    assert driver.poll() == ()


# ---- failures


def test_a_definite_refusal_fails_the_batch_and_bumps():
    driver = Driver()
    handle = driver.append()
    (request,) = driver.poll()
    driver.refuse(request, ErrorCode.INVALID_RECORD, error_message="no key")
    assert isinstance(handle.error, DeliveryError)
    assert handle.error.error_code is ErrorCode.INVALID_RECORD
    assert (handle.error.advice, handle.error.may_be_written) == (Advice.ABORT, False)
    assert str(handle.error) == "1 record(s) for t-0: INVALID_RECORD, no key"
    assert driver.core.epoch_bump_required
    assert batch_of(driver.send()).producer_epoch == 1


def test_exhausted_retries_leave_the_sequence_used():
    driver = Driver(retries=1)
    handle = driver.append()
    (request,) = driver.poll()
    driver.refuse(request, ErrorCode.NOT_ENOUGH_REPLICAS)
    (request,) = driver.poll(after_ms=100)
    driver.refuse(request, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert handle.error.may_be_written
    assert not driver.core.epoch_bump_required
    assert batch_of(driver.send()).base_sequence == 1


def test_an_unknown_error_code_is_an_unknown_server_error():
    driver = Driver()
    handle = driver.append()
    (request,) = driver.poll()
    answer = refusal(request, ErrorCode.NONE)
    answer["topics"][0]["partitions"][0]["error_code"] = 9_999
    driver.receive(request, answer)
    assert handle.error.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert handle.error.may_be_written


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ],
)
def test_a_fatal_refusal_ends_the_producer(error):
    driver = Driver()
    requests = [driver.send(), driver.send()]
    waiting = driver.append()
    driver.refuse(requests[0], error)
    assert driver.core.state is State.FATAL_ERROR
    with pytest.raises(FatalProducerError) as refused:
        driver.append()
    assert refused.value.advice is Advice.GIVE_UP
    assert driver.poll() == ()
    assert isinstance(waiting.error, FatalProducerError)
    assert not waiting.error.may_be_written
    driver.answer(requests[1])
    assert driver.poll() == ()
    assert driver.state().in_flight == ()


def test_expiry_of_a_batch_that_was_never_sent_leaves_no_trace():
    driver = Driver()
    driver.core.update_metadata({})
    handle = driver.append()
    assert driver.poll(after_ms=119_999) == ()
    assert not handle.done
    driver.poll(after_ms=1)
    assert isinstance(handle.error, DeliveryTimeoutError)
    assert not handle.error.may_be_written
    assert str(handle.error).startswith(
        "1 record(s) for t-0: not acknowledged within 120000 ms of its creation; it was never sent"
    )
    driver.core.update_metadata({("t", 0): 1})
    assert batch_of(driver.send()).base_sequence == 0


def test_expiry_on_the_first_attempt_resolves_nothing():
    """Kafka's quirk: the partition is not unresolved although the leader may have the batch."""
    driver = Driver(request_timeout_ms=200, delivery_timeout_ms=200)
    handle = driver.append()
    (request,) = driver.poll()
    driver.poll(after_ms=200)
    assert handle.error.may_be_written
    assert "no answer has come" in str(handle.error)
    assert driver.state().unresolved_sequence == -1
    follower = driver.send()
    assert batch_of(follower).base_sequence == 1
    driver.answer(request)
    assert driver.state().last_acked_sequence == 0
    driver.answer(follower)
    assert driver.log() == [b"r0", b"r1"]


def expired_in_retry(driver):
    """A batch that the leader has, of which the producer gave up while it waited for its retry."""
    request = driver.send()
    driver.deliver(request)
    driver.now_ms += 150
    driver.lose()
    return request


def test_a_late_record_names_the_refusal_of_its_last_attempt():
    driver = Driver(request_timeout_ms=200, delivery_timeout_ms=200)
    handle = driver.append()
    (request,) = driver.poll()
    driver.now_ms += 150
    driver.refuse(request, ErrorCode.NOT_ENOUGH_REPLICAS)
    driver.poll(after_ms=50)
    assert "its last attempt ended with NOT_ENOUGH_REPLICAS" in str(handle.error)


def test_expiry_in_retry_holds_new_batches_until_a_bump():
    driver = Driver(request_timeout_ms=200, delivery_timeout_ms=200)
    expired_in_retry(driver)
    driver.poll(after_ms=50)
    assert driver.state().unresolved_sequence == 1
    assert driver.state().in_flight == ()
    driver.append()
    (request,) = driver.poll()
    assert (batch_of(request).producer_epoch, batch_of(request).base_sequence) == (1, 0)
    assert driver.state().unresolved_sequence == -1
    driver.answer(request)
    assert driver.log() == [b"r0", b"r1"]


def test_an_acknowledged_follower_resolves_an_expired_batch():
    driver = Driver(request_timeout_ms=200, delivery_timeout_ms=200)
    first = driver.send()
    driver.deliver(first)
    driver.now_ms += 80
    second = driver.send()
    driver.deliver(second)
    driver.now_ms += 70
    driver.lose()
    assert driver.poll(after_ms=50) == ()
    assert driver.state().unresolved_sequence == 1
    driver.append()
    (again,) = driver.poll(after_ms=50)
    assert batch_of(again) == batch_of(second)
    assert driver.poll() == ()
    driver.answer(again)
    (new,) = driver.poll()
    assert (batch_of(new).producer_epoch, batch_of(new).base_sequence) == (0, 2)
    assert driver.state().unresolved_sequence == -1


def test_a_follower_of_a_batch_that_never_arrived_bumps():
    driver = Driver(request_timeout_ms=600, delivery_timeout_ms=600)
    driver.answer(driver.send())
    driver.send()
    driver.now_ms += 450
    driver.send()
    driver.now_ms += 100
    driver.lose()
    assert driver.poll(after_ms=50) == ()
    assert driver.state().unresolved_sequence == 2
    (follower,) = driver.poll(after_ms=50)
    driver.answer(follower)
    assert driver.core.epoch_bump_required
    (again,) = driver.poll(after_ms=200)
    assert (batch_of(again).producer_epoch, batch_of(again).base_sequence) == (1, 0)
    driver.answer(again)
    assert driver.log() == [b"r0", b"r2"]


def test_a_batch_can_be_sent_and_expire_in_the_same_poll():
    """Kafka's quirk: it drains before it expires."""
    driver = Driver(request_timeout_ms=200, delivery_timeout_ms=200)
    handle = driver.append()
    (request,) = driver.poll(after_ms=200)
    assert handle.done
    assert driver.state().in_flight == ()
    assert driver.state().next_sequence == 1
    driver.answer(request)
    assert isinstance(handle.error, DeliveryTimeoutError)
    assert driver.state().last_acked_sequence == 0


def test_a_late_refusal_of_an_expired_batch_is_ignored():
    driver = Driver(request_timeout_ms=200, delivery_timeout_ms=200)
    request = driver.send()
    driver.poll(after_ms=200)
    driver.refuse(request, ErrorCode.INVALID_RECORD)
    assert not driver.core.epoch_bump_required


def test_memory_of_an_expired_batch_is_kept_until_its_answer():
    driver = Driver(
        request_timeout_ms=200, delivery_timeout_ms=200, batch_size=100, buffer_memory=100
    )
    request = driver.send()
    driver.poll(after_ms=200)
    with pytest.raises(Exception, match="0 are free"):
        driver.append()
    driver.answer(request)
    driver.append()


# ---- the producer id


def refuse_init(driver, error):
    (request,) = driver.poll()
    assert request.api_key == ApiKey.INIT_PRODUCER_ID
    driver.core.receive(request.correlation_id, {"error_code": int(error)}, driver.now_ms)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    ],
)
def test_a_retriable_refusal_of_the_producer_id_is_asked_again_after_a_backoff(error):
    driver = Driver(initialize=False)
    refuse_init(driver, error)
    assert driver.poll(after_ms=99) == ()
    assert driver.core.next_timeout_ms(driver.now_ms) == 1
    driver.now_ms += 1
    driver.initialize()
    assert driver.core.state is State.READY


def test_a_lost_answer_to_init_producer_id_is_asked_again():
    driver = Driver(initialize=False)
    driver.poll()
    driver.lose()
    assert driver.poll(after_ms=99) == ()
    driver.now_ms += 1
    driver.initialize()
    assert driver.core.producer_id == 7


def test_without_authorization_batches_fail_and_the_id_is_asked_again():
    driver = Driver(initialize=False)
    handle = driver.append()
    refuse_init(driver, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(AuthorizationError):
        driver.append()
    assert driver.poll() == ()
    assert isinstance(handle.error, AuthorizationError)
    assert handle.error.advice is Advice.RETRY
    assert driver.core.next_timeout_ms(driver.now_ms) == 0
    driver.initialize()
    driver.answer(driver.send())
    assert driver.log() == [b"r1"]


def test_any_other_refusal_of_the_producer_id_is_fatal():
    driver = Driver(initialize=False)
    refuse_init(driver, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert driver.core.state is State.FATAL_ERROR
    assert driver.poll() == ()


def test_the_producer_id_comes_from_the_least_loaded_node():
    driver = Driver({("t", 0): 1, ("t", 1): 2}, producer_epoch=32_767)
    request = driver.send()
    driver.append(partition=1)
    driver.poll()
    driver.send(partition=1)
    driver.refuse(request, ErrorCode.INVALID_RECORD)
    (init,) = driver.poll()
    assert (init.api_key, init.node_id) == (ApiKey.INIT_PRODUCER_ID, 1)


def test_without_any_node_metadata_is_wanted_before_the_producer_id():
    driver = Driver({}, initialize=False)
    assert driver.poll() == ()
    assert driver.core.metadata_update_requested
    driver.core.update_metadata({("t", 0): 3})
    (init,) = driver.poll()
    assert init.node_id == 3


def test_the_same_calls_give_the_same_effects():
    def run():
        driver = Driver({("t", 0): 1, ("t", 1): 2})
        effects = []
        for _ in range(4):
            driver.append(partition=0)
            driver.append(2, partition=1)
            effects += driver.poll(after_ms=3)
        driver.lose(1)
        effects += driver.poll(after_ms=100)
        return effects

    assert run() == run()
    assert {tp for request in run() for tp in batches_of(request)} == {("t", 0), ("t", 1)}
