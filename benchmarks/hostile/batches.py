"""Record batches that no honest producer writes: torn, with wrong checksums, wrong counts, bombs.

A bomb is a small block that holds much: zeros that one codec compresses, or records of seven bytes,
as many as the largest message holds. Bombs are made once in a process, for they take long to make.
"""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Final

from impl import Record, client_batch, encode_batch
from impl.protocol.compression import Compression, compress
from impl.protocol.crc32c import crc32c
from impl.protocol.record_batch import HEADER_BYTES, assemble_batch, encode_record

NOW_MS: Final = 1_700_000_000_000
"""The time at which requests are made, ms since the epoch."""
BOMB_BYTES: Final = 64 << 20
"""What a bomb of one record holds."""
BOMB_RECORDS: Final = (1, 149_000, 1_000_000)
"""How many records a bomb holds: one, nearly as many as may be, too many."""
_CRC_OFFSET: Final = 17
_ATTRIBUTES_OFFSET: Final = 21
_INTERESTING: Final = (0, 1, 0x7F, 0x80, 0xFF)


def draw_records(random: Random) -> bytes | None:
    """Records of a partition of a Produce request: none, right ones, and wrong ones."""
    kind = random.random()
    if kind < 0.05:
        return None
    batch = _honest(random)
    if kind < 0.5:
        return batch
    if kind < 0.6:
        return batch + _honest(random)  # Kafka takes one batch a partition
    if kind < 0.7:
        return batch[: random.randrange(len(batch))]
    damaged = bytearray(batch)
    for _ in range(random.randrange(1, 4)):
        place = random.randrange(len(damaged))
        damaged[place] = random.choice((*_INTERESTING, damaged[place] ^ 1 << random.randrange(8)))
    return bytes(damaged) if kind < 0.8 else with_crc(damaged)


def with_crc(batch: bytearray) -> bytes:
    """The batch with the checksum of what it holds, so that what is wrong is met behind it."""
    if len(batch) >= HEADER_BYTES:
        batch[_CRC_OFFSET:_ATTRIBUTES_OFFSET] = crc32c(bytes(batch[_ATTRIBUTES_OFFSET:])).to_bytes(
            4, "big"
        )
    return bytes(batch)


def _honest(random: Random) -> bytes:
    records = [
        Record(
            index, NOW_MS, random.choice((None, b"k")), b"v" * index, (("h", b"x"),) * (index % 2)
        )
        for index in range(random.choice((1, 1, 2, 9)))
    ]
    producer_id = random.choice((-1, -1, 0, 1000))
    numbered = {"producer_epoch": 0, "base_sequence": 0} if producer_id >= 0 else {}
    batch = client_batch(
        records,
        producer_id=producer_id,
        is_transactional=producer_id >= 0 and random.random() < 0.5,
        **numbered,
    )
    codec = random.choice((0, 0, *Compression))
    return encode_batch(batch._replace(attributes=batch.attributes | codec))


def draw_bomb(random: Random) -> bytes:
    """A batch of a few kilobytes that holds many megabytes, or very many records."""
    return _bomb(random.choice(list(Compression)[1:]), random.choice(BOMB_RECORDS))


@cache
def _bomb(codec: Compression, count: int) -> bytes:
    inside = bytes(BOMB_BYTES) if count == 1 else encode_record(0, 0, None, None) * count
    block = compress(codec, inside)
    batch = bytearray(assemble_batch([block], base_timestamp=NOW_MS, max_timestamp=NOW_MS))
    batch[_ATTRIBUTES_OFFSET + 1] = codec
    batch[HEADER_BYTES - 4 : HEADER_BYTES] = count.to_bytes(4, "big")
    last_offset_delta = _ATTRIBUTES_OFFSET + 2
    batch[last_offset_delta : last_offset_delta + 4] = (count - 1).to_bytes(4, "big")
    return with_crc(batch)
