"""Requests by conversation: what is on the wire is what was asked, in the versions of the kind."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.adapters.brokers.kafka.admin import Supported
from conformance.adapters.brokers.kafka.errors import RequestRefused
from conformance.adapters.brokers.wire import (
    ClientIdentity,
    Conversation,
    GroupMembership,
    PerPartition,
    TxnMarker,
    WireCall,
    conversation,
    error_in,
    error_of,
    speaks,
)
from impl.protocol.errors import ErrorCode
from impl.protocol.messages import decode_request, decode_response, encode_request, encode_response
from impl.protocol.record_batch import decode_batch
from impl.protocol.schemas import ApiKey

pytestmark = pytest.mark.fast

AT = ("topic", 3)
GROUP = GroupMembership("group")

NEWEST = {
    ApiKey.INIT_PRODUCER_ID: 5,
    ApiKey.ADD_PARTITIONS_TO_TXN: 5,
    ApiKey.PRODUCE: 13,
    ApiKey.ADD_OFFSETS_TO_TXN: 4,
    ApiKey.TXN_OFFSET_COMMIT: 5,
    ApiKey.END_TXN: 5,
    ApiKey.WRITE_TXN_MARKERS: 2,
}
OF_3_3 = NEWEST | {
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.PRODUCE: 9,
    ApiKey.ADD_OFFSETS_TO_TXN: 3,
    ApiKey.TXN_OFFSET_COMMIT: 3,
    ApiKey.END_TXN: 3,
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.WRITE_TXN_MARKERS: 1,
}


def supported(newest: dict[ApiKey, int]) -> Supported:
    return Supported({api: (0, version) for api, version in newest.items()}, {})


V1 = conversation(supported(NEWEST), "v1")
V2 = conversation(supported(NEWEST), "v2")
OLD = conversation(supported(OF_3_3), "v1")

producers = st.builds(
    ClientIdentity,
    st.text(min_size=1, max_size=20).filter(lambda text: text.isprintable()),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**15 - 1),
)
conversations = st.sampled_from([V1, V2, OLD])


def on_the_wire(call: WireCall[object]):
    """The body that a server reads."""
    request = call.request
    data = encode_request(request.api_key, request.api_version, 1, None, request.body)
    _, body = decode_request(data)
    return body


def answered(call: WireCall[object], body):
    """What a client makes of an answer, over the wire."""
    request = call.request
    data = encode_response(request.api_key, request.api_version, 1, body)
    return call.read(decode_response(request.api_key, request.api_version, data)[1])


def test_the_kinds_differ_in_three_versions():
    assert (
        replace(
            V1,
            produce_version=V2.produce_version,
            txn_offset_commit_version=V2.txn_offset_commit_version,
            end_txn_version=V2.end_txn_version,
        )
        == V2
    )
    assert (V1.produce_version, V1.txn_offset_commit_version, V1.end_txn_version) == (11, 4, 4)
    assert (V2.produce_version, V2.txn_offset_commit_version, V2.end_txn_version) == (12, 5, 5)


def test_an_old_broker_is_asked_in_its_own_versions_and_has_no_v2():
    assert (OLD.produce_version, OLD.end_txn_version, OLD.write_txn_markers_version) == (9, 3, 1)
    assert not speaks(supported(OF_3_3), "v2")
    with pytest.raises(RequestRefused, match="does not serve v2"):
        conversation(supported(OF_3_3), "v2")


@given(producers, conversations, st.booleans())
def test_end_txn_says_who_and_how(producer: ClientIdentity, c: Conversation, committed: bool):
    body = on_the_wire(c.end_txn(producer, committed))
    assert (body["transactional_id"], body["producer_id"], body["producer_epoch"]) == (
        producer.transactional_id,
        producer.producer_id,
        producer.producer_epoch,
    )
    assert body["committed"] is committed


@given(producers, st.sampled_from([1, 3, 4, 5]), st.booleans())
def test_registering_has_a_form_for_clients_and_one_between_brokers(
    producer: ClientIdentity, version: int, verify_only: bool
):
    c = replace(V1, add_partitions_version=version)
    body = on_the_wire(c.add_partitions(producer, [AT, ("a", 0)], verify_only=verify_only))
    if version <= 3:
        assert body["v3_and_below_transactional_id"] == producer.transactional_id
        topics = body["v3_and_below_topics"]
    else:
        [one] = body["transactions"]
        assert (one["producer_id"], one["verify_only"]) == (producer.producer_id, verify_only)
        topics = one["topics"]
    assert [(topic["name"], topic["partitions"]) for topic in topics] == [("a", [0]), AT_LIST]


AT_LIST = (AT[0], [AT[1]])


@given(producers, conversations, st.integers(0, 2**31 - 1), st.booleans())
def test_a_batch_is_the_producers_and_transactional_if_it_is(
    producer: ClientIdentity, c: Conversation, sequence: int, is_transactional: bool
):
    call = c.produce(producer, AT, sequence, "x", "y", is_transactional=is_transactional)
    body = on_the_wire(call)
    assert body["transactional_id"] == (producer.transactional_id if is_transactional else None)
    batch = decode_batch(body["topics"][0]["partitions"][0]["records"])
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (
        producer.producer_id,
        producer.producer_epoch,
        sequence,
    )
    assert batch.is_transactional is is_transactional
    assert [record.value for record in batch.records] == [b"x", b"y"]


def test_a_marker_tells_its_transaction_version_where_the_request_has_it():
    marker = TxnMarker(7, 1, True, [AT], 3, 2)
    [new] = on_the_wire(V2.write_txn_markers(marker))["markers"]
    [old] = on_the_wire(OLD.write_txn_markers(marker))["markers"]
    assert (new["transaction_version"], old["transaction_version"]) == (2, 0)
    assert (new["coordinator_epoch"], new["transaction_result"]) == (3, True)


def test_answers_are_read_by_name():
    end = answered(
        V2.end_txn(ClientIdentity("id", 7, 1), True),
        {"error_code": 0, "producer_id": 7, "producer_epoch": 2},
    )
    assert (end.error, end.producer_id, end.producer_epoch) == (ErrorCode.NONE, 7, 2)
    rows = [{"partition_index": 3, "error_code": 88}, {"partition_index": 4, "error_code": 0}]
    commit = answered(
        V2.txn_offset_commit(ClientIdentity("id", 7, 1), GROUP, AT, 5),
        {"topics": [{"name": "topic", "partitions": rows}]},
    )
    assert commit.partitions == {
        AT: ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ("topic", 4): ErrorCode.NONE,
    }
    assert error_in(commit) is ErrorCode.UNSTABLE_OFFSET_COMMIT


def test_an_error_of_the_whole_stands_for_the_partition():
    whole = PerPartition(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, {})
    assert whole.only is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_number_that_is_no_error_is_named():
    with pytest.raises(RequestRefused, match="error 9999"):
        error_of(9999)
