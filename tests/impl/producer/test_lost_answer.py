"""The example docs/examples/lost_answer.py prints what the documentation says."""

import runpy
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "lost_answer.py"

PRINTED = """\
producer id 7, epoch 0
0 ms: the producer sends a, b
  #1: sequences 0-1
  leader: appended; offset 0, log end 2
5 ms: the connection breaks, the answer is lost
105 ms: the producer sends a, b again
  #2: sequences 0-1
  leader: a duplicate, not appended; offset 0, log end 2
acknowledged: [True, True], offsets [0, 1]
"""


def test_the_example_prints_one_lost_answer(capsys):
    runpy.run_path(str(EXAMPLE))
    assert capsys.readouterr().out == PRINTED


def test_the_example_imports_only_impl():
    imports = [line for line in EXAMPLE.read_text().splitlines() if "import" in line.split()]
    assert [line.split()[1] for line in imports] == ["impl"]
