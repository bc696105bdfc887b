"""Every error of every answer: what the producer does next, and what it tells the application."""

import pytest

from impl.client.arguments import GroupMetadata, OffsetAndMetadata
from impl.producer import (
    Advice,
    AuthorizationError,
    DeliveryError,
    FatalProducerError,
    IllegalStateError,
    OffsetsRefusedError,
    ProducerFenced,
    State,
    TransactionAbortableError,
)
from impl.producer.transaction_manager import TransactionManager
from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import ApiKey
from tests.impl.producer.driver import batch_of
from tests.impl.producer.txn_driver import NODE, TxnDriver, sent_values

E = ErrorCode
FIND, INIT = ApiKey.FIND_COORDINATOR, ApiKey.INIT_PRODUCER_ID
ADD, OFFSETS = ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN
COMMIT_OFFSETS, END, PRODUCE = ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN, ApiKey.PRODUCE
GROUP = GroupMetadata("g")
TWO = {("in", 0): OffsetAndMetadata(5), ("in", 1): OffsetAndMetadata(6)}

NO_COORDINATOR = {E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR}
FENCED = {E.INVALID_PRODUCER_EPOCH, E.PRODUCER_FENCED}
AUTHORIZATION = {E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, E.CLUSTER_AUTHORIZATION_FAILED}
NOT_A_MEMBER = {E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION}
OUTCOMES = {
    FIND: {
        "looks up": set(),
        "fenced": set(),
        "abortable": {E.GROUP_AUTHORIZATION_FAILED, E.TRANSACTION_ABORTABLE},
    },
    INIT: {
        "looks up": NO_COORDINATOR,
        "fenced": FENCED,
        "abortable": {E.TRANSACTION_ABORTABLE},
        "begins anew": AUTHORIZATION,
    },
    ADD: {
        "looks up": NO_COORDINATOR,
        "fenced": FENCED,
        "fatal": {
            E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            E.INVALID_TXN_STATE,
            E.INVALID_PRODUCER_ID_MAPPING,
        },
        "abortable": None,
    },
    OFFSETS: {
        "looks up": NO_COORDINATOR,
        "fenced": FENCED,
        "abortable": {
            E.UNKNOWN_PRODUCER_ID,
            E.GROUP_AUTHORIZATION_FAILED,
            E.TRANSACTION_ABORTABLE,
        },
    },
    COMMIT_OFFSETS: {
        "looks up": NO_COORDINATOR | {E.REQUEST_TIMED_OUT},
        "fenced": FENCED,
        "abortable": {
            E.GROUP_AUTHORIZATION_FAILED,
            E.FENCED_INSTANCE_ID,
            E.TRANSACTION_ABORTABLE,
        },
        "commit failed": NOT_A_MEMBER,
    },
    END: {
        "looks up": NO_COORDINATOR,
        "fenced": FENCED,
        "abortable": {E.UNKNOWN_PRODUCER_ID, E.TRANSACTION_ABORTABLE},
    },
}
"""By hand, from section 7.8 of the fact base; retriable errors that are not named are retried, all
others are fatal, for AddPartitionsToTxn abortable."""


def expected(api_key, error):
    rows = OUTCOMES[api_key]
    if error is E.NONE:
        return "goes on"
    for outcome, errors in rows.items():
        if errors is not None and error in errors:
            return outcome
    if error.is_retriable:
        return "retries"
    return next((outcome for outcome, errors in rows.items() if errors is None), "fatal")


def asked(api_key):
    """A driver in V1 requests whose next request is of this API, and the call it is for."""
    driver = TxnDriver(level=1, start=api_key not in (INIT, FIND))
    if api_key in (INIT, FIND):
        result = driver.core.initialize()
        if api_key is INIT:
            driver.talk(FIND)
        return driver, result
    driver.core.begin()
    if api_key in (OFFSETS, COMMIT_OFFSETS):
        result = driver.core.send_offsets(TWO, GROUP)
        if api_key is COMMIT_OFFSETS:
            driver.talk(OFFSETS)
            driver.talk(FIND)
        return driver, result
    driver.append()
    if api_key is END:
        driver.talk(ADD)
        driver.talk(PRODUCE)
    return driver, driver.core.begin_commit()


def outcome(driver, result, request):
    """What the producer does after its answer, by what can be seen of it."""
    error = result.error
    if isinstance(error, FatalProducerError):
        assert driver.core.state is State.FATAL_ERROR
        assert driver.poll() == ()
        assert driver.core.legal_calls() == ("stop",)
        assert error.advice is Advice.GIVE_UP
        return "fenced" if isinstance(error, ProducerFenced) else "fatal"
    if isinstance(error, AuthorizationError):
        driver.poll()
        assert driver.core.state is State.UNINITIALIZED
        return "begins anew"
    if driver.core.state is State.ABORTABLE_ERROR:
        driver.poll()
        assert isinstance(result.error, TransactionAbortableError)
        assert result.error.advice is Advice.ABORT
        return "commit failed" if isinstance(error, OffsetsRefusedError) else "abortable"
    if result.done or driver.core.state is State.FATAL_ERROR:
        return "goes on"
    again = driver.request_of_any_api()
    if again.api_key == request.api_key:
        assert driver.now_ms > 1_000
        return "retries"
    assert again.api_key in (FIND, INIT, PRODUCE)
    looked_up = again.body.get("key_type")
    return "looks up" if looked_up == (0 if request.api_key is COMMIT_OFFSETS else 1) else "goes on"


@pytest.mark.parametrize("api_key", OUTCOMES, ids=lambda api_key: api_key.name)
@pytest.mark.parametrize("error", list(E), ids=lambda error: error.name)
def test_what_each_error_leads_to(api_key, error):
    driver, result = asked(api_key)
    request = driver.talk(api_key, error)
    assert outcome(driver, result, request) == expected(api_key, error)


# ---- retries


@pytest.mark.parametrize("api_key", [ADD, OFFSETS, COMMIT_OFFSETS, END, INIT, FIND])
def test_a_lost_answer_is_asked_for_again(api_key):
    driver, result = asked(api_key)
    request = driver.request(api_key)
    driver.lose(request.node_id)
    if api_key is not FIND:
        driver.talk(FIND)
    before_ms = driver.now_ms
    again = driver.request(api_key)
    assert again.body == request.body
    assert again.correlation_id != request.correlation_id
    assert driver.now_ms - before_ms == 100
    assert not result.done


@pytest.mark.parametrize(("first", "backoff_ms"), [(True, 20), (False, 100)])
def test_the_first_partitions_wait_shortly_for_the_last_transaction(first, backoff_ms):
    driver = TxnDriver(level=1)
    driver.core.begin()
    driver.append()
    if not first:
        driver.talk(ADD)
        driver.talk(PRODUCE)
        driver.append(partition=1)
    for error, waits_ms in ((E.CONCURRENT_TRANSACTIONS, backoff_ms), (E.REQUEST_TIMED_OUT, 100)):
        driver.talk(ADD, error)
        before_ms = driver.now_ms
        again = driver.request(ADD)
        assert driver.now_ms - before_ms == waits_ms
        driver.answer(again, E.CONCURRENT_TRANSACTIONS)


def test_nothing_else_is_sent_while_a_request_backs_off():
    driver = TxnDriver(level=1)
    driver.core.begin()
    driver.append()
    driver.talk(ADD)
    driver.append(partition=1)
    driver.talk(ADD, E.CONCURRENT_TRANSACTIONS)
    assert driver.poll() == ()
    assert driver.poll(after_ms=99) == ()
    assert driver.core.next_timeout_ms(driver.now_ms) == 1
    driver.now_ms += 1
    driver.talk(ADD)
    assert set(sent_values(driver.talk(PRODUCE))) == {("t", 0), ("t", 1)}


def test_only_offsets_that_failed_are_committed_again():
    driver, result = asked(COMMIT_OFFSETS)
    request = driver.request(COMMIT_OFFSETS)
    rows = [
        {"partition_index": 0, "error_code": 0},
        {"partition_index": 1, "error_code": E.COORDINATOR_LOAD_IN_PROGRESS},
    ]
    driver.answer(request, topics=[{"name": "in", "partitions": rows}])
    assert not result.done
    (topic,) = driver.talk(COMMIT_OFFSETS).body["topics"]
    assert [row["partition_index"] for row in topic["partitions"]] == [1]
    assert result.done


def test_the_worst_of_several_errors_decides():
    driver, result = asked(COMMIT_OFFSETS)
    rows = [
        {"partition_index": 0, "error_code": E.NOT_COORDINATOR},
        {"partition_index": 1, "error_code": E.PRODUCER_FENCED},
    ]
    request = driver.request(COMMIT_OFFSETS)
    driver.answer(request, topics=[{"name": "in", "partitions": rows}])
    assert isinstance(result.error, ProducerFenced)


@pytest.mark.parametrize(
    ("errors", "state"),
    [
        ((E.OPERATION_NOT_ATTEMPTED, E.TOPIC_AUTHORIZATION_FAILED), State.ABORTABLE_ERROR),
        ((E.TOPIC_AUTHORIZATION_FAILED, E.NOT_COORDINATOR), State.IN_TRANSACTION),
        ((E.OPERATION_NOT_ATTEMPTED, E.INVALID_TXN_STATE), State.FATAL_ERROR),
    ],
)
def test_partitions_refused_for_different_reasons(errors, state):
    driver = TxnDriver(level=1)
    driver.core.begin()
    driver.append(partition=0)
    driver.append(partition=1)
    rows = [
        {"partition_index": index, "partition_error_code": error}
        for index, error in enumerate(errors)
    ]
    answered = [{"name": "t", "results_by_partition": rows}]
    driver.talk(ADD, results_by_topic_v3_and_below=answered)
    assert driver.core.state is state
    if state is State.ABORTABLE_ERROR:
        with pytest.raises(DeliveryError, match="TOPIC_AUTHORIZATION_FAILED"):
            driver.core.begin_commit()


# ---- abortable errors


def test_an_abort_that_fails_abortably_ends_the_producer():
    driver = TxnDriver()
    driver.in_transaction(PRODUCE)
    result = driver.core.begin_abort()
    driver.talk(END, E.TRANSACTION_ABORTABLE)
    assert isinstance(result.error, FatalProducerError)


@pytest.mark.parametrize(("version", "fatal"), [(2, True), (3, False)])
def test_unknown_to_the_coordinator(version, fatal):
    """Without KIP-360 there is no new epoch, so no way on."""
    driver = TxnDriver(level=1, versions={INIT: version})
    driver.in_transaction(ADD, PRODUCE)
    driver.core.begin_commit()
    driver.talk(END, E.UNKNOWN_PRODUCER_ID)
    assert (driver.core.state is State.FATAL_ERROR) is fatal


def test_only_the_coordinator_is_looked_up_in_an_abortable_state():
    driver = TxnDriver(level=1)
    driver.core.begin()
    driver.append()
    add = driver.request(ADD)
    driver.lose(add.node_id)
    driver.core.fail_transaction(E.MESSAGE_TOO_LARGE, "a record")
    driver.talk(FIND)
    assert driver.poll(after_ms=1_000) == ()
    driver.core.begin_abort()
    driver.talk(INIT)
    assert driver.core.state is State.READY


def test_a_batch_that_fails_while_committing_refuses_the_commit():
    driver = TxnDriver(level=2)
    handle = driver.in_transaction()
    result = driver.core.begin_commit()
    driver.talk(PRODUCE, E.INVALID_RECORD)
    driver.poll()
    assert isinstance(result.error, TransactionAbortableError)
    assert handle.error.error_code is E.INVALID_RECORD
    with pytest.raises(TransactionAbortableError):
        result.acknowledge()
    driver.core.begin_abort()
    assert not driver.talk(END).body["committed"]


@pytest.mark.parametrize("level", [1, 2])
def test_after_a_failed_batch_the_next_transaction_has_a_new_epoch(level):
    driver = TxnDriver(level=level)
    driver.core.begin()
    driver.append()
    if level == 1:
        driver.talk(ADD)
    driver.talk(PRODUCE, E.INVALID_PRODUCER_EPOCH)
    assert driver.core.state is State.ABORTABLE_ERROR
    result = driver.core.begin_abort()
    driver.talk(END)
    if level == 1:
        assert not result.done
        init = driver.talk(INIT)
        assert (init.body["producer_id"], init.body["producer_epoch"]) == (7, 0)
    assert (result.done, driver.core.state) == (True, State.READY)
    result.acknowledge()
    driver.in_transaction(*([ADD] if level == 1 else []))
    batch = batch_of(driver.talk(PRODUCE))
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)


@pytest.mark.parametrize("error", [E.CONCURRENT_TRANSACTIONS, E.COORDINATOR_NOT_AVAILABLE])
def test_the_new_epoch_is_asked_for_until_it_is_given(error):
    driver = TxnDriver(level=1)
    driver.in_transaction(ADD)
    driver.talk(PRODUCE, E.INVALID_PRODUCER_EPOCH)
    result = driver.core.begin_abort()
    driver.talk(END)
    driver.talk(INIT, error)
    if error is E.COORDINATOR_NOT_AVAILABLE:
        driver.talk(FIND)
    driver.talk(INIT)
    assert (result.done, result.error) == (True, None)


def test_an_expired_batch_takes_the_transaction_with_it():
    driver = TxnDriver(request_timeout_ms=500, delivery_timeout_ms=600)
    handle = driver.in_transaction()
    driver.request(PRODUCE)
    driver.poll(after_ms=600)
    assert handle.error.may_be_written
    with pytest.raises(TransactionAbortableError):
        driver.core.begin_commit()


@pytest.mark.parametrize("error", sorted(AUTHORIZATION))
def test_an_authorization_that_is_given_later(error):
    driver = TxnDriver(start=False)
    result = driver.core.initialize()
    driver.talk(FIND)
    driver.talk(INIT, error)
    driver.poll()
    with pytest.raises(AuthorizationError):
        result.acknowledge()
    again = driver.core.initialize()
    driver.talk(INIT)
    again.acknowledge()
    assert driver.core.state is State.READY


# ---- what a leader says of batches


@pytest.mark.parametrize(
    ("error", "log_start_offset", "outcome"),
    [
        (E.UNKNOWN_PRODUCER_ID, -1, "retried"),
        (E.UNKNOWN_PRODUCER_ID, 0, "lost"),
        (E.UNKNOWN_PRODUCER_ID, 50, "renumbered"),
        (E.OUT_OF_ORDER_SEQUENCE_NUMBER, 0, "lost"),
    ],
)
def test_lost_producer_state(error, log_start_offset, outcome):
    driver = TxnDriver(level=1)
    driver.in_transaction(ADD, PRODUCE)
    driver.append()
    request = driver.request(PRODUCE)
    row = {
        "index": 0,
        "error_code": error,
        "base_offset": -1,
        "log_start_offset": log_start_offset,
    }
    driver.answer(request, topics=[{"name": "t", "partitions": [row]}])
    if outcome == "lost":
        assert driver.core.state is State.ABORTABLE_ERROR
        return
    batch = batch_of(driver.talk(PRODUCE))
    assert (batch.producer_epoch, batch.base_sequence) == (0, 0 if outcome == "renumbered" else 1)


def test_a_follower_of_a_refused_batch_is_sent_again():
    driver = TxnDriver()
    driver.in_transaction()
    first = driver.request(PRODUCE)
    driver.append()
    second = driver.request(PRODUCE)
    driver.answer(first, E.NOT_ENOUGH_REPLICAS)
    driver.answer(second, E.OUT_OF_ORDER_SEQUENCE_NUMBER)
    for base_sequence in (0, 1):
        assert batch_of(driver.talk(PRODUCE)).base_sequence == base_sequence
    assert driver.core.state is State.IN_TRANSACTION


def test_batches_behind_a_refused_one_take_its_sequences():
    driver = TxnDriver()
    driver.in_transaction()
    first = driver.request(PRODUCE)
    driver.append(b"s")
    second = driver.request(PRODUCE)
    driver.answer(first, E.INVALID_RECORD)
    state = driver.core.partition_state("t", 0)
    assert (state.next_sequence, state.in_flight[0].base_sequence) == (1, 0)
    driver.answer(second, E.NOT_ENOUGH_REPLICAS)
    again = driver.talk(PRODUCE)
    assert sent_values(again) == {("t", 0): [b"s"]}
    assert batch_of(again).base_sequence == 0


@pytest.mark.parametrize(
    "error", [E.PRODUCER_FENCED, E.INVALID_PRODUCER_ID_MAPPING, E.UNSUPPORTED_VERSION]
)
def test_answers_to_produce_that_end_the_producer(error):
    driver = TxnDriver()
    handle = driver.in_transaction()
    driver.talk(PRODUCE, error)
    assert isinstance(handle.error, FatalProducerError)
    with pytest.raises(FatalProducerError) as raised:
        driver.core.begin_commit()
    assert isinstance(raised.value, ProducerFenced) is (error is E.PRODUCER_FENCED)
    assert driver.core.is_idle


@pytest.mark.parametrize(("version", "state"), [(3, "abortable"), (2, "fatal")])
def test_an_unknown_sequence(version, state):
    """Expired between two attempts: the log may have it or not."""
    driver = TxnDriver(
        level=1, versions={INIT: version}, request_timeout_ms=100, delivery_timeout_ms=600
    )
    driver.in_transaction(ADD)
    request = driver.request(PRODUCE)
    driver.lose(NODE)
    driver.poll(after_ms=599)
    driver.lose(NODE)
    driver.poll(after_ms=1)
    driver.poll()
    assert driver.core.state.value.startswith(state)
    assert request.node_id == NODE


def test_an_illegal_change_of_state_is_the_end():
    """KAFKA-14831: better stopped than wrong."""
    driver = TxnDriver()
    manager = driver.core._manager
    assert isinstance(manager, TransactionManager)
    driver.core.fail_transaction(E.MESSAGE_TOO_LARGE, "out of the blue")
    assert driver.core.state is State.FATAL_ERROR
    with pytest.raises(FatalProducerError, match="ready cannot become abortable error"):
        driver.core.begin()


def test_fatal_errors_fail_what_waits():
    driver = TxnDriver(level=1)
    driver.core.begin()
    offsets = driver.core.send_offsets(TWO, GROUP)
    handle = driver.append()
    driver.talk(OFFSETS, E.PRODUCER_FENCED)
    driver.poll()
    assert isinstance(offsets.error, ProducerFenced)
    assert isinstance(handle.error, ProducerFenced)
    with pytest.raises(ProducerFenced):
        driver.core.send_offsets(TWO, GROUP)


def test_an_answer_after_the_end_changes_nothing():
    driver = TxnDriver()
    driver.in_transaction()
    produce = driver.request(PRODUCE)
    driver.core.send_offsets(TWO, GROUP)
    find = driver.request(FIND)
    driver.answer(produce, E.PRODUCER_FENCED)
    driver.answer(find)
    assert driver.core.state is State.FATAL_ERROR
    assert driver.poll() == ()


def test_the_error_of_an_illegal_call_lists_the_legal_ones():
    driver = TxnDriver()
    with pytest.raises(IllegalStateError, match="legal now: begin_transaction, stop"):
        driver.core.begin_commit()
