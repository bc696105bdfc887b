"""Our snapshots in Kafka's hands, and Kafka's in ours: 4.3.1's own code reads and writes them."""

import subprocess
from pathlib import Path

import pytest

from impl.log.disk import DirectoryDisk
from impl.log.snapshot import SnapshotEntry, decode_snapshot, encode_snapshot, snapshot_name
from impl.log.snapshot_directory import SnapshotDirectory
from impl.protocol.record_batch import MAX_SEQUENCE
from tests.impl.jars import Unavailable, jars

pytestmark = pytest.mark.slow  # Java

RELEASE = "4.3.1"
NOW_MS = 10_000_000_000
DAY_MS = 86_400_000

ENTRIES = [
    SnapshotEntry(0, 0, 6, 6, 2, NOW_MS, -1, -1),
    SnapshotEntry(4000, 32_767, 1, 9, 3, NOW_MS - DAY_MS + 1_000, -1, -1),
    SnapshotEntry(2**63 - 1, 5, MAX_SEQUENCE, 8, 0, NOW_MS, 7, -1),
    SnapshotEntry(17, 3, -1, -1, 0, NOW_MS, 2, -1),
]
EXPIRED = SnapshotEntry(18, 0, 0, 1, 0, NOW_MS - DAY_MS, -1, -1)


def kafka(folder: Path, end: int) -> list[str]:
    """What Kafka says of the folder; a snapshot of it is there afterwards."""
    try:
        storage = jars(f"kafka-storage-{RELEASE}", {"org.apache.kafka:kafka-storage": RELEASE})
    except Unavailable as reason:
        pytest.skip(str(reason))
    program = Path(__file__).parent / "Snapshots.java"
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{storage}/*", str(program)]
    arguments = [str(folder), str(end), str(NOW_MS)]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def row(entry: SnapshotEntry) -> str:
    """An entry as the program prints it."""
    is_known = entry.last_offset >= 0
    first = entry.last_offset - entry.offset_delta if is_known else -1
    told = (entry.producer_id, entry.producer_epoch, first, entry.last_offset)
    return " ".join(map(str, (*told, entry.timestamp, entry.coordinator_epoch, int(is_known))))


def test_kafka_reads_ours_and_we_read_kafkas(tmp_path: Path) -> None:
    snapshots = SnapshotDirectory(DirectoryDisk(tmp_path), "t-0")
    snapshots[9] = encode_snapshot(ENTRIES[:1])
    snapshots[10] = encode_snapshot([*ENTRIES, EXPIRED])
    snapshots[11] = encode_snapshot(ENTRIES)[:-1]
    told = kafka(tmp_path / "t-0", end=12)
    assert told[0] == "end 10"
    assert sorted(told[1:]) == sorted(map(row, ENTRIES))
    assert list(snapshots) == [9, 10, 12]
    assert sorted(decode_snapshot(snapshots[12])) == sorted(ENTRIES)
    assert (tmp_path / "t-0" / snapshot_name(12)).stat().st_size == len(encode_snapshot(ENTRIES))
