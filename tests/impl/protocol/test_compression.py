"""Compressed batches: agreement with two other hands, the framing of snappy, damage, limits."""

import gzip
import random
import sys
from types import SimpleNamespace
from typing import Any

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from impl.protocol.compression import Compression, compress, decompress
from impl.protocol.errors import (
    CompressionNotInstalled,
    DecodeError,
    DecompressedTooLarge,
    InvalidCompression,
    InvalidRecord,
)
from impl.protocol.record_batch import (
    HEADER_BYTES,
    Record,
    RecordBatch,
    assemble_batch,
    client_batch,
    decode_batch,
    encode_batch,
    encode_record,
)
from tests.impl.protocol.wire_batches import as_pairs, client_batches

# kafka-python reads its schemas in a way that Python 3.11 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")

CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
codecs = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())


def compressed(batch: RecordBatch, codec: int) -> RecordBatch:
    return batch._replace(attributes=batch.attributes | codec)


def peer(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Their module of batches. kafka-python brings its own framing of snappy, but no snappy."""
    if name == "aiokafka":
        import aiokafka.record.default_records as aiokafka

        return aiokafka
    import kafka.codec
    import kafka.record.default_records as kafka_python

    pieces = SimpleNamespace(
        compress=lambda data: bytes(cramjam.snappy.compress_raw(data)),
        decompress=lambda data: bytes(cramjam.snappy.decompress_raw(data)),
    )
    monkeypatch.setattr(kafka.codec, "snappy", pieces)
    return kafka_python


def their_bytes(library: Any, batch: RecordBatch, codec: int) -> bytes:
    builder = library.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=batch.is_transactional,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        batch_size=1 << 22,
    )
    for record in batch.records:
        pairs = list(record.headers)
        assert builder.append(
            record.offset_delta, record.timestamp, record.key, record.value, pairs
        )
    return bytes(builder.build())


PEERS = [("aiokafka", codec) for codec in CODECS]
PEERS += [("kafka-python", Compression.GZIP), ("kafka-python", Compression.SNAPPY)]


@pytest.mark.parametrize(("name", "codec"), PEERS)
def test_each_reads_what_the_other_writes(
    name: str, codec: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = peer(name, monkeypatch)

    @settings(max_examples=30)
    @given(client_batches())
    def agree(batch: RecordBatch) -> None:
        written = encode_batch(compressed(batch, codec))
        theirs = library.DefaultRecordBatch(written)
        assert theirs.validate_crc()
        assert [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in theirs] == [
            as_pairs(record) for record in batch.records
        ]
        read = decode_batch(their_bytes(library, batch, codec))
        # A block that compression would enlarge is sent as it is.
        assert read.compression in (codec, Compression.NONE)
        assert read._replace(attributes=batch.attributes, partition_leader_epoch=-1) == batch
        assert read.is_transactional == batch.is_transactional

    agree()


@pytest.mark.parametrize("name", ["aiokafka", "kafka-python"])
def test_snappy_has_the_same_bytes_everywhere(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = client_batch([Record(0, 0, b"k", bytes(range(256)) * 300)])
    theirs = their_bytes(peer(name, monkeypatch), batch, Compression.SNAPPY)
    assert encode_batch(compressed(batch, Compression.SNAPPY))[HEADER_BYTES:] == theirs[61:]


@codecs
@given(records=st.binary(max_size=200) | st.binary(max_size=9).map(lambda b: b * 20_000))
def test_what_is_compressed_comes_back(codec: Compression, records: bytes) -> None:
    assert decompress(codec, compress(codec, records)) == records


def test_blocks_have_the_form_that_kafka_reads() -> None:
    records = bytes(100_000)
    assert gzip.decompress(compress(Compression.GZIP, records)) == records
    snappy = compress(Compression.SNAPPY, records)
    assert snappy[:16] == bytes.fromhex("82534e41505059 00 00000001 00000001")
    lz4 = compress(Compression.LZ4, records)
    assert lz4[:4] == bytes.fromhex("04224d18")
    assert lz4[4] & 0x20, "the blocks are independent"
    assert compress(Compression.ZSTD, records)[:4] == bytes.fromhex("28b52ffd")


def test_raw_snappy_is_read_too() -> None:
    raw = bytes(cramjam.snappy.compress_raw(b"records" * 9))
    assert decompress(Compression.SNAPPY, raw) == b"records" * 9


def test_the_version_of_a_snappy_header_may_be_turned_around() -> None:
    block = bytearray(compress(Compression.SNAPPY, b"records"))
    block[8:16] = bytes.fromhex("01000000 01000000")
    assert decompress(Compression.SNAPPY, bytes(block)) == b"records"


@codecs
@given(noise=st.binary(max_size=60), position=st.integers(0, 400), as_xerial=st.booleans())
def test_damage_is_read_or_named(
    codec: Compression, noise: bytes, position: int, as_xerial: bool
) -> None:
    block = compress(codec, b"some records" * 20)
    xerial = compress(Compression.SNAPPY, b"")
    damaged = xerial + noise if as_xerial else block[:position] + noise + block[position + 2 :]
    try:
        decompress(codec, damaged, 61, limit_bytes=1 << 16)
    except (InvalidCompression, DecompressedTooLarge) as error:
        assert error.offset >= 61  # noqa: PT017 - it may as well be readable


@codecs
def test_every_cut_is_named(codec: Compression) -> None:
    data = encode_batch(compressed(client_batch([Record(0, 0, b"key", b"value")]), codec))
    block = data[HEADER_BYTES:]
    for size in range(1, len(block)):
        # Where raw snappy or a piece of xerial's ends early, the records do.
        if codec == Compression.SNAPPY and size == 16:
            assert decompress(codec, block[:size]) == b""
            continue
        with pytest.raises(InvalidCompression) as caught:
            decompress(codec, block[:size], HEADER_BYTES)
        assert caught.value.offset >= HEADER_BYTES


GZIP_MEMBER = compress(Compression.GZIP, b"more")
LZ4_FRAME = compress(Compression.LZ4, b"more")
BEHIND = {
    "gzip": (Compression.GZIP, b"xx", b""),
    "gzip, a magic cut off": (Compression.GZIP, b"\x1f", b""),
    "gzip, a member of another method": (Compression.GZIP, b"\x1f\x8bzzzzzzzzzzzz", b""),
    "gzip, a second member": (Compression.GZIP, GZIP_MEMBER + b"xx", b"more"),
    "gzip, a damaged member": (Compression.GZIP, GZIP_MEMBER[:10] + b"\xff" * 40, None),
    "lz4": (Compression.LZ4, b"xx", b""),
    "lz4, a second frame": (Compression.LZ4, LZ4_FRAME, b""),
    "zstd": (Compression.ZSTD, b"xx", None),
    "zstd, a second frame": (Compression.ZSTD, compress(Compression.ZSTD, b"more"), b"more"),
}
"""By what is behind a block: the records that Kafka 4.3.1 reads there, None where it answers a
Produce by -1 (UNKNOWN_SERVER_ERROR). Asked with records in two members or frames, and one."""


@pytest.mark.parametrize(("codec", "behind", "more"), BEHIND.values(), ids=BEHIND)
@pytest.mark.parametrize("size", [0, 300, 200_000])
def test_what_is_behind_the_end_is_read_as_kafka_does(
    codec: Compression, behind: bytes, more: bytes | None, size: int
) -> None:
    records = random.Random(1).randbytes(size)
    block = compress(codec, records) + behind
    if more is not None:
        assert decompress(codec, block) == records + more
        return
    with pytest.raises(InvalidCompression) as caught:
        decompress(codec, block, 61)
    assert caught.value.offset == 61


@pytest.mark.parametrize("content_checksum", [False, True])
def test_an_lz4_frame_with_dependent_blocks_is_refused(content_checksum: bool) -> None:
    def frame(is_linked: bool) -> bytes:
        compressor = cramjam.lz4.Compressor(
            content_checksum=content_checksum, block_linked=is_linked
        )
        compressor.compress(b"some records" * 20_000)
        return bytes(compressor.finish())

    assert len(decompress(Compression.LZ4, frame(False) + b"xx")) == 240_000
    with pytest.raises(InvalidCompression, match="blocks depend on each other") as caught:
        decompress(Compression.LZ4, frame(True), 61)
    assert caught.value.offset == 61


@pytest.mark.parametrize("rest", ["0000", "00000000", "ffffffff", "00000009 00"])
def test_bad_sizes_in_snappy_are_named(rest: str) -> None:
    block = compress(Compression.SNAPPY, b"") + bytes.fromhex(rest)
    with pytest.raises(InvalidCompression) as caught:
        decompress(Compression.SNAPPY, block, 61)
    assert caught.value.offset == 61 + 16


@codecs
def test_a_bomb_ends_at_the_limit(codec: Compression) -> None:
    block = compress(codec, bytes(100_000))
    assert len(decompress(codec, block, limit_bytes=100_000)) == 100_000
    with pytest.raises(DecompressedTooLarge) as caught:
        decompress(codec, block, 61, limit_bytes=99_999)
    assert caught.value.offset == 61


@codecs
def test_errors_inside_a_block_have_the_offset_of_the_block(codec: Compression) -> None:
    record = encode_record(0, 0, None, b"v")
    batch = assemble_batch([record, b"\x02"], base_timestamp=0, max_timestamp=0, attributes=codec)
    with pytest.raises(InvalidRecord, match=f"at byte {len(record)} of the decompressed") as caught:
        decode_batch(b"." * 9 + batch, 9)
    assert caught.value.offset == 9 + HEADER_BYTES


@codecs
def test_without_the_library_the_extra_is_named(
    codec: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = compressed(client_batch([Record(0, 0, b"k", b"v")]), codec)
    data = encode_batch(batch)
    monkeypatch.setitem(sys.modules, "cramjam", None)
    with pytest.raises(CompressionNotInstalled, match=r"kafka-eos\[compression\]"):
        encode_batch(batch)
    with pytest.raises(CompressionNotInstalled, match=codec.name.lower()) as caught:
        decode_batch(data)
    assert isinstance(caught.value, DecodeError)
    assert caught.value.offset == HEADER_BYTES
