import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from proofs.explore import checkpoint as module
from proofs.explore.checkpoint import CheckpointError
from proofs.explore.explorer import explore
from proofs.explore.result import EndReason, Exploration, Interrupted, SearchProgress
from proofs.lift.machine import Machine
from tests.proofs.lift.toys import counters, two_phase_commit, window


def facts(found: Exploration) -> Exploration:
    return replace(found, engine="", seconds=0.0, peak_bytes=0)


@pytest.fixture(autouse=True)
def every_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr("proofs.explore.explorer.PROGRESS_SECONDS", 0.0)


def interrupt(machine: Machine, folder: Path, engine: str) -> None:
    """Ctrl-C once 2,000 states are found."""

    def press(progress: SearchProgress) -> None:
        if progress.distinct > 2000:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        explore(machine, engine, checkpoint=folder, progress=press)


@pytest.mark.parametrize("before", ["c", "ints"])
@pytest.mark.parametrize("after", ["c", "ints"])
def test_an_interrupted_search_goes_on_in_either_engine(
    tmp_path: Path, before: str, after: str
) -> None:
    machine = replace(two_phase_commit(6), guarantees=two_phase_commit(6).witnesses)
    interrupt(machine, tmp_path, before)
    found = explore(machine, after, checkpoint=tmp_path, workers=2)
    assert facts(found) == facts(explore(machine))


def test_going_on_says_how_much_is_there_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK_STATES", 500)
    machine = two_phase_commit(6)
    interrupt(machine, tmp_path, "c")
    seen: list[SearchProgress] = []
    found = explore(machine, checkpoint=tmp_path, progress=seen.append)
    again = [now for now in seen if now.is_restoring]
    [kept] = {now.frontier for now in again}
    assert 1000 < kept < found.distinct
    assert [now.done for now in again] == list(range(1, kept, 500))
    assert not seen[-1].is_restoring


def test_a_finished_search_is_read_back(tmp_path: Path) -> None:
    first = explore(window(), checkpoint=tmp_path)
    size = (tmp_path / "rules.bin").stat().st_size
    again = explore(window(), checkpoint=tmp_path)
    assert facts(again) == facts(first)
    assert (tmp_path / "rules.bin").stat().st_size == size


def test_a_stopped_search_stays_stopped(tmp_path: Path) -> None:
    first = explore(counters(9), stop=True, checkpoint=tmp_path)
    again = explore(counters(9), stop=True, checkpoint=tmp_path)
    assert first.ended is EndReason.VIOLATION
    assert facts(again) == facts(first)


def test_a_tail_behind_the_last_level_is_cut_off(tmp_path: Path) -> None:
    interrupt(two_phase_commit(6), tmp_path, "ints")
    for name in ("parents.bin", "rules.bin"):
        with (tmp_path / name).open("ab") as file:
            file.write(b"half a level, and then the power went")
    found = explore(two_phase_commit(6), checkpoint=tmp_path)
    assert facts(found) == facts(explore(two_phase_commit(6)))


def test_other_arguments_are_refused(tmp_path: Path) -> None:
    explore(counters(5), checkpoint=tmp_path)
    for machine, options in (
        (counters(6), {}),
        (window(), {}),
        (replace(counters(5), guarantees={}), {}),
        (counters(5), {"stop": True}),
        (counters(5), {"max_depth": 3}),
    ):
        with pytest.raises(CheckpointError, match="other arguments"):
            explore(machine, checkpoint=tmp_path, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="edges"):
        explore(counters(5), checkpoint=tmp_path, want_edges=True)


def test_damage_is_named(tmp_path: Path) -> None:
    explore(counters(5), checkpoint=tmp_path)
    head = tmp_path / "checkpoint.json"
    content = json.loads(head.read_text())
    os.truncate(tmp_path / "parents.bin", 7)
    with pytest.raises(CheckpointError, match=r"parents.bin is damaged"):
        explore(counters(5), checkpoint=tmp_path)
    head.write_text(json.dumps({**content, "format": 99}))
    with pytest.raises(CheckpointError, match="format 99"):
        explore(counters(5), checkpoint=tmp_path)
    head.write_text("{")
    with pytest.raises(CheckpointError, match="damaged"):
        explore(counters(5), checkpoint=tmp_path)


KILLED = """
import sys
from pathlib import Path
from proofs.explore import checkpoint
from proofs.explore.explorer import explore
from proofs.lift.machine import Machine
from tests.proofs.lift.toys import two_phase_commit
checkpoint.INTERVAL_SECONDS = 0.0
explore(two_phase_commit(8), workers=2, checkpoint=Path(sys.argv[1]))
"""


def test_a_killed_search_goes_on(tmp_path: Path) -> None:
    head = tmp_path / "checkpoint.json"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)])
    try:
        while not head.exists() or json.loads(head.read_text())["counts"]["distinct"] < 50_000:
            assert process.poll() is None
            time.sleep(0.005)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert json.loads(head.read_text())["counts"]["distinct"] < 1_745_408
    found = explore(two_phase_commit(8), checkpoint=tmp_path)
    assert found.distinct == 1_745_408
    assert facts(found) == facts(explore(two_phase_commit(8)))


def with_last_step_of(path: Path, index: int) -> None:
    """Damages the kept search: the last state is noted as what led to another."""
    width = {"parents.bin": 4, "rules.bin": 2}[path.name]
    content = path.read_bytes()
    other = content[index * width : (index + 1) * width]
    path.write_bytes(content[:-width] + other)


@pytest.mark.parametrize("engine", ["c", "ints"])
@pytest.mark.parametrize(("name", "index"), [("parents.bin", 0), ("rules.bin", 1)])
def test_what_no_search_finds_is_refused(
    tmp_path: Path, engine: str, name: str, index: int
) -> None:
    """A parent that comes before the last one, and a rule instance that leads nowhere new."""
    explore(window(), checkpoint=tmp_path)
    with_last_step_of(tmp_path / name, index)
    with pytest.raises(CheckpointError, match="damaged: no search finds"):
        explore(window(), engine, checkpoint=tmp_path)
