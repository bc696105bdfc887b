"""Errors are values, too: a producer that remembers one can be copied, and they travel."""

import copy
import pickle

import pytest

from impl.client.errors import IllegalStateError, ProducerError
from impl.producer.errors import (
    BufferExhaustedError,
    ConfigError,
    DeliveryTimeoutError,
    ProducerClosedError,
    ProducerFenced,
    RecordTooLargeError,
    TooManyPartitionsError,
)
from impl.protocol.errors import ErrorCode

ERRORS = (
    BufferExhaustedError(16, 3),
    ConfigError("acks", "must be all"),
    DeliveryTimeoutError(ErrorCode.REQUEST_TIMED_OUT, "too late", True),
    IllegalStateError("no transaction", ("begin_transaction", "close")),
    ProducerClosedError(),
    ProducerFenced(ErrorCode.PRODUCER_FENCED, "another one", False),
    RecordTooLargeError(17, "max_request_size", 16),
    TooManyPartitionsError(4),
)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_copy_says_the_same(error: ProducerError) -> None:
    for again in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)
