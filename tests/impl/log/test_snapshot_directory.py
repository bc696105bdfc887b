"""Snapshots in a folder: names, whole files, and a leader that comes back from them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from impl.log.disk import DirectoryDisk, StorageError
from impl.log.snapshot import SnapshotEntry, decode_snapshot, encode_snapshot, snapshot_offset
from impl.log.snapshot_directory import SnapshotDirectory
from impl.partition.leader import PartitionLeader
from impl.partition.log_config import LogConfig
from impl.partition.replica_log import ReplicaLog
from tests.impl.partition.test_leader import NOW_MS, p1, send, sequences


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[DirectoryDisk]:
    opened = DirectoryDisk(tmp_path)
    yield opened
    opened.close()


def test_it_is_a_mapping(disk: DirectoryDisk) -> None:
    snapshots = SnapshotDirectory(disk, "t-0")
    assert (len(snapshots), list(snapshots), 7 in snapshots) == (0, [], False)
    snapshots[10] = b"ten"
    snapshots[7] = b"seven"
    snapshots[7] = b"SEVEN"
    assert dict(SnapshotDirectory(disk, "t-0")) == {7: b"SEVEN", 10: b"ten"}
    del snapshots[10]
    assert list(snapshots) == [7]
    for offset in (10, 11):
        with pytest.raises(KeyError):
            snapshots[offset]
        with pytest.raises(KeyError):
            del snapshots[offset]


def test_the_names_are_kafkas_and_others_are_left_alone(
    disk: DirectoryDisk, tmp_path: Path
) -> None:
    snapshots = SnapshotDirectory(disk, "t-0")
    snapshots[42] = b""
    folder = tmp_path / "t-0"
    for name in ("00000000000000000042.log", "42.snapshot", "00000000000000000043.tmp"):
        (folder / name).touch()
    assert list(snapshots) == [42]
    assert (folder / "00000000000000000042.snapshot").exists()
    snapshots.clear()
    assert len(list(folder.iterdir())) == 3


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        ("00000000000000000000.snapshot", 0),
        ("09223372036854775807.snapshot", 2**63 - 1),
        ("0000000000000000001.snapshot", None),
        ("00000000000000000001.snapshot.deleted", None),
        ("-0000000000000000001.snapshot", None),
    ],
)
def test_names_are_read_back(name: str, offset: int | None) -> None:
    assert snapshot_offset(name) == offset


def test_a_file_that_could_not_be_written_replaces_nothing(
    disk: DirectoryDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshots = SnapshotDirectory(disk, "t-0")
    snapshots[7] = b"whole"

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StorageError, match="No space"):
        snapshots[7] = b"half"
    monkeypatch.undo()
    assert snapshots[7] == b"whole"


def test_a_leader_keeps_its_snapshots_in_files_and_comes_back_from_them(
    disk: DirectoryDisk,
) -> None:
    config = LogConfig(segment_bytes=2 * len(p1(0)))
    old = PartitionLeader(log=ReplicaLog(config=config, snapshots=SnapshotDirectory(disk, "t-0")))
    for sequence in range(7):
        send(old, p1(sequence))
    old.advance_high_watermark(7)
    snapshots = SnapshotDirectory(disk, "t-0")
    assert list(snapshots) == [2, 4, 6]
    assert decode_snapshot(snapshots[6]) == [SnapshotEntry(1, 0, 5, 5, 0, NOW_MS, -1, -1)]
    snapshots[6] = snapshots[6][:-1]
    new = PartitionLeader.restart(
        [b"".join(batch.data for batch in old.batches)],
        snapshots,
        leader_epoch=1,
        high_watermark=7,
        now_ms=NOW_MS,
        store=snapshots,
        segments=old.log.segments,
        config=config,
    )
    assert [skipped.offset for skipped in new.recovery.corrupt_snapshots] == [6]
    assert sequences(new) == [(3, 3), (4, 4), (5, 5), (6, 6)]
    assert list(snapshots) == [2, 4, 6, 7]
    assert decode_snapshot(snapshots[7]) == [SnapshotEntry(1, 0, 6, 6, 0, NOW_MS, -1, -1)]
    assert snapshots[7] == encode_snapshot(decode_snapshot(new.snapshot()))
