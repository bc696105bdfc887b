"""Stopping and going on: whatever ends a run, the same command ends with the same bytes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conformance.__main__ import main
from proofs.run.directory import RunDirectory
from proofs.run.files import REPOSITORY
from tests.sizes import sized

LONG = ("--traces", "6000")
"""A second of judging after the first wave: a short run is over in some milliseconds."""
REACH_TIMEOUT_S = 60.0
END_TIMEOUT_S = 20.0


def started(small: tuple[str, ...], out: Path) -> subprocess.Popen[str]:
    """The run in a process group of its own, so that its end can be watched."""
    return subprocess.Popen(
        [sys.executable, "-m", "conformance", *small, "--out", str(out)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def waves_in(out: Path) -> int:
    journal = out / "journal.jsonl"
    return journal.read_text().count("\n") if journal.exists() else 0


def wait_for(condition, running: subprocess.Popen[str]) -> bool:
    """Whether the condition came true before the process ended."""
    deadline = time.monotonic() + REACH_TIMEOUT_S
    while time.monotonic() < deadline and running.poll() is None:
        if condition():
            return True
        time.sleep(0.005)
    return condition()


def workers_end(group: int) -> bool:
    """Whether a process group becomes empty in time."""
    deadline = time.monotonic() + END_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


MOMENTS = ("prepared", "first wave", "third wave")


@pytest.mark.parametrize("moment", sized(MOMENTS, ["prepared", "first wave"]))
def test_a_killed_run_goes_on_and_reports_the_same_bytes(small, moment, whole_run, tmp_path):
    out = tmp_path / "out"
    reached = {
        "prepared": (out / "prepared" / "prepared.json").exists,
        "first wave": lambda: waves_in(out) >= 1,
        "third wave": lambda: waves_in(out) >= 3,
    }[moment]
    running = started(small, out)
    assert wait_for(reached, running)
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    assert workers_end(running.pid), "workers outlive their run"
    stood = waves_in(out)
    assert main([*small, "--out", str(out)]) == 0
    assert waves_in(out) > stood or stood >= 4
    for name in ("report.json", "junit.xml"):
        assert (out / name).read_bytes() == (whole_run.out / name).read_bytes()


def test_ctrl_c_exits_3_and_says_how_to_go_on(small, tmp_path, capsys):
    """What goes on reports the bytes of a whole run: the killed runs show it."""
    out = tmp_path / "out"
    running = started((*small, *LONG), out)
    assert wait_for(lambda: waves_in(out) >= 1, running)
    # As a terminal does: to the whole group.
    os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate()
    assert running.returncode == 3
    assert "the same command goes on from there" in said
    assert "Traceback" not in said
    assert main([*small, *LONG, "--out", str(out)]) == 0
    assert "going on: " in capsys.readouterr().err


def test_results_of_other_code_are_not_gone_on_with(small, tmp_path, capsys, whole_run):
    out = tmp_path / "out"
    short = [*small, "--traces", "5", "--out", str(out)]
    assert main(short) == 0
    arguments = json.loads((out / "arguments.json").read_text())
    (out / "arguments.json").write_text(json.dumps({**arguments, "code": "other"}))
    assert main(short) == 0
    said = capsys.readouterr().err
    assert "the code has changed" in said
    assert "judged before" not in said


def test_a_second_run_in_a_busy_folder_is_refused(small, tmp_path, capsys):
    with RunDirectory(tmp_path / "out", {}):
        assert main([*small, "--out", str(tmp_path / "out")]) == 2
    assert "another run is at work" in capsys.readouterr().err


@pytest.mark.full
@pytest.mark.xdist_group("spark")
def test_what_a_killed_run_on_spark_left_is_ended_by_processes_with_the_same_bytes(
    small, whole_run, tmp_path
):
    out = tmp_path / "out"
    spark = ("--backend", "spark", "--master", "local[2]", "--partitions", "7")
    running = started((*small, *spark), out)
    assert wait_for(lambda: waves_in(out) >= 1, running)
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()
    assert main([*small, "--out", str(out)]) == 0
    for name in ("report.json", "junit.xml"):
        assert (out / name).read_bytes() == (whole_run.out / name).read_bytes()
