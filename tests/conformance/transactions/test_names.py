"""Answers in words that are the same in every run."""

import pytest

from conformance.kafka.admin import ActiveProducer
from conformance.transactions.evidence import plain
from conformance.transactions.facts.lab import newest_of
from conformance.transactions.names import Names
from conformance.transactions.reading import TransactionSeen
from conformance.transactions.wire import Identified, PerPartition, Produced
from impl.protocol.errors import ErrorCode

NONE, FENCED = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED


def test_producers_are_named_in_the_order_of_their_coming():
    names = Names()
    assert names.answer(Identified(NONE, 4000, 0)) == "NONE P:0"
    assert names.answer(Identified(NONE, 17, 3)) == "NONE Q:3"
    assert names.identity(4000, 1) == "P:1"
    assert names.producer(-1) == "-"


def test_no_two_producers_share_a_name():
    names = Names()
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
    assert Names().answer(answer) == text


def test_what_is_no_answer_has_no_name():
    with pytest.raises(TypeError, match="no name for 7"):
        Names().answer(7)


def test_evidence_leaves_the_clock_out():
    seen = TransactionSeen(NONE, "Ongoing", 1, 0, 60_000, (("a", 0),))
    assert plain(seen) == {
        "error": "NONE",
        "state": "Ongoing",
        "producer_id": 1,
        "producer_epoch": 0,
        "timeout_ms": 60_000,
        "partitions": ["a-0"],
    }
    producer = ActiveProducer(1, 0, -1, 99, -1, -1)
    assert "last_timestamp" not in plain({("a", 0): {1: producer}})["a-0"]["1"]


def test_evidence_names_a_groups_partition():
    assert plain({("group", ("a", 0)): 7}) == {"group/a-0": 7}


@pytest.mark.parametrize(
    ("release", "expected"),
    [("3.3.2", "never"), ("3.9.2", "never"), ("4.1.2", "since"), ("4.10.0", "later")],
)
def test_what_is_expected_of_a_release_is_the_newest_that_is_not_after_it(release, expected):
    assert newest_of(release, {"0": "never", "4.1": "since", "4.10": "later"}) == expected
