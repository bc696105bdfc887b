"""A disk that crashes at every write of many operations: nothing acknowledged is lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest

from impl.log.disk import Disk
from impl.log.snapshot import encode_snapshot
from impl.partition.open_transactions import OpenTransactions
from impl.partition.producer_states import ProducerStates
from impl.partition.stored_batch import StoredBatch
from impl.protocol.errors import DecodeError
from impl.protocol.record_batch import BatchHeader
from impl.simulator.disk import CrashKind, SimulatedDisk
from impl.storage.metadata_log import MetadataLog
from impl.storage.partition_files import PartitionFiles
from impl.storage.segment_swap import CLEANED, SWAP, segment_path, swap_in
from tests.impl.storage import crash_workload
from tests.impl.storage.crash_workload import (
    COMPACTED,
    Workload,
    check,
    contents,
    crash_at_each_write,
    encode,
    init_idempotent,
    produce,
    read_table,
    started,
)

pytestmark = pytest.mark.slow  # thousands of crashes


def is_swapping(disk: SimulatedDisk) -> bool:
    """Whether a segment is being replaced by the cleaner."""
    folders = ("c-0", "__transaction_state-0")
    return any(name.endswith((CLEANED, SWAP)) for each in folders for name in disk.list(each))


def crash_everywhere(
    operations: int,
    kinds: list[CrashKind],
    seed: int,
    moments: Callable[[SimulatedDisk], bool] = lambda _: True,
) -> int:
    """Run, crash before each write as each of `kinds`; the number of crashes.

    `moments` chooses some of the writes. Each broker that has recovered goes on for a while, and is
    killed in turn.
    """
    disk = SimulatedDisk()
    workload = Workload(disk, Random(seed))
    random, crashes = Random(seed), 0

    def crash() -> None:
        nonlocal crashes
        for kind in kinds if moments(disk) else ():
            crashes += 1
            left = disk.crash(kind, random)
            network = started(left)
            check(network, workload.facts)
            again = started(left.crash(CrashKind.KILLED, random))
            assert contents(again) == contents(network), "lost in the second crash"
            tables = [read_table(each.leader(*COMPACTED)) for each in (again, network)]
            assert tables[0] == tables[1], "lost of the compacted topic in the second crash"

    with crash_at_each_write(disk, crash):
        for _ in range(operations):
            workload.step()
    return crashes


@pytest.mark.parametrize("kind", CrashKind)
def test_nothing_acknowledged_is_lost_in_a_crash(kind: CrashKind) -> None:
    assert crash_everywhere(8, [kind], seed=1) > 20


@pytest.mark.parametrize("kind", CrashKind)
def test_a_crash_inside_a_swap_loses_nothing_and_brings_nothing_back(kind: CrashKind) -> None:
    assert crash_everywhere(45, [kind], seed=6, moments=is_swapping) > 50


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operations", "least"), [(40, 300), pytest.param(80, 400, marks=pytest.mark.full)]
)
def test_a_crash_at_every_write_of_many_operations(operations: int, least: int) -> None:
    assert crash_everywhere(operations, [CrashKind.TORN], seed=2) > least


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3, 8))
def test_all_kinds_of_crashes_at_every_write(seed: int) -> None:
    assert crash_everywhere(200, list(CrashKind), seed) > 3000


@pytest.mark.parametrize("kind", CrashKind)
@pytest.mark.parametrize("segment_bytes", [100, 1500])
def test_batches_whose_answers_were_lost_may_all_be_repeated(
    kind: CrashKind, segment_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five in flight, a kill: with the last one alone a client would write the others twice."""
    config = replace(crash_workload.LOG, segment_bytes=segment_bytes)
    monkeypatch.setattr(crash_workload, "LOG", config)
    disk = SimulatedDisk()
    network = started(disk)
    network.create("t", 1, 1)
    producer_id = init_idempotent(network)
    batches = [encode(producer_id, 0, n, n, is_transactional=False) for n in range(7)]
    offsets = [produce(network, ("t", 0), batch)["base_offset"] for batch in batches]
    again = started(disk.crash(kind, Random(1)))
    rows = [produce(again, ("t", 0), batch) for batch in batches[2:]]
    assert [(row["error_code"], row["base_offset"]) for row in rows] == [
        (0, offset) for offset in offsets[2:]
    ]


def never_flush(self: PartitionFiles, end_offset: int) -> None:
    """Answers before the disk has it."""
    self.recovery_point = end_offset


def encode_without_producers(self: ProducerStates) -> bytes:
    """A snapshot that lacks what stands in the log before it."""
    return encode_snapshot(())


def never_truncate(self: SimulatedDisk, path: str, size: int) -> None:
    """A torn tail stays in its file."""


def never_check(data: bytes, header: BatchHeader, offset: int) -> None:
    """A torn batch counts as one."""


def allocate_without_storing(self: MetadataLog, *_: int) -> None:
    """Producer ids begin where they began before the crash."""


def flush_once(
    disk: Disk, folder: str, base: int, suffixes: Sequence[str], replaced: Sequence[int]
) -> None:
    """All steps of a swap without a flush between: the names may reach the disk in any order."""
    held = disk.flush_folder
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "flush_folder", lambda _: None)
        swap_in(disk, folder, base, suffixes, replaced)
    held(folder)


def forget_swaps(disk: Disk, folder: str) -> None:
    """A restart removes what a swap has not ended, even where old segments are gone."""
    for name in disk.list(folder):
        if name.endswith((CLEANED, SWAP)):
            disk.remove(f"{folder}/{name}")


def write_unflushed(disk: Disk, folder: str, base: int, files: Mapping[str, bytes]) -> None:
    """The new segment may not be on the disk when the old ones go."""
    for suffix, data in files.items():
        disk.append(segment_path(folder, base, suffix) + CLEANED, data)
    disk.flush_folder(folder)


def keep_aborted(self: OpenTransactions, stored: StoredBatch) -> bool:
    """Aborted records count as committed ones, and their markers go."""
    return False


@pytest.mark.parametrize(
    ("place", "defect"),
    [
        ("impl.storage.partition_files.swap_in", flush_once),
        ("impl.storage.partition_files.write_cleaned", write_unflushed),
        ("impl.storage.log_directory.finish_swaps", forget_swaps),
        ("impl.partition.open_transactions.OpenTransactions.meet", keep_aborted),
    ],
)
def test_a_defect_of_the_cleaner_is_noticed(
    place: str, defect: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, defect)
    with pytest.raises((AssertionError, DecodeError, ValueError)):
        crash_everywhere(60, [CrashKind.TORN], seed=7, moments=is_swapping)


@pytest.mark.parametrize(
    ("place", "defect"),
    [
        ("impl.storage.partition_files.PartitionFiles._flush", never_flush),
        ("impl.partition.producer_states.ProducerStates.encode", encode_without_producers),
        ("impl.simulator.disk.SimulatedDisk.truncate", never_truncate),
        ("impl.partition.log_loader.check_crc", never_check),
        (
            "impl.storage.metadata_log.MetadataLog.store_next_producer_id",
            allocate_without_storing,
        ),
    ],
)
def test_a_planted_defect_is_noticed(
    place: str, defect: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, defect)
    with pytest.raises((AssertionError, DecodeError)):
        crash_everywhere(60, [CrashKind.TORN, CrashKind.LOST], seed=3)
