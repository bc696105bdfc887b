"""A disk that crashes at every write of 200 operations: nothing acknowledged is lost."""

from __future__ import annotations

from random import Random

import pytest

from impl.simulator.disk import CrashKind, SimulatedDisk
from tests.impl.storage.crash_workload import Workload, check, crash_at_each_write, started


def crash_everywhere(operations: int, kinds: list[CrashKind], seed: int) -> int:
    """Run, crash before each write as each of `kinds`; the number of crashes."""
    disk = SimulatedDisk()
    workload = Workload(started(disk), Random(seed))
    random, crashes = Random(seed), 0

    def crash() -> None:
        nonlocal crashes
        for kind in kinds:
            crashes += 1
            check(started(disk.crash(kind, random)), workload.facts)

    with crash_at_each_write(disk, crash):
        for _ in range(operations):
            workload.step()
    return crashes


@pytest.mark.parametrize("kind", CrashKind)
def test_nothing_acknowledged_is_lost_in_a_crash(kind: CrashKind) -> None:
    assert crash_everywhere(12, [kind], seed=1) > 30


@pytest.mark.slow
def test_a_crash_at_every_write_of_200_operations() -> None:
    assert crash_everywhere(200, list(CrashKind), seed=2) > 1000
