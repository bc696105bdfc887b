"""Record batches, written and read by ours and by kafka-python: `python -m benchmarks.batches`.

Both compute the checksum in C (google-crc32c here, crc32c there) and everything else in Python.
To write is: from key, value and timestamp of each record to the bytes of a batch. To read is: check
the checksum, then make an object of every record with its key, value and headers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
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

Row = tuple[int, bytes, bytes]
"""Timestamp, key, value."""


def rows(count: int) -> list[Row]:
    """Records of about 110 bytes, as they come from an application."""
    return [
        (BASE_TIMESTAMP + index // 4, b"key-%06d" % index, b"value-%06d-" % index + bytes(87))
        for index in range(count)
    ]


def ours_encode(records: Sequence[Row]) -> bytes:
    parts = [
        encode_record(index, timestamp - BASE_TIMESTAMP, key, value)
        for index, (timestamp, key, value) in enumerate(records)
    ]
    return assemble_batch(
        parts,
        base_timestamp=BASE_TIMESTAMP,
        max_timestamp=records[-1][0],
        producer_id=1000,
        producer_epoch=0,
        base_sequence=7,
    )


def peer_encode(records: Sequence[Row]) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=1000,
        producer_epoch=0,
        base_sequence=7,
        batch_size=BATCH_BYTES,
    )
    for index, (timestamp, key, value) in enumerate(records):
        builder.append(index, timestamp, key, value, [])
    return bytes(builder.build())


def ours_decode(data: bytes) -> object:
    return decode_batch(data).records


def peer_decode(data: bytes) -> object:
    batch = DefaultRecordBatch(data)
    if not batch.validate_crc():
        raise ValueError("the peer reads another checksum")
    return list(batch)


def _works(count: int) -> Iterator[tuple[str, Work, Work]]:
    records = rows(count)
    data = ours_encode(records)
    theirs = peer_encode(records)
    if data[:12] + data[16:] != theirs[:12] + theirs[16:]:  # leader epoch: -1 here, 0 there
        raise ValueError("the peer writes another batch")
    yield (
        f"encode {count} records",
        lambda: ours_encode(records),
        lambda: peer_encode(records),
    )
    yield f"decode {count} records", lambda: ours_decode(data), lambda: peer_decode(data)


def run(pairs: int, loop_seconds: float, counts: Sequence[int] = COUNTS) -> Iterator[Comparison]:
    """Every comparison, one after the other."""
    if util.crc32c_c is None:
        raise SystemExit("pip install crc32c: the peer would compute its checksum in Python")
    for count in counts:
        for name, ours, peer in _works(count):
            yield compare(name, ours, peer, peer_name=PEER, pairs=pairs, loop_seconds=loop_seconds)


if __name__ == "__main__":
    main("batches", run)
