"""What a real broker answered once, held against the model and against `impl`, without Java."""

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from conformance.adapters.brokers.idempotent.observer import ObservedAnswer, Observer
from conformance.adapters.brokers.kafka.releases import find_release
from impl import (
    ApiKey,
    Node,
    RecordBatch,
    decode_batch,
    decode_request,
    decode_response,
)
from model.idempotent.configuration import Bounds, Budgets, Configuration, FirstSequence, Variant
from model.idempotent.messages import Batch, Error
from model.idempotent.variants import RELEASES, parse

pytestmark = pytest.mark.fast

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("kafka-*.jsonl"))
NOW_MS = 2**41


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def traces(path: Path) -> Iterator[list[tuple[bytes, bytes]]]:
    """The requests and answers of each trace."""
    _, *rows = lines(path)
    for _, group in groupby(rows, key=lambda row: row["trace"]):
        yield [(bytes.fromhex(row["request"]), bytes.fromhex(row["answer"])) for row in group]


def asked(payload: bytes) -> tuple[dict[str, Any], RecordBatch]:
    """The one partition that is asked about, with its topic as `topic`, and its batch."""
    _, body = decode_request(payload)
    [topic] = body["topics"]
    [row] = topic["partitions"]
    return row | {"topic": topic["name"]}, decode_batch(row["records"])


def answered(request: bytes, payload: bytes) -> ObservedAnswer:
    header, _ = decode_request(request)
    _, body = decode_response(ApiKey.PRODUCE, header["api_version"], payload)
    [topic] = body["topics"]
    [row] = topic["partitions"]
    return ObservedAnswer(row["error_code"], row["base_offset"], row["log_start_offset"])


class Numbers:
    """The model's numbers for the producer ids of one trace, in the order of first sight; each
    trace has one producer."""

    def __init__(self) -> None:
        self._producer_ids: dict[int, int] = {}

    def batch_of(self, data: RecordBatch) -> Batch:
        producer_id = self._producer_ids.setdefault(data.producer_id, len(self._producer_ids))
        first = int(data.records[0].value or b"")
        count = len(data.records)
        return Batch(producer_id, data.producer_epoch, data.base_sequence, count, 0, first)


def variant_of(path: Path) -> Variant:
    return parse(find_release(lines(path)[0]["release"]).version)


def observer_of(path: Path) -> Observer:
    return Observer(Configuration(variant_of(path), Bounds(more_producer_ids=2), Budgets()))


def errors_of(path: Path) -> set[Error]:
    """What a leader of that release answers."""
    errors = {Error.NONE, Error.OUT_OF_ORDER_SEQUENCE_NUMBER, Error.INVALID_PRODUCER_EPOCH}
    if variant_of(path).first_sequence == FirstSequence.UNKNOWN_PRODUCER_ID:
        errors.add(Error.UNKNOWN_PRODUCER_ID)
    return errors


def takes_any_first(path: Path) -> bool:
    """As `impl`, a leader of the newest release, does, too. Only then can a trace begin beyond the
    middle of the sequences."""
    return variant_of(path).first_sequence == FirstSequence.ANY


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_there_is_enough_in_it(path):
    """Small, and each of the leader's error codes is there, beyond the wrap, too."""
    assert path.stat().st_size < 200_000
    rows = lines(path)[1:]
    pairs = [(bytes.fromhex(row["request"]), bytes.fromhex(row["answer"])) for row in rows]
    assert {answered(*pair).error for pair in pairs} == errors_of(path)
    sequences = {asked(request)[1].base_sequence for request, _ in pairs}
    assert (max(sequences) > 2**31 - 4) is takes_any_first(path)
    assert len(list(traces(path))) >= 14


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_the_model_allows_each_answer(path):
    assert agrees(path, observer_of(path))


@pytest.mark.parametrize("path", [*filter(takes_any_first, FIXTURES)], ids=lambda path: path.stem)
def test_impl_answers_the_same_bytes(path):
    node = Node()
    for trace in traces(path):
        for request, answer in trace:
            place, _ = asked(request)
            if node.topics.get(place["topic"]) is None:
                node.topics.create(place["topic"], 1_000, {})
            assert node.handle(request, NOW_MS) == answer


def test_each_release_that_the_model_has_is_recorded():
    assert {lines(path)[0]["release"] for path in FIXTURES} >= set(RELEASES)


def test_a_release_is_told_from_another_by_what_it_answered():
    """2.4.1 is not as 4.3.1, nor the other way round: what was recorded does not fit."""
    old, new = (path for path in FIXTURES if path.stem in ("kafka-2.4.1", "kafka-4.3.1"))
    assert not agrees(old, observer_of(new))
    assert not agrees(new, observer_of(old))


def agrees(path: Path, observer: Observer) -> bool:
    """Whether the observer allows all that was recorded."""
    for trace in traces(path):
        states, numbers = observer.empty, Numbers()
        for request, answer in trace:
            allowed = observer.allowed(states, numbers.batch_of(asked(request)[1]))
            after = allowed.get(answered(request, answer))
            if after is None:
                return False
            states = after
    return True


def test_the_model_allows_no_other_answer():
    """One changed answer is noticed: the replay does not agree with everything."""
    path = FIXTURES[0]
    observer = observer_of(path)
    request, answer = next(traces(path))[0]
    allowed = observer.allowed(observer.empty, Numbers().batch_of(asked(request)[1]))
    right = answered(request, answer)
    assert list(allowed) == [right]
    assert right._replace(base_offset=right.base_offset + 1) not in allowed
