"""Every answer to Produce and to InitProducerId, each with what an idempotent producer does."""

import pytest

from impl.producer import State
from impl.protocol.errors import ErrorCode, Retry
from tests.impl.producer.driver import Driver

E = ErrorCode

SUCCESS = {E.NONE, E.DUPLICATE_SEQUENCE_NUMBER}
BUMPS_AND_RETRIES = {E.OUT_OF_ORDER_SEQUENCE_NUMBER, E.UNKNOWN_PRODUCER_ID}
"""Of the batch next in line, with the start of the log known."""

FAILURES = {
    E.CLUSTER_AUTHORIZATION_FAILED,
    E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    E.PRODUCER_FENCED,
    E.UNSUPPORTED_VERSION,
    E.INVALID_PRODUCER_ID_MAPPING,
}
RETRIED = {
    E.CORRUPT_MESSAGE,
    E.UNKNOWN_TOPIC_OR_PARTITION,
    E.LEADER_NOT_AVAILABLE,
    E.NOT_LEADER_OR_FOLLOWER,
    E.REQUEST_TIMED_OUT,
    E.REPLICA_NOT_AVAILABLE,
    E.NETWORK_EXCEPTION,
    E.COORDINATOR_LOAD_IN_PROGRESS,
    E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_COORDINATOR,
    E.NOT_ENOUGH_REPLICAS,
    E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    E.CONCURRENT_TRANSACTIONS,
    E.KAFKA_STORAGE_ERROR,
    E.PREFERRED_LEADER_NOT_AVAILABLE,
    E.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    E.ELECTION_NOT_NEEDED,
    E.FENCED_LEADER_EPOCH,
    E.FETCH_SESSION_ID_NOT_FOUND,
    E.INVALID_FETCH_SESSION_EPOCH,
    E.FETCH_SESSION_TOPIC_ID_ERROR,
    E.UNKNOWN_LEADER_EPOCH,
    E.UNSTABLE_OFFSET_COMMIT,
    E.UNKNOWN_TOPIC_ID,
    E.INCONSISTENT_TOPIC_ID,
}
FAILS_AND_BUMPS = set(E) - SUCCESS - BUMPS_AND_RETRIES - FAILURES - RETRIED
"""Among them INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, TRANSACTION_ABORTABLE."""


def answered(error):
    driver = Driver()
    handle = driver.append()
    (request,) = driver.poll()
    driver.core.metadata_update_requested = False
    driver.refuse(request, error, log_start_offset=0)
    return driver, handle


def shape(driver, handle):
    """(done, failed, waits for a retry, bump wanted, state)."""
    in_retry = [batch.in_retry for batch in driver.state().in_flight]
    return (
        handle.done,
        handle.error is not None,
        in_retry == [True],
        driver.core.epoch_bump_required,
        driver.core.state,
    )


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        (SUCCESS, (True, False, False, False, State.READY)),
        (RETRIED, (False, False, True, False, State.READY)),
        (BUMPS_AND_RETRIES, (False, False, True, True, State.READY)),
        (FAILS_AND_BUMPS, (True, True, False, True, State.READY)),
        (FAILURES, (True, True, False, False, State.FATAL_ERROR)),
    ],
    ids=["success", "retried", "bumps and retries", "fails and bumps", "ends"],
)
def test_answers_to_produce(errors, expected):
    assert {E.INVALID_PRODUCER_EPOCH, E.INVALID_TXN_STATE} <= FAILS_AND_BUMPS
    shapes = {error: shape(*answered(error)) for error in errors}
    assert shapes == dict.fromkeys(errors, expected)


@pytest.mark.parametrize("error", RETRIED)
def test_some_answers_ask_for_metadata_first(error):
    driver, _ = answered(error)
    assert driver.core.metadata_update_requested == (error.retry is Retry.REFRESH_THEN_RETRY)


@pytest.mark.parametrize(
    "error", [E.NOT_ENOUGH_REPLICAS, E.OUT_OF_ORDER_SEQUENCE_NUMBER, E.UNKNOWN_PRODUCER_ID]
)
def test_nothing_is_retried_past_the_delivery_timeout(error):
    """The answer arrives in the moment in which the batch is too old, before it is expired."""
    driver = Driver(request_timeout_ms=200, delivery_timeout_ms=200)
    handle = driver.append()
    (request,) = driver.poll()
    driver.now_ms += 200
    driver.refuse(request, error, log_start_offset=0)
    assert handle.error.error_code is error
    assert driver.state().in_flight == ()
    assert driver.core.epoch_bump_required


@pytest.mark.parametrize(
    ("last_acked_offset", "log_start_offset"), [(-1, 0), (0, 0), (0, 1), (0, 5)]
)
def test_a_deleted_head_of_the_log_makes_no_difference_without_transactions(
    last_acked_offset, log_start_offset
):
    driver = Driver()
    if last_acked_offset == 0:
        driver.answer(driver.send())
    driver.refuse(driver.send(), E.UNKNOWN_PRODUCER_ID, log_start_offset=log_start_offset)
    assert driver.state().last_acked_offset == last_acked_offset
    assert driver.core.epoch_bump_required
    assert driver.state().in_flight[0].in_retry


INIT_RETRIED = {error for error in E if error.is_retriable}
INIT_AGAIN = {E.CLUSTER_AUTHORIZATION_FAILED, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}


@pytest.mark.parametrize(
    ("errors", "state"),
    [
        ({E.NONE}, State.READY),
        (INIT_RETRIED, State.INITIALIZING),
        (INIT_AGAIN, State.ABORTABLE_ERROR),
        (set(E) - INIT_RETRIED - INIT_AGAIN - {E.NONE}, State.FATAL_ERROR),
    ],
    ids=["success", "retried", "asked again", "fatal"],
)
def test_answers_to_init_producer_id(errors, state):
    reached = {}
    for error in errors:
        driver = Driver(initialize=False)
        (request,) = driver.poll()
        body = {"error_code": int(error), "producer_id": 7, "producer_epoch": 0}
        driver.core.receive(request.correlation_id, body, driver.now_ms)
        reached[error] = driver.core.state
    assert reached == dict.fromkeys(errors, state)
