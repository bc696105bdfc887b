"""Credentials and ACLs that requests change survive restarts; settings do not bring them back."""

from __future__ import annotations

from random import Random
from typing import Any

from impl.broker.durable_cluster import DurableCluster
from impl.log.disk import Disk
from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import ApiKey
from impl.security.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from impl.security.config import Security
from impl.simulator.disk import CrashKind, SimulatedDisk
from tests.impl.broker.network import Network
from tests.impl.storage.crash_workload import LOG, NOW_MS

SHA_256, SHA_512 = 1, 2
CONFIGURED = AclBinding(ResourceType.TOPIC, "t", "User:alice", AclOperation.READ)
CREATED = AclBinding(
    ResourceType.GROUP,
    "g",
    "User:bob",
    AclOperation.ALL,
    AclPermission.DENY,
    PatternType.PREFIXED,
    "127.0.0.1",
)
SECURITY = Security(
    listeners=("SASL_PLAINTEXT",),
    sasl_mechanisms=("SCRAM-SHA-256",),
    users={"alice": "a", "bob": "b"},
    acls=(CONFIGURED,),
    super_users=("User:ANONYMOUS",),
)


def started(disk: Disk, security: Security = SECURITY) -> Network:
    cluster = DurableCluster(disk, "c", LOG, lambda: NOW_MS, security)
    return Network(cluster=cluster, log=LOG, security=security)


def create(network: Network, *acls: AclBinding) -> list[Any]:
    rows = [
        {
            "resource_type": acl.resource_type,
            "resource_name": acl.resource_name,
            "resource_pattern_type": acl.pattern_type,
            "principal": acl.principal,
            "host": acl.host,
            "operation": acl.operation,
            "permission_type": acl.permission,
        }
        for acl in acls
    ]
    answer = network.ask(ApiKey.CREATE_ACLS, 3, {"creations": rows})
    return [row["error_code"] for row in answer["results"]]


def delete(network: Network, name: str) -> Any:
    wanted = {
        "resource_type_filter": 1,
        "resource_name_filter": name,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    return network.ask(ApiKey.DELETE_ACLS, 3, {"filters": [wanted]})["filter_results"][0]


def alter(network: Network, name: str, *, deletes: bool = False) -> Any:
    who = {"name": name, "mechanism": SHA_256}
    new = who | {"iterations": 8_192, "salt": b"s", "salted_password": b"p" * 32}
    body = {"deletions": [who] if deletes else [], "upsertions": [] if deletes else [new]}
    answer = network.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, body)
    return answer["results"][0]["error_code"]


def facts(network: Network) -> tuple[Any, Any]:
    access = network.cluster.access
    assert access.authorizer is not None
    return dict(access.credentials), list(access.authorizer.acls)


def test_what_requests_change_survives_a_crash_at_once() -> None:
    disk = SimulatedDisk()
    network = started(disk)
    assert create(network, CREATED, CREATED) == [0, 0]
    assert create(network, CONFIGURED) == [0]
    assert alter(network, "carol") == 0
    before = facts(network)
    credentials, acls = before
    assert acls == [CONFIGURED, CREATED]
    assert credentials.keys() == {(name, SHA_256) for name in ("alice", "bob", "carol")}
    for kind in CrashKind:
        assert facts(started(disk.crash(kind, Random(1)))) == before


def test_settings_do_not_bring_back_what_requests_deleted() -> None:
    disk = SimulatedDisk()
    network = started(disk)
    assert delete(network, "t")["error_code"] == 0
    assert alter(network, "alice", deletes=True) == 0
    assert alter(network, "bob") == 0
    before = facts(network)
    again = started(disk)
    assert facts(again) == before
    credentials, acls = before
    assert acls == []
    assert {key: kept.iterations for key, kept in credentials.items()} == {("bob", SHA_256): 8_192}
    assert create(again, CONFIGURED) == [0]
    assert facts(started(disk))[1] == [CONFIGURED]


def test_settings_add_what_the_directory_never_had() -> None:
    disk = SimulatedDisk()
    before = facts(started(disk))[0]
    users = {"alice": "other", "dora": "d"}
    both = ("SCRAM-SHA-256", "SCRAM-SHA-512")
    more = Security(
        listeners=("SASL_PLAINTEXT",), sasl_mechanisms=both, users=users, acls=(CREATED,)
    )
    credentials, acls = facts(started(disk, more))
    assert acls == [CONFIGURED, CREATED]
    assert credentials["alice", SHA_256] == before["alice", SHA_256]
    wanted = [("alice", SHA_256), ("alice", SHA_512), ("bob", SHA_256)]
    assert sorted(credentials) == [*wanted, ("dora", SHA_256), ("dora", SHA_512)]


def test_a_broker_without_authorizer_keeps_the_acls_of_the_directory() -> None:
    disk = SimulatedDisk()
    started(disk)
    assert started(disk, Security()).cluster.access.authorizer is None
    assert facts(started(disk))[1] == [CONFIGURED]


def test_a_full_disk_refuses_changes_of_access() -> None:
    disk = SimulatedDisk()
    network = started(disk)
    before = facts(network)
    disk.room_bytes = disk.size_bytes
    refused = ErrorCode.KAFKA_STORAGE_ERROR
    assert create(network, CREATED, CREATED._replace(resource_name="")) == [
        refused,
        ErrorCode.INVALID_REQUEST,
    ]
    assert delete(network, "t") | {"error_message": ""} == {
        "error_code": refused,
        "error_message": "",
        "matching_acls": [],
    }
    assert alter(network, "alice", deletes=True) == refused
    assert facts(network) == before
    disk.room_bytes = None
    assert create(network, CREATED) == [0]
    assert facts(started(disk)) == facts(network)
