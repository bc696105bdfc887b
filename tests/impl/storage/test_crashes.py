"""A disk that crashes at every write of many operations: nothing acknowledged is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from impl.log.snapshot import encode_snapshot
from impl.partition.producer_states import ProducerStates
from impl.protocol.errors import DecodeError
from impl.protocol.record_batch import BatchHeader
from impl.simulator.disk import CrashKind, SimulatedDisk
from impl.storage.metadata_log import MetadataLog
from impl.storage.partition_files import PartitionFiles
from tests.impl.storage import crash_workload
from tests.impl.storage.crash_workload import (
    Workload,
    check,
    contents,
    crash_at_each_write,
    encode,
    init_idempotent,
    produce,
    started,
)


def crash_everywhere(operations: int, kinds: list[CrashKind], seed: int) -> int:
    """Run, crash before each write as each of `kinds`; the number of crashes.

    Each broker that has recovered goes on for a while, and is killed in turn.
    """
    disk = SimulatedDisk()
    workload = Workload(disk, Random(seed))
    random, crashes = Random(seed), 0

    def crash() -> None:
        nonlocal crashes
        for kind in kinds:
            crashes += 1
            left = disk.crash(kind, random)
            network = started(left)
            check(network, workload.facts)
            again = started(left.crash(CrashKind.KILLED, random))
            assert contents(again) == contents(network), "lost in the second crash"

    with crash_at_each_write(disk, crash):
        for _ in range(operations):
            workload.step()
    return crashes


@pytest.mark.parametrize("kind", CrashKind)
def test_nothing_acknowledged_is_lost_in_a_crash(kind: CrashKind) -> None:
    assert crash_everywhere(8, [kind], seed=1) > 20


@pytest.mark.slow
def test_a_crash_at_every_write_of_80_operations() -> None:
    assert crash_everywhere(80, [CrashKind.TORN], seed=2) > 400


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


@pytest.mark.parametrize(
    ("place", "defect"),
    [
        ("impl.storage.partition_files.PartitionFiles._flush", never_flush),
        ("impl.partition.producer_states.ProducerStates.encode", encode_without_producers),
        ("impl.simulator.disk.SimulatedDisk.truncate", never_truncate),
        ("impl.partition.replica_log.check_crc", never_check),
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
