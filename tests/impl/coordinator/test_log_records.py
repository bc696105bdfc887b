"""The records of `__transaction_state`: golden bytes, round trips, damage, placement."""

import json
import re
from dataclasses import replace
from typing import Any
from zipfile import ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impl.coordinator.config import TransactionConfig
from impl.coordinator.log_records import (
    InvalidTransactionRecord,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from impl.coordinator.metadata import TopicPartition, TransactionImage, UnwritableImage
from impl.coordinator.placement import java_string_hash, partition_for
from impl.coordinator.states import ONLY_PENDING, TransactionState
from impl.protocol.errors import DecodeError, UnknownRecordVersion
from impl.protocol.schemas import MESSAGES
from tests.impl.jars import Unavailable, jars
from tests.impl.protocol.test_schemas import differences

LEVEL_0 = TransactionConfig(transaction_version=0)
LEVEL_2 = TransactionConfig()
ONGOING = TransactionImage(
    1000, 0, 60000, TransactionState.ONGOING, frozenset({TopicPartition("a", 0)}), 5, 5
)
EMPTY = TransactionImage(1000, 0, 60000, TransactionState.EMPTY, frozenset(), -1, 5)

GOLDEN = {
    "ongoing": (
        ONGOING,
        "0000 00000000000003e8 0000 0000ea60 01 00000001 0001 61 00000001 00000000"
        "0000000000000005 0000000000000005",
    ),
    "empty": (
        EMPTY,
        "0000 00000000000003e8 0000 0000ea60 00 ffffffff 0000000000000005 ffffffffffffffff",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_values_of_level_0_are_the_golden_bytes(name: str) -> None:
    image, golden = GOLDEN[name]
    assert encode_value(image, LEVEL_0) == bytes.fromhex(golden)
    assert decode_value(bytes.fromhex(golden)) == image


def test_the_key_is_the_golden_bytes() -> None:
    assert encode_key("T") == bytes.fromhex("0000 0001 54")
    assert decode_key(bytes.fromhex("0000 0001 54")) == "T"


def test_a_value_of_level_1_is_flexible_and_has_tags() -> None:
    image = replace(ONGOING, client_transaction_version=2, previous_producer_id=1000)
    assert encode_value(image, LEVEL_2) == bytes.fromhex(
        "0001 00000000000003e8 0000 0000ea60 01 02 02 61 02 00000000 00"
        "0000000000000005 0000000000000005 02 00 08 00000000000003e8 02 02 0002"
    )
    older = replace(LEVEL_2, logs_producer_ids=False)
    assert decode_value(encode_value(image, older)) == replace(image, previous_producer_id=-1)


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
partitions = st.frozensets(st.builds(TopicPartition, names, st.integers(0, 9)), max_size=5)


@st.composite
def images(draw: Any) -> TransactionImage:
    state = draw(st.sampled_from(sorted(set(TransactionState) - ONLY_PENDING)))
    return TransactionImage(
        draw(int64),
        draw(st.integers(-1, 32767)),
        draw(st.integers(0, (1 << 31) - 1)),
        state,
        frozenset() if state is TransactionState.EMPTY else draw(partitions),
        draw(int64),
        draw(int64),
        draw(int64),
        draw(int64),
        client_transaction_version=draw(st.sampled_from([0, 1, 2])),
    )


@given(names, images())
def test_what_is_written_is_read(name: str, image: TransactionImage) -> None:
    assert decode_key(encode_key(name)) == name
    assert decode_value(encode_value(image, LEVEL_2)) == image
    without = replace(
        image, previous_producer_id=-1, next_producer_id=-1, client_transaction_version=0
    )
    assert decode_value(encode_value(without, LEVEL_0)) == without
    if image.client_transaction_version:
        with pytest.raises(UnwritableImage):
            encode_value(image, LEVEL_0)


@given(images(), st.data())
def test_every_cut_is_named(image: TransactionImage, data: st.DataObject) -> None:
    config = LEVEL_2 if image.client_transaction_version else LEVEL_0
    value = encode_value(image, config)
    size = data.draw(st.integers(0, len(value) - 1))
    with pytest.raises(DecodeError):
        decode_value(value[:size])


@pytest.mark.parametrize("status", [6, 7, 8, -1])
def test_a_state_that_no_log_has_is_refused(status: int) -> None:
    value = bytearray(bytes.fromhex(GOLDEN["ongoing"][1]))
    value[16] = status & 0xFF
    with pytest.raises(InvalidTransactionRecord):
        decode_value(bytes(value))


@pytest.mark.parametrize(("name", "status"), [("empty", 1), ("ongoing", 0)])
def test_only_an_empty_id_has_no_partitions(name: str, status: int) -> None:
    value = bytearray(bytes.fromhex(GOLDEN[name][1]))
    value[16] = status
    with pytest.raises(InvalidTransactionRecord):
        decode_value(bytes(value))


def test_a_version_of_tomorrow_is_named() -> None:
    with pytest.raises(UnknownRecordVersion):
        decode_key(bytes.fromhex("0001 0001 54"))
    with pytest.raises(UnknownRecordVersion):
        decode_value(bytes.fromhex("0002") + bytes(40))


def test_the_tables_have_the_fields_of_the_jar() -> None:
    coordinates = {"org.apache.kafka:kafka-transaction-coordinator": "4.3.1"}
    try:
        folder = jars("transaction-coordinator-4.3.1", coordinates)
    except Unavailable as reason:
        pytest.skip(str(reason))
    with ZipFile(folder / "kafka-transaction-coordinator-4.3.1.jar") as jar:
        for name, key in (("Key", "TRANSACTION_LOG_KEY"), ("Value", "TRANSACTION_LOG_VALUE")):
            text = jar.read(f"common/message/TransactionLog{name}.json").decode()
            schema = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
            schema["apiKey"] = -1  # it is the number of a record type, not of an api
            for field in schema["fields"]:
                field.setdefault("versions", field.get("taggedVersions"))
            ours = MESSAGES[key, "record"]
            assert list(differences(ours, schema)) == []
            schema["fields"][0]["type"] = "int8"
            assert list(differences(ours, schema))


@pytest.mark.parametrize(
    ("name", "partition"),
    [("T", 34), ("my-txn", 45), ("my-transactional-id", 46), ("transactional-id-1", 41)],
)
def test_where_an_id_belongs(name: str, partition: int) -> None:
    assert partition_for(name, 50) == partition


def test_a_hash_has_32_bits_and_may_be_the_least() -> None:
    assert java_string_hash("polygenelubricants") == -(1 << 31)
    assert partition_for("polygenelubricants", 50) == 0
    assert java_string_hash("\U0001f600") == 0xD83D * 31 + 0xDE00
    assert java_string_hash("hello") == 99162322
