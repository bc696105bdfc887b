"""Whatever a client asks, in any version: it is answered or its connection is closed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from impl import (
    CloseConnection,
    ErrorCode,
    Node,
    Record,
    client_batch,
    decode_response,
    encode_batch,
)
from impl.broker.faults import RequestView, refuse
from impl.broker.topic_settings import TOPIC_SETTINGS
from impl.broker.topics import INTERNAL_TOPICS
from impl.protocol.schemas import SUPPORTED_VERSIONS, ApiKey
from tests.impl.protocol.wire_messages import FORMS, Form, bodies, encode

pytestmark = pytest.mark.slow  # thousands of generated steps

NOW_MS = 1_700_000_000_000
REQUESTS = [form for form in FORMS if form[2] == "request"]


def batch(producer_id: int, *, is_transactional: bool = False) -> bytes:
    numbered = {"producer_epoch": 0, "base_sequence": 0} if producer_id >= 0 else {}
    return encode_batch(
        client_batch(
            [Record(0, NOW_MS, None, b"v")],
            producer_id=producer_id,
            is_transactional=is_transactional,
            **numbered,
        )
    )


NAMES = st.sampled_from(["t", "new", "__consumer_offsets", "__transaction_state", "", "\0"])
IDS = st.sampled_from(["x", ""])
INDEX = st.integers(-1, 2)
CONFIG = st.fixed_dictionaries(
    {
        "name": st.sampled_from(sorted(TOPIC_SETTINGS)),
        "value": st.none() | st.sampled_from(["0", "9", "x"]),
        "config_operation": st.integers(-1, 4),
    }
)
RECORDS = st.none() | st.binary(max_size=80)
RECORDS |= st.sampled_from([batch(-1), batch(0), batch(0, is_transactional=True)])
LIKELY: dict[str, st.SearchStrategy[Any]] = {
    "name": NAMES,
    "topic": NAMES,
    "transactional_id": IDS,
    "v3_and_below_transactional_id": IDS,
    "group_id": IDS,
    "key": IDS,
    "coordinator_keys": st.lists(IDS, max_size=2),
    "key_type": st.integers(-1, 2),
    "index": INDEX,
    "partition": INDEX,
    "partition_index": INDEX,
    "partition_indexes": st.lists(INDEX, max_size=2),
    "num_partitions": st.integers(-2, 3),
    "replication_factor": st.integers(-2, 2),
    "records": RECORDS,
    "retention_time_ms": st.sampled_from([-1, 0, 2**63 - 1]),
    "transactional_id_pattern": st.sampled_from([None, "x", "(", "x{99999999999}"]),
    "configs": st.lists(CONFIG, max_size=1),
    "resource_type": st.sampled_from([2, 4, 8, 0]),
    "resource_name": NAMES | st.just("1"),
    "feature": st.sampled_from(["transaction.version", "x"]),
    "max_version_level": st.integers(-1, 3),
    "count": st.integers(-1, 5),
    "assignments": st.just([]),
    "producer_id": st.integers(-1, 1) | st.sampled_from([-(2**63), 2**63 - 1]),
    "producer_epoch": st.sampled_from([-(2**15), -1, 0, 1, 2**15 - 1]),
}
"""Values that are sometimes right, so that more than the first check is met."""


@st.composite
def requests(draw: st.DrawFn) -> tuple[Form, dict[str, Any]]:
    form = draw(st.sampled_from(REQUESTS))
    return form, draw(bodies(form, **LIKELY))


@settings(deadline=None, max_examples=300)
@given(st.lists(requests(), min_size=1, max_size=8))
def test_it_is_answered_or_the_connection_is_closed(
    asked: list[tuple[Form, dict[str, Any]]],
) -> None:
    node = Node()
    node.topics.create("t", 2, {})
    for name in INTERNAL_TOPICS:
        node.coordinators.internal_topic(name)
    for number, (form, body) in enumerate(asked):
        api_key, version, _ = form
        try:
            answer = node.handle(encode(form, body), NOW_MS + 1_000 * number)
        except CloseConnection:
            continue
        if answer is None:
            assert (api_key, body["acks"]) == (ApiKey.PRODUCE, 0)
        else:
            assert version in range(SUPPORTED_VERSIONS[api_key].last + 1)
            assert decode_response(api_key, version, answer)[0]["correlation_id"] == 7


@settings(deadline=None, max_examples=100)
@given(requests())
def test_an_injected_error_is_in_the_answer_or_there_is_none(
    asked: tuple[Form, dict[str, Any]],
) -> None:
    (api_key, version, _), body = asked
    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    refusal = refuse(RequestView(encode(asked[0], body)), error)
    if refusal is not None:
        header, answer = decode_response(api_key, version, refusal)
        assert header["correlation_id"] == 7
        assert f"error_code': {error:d}" in str(answer)
