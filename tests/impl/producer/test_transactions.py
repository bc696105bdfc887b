"""One transaction after the other: which requests leave, in which order, with what in them."""

import pytest

from impl.client.arguments import GroupMetadata, OffsetAndMetadata
from impl.producer import (
    IllegalStateError,
    InvalidArgumentError,
    KafkaTimeoutError,
    MalformedAnswerError,
    ProducerClosedError,
    RecordTooLargeError,
    State,
    TooManyPartitionsError,
    TransactionAbortableError,
    TransactionAbortedError,
)
from impl.protocol.errors import ErrorCode
from impl.protocol.messages import decode_request, encode_request
from impl.protocol.schemas import ApiKey
from tests.impl.producer.driver import batch_of
from tests.impl.producer.txn_driver import COORDINATOR, NODE, TxnDriver, sent_values

FIND, INIT = ApiKey.FIND_COORDINATOR, ApiKey.INIT_PRODUCER_ID
ADD, OFFSETS = ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN
COMMIT_OFFSETS, END, PRODUCE = ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN, ApiKey.PRODUCE
GROUP = GroupMetadata("g")
WHERE = {("in", 0): OffsetAndMetadata(5)}
V1, V2 = 1, 2


def identity(request):
    return request.body["producer_id"], request.body["producer_epoch"]


# ---- initialization


def test_the_coordinator_is_found_then_the_producer_id_asked_for():
    driver = TxnDriver(start=False)
    assert driver.core.state is State.UNINITIALIZED
    result = driver.core.initialize()
    find = driver.talk(FIND)
    assert find.body["coordinator_keys"] == ["T"]
    assert find.body["key_type"] == 1
    init = driver.talk(INIT)
    assert init.node_id == COORDINATOR
    assert init.body["transactional_id"] == "T"
    assert init.body["transaction_timeout_ms"] == 60_000
    assert identity(init) == (-1, -1)
    assert (result.done, result.error) == (True, None)
    assert driver.core.state is State.READY
    assert (driver.core.producer_id, driver.core.producer_epoch) == (7, 0)
    assert driver.poll() == ()


@pytest.mark.parametrize(
    ("version", "asked"),
    [(3, {"key": "T", "coordinator_keys": []}), (4, {"key": "", "coordinator_keys": ["T"]})],
)
def test_old_and_new_forms_of_find_coordinator(version, asked):
    driver = TxnDriver(start=False, versions={FIND: version})
    driver.core.initialize()
    find = driver.talk(FIND)
    _, heard = decode_request(encode_request(FIND, find.api_version, 1, "client", find.body))
    assert (find.api_version, heard) == (version, asked | {"key_type": 1})
    assert driver.request(INIT).node_id == COORDINATOR


def test_without_a_known_node_metadata_is_asked_for():
    driver = TxnDriver(start=False)
    driver.core.update_nodes([])
    driver.core.metadata_update_requested = False
    driver.core.initialize()
    assert driver.poll() == ()
    assert driver.core.metadata_update_requested
    driver.core.update_nodes([NODE])
    assert driver.request(FIND).node_id == NODE


# ---- a transaction, V2


def test_v2_adds_by_producing_and_ends_with_the_next_epoch():
    driver = TxnDriver(level=V2)
    driver.core.begin()
    handle = driver.append(b"a")
    produce = driver.talk(PRODUCE)
    assert (produce.api_version, produce.body["transactional_id"]) == (12, "T")
    batch = batch_of(produce)
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 0, 0)
    result = driver.core.begin_commit()
    end = driver.talk(END)
    assert (end.api_version, end.body["committed"], identity(end)) == (5, True, (7, 0))
    assert (result.done, result.error, handle.offset) == (True, None, 10)
    assert (driver.core.state, driver.core.producer_epoch) == (State.READY, 1)
    result.acknowledge()
    driver.in_transaction()
    batch = batch_of(driver.talk(PRODUCE))
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)


def test_v2_keeps_the_sequences_of_one_transaction_only():
    driver = TxnDriver(level=V2, max_partitions=1)
    driver.in_transaction(PRODUCE)
    driver.core.begin_commit()
    driver.talk(END)
    driver.core.begin_commit().acknowledge()
    driver.core.begin()
    driver.append(partition=1)
    assert batch_of(driver.talk(PRODUCE)).base_sequence == 0
    with pytest.raises(TooManyPartitionsError):
        driver.append(partition=0)
    assert driver.core.state is State.ABORTABLE_ERROR


def test_v2_an_exhausted_epoch_brings_another_producer_id():
    driver = TxnDriver(level=V2)
    driver.in_transaction(PRODUCE)
    driver.core.begin_commit()
    driver.talk(END, producer_id=8, producer_epoch=0)
    assert (driver.core.producer_id, driver.core.producer_epoch) == (8, 0)


def test_v2_offsets_go_straight_to_the_group():
    driver = TxnDriver(level=V2)
    driver.core.begin()
    result = driver.core.send_offsets(WHERE, GroupMetadata("g", 3, "m", "i"))
    find = driver.talk(FIND)
    assert (find.body["coordinator_keys"], find.body["key_type"]) == (["g"], 0)
    commit = driver.talk(COMMIT_OFFSETS)
    assert commit.api_version == 5
    assert commit.body["group_id"] == "g"
    assert (commit.body["generation_id"], commit.body["member_id"]) == (3, "m")
    assert commit.body["topics"][0]["partitions"][0]["committed_offset"] == 5
    assert (result.done, result.error) == (True, None)
    driver.core.begin_commit()
    assert driver.talk(END).body["committed"]


# ---- a transaction, V1


def test_v1_adds_partitions_before_the_first_produce_to_each():
    driver = TxnDriver(level=V1)
    driver.core.begin()
    driver.append(b"a", 0)
    driver.append(b"b", 1)
    add = driver.talk(ADD)
    assert add.api_version == 3
    assert add.body["v3_and_below_topics"] == [{"name": "t", "partitions": [0, 1]}]
    produce = driver.talk(PRODUCE)
    assert produce.api_version == 11
    assert sent_values(produce) == {("t", 0): [b"a"], ("t", 1): [b"b"]}
    driver.append(b"c", 0)
    assert sent_values(driver.talk(PRODUCE)) == {("t", 0): [b"c"]}
    result = driver.core.begin_commit()
    assert driver.talk(END).api_version == 4
    result.acknowledge()
    assert (driver.core.state, driver.core.producer_epoch) == (State.READY, 0)


def test_v1_keeps_epoch_and_sequences_and_adds_again():
    driver = TxnDriver(level=V1)
    driver.in_transaction(ADD, PRODUCE)
    driver.core.begin_commit()
    driver.talk(END)
    driver.core.begin_commit().acknowledge()
    driver.in_transaction(ADD)
    batch = batch_of(driver.talk(PRODUCE))
    assert (batch.producer_epoch, batch.base_sequence) == (0, 1)


def test_v1_a_batch_waits_until_its_partition_is_added():
    driver = TxnDriver(level=V1)
    driver.core.begin()
    driver.append()
    add = driver.request(ADD)
    assert driver.poll() == ()
    driver.append(partition=1)
    driver.answer(add)
    assert driver.core.partitions == {("t", 0)}
    assert driver.talk(ADD).body["v3_and_below_topics"] == [{"name": "t", "partitions": [1]}]
    assert set(sent_values(driver.talk(PRODUCE))) == {("t", 0), ("t", 1)}


def test_a_batch_outside_the_transaction_is_never_drained():
    driver = TxnDriver(level=V1)
    driver.core.begin()
    driver.append()
    manager = driver.core._manager
    (batch,) = driver.core._accumulator.take_unsequenced()
    assert manager.stops_drain(batch, manager.entry(("t", 0)))
    driver.talk(ADD)
    assert not manager.stops_drain(batch, manager.entry(("t", 0)))


def test_v1_partitions_of_a_commit_are_added_before_it():
    driver = TxnDriver(level=V1)
    driver.core.begin()
    driver.append()
    driver.core.begin_commit()
    driver.talk(ADD)
    driver.talk(PRODUCE)
    driver.talk(END)
    assert driver.core.state is State.READY


@pytest.mark.parametrize("remembers", [False, True])
def test_v1_offsets_are_added_then_committed(remembers):
    driver = TxnDriver(level=V1, remember_groups=remembers)
    driver.core.begin()
    result = driver.core.send_offsets(WHERE, GROUP)
    add = driver.talk(OFFSETS)
    assert (add.api_version, add.body["group_id"]) == (4, "g")
    assert not result.done
    driver.talk(FIND)
    assert driver.talk(COMMIT_OFFSETS).api_version == 4
    assert result.done
    driver.core.send_offsets(WHERE, GROUP)
    if not remembers:
        driver.talk(OFFSETS)
    driver.talk(COMMIT_OFFSETS)


def test_groups_are_remembered_for_one_transaction():
    driver = TxnDriver(level=V1, remember_groups=True)
    for finds in ([FIND], []):
        driver.core.begin()
        driver.core.send_offsets(WHERE, GROUP)
        for api_key in (OFFSETS, *finds, COMMIT_OFFSETS):
            driver.talk(api_key)
        driver.core.begin_commit()
        driver.talk(END)
        driver.core.begin_commit().acknowledge()


def test_a_generation_has_a_member():
    driver = TxnDriver()
    driver.core.begin()
    with pytest.raises(InvalidArgumentError, match="member_id"):
        driver.core.send_offsets(WHERE, GroupMetadata("g", generation_id=1))
    assert driver.core.state is State.IN_TRANSACTION


def test_no_offsets_are_no_request():
    driver = TxnDriver()
    driver.core.begin()
    assert driver.core.send_offsets({}, GROUP).done
    assert driver.poll() == ()


# ---- the end waits, or is not needed


@pytest.mark.parametrize("level", [V1, V2])
@pytest.mark.parametrize("end", ["begin_commit", "begin_abort"])
def test_the_end_of_an_empty_transaction_is_not_sent(level, end):
    driver = TxnDriver(level=level)
    driver.core.begin()
    result = getattr(driver.core, end)()
    assert driver.poll() == ()
    assert (result.done, result.error, driver.core.state) == (True, None, State.READY)


@pytest.mark.parametrize("committed", [True, False])
def test_end_txn_waits_for_every_batch(committed):
    driver = TxnDriver()
    driver.in_transaction()
    produce = driver.request(PRODUCE)
    (driver.core.begin_commit if committed else driver.core.begin_abort)()
    assert driver.poll() == ()
    driver.answer(produce, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert driver.talk(PRODUCE) is not produce
    assert driver.talk(END).body["committed"] is committed


def test_a_commit_does_not_linger():
    driver = TxnDriver(linger_ms=5_000)
    driver.in_transaction()
    assert driver.poll() == ()
    driver.core.begin_commit()
    assert driver.poll() != ()


def test_an_abort_takes_back_what_has_not_left():
    driver = TxnDriver(max_in_flight_requests_per_connection=1)
    sent = driver.in_transaction()
    produce = driver.request(PRODUCE)
    unsent = driver.append(b"s")
    driver.core.begin_abort()
    assert driver.poll() == ()
    assert isinstance(unsent.error, TransactionAbortedError)
    assert not unsent.error.may_be_written
    driver.answer(produce)
    assert sent.error is None
    assert not driver.talk(END).body["committed"]


def test_an_abort_leaves_batches_that_wait_for_a_retry():
    driver = TxnDriver()
    driver.in_transaction()
    driver.talk(PRODUCE, ErrorCode.NOT_ENOUGH_REPLICAS)
    unsent = driver.append(b"s")
    driver.core.begin_abort()
    assert sent_values(driver.talk(PRODUCE)) == {("t", 0): [b"r"]}
    assert unsent.done
    driver.talk(END)


def test_v1_an_abort_forgets_partitions_that_were_not_added():
    driver = TxnDriver(level=V1)
    driver.core.begin()
    driver.append()
    driver.core.begin_abort()
    assert driver.poll() == ()
    assert driver.core.state is State.READY


# ---- from V1 to V2 and back


def test_a_move_to_v2_takes_a_new_epoch_behind_the_old_transaction():
    driver = TxnDriver(level=V1)
    driver.in_transaction(ADD, PRODUCE)
    driver.core.update_level(V2)
    assert not driver.core.is_v2
    result = driver.core.begin_commit()
    assert driver.talk(END).api_version == 4
    assert not result.done
    assert driver.core.state is State.INITIALIZING
    init = driver.talk(INIT)
    assert identity(init) == (7, 0)
    assert (result.done, driver.core.state) == (True, State.READY)
    result.acknowledge()
    driver.in_transaction()
    batch = batch_of(driver.talk(PRODUCE))
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)


def test_a_move_back_to_v1_counts_from_the_next_transaction():
    driver = TxnDriver(level=V2)
    driver.in_transaction(PRODUCE)
    driver.core.update_level(V1)
    driver.core.begin_commit()
    assert driver.talk(END).api_version == 5
    assert not driver.core.is_v2
    driver.core.begin_commit().acknowledge()
    driver.in_transaction(ADD)


@pytest.mark.parametrize(("option", "level", "is_v2"), [("v1", V2, False), ("v2", V1, True)])
def test_the_option_overrides_what_the_cluster_announces(option, level, is_v2):
    driver = TxnDriver(level=level, transaction_requests=option)
    assert driver.core.is_v2 is is_v2
    driver.in_transaction()
    driver.request(PRODUCE if is_v2 else ADD)


# ---- calls in the wrong place


@pytest.mark.parametrize(
    ("prepare", "illegal", "legal"),
    [
        (["unstarted"], "begin append send_offsets begin_commit begin_abort", "start"),
        ([], "initialize append send_offsets begin_commit begin_abort", "begin_transaction"),
        (["begin"], "initialize begin", "send"),
    ],
)
def test_a_call_in_the_wrong_state_changes_nothing(prepare, illegal, legal):
    driver = TxnDriver(start="unstarted" not in prepare)
    if "begin" in prepare:
        driver.core.begin()
    before = driver.core.state
    for name in illegal.split():
        with pytest.raises(IllegalStateError) as raised:
            call(driver, name)
        assert legal in raised.value.legal_calls
        assert driver.core.state is before
    assert driver.poll() == ()
    assert driver.core.is_idle


def call(driver, name):
    if name == "append":
        return driver.append()
    if name == "send_offsets":
        return driver.core.send_offsets(WHERE, GROUP)
    return getattr(driver.core, name)()


def test_an_unacknowledged_call_is_repeated_first():
    driver = TxnDriver()
    driver.in_transaction(PRODUCE)
    result = driver.core.begin_commit()
    assert driver.core.begin_commit() is result
    assert driver.core.legal_calls() == ("commit_transaction", "stop")
    for name in ("begin", "begin_abort", "append", "send_offsets", "initialize"):
        with pytest.raises(IllegalStateError):
            call(driver, name)
    driver.talk(END)
    with pytest.raises(IllegalStateError):
        driver.core.begin()
    assert driver.core.begin_commit() is result
    result.acknowledge()
    driver.core.begin()


# ---- a record that is refused before it is queued


def test_a_record_too_large_makes_the_transaction_fail():
    """KAFKA-9279: a commit holds all that was sent."""
    driver = TxnDriver(level=V2, max_request_size=200)
    kept = driver.in_transaction()
    with pytest.raises(RecordTooLargeError):
        driver.append(b"x" * 300)
    assert driver.core.state is State.ABORTABLE_ERROR
    with pytest.raises(TransactionAbortableError) as refused:
        driver.core.begin_commit()
    assert refused.value.legal_calls == ("abort_transaction", "stop")
    driver.core.begin_abort()
    assert not driver.talk(END).body["committed"]
    assert isinstance(kept.error, TransactionAbortedError)


def test_a_driver_can_fail_the_transaction():
    driver = TxnDriver()
    driver.in_transaction(PRODUCE)
    driver.core.fail_transaction(ErrorCode.REQUEST_TIMED_OUT, "no metadata in time")
    with pytest.raises(TransactionAbortableError, match="no metadata in time"):
        driver.append()
    driver.core.begin_abort()
    assert not driver.talk(END).body["committed"]
    driver.core.begin_abort().acknowledge()
    driver.core.begin()


# ---- the end of the producer


@pytest.mark.parametrize("level", [V1, V2])
def test_closing_sends_what_is_queued_and_aborts(level):
    driver = TxnDriver(level=level)
    handle = driver.in_transaction()
    driver.core.close()
    with pytest.raises(ProducerClosedError):
        driver.append()
    if level == V1:
        driver.talk(ADD)
    driver.talk(PRODUCE)
    assert not driver.core.is_idle
    assert not driver.talk(END).body["committed"]
    assert driver.core.is_idle
    assert handle.offset == 10


def test_closing_waits_for_a_commit_under_way():
    driver = TxnDriver()
    driver.in_transaction()
    result = driver.core.begin_commit()
    driver.core.close()
    driver.talk(PRODUCE)
    assert driver.talk(END).body["committed"]
    assert result.done
    assert driver.core.is_idle


def test_abort_gives_up_everything_at_once():
    driver = TxnDriver()
    handle = driver.in_transaction()
    result = driver.core.begin_commit()
    driver.core.abort()
    assert handle.done
    assert result.error is not None
    assert driver.poll() == ()


def test_a_timeout_is_a_producer_error_of_its_own():
    assert KafkaTimeoutError("x").advice.value == "retry"


# ---- answers that are none


def test_an_answer_about_other_partitions_is_refused_and_changes_nothing():
    driver = TxnDriver(level=V1)
    driver.core.begin()
    driver.append()
    add = driver.request(ADD)
    with pytest.raises(MalformedAnswerError):
        driver.answer(add, results_by_topic_v3_and_below=[])
    driver.answer(add)
    driver.talk(PRODUCE)
