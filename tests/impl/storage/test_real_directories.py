"""Directories of Kafka 4.3.1 and ours: each side reads what the other one wrote."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.adapters.brokers.kafka.broker import KafkaBroker
from impl import AclBinding, AclOperation, Broker, Producer, ResourceType, Security, TopicPartition
from impl.broker.durable_cluster import DurableCluster
from impl.log.snapshot import decode_snapshot
from impl.storage.log_directory import index_segments
from tests.impl.broker.admin_recording import SET, change, describe
from tests.impl.broker.conversation import Conversation
from tests.impl.broker.resource_recording import GROUP
from tests.impl.jars import Unavailable, jars

RELEASE = "4.3.1"
SEGMENT_BYTES = 1 << 20
NEW_TOPIC = {
    "name": "t",
    "num_partitions": 1,
    "replication_factor": 1,
    "configs": [{"name": "segment.bytes", "value": str(SEGMENT_BYTES)}],
}
SESSION = "consumer.session.timeout.ms"
OF_GROUP = change(GROUP, "g", (SESSION, SET, "50000"))


async def fill(bootstrap_servers: str) -> None:
    """Two idempotent producers, six transactions, a third of them aborted, and a group's offset."""
    for _ in range(2):
        async with Producer(bootstrap_servers, batch_size=5_000) as plain:
            handles = [await plain.send("t", b"%d" % n * 100) for n in range(3000)]
            await asyncio.gather(*handles)
    async with Producer(bootstrap_servers, transactional_id="T") as producer:
        for number in range(6):
            await producer.begin_transaction()
            handles = [await producer.send("t", b"%d-%d" % (number, n)) for n in range(20)]
            await asyncio.gather(*handles)
            await producer.send_offsets_to_transaction({TopicPartition("t", 0): number}, "g")
            await (producer.abort_transaction() if number % 3 else producer.commit_transaction())


@pytest.fixture(scope="module")
def kafkas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log directory that a real broker left."""
    folder = tmp_path_factory.mktemp("kafka")
    with KafkaBroker(RELEASE, folder=folder) as broker:
        host, port = broker.address
        with Conversation(host, port) as client:
            client.create(NEW_TOPIC)
            client.ask(*OF_GROUP)
        asyncio.run(fill(f"{host}:{port}"))
        broker.stop()
    [metadata] = folder.rglob("t-0/partition.metadata")
    return metadata.parent.parent


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that our broker left."""
    folder = tmp_path_factory.mktemp("ours")
    security = Security(
        listeners=("PLAINTEXT", "SASL_PLAINTEXT"),
        users={"alice": "secret"},
        acls=(AclBinding(ResourceType.GROUP, "closed", "User:alice", AclOperation.READ),),
        allow_everyone_if_no_acl_found=True,
    )
    with Broker(directory=folder, security=security) as broker:
        broker.create_topic("t", segment_bytes=str(SEGMENT_BYTES))
        host, port = broker.bootstrap_servers.split(",")[0].split(":")
        with Conversation(host, int(port)) as client:
            client.ask(*OF_GROUP)
        asyncio.run(fill(broker.bootstrap_servers))
    return folder


def dump(*paths: Path, options: tuple[str, ...] = ()) -> str:
    """What DumpLogSegments prints."""
    tools = {f"org.apache.kafka:{name}": RELEASE for name in ("kafka-tools", "kafka_2.13")}
    try:
        folder = jars(f"kafka-tools-{RELEASE}", tools)
    except Unavailable as reason:
        pytest.skip(str(reason))
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{folder}/*"]
    command += ["org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", *options]
    command += ["--files", ",".join(map(str, paths))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


COMPLAINT = re.compile(
    r"Mismatches|Non-consecutive|not match|larger than|out of order|out-of-order|Could not|corrupt"
    r"|Found invalid|Exception",
    re.IGNORECASE,
)


def complaints(text: str) -> list[str]:
    """The lines with which it complains, without offsets.

    It says of each file that does not begin at 0 that its first offset does not follow -1; of those
    that Kafka wrote, too.
    """
    return sorted(
        {re.sub(r" in .*", "", line) for line in text.splitlines() if COMPLAINT.search(line)}
    )


def files(folder: Path, *suffixes: str) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in suffixes)


ALL = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


@pytest.mark.kafka
@pytest.mark.parametrize("options", [(), ("--verify-index-only",), ("--index-sanity-check",)])
def test_kafkas_tool_reads_our_segments_as_its_own(
    kafkas: Path, ours: Path, options: tuple[str, ...]
) -> None:
    told = dump(*files(ours / "t-0", *ALL), options=options)
    assert told.count("Log starting offset") == len(files(ours / "t-0", ".log")) > 1
    assert complaints(told) == complaints(dump(*files(kafkas / "t-0", *ALL), options=options))


@pytest.mark.kafka
def test_kafkas_tool_notices_a_wrong_index(ours: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(ours / "t-0", tmp_path / "t-0")
    [index, *_] = files(copied, ".index")
    entries = index.read_bytes()
    index.write_bytes(entries[:3] + bytes([entries[3] + 1]) + entries[4:])
    told = dump(*files(copied, ".log", ".index"), options=("--verify-index-only",))
    assert "Mismatches" in told


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("topic", "option", "expected"),
    [
        ("__transaction_state", "--transaction-log-decoder", r'"transactionalId":"T"'),
        ("__consumer_offsets", "--offsets-decoder", r'"group":"g","topic":"t","partition":0'),
        ("__cluster_metadata", "--cluster-metadata-decoder", r'"type":"TOPIC_RECORD".*"name":"t"'),
        ("__cluster_metadata", "--cluster-metadata-decoder", r'"resourceName":"closed"'),
        (
            "__cluster_metadata",
            "--cluster-metadata-decoder",
            r'"resourceType":32,"resourceName":"g","name":"consumer.session.timeout.ms"',
        ),
        (
            "__cluster_metadata",
            "--cluster-metadata-decoder",
            r'"type":"USER_SCRAM_CREDENTIAL_RECORD".*"name":"alice","mechanism":2',
        ),
    ],
)
def test_kafkas_tool_decodes_our_state(ours: Path, topic: str, option: str, expected: str) -> None:
    logs = [path for folder in ours.glob(f"{topic}-*") for path in files(folder, ".log")]
    told = dump(*logs, options=(option,))
    assert re.search(expected, told)
    assert not complaints(told)


@pytest.fixture
def adopted(kafkas: Path, tmp_path: Path) -> Iterator[Broker]:
    """Our broker on a copy of the folder of one topic of Kafka's, without anything else."""
    shutil.copytree(kafkas / "t-0", tmp_path / "logs" / "t-0")
    with Broker(directory=tmp_path / "logs") as broker:
        yield broker


@pytest.mark.kafka
def test_our_broker_serves_a_topic_that_kafka_wrote(adopted: Broker, kafkas: Path) -> None:
    log = adopted.cluster.find("t", 0).partitions[0].log
    logs = files(kafkas / "t-0", ".log")
    assert b"".join(stored.data for stored in log.batches) == b"".join(
        path.read_bytes() for path in logs
    )
    [*_, snapshot] = files(kafkas / "t-0", ".snapshot")
    theirs = sorted(decode_snapshot(snapshot.read_bytes()))
    assert sorted(decode_snapshot(log.producer_states.encode())) == theirs
    assert [log.transaction_index(base) for base in log.segments] == [
        path.read_bytes() if (path := each.with_suffix(".txnindex")).exists() else b""
        for each in logs
    ]
    assert sum(map(len, map(log.transaction_index, log.segments)))


@pytest.mark.kafka
def test_our_indexes_are_kafkas_byte_for_byte(adopted: Broker, kafkas: Path) -> None:
    log = adopted.cluster.find("t", 0).partitions[0].log
    assert len(log.segments) > 1
    for base, indexes in index_segments(log).items():
        folder = kafkas / "t-0"
        assert indexes.encode_offset_index() == (folder / f"{base:020d}.index").read_bytes()
        assert indexes.encode_time_index() == (folder / f"{base:020d}.timeindex").read_bytes()


@pytest.mark.kafka
def test_our_broker_goes_on_where_kafka_stopped(adopted: Broker) -> None:
    before = adopted.log("t").high_watermark
    asyncio.run(fill(adopted.bootstrap_servers))
    assert adopted.log("t").high_watermark > before


@pytest.mark.kafka
def test_a_whole_directory_of_kafkas_is_served(kafkas: Path, tmp_path: Path) -> None:
    """Topics, the group's offset and settings, and the producer ids stand in the logs."""
    shutil.copytree(kafkas, tmp_path / "logs")
    with Broker(directory=tmp_path / "logs") as broker:
        assert isinstance(broker.cluster, DurableCluster)
        topic = broker.cluster.topics.get("t")
        assert topic is not None
        assert topic.configs["segment.bytes"] == str(SEGMENT_BYTES)
        host, port = broker.bootstrap_servers.split(":")
        with Conversation(host, int(port)) as client:
            assert client.fetch_offset("g", "t") == 3
            [group] = client.ask(*describe(GROUP, "g", SESSION))["results"]
            assert [row["value"] for row in group["configs"]] == ["50000"]
        known = topic.partitions[0].producers
        block = broker.cluster.producer_id_blocks.allocate(1)
        assert min(block) > max(known)
