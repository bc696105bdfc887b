"""Record batches: golden bytes, agreement with two other hands, damage, sequences."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from impl.protocol.errors import (
    CrcMismatch,
    DecodeError,
    InvalidBatch,
    InvalidField,
    InvalidRecord,
    TruncatedBatch,
    UnsupportedCompression,
    UnsupportedMagic,
    UnwritableBatch,
)
from impl.protocol.record_batch import (
    CONTROL,
    HEADER_BYTES,
    MAX_SEQUENCE,
    NO_SEQUENCE,
    TRANSACTIONAL,
    Record,
    RecordBatch,
    assemble_batch,
    check_crc,
    client_batch,
    decode_batch,
    decode_batches,
    decrement_sequence,
    encode_batch,
    encode_record,
    increment_sequence,
    is_next_sequence,
    last_sequence,
    place_batch,
    read_header,
    read_headers,
    restamp_batch,
)
from tests.impl.protocol.wire_batches import as_pairs, client_batches, stored_batches

# kafka-python reads its schemas in a way that Python 3.11 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")

COMMIT = bytes.fromhex(
    "0000000000000000 00000042 ffffffff 02 6eb21b54 0030 00000000 0000000000000000"
    "0000000000000000 00000000000003e8 0000 ffffffff 00000001 20 00 00 00 08 00000001"
    "0c 000000000005 00"
)
ABORT = bytes.fromhex(
    "0000000000000000 00000042 ffffffff 02 9a8ccd1c 0030 00000000 0000000000000000"
    "0000000000000000 00000000000003e8 0000 ffffffff 00000001 20 00 00 00 08 00000000"
    "0c 000000000005 00"
)
DATA = bytes.fromhex(
    "0000000000000000 00000048 ffffffff 02 2fc22d50 0010 00000001 00000000000003e8"
    "00000000000003e9 00000000000003e8 0000 00000007 00000002 12 00 00 00 02 6b 04 7631 00"
    "18 00 02 02 01 04 7632 02 02 68 02 78"
)


def marker(key: bytes) -> RecordBatch:
    return RecordBatch(
        records=(Record(0, 0, key, bytes.fromhex("000000000005")),),
        attributes=TRANSACTIONAL | CONTROL,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=1000,
        producer_epoch=0,
    )


DATA_BATCH = client_batch(
    [
        Record(0, 1000, b"k", b"v1"),
        Record(1, 1001, None, b"v2", (("h", b"x"),)),
    ],
    producer_id=1000,
    producer_epoch=0,
    base_sequence=7,
    is_transactional=True,
)


@pytest.mark.parametrize(
    ("batch", "golden"),
    [
        (marker(bytes.fromhex("00000001")), COMMIT),
        (marker(bytes.fromhex("00000000")), ABORT),
        (DATA_BATCH, DATA),
    ],
    ids=["commit", "abort", "data"],
)
def test_golden_bytes(batch: RecordBatch, golden: bytes) -> None:
    assert encode_batch(batch) == golden
    assert decode_batch(golden) == batch


def test_a_batch_names_its_bits() -> None:
    assert decode_batch(COMMIT).is_control
    assert not decode_batch(DATA).is_control
    assert decode_batch(DATA).is_transactional
    assert decode_batch(DATA).last_sequence == 8
    assert decode_batch(COMMIT).last_sequence == NO_SEQUENCE
    assert decode_batch(DATA).last_offset == 1


def test_the_header_alone() -> None:
    header = read_header(DATA)
    check_crc(DATA, header)
    assert header.size_bytes == len(DATA)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1000, 0, 7)
    assert (header.last_offset_delta, header.records_count) == (1, 2)


@pytest.mark.parametrize(
    ("base", "delta", "last"),
    [(0, 0, 0), (MAX_SEQUENCE, 1, 0), (2147483646, 3, 1), (2147483645, 4, 1), (5, 4, 9)],
)
def test_sequences_wrap(base: int, delta: int, last: int) -> None:
    assert increment_sequence(base, delta) == last
    assert last_sequence(base, delta) == last
    assert decrement_sequence(last, delta) == base


def test_sequences_at_the_edges() -> None:
    assert decrement_sequence(1, 3) == 2147483646
    assert last_sequence(NO_SEQUENCE, 9) == NO_SEQUENCE
    assert is_next_sequence(MAX_SEQUENCE, 0)
    assert is_next_sequence(NO_SEQUENCE, 0)
    assert is_next_sequence(4, 5)
    assert not is_next_sequence(4, 4)
    assert not is_next_sequence(4, 6)
    assert not is_next_sequence(4, 0)


@given(stored_batches() | client_batches())
def test_what_is_written_is_read_again(batch: RecordBatch) -> None:
    data = encode_batch(batch)
    assert decode_batch(data) == batch
    assert decode_batches(data + data) == [batch, batch]


def without_leader_epoch(data: Any) -> bytes:
    """Both libraries write leader epoch 0, Kafka's client -1; it lies outside the CRC."""
    return bytes(data[:12]) + bytes(data[16:])


def append_all(builder: Any, batch: RecordBatch) -> Any:
    for record in batch.records:
        pairs = list(record.headers)
        appended = builder.append(
            record.offset_delta, record.timestamp, record.key, record.value, pairs
        )
        assert appended is not None
    return builder.build()


def builder_arguments(batch: RecordBatch) -> dict[str, Any]:
    return {
        "magic": 2,
        "compression_type": 0,
        "is_transactional": batch.is_transactional,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "batch_size": 1 << 20,
    }


@given(client_batches())
def test_kafka_python_writes_the_same_bytes(batch: RecordBatch) -> None:
    from kafka.record.default_records import DefaultRecordBatchBuilder

    theirs = append_all(DefaultRecordBatchBuilder(**builder_arguments(batch)), batch)
    assert without_leader_epoch(theirs) == without_leader_epoch(encode_batch(batch))


@given(client_batches())
def test_aiokafka_writes_the_same_bytes(batch: RecordBatch) -> None:
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    theirs = append_all(DefaultRecordBatchBuilder(**builder_arguments(batch)), batch)
    assert without_leader_epoch(theirs) == without_leader_epoch(encode_batch(batch))


def as_read(record: Any) -> tuple[Any, ...]:
    return record.offset, record.timestamp, record.key, record.value, list(record.headers)


@given(client_batches())
def test_both_libraries_read_what_we_write(batch: RecordBatch) -> None:
    import aiokafka.record.default_records as aio
    import kafka.record.default_records as kafka_python

    expected = [as_pairs(record) for record in batch.records]
    for library in (kafka_python, aio):
        theirs = library.DefaultRecordBatch(encode_batch(batch))
        assert theirs.validate_crc()
        assert theirs.is_transactional == batch.is_transactional
        assert theirs.base_offset == batch.base_offset
        assert theirs.last_offset_delta == batch.last_offset_delta
        assert (theirs.producer_id, theirs.producer_epoch) == (
            batch.producer_id,
            batch.producer_epoch,
        )
        assert theirs.base_sequence == batch.base_sequence
        assert (theirs.first_timestamp, theirs.max_timestamp) == (
            batch.base_timestamp,
            batch.max_timestamp,
        )
        assert [as_read(record) for record in theirs] == expected


@settings(max_examples=20)
@given(client_batches())
def test_every_cut_is_named(batch: RecordBatch) -> None:
    data = encode_batch(batch)
    for size in {*range(100), *range(0, len(data), 97), len(data) - 1} & {*range(len(data))}:
        with pytest.raises(TruncatedBatch):
            decode_batch(data[:size])


def with_crc(data: bytes) -> bytes:
    """The damage goes deeper when the checksum fits it."""
    return restamp_batch(
        data,
        int.from_bytes(data[21:23], "big", signed=True),
        int.from_bytes(data[35:43], "big", signed=True),
    )


@given(client_batches(), st.data())
def test_a_flipped_bit_is_named(batch: RecordBatch, data: st.DataObject) -> None:
    encoded = encode_batch(batch)
    for _ in range(10):
        bit = data.draw(st.integers(0, len(encoded) * 8 - 1))
        damaged = bytearray(encoded)
        damaged[bit // 8] ^= 1 << bit % 8
        if bit // 8 < 8 or 12 <= bit // 8 < 16:  # base offset and leader epoch: outside the CRC
            assert decode_batch(bytes(damaged)).records == batch.records
            continue
        with pytest.raises(DecodeError):
            decode_batch(bytes(damaged))
        try:
            decode_batch(with_crc(bytes(damaged)))
        except DecodeError as error:
            assert 0 <= error.offset <= len(encoded)  # noqa: PT017 - it may as well be readable


@given(st.binary(max_size=40), st.integers(-2, 6))
def test_noise_for_records_is_read_or_named(noise: bytes, count: int) -> None:
    data = bytearray(assemble_batch([noise], base_timestamp=0, max_timestamp=0))
    data[57:61] = count.to_bytes(4, "big", signed=True)
    try:
        decode_batch(with_crc(bytes(data)))
    except DecodeError as error:
        assert isinstance(error, InvalidRecord)  # noqa: PT017 - it may as well be readable


def raw(*parts: str) -> bytes:
    return assemble_batch([bytes.fromhex("".join(parts))], base_timestamp=0, max_timestamp=0)


BAD_RECORDS = {
    "longer than the batch": "40 00 00 00 01 01 00",
    "negative length": "01",
    "shorter than its fields": "0a 00 00 00 01 01 00",
    "longer than its fields": "0e 00 00 00 01 01 00 00",
    "key beyond the record": "0c 00 00 00 7e 01 00",
    "bytes after the last": "0c 00 00 00 01 01 00 ff",
    "negative header count": "0c 00 00 00 01 01 01",
    "more headers than bytes": "0c 00 00 00 01 01 7e",
    "null header key": "10 00 00 00 01 01 02 01 00",
    "header value beyond the record": "10 00 00 00 01 01 02 00 7e",
    "header key no utf-8": "12 00 00 00 01 01 02 02 ff 01",
    "a varint without end": "10 00 ffffffffffff",
}


@pytest.mark.parametrize("name", BAD_RECORDS)
def test_bad_records_are_named(name: str) -> None:
    with pytest.raises(InvalidRecord):
        decode_batch(raw(BAD_RECORDS[name]))


def test_any_negative_key_length_is_null_as_in_kafka() -> None:
    assert decode_batch(raw("0c 00 00 00 03 01 00")).records[0].key is None


def test_damaged_headers_are_named() -> None:
    with pytest.raises(UnsupportedMagic):
        decode_batch(DATA[:16] + b"\x01" + DATA[17:])
    with pytest.raises(InvalidBatch):
        decode_batch(DATA[:8] + (48).to_bytes(4, "big") + DATA[12:])
    with pytest.raises(InvalidBatch):
        decode_batch(DATA[:8] + b"\xff\xff\xff\xff" + DATA[12:])
    with pytest.raises(CrcMismatch) as caught:
        decode_batch(DATA[:-1] + b"y")
    assert caught.value.offset == 17


@pytest.mark.parametrize("codec", range(5, 8))
def test_an_unassigned_codec_is_named(codec: int) -> None:
    compressed = restamp_batch(DATA, codec, 1001)
    with pytest.raises(UnsupportedCompression, match=f"codec {codec}"):
        decode_batch(compressed)
    with pytest.raises(UnsupportedCompression):
        encode_batch(RecordBatch((), attributes=codec))


def test_offsets_of_errors_count_from_the_start_of_the_data() -> None:
    with pytest.raises(CrcMismatch) as caught:
        decode_batches(DATA + COMMIT[:-1] + b"y")
    assert caught.value.offset == len(DATA) + 17


def test_headers_of_a_whole_log() -> None:
    found = [(offset, header.producer_id) for offset, header in read_headers(DATA + COMMIT)]
    assert found == [(0, 1000), (len(DATA), 1000)]
    with pytest.raises(TruncatedBatch):
        list(read_headers(DATA + COMMIT[:-1]))


def test_a_placed_batch_keeps_its_checksum() -> None:
    placed = place_batch(DATA, read_header(DATA), 77, 3)
    batch = decode_batch(placed)
    assert (batch.base_offset, batch.partition_leader_epoch) == (77, 3)
    assert batch.records == DATA_BATCH.records


ONE = [Record(0, 0, b"k", b"v")]
UNWRITABLE: dict[str, tuple[list[Record], dict[str, Any]]] = {
    "records": ([], {}),
    "producer_epoch": (ONE, {"producer_id": 1, "base_sequence": 0}),
    "base_sequence": (ONE, {"producer_id": 1, "producer_epoch": 0}),
    "producer_id": (ONE, {"is_transactional": True}),
}


@pytest.mark.parametrize("field", UNWRITABLE)
def test_a_client_batch_refuses_what_kafkas_writer_refuses(field: str) -> None:
    parts, arguments = UNWRITABLE[field]
    with pytest.raises(UnwritableBatch) as caught:
        client_batch(parts, **arguments)
    assert caught.value.path == field


def test_encode_batch_writes_invalid_values_for_a_judge() -> None:
    odd = RecordBatch(
        records=(Record(5, 0, None, None),),
        base_offset=9,
        last_offset_delta=3,
        base_timestamp=0,
        max_timestamp=-7,
        producer_id=-1,
        base_sequence=4,
        attributes=TRANSACTIONAL | CONTROL,
    )
    assert decode_batch(encode_batch(odd)) == odd


@pytest.mark.parametrize(
    "batch",
    [
        RecordBatch((), producer_epoch=1 << 15),
        RecordBatch((), base_offset=1 << 63),
        RecordBatch((Record(0, 0, "text", None),)),  # type: ignore[arg-type]
        RecordBatch((Record(0, 0, None, None, (("k", "text"),)),)),  # type: ignore[arg-type]
        RecordBatch((Record(0, 1 << 64, None, None),)),
    ],
)
def test_values_that_do_not_fit_are_named(batch: RecordBatch) -> None:
    with pytest.raises(InvalidField):
        encode_batch(batch)


def test_the_smallest_batch_has_61_bytes() -> None:
    assert len(assemble_batch([], base_timestamp=0, max_timestamp=0)) == HEADER_BYTES
    assert encode_record(0, 0, None, None) == bytes.fromhex("0c 00 00 00 01 01 00")


def test_unassigned_bits_are_kept() -> None:
    """Kafka reads the low byte and keeps the rest."""
    odd = DATA_BATCH._replace(attributes=DATA_BATCH.attributes | 0x7F80)
    assert decode_batch(encode_batch(odd)) == odd
