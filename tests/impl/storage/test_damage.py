"""Damaged, missing and foreign files: what is lost is logged, what must not be lost is an error."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from pathlib import Path
from random import Random
from struct import pack
from zlib import crc32

import pytest

from impl import Broker, Producer
from impl.broker.durable_cluster import META_PROPERTIES, DurableCluster, ForeignDirectory
from impl.log.checkpoint_files import encode_partition_metadata
from impl.log.disk import DirectoryDisk, DirectoryInUse
from impl.protocol.errors import DecodeError, ErrorCode
from impl.protocol.schemas import ApiKey
from impl.simulator.disk import CrashKind, SimulatedDisk
from impl.storage.damaged_files import DamagedFile, DamagedSegment, LegacyMessages
from impl.storage.log_directory import CLEANED_OFFSETS, LOG_STARTS, RECOVERY_POINTS
from impl.storage.segment_swap import SWAP
from tests.impl.broker.network import Network
from tests.impl.storage.crash_workload import (
    PLACES,
    Workload,
    encode,
    produce,
    started,
)

FOLDER = "t-0"
LOG = f"{FOLDER}/{0:020d}.log"
OWNER = f"{FOLDER}/partition.metadata"
RECORDS = 5
INSIDE = 65
"""A byte of a batch that its CRC covers."""

Caplog = pytest.LogCaptureFixture


def filled() -> SimulatedDisk:
    """The disk of a broker with five batches in `t-0`, which was stopped cleanly."""
    disk = SimulatedDisk()
    network = started(disk)
    network.create("t", 1, 1)
    for value in range(RECORDS):
        write(network, value)
    close(network)
    return disk


def write(network: Network, value: int) -> None:
    batch = encode(-1, -1, -1, value, is_transactional=False)
    assert produce(network, PLACES[0], batch)["error_code"] == ErrorCode.NONE


def close(network: Network) -> None:
    assert isinstance(network.cluster, DurableCluster)
    network.cluster.close()


def killed(disk: SimulatedDisk, recovery_point: int = 0) -> SimulatedDisk:
    """As if the process had been killed, with all before the recovery point flushed."""
    disk.remove(".kafka_cleanshutdown")
    text = disk.read(RECOVERY_POINTS).decode().replace(f"t 0 {RECORDS}", f"t 0 {recovery_point}")
    disk.replace(RECOVERY_POINTS, text.encode())
    return disk


def spoil(disk: SimulatedDisk, path: str, position: int) -> None:
    """Change a byte."""
    data = bytearray(disk.read(path))
    data[position] ^= 1
    disk.replace(path, bytes(data))


def batch_bytes(disk: SimulatedDisk) -> int:
    return len(disk.read(LOG)) // RECORDS


def count(network: Network) -> int:
    return network.leader("t", 0).log_end_offset


def warnings(caplog: Caplog) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


# ---- recovery


def test_what_recovery_cuts_off_is_logged(caplog: Caplog) -> None:
    disk = killed(filled())
    size = batch_bytes(disk)
    spoil(disk, LOG, 3 * size + INSIDE)
    assert count(started(disk)) == 3
    assert warnings(caplog) == [
        f"simulated/t-0: recovery has cut off {2 * size} bytes, from offset 3 on: its CRC is wrong"
    ]


def test_a_damaged_snapshot_is_logged(caplog: Caplog) -> None:
    disk = filled()
    spoil(disk, f"{FOLDER}/{RECORDS:020d}.snapshot", 3)
    assert count(started(disk)) == RECORDS
    [line] = warnings(caplog)
    assert line.startswith(f"simulated/t-0/{RECORDS:020d}.snapshot is damaged, and deleted: ")


def test_a_start_with_nothing_damaged_logs_nothing(caplog: Caplog) -> None:
    disk = filled()
    started(disk)
    started(disk.crash(CrashKind.KILLED, Random(1)))
    assert not warnings(caplog)


def test_a_segment_that_cannot_be_read_while_it_is_served_is_logged_once(caplog: Caplog) -> None:
    disk = filled()
    network = started(disk)
    disk.replace(LOG, b"")
    row = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 2**20}
    limits = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 2**20}
    body = {**limits, "isolation_level": 0, "topics": [{"topic": "t", "partitions": [row]}]}
    for _ in range(3):
        answer = network.ask(ApiKey.FETCH, 4, body)
        [answered] = answer["responses"][0]["partitions"]
        assert answered["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR
    [line] = warnings(caplog)
    assert line.startswith(f"simulated/{LOG} cannot be read: ")


@pytest.mark.parametrize("kind", CrashKind)
def test_a_crash_is_a_warning_only_of_what_is_cut_off(kind: CrashKind, caplog: Caplog) -> None:
    """No folder without an owner, no log without segments and no stray folder is a crash's work."""
    disk = SimulatedDisk()
    workload, random = Workload(disk, Random(5)), Random(5)

    def crash() -> None:
        started(disk.crash(kind, random))

    disk.on_write = crash
    for _ in range(12):
        workload.step()
    assert {line for line in warnings(caplog) if "recovery has cut off" not in line} == set()


@pytest.mark.parametrize(("is_clean", "limit"), [(True, "closed cleanly"), (False, "point 5")])
def test_damage_that_was_flushed_is_an_error_that_says_where(is_clean: bool, limit: str) -> None:
    disk = filled() if is_clean else killed(filled(), RECORDS)
    size = batch_bytes(disk)
    spoil(disk, LOG, 2 * size + INSIDE)
    with pytest.raises(DamagedSegment) as caught:
        started(disk)
    text = str(caught.value)
    assert text.startswith(f"simulated/{LOG}: the batch at offset 2 (byte {2 * size}), ")
    assert text.endswith(
        f"{limit}, is damaged: its CRC is wrong; "
        "restore the file, or delete the folder to give up the partition"
    )
    assert isinstance(caught.value, DecodeError)


def test_a_file_that_ends_too_early_is_named() -> None:
    disk = filled()
    disk.truncate(LOG, batch_bytes(disk) + 30)
    with pytest.raises(DamagedSegment, match=rf"{LOG}: the batch at offset 1 \(byte "):
        started(disk)


def test_batches_in_a_wrong_order_are_named() -> None:
    disk = filled()
    size = batch_bytes(disk)
    data = disk.read(LOG)
    disk.replace(LOG, data[:size] + data)
    with pytest.raises(DamagedSegment, match=rf"offset 1 \(byte {size}\).* it has offset 0; "):
        started(disk)


def test_a_segment_with_the_name_of_another_is_named() -> None:
    disk = filled()
    other = f"{FOLDER}/{3:020d}.log"
    disk.rename(LOG, other)
    with pytest.raises(DamagedSegment, match=rf"^simulated/{other}: .* it has offset 0; restore"):
        started(disk)


def test_an_offset_that_nothing_checks_is_named() -> None:
    """It is outside the CRC."""
    disk = filled()
    size = batch_bytes(disk)
    spoil(disk, LOG, 2 * size + 1)
    with pytest.raises(DamagedSegment, match=rf"offset 2 \(byte {2 * size}\).* it has offset 281"):
        started(disk)


def test_a_damaged_swap_is_named() -> None:
    disk = filled()
    disk.append(LOG + SWAP, b"garbage")
    with pytest.raises(DamagedSegment, match=r"^simulated/t-0: a swap cannot be ended: "):
        started(disk)


def test_a_deleted_topics_recovery_point_is_not_that_of_the_next_one() -> None:
    """Else damage that recovery may cut off would be an error."""
    disk = killed(filled(), RECORDS)
    network = started(disk)
    assert b"t 0 5" in disk.read(RECOVERY_POINTS)
    topics = [{"name": "t", "topic_id": bytes(16)}]
    answer = network.ask(ApiKey.DELETE_TOPICS, 6, {"topics": topics, "timeout_ms": 1000})
    assert answer["responses"][0]["error_code"] == ErrorCode.NONE
    network.create("t", 1, 1)
    assert b"t 0 5" not in disk.read(RECOVERY_POINTS)


# ---- whose a folder is


@pytest.mark.parametrize("data", [b"", b"\xff\x00garbage", b"version: 0\ntopic_id: short"])
def test_a_damaged_owner_is_an_error(data: bytes) -> None:
    disk = filled()
    disk.replace(OWNER, data)
    with pytest.raises(DamagedFile, match=rf"^simulated/{OWNER}: .*; restore it, or delete it"):
        started(disk)
    assert LOG.split("/")[1] in disk.list(FOLDER)


def test_a_folder_without_an_owner_is_that_of_the_topic(caplog: Caplog) -> None:
    disk = filled()
    owner = disk.read(OWNER)
    disk.remove(OWNER)
    network = started(disk)
    assert count(network) == RECORDS
    assert disk.read(OWNER) == owner
    [line] = warnings(caplog)
    assert line.startswith("simulated/t-0 has no partition.metadata: it is taken for that of the")
    write(network, 7)


def test_another_topics_folder_is_set_aside(caplog: Caplog) -> None:
    disk = filled()
    disk.replace(OWNER, encode_partition_metadata(bytes(15) + b"\x07"))
    assert count(started(disk)) == 0
    aside = f"t-0.{0:032x}-stray"
    assert LOG.split("/")[1] in disk.list(aside)
    [line] = warnings(caplog)
    assert line.startswith(f"simulated/t-0 is renamed to {aside}, and not read: it is not of the t")


def test_a_folder_without_an_owner_is_named_where_there_is_no_metadata(caplog: Caplog) -> None:
    """A directory without metadata has the topics of its folders."""
    disk = SimulatedDisk({LOG: filled().read(LOG)})
    assert count(started(disk)) == RECORDS
    without, taken = warnings(caplog)
    assert without.startswith("simulated has no metadata: its topics are those of its folders")
    assert taken.startswith("simulated/t-0 has no partition.metadata: it is taken for that of the")


# ---- messages of older formats


def old_message(magic: int, offset: int, value: bytes) -> bytes:
    """`LegacyRecord.write`: no key, no compression."""
    timestamp = pack(">q", 5) if magic else b""
    rest = pack(">bb", magic, 0) + timestamp + pack(">ii", -1, len(value)) + value
    return pack(">qiI", offset, len(rest) + 4, crc32(rest)) + rest


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("size_bytes", [1, 100])
@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("has_batches", [True, False])
def test_messages_of_older_formats_are_refused_and_never_cut_off(
    magic: int, size_bytes: int, is_clean: bool, has_batches: bool
) -> None:
    """Of one byte, it is shorter than the header of a batch."""
    disk = filled() if is_clean else killed(filled(), recovery_point=0)
    before = disk.read(LOG) if has_batches else b""
    message = old_message(magic, RECORDS if has_batches else 0, bytes(size_bytes))
    disk.replace(LOG, before + message)
    problem = f"{LOG}: it has messages of format {magic}, from offset"
    with pytest.raises(LegacyMessages, match=problem):
        started(disk)
    assert disk.read(LOG) == before + message


@pytest.mark.parametrize("magic", [0, 1])
def test_what_only_looks_like_an_older_message_is_cut_off_after_a_kill(magic: int) -> None:
    disk = killed(filled(), recovery_point=0)
    torn = old_message(magic, RECORDS, bytes(100))[:-1] + b"x"
    disk.append(LOG, torn)
    assert count(started(disk)) == RECORDS


# ---- segments that are gone


def test_a_log_without_segments_is_logged(caplog: Caplog) -> None:
    disk = filled()
    disk.remove(LOG)
    left = ", ".join(name for name in disk.list(FOLDER) if name != "partition.metadata")
    assert count(started(disk)) == 0
    assert "snapshot" in left
    assert warnings(caplog) == [
        f"simulated/t-0 has no segment, so its log is empty; recovery point 5, files left: {left}"
    ]


@pytest.mark.parametrize("kept", [0, 3])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_log_that_ends_before_its_recovery_point_is_refused(kept: int, is_clean: bool) -> None:
    """Cut where a batch ends, so that nothing of it is damaged."""
    disk = filled() if is_clean else killed(filled(), recovery_point=RECORDS)
    before = disk.read(RECOVERY_POINTS)
    disk.replace(LOG, disk.read(LOG)[: kept * batch_bytes(disk)])
    with pytest.raises(DamagedSegment, match=rf"{LOG}: the log ends at offset {kept}, before its"):
        started(disk)
    assert disk.read(RECOVERY_POINTS) == before


def test_a_log_may_end_behind_its_recovery_point() -> None:
    disk = killed(filled(), recovery_point=3)
    disk.replace(LOG, disk.read(LOG)[: 3 * batch_bytes(disk)])
    assert count(started(disk)) == 3


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_segment_that_is_missing_between_others_is_logged(
    policy: str, tmp_path: Path, caplog: Caplog
) -> None:
    with Broker(directory=tmp_path) as kafka:
        kafka.create_topic("t", segment_bytes=str(1 << 20), cleanup_policy=policy)
        asyncio.run(fill(kafka.bootstrap_servers))
    _, second, third, *_ = sorted((tmp_path / FOLDER).glob("*.log"))
    second.unlink()
    with Broker(directory=tmp_path):
        pass
    missing = f"no records from offset {int(second.stem)} to {int(third.stem) - 1}:"
    assert [missing in line for line in warnings(caplog)] == [True] * (policy == "delete")


async def fill(servers: str) -> None:
    async with Producer(servers) as producer:
        for number in range(40):
            await producer.send_and_wait("t", bytes(100_000), key=b"%d" % number)


def test_a_log_without_its_folder_is_logged_once(caplog: Caplog) -> None:
    disk = filled()
    disk.remove(FOLDER)
    started(disk)
    started(disk.crash(CrashKind.KILLED, Random(1)))
    assert warnings(caplog) == [
        "simulated/t-0 has no segment, so its log is empty; recovery point 5, files left: none"
    ]


# ---- the small files


@pytest.mark.parametrize(
    "data",
    [
        b"\x9d\x02\xfe\xff",
        b"hello",
        b"",
        b"version=1\nnode.id=1\n",
        b"version=1\ncluster.id=c\n",
        b"version=1\ncluster.id=c\nnode.id=one\n",
        b"version=2\ncluster.id=c\nnode.id=1\n",
        b"version=1\ncluster.id=c\nnode.id=1\ndirectory.id=short\n",
    ],
)
def test_damaged_properties_are_an_error(data: bytes) -> None:
    disk = filled()
    disk.replace(META_PROPERTIES, data)
    with pytest.raises(DamagedFile, match=r"^simulated/meta.properties: .*; restore it, or delete"):
        started(disk)
    assert ".kafka_cleanshutdown" in disk.list("")


@pytest.mark.parametrize(
    "data", [b"version=1\nnode.id=7\ncluster.id=c\n", b"broker.id=7\ncluster.id=c\n"]
)
def test_another_nodes_directory_is_refused(data: bytes) -> None:
    disk = filled()
    disk.replace(META_PROPERTIES, data)
    with pytest.raises(ForeignDirectory, match=r"^simulated/meta.properties is of node 7, and"):
        started(disk)


@pytest.mark.parametrize(
    "data",
    [
        b"#\n#Sat Nov 28 10:00:00 UTC 2026\ncluster.id=k\nversion=1\nnode.id=1\n",
        b"cluster.id = k\n\nbroker.id = 1\nversion = 0\n",
        b"cluster.id=k\n",
    ],
)
def test_what_kafka_reads_is_read(data: bytes) -> None:
    disk = filled()
    disk.replace(META_PROPERTIES, data)
    assert started(disk).cluster.cluster_id == "k"


@pytest.mark.parametrize("data", [b"hello", b"0\n1\nt 0 many\n", b"\xff"])
@pytest.mark.parametrize("name", [RECOVERY_POINTS, LOG_STARTS, CLEANED_OFFSETS])
def test_a_damaged_checkpoint_is_logged_and_empty(name: str, data: bytes, caplog: Caplog) -> None:
    disk = killed(filled(), RECORDS)
    disk.replace(name, data)
    assert count(started(disk)) == RECORDS
    [line] = warnings(caplog)
    assert line.startswith(f"simulated/{name} is damaged, so ")


def test_a_damaged_checkpoint_of_epochs_is_logged(caplog: Caplog) -> None:
    disk = filled()
    disk.replace(f"{FOLDER}/leader-epoch-checkpoint", b"0\n1\nx 0\n")
    assert count(started(disk)) == RECORDS
    [line] = warnings(caplog)
    assert line.startswith("simulated/t-0/leader-epoch-checkpoint is damaged, so ")


LOCKS = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_directory_may_be_in_use_by_a_real_broker(tmp_path: Path) -> None:
    """Java locks a file by `fcntl`, as `lockf` does."""
    lock = tmp_path / ".lock"
    lock.touch()
    command = [sys.executable, "-c", LOCKS, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        with pytest.raises(DirectoryInUse, match="stop it"):
            DirectoryDisk(tmp_path)
        other.kill()
    DirectoryDisk(tmp_path).close()


def test_a_directory_in_use_may_be_in_use_by_this_process(tmp_path: Path) -> None:
    disk = DirectoryDisk(tmp_path)
    with pytest.raises(DirectoryInUse, match="of this process or of another one"):
        DirectoryDisk(tmp_path)
    disk.close()
