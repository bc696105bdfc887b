"""Who may write idempotently: real brokers with an authorizer, against the model's rules.

Everybody is the same principal here, brokers too, and may do what no ACL is about: what a broker
needs is granted, and what a case lacks is denied.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from itertools import count

import pytest

from conformance.adapters.brokers.kafka.admin import create_topic, init_producer_id
from conformance.adapters.brokers.kafka.broker import KafkaBroker
from conformance.adapters.brokers.kafka.connection import BrokerConnection
from conformance.adapters.brokers.kafka.releases import find_release
from impl.protocol.record_batch import Record, client_batch, encode_batch
from impl.protocol.schemas import ApiKey
from model.producer_config import (
    Authorization,
    Permissions,
    Verdict,
    authorization_of,
    on_init_producer_id,
    on_produce,
)
from proofs.java import MissingTool
from tests.sizes import sized

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in a deprecated way
    from kafka import admin  # type: ignore[import-untyped]

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

RELEASES = ("2.0.0", "2.4.1", "2.8.2", "4.3.1")
AUTHORIZERS = {
    "2.0.0": "kafka.security.auth.SimpleAclAuthorizer",
    "2.4.1": "kafka.security.authorizer.AclAuthorizer",
    "2.8.2": "kafka.security.authorizer.AclAuthorizer",
}
NEWEST_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
TOPIC, CLUSTER, EVERY = "written", "kafka-cluster", "*"
ACLS_TIMEOUT_S = 30.0

CASES = tuple(
    Permissions(idempotent_write, write, write_on_any_topic)
    for idempotent_write in (True, False)
    for write, write_on_any_topic in ((True, True), (False, True), (False, False))
)

producer_ids = count(1_000)


@pytest.fixture(scope="module", params=sized(RELEASES, {"2.4.1"}))
def release(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def guarded(release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker that asks an authorizer."""
    properties = {
        "authorizer.class.name": AUTHORIZERS.get(release, NEWEST_AUTHORIZER),
        "allow.everyone.if.no.acl.found": "true",
    }
    folder = tmp_path_factory.mktemp("guarded") / "broker"
    broker = KafkaBroker(release, properties=properties, folder=folder)
    try:
        broker.start()
    except MissingTool as error:
        pytest.skip(str(error))
    with broker.connect() as connection:
        create_topic(connection, TOPIC, 1)
        init_producer_id(connection)  # which waits for the first block of producer ids
    yield broker
    broker.close()


@pytest.fixture(scope="module")
def client(guarded: KafkaBroker) -> Iterator[admin.KafkaAdminClient]:
    host, port = guarded.address
    client = admin.KafkaAdminClient(bootstrap_servers=f"{host}:{port}")
    client.create_acls([acl("ALLOW", "ALL", "CLUSTER", CLUSTER)])
    yield client
    client.close()


def acl(kind: str, operation: str, resource: str, name: str) -> admin.ACL:
    return admin.ACL(
        principal="User:ANONYMOUS",
        host="*",
        operation=admin.ACLOperation[operation],
        permission_type=admin.ACLPermissionType[kind],
        resource_pattern=admin.ResourcePattern(admin.ResourceType[resource], name),
    )


def denied(permissions: Permissions) -> list[admin.ACL]:
    """What takes away what a principal is not to have."""
    acls = []
    if not permissions.idempotent_write:
        acls.append(acl("DENY", "IDEMPOTENT_WRITE", "CLUSTER", CLUSTER))
    if not permissions.write_on_any_topic:
        acls.append(acl("DENY", "WRITE", "TOPIC", EVERY))
    elif not permissions.write:
        acls.append(acl("DENY", "WRITE", "TOPIC", TOPIC))
    return acls


def await_denials(client: admin.KafkaAdminClient, expected: Sequence[admin.ACL]) -> None:
    """Until the broker's authorizer knows these denials, and no other."""
    of_all = admin.ResourcePatternFilter(
        admin.ResourceType.ANY, None, admin.ACLResourcePatternType.ANY
    )
    anyone = {"principal": None, "host": None, "operation": admin.ACLOperation.ANY}
    asked = admin.ACLFilter(
        permission_type=admin.ACLPermissionType.DENY, resource_pattern=of_all, **anyone
    )
    deadline = time.monotonic() + ACLS_TIMEOUT_S
    while set(client.describe_acls(asked)[0]) != set(expected):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(params=CASES, ids=str)
def permissions(
    client: admin.KafkaAdminClient, request: pytest.FixtureRequest
) -> Iterator[Permissions]:
    """The principal has these and no others."""
    acls = denied(request.param)
    if acls:
        client.create_acls(acls)
    await_denials(client, acls)
    yield request.param
    if acls:
        client.delete_acls(acls)
    await_denials(client, [])


def ask_producer_id(connection: BrokerConnection) -> int:
    body = {"transactional_id": None, "transaction_timeout_ms": 60_000}
    error: int = connection.ask(ApiKey.INIT_PRODUCER_ID, 0, body)["error_code"]
    return error


def produce(connection: BrokerConnection) -> int:
    """The first batch of a producer id that is new."""
    batch = client_batch(
        [Record(0, time.time_ns() // 1_000_000, None, b"value")],
        producer_id=next(producer_ids),
        producer_epoch=0,
        base_sequence=0,
    )
    partitions = [{"index": 0, "records": encode_batch(batch)}]
    topics = [{"name": TOPIC, "partitions": partitions}]
    body = {"transactional_id": None, "acks": -1, "timeout_ms": 5_000, "topics": topics}
    answer = connection.ask(ApiKey.PRODUCE, 3, body)
    error: int = answer["topics"][0]["partitions"][0]["error_code"]
    return error


def test_a_broker_authorizes_as_the_model_does(
    release: str, guarded: KafkaBroker, permissions: Permissions
) -> None:
    with guarded.connect() as connection:
        answered = ask_producer_id(connection), produce(connection)
    rule = authorization_of(release)
    assert answered == (on_init_producer_id(rule, permissions), on_produce(rule, permissions))


def test_the_cases_tell_the_rules_apart() -> None:
    """Each verdict is met under each rule, and each rule answers both requests in its own way."""
    old, new = Authorization.CLUSTER, Authorization.ANY_TOPIC
    for answer in (on_init_producer_id, on_produce):
        assert [answer(old, case) for case in CASES] != [answer(new, case) for case in CASES]
    met = {rule: {on_produce(rule, case) for case in CASES} for rule in Authorization}
    assert met[old] == set(Verdict)
    assert met[new] == set(Verdict) - {Verdict.CLUSTER_AUTHORIZATION_FAILED}
    refused = {rule: sum(map(bool, (on_init_producer_id(rule, c) for c in CASES))) for rule in met}
    assert refused == {old: 3, new: 1}


def test_every_release_that_is_asked_can_be_started() -> None:
    assert [find_release(name).version for name in RELEASES] == list(RELEASES)
