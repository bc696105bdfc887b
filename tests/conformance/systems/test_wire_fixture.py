"""What a real broker answered once, held against the model and against `impl`, without Java."""

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from conformance.systems.wire_observer import Answer, Observer
from impl import (
    ApiKey,
    Node,
    RecordBatch,
    decode_batch,
    decode_request,
    decode_response,
)
from model.messages import Batch, Error
from model.setting import Layout, Setting
from model.variants import parse

FIXTURES = sorted((Path(__file__).parents[1] / "fixtures").glob("kafka-*.jsonl"))
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


def answered(request: bytes, payload: bytes) -> Answer:
    header, _ = decode_request(request)
    _, body = decode_response(ApiKey.PRODUCE, header["api_version"], payload)
    [topic] = body["topics"]
    [row] = topic["partitions"]
    return Answer(row["error_code"], row["base_offset"], row["log_start_offset"])


def batch_of(data: RecordBatch) -> Batch:
    """The model's batch; each trace has one producer, the model's producer 0."""
    first = int(data.records[0].value or b"")
    count = len(data.records)
    return Batch(0, data.producer_epoch, data.base_sequence, count, 0, first)


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_there_is_enough_in_it(path):
    """Small, and each of the leader's error codes is there, beyond the wrap, too."""
    assert path.stat().st_size < 200_000
    rows = lines(path)[1:]
    pairs = [(bytes.fromhex(row["request"]), bytes.fromhex(row["answer"])) for row in rows]
    assert {answered(*pair).error for pair in pairs} == {
        Error.NONE,
        Error.OUT_OF_ORDER_SEQUENCE_NUMBER,
        Error.INVALID_PRODUCER_EPOCH,
    }
    sequences = {asked(request)[1].base_sequence for request, _ in pairs}
    assert max(sequences) > 2**31 - 4
    assert len(list(traces(path))) >= 18


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_the_model_allows_each_answer(path):
    release = lines(path)[0]["release"]
    observer = Observer(Setting(parse(release), Layout()))
    for trace in traces(path):
        states = observer.empty
        for request, answer in trace:
            _, data = asked(request)
            allowed = observer.allowed(states, batch_of(data))
            states = allowed[answered(request, answer)]


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_impl_answers_the_same_bytes(path):
    node = Node()
    for trace in traces(path):
        for request, answer in trace:
            place, _ = asked(request)
            if node.topics.named(place["topic"]) is None:
                node.topics.create(place["topic"], 1_000, {})
            assert node.handle(request, NOW_MS) == answer


def test_the_model_allows_no_other_answer():
    """One changed answer is noticed: the replay does not agree with everything."""
    path = FIXTURES[0]
    observer = Observer(Setting(parse(lines(path)[0]["release"]), Layout()))
    request, answer = next(traces(path))[0]
    allowed = observer.allowed(observer.empty, batch_of(asked(request)[1]))
    right = answered(request, answer)
    assert list(allowed) == [right]
    assert right._replace(base_offset=right.base_offset + 1) not in allowed
