"""An answer outlives its reader."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("room", ["proofs", "conformance"])
def test_a_closed_pipe_does_not_end_the_work(room: str) -> None:
    command = f"{sys.executable} -m {room} list | head -n 1; exit ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert result.returncode == 0
    assert result.stderr == ""
    assert len(result.stdout.splitlines()) == 1
