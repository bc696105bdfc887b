"""Record batches as clients send them, and as brokers keep them: wide values, gaps, far times."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from impl.protocol.compression import Compression
from impl.protocol.record_batch import (
    LOG_APPEND_TIME,
    MAX_SEQUENCE,
    Record,
    RecordBatch,
    client_batch,
)

MAX_INT64 = (1 << 63) - 1
LENGTHS = st.sampled_from([0, 1, 7, 63, 64, 100, 127, 128, 200, 8191, 8192, 9000])
"""Around the ends of one, two and three bytes of a varint."""

texts = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(["k", "x" * 64])
blobs = st.none() | st.binary(max_size=12) | LENGTHS.map(lambda size: b"v" * size)
headers = st.lists(st.tuples(texts, blobs), max_size=3).map(tuple)
many_headers = st.integers(15, 70).map(lambda count: (("h", b"x"),) * count)
STEPS = {
    "near": st.integers(0, 3),
    "seconds": st.integers(-70, 9000),
    "years": st.integers(-(1 << 40), 1 << 40),
}


@dataclass(frozen=True)
class Wide:
    """What a batch may hold."""

    first_timestamp: st.SearchStrategy[int] = st.just(1_700_000_000_000) | st.integers(0, 1 << 50)
    has_gaps: bool = False


@st.composite
def records(draw: st.DrawFn, wide: Wide) -> list[Record]:
    """A few different ones, then perhaps enough plain ones for offsets of two bytes."""
    step, timestamp, offset = draw(st.sampled_from(list(STEPS))), draw(wide.first_timestamp), -1
    made: list[Record] = []
    for index in range(draw(st.integers(1, 6))):
        timestamp = min(max(timestamp + draw(STEPS[step]) * (index > 0), -1), MAX_INT64)
        offset += draw(st.integers(1, 200)) if wide.has_gaps and index else 1
        content = draw(headers if draw(st.integers(0, 9)) else many_headers)
        made.append(Record(offset, timestamp, draw(blobs), draw(blobs), content))
    for index in range(draw(st.sampled_from([0, 0, 0, 65]))):
        made.append(Record(offset + 1 + index, timestamp, b"k", b"v" * index))
    return made


@st.composite
def client_batches(draw: st.DrawFn, wide: Wide = Wide()) -> RecordBatch:
    """What a producer sends, sequences also near their end."""
    is_idempotent = draw(st.booleans())
    near_the_end = st.integers(MAX_SEQUENCE - 70, MAX_SEQUENCE)
    return client_batch(
        draw(records(wide)),
        producer_id=draw(st.integers(0, MAX_INT64)) if is_idempotent else -1,
        producer_epoch=draw(st.integers(0, 32767)) if is_idempotent else -1,
        base_sequence=draw(st.integers(0, 9) | near_the_end) if is_idempotent else -1,
        is_transactional=is_idempotent and draw(st.booleans()),
    )


@st.composite
def stored_batches(draw: st.DrawFn) -> RecordBatch:
    """What a broker may hand out: placed, compacted, compressed, stamped, of any time."""
    anywhen = st.integers(-(1 << 63), MAX_INT64) | st.just(1_700_000_000_000)
    batch = draw(client_batches(Wide(anywhen, has_gaps=True)))
    timestamps = [record.timestamp for record in batch.records]
    if max(timestamps) - min(timestamps) > MAX_INT64:  # Java's writer would let the delta wrap
        batch = batch._replace(records=batch.records[:1], last_offset_delta=0)
    codec = draw(st.sampled_from(Compression))
    stamped = draw(st.sampled_from([0, 0, LOG_APPEND_TIME]))
    return batch._replace(
        base_offset=draw(st.integers(0, 1 << 60)),
        partition_leader_epoch=draw(st.integers(-1, 1 << 30)),
        attributes=batch.attributes | codec | stamped,
        last_offset_delta=batch.last_offset_delta + draw(st.integers(0, 3)),
    )


def as_pairs(record: Record) -> tuple[Any, ...]:
    """A record as other libraries show it: headers as a list of pairs."""
    pairs = list(record.headers)
    return record.offset_delta, record.timestamp, record.key, record.value, pairs
