"""Record batches, written and read by ours and by kafka-python: `python -m benchmarks.batches`.

Both compute the checksum in C (google-crc32c here, crc32c there) and everything else in Python.
To write is: from timestamp, key, value and headers of each record to the bytes of a batch, record
by record, as a producer does. To read is: check the checksum, then make an object of every record,
with its offset, timestamp, key, value and headers; nothing is put off until it is asked for. Both
read the names of headers as text; ours also makes an object of the batch.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from warnings import catch_warnings, simplefilter

if not __package__:
    sys.path[0] = str(Path(__file__).parents[1])

from benchmarks.peers import Comparison, Work, compare, main
from impl.protocol.record_batch import assemble_batch, decode_batch, encode_record

with catch_warnings():
    simplefilter("ignore", DeprecationWarning)  # it reads its schemas in a deprecated way
    import kafka  # type: ignore[import-untyped]
    from kafka.record import util  # type: ignore[import-untyped]
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder  # type: ignore[import-untyped]

PEER = f"kafka-python {kafka.__version__}"
COUNTS = (1, 10, 100, 1000)
BASE_TIMESTAMP = 1_700_000_000_000
BATCH_BYTES = 1 << 20

Row = tuple[int, bytes, bytes, list[tuple[str, bytes | None]]]
"""Timestamp, key, value, headers."""


def rows(count: int, with_headers: bool) -> list[Row]:
    """Records as they come from an application: no two have to be of one size.

    Keys have 5 to 10 bytes, values 10 to 149. With headers, one half of the records has none, one
    quarter a trace id of 16 bytes, and one quarter a source, too.
    """
    random = Random(count)
    timestamp, made = BASE_TIMESTAMP, list[Row]()
    for _ in range(count):
        timestamp += random.choice((0, 0, 0, 1, 3))
        key, value = (
            b"key-%d" % random.randrange(10**6),
            random.randbytes(random.randrange(10, 150)),
        )
        headers: list[tuple[str, bytes | None]]
        headers = [("trace-id", random.randbytes(16)), ("source", b"checkout")]
        made.append((timestamp, key, value, headers[: random.choice((0, 0, 1, 2)) * with_headers]))
    return made


def ours_encode(records: Sequence[Row]) -> bytes:
    parts: list[bytes] = []
    base_timestamp = max_timestamp = records[0][0]
    for timestamp, key, value, headers in records:
        parts.append(encode_record(len(parts), timestamp - base_timestamp, key, value, headers))
        if timestamp > max_timestamp:
            max_timestamp = timestamp
    return assemble_batch(
        parts,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=1000,
        producer_epoch=0,
        base_sequence=7,
    )


def peer_encode(records: Sequence[Row]) -> bytearray:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=1000,
        producer_epoch=0,
        base_sequence=7,
        batch_size=BATCH_BYTES,
    )
    for index, (timestamp, key, value, headers) in enumerate(records):
        builder.append(index, timestamp, key, value, headers)
    data: bytearray = builder.build()
    return data


def ours_decode(data: bytes) -> object:
    return decode_batch(data).records


def peer_decode(data: bytes) -> object:
    batch = DefaultRecordBatch(data)
    if not batch.validate_crc():
        raise ValueError("the peer reads another checksum")
    return list(batch)


def _works(count: int, with_headers: bool) -> Iterator[tuple[str, Work, Work]]:
    records = rows(count, with_headers)
    data = ours_encode(records)
    theirs = bytes(peer_encode(records))
    if data[:12] + data[16:] != theirs[:12] + theirs[16:]:  # leader epoch: -1 here, 0 there
        raise ValueError("the peer writes another batch")
    what = f"{count} records" + ", headers" * with_headers
    yield f"encode {what}", lambda: ours_encode(records), lambda: peer_encode(records)
    yield f"decode {what}", lambda: ours_decode(data), lambda: peer_decode(data)


def run(pairs: int, loop_seconds: float, counts: Sequence[int] = COUNTS) -> Iterator[Comparison]:
    """Every comparison, one after the other."""
    if util.crc32c_c is None:
        raise SystemExit("pip install crc32c: the peer would compute its checksum in Python")
    for count in counts:
        for with_headers in (False, True):
            for name, ours, peer in _works(count, with_headers):
                yield compare(
                    name, ours, peer, peer_name=PEER, pairs=pairs, loop_seconds=loop_seconds
                )


if __name__ == "__main__":
    main("batches", run)
