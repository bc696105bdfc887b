"""The host of a client: in its session, for ACLs, and in the groups that it joins."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from impl import AclBinding, AclOperation, Broker, NodeConfig, ResourceType, Security
from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import ApiKey
from impl.security.session import format_host
from tests.impl.broker.conversation import Conversation

CLASSIC = {
    "group_id": "classic",
    "session_timeout_ms": 6_000,
    "rebalance_timeout_ms": 6_000,
    "member_id": "",
    "protocol_type": "any",
    "protocols": [{"name": "p", "metadata": b""}],
}
CONSUMER = {
    "group_id": "consumer",
    "member_id": "m",
    "member_epoch": 0,
    "rebalance_timeout_ms": 6_000,
    "subscribed_topic_names": ["t"],
    "topic_partitions": [],
}


@pytest.mark.parametrize(
    ("address", "host"),
    [
        (("127.0.0.1", 9), "127.0.0.1"),
        (("::1", 9, 0, 0), "0:0:0:0:0:0:0:1"),
        (("2001:db8::ab:0", 9, 0, 0), "2001:db8:0:0:0:0:ab:0"),
        (("::ffff:127.0.0.1", 9, 0, 0), "127.0.0.1"),
        (("fe80::1%eth0", 9, 0, 2), "fe80:0:0:0:0:0:0:1%2"),
        (("?",), "?"),
    ],
)
def test_a_host_is_written_as_java_writes_it(address: tuple[Any, ...], host: str) -> None:
    """`InetAddress.getHostAddress` of Java 17 said so, of these addresses."""
    assert format_host(address) == host


def hosts(broker: Broker) -> list[str]:
    """Those of the members of both groups, as DescribeGroups and ConsumerGroupDescribe say."""
    with conversation(broker) as c:
        classic = c.ask(ApiKey.DESCRIBE_GROUPS, 5, {"groups": ["classic"]})
        consumer = c.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": ["consumer"]})
    groups = classic["groups"] + consumer["groups"]
    return [member["client_host"] for group in groups for member in group["members"]]


def conversation(broker: Broker) -> Conversation:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    return Conversation(host.strip("[]"), int(port))


def find_coordinators(c: Conversation) -> None:
    body = {"coordinator_keys": ["classic", "consumer"], "key_type": 0}
    c.ask(ApiKey.FIND_COORDINATOR, 6, body)


def join(c: Conversation) -> None:
    """Join a group of each kind."""
    find_coordinators(c)
    joined = c.ask(ApiKey.JOIN_GROUP, 3, CLASSIC)
    row = {"member_id": joined["member_id"], "assignment": b""}
    body = {"group_id": "classic", "generation_id": 1, "assignments": [row]} | row
    assert not c.ask(ApiKey.SYNC_GROUP, 3, body)["error_code"]
    assert not c.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, CONSUMER)["error_code"]


def test_members_keep_their_host_over_a_restart(tmp_path: Path) -> None:
    with Broker(directory=tmp_path, topics={"t": 1}) as kafka, conversation(kafka) as c:
        join(c)
        assert hosts(kafka) == ["/127.0.0.1"] * 2
    with Broker(directory=tmp_path) as kafka, conversation(kafka) as c:
        find_coordinators(c)
        assert hosts(kafka) == ["/127.0.0.1"] * 2


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not has_ipv6(), reason="there is no IPv6 here")
@pytest.mark.slow  # seconds
def test_a_client_that_comes_by_ipv6() -> None:
    with Broker(config=NodeConfig(host="::1", port=0), topics={"t": 1}) as kafka:
        with conversation(kafka) as c:
            join(c)
        assert hosts(kafka) == ["/0:0:0:0:0:0:0:1"] * 2


@pytest.mark.skipif(not has_ipv6(), reason="there is no IPv6 here")
@pytest.mark.parametrize(
    ("host", "error"),
    [
        ("0:0:0:0:0:0:0:1", ErrorCode.NONE),
        ("::1", ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ],
)
def test_acls_name_hosts_as_members_do(host: str, error: ErrorCode) -> None:
    acl = AclBinding(
        ResourceType.GROUP, "classic", "User:ANONYMOUS", AclOperation.DESCRIBE, host=host
    )
    config = NodeConfig(host="::1", port=0, security=Security(acls=(acl,)))
    with Broker(config=config) as kafka, conversation(kafka) as c:
        find_coordinators(c)
        answer = c.ask(ApiKey.DESCRIBE_GROUPS, 5, {"groups": ["classic"]})
        assert answer["groups"][0]["error_code"] == error
