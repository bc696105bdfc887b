"""From append to request: what one poll sends, and when."""

import pytest

from impl.producer import (
    Advice,
    BufferExhaustedError,
    InvalidArgumentError,
    RecordTooLargeError,
    SendRequest,
    TooManyPartitionsError,
)
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import decode_batch
from impl.protocol.schemas import ApiKey
from tests.impl.producer.driver import Driver, batch_of, batches_of, through_the_wire, values_of


def test_the_first_poll_asks_for_a_producer_id_and_nothing_goes_before_it():
    driver = Driver(initialize=False)
    driver.append()
    (request,) = driver.poll()
    assert (request.node_id, request.api_key) == (1, ApiKey.INIT_PRODUCER_ID)
    assert request.body == {
        "transactional_id": None,
        "transaction_timeout_ms": 2**31 - 1,
        "producer_id": -1,
        "producer_epoch": -1,
    }
    assert through_the_wire(request) == (ApiKey.INIT_PRODUCER_ID, request.body)
    assert driver.poll() == ()
    driver.core.receive(
        request.correlation_id,
        {"error_code": 0, "producer_id": 7, "producer_epoch": 0},
        driver.now_ms,
    )
    (produce,) = driver.poll()
    assert produce.api_key == ApiKey.PRODUCE


@pytest.mark.parametrize("count", [1, 2, 50])
def test_one_poll_drains_one_batch_of_all_that_was_appended(count):
    driver = Driver()
    request = driver.send(count)
    assert isinstance(request, SendRequest)
    batch = batch_of(request)
    assert values_of(batch) == [b"r%d" % n for n in range(count)]
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 0, 0)
    assert (batch.base_offset, batch.partition_leader_epoch, batch.attributes) == (0, -1, 0)
    assert driver.poll() == ()


def test_a_record_keeps_key_value_headers_and_time():
    driver = Driver()
    headers = (("h", b"1"), ("n", None))
    driver.core.append(
        "t", 0, key=b"k", value=None, headers=headers, timestamp_ms=990, now_ms=driver.now_ms
    )
    driver.core.append("t", 0, value=b"later", timestamp_ms=980, now_ms=driver.now_ms)
    (request,) = driver.poll()
    first, second = batch_of(request).records
    assert (first.key, first.value, first.headers, first.timestamp) == (b"k", None, headers, 990)
    assert (second.key, second.timestamp) == (None, 980)
    assert batch_of(request).max_timestamp == 990


def test_sequences_run_on_from_batch_to_batch():
    driver = Driver()
    assert [batch_of(driver.send(n)).base_sequence for n in (3, 1, 2)] == [0, 3, 4]
    assert driver.state().next_sequence == 6
    assert [b.record_count for b in driver.state().in_flight] == [3, 1, 2]
    assert all(b.outstanding and not b.in_retry for b in driver.state().in_flight)


def test_a_node_gets_five_open_requests_and_no_more():
    driver = Driver()
    requests = [driver.send() for _ in range(5)]
    driver.append()
    assert driver.poll() == ()
    driver.answer(requests[0])
    (sixth,) = driver.poll()
    assert batch_of(sixth).base_sequence == 5


def test_acknowledged_records_have_their_offsets():
    driver = Driver()
    first, last = driver.append(), driver.append(2)
    assert (first.done, first.offset, first.error) == (False, -1, None)
    (request,) = driver.poll()
    driver.answer(request)
    assert (first.done, first.offset, first.error) == (True, 0, None)
    assert (last.done, last.offset, repr(last)) == (
        True,
        2,
        "DeliveryHandle(t-0, succeeded, offset=2)",
    )
    state = driver.state()
    assert (state.last_acked_sequence, state.last_acked_offset, state.in_flight) == (2, 2, ())


def test_one_request_a_node_with_one_batch_a_partition():
    driver = Driver({("t", 0): 1, ("t", 1): 1, ("u", 0): 1, ("t", 2): 2})
    for topic, partition in driver.leaders:
        driver.core.append(topic, partition, value=b"v", now_ms=driver.now_ms)
    on_one, on_two = driver.poll()
    assert (on_one.node_id, on_two.node_id) == (1, 2)
    assert set(batches_of(on_one)) == {("t", 0), ("t", 1), ("u", 0)}
    assert set(batches_of(on_two)) == {("t", 2)}
    driver.answer(on_one)
    driver.answer(on_two)
    assert driver.log(2) == [b"v"]


def test_a_full_batch_makes_room_for_the_next_one():
    driver = Driver(batch_size=200)
    for _ in range(12):
        driver.core.append("t", 0, value=bytes(20), now_ms=driver.now_ms)
    sizes = []
    while effects := driver.poll():
        (request,) = effects
        sizes.append(len(batch_of(request).records))
        driver.answer(request)
    assert sum(sizes) == 12
    assert sizes[0] == sizes[1] == 5
    assert all(len(s.data) <= 200 for s in driver.leaders["t", 0].batches)


def test_lingering_ends_with_time_or_with_a_full_batch():
    driver = Driver(linger_ms=10, batch_size=200)
    driver.append()
    assert driver.poll() == ()
    assert driver.core.next_timeout_ms(driver.now_ms) == 10
    assert driver.poll(after_ms=9) == ()
    assert len(driver.poll(after_ms=1)) == 1
    for _ in range(2):
        driver.core.append("t", 0, value=bytes(100), now_ms=driver.now_ms)
    assert len(driver.poll()) == 1
    assert driver.poll() == ()


def test_a_lingering_partition_goes_along_when_its_node_is_due():
    driver = Driver({("t", 0): 1, ("t", 1): 1}, linger_ms=10)
    driver.append(partition=0)
    driver.now_ms += 10
    driver.append(partition=1)
    (request,) = driver.poll()
    assert set(batches_of(request)) == {("t", 0), ("t", 1)}


def test_a_request_stops_at_max_request_size_and_the_next_begins_there():
    driver = Driver({("t", p): 1 for p in range(3)}, max_request_size=400)
    for partition in range(3):
        driver.core.append("t", partition, value=bytes(120), now_ms=driver.now_ms)
    (first,) = driver.poll()
    (second,) = driver.poll()
    assert (set(batches_of(first)), set(batches_of(second))) == (
        {("t", 0), ("t", 1)},
        {("t", 2)},
    )


def test_a_head_that_must_wait_ends_the_pass_of_its_node():
    """Kafka's quirk: partition 1 is held back by partition 0, and the next pass begins there."""
    driver = Driver({("t", 0): 1, ("t", 1): 1})
    first, second = driver.send(), driver.send()
    driver.refuse(first, ErrorCode.NOT_ENOUGH_REPLICAS)
    (again,) = driver.poll(after_ms=100)
    driver.refuse(second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert driver.poll(after_ms=200) == ()
    driver.append(partition=1)
    assert driver.poll() == ()
    driver.answer(again)
    (both,) = driver.poll()
    assert {tp: b.base_sequence for tp, b in batches_of(both).items()} == {("t", 0): 1, ("t", 1): 0}


def test_buffer_memory_is_a_limit_and_comes_back():
    driver = Driver(batch_size=100, buffer_memory=250, linger_ms=50)
    handles = [driver.core.append("t", 0, value=bytes(30), now_ms=driver.now_ms) for _ in range(2)]
    with pytest.raises(BufferExhaustedError, match="are free: wait until") as refused:
        driver.core.append("t", 0, value=bytes(30), now_ms=driver.now_ms)
    assert refused.value.advice is Advice.RETRY
    (request,) = driver.poll()
    assert len(batch_of(request).records) == 1
    driver.answer(request)
    driver.core.append("t", 0, value=bytes(30), now_ms=driver.now_ms)
    assert [h.done for h in handles] == [True, False]


def test_exhausted_memory_ends_lingering():
    driver = Driver(batch_size=200, buffer_memory=300, linger_ms=50)
    driver.append()
    assert driver.poll() == ()
    with pytest.raises(BufferExhaustedError):
        driver.core.append("t", 0, value=bytes(150), now_ms=driver.now_ms)
    assert len(driver.poll()) == 1


@pytest.mark.parametrize("limit", ["max_request_size", "buffer_memory"])
def test_a_record_beyond_a_limit_is_refused(limit):
    driver = Driver(**{limit: 500})
    with pytest.raises(RecordTooLargeError, match=f"or increase {limit}$") as refused:
        driver.core.append("t", 0, value=bytes(500), now_ms=driver.now_ms)
    assert refused.value.size_bytes > refused.value.limit_bytes == 500
    assert driver.poll() == ()


def test_a_refused_append_changes_nothing():
    driver = Driver(max_partitions=1)
    with pytest.raises(InvalidArgumentError):
        driver.core.append("t", 0, value="text", now_ms=driver.now_ms)
    driver.append()
    with pytest.raises(TooManyPartitionsError, match=r"max_partitions = 1 .*: increase it"):
        driver.core.append("t", 1, value=b"v", now_ms=driver.now_ms)
    for topic, partition, bad in [
        ("t", 0, {"value": 3.5}),
        ("t", 0, {"headers": (("h", "1"),)}),
        ("t", 0, {"timestamp_ms": -1}),
        ("t", 0, {"timestamp_ms": 2**63}),
        ("t", -1, {}),
        ("t", 2**31, {}),
        ("", 0, {}),
        ("x" * 250, 0, {}),
    ]:
        with pytest.raises(InvalidArgumentError):
            driver.core.append(topic, partition, **bad, now_ms=driver.now_ms)
    (request,) = driver.poll()
    assert values_of(batch_of(request)) == [b"r0"]


def test_without_a_leader_nothing_is_sent_but_metadata_is_wanted():
    driver = Driver()
    driver.core.append("t", 9, value=b"v", now_ms=driver.now_ms)
    driver.core.metadata_update_requested = False
    assert driver.poll() == ()
    assert driver.core.metadata_update_requested
    assert driver.core.next_timeout_ms(driver.now_ms) == 120_000
    driver.core.update_metadata({("t", 0): 1, ("t", 9): 2})
    assert not driver.core.metadata_update_requested
    (request,) = driver.poll()
    assert request.node_id == 2


def test_partitions_that_metadata_forgets_keep_their_sequences():
    driver = Driver()
    driver.answer(driver.send(3))
    driver.core.update_metadata({("u", 0): 1})
    driver.append()
    assert driver.poll() == ()
    driver.core.update_metadata({("t", 0): 1})
    (request,) = driver.poll()
    assert batch_of(request).base_sequence == 3
    assert decode_batch(request.body["topics"][0]["partitions"][0]["records"]).producer_epoch == 0


def test_the_oldest_versions_travel_as_well():
    from impl.producer import IdempotentProducerCore, ProducerConfig

    core = IdempotentProducerCore(
        ProducerConfig.of(linger_ms=0), produce_version=3, init_producer_id_version=0
    )
    core.update_metadata({("t", 0): 1})
    (init,) = core.poll(0)
    core.receive(init.correlation_id, {"error_code": 0, "producer_id": 1, "producer_epoch": 0}, 0)
    core.append("t", 0, value=b"v", now_ms=0)
    (produce,) = core.poll(0)
    assert (init.api_version, produce.api_version) == (0, 3)
    through_the_wire(init)
    through_the_wire(produce)


def test_next_timeout_is_zero_after_news_and_none_without_work():
    driver = Driver()
    assert driver.core.next_timeout_ms(driver.now_ms) == 0
    assert driver.poll() == ()
    assert driver.core.next_timeout_ms(driver.now_ms) is None
    request = driver.send()
    assert driver.core.next_timeout_ms(driver.now_ms) == 0
    assert driver.poll() == ()
    assert driver.core.next_timeout_ms(driver.now_ms) == 30_001
    driver.answer(request)
    assert driver.core.next_timeout_ms(driver.now_ms) == 0
