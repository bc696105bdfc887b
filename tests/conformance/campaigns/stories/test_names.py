"""Answers in words that are the same in every run."""

import pytest

from conformance.adapters.brokers.wire import Identified, PerPartition, Produced
from conformance.campaigns.stories.names import ProducerNames
from impl.protocol.errors import ErrorCode

pytestmark = pytest.mark.fast

NONE, FENCED = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED


def test_producers_are_named_in_the_order_of_their_coming():
    names = ProducerNames()
    assert names.answer(Identified(NONE, 4000, 0)) == "NONE P:0"
    assert names.answer(Identified(NONE, 17, 3)) == "NONE Q:3"
    assert names.identity(4000, 1) == "P:1"
    assert names.producer(-1) == "-"


def test_no_two_producers_share_a_name():
    names = ProducerNames()
    assert len({names.producer(number) for number in range(100)}) == 100


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (FENCED, "PRODUCER_FENCED"),
        (Identified(FENCED, -1, -1), "PRODUCER_FENCED"),
        (Produced(NONE, 7), "NONE"),
        (PerPartition(NONE, {("a", 0): NONE, ("a", 1): NONE}), "NONE"),
        (PerPartition(NONE, {("a", 1): NONE, ("a", 0): FENCED}), "PRODUCER_FENCED NONE"),
        (PerPartition(FENCED, {}), "PRODUCER_FENCED"),
    ],
)
def test_an_answer_is_the_names_of_its_errors(answer, text):
    assert ProducerNames().answer(answer) == text


def test_what_is_no_answer_has_no_name():
    with pytest.raises(TypeError, match="no name for 7"):
        ProducerNames().answer(7)
