"""Producer ids: uniqueness, exhaustion, backoff."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impl.broker.producer_ids import (
    BLOCK_SIZE,
    MAX_PRODUCER_ID,
    RETRY_BACKOFF_MS,
    ProducerIdBlock,
    ProducerIdBlocks,
    ProducerIdController,
    ProducerIdManager,
    ProducerIdsNotIncreasing,
)
from impl.protocol.errors import ErrorCode

pytestmark = pytest.mark.slow  # thousands of generated steps

BUSY = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)


def test_blocks_are_given_out_once_and_run_out_before_the_largest_number() -> None:
    blocks = ProducerIdBlocks(MAX_PRODUCER_ID - BLOCK_SIZE)
    assert blocks.allocate() == ProducerIdBlock(MAX_PRODUCER_ID - BLOCK_SIZE, BLOCK_SIZE)
    assert blocks.allocate() == ErrorCode.UNKNOWN_SERVER_ERROR
    assert blocks.next_producer_id == MAX_PRODUCER_ID


def test_one_request_at_a_time() -> None:
    ids = ProducerIdManager()
    assert ids.generate(0) == BUSY
    assert ids.take_request()
    assert ids.generate(0) == BUSY
    assert not ids.take_request()
    ids.receive(ProducerIdBlock(0, 2), 0)
    assert ids.generate(0) == (ErrorCode.NONE, 0)


def test_the_next_block_is_asked_for_at_nine_tenths() -> None:
    ids = ProducerIdManager()
    ids.generate(0)
    ids.take_request()
    ids.receive(ProducerIdBlock(0, BLOCK_SIZE), 0)
    asked_after = []
    for _ in range(BLOCK_SIZE):
        _, producer_id = ids.generate(0)
        if ids.take_request():
            asked_after.append(producer_id)
    assert asked_after == [900]


def test_without_the_next_block_ids_run_out() -> None:
    ids = ProducerIdManager()
    ids.generate(0)
    ids.take_request()
    ids.receive(ProducerIdBlock(0, 10), 0)
    assert [ids.generate(0)[1] for _ in range(10)] == list(range(10))
    assert ids.generate(0) == BUSY
    assert ids.take_request()
    ids.receive(ProducerIdBlock(10, 10), 0)
    assert ids.generate(0) == (ErrorCode.NONE, 10)


@pytest.mark.parametrize(
    "answer",
    [
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ProducerIdBlock(9, 10),
        ProducerIdBlock(20, -1),
        ProducerIdBlock(MAX_PRODUCER_ID, 2),
    ],
)
def test_an_answer_of_no_use_is_asked_for_again_after_a_backoff(
    answer: ProducerIdBlock | ErrorCode,
) -> None:
    ids = ProducerIdManager()
    ids.generate(0)
    ids.take_request()
    ids.receive(ProducerIdBlock(0, 10), 0)
    for _ in range(10):
        ids.generate(0)
    assert ids.take_request()
    ids.receive(answer, 100)
    assert ids.generate(100 + RETRY_BACKOFF_MS - 1) == BUSY
    assert not ids.take_request()
    assert ids.generate(100 + RETRY_BACKOFF_MS) == BUSY
    assert ids.take_request()


def test_empty_blocks_do_not_turn_the_manager_for_ever() -> None:
    ids = ProducerIdManager()
    for _ in range(5):
        assert ids.generate(0) == BUSY
        if ids.take_request():
            ids.receive(ProducerIdBlock(0, 0), 0)


def test_a_lost_answer_is_asked_for_again_at_once() -> None:
    """A timeout is no bad answer: there is no backoff, and what comes late is never used."""
    ids = ProducerIdManager()
    assert ids.generate(0) == BUSY
    assert ids.take_request()
    ids.time_out()
    ids.receive(ProducerIdBlock(0, 10), 0)
    assert ids.generate(0) == BUSY
    assert ids.take_request()
    ids.receive(ProducerIdBlock(10, 10), 0)
    assert ids.generate(0) == (ErrorCode.NONE, 10)


def test_a_second_answer_does_not_replace_the_first() -> None:
    ids = ProducerIdManager()
    ids.generate(0)
    ids.take_request()
    ids.receive(ProducerIdBlock(0, 1), 0)
    ids.receive(ProducerIdBlock(1000, 1), 0)
    ids.receive(ErrorCode.STALE_BROKER_EPOCH, 0)
    ids.time_out()
    assert ids.generate(0) == (ErrorCode.NONE, 0)


def test_a_prefetch_that_fails_is_repeated_when_the_block_is_empty() -> None:
    """One id triggers the request: none is sent between it and the end of the block."""
    ids = ProducerIdManager()
    ids.generate(0)
    ids.take_request()
    ids.receive(ProducerIdBlock(0, BLOCK_SIZE), 0)
    asked_after = []
    for now_ms in range(0, BLOCK_SIZE * 100, 100):
        _, producer_id = ids.generate(now_ms)
        if ids.take_request():
            asked_after.append(producer_id)
            ids.receive(ErrorCode.STALE_BROKER_EPOCH, now_ms)
    assert asked_after == [900]
    assert ids.generate(BLOCK_SIZE * 100) == BUSY
    assert ids.take_request()


# the controller


def a_controller(blocks: ProducerIdBlocks) -> ProducerIdController:
    controller = ProducerIdController(blocks)
    controller.register(1, 70)
    controller.register(2, 71)
    return controller


def test_registered_brokers_get_different_blocks() -> None:
    controller = a_controller(ProducerIdBlocks())
    assert [controller.allocate(1, 70), controller.allocate(2, 71)] == [
        ProducerIdBlock(0, 1000),
        ProducerIdBlock(1000, 1000),
    ]


def test_only_the_broker_that_registered_last_gets_one() -> None:
    blocks = ProducerIdBlocks()
    controller = a_controller(blocks)
    controller.register(1, 90)
    controller.unregister(2)
    stale = ErrorCode.STALE_BROKER_EPOCH
    asked = [(1, 70), (1, 91), (2, 71), (3, -1)]
    assert [controller.allocate(*broker) for broker in asked] == [stale] * 4
    assert blocks.next_producer_id == 0
    assert controller.allocate(1, 90) == ProducerIdBlock(0, 1000)


def test_what_a_controller_gave_is_on_disk_before_it_is_given() -> None:
    disk: list[int] = []
    blocks = ProducerIdBlocks(persist=disk.append)
    a_controller(blocks).allocate(1, 70)
    a_controller(blocks).allocate(1, 70)
    assert disk == [1000, 2000]
    again = ProducerIdBlocks()
    for next_producer_id in disk:
        again.replay(next_producer_id)
    assert a_controller(again).allocate(1, 70) == ProducerIdBlock(2000, 1000)


def test_what_cannot_be_written_is_not_given() -> None:
    def full(_: int) -> None:
        raise OSError("no space left")

    blocks = ProducerIdBlocks(5000, persist=full)
    with pytest.raises(OSError, match="no space"):
        a_controller(blocks).allocate(1, 70)
    assert blocks.next_producer_id == 5000


@pytest.mark.parametrize("next_producer_id", [1000, 999, 0, -1])
def test_recorded_ids_only_grow(next_producer_id: int) -> None:
    blocks = ProducerIdBlocks(1000)
    with pytest.raises(ProducerIdsNotIncreasing):
        blocks.replay(next_producer_id)
    assert blocks.next_producer_id == 1000


def test_exhaustion_is_an_unknown_server_error_to_the_broker() -> None:
    controller = a_controller(ProducerIdBlocks(MAX_PRODUCER_ID - BLOCK_SIZE + 1))
    assert controller.allocate(1, 70) == ErrorCode.UNKNOWN_SERVER_ERROR


@given(st.data())
def test_no_id_is_ever_given_twice(data: st.DataObject) -> None:
    """Brokers that restart, answers that are lost, refused, late; a controller that restarts."""
    disk: list[int] = []
    blocks = ProducerIdBlocks(persist=disk.append)
    brokers = {broker: ProducerIdManager() for broker in (1, 2)}
    under_way: dict[int, ProducerIdBlock | ErrorCode] = {}
    given_out: list[int] = []
    for now_ms in range(data.draw(st.integers(1, 60))):
        broker = data.draw(st.sampled_from((1, 2)))
        match data.draw(
            st.sampled_from(("ask", "many", "answer", "lose", "restart", "controller"))
        ):
            case "ask" | "many" as how:
                for _ in range(1 if how == "ask" else 950):
                    error, producer_id = brokers[broker].generate(now_ms * 100)
                    if not error:
                        given_out.append(producer_id)
                if brokers[broker].take_request():
                    under_way[broker] = a_controller(blocks).allocate(broker, 69 + broker)
            case "answer" if broker in under_way:
                brokers[broker].receive(under_way[broker], now_ms * 100)
            case "lose":
                brokers[broker].time_out()
            case "restart":
                brokers[broker] = ProducerIdManager()
                under_way.pop(broker, None)
            case "controller":
                blocks = ProducerIdBlocks(persist=disk.append)
                for next_producer_id in disk:
                    blocks.replay(next_producer_id)
    assert len(set(given_out)) == len(given_out)
