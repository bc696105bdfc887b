"""The adapter of impl: numbers, views, and that polls do what one step does."""

from __future__ import annotations

import pytest

from conformance.adapters.impl.idempotent.client import UnexpectedEffects, in_flight_view
from conformance.adapters.impl.idempotent.messages import BatchViews, ViewsByBytes
from conformance.adapters.impl.idempotent.system import ImplSystem
from conformance.judging.idempotent.system import WIRE_MAX_SEQUENCE, WireNumbers
from impl import Record, RecordBatch, encode_batch
from impl.producer import InFlightBatch
from model.idempotent.configuration import Bounds, Budgets, Configuration
from model.idempotent.variants import parse

pytestmark = pytest.mark.fast

ALL = frozenset({"client", "leader"})


def configuration(**bounds: int) -> Configuration:
    return Configuration(parse("4.3.1"), Bounds(**bounds), Budgets())


def test_sequences_keep_their_order_their_ends_and_their_neighbours() -> None:
    wire = WireNumbers(configuration(max_sequence=31))
    mapped = [wire[s] for s in range(32)]
    assert mapped == sorted(set(mapped))
    assert mapped[:16] == list(range(16))
    assert mapped[16:] == list(range(WIRE_MAX_SEQUENCE - 15, WIRE_MAX_SEQUENCE + 1))
    assert wire[-1] == -1


def batch(*values: bytes) -> bytes:
    records = tuple(Record(i, 0, None, value) for i, value in enumerate(values))
    return encode_batch(RecordBatch(records, last_offset_delta=len(values) - 1, producer_id=3))


def test_what_a_record_says_is_read_from_its_bytes() -> None:
    views = BatchViews()
    assert views.requests[batch(b"4", b"5")] == (3, -1, -1, 2, 4)
    assert views.requests[batch(b"4", b"6")][4] == -1
    assert views.requests[batch(b"5", b"4")][4] == -1
    assert views.stored[batch(b"7")] == (3, -1, -1, 1, 7, 0)


def test_views_are_dropped_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ViewsByBytes, "LIMIT", 2)
    views = BatchViews()
    for number in range(5):
        assert views.requests[batch(b"%d" % number)][4] == number
    assert len(views.requests) <= 2


def test_batches_in_flight_have_the_records_that_have_not_ended() -> None:
    two = InFlightBatch(1, 0, 5, 2, True, False, False)
    one = InFlightBatch(1, 0, 7, 1, False, True, True)
    assert in_flight_view((two, one), [3, 4, 5]) == (
        (1, 0, 5, 2, 3, True, False),
        (1, 0, 7, 1, 5, False, True),
    )
    assert in_flight_view((two, one), [3, 4])[1][4] == -1


@pytest.mark.parametrize("on", ["bytes", "values"])
def test_a_lost_answer_a_retry_and_a_duplicate(on: str) -> None:
    system = ImplSystem(configuration(), ALL, on)
    system.reset()
    client, leader = system.clients[0], system.leaders[0]
    state, sent = client.send_new(0, 1)
    assert sent[0][0] == (0, 0, 0, 1, 0)
    assert state == (0, 0, False, ((0, 1, -1, -1, ((0, 0, 0, 1, 0, True, False),), 1, 0, 0),))
    stored = (((0, 0, 0, 1, 0, 0),), 0, 1, ((0, ((0, 0, 0),)),))
    assert leader.on_produce(sent[0][1])[0] == stored
    assert client.on_disconnect(0, 0)[0][3][0][4] == ((0, 0, 0, 1, 0, False, False),)
    again = client.send_again(0)[1]
    assert again[0][0] == sent[0][0]
    state, answers = leader.on_produce(again[0][1])
    assert state == stored
    assert answers[0][0] == (0, 0, 0, 1, 0)
    assert client.on_answer(0, answers[0][1], 0)[0] == (
        0,
        0,
        False,
        ((0, 1, 0, -1, (), 1, 1, 0),),
    )


def test_a_step_that_does_not_send_fails() -> None:
    system = ImplSystem(configuration(), ALL, "values")
    system.reset()
    with pytest.raises(UnexpectedEffects):
        system.clients[0].send_again(0)


@pytest.mark.parametrize("actors", [ALL, frozenset({"leader"})], ids=["all", "leader"])
def test_a_scope_near_the_wrap_begins_with_one_record_stored(actors: frozenset[str]) -> None:
    system = ImplSystem(configuration(max_sequence=31, first_sequence=30), actors, "bytes")
    system.reset()
    first = WIRE_MAX_SEQUENCE - 1
    assert system.leaders[0].view() == (
        ((0, 0, first, 1, 0, 0),),
        0,
        1,
        ((0, ((first, 0, 0),)),),
    )
    if system.clients:
        entry = (0, WIRE_MAX_SEQUENCE, first, -1, (), 1, 1, 0)
        assert system.clients[0].view() == (0, 0, False, (entry,))
