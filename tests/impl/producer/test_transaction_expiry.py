"""A batch expires while its V1 transaction ends: what the producer does next."""

import pytest

from impl.producer import IllegalStateError, State, TransactionAbortableError
from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import ApiKey
from tests.impl.producer.driver import batch_of
from tests.impl.producer.txn_driver import NODE, TxnDriver

ADD, PRODUCE = ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.PRODUCE
END, INIT = ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID
EXPIRY_MS = 30_100


def sent_again():
    """A driver of V1 whose one batch is on its way for the second time, and the batch's handle."""
    driver = TxnDriver(level=1, delivery_timeout_ms=EXPIRY_MS)
    handle = driver.in_transaction(ADD)
    driver.request(PRODUCE)
    driver.lose(NODE)
    driver.request(PRODUCE)
    return driver, handle


def test_an_abort_in_which_a_batch_expires_ends_with_a_new_epoch():
    driver, handle = sent_again()
    aborted = driver.core.begin_abort()
    assert driver.poll() == ()
    assert driver.poll(after_ms=EXPIRY_MS - 100) == ()
    assert handle.error.error_code is ErrorCode.REQUEST_TIMED_OUT
    assert driver.core.state is State.ABORTING_TRANSACTION
    ended = driver.talk(END)
    assert not ended.body["committed"]
    assert not aborted.done
    assert driver.core.state is State.INITIALIZING
    bump = driver.talk(INIT)
    assert (bump.body["producer_id"], bump.body["producer_epoch"]) == (7, 0)
    aborted.acknowledge()
    assert driver.core.state is State.READY
    driver.in_transaction(ADD)
    batch = batch_of(driver.request(PRODUCE))
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)


def test_a_commit_in_which_a_batch_expires_fails_and_is_aborted_with_a_new_epoch():
    driver, _ = sent_again()
    committed = driver.core.begin_commit()
    driver.poll(after_ms=EXPIRY_MS - 100)
    driver.poll()
    with pytest.raises(TransactionAbortableError):
        committed.acknowledge()
    aborted = driver.core.begin_abort()
    assert not driver.talk(END).body["committed"]
    driver.talk(INIT)
    aborted.acknowledge()
    assert driver.core.state is State.READY


def test_nothing_is_sent_before_there_is_a_producer_id():
    """An InitProducerId that was refused with an abortable error leaves none."""
    driver = TxnDriver(level=1, start=False)
    initialized = driver.core.initialize()
    driver.talk(ApiKey.FIND_COORDINATOR)
    driver.talk(INIT, ErrorCode.TRANSACTION_ABORTABLE)
    with pytest.raises(TransactionAbortableError):
        initialized.acknowledge()
    aborted = driver.core.begin_abort()
    driver.poll()
    aborted.acknowledge()
    driver.core.begin()
    with pytest.raises(IllegalStateError, match="producer id"):
        driver.append()
    assert driver.core.is_idle
