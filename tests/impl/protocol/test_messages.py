"""The message codec: against another hand's, against golden bytes, against damage."""

import importlib
from functools import cache
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from impl.protocol import errors
from impl.protocol.errors import (
    DecodeError,
    EncodeError,
    ErrorCode,
    InvalidField,
    InvalidLength,
    InvalidTags,
    InvalidText,
    InvalidVarint,
    MissingField,
    NullNotAllowed,
    TrailingBytes,
    TruncatedFrame,
    UnknownApi,
    UnsupportedVersion,
)
from impl.protocol.messages import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    encode_unsupported_version,
)
from impl.protocol.schemas import (
    MESSAGES,
    SUPPORTED_VERSIONS,
    ApiKey,
    request_header_version,
    response_header_version,
)
from tests.impl.protocol.wire_messages import (
    FORMS,
    OLDEST_IN_KAFKA_4,
    Form,
    bodies,
    decode,
    encode,
    header_size,
    is_subset,
    name_of,
)
from tests.sizes import sized

BETWEEN = [
    form
    for form in FORMS
    if form[1] not in (SUPPORTED_VERSIONS[form[0]].first, SUPPORTED_VERSIONS[form[0]].last)
]
"""Versions that are neither the first nor the last of their api. In the suite Java reads and writes
them all: test_kafka_messages.py."""

KNOWN_TO_KIO = [form for form in FORMS if form[1] >= OLDEST_IN_KAFKA_4.get(form[0], 0)]
"""kio does not have what Kafka 4 has not."""


def of_suite(forms: list[Form]) -> list[Any]:
    """The forms as parameters, those in between for `make full`."""
    return sized([(form,) for form in forms], [(form,) for form in BETWEEN])


# kio reads times as timedelta and datetime, and error codes as an enum: values that it can hold.
FOR_KIO = {
    "error_code": st.sampled_from([int(code) for code in ErrorCode]),
    "topic_config_error_code": st.sampled_from([int(code) for code in ErrorCode]),
    "throttle_time_ms": st.integers(0, 1 << 30),
    "timeout_ms": st.integers(0, 1 << 30),
    "partition_error_code": st.sampled_from([int(code) for code in ErrorCode]),
    "retention_time_ms": st.integers(0, 1 << 30),
    "session_lifetime_ms": st.integers(0, 1 << 40),
    "transaction_timeout_ms": st.integers(0, 1 << 30),
    "transaction_start_time_ms": st.integers(0, 1 << 40),
    "log_append_time_ms": st.integers(-1, 1 << 40),
    **dict.fromkeys(
        (
            *("max_lifetime_ms", "renew_period_ms", "expiry_time_period_ms"),
            *("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"),
            *("issue_timestamp", "expiry_timestamp", "max_timestamp"),
            *("last_fetch_timestamp", "last_caught_up_timestamp"),
        ),
        st.integers(0, 1 << 40),
    ),
}


@pytest.mark.parametrize("form", of_suite(FORMS), ids=name_of)
@settings(max_examples=5)
@given(data=st.data())
def test_what_is_written_is_read_again(form: Any, data: st.DataObject) -> None:
    body = data.draw(bodies(form))
    payload = encode(form, body)
    header, read = decode(form, payload)
    assert header["correlation_id"] == 7
    assert is_subset(body, read)
    assert encode(form, read) == payload
    every_field = {field.name for field in MESSAGES[form[0], form[2]].fields}
    assert set(read) == every_field


@cache
def kio_codec(form: tuple[ApiKey, int, str]) -> Any:
    from kio.serial import entity_reader, entity_writer

    api_key, version, direction = form
    module = importlib.import_module(
        f"kio.schema.{api_key.name.lower()}.v{version}.{direction}",
    )
    wanted = api_key.name.replace("_", "").lower() + direction
    entity = next(value for name, value in vars(module).items() if name.lower() == wanted)
    return entity_reader(entity), entity_writer(entity)


@pytest.mark.parametrize("form", of_suite(KNOWN_TO_KIO), ids=name_of)
@settings(max_examples=5)
@given(data=st.data())
def test_kio_reads_and_writes_the_same_bytes(form: Any, data: st.DataObject) -> None:
    read, write = kio_codec(form)
    payload = encode(form, data.draw(bodies(form, **FOR_KIO)))[header_size(form) :]
    entity, size = read(payload, 0)
    assert size == len(payload)
    buffer = BytesIO()
    write(buffer, entity)
    assert buffer.getvalue() == payload


@pytest.mark.parametrize("form", of_suite(FORMS), ids=name_of)
@settings(max_examples=2)
@given(data=st.data())
def test_every_cut_is_named(form: Any, data: st.DataObject) -> None:
    body = data.draw(bodies(form))
    payload = encode(form, body)
    for size in range(min(len(payload), 300)):
        with pytest.raises(DecodeError) as caught:
            decode(form, payload[:size])
        assert 0 <= caught.value.offset <= size
        assert caught.value.advice in str(caught.value)
    if form[2] == "request":
        assert decode(form, payload + b"\0\xff") == decode(form, payload)
    else:
        with pytest.raises(TrailingBytes):
            decode(form, payload + b"\0")


@settings(max_examples=300)
@given(st.sampled_from(FORMS), st.binary(max_size=60))
def test_noise_is_read_or_named(form: Any, noise: bytes) -> None:
    api_key, version, direction = form
    head = (
        api_key.to_bytes(2, "big") + version.to_bytes(2, "big") if direction == "request" else b""
    )
    try:
        decode(form, head + noise)
    except DecodeError as error:
        assert type(error) is not DecodeError  # noqa: PT017 - each has a name of its own


GOLDEN = {
    "ApiVersions v0 request": (
        (ApiKey.API_VERSIONS, 0, "request"),
        {},
        "0012 0000 00000007 0006 636c69656e74",
    ),
    "ApiVersions v3 request": (
        (ApiKey.API_VERSIONS, 3, "request"),
        {"client_software_name": "k", "client_software_version": "1"},
        "0012 0003 00000007 0006 636c69656e74 00 02 6b 02 31 00",
    ),
    "InitProducerId v1 request": (
        (ApiKey.INIT_PRODUCER_ID, 1, "request"),
        {"transactional_id": None, "transaction_timeout_ms": 60000},
        "0016 0001 00000007 0006 636c69656e74 ffff 0000ea60",
    ),
    "InitProducerId v4 request": (
        (ApiKey.INIT_PRODUCER_ID, 4, "request"),
        {"transactional_id": "T", "transaction_timeout_ms": 60000},
        "0016 0004 00000007 0006 636c69656e74 00 02 54 0000ea60 ffffffffffffffff ffff 00",
    ),
    "InitProducerId v4 response": (
        (ApiKey.INIT_PRODUCER_ID, 4, "response"),
        {"error_code": 0, "producer_id": 1000, "producer_epoch": 0},
        "00000007 00 00000000 0000 00000000000003e8 0000 00",
    ),
    "Produce v3 request": (
        (ApiKey.PRODUCE, 3, "request"),
        {
            "acks": -1,
            "timeout_ms": 30000,
            "topics": [{"name": "t", "partitions": [{"index": 2, "records": b"RR"}]}],
        },
        "0000 0003 00000007 0006 636c69656e74"
        "ffff ffff 00007530 00000001 0001 74 00000001 00000002 00000002 5252",
    ),
    "Produce v9 request": (
        (ApiKey.PRODUCE, 9, "request"),
        {
            "acks": 1,
            "timeout_ms": 1,
            "topics": [{"name": "t", "partitions": [{"index": 2, "records": None}]}],
        },
        "0000 0009 00000007 0006 636c69656e74 0000 0001 00000001 02 02 74 02 00000002 00 00 00 00",
    ),
    "Produce v10 response with a leader hint": (
        (ApiKey.PRODUCE, 10, "response"),
        {
            "topics": [
                {
                    "name": "t",
                    "partitions": [
                        {
                            "index": 0,
                            "error_code": 6,
                            "base_offset": -1,
                            "current_leader": {"leader_id": 3, "leader_epoch": 4},
                        }
                    ],
                }
            ],
            "node_endpoints": [{"node_id": 3, "host": "h", "port": 9}],
        },
        "00000007 00 02 02 74 02 00000000 0006 ffffffffffffffff ffffffffffffffff"
        "ffffffffffffffff 01 00 01 00 09 00000003 00000004 00 00 00000000"
        "01 00 0d 02 00000003 02 68 00000009 00 00",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_bytes(name: str) -> None:
    form, body, golden = GOLDEN[name]
    payload = encode(form, body)
    assert payload == bytes.fromhex(golden)
    assert is_subset(body, decode(form, payload)[1])


def test_header_versions_follow_the_first_flexible_version() -> None:
    assert [request_header_version(ApiKey.PRODUCE, v) for v in (8, 9)] == [1, 2]
    assert [response_header_version(ApiKey.PRODUCE, v) for v in (8, 9)] == [0, 1]
    assert [request_header_version(ApiKey.API_VERSIONS, v) for v in (2, 3)] == [1, 2]
    assert [response_header_version(ApiKey.API_VERSIONS, v) for v in range(5)] == [0] * 5


def test_an_unsupported_api_versions_answer_is_written_and_read_in_version_0_form() -> None:
    answer = {
        "error_code": ErrorCode.UNSUPPORTED_VERSION,
        "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 2}],
    }
    payload = encode_unsupported_version(9, 0, 2)
    assert payload == bytes.fromhex("00000009 0023 00000001 0012 0000 0002")
    for asked in range(5):
        header, body = decode_response(ApiKey.API_VERSIONS, asked, payload)
        assert header == {"correlation_id": 9}
        assert is_subset(answer, body)


def test_missing_optional_fields_take_defaults() -> None:
    payload = encode_request(ApiKey.METADATA, 12, 1, None, {"topics": None})
    header, body = decode_request(payload)
    assert header["client_id"] is None
    assert body == {
        "topics": None,
        "allow_auto_topic_creation": True,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }


def test_fields_of_other_versions_have_their_defaults() -> None:
    payload = encode_request(ApiKey.INIT_PRODUCER_ID, 0, 1, "c", {"transaction_timeout_ms": 5})
    assert decode_request(payload)[1]["producer_id"] == -1


def test_default_lists_are_not_shared() -> None:
    payload = encode_response(
        ApiKey.PRODUCE,
        3,
        1,
        {"topics": [], "throttle_time_ms": 0},
    )
    first = decode_response(ApiKey.PRODUCE, 3, payload)[1]
    first["node_endpoints"].append("mine")
    assert decode_response(ApiKey.PRODUCE, 3, payload)[1]["node_endpoints"] == []


@pytest.mark.parametrize("tags", [{0: b"zero", 9: b""}, {5: b"x" * 300}])
def test_unknown_tagged_fields_are_kept(tags: dict[int, bytes]) -> None:
    row = {"index": 0, "records": b"", "unknown_tagged_fields": tags}
    body = {
        "acks": 1,
        "timeout_ms": 1,
        "topics": [{"name": "t", "partitions": [row]}],
        "unknown_tagged_fields": tags,
    }
    payload = encode_request(ApiKey.PRODUCE, 9, 1, "c", body)
    read = decode_request(payload)[1]
    assert is_subset(body, read)
    assert encode_request(ApiKey.PRODUCE, 9, 1, "c", read) == payload


def test_unknown_tags_stand_beside_known_ones() -> None:
    body = {
        "error_code": 0,
        "api_keys": [],
        "finalized_features_epoch": 5,
        "zk_migration_ready": True,
        "unknown_tagged_fields": {2000: b"new"},
    }
    payload = encode_response(ApiKey.API_VERSIONS, 4, 1, body)
    assert payload.hex().endswith(
        "03 01 08 0000000000000005 03 01 01 d00f 03 6e6577".replace(" ", "")
    )
    assert is_subset(body, decode_response(ApiKey.API_VERSIONS, 4, payload)[1])


DAMAGE = {
    "a negative count": (InvalidLength, "0000 0003 00000001 ffff ffff ffff 00007530 fffffffe"),
    "a null topic list": (NullNotAllowed, "0000 0003 00000001 ffff ffff ffff 00007530 ffffffff"),
    "a compact null": (NullNotAllowed, "0000 0009 00000001 ffff 00 00 ffff 00007530 00 00"),
    "a string below -1": (InvalidLength, "0000 0003 00000001 ffff fffe ffff 00007530 00000000"),
    "no utf-8": (InvalidText, "0000 0003 00000001 ffff 0001 ff ffff 00007530 00000000"),
    "a count beyond the frame": (
        TruncatedFrame,
        "0000 0003 00000001 ffff ffff ffff 00007530 7fffffff",
    ),
    "an endless varint": (
        InvalidVarint,
        "0000 0009 00000001 ffff 00 00 ffff 00007530 ffffffffffff00",
    ),
    "tags that descend": (
        InvalidTags,
        "0000 0009 00000001 ffff 00 00 ffff 00007530 01 02 05 00 04 00",
    ),
    "a tag twice": (InvalidTags, "0000 0009 00000001 ffff 02 05 00 05 00 00 ffff 00007530 01 00"),
    "a tag beyond the frame": (
        TruncatedFrame,
        "0000 0009 00000001 ffff 00 00 ffff 00007530 01 01 05 09 00",
    ),
}


def test_a_header_that_is_cut_has_one_message_whatever_was_decoded_before() -> None:
    decode_request(encode_request(ApiKey.METADATA, 0, 1, None, {"topics": []}))
    for known in (True, False):
        cut = bytes.fromhex("0003 0000 000000" if known else "0003 0001 000000")
        with pytest.raises(TruncatedFrame, match="a request header has at least 8 bytes"):
            decode_request(cut)


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_has_a_name(name: str) -> None:
    error, payload = DAMAGE[name]
    with pytest.raises(error):
        decode_request(bytes.fromhex(payload))


def test_a_known_tag_of_another_size_is_named() -> None:
    payload = bytearray(
        encode_response(
            ApiKey.API_VERSIONS, 3, 1, {"error_code": 0, "api_keys": [], "zk_migration_ready": True}
        )
    )
    payload[-2:] = b"\x02\x01\x01"
    with pytest.raises(InvalidTags):
        decode_response(ApiKey.API_VERSIONS, 3, bytes(payload))


def test_unknown_apis_and_versions_are_named() -> None:
    with pytest.raises(UnknownApi) as unknown:
        decode_request(bytes.fromhex("03e7 0000 00000001 ffff"))
    assert unknown.value.api_key == 999
    with pytest.raises(UnsupportedVersion) as caught:
        decode_request(bytes.fromhex("0012 0063 00000005 ffff"))
    assert (caught.value.api_key, caught.value.api_version) == (18, 99)
    assert caught.value.correlation_id == 5
    with pytest.raises(UnsupportedVersion):
        encode_request(ApiKey.PRODUCE, 14, 1, None, {})
    with pytest.raises(UnknownApi):
        decode_response(999, 0, b"")


PRODUCE = {"acks": 1, "timeout_ms": 1, "topics": []}
PARTITION = {"index": 0, "records": b""}
UNWRITABLE: dict[str, tuple[int, dict[str, Any], type[EncodeError], str]] = {
    "missing": (9, {"acks": 1, "topics": []}, MissingField, ".timeout_ms"),
    "too wide": (9, {**PRODUCE, "acks": 1 << 15}, InvalidField, ".acks"),
    "wrong type": (9, {**PRODUCE, "topics": 5}, InvalidField, ".topics"),
    "null": (9, {**PRODUCE, "topics": None}, InvalidField, ".topics"),
    "not a dict": (9, {**PRODUCE, "topics": ["t"]}, InvalidField, ".topics[0]"),
    "deep": (
        9,
        {**PRODUCE, "topics": [{"name": "t", "partitions": [PARTITION, {"index": 1}]}]},
        MissingField,
        ".topics[0].partitions[1].records",
    ),
    "text for bytes": (
        9,
        {**PRODUCE, "topics": [{"name": "t", "partitions": [{"index": 1, "records": "x"}]}]},
        InvalidField,
        ".topics[0].partitions[0].records",
    ),
    "long name": (
        3,
        {**PRODUCE, "transactional_id": "x" * 40000},
        InvalidField,
        "transactional_id",
    ),
    "surrogate": (9, {**PRODUCE, "transactional_id": "\ud800"}, InvalidField, "transactional_id"),
    "short uuid": (
        13,
        {**PRODUCE, "topics": [{"topic_id": b"short", "partitions": []}]},
        InvalidField,
        ".topics[0].topic_id",
    ),
    "tags": (9, {**PRODUCE, "unknown_tagged_fields": {0: "text"}}, InvalidField, "tagged"),
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_values_that_do_not_fit_name_their_field(name: str) -> None:
    version, body, error, path = UNWRITABLE[name]
    with pytest.raises(error) as caught:
        encode_request(ApiKey.PRODUCE, version, 1, "c", body)
    assert path in caught.value.path
    assert caught.value.advice in str(caught.value)


def test_header_values_that_do_not_fit_name_their_field() -> None:
    with pytest.raises(InvalidField, match="correlation_id"):
        encode_request(ApiKey.PRODUCE, 9, 1 << 40, "c", PRODUCE)


def test_the_body_must_be_a_dict() -> None:
    with pytest.raises(InvalidField):
        encode_request(ApiKey.PRODUCE, 9, 1, "c", None)  # type: ignore[arg-type]


def test_every_error_says_what_to_do() -> None:
    named = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.ProtocolError)
    ]
    assert len(named) > 15
    assert all(error.__doc__ and error.advice for error in named)


def test_error_codes_carry_their_retry_class() -> None:
    assert ErrorCode(45) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER.is_retriable
    assert ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.is_retriable
    assert not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.refreshes_metadata
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.refreshes_metadata


def test_error_numbers_are_kios() -> None:
    from kio.schema.errors import ErrorCode as Theirs

    theirs = {code.value: code.name for code in Theirs}
    assert {code.value: code.name.lower() for code in ErrorCode}.items() <= theirs.items()
