"""A refusal has a row for each row that was asked for, whatever the API, version and nesting."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from impl.broker.authorization import RULES
from impl.broker.faults import RequestView, refuse
from impl.broker.refusals import encode_refusal, refuse_request
from impl.broker.releases import NEWEST_RELEASE, served_versions
from impl.protocol.errors import ErrorCode
from impl.protocol.messages import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from impl.protocol.record_batch import Record, client_batch, encode_batch
from impl.protocol.schemas import MESSAGES, SUPPORTED_VERSIONS, ApiKey, Field
from impl.security.config import Security
from impl.security.session import ClientSession
from tests.impl.broker.network import Network
from tests.impl.protocol.kafka_clients import BEFORE_REMOVALS, NEWEST, KafkaMessages
from tests.impl.protocol.wire_messages import OLDEST_IN_KAFKA_4

ERROR = ErrorCode.REQUEST_TIMED_OUT
FORMS = [
    (key, version)
    for key in ApiKey
    for version in range(SUPPORTED_VERSIONS[key].first, SUPPORTED_VERSIONS[key].last + 1)
]
RECORDS = encode_batch(client_batch([Record(0, 1, None, b"v")]))
ROWS = 2


def fill(fields: tuple[Field, ...], version: int, numbers: Iterator[int], kind: str) -> Any:
    """A struct with two rows in each array, nulls where they may be, or nothing in its arrays."""
    return {f.name: _value(f, version, numbers, kind) for f in fields if version in f.versions}


def _value(field: Field, version: int, numbers: Iterator[int], kind: str) -> Any:
    if kind == "nulls" and version in field.nullable and field.name != "records":
        return None
    if field.is_array:
        times = 0 if kind == "empty" else ROWS
        return [_value(field.element, version, numbers, kind) for _ in range(times)]
    if field.kind == "struct":
        return fill(field.fields, version, numbers, kind)
    number = next(numbers)
    return {
        "string": f"{field.name}-{number}",
        "uuid": number.to_bytes(16, "big"),
        "bytes": RECORDS if field.name == "records" else b"",
        "bool": True,
        "float64": 1.0,
    }.get(field.kind, 1 + number % 100)


def request(form: tuple[ApiKey, int], kind: str = "rows") -> bytes:
    key, version = form
    return encode_request(key, version, 7, "client", body_of(form, kind))


def body_of(form: tuple[ApiKey, int], kind: str) -> Any:
    key, version = form
    return fill(MESSAGES[key, "request"].fields, version, count(1), kind)


def name_of(form: tuple[ApiKey, int]) -> str:
    return f"{form[0].name}-{form[1]}"


# ---- rows


def row_counts(value: Any) -> Iterator[int]:
    """How many rows a request has, at each depth of its arrays."""
    level = [value]
    while level:
        level = [
            row
            for struct in level
            if isinstance(struct, dict)
            for array in struct.values()
            if isinstance(array, list)
            for row in array
        ]
        yield len(level)


def refused_rows(fields: tuple[Field, ...], version: int, value: Any) -> Iterator[Any]:
    """The outermost structs that have the error."""
    mine = [field for field in fields if version in field.versions]
    if any(value[field.name] for field in mine if field.name.endswith("error_code")):
        yield value
        return
    for field in mine:
        for row in value[field.name] if field.is_array and field.fields else ():
            yield from refused_rows(field.fields, version, row)


def check_rows(form: tuple[ApiKey, int], answer: bytes | None) -> None:
    """The whole has the error, or as many rows as the request has at some depth."""
    key, version = form
    assert answer is not None
    body = decode_response(key, version, answer)[1]
    rows = list(refused_rows(MESSAGES[key, "response"].fields, version, body))
    if rows != [body]:
        assert len(rows) in list(row_counts(body_of(form, "rows")))[:-1], rows


WITHOUT_PLACE = [(ApiKey.DESCRIBE_LOG_DIRS, version) for version in range(3)]
"""QUIRK: Kafka refuses them with no rows, and no error."""


@pytest.mark.parametrize("form", [f for f in FORMS if f not in WITHOUT_PLACE], ids=name_of)
def test_each_row_that_was_asked_for_is_refused(form: tuple[ApiKey, int]) -> None:
    header, body = decode_request(request(form))
    check_rows(form, encode_refusal(header, body, ERROR))


# ---- Kafka's own


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[str, KafkaMessages]]:
    started = {release: KafkaMessages(release) for release in (BEFORE_REMOVALS, NEWEST)}
    yield started
    for client in started.values():
        client.close()


OWN_BEFORE_4 = {(ApiKey.FETCH, version): {"records": b""} for version in range(4)}
"""Null in Kafka 3.9, empty from 4.0 on."""


UNREFUSABLE = ((ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0), "nulls")
"""Kafka fails when it has to refuse it."""
REFUSABLE = [
    (form, kind)
    for form in FORMS
    for kind in ("rows", "nulls", "empty")
    if (form, kind) != UNREFUSABLE
]


def comparable(value: Any, own: dict[str, Any]) -> Any:
    """Without texts; rows sorted, because Kafka's order is that of a hash map."""
    if isinstance(value, list):
        return sorted((comparable(row, own) for row in value), key=str)
    if isinstance(value, dict):
        return {k: own.get(k, comparable(v, own)) for k, v in value.items() if k != "error_message"}
    return value


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "kind"), REFUSABLE, ids=[f"{name_of(form)}-{kind}" for form, kind in REFUSABLE]
)
def test_a_request_is_refused_as_kafkas_client_library_does(
    clients: dict[str, KafkaMessages], form: tuple[ApiKey, int], kind: str
) -> None:
    key, version = form
    payload = request(form, kind)
    client = clients[BEFORE_REMOVALS if version < OLDEST_IN_KAFKA_4.get(key, 0) else NEWEST]
    wanted = client.refusal(ERROR, payload)
    assert wanted is not None
    ours = encode_response(
        key, version, 7, refuse_request(key, version, decode_request(payload)[1], ERROR)
    )
    found, expected = (decode_response(key, version, each)[1] for each in (ours, wanted))
    own = OWN_BEFORE_4.get(form, {})
    assert comparable(found, own) == comparable(expected, own)


# ---- injected errors


SERVED = [
    (key, version)
    for key, versions in served_versions(NEWEST_RELEASE).items()
    for version in versions
    if key != ApiKey.DESCRIBE_LOG_DIRS  # whose rows are directories
]


@pytest.mark.parametrize("form", SERVED, ids=name_of)
def test_an_injected_error_is_in_each_row_that_was_asked_for(form: tuple[ApiKey, int]) -> None:
    check_rows(form, refuse(RequestView(request(form)), ERROR))


LISTS = (ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS)
"""Their answers leave out what their sender may not see."""
PROTECTED = [form for form in SERVED if RULES[form[0]] and form[0] not in LISTS]


@pytest.fixture(scope="module")
def secured() -> Network:
    return Network(security=Security(acls=(), super_users=()))


@pytest.mark.parametrize("form", PROTECTED, ids=name_of)
def test_who_may_do_nothing_is_refused_each_row(secured: Network, form: tuple[ApiKey, int]) -> None:
    key, version = form
    session = ClientSession("User:stranger")
    answer = secured.ask(key, version, body_of(form, "rows"), session=session)
    check_rows(form, encode_response(key, version, 7, answer))
