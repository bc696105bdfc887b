"""Producer ids: uniqueness, exhaustion, backoff."""

import pytest

from impl.broker.producer_ids import (
    BLOCK_SIZE,
    MAX_PRODUCER_ID,
    RETRY_BACKOFF_MS,
    ProducerIdBlock,
    ProducerIdBlocks,
    ProducerIdManager,
)
from impl.protocol.errors import ErrorCode

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
