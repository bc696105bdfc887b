"""Messages, read and written by ours and by the Java client, values and bytes compared."""

from base64 import b64decode, urlsafe_b64decode
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from impl.protocol.messages import encode_unsupported_version
from impl.protocol.schemas import MESSAGES, ApiKey, Field
from tests.impl.protocol.kafka_clients import BEFORE_REMOVALS, NEWEST, KafkaMessages
from tests.impl.protocol.wire_messages import (
    FORMS,
    OLDEST_IN_KAFKA_4,
    Form,
    bodies,
    encode,
    name_of,
)

pytestmark = pytest.mark.slow  # Java

IN_PRODUCE = {
    ("request", "topics"): "topicData",
    ("request", "partitions"): "partitionData",
    ("response", "topics"): "responses",
    ("response", "partitions"): "partitionResponses",
}


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[str, KafkaMessages]]:
    started = {release: KafkaMessages(release) for release in (BEFORE_REMOVALS, NEWEST)}
    yield started
    for client in started.values():
        client.close()


def in_java(form: Form, field: Field) -> str:
    first, *rest = field.name.split("_")
    plain = first + "".join(word.capitalize() for word in rest)
    return IN_PRODUCE.get((form[2], field.name), plain) if form[0] == ApiKey.PRODUCE else plain


def as_ours(form: Form, fields: tuple[Field, ...], found: dict[str, Any]) -> dict[str, Any]:
    """A body from Java's JSON; a tagged field that is not in it has its default.

    Records are left out: Java's converter has read past them. They are in the bytes it writes.
    """
    body = {}
    for field in fields:
        if form[1] not in field.versions or field.name == "records":
            continue
        name = in_java(form, field)
        if name not in found:
            assert field.tag is not None, name
        body[field.name] = value_of(form, field, found[name]) if name in found else field.default
    return body


def value_of(form: Form, field: Field, found: Any) -> Any:
    if found is None:
        return None
    if field.is_array:
        return [value_of(form, field.element, item) for item in found]
    if field.kind == "struct":
        return as_ours(form, field.fields, found)
    if field.kind == "uuid":
        return urlsafe_b64decode(found + "==")
    return b64decode(found) if field.kind == "bytes" else found


def without_records(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_records(item) for name, item in value.items() if name != "records"}
    return [without_records(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("form", FORMS, ids=name_of)
def test_java_reads_our_values_and_writes_our_bytes(
    clients: dict[str, KafkaMessages], form: Form
) -> None:
    api_key, version, direction = form
    client = clients[BEFORE_REMOVALS if version < OLDEST_IN_KAFKA_4.get(api_key, 0) else NEWEST]

    @settings(max_examples=6)
    @given(bodies(form))
    def agree(body: dict[str, Any]) -> None:
        payload = encode(form, body)
        if direction == "request":
            found = client.request(payload)
        else:
            found = client.response(api_key, version, payload)
        assert "error" not in found
        assert (found["correlation_id"], found["unread"]) == (7, 0)
        assert found.get("client_id", "client") == "client"
        assert payload.endswith(b64decode(found["written"]))
        assert as_ours(form, MESSAGES[api_key, direction].fields, found["body"]) == without_records(
            body
        )

    agree()


@pytest.mark.parametrize("asked", range(5))
def test_java_reads_our_answer_to_an_api_versions_of_tomorrow(
    clients: dict[str, KafkaMessages], asked: int
) -> None:
    payload = encode_unsupported_version(7, 0, 4)
    found = clients[NEWEST].response(ApiKey.API_VERSIONS, 0, payload)
    assert found["body"]["errorCode"] == 35
    assert found["body"]["apiKeys"] == [{"apiKey": 18, "minVersion": 0, "maxVersion": 4}]


@settings(max_examples=40)
@given(st.data())
def test_java_keeps_our_unknown_tags(
    clients: dict[str, KafkaMessages], data: st.DataObject
) -> None:
    tags = data.draw(st.dictionaries(st.integers(20, 1 << 28), st.binary(max_size=200), max_size=3))
    form = (ApiKey.INIT_PRODUCER_ID, 5, "response")
    body = data.draw(bodies(form)) | {"unknown_tagged_fields": tags}
    payload = encode(form, body)
    found = clients[NEWEST].response(ApiKey.INIT_PRODUCER_ID, 5, payload)
    assert found["unread"] == 0
    assert payload.endswith(b64decode(found["written"]))
