"""When a node has to be advanced: for what a request did, or when a deadline has come."""

from __future__ import annotations

from impl.broker.node import Node
from impl.protocol.errors import ErrorCode
from impl.protocol.messages import encode_request
from impl.protocol.schemas import ApiKey
from tests.impl.broker.test_node import NOW_MS, Client

SESSION_MS = 10_000
MEMBER = {
    "group_id": "g",
    "session_timeout_ms": SESSION_MS,
    "rebalance_timeout_ms": SESSION_MS,
    "member_id": "",
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b""}],
}


def test_a_members_session_asks_for_no_work_before_its_end() -> None:
    node = Node()
    client = Client(node)
    client.ask(ApiKey.FIND_COORDINATOR, 1, {"key": "g", "key_type": 0})
    assert not node.has_work_before(NOW_MS + SESSION_MS)
    joined = client.ask(ApiKey.JOIN_GROUP, 5, MEMBER)
    assert joined["error_code"] == ErrorCode.MEMBER_ID_REQUIRED
    assert node.next_due_ms == NOW_MS + SESSION_MS
    assert not node.has_work_before(NOW_MS + SESSION_MS)
    assert node.has_work_before(NOW_MS + SESSION_MS + 1)


def test_a_waiting_fetch_is_tried_again_after_each_request() -> None:
    node = Node()
    client = Client(node)
    client.create("t")
    node.advance(NOW_MS)
    row = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}
    topics = [{"topic": "t", "partitions": [row]}]
    body = {"max_wait_ms": 500, "min_bytes": 1, "topics": topics}
    assert not node.has_work_before(NOW_MS)
    assert not node.receive("fetch", encode_request(ApiKey.FETCH, 4, 1, "c", body), NOW_MS)
    assert node.next_due_ms == NOW_MS + 500
    assert node.has_work_before(NOW_MS)
