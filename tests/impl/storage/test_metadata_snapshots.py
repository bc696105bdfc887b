"""A metadata log that begins behind a snapshot, as that of every broker that has run for long."""

from __future__ import annotations

from random import Random
from struct import pack

import pytest

from impl.log.checkpoint_files import METADATA
from impl.log.disk import Disk
from impl.protocol.control_records import ControlType
from impl.protocol.record_batch import (
    CONTROL,
    Record,
    RecordBatch,
    decode_batches,
    encode_batch,
)
from impl.simulator.disk import CrashKind, SimulatedDisk
from impl.storage.damaged_files import IncompleteMetadata
from tests.impl.storage.test_kept_metadata import check_restart, described, filled, started

FOLDER = str(METADATA)
FIRST_SEGMENT = f"{FOLDER}/{0:020}.log"


def control_batch(kind: ControlType) -> bytes:
    record = Record(0, 0, pack(">hh", 0, kind), b"\0\0\0\0\0\0\0\0\0\0\0")
    return encode_batch(RecordBatch((record,), attributes=CONTROL))


def snapshot(batches: list[RecordBatch]) -> bytes:
    """The bytes of a snapshot: header, the batches of records, footer."""
    plain = b"".join(encode_batch(batch) for batch in batches if not batch.attributes & CONTROL)
    ends = (
        control_batch(kind) for kind in (ControlType.SNAPSHOT_HEADER, ControlType.SNAPSHOT_FOOTER)
    )
    header, footer = ends
    return header + plain + footer


def checkpoint_path(end_offset: int) -> str:
    return f"{FOLDER}/{end_offset:020}-{1:010}.checkpoint"


def behind_a_snapshot(kept: int = 3) -> tuple[SimulatedDisk, str]:
    """A stopped broker's disk whose metadata log has lost all but its last batches to a snapshot;
    the path of that snapshot."""
    disk = SimulatedDisk()
    filled(disk)
    disk = disk.crash(CrashKind.KILLED, Random(1))
    batches = decode_batches(disk.read(FIRST_SEGMENT))
    covered, rest = batches[:-kept], batches[-kept:]
    begin = rest[0].base_offset
    for name in disk.list(FOLDER):
        if name.startswith(f"{0:020}."):
            disk.remove(f"{FOLDER}/{name}")
    write(disk, f"{FOLDER}/{begin:020}.log", b"".join(map(encode_batch, rest)))
    path = checkpoint_path(begin)
    write(disk, path, snapshot(covered))
    return disk, path


def topic_folders(disk: Disk) -> dict[str, list[str]]:
    """All folders with their files, but that of the metadata: its indexes are built again."""
    return {folder: sorted(disk.list(folder)) for folder in disk.list("") if folder != FOLDER}


def write(disk: Disk, path: str, data: bytes) -> None:
    disk.append(path, data)
    disk.flush(path)
    disk.flush_folder(FOLDER)


def test_what_the_snapshot_has_is_served_with_the_log_behind_it() -> None:
    whole = SimulatedDisk()
    expected = described(filled(whole))
    disk, _ = behind_a_snapshot()
    network = started(disk)
    assert described(network) == expected
    check_restart(disk, network)


def test_the_newest_snapshot_counts() -> None:
    disk, path = behind_a_snapshot()
    write(disk, checkpoint_path(1), b"an older one, which nobody reads")
    assert described(started(disk)) == described(filled(SimulatedDisk()))
    assert path.rpartition("/")[2] in disk.list(FOLDER)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda _: None, "there is no checkpoint"),
        (lambda data: data[:-5], "ends|cut|bytes"),
        (
            lambda data: data[: len(data) - len(control_batch(ControlType.SNAPSHOT_FOOTER))],
            "no footer",
        ),
        (lambda data: data[:80] + bytes((data[80] ^ 1,)) + data[81:], "CRC|checksum"),
    ],
    ids=["missing", "cut", "without its footer", "damaged"],
)
def test_incomplete_metadata_is_refused_and_nothing_becomes_stray(
    change: object, problem: str
) -> None:
    disk, path = behind_a_snapshot()
    data = disk.read(path)
    disk.remove(path)
    changed = change(data)  # type: ignore[operator]
    if changed is not None:
        write(disk, path, changed)
    before = topic_folders(disk)
    with pytest.raises(IncompleteMetadata, match=problem) as refused:
        started(disk)
    assert FOLDER in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    assert topic_folders(disk) == before


def test_a_log_that_ends_before_its_snapshot_is_refused() -> None:
    disk, path = behind_a_snapshot()
    data = disk.read(path)
    write(disk, checkpoint_path(10_000), data)
    with pytest.raises(IncompleteMetadata, match="ends at offset"):
        started(disk)


def test_folders_without_any_metadata_of_theirs_are_not_taken_for_new_ones() -> None:
    disk, _ = behind_a_snapshot()
    for name in disk.list(FOLDER):
        disk.remove(f"{FOLDER}/{name}")
    before = sorted(disk.list(""))
    with pytest.raises(IncompleteMetadata):
        started(disk)
    assert sorted(disk.list("")) == before
