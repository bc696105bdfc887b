"""A disk that is full: it refuses, loses nothing acknowledged, and goes on when there is room."""

from __future__ import annotations

from random import Random

import pytest

from impl.broker.durable_cluster import DurableCluster
from impl.log.disk import StorageError
from impl.log.snapshot_directory import SnapshotDirectory
from impl.protocol.errors import ErrorCode
from impl.simulator.disk import CrashKind, SimulatedDisk
from tests.impl.storage.crash_workload import (
    LOG,
    PLACES,
    Workload,
    check,
    encode,
    produce,
    started,
)

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("room_bytes", range(0, 900, 90))
def test_a_full_disk_refuses_and_loses_nothing(room_bytes: int) -> None:
    disk = SimulatedDisk()
    workload = Workload(disk, Random(1))
    facts = workload.facts
    place, (producer_id, sequences) = PLACES[0], facts.idempotent or (0, {})
    disk.room_bytes = disk.size_bytes + room_bytes
    errors = []
    for value in range(20):
        batch = encode(producer_id, 0, sequences.get(place, 0), value, is_transactional=False)
        row = produce(workload.network, place, batch)
        errors.append(row["error_code"])
        if not row["error_code"]:
            facts.acked.setdefault(place, {})[row["base_offset"]] = value
            facts.plain.add(value)
            sequences[place] = sequences.get(place, 0) + 1
        else:
            facts.doubtful.add(value)  # it may be retried
    assert set(errors) <= {ErrorCode.NONE, STORAGE_ERROR}
    assert errors[-1] == STORAGE_ERROR
    for kind in CrashKind:
        check(started(disk.crash(kind, Random(2))), facts)
    disk.room_bytes = None
    assert produce(workload.network, place, batch)["error_code"] == ErrorCode.NONE


def test_a_full_disk_is_logged_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    network = started(disk)
    network.create("t", 1, 1)
    large = encode(-1, -1, -1, 10**30, is_transactional=False)
    small = encode(-1, -1, -1, 1, is_transactional=False)
    assert not produce(network, PLACES[0], large)["error_code"]
    for _ in range(2):
        caplog.clear()
        disk.room_bytes = disk.size_bytes + len(small)
        assert produce(network, PLACES[0], large)["error_code"] == STORAGE_ERROR
        assert not produce(network, PLACES[0], small)["error_code"]
        for _ in range(3):
            assert produce(network, PLACES[0], large)["error_code"] == STORAGE_ERROR
        disk.room_bytes = None
        for _ in range(3):
            assert not produce(network, PLACES[0], large)["error_code"]
        full, free = (record.getMessage() for record in caplog.records)
        assert full.startswith("simulated/t-0 cannot be appended to: a batch of t-0: ")
        assert "No space left on device" in full
        assert free == "simulated/t-0 can be appended to again"


def test_a_segment_that_cannot_begin_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimulatedDisk()
    network = started(disk)
    network.create("t", 1, 1)
    batch = encode(-1, -1, -1, 1, is_transactional=False)
    for _ in range(LOG.segment_bytes // len(batch)):
        assert not produce(network, PLACES[0], batch)["error_code"]
    disk.room_bytes = disk.size_bytes
    for _ in range(3):
        assert produce(network, PLACES[0], batch)["error_code"] == STORAGE_ERROR
    disk.room_bytes = None
    assert not produce(network, PLACES[0], batch)["error_code"]
    full, free = (record.getMessage() for record in caplog.records)
    assert full.startswith("simulated/t-0 cannot be given another segment: an index of t-0: ")
    assert free == "simulated/t-0 can be given another segment again"


def test_a_snapshot_that_cannot_be_written_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    snapshots = SnapshotDirectory(SimulatedDisk(room_bytes=0), "t-0")
    with pytest.raises(StorageError, match="a snapshot in t-0"):
        snapshots[0] = b"snapshot"
    [record] = caplog.records
    assert record.getMessage().startswith(f"simulated/t-0/{0:020d}.snapshot cannot be written: ")


def test_a_topic_on_a_full_disk_is_refused() -> None:
    disk = SimulatedDisk()
    workload = Workload(disk, Random(1))
    disk.room_bytes = disk.size_bytes
    workload.create()
    assert workload.refused == 1
    disk.room_bytes = None
    workload.create()
    assert workload.refused == 1
    again = started(disk.crash(CrashKind.KILLED, Random(1)))
    assert again.cluster.topics.get("new-2") is not None


def test_a_log_that_cannot_be_flushed_is_offline_until_a_restart(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimulatedDisk()
    network = started(disk)
    network.create("t", 1, 1)

    def fail(path: str) -> None:
        raise OSError(5, "Input/output error")

    batch = encode(-1, -1, -1, 1, is_transactional=False)
    assert produce(network, PLACES[0], batch)["error_code"] == ErrorCode.NONE
    monkeypatch.setattr(disk, "flush", fail)
    assert produce(network, PLACES[0], batch)["error_code"] == STORAGE_ERROR
    monkeypatch.undo()
    assert produce(network, PLACES[0], batch)["error_code"] == STORAGE_ERROR
    [record] = caplog.records
    assert "t-0 is offline until the broker is started again: " in record.getMessage()
    again = started(disk.crash(CrashKind.KILLED, Random(1)))
    assert produce(again, PLACES[0], batch)["error_code"] == ErrorCode.NONE


def test_after_a_clean_stop_nothing_is_recovered() -> None:
    disk = SimulatedDisk()
    workload = Workload(disk, Random(4))
    for _ in range(10):
        workload.step()
    workload.restart()
    cluster = workload.network.cluster
    assert isinstance(cluster, DurableCluster)
    assert cluster.logs.was_clean
    assert not DurableCluster(disk, "c", cluster.topics.config, lambda: 1).logs.was_clean
