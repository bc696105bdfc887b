"""Access control: what a real broker answered to each principal, answered by a node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from impl.broker import authorization
from impl.broker.apis import SERVED_APIS
from impl.broker.authorization import RULES
from impl.coordinator.config import TransactionConfig
from impl.coordinator.group_config import OffsetsConfig
from impl.partition.log_config import LogConfig
from impl.protocol.schemas import ApiKey
from impl.security.acls import (
    AclBinding,
    AclOperation,
    AclPermission,
    Authorizer,
    PatternType,
    ResourceType,
)
from impl.security.config import Security
from impl.security.session import ClientSession
from tests.impl.broker.network import Closed, Network
from tests.impl.broker.security_recording import CLOSED, LENIENT, REQUESTS, record

RECORDINGS = Path(__file__).with_name("recorded_security")
RECORDED = RECORDINGS / "kafka-4.3.1.json"
SEVEN_DAYS_MS = 604_800_000


class SecuredNode:
    """A node whose requests come from principals."""

    def __init__(self, **more: Any) -> None:
        self.network = Network(
            log=LogConfig(retention_ms=SEVEN_DAYS_MS),
            auto_create_topics=False,
            security=Security(acls=(), super_users=("User:ANONYMOUS",), **more),
            offsets=OffsetsConfig(num_partitions=1),
            transactions=TransactionConfig(num_partitions=1),
        )

    def ask(self, user: str, api_key: ApiKey, version: int, body: dict[str, Any]) -> Any:
        try:
            return self.network.ask(api_key, version, body, session=ClientSession(f"User:{user}"))
        except Closed:
            return CLOSED


def test_a_node_answers_each_principal_as_the_broker_did() -> None:
    recorded = json.loads(RECORDED.read_text())
    assert len(recorded) == len(REQUESTS)
    different = []
    for (user, name, version, answer), (*asked, wanted), request in zip(
        record(SecuredNode().ask, REQUESTS), recorded, REQUESTS, strict=True
    ):
        assert [user, name, version] == asked
        if json.loads(json.dumps(answer)) != wanted:
            different.append((user, name, version, request[3], answer, wanted))
    assert not different


def test_a_resource_without_acls_is_open_as_the_broker_left_it() -> None:
    node = SecuredNode(allow_everyone_if_no_acl_found=True)
    answers = [json.loads(json.dumps(row)) for row in record(node.ask, LENIENT)]
    assert answers == json.loads((RECORDINGS / "lenient-4.3.1.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("api_key", [key for key, rules in RULES.items() if rules])
def test_an_api_without_its_rules_answers_otherwise(
    api_key: ApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted bug: one API is not checked."""
    monkeypatch.setattr(authorization, "RULES", RULES | {api_key: ()})
    asked = [request for request in REQUESTS if request[1] is api_key]
    if not asked:
        assert api_key is ApiKey.ALLOCATE_PRODUCER_IDS  # brokers' clients do not send it
        return
    recorded = json.loads(RECORDED.read_text())
    answers = (json.loads(json.dumps(row)) for row in record(SecuredNode().ask, REQUESTS))
    assert any(answer != wanted for answer, wanted in zip(answers, recorded, strict=True))


def test_every_api_that_is_served_has_rules() -> None:
    assert RULES.keys() == SERVED_APIS


ALICE, HOST = "User:alice", "10.0.0.1"


def is_allowed(*acls: AclBinding, operation: AclOperation = AclOperation.READ, **more: Any) -> bool:
    authorizer = Authorizer(acls, **more)
    return authorizer.is_allowed(ALICE, HOST, operation, ResourceType.TOPIC, "orders")


def acl(name: str = "orders", principal: str = ALICE, **more: Any) -> AclBinding:
    operation = more.pop("operation", AclOperation.READ)
    return AclBinding(ResourceType.TOPIC, name, principal, operation, **more)


DENY, PREFIXED = AclPermission.DENY, PatternType.PREFIXED


@pytest.mark.parametrize(
    ("acls", "wanted"),
    [
        ([], False),
        ([acl()], True),
        ([acl("*")], True),
        ([acl(principal="User:*")], True),
        ([acl("ord", pattern_type=PREFIXED)], True),
        ([acl("ord")], False),
        ([acl(host=HOST)], True),
        ([acl(host="10.0.0.2")], False),
        ([acl(), acl("o", pattern_type=PREFIXED, permission=DENY)], False),
        ([acl(), acl("*", permission=DENY, principal="User:*")], False),
        ([acl(), acl(permission=DENY, host="10.0.0.2")], True),
        ([acl(operation=AclOperation.ALL)], True),
        ([acl(operation=AclOperation.WRITE)], False),
    ],
)
def test_acls_decide(acls: list[AclBinding], wanted: bool) -> None:
    assert is_allowed(*acls) == wanted


def test_an_allow_implies_describe_and_a_deny_does_not() -> None:
    describe = {"operation": AclOperation.DESCRIBE}
    assert is_allowed(acl(), **describe)
    assert is_allowed(acl(**describe), acl(permission=DENY), **describe)
    assert not is_allowed(acl(operation=AclOperation.ALTER_CONFIGS), **describe)


def test_a_resource_without_acls_is_open_where_that_is_set() -> None:
    open_to_all: dict[str, Any] = {"allow_everyone_if_no_acl_found": True}
    assert is_allowed(**open_to_all)
    assert is_allowed(acl("invoices", principal="User:bob"), **open_to_all)
    assert not is_allowed(acl(principal="User:bob"), **open_to_all)
    assert is_allowed(acl(permission=DENY), super_users=[ALICE])


@pytest.mark.parametrize(
    ("acls", "wanted"),
    [
        ([acl()], True),
        ([acl(), acl(permission=DENY)], False),
        ([acl(), acl("o", pattern_type=PREFIXED, permission=DENY)], False),
        ([acl("*"), acl("o", pattern_type=PREFIXED, permission=DENY)], True),
        ([acl("*"), acl("*", permission=DENY)], False),
        ([acl("or", pattern_type=PREFIXED), acl(permission=DENY)], True),
        ([acl("or", pattern_type=PREFIXED), acl("or", permission=DENY)], True),
    ],
)
def test_some_resource_may_be_left(acls: list[AclBinding], wanted: bool) -> None:
    found = Authorizer(acls).is_allowed_for_some(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC)
    assert found == wanted
