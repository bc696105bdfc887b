"""What the README shows is what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.__main__ import main as conformance
from proofs.__main__ import main as proofs

pytestmark = pytest.mark.fast

REPOSITORY = Path(__file__).parent.parent
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
EXAMPLE = REPOSITORY / "docs" / "examples" / "lost_answer.py"
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, flags=re.DOTALL)
ROOMS = {"proofs": proofs, "conformance": conformance}
COMMANDS = [
    line.partition("#")[0].split()[2:]
    for _, block in BLOCKS
    for line in block.splitlines()
    if line.startswith(("python -m proofs ", "python -m conformance "))
]
BENCHMARKS = re.findall(r"^python -m benchmarks\.(\w+)", README, flags=re.MULTILINE)


def test_the_script_is_the_example_and_prints_what_is_shown() -> None:
    scripts = [text for language, text in BLOCKS if language == "python"]
    assert scripts == [EXAMPLE.read_text(encoding="utf-8")]
    result = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(REPOSITORY)},
    )
    assert result.stdout in [text for _, text in BLOCKS]


def test_there_are_commands() -> None:
    assert len(COMMANDS) >= 10


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_command_is_understood(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """With --help after it, a command is parsed up to there; an unknown option comes first."""
    room, *rest = command
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(ROOMS[room]([*rest, "--help"]))
    assert ended.value.code == 0
    assert capsys.readouterr().out


def test_each_benchmark_is_there() -> None:
    assert BENCHMARKS
    assert all((REPOSITORY / "benchmarks" / f"{name}.py").exists() for name in BENCHMARKS)


def test_each_make_target_is_there() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^(\w+):", makefile, flags=re.MULTILINE))
    named = set(re.findall(r"^make (\w+)", README, flags=re.MULTILINE))
    assert {"conformance", "test"} <= named <= targets
