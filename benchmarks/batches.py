"""Record batches, written and read by ours and by kafka-python: `python -m benchmarks.batches`.

Both compute the checksum in C (google-crc32c here, crc32c there) and everything else in Python.
To write is: from timestamp, key, value and headers of each record to the bytes of a batch, record
by record, as a producer does. To read is: check the checksum, then make an object of every record,
with its offset, timestamp, key, value and headers; nothing is put off until it is asked for. Both
read the names of headers as text; ours also makes an object of the batch.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from random import Random

from benchmarks.peers import Works, compare_all, kafka_python
from impl.protocol.record_batch import assemble_batch, decode_batch, encode_record

PEER = kafka_python("kafka.record.default_records")
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
    builder = PEER.DefaultRecordBatchBuilder(
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


def peer_decode(data: bytes) -> object:
    batch = PEER.DefaultRecordBatch(data)
    if not batch.validate_crc():
        raise ValueError("the peer reads another checksum")
    return list(batch)


def works_of(count: int, with_headers: bool) -> Works:
    """To write and to read a batch of so many records."""
    records = rows(count, with_headers)
    data = ours_encode(records)
    theirs = bytes(peer_encode(records))
    if data[:12] + data[16:] != theirs[:12] + theirs[16:]:  # leader epoch: -1 here, 0 there
        raise ValueError("the peer writes another batch")
    what = f"{count} records" + ", headers" * with_headers
    yield f"encode {what}", lambda: ours_encode(records), lambda: peer_encode(records)
    yield f"decode {what}", lambda: decode_batch(data).records, lambda: peer_decode(data)


def works() -> Works:
    """Everything that is compared."""
    if kafka_python("kafka.record.util").crc32c_c is None:
        raise SystemExit("pip install crc32c: the peer would compute its checksum in Python")
    for count in COUNTS:
        for with_headers in (False, True):
            yield from works_of(count, with_headers)


main = partial(compare_all, "batches", __doc__, works)

if __name__ == "__main__":
    sys.exit(main())
