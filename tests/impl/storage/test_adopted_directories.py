"""Directories whose metadata is elsewhere, or not written yet: a broker's with ZooKeeper, folders
that were copied, what `kafka-storage format` leaves. The real ones are in
`test_recorded_directories`."""

from __future__ import annotations

from collections.abc import Callable
from struct import pack

import pytest

from impl.broker.durable_cluster import META_PROPERTIES, DurableCluster
from impl.broker.stored_configs import UnsupportedTopic
from impl.log.checkpoint_files import METADATA, encode_partition_metadata
from impl.partition.leader import PartitionLeader
from impl.protocol.control_records import ControlType
from impl.protocol.record_batch import Record, RecordBatch, decode_batches, encode_batch
from impl.simulator.disk import SimulatedDisk
from impl.storage.damaged_files import DamagedFile, MissingPartitions, TopicIdMismatch
from impl.storage.metadata_log import MetadataLog, MetadataRecord, encode_metadata_record
from impl.storage.metadata_snapshot import BOOTSTRAP
from tests.impl.broker.admin_recording import describe
from tests.impl.broker.network import Network
from tests.impl.storage.crash_workload import LOG, NOW_MS, encode, init_idempotent, produce
from tests.impl.storage.test_metadata_snapshots import checkpoint_path, control_batch, topic_folders

ZOOKEEPERS = b"version=0\nbroker.id=1\ncluster.id=c\n"
RAFTS = b"version=1\nnode.id=1\ncluster.id=c\n"
TOPIC, BROKER = 2, 4


def started(disk: SimulatedDisk) -> Network:
    cluster = DurableCluster(disk, "c", LOG, lambda: NOW_MS)
    return Network(cluster=cluster, log=LOG)


def with_records(*partitions: int, producer_id: int = -1) -> SimulatedDisk:
    """The folders of some partitions of a topic, each with a record, and nothing else."""
    epoch, sequence = (0, 0) if producer_id >= 0 else (-1, -1)
    batch = encode(producer_id, epoch, sequence, 1, is_transactional=False)
    return SimulatedDisk({f"t-{index}/{0:020}.log": batch for index in partitions})


def counts(network: Network) -> list[int]:
    topic = network.cluster.find("t", 0)
    return [leader.high_watermark for leader in topic.partitions]


def broker_files(disk: SimulatedDisk) -> dict[str, list[str]]:
    return {folder: disk.list(folder) for folder in disk.list("")}


# ---- topics without metadata


def test_folders_without_ids_are_those_of_one_topic_which_keeps_its_new_id() -> None:
    disk = with_records(0, 1)
    first = started(disk)
    topic_id = first.cluster.find("t", 0).topic_id
    assert counts(first) == [1, 1]
    assert counts(again := started(disk)) == [1, 1]
    assert again.cluster.find("t", 0).topic_id == topic_id


def test_a_folder_without_an_id_has_that_of_the_topics_other_folders() -> None:
    disk = with_records(0, 1)
    known = bytes(15) + b"\x07"
    disk.replace("t-1/partition.metadata", encode_partition_metadata(known))
    assert started(disk).cluster.find("t", 0).topic_id == known


def check_refused(disk: SimulatedDisk, error: type[DamagedFile], problem: str) -> None:
    before = broker_files(disk)
    with pytest.raises(error, match=problem) as refused:
        started(disk)
    assert len(str(refused.value).splitlines()) == 1
    assert broker_files(disk) == before


def test_folders_of_one_topic_with_different_ids_are_refused() -> None:
    disk = with_records(0, 1)
    for index in (0, 1):
        owner = encode_partition_metadata(bytes(15) + bytes([index + 7]))
        disk.replace(f"t-{index}/partition.metadata", owner)
    check_refused(disk, TopicIdMismatch, "t have different ids: t-0 has .*, t-1 has .* move")


def test_a_brokers_directory_with_some_partitions_is_refused() -> None:
    disk = with_records(0, 3)
    disk.replace(META_PROPERTIES, ZOOKEEPERS)
    check_refused(disk, MissingPartitions, "of the topic t for partitions 1, 2; copy")


def test_a_copied_folder_is_served_without_the_others() -> None:
    assert counts(started(with_records(2))) == [0, 0, 1]


@pytest.mark.parametrize(
    "name",
    [
        "t-0.0123456789abcdef0123456789abcdef-delete",
        "t-0.0123456789abcdef0123456789abcdef-stray",
        "t-0.0123456789abcdef0123456789abcdef-future",
        "t-x",
        "-0",
        "lost+found",
    ],
)
def test_a_folder_of_no_partition_is_left_alone(name: str) -> None:
    disk = with_records(0)
    disk.make_folder(name)
    disk.append(f"{name}/{0:020}.log", b"whatever it has")
    network = started(disk)
    assert [topic.name for topic in network.cluster.topics] == ["t"]
    assert disk.list(name) == [f"{0:020}.log"]


@pytest.mark.parametrize(
    ("producer_id", "first"), [(-1, 0), (0, 1000), (999, 1000), (1000, 2000), (5003, 6000)]
)
def test_ids_begin_behind_the_block_of_all_that_wrote(producer_id: int, first: int) -> None:
    """A block has ids that were given out and never wrote."""
    assert init_idempotent(started(with_records(0, producer_id=producer_id))) == first


# ---- metadata of real controllers


def changed(log: MetadataLog, *records: MetadataRecord) -> MetadataLog:
    log.append(records, NOW_MS)
    return log


def config(kind: int, name: str, setting: str, value: str) -> MetadataRecord:
    body = {"resource_type": kind, "resource_name": name, "name": setting, "value": value}
    return MetadataRecord("CONFIG_RECORD", body)


def topic(name: str, number: int) -> MetadataRecord:
    return MetadataRecord("TOPIC_RECORD", {"name": name, "topic_id": bytes(15) + bytes([number])})


def removal(number: int) -> MetadataRecord:
    return MetadataRecord("REMOVE_TOPIC_RECORD", {"topic_id": bytes(15) + bytes([number])})


@pytest.mark.parametrize(
    "records",
    [
        [config(TOPIC, "t", "retention.ms", "5"), topic("t", 1)],
        [topic("t", 1), config(TOPIC, "t", "retention.ms", "5")],
        [
            topic("t", 2),
            config(TOPIC, "t", "segment.ms", "7"),
            removal(2),
            config(TOPIC, "t", "retention.ms", "5"),
            topic("t", 1),
        ],
    ],
    ids=["before", "behind", "of a topic of the same name before it"],
)
def test_settings_of_a_topic_may_stand_before_it(records: list[MetadataRecord]) -> None:
    """3.3 writes them so."""
    image = changed(MetadataLog(PartitionLeader(leader_epoch=0)), *records).image
    [found] = image.topics.values()
    assert found.configs == {"retention.ms": "5"}


def formatted(*records: MetadataRecord) -> SimulatedDisk:
    """What `kafka-storage format` leaves."""
    rows = tuple(
        Record(delta, NOW_MS, None, encode_metadata_record(record))
        for delta, record in enumerate(records)
    )
    plain = encode_batch(RecordBatch(rows, last_offset_delta=len(rows) - 1))
    header, footer = map(control_batch, (ControlType.SNAPSHOT_HEADER, ControlType.SNAPSHOT_FOOTER))
    disk = SimulatedDisk()
    disk.replace(META_PROPERTIES, RAFTS)
    disk.replace(BOOTSTRAP, header + plain + footer)
    return disk


LEVEL = {"name": "transaction.version", "feature_level": 1}
FEATURE = MetadataRecord("FEATURE_LEVEL_RECORD", LEVEL)


def test_a_formatted_directory_begins_with_its_bootstrap() -> None:
    disk = formatted(FEATURE)
    for _ in range(2):
        assert started(disk).cluster.transaction_version == 1


def test_a_formatted_directory_of_voters_keeps_its_snapshot_of_nothing() -> None:
    """`kafka-storage format --standalone`."""
    disk = formatted(FEATURE)
    header, footer = map(control_batch, (ControlType.SNAPSHOT_HEADER, ControlType.SNAPSHOT_FOOTER))
    path = checkpoint_path(0).replace(f"-{1:010}", f"-{0:010}")
    disk.make_folder(str(METADATA))
    disk.replace(path, header + footer)
    for _ in range(2):
        assert started(disk).cluster.transaction_version == 1
        assert disk.read(path) == header + footer


def partition(topic_number: int, index: int, *replicas: int) -> MetadataRecord:
    body = {
        "partition_id": index,
        "topic_id": bytes(15) + bytes([topic_number]),
        "replicas": replicas,
        "isr": replicas,
        "removing_replicas": (),
        "adding_replicas": (),
        "leader": replicas[0],
        "leader_epoch": 0,
        "partition_epoch": 0,
    }
    return MetadataRecord("PARTITION_RECORD", body)


REGISTRATION = bytes((1, 0, 3)) + bytes(40)
"""A record of a kind that is not read: a broker's registration."""


@pytest.mark.parametrize("is_of_kafka", [True, False])
@pytest.mark.parametrize("replicas", [(1,), (2, 1), (2,), (2, 3)])
def test_a_partition_of_other_brokers_is_not_taken_for_an_empty_one(
    replicas: tuple[int, ...], is_of_kafka: bool
) -> None:
    """Our own nodes share a directory, and write no folder before the first record."""
    disk = with_settings(topic("t", 1), partition(1, 0, *replicas))
    if is_of_kafka:
        log = f"{METADATA}/{0:020}.log"
        batches = decode_batches(disk.read(log))
        last = batches[-1]
        record = Record(0, NOW_MS, None, REGISTRATION)
        more = RecordBatch((record,), base_offset=last.last_offset + 1, partition_leader_epoch=1)
        disk.append(log, encode_batch(more))
        disk.flush(log)
    if is_of_kafka and 1 not in replicas:
        brokers = ", ".join(map(str, replicas))
        with pytest.raises(MissingPartitions, match=f"t-0: .* are on the brokers {brokers}; copy"):
            started(disk)
    else:
        assert counts(started(disk)) == [0]


def with_settings(*records: MetadataRecord) -> SimulatedDisk:
    disk = formatted(*records)
    started(disk)
    return disk


def value_of(network: Network, kind: int, name: str, setting: str) -> tuple[str, int]:
    [row] = network.ask(*describe(kind, name, setting))["results"][0]["configs"]
    return row["value"], row["config_source"]


def test_topics_follow_what_requests_set_of_brokers() -> None:
    disk = with_settings(
        config(BROKER, "", "log.retention.ms", "5"),
        config(BROKER, "", "message.max.bytes", "2000"),
        config(BROKER, "1", "message.max.bytes", "3000"),
        config(BROKER, "7", "log.retention.ms", "7"),
    )
    network = started(disk)
    network.create("t", 1, 1)
    assert value_of(network, TOPIC, "t", "retention.ms") == ("5", 3)
    assert value_of(network, TOPIC, "t", "max.message.bytes") == ("3000", 2)
    assert value_of(network, BROKER, "", "message.max.bytes") == ("2000", 3)
    assert value_of(network, BROKER, "1", "message.max.bytes") == ("3000", 2)
    leader = network.cluster.find("t", 0).partitions[0]
    assert (leader.config.retention_ms, leader.config.max_message_bytes) == (5, 3000)
    big = encode(-1, -1, -1, 1, is_transactional=False) + bytes(3000)
    assert produce(network, ("t", 0), big)["error_code"] != 0


def test_a_setting_that_4_removed_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    disk = with_settings(
        topic("t", 1),
        config(TOPIC, "t", "message.format.version", "2.8"),
        config(TOPIC, "t", "retention.ms", "5"),
    )
    found = started(disk).cluster.topics.get("t")
    assert found is not None
    assert dict(found.configs) == {"retention.ms": "5"}
    assert "message.format.version=2.8" in caplog.text


@pytest.mark.parametrize(
    ("setting", "value"), [("remote.storage.enable", "true"), ("cleanup.policy", "shred")]
)
def test_a_topic_that_cannot_be_served_is_named(setting: str, value: str) -> None:
    disk = formatted(topic("t", 1), config(TOPIC, "t", setting, value))
    started(disk)
    before = topic_folders(disk)
    with pytest.raises(UnsupportedTopic, match="the topic t cannot be served with its settings"):
        started(disk)
    assert topic_folders(disk) == before


_Damage = Callable[[bytes], bytes]


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-3], lambda data: data[:80] + bytes([data[80] ^ 1]) + data[81:]]
)
def test_a_damaged_bootstrap_is_refused(damage: _Damage) -> None:
    disk = formatted(FEATURE)
    disk.replace(BOOTSTRAP, damage(disk.read(BOOTSTRAP)))
    check_refused(disk, DamagedFile, BOOTSTRAP)


def test_a_record_of_a_controller_has_a_frame() -> None:
    assert encode_metadata_record(FEATURE)[:3] == pack(">bbb", 1, 12, 0)
