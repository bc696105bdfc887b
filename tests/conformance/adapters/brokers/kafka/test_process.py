"""A process that is ours alone: it ends when we want, and at the latest when we end."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.adapters.brokers.kafka.process import ServerProcess

REPOSITORY = Path(__file__).parents[5]
TIMEOUT_S = 10.0

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
"""

PARENT = """
import sys, time
from pathlib import Path
from conformance.adapters.brokers.kafka.process import ServerProcess
print(ServerProcess(["sleep", "60"], Path(sys.argv[1])).pid, flush=True)
time.sleep(60)
"""


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def state_of(pid: int) -> str:
    """T for a stopped process, empty for one that is gone or only waits to be collected."""
    result = subprocess.run(
        ["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return result.stdout.strip().replace("Z", "")


def test_it_ends_with_its_block(tmp_path):
    with ServerProcess(["sleep", "60"], tmp_path / "log") as process:
        assert process.exit_code is None
    assert process.exit_code == -signal.SIGKILL


def test_what_does_not_end_when_asked_is_killed(tmp_path):
    with ServerProcess([sys.executable, "-c", STUBBORN], tmp_path / "log") as process:
        wait_until(lambda: "ready" in process.quote_log())
        process.stop(timeout_s=0.1)
        assert process.exit_code == -signal.SIGKILL


def test_it_can_be_stopped_while_it_is_paused(tmp_path):
    with ServerProcess(["sleep", "60"], tmp_path / "log") as process:
        process.pause()
        wait_until(lambda: state_of(process.pid) == "T")
        process.stop()
        assert process.exit_code == -signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_it_does_not_outlive_us_however_we_end(number, tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, tmp_path / "log"],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        assert state_of(pid)
        parent.send_signal(number)
    wait_until(lambda: not state_of(pid))


def test_the_log_is_quoted_from_its_end(tmp_path):
    with ServerProcess(["seq", "100"], tmp_path / "log") as process:
        wait_until(lambda: process.exit_code == 0)
    quoted = process.quote_log().splitlines()
    assert quoted[0] == f"{tmp_path / 'log'} ends:"
    assert quoted[1:] == [str(number) for number in range(71, 101)]
