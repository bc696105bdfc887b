"""What stands in the metadata log alone survives whatever clients ask, and its folder stays."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from impl import Broker
from impl.broker.durable_cluster import DurableCluster
from impl.broker.topic_refused import TopicRefused
from impl.log.checkpoint_files import METADATA, PartitionName
from impl.log.disk import Disk, StorageError
from impl.partition.log_config import LogConfig
from impl.protocol.errors import ErrorCode
from impl.protocol.primitives import ZERO_UUID
from impl.protocol.schemas import ApiKey
from impl.security.acls import AclBinding, AclOperation, ResourceType
from impl.security.config import Security
from impl.simulator.disk import CrashKind, SimulatedDisk
from impl.storage.log_directory import LogDirectory
from impl.storage.metadata_log import METADATA_TOPIC_ID
from tests.impl.broker.admin_recording import SET, change, describe
from tests.impl.broker.cluster_recording import ANY_ACL, entity, matching, quotas
from tests.impl.broker.network import Network
from tests.impl.broker.resource_recording import GROUP
from tests.impl.broker.test_any_request import INDEX, LIKELY, RECORDS, REQUESTS
from tests.impl.protocol.wire_messages import Form, bodies
from tests.impl.storage.crash_workload import LOG, NOW_MS, encode, init_idempotent, produce
from tests.impl.storage.test_stored_access import alter as change_password

RESERVED = METADATA.topic
PROHIBITED = f"Creation of internal topic {RESERVED} is prohibited."
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
SESSION = "consumer.session.timeout.ms"
SECURITY = Security(
    listeners=("SASL_PLAINTEXT",),
    sasl_mechanisms=("SCRAM-SHA-256",),
    acls=(AclBinding(ResourceType.TOPIC, "t", "User:alice", AclOperation.READ),),
    super_users=("User:ANONYMOUS",),
)


def started(disk: Disk) -> Network:
    cluster = DurableCluster(disk, "c", LOG, lambda: NOW_MS, SECURITY)
    return Network(cluster=cluster, log=LOG, security=SECURITY)


def filled(disk: Disk) -> Network:
    """A broker with something of each kind that its metadata log alone has."""
    network = started(disk)
    network.create("t", 1, 1)
    network.ask(*created("empty", configs=[{"name": "retention.ms", "value": "1"}]))
    network.ask(*quotas(entity(user="alice"), ("producer_byte_rate", 5.0)))
    network.ask(*change(GROUP, "g", (SESSION, SET, "50000")))
    change_password(network, "alice")
    init_idempotent(network)
    produce(network, ("t", 0), encode(-1, -1, -1, 1, is_transactional=False))
    return network


def created(*names: str, **more: Any) -> tuple[ApiKey, int, dict[str, Any]]:
    rows = [{"name": name, "num_partitions": 1, "replication_factor": 1} | more for name in names]
    return ApiKey.CREATE_TOPICS, 7, {"topics": rows, "timeout_ms": 1000}


def metadata(*names: str) -> tuple[ApiKey, int, dict[str, Any]]:
    rows = [{"name": name, "topic_id": ZERO_UUID} for name in names]
    return ApiKey.METADATA, 12, {"topics": rows or None, "allow_auto_topic_creation": bool(names)}


QUESTIONS = (
    metadata(),
    (ApiKey.DESCRIBE_ACLS, 3, ANY_ACL),
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": None}),
    matching(),
    describe(GROUP, "g", SESSION),
)


def described(network: Network) -> list[Any]:
    """What the broker says of its metadata; the epochs of leaders go up with each start."""
    answers = [network.ask(*question) for question in QUESTIONS]
    answers += [network.ask(*describe(2, topic.name)) for topic in network.cluster.topics]
    for topic in answers[0]["topics"]:
        for row in topic["partitions"]:
            row["leader_epoch"] = 0
    return answers


def check_restart(disk: SimulatedDisk, network: Network) -> None:
    """A kill at this moment loses and changes nothing, and no producer id is given out again."""
    before, used = described(network), init_idempotent(network)
    again = started(disk.crash(CrashKind.KILLED, Random(1)))
    assert described(again) == before
    assert init_idempotent(again) > used
    assert not [folder for folder in disk.list("") if folder.endswith("-stray")]


# ---- a name that is reserved


def test_no_door_creates_the_topic_of_the_metadata_log() -> None:
    disk = SimulatedDisk()
    network = filled(disk)
    assert [topic.name for topic in network.cluster.topics] == ["t", "empty"]
    batch = encode(-1, -1, -1, 1, is_transactional=False)
    for _ in range(2):
        rows = network.ask(*created(RESERVED, "fine", num_partitions=2))["topics"]
        answers = {row["name"]: (row["error_code"], row["error_message"]) for row in rows}
        assert answers[RESERVED] == (ErrorCode.INVALID_REQUEST, PROHIBITED)
        [row] = network.ask(*metadata(RESERVED))["topics"]
        assert (row["error_code"], row["partitions"]) == (UNKNOWN, [])
        assert produce(network, METADATA, batch)["error_code"] == UNKNOWN
    with pytest.raises(TopicRefused, match="prohibited"):
        network.cluster.topics.create(RESERVED, 1, {})
    assert network.cluster.topics.get("fine") is not None
    check_restart(disk, network)


def test_its_partitions_are_not_counted_nor_its_settings_looked_at() -> None:
    network = Network()
    [reserved, other] = network.ask(*created(RESERVED, "t"))["topics"]
    assert (reserved["error_code"], other["error_code"]) == (ErrorCode.INVALID_REQUEST, 0)
    settings_of_none = [{"name": "x", "value": "y"}]
    asked = created(RESERVED, num_partitions=20_000, configs=settings_of_none)
    [row] = network.ask(*asked)["topics"]
    assert row["error_message"] == PROHIBITED
    [row] = network.ask(*created(RESERVED, RESERVED))["topics"]
    assert row["error_message"] == "Duplicate topic name."


def test_who_may_create_nothing_learns_that_it_is_prohibited() -> None:
    security = Security(listeners=("PLAINTEXT",), acls=())
    network = Network(security=security)
    rows = network.ask(*created(RESERVED, "t"))["topics"]
    errors = {row["name"]: row["error_code"] for row in rows}
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert errors == {RESERVED: ErrorCode.INVALID_REQUEST, "t": refused}


def test_a_broker_is_not_made_with_that_topic(tmp_path: Path) -> None:
    with pytest.raises(TopicRefused, match="prohibited"):
        Broker(topics={RESERVED: 1}, directory=tmp_path)
    assert not list(tmp_path.iterdir())


def test_auto_creation_that_is_refused_answers_that_there_is_no_topic() -> None:
    """Kafka answers before its controller refuses: `e_x` collides with `e.x`."""
    network = Network()
    network.create("e.x", 1)
    [row] = network.ask(*metadata("e_x"))["topics"]
    assert row["error_code"] == UNKNOWN


# ---- a folder that is open


def test_a_log_whose_folder_is_open_is_neither_set_aside_nor_opened_again() -> None:
    disk = SimulatedDisk()
    filled(disk)
    logs = LogDirectory(disk)
    logs.load(METADATA, METADATA_TOPIC_ID, LogConfig(), 1, NOW_MS)
    logs.load(PartitionName("t", 0), bytes(16), LogConfig(), 1, NOW_MS)
    folders = disk.list("")
    with pytest.raises(StorageError, match="is in use"):
        logs.new_log(METADATA, b"another topic id", LogConfig())
    with pytest.raises(StorageError, match="is in use"):
        logs.load(METADATA, b"another topic id", LogConfig(), 1, NOW_MS)
    assert disk.list("") == folders


# ---- whatever is asked

HOSTILE = st.just(RESERVED) | st.sampled_from(
    [f"{RESERVED}-0", "t", "t-0", "t-0.0-stray", "meta.properties", "new", "..", ".lock"]
)
NAMED = dict.fromkeys(("name", "topic", "topic_name", "resource_name"), HOSTILE)
IDS = st.sampled_from([METADATA_TOPIC_ID, ZERO_UUID])
DOORS = LIKELY | NAMED | {"topic_names": st.lists(HOSTILE, max_size=2), "topic_id": IDS}
DOORS |= {"index": INDEX, "records": RECORDS, "timeout_ms": st.sampled_from([0, 1000])}
ENTRIES = [
    form
    for form in REQUESTS
    if form[0] not in (ApiKey.DELETE_ACLS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
]


CHANGES = (
    *(ApiKey.CREATE_TOPICS, ApiKey.METADATA, ApiKey.DELETE_TOPICS, ApiKey.PRODUCE),
    *(ApiKey.CREATE_PARTITIONS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_CONFIGS),
)
LIKELIER = [form for form in ENTRIES if form[0] in CHANGES]


@st.composite
def asked(draw: st.DrawFn) -> tuple[Form, dict[str, Any]]:
    """A request; every other one is about topics."""
    form = draw(st.sampled_from(ENTRIES) | st.sampled_from(LIKELIER))
    return form, draw(bodies(form, **DOORS))


@settings(deadline=None, max_examples=30)
@given(st.lists(asked(), min_size=4, max_size=12))
def test_what_the_metadata_log_alone_has_survives_any_request(
    requests: list[tuple[Form, dict[str, Any]]],
) -> None:
    disk = SimulatedDisk()
    network = filled(disk)
    for (api_key, version, _), body in requests:
        network.send(1, api_key, version, body)
        network.run(10)
    check_restart(disk, network)
