"""The toy checker of the documentation prints what it explains."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOY = Path(__file__).parent.parent / "docs" / "toy_checker.py"
PRINTED = """\
A broker that stores what it gets: 18 states, 17 transitions, levels 1 1 1 2 2 2 3 2 2 2
  always no record is stored twice: NO
    1. producer sends 0
    2. broker stores 0
    3. answer to 0 is lost
    4. producer sends 0
    5. broker stores 0
  always what is acknowledged is stored: yes
  sometimes an answer is lost: yes
  sometimes all is acknowledged: yes
A broker that compares first: 16 states, 16 transitions, levels 1 1 1 2 2 2 3 2 1 1
  always no record is stored twice: yes
  always what is acknowledged is stored: yes
  sometimes an answer is lost: yes
  sometimes all is acknowledged: yes
"""


def test_it_finds_the_duplicate_and_counts_exactly() -> None:
    command = [sys.executable, str(TOY)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == PRINTED
    assert result.stderr == ""


def test_it_stays_a_toy() -> None:
    lines = TOY.read_text(encoding="utf-8").splitlines()
    code = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    assert len(code) <= 110
