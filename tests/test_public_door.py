"""What the public door needs and gives: verbs without extras, verbs as functions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kafka_eos
from kafka_eos.verbs import EXTRAS

REPOSITORY = Path(__file__).parent.parent

NO_EXTRAS = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {extras}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
from kafka_eos.command_line import main
story = "docs/stories/request_refused.jsonl"
for words in (
    ["list"], ["explain", story], ["replay", story], ["witness", "ONGOING"],
    ["witness", "refusal+restart", "--scope", "idempotent-tiny"],
):
    assert main(words) == 0, words
"""


def test_reading_verbs_need_no_extra() -> None:
    """`list`, `explain`, `replay` and `witness` read models and traces."""
    extras = sorted(set(EXTRAS) - {"cramjam", "kazoo", "ziglang"})
    result = subprocess.run(
        [sys.executable, "-c", NO_EXTRAS.format(extras=extras)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr


def test_explore_run_and_prove_are_functions(tmp_path: Path) -> None:
    assert kafka_eos.explore("idempotent-tiny", engine="ints").verdict == "holds"
    report = kafka_eos.run("impl", scope="idempotent-restart", traces=3, out=tmp_path)
    assert (report["traces"], report["conforms"]) == (3, True)
    assert (tmp_path / "report.json").exists()
    with pytest.raises(RuntimeError, match="exit code 2"):
        kafka_eos.prove(only="everything")
